"""Contiguous groups of virtual nodes: even ones, shards, and groups balanced by weight.

A vnode is a number from 0 to ``vnode_count - 1``. A group is a ``range`` of them; a division is a
tuple of groups, in order, that together hold every vnode once.

Promises: everything here is a pure function of its arguments, for ever: which shard a vnode
belongs to is a fact about files that exist.
Does not know: who owns a group (see mapping.py), what a weight measures.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

DEFAULT_VNODE_COUNT = 256
# On disk a vnode takes two bytes. Never raise it.
MAX_VNODE_COUNT = 32768
DEFAULT_SHARDS = 16


def check_vnode_count(vnode_count: int) -> None:
    """Raise ValueError unless there can be ``vnode_count`` vnodes: 1 to 32768."""
    if not 1 <= vnode_count <= MAX_VNODE_COUNT:
        raise ValueError(f"vnode_count must be 1 to {MAX_VNODE_COUNT}, not {vnode_count}")


def even_ranges(vnode_count: int, count: int) -> tuple[range, ...]:
    """Return ``count`` groups whose sizes differ by at most one, the larger ones first.

    With more groups than vnodes the last ones are empty. ValueError for a count below 1.
    """
    _check_group_count(count)
    size, larger = divmod(vnode_count, count)
    ends = [size * index + min(index, larger) for index in range(count + 1)]
    return _between(ends)


def shard_ranges(vnode_count: int, shards: int) -> tuple[range, ...]:
    """Return the vnodes of every shard: the even groups, none of them empty.

    ValueError unless there are 1 to ``vnode_count`` shards.
    """
    # On disk: files are cut at these bounds. Never change them.
    check_vnode_count(vnode_count)
    if not 1 <= shards <= vnode_count:
        raise ValueError(f"shards must be 1 to {vnode_count} (the vnode_count), not {shards}")
    return even_ranges(vnode_count, shards)


def shards_of(vnodes: NDArray[np.integer], vnode_count: int, shards: int) -> NDArray[np.int64]:
    """Return for every vnode the index in ``shard_ranges(vnode_count, shards)`` of its shard.

    Requires: vnodes from 0 to ``vnode_count - 1``. ValueError where there is no such division.
    """
    starts = [shard.start for shard in shard_ranges(vnode_count, shards)]
    return np.searchsorted(starts, vnodes, side="right") - 1


def shard_of(vnode: int, vnode_count: int, shards: int) -> int:
    """Return the index in ``shard_ranges(vnode_count, shards)`` of the shard with ``vnode``.

    ValueError where there is no such vnode, or no such division.
    """
    if not 0 <= vnode < vnode_count:
        raise ValueError(f"vnode must be 0 to {vnode_count - 1}, not {vnode}")
    starts = [shard.start for shard in shard_ranges(vnode_count, shards)]
    return bisect_right(starts, vnode) - 1


def groups(weights: Sequence[int], count: int) -> tuple[range, ...]:
    """Return ``count`` groups such that the heaviest is as light as contiguous groups can be.

    ``weights[vnode]`` is that vnode's weight, 0 or more, in any unit: say, bytes. Among equals the
    heaviest group is as short as can be, so that vnodes without weight are spread evenly. No
    group is empty unless there are more groups than vnodes. ValueError for a negative weight or a
    count below 1.
    """
    _check_group_count(count)
    if any(weight < 0 for weight in weights):
        raise ValueError(f"weights must not be negative, as {min(weights)} is")
    vnodes = len(weights)
    filled = min(count, vnodes)
    # A vnode more or less decides only between equal weights.
    loads = [int(weight) * (vnodes + 1) + 1 for weight in weights]
    totals = list(accumulate(loads, initial=0))
    capacity = _least_capacity(totals, max(loads, default=0), filled)
    return _between(_fill(totals, capacity, filled) + [vnodes] * (count - filled))


def _least_capacity(totals: Sequence[int], heaviest: int, count: int) -> int:
    """Return the least capacity with which ``count`` groups hold everything, by bisection."""
    low, high = heaviest, totals[-1]
    while low < high:
        middle = (low + high) // 2
        if _fits(totals, middle, count):
            high = middle
        else:
            low = middle + 1
    return low


def _fits(totals: Sequence[int], capacity: int, count: int) -> bool:
    end = 0
    for _ in range(count):
        end = bisect_right(totals, totals[end] + capacity) - 1
        if end == len(totals) - 1:
            return True
    return end == len(totals) - 1


def _fill(totals: Sequence[int], capacity: int, count: int) -> list[int]:
    """Return the bounds of ``count`` groups, each filled so that every later one gets a vnode."""
    bounds = [0]
    for left in range(count - 1, -1, -1):
        full = bisect_right(totals, totals[bounds[-1]] + capacity) - 1
        bounds.append(min(full, len(totals) - 1 - left))
    return bounds


def _between(bounds: Sequence[int]) -> tuple[range, ...]:
    return tuple(range(start, end) for start, end in pairwise(bounds))


def _check_group_count(count: int) -> None:
    if count < 1:
        raise ValueError(f"the number of groups must be at least 1, not {count}")
