"""What a read of some vnodes, with a condition on the key or without, has to look at.

A range of keys has a part in every vnode; a condition on the key leaves single keys, and ranges.

Promises: every row of the ranges is read exactly once; a read that would seek too often gets fewer
and wider ranges.
Does not know: conditions, files.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from ..codec.ragged import Bytes
from ..errors import OptionError
from ..schema.schema import EVERY_KEY, KeyRange
from .encoding import Encoding
from .keyspan import PrimaryKeyRanges, merged
from .scan import Bounds
from .vnoderanges import VnodeRanges

# Finding a range in one file costs about as much as reading this many rows (measured: 80 us).
_ROWS_A_SEEK = 512
_FEW_SEEKS = 1024


@dataclass(frozen=True, slots=True)
class Pruning:
    """What is left to read, for EXPLAIN.

    ``vnodes`` of ``vnode_count`` can hold rows that match; ``points``: single keys looked up;
    ``ranges``: ranges of keys scanned, each in all vnodes that may hold its rows, None: all keys
    are; ``columns``: read, those only the condition needs included. ``index``: the one in which the
    points were found, None if none was used.
    """

    vnodes: int
    vnode_count: int
    points: int
    ranges: int | None
    columns: tuple[str, ...]
    index: str | None = None


@dataclass(frozen=True, slots=True)
class Pruned:
    """The ``points``, distinct full keys, and the ``ranges`` of full keys, ascending.

    No point is in a range, and ranges do not overlap.
    """

    points: Bytes
    ranges: Sequence[Bounds]

    @property
    def around(self) -> Bounds:
        """The range that encloses all ranges; there is at least one."""
        return self.ranges[0][0], self.ranges[-1][1]


def prune(
    encoding: Encoding,
    keys: Iterable[KeyRange],
    groups: Sequence[range],
    most_seeks: int = _FEW_SEEKS,
) -> Pruned:
    """Return what to read for some ranges of keys, which may overlap, in some vnodes.

    If there are more than ``most_seeks`` of them in all vnodes, those that are in every vnode are
    replaced by the one range around them. What is read in one vnode is read in all, if others are.
    """
    vnodes = {vnode for group in groups for vnode in group}
    points, everywhere, by_vnode = _sorted_out(encoding, keys, vnodes)
    if not everywhere:
        few = [_in_vnode(encoding, vnode, by_vnode[vnode]) for vnode in sorted(by_vnode)]
        ranges: list[Bounds] = [bounds for part in few for bounds in part]
        outside = _outside(points, ranges)
        return Pruned(pa.array(outside, pa.large_binary()), ranges)
    everywhere = merged([*everywhere, *(bounds for part in by_vnode.values() for bounds in part)])
    if len(everywhere) > 1 and len(everywhere) * len(vnodes) > most_seeks:
        everywhere = [_hull(everywhere)]
    in_all = VnodeRanges.of(encoding.prefix, groups, everywhere)
    left = sorted(point for point in points if not in_all.holds(point))
    return Pruned(pa.array(left, pa.large_binary()), in_all)


def _in_vnode(encoding: Encoding, vnode: int, keys: Sequence[Bounds]) -> list[Bounds]:
    """Return some ranges of primary keys as ranges of full keys in one vnode."""
    first, end = encoding.vnode_bounds(range(vnode, vnode + 1))
    return [(first + low, end if high is None else first + high) for low, high in merged(keys)]


def ranges_in(encoding: Encoding, groups: Sequence[range], keys: KeyRange) -> Sequence[Bounds]:
    """Return the ascending ranges of full keys that hold the rows of a range in some vnodes."""
    if keys == EVERY_KEY:
        return [encoding.vnode_bounds(group) for group in groups]
    return ranges_by_vnode(encoding, groups, keys)


def ranges_by_vnode(
    encoding: Encoding, groups: Sequence[range], keys: KeyRange
) -> Sequence[Bounds]:
    """Return what `ranges_in` does, each range within one vnode."""
    low, high = encoding.key_bounds(keys)
    vnode = encoding.vnode_of_range(keys)
    if high is not None and high <= low:
        return []
    if vnode is None:
        return VnodeRanges.of(encoding.prefix, groups, [(low, high)])
    is_asked = any(vnode in group for group in groups)
    return _in_vnode(encoding, vnode, [(low, high)]) if is_asked else []


def check_vnodes(groups: Sequence[range], vnode_count: int) -> None:
    """Raise OptionError unless these are ranges of vnodes, none of which comes twice."""
    last = 0
    for group in sorted(groups, key=lambda group: group.start):
        if not last <= group.start <= group.stop <= vnode_count or group.step != 1:
            raise OptionError(
                f"{group} among {len(groups)} ranges of vnodes: they must not overlap, and must be "
                f"within the {vnode_count} vnodes of the store"
            )
        last = group.stop


def worthwhile_seeks(rows: int, files: int) -> int:
    """Return how many ranges a read may seek in each file; ``rows``: those of all files."""
    return max(_FEW_SEEKS, rows // _ROWS_A_SEEK) // max(files, 1)


def primary_span(encoding: Encoding, pruned: Pruned) -> Bounds:
    """Return the range of primary keys that encloses all that is read; that is not nothing."""
    start = encoding.prefix.size
    if isinstance(pruned.ranges, VnodeRanges):
        spans = [*pruned.ranges.primary]
    else:
        spans = [*PrimaryKeyRanges.of(pruned.ranges, start).ranges]
    spans += [(key[start:], key[start:] + b"\0") for key in pruned.points.to_pylist()]
    ends = [high for _, high in spans]
    return min(low for low, _ in spans), None if None in ends else max(filter(None, ends))


def matching_vnodes(encoding: Encoding, keys: Iterable[KeyRange]) -> set[int] | None:
    """Return the vnodes that can hold rows of some ranges; None for all."""
    vnodes = {encoding.vnode_of_range(key_range) for key_range in keys}
    return None if None in vnodes else {vnode for vnode in vnodes if vnode is not None}


def describe_pruning(
    encoding: Encoding, keys: tuple[KeyRange, ...] | None, columns: tuple[str, ...]
) -> Pruning:
    """Return what is left to read for some ranges of keys; None: for all keys."""
    count = encoding.vnode_count
    if keys is None:
        return Pruning(count, count, 0, None, columns)
    points = sum(len(key_range.prefix) == len(encoding.key_names) for key_range in keys)
    vnodes = matching_vnodes(encoding, keys)
    return Pruning(
        count if vnodes is None else len(vnodes), count, points, len(keys) - points, columns
    )


def _sorted_out(
    encoding: Encoding, keys: Iterable[KeyRange], vnodes: set[int]
) -> tuple[set[bytes], list[Bounds], dict[int, list[Bounds]]]:
    """Return (full keys, ranges of every vnode, ranges of single vnodes)."""
    points: set[bytes] = set()
    everywhere: list[Bounds] = []
    by_vnode: dict[int, list[Bounds]] = defaultdict(list)
    for key_range in keys:
        if len(key_range.prefix) == len(encoding.key_names):
            full_key = encoding.encode_key(key_range.prefix)
            if encoding.prefix.vnode_of(full_key) in vnodes:
                points.add(full_key)
            continue
        vnode = encoding.vnode_of_range(key_range)
        if vnode is None:
            everywhere.append(encoding.key_bounds(key_range))
        elif vnode in vnodes:
            by_vnode[vnode].append(encoding.key_bounds(key_range))
    return points, merged(everywhere), by_vnode


def _hull(bounds: Sequence[Bounds]) -> Bounds:
    return bounds[0][0], bounds[-1][1]


def _outside(points: set[bytes], ranges: Sequence[Bounds]) -> list[bytes]:
    """Return the full keys that are in none of the ranges, ascending."""
    starts = [low for low, _ in ranges]
    outside = []
    for key in sorted(points):
        index = bisect_right(starts, key) - 1
        high = ranges[index][1] if index >= 0 else key
        if high is not None and key >= high:
            outside.append(key)
    return outside
