"""Which entries of documents count, by their paths and versions, and which are there.

An entry counts if it is the newest at its path and none at a path above it is newer. Within one
version an entry comes before those below it: they count with it. A value of which parts were
removed is there while one of its parts is. A liveness, which is below the object that it is about,
counts until anything else below that object is newer.

Promises: of the entries that count, and others with them, the same entries count: neighbouring
versions may be resolved first, and the result with the others later.
Does not know: what an entry says, or where a version comes from.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...codec.path import LIVENESS
from ...codec.ragged import (
    Bytes,
    Positions,
    equal_neighbours,
    gather,
    lengths_of,
    parts_of,
    sort_order,
)

Flags: TypeAlias = NDArray[np.bool_]

# Below all versions.
_NONE = np.iinfo(np.int64).min


def counting(
    paths: Bytes,
    repeats: Flags,
    depths: NDArray[np.uint8],
    versions: Positions,
    is_liveness: Flags | None = None,
) -> Flags:
    """Return which entries count.

    ``paths`` ascend, each with what tells its row from others before it; ``repeats`` says for each
    but the first whether it is that of the entry before. ``depths``: the number of components of
    each; ``versions``: int64, greater ones are newer; of equal ones at one path the last counts.
    ``is_liveness``: which entries are a liveness, None if none is.
    """
    count = len(paths)
    newest = _newest_of_equal(repeats, versions) if repeats.any() else np.arange(count)
    own = versions[newest]
    above = _newest_above(paths, newest, depths[newest], own)
    counts = np.zeros(count, np.bool_)
    counts[newest[own >= above]] = True
    if is_liveness is None or not (is_liveness & counts).any():
        return counts
    rows = np.flatnonzero(counts)
    flags = is_liveness[rows]
    below = newest_beside(paths.take(pa.array(rows)), depths[rows], versions[rows], flags)
    counts[rows[flags]] = below <= versions[rows[flags]]
    return counts


def newest_beside(
    paths: Bytes, depths: NDArray[np.uint8], versions: Positions, is_liveness: Flags
) -> Positions:
    """Return for each liveness the newest version below the object that it is about, its own too.

    ``paths`` are distinct and ascend.
    """
    chosen = np.flatnonzero(is_liveness)
    data, offsets = parts_of(paths)
    lengths = lengths_of(paths)[chosen] - len(LIVENESS)
    everything = pa.concat_arrays([paths, gather(data, offsets[:-1][chosen], lengths)])
    order = sort_order(everything)
    ordered = everything.take(pa.array(order))
    is_first = np.append(True, ~equal_neighbours(ordered))
    groups = np.empty(len(order), np.int64)
    groups[order] = np.cumsum(is_first) - 1
    firsts = np.flatnonzero(is_first)
    own = np.full(len(firsts), _NONE)
    own[groups[: len(paths)]] = versions
    all_depths = np.concatenate([depths, depths[chosen] - 1])[order][firsts]
    newest = np.full(len(firsts), _NONE)
    numbers, distinct = np.arange(len(firsts)), ordered.take(pa.array(firsts))
    for below, parents in _pairs(distinct, numbers, all_depths):
        np.maximum.at(newest, parents, own[below])
    beside: Positions = newest[groups[len(paths) :]]
    return beside


def have_above(paths: Bytes, depths: NDArray[np.uint8], flags: Flags) -> Flags:
    """Return which entries are below one that is flagged. ``paths`` are distinct and ascend."""
    return _newest_above(paths, np.arange(len(paths)), depths, flags.astype(np.int64)) > 0


def are_there(
    paths: Bytes, depths: NDArray[np.uint8], is_alive: Flags, holds: Flags | None = None
) -> Flags:
    """Return which entries, all of which count, say that something is at their paths.

    One below which an entry is not alive is there only with another one below it: what is written
    whole and empty is there, what has lost its last part is not. ``holds``: those that may have
    parts in themselves. ``paths`` are distinct and ascend.
    """
    if is_alive.all():
        return is_alive
    has_lost_parts = have_below(paths, depths, ~is_alive)
    if holds is not None:
        has_lost_parts &= ~holds
    is_complete = is_alive & ~has_lost_parts
    return is_complete | (is_alive & have_below(paths, depths, is_complete))


def have_below(paths: Bytes, depths: NDArray[np.uint8], flags: Flags) -> Flags:
    """Return which entries are above one that is flagged. ``paths`` are distinct and ascend."""
    have_below = np.zeros(len(paths), np.bool_)
    for below, parents in _pairs(paths, np.arange(len(paths)), depths):
        have_below[parents[flags[below]]] = True
    return have_below


def _newest_of_equal(repeats: Flags, versions: Positions) -> Positions:
    """Return the index of the newest entry at each path, in the order of the paths."""
    is_first = np.append(True, ~repeats)
    firsts = np.flatnonzero(is_first)
    newest = np.maximum.reduceat(versions, firsts)
    groups = np.cumsum(is_first) - 1
    indices = np.flatnonzero(versions == newest[groups])
    # An Arrow map may hold a key twice: the later entry counts.
    is_last = np.append(groups[indices[1:]] != groups[indices[:-1]], True)
    last: Positions = indices[is_last]
    return last


def _newest_above(
    paths: Bytes, indices: Positions, depths: NDArray[np.uint8], versions: Positions
) -> Positions:
    """Return the newest version at the paths above each of some distinct ascending paths.

    ``indices``: those of the entries in ``paths``.
    """
    above = np.full(len(indices), _NONE)
    for below, parents in _pairs(paths, indices, depths):
        above[below] = np.maximum(above[below], versions[parents])
    return above


def _pairs(
    paths: Bytes, indices: Positions, depths: NDArray[np.uint8]
) -> Iterator[tuple[Positions, Positions]]:
    """Yield (entries, the entry above each), for each depth of those above.

    Both as positions in ``indices``, which are those of entries with distinct paths, ascending.
    """
    numbers = np.arange(len(indices))
    data, offsets = parts_of(paths)
    starts, lengths = offsets[:-1][indices], lengths_of(paths)[indices]
    for depth in np.unique(depths).tolist()[:-1]:
        # What is below a path follows it directly: the last entry that is not deeper is the one
        # at this depth, if there is one.
        last = np.maximum.accumulate(np.where(depths <= depth, numbers, -1))
        below = np.flatnonzero((depths > depth) & (last >= 0))
        parents = last[below]
        fits = (depths[parents] == depth) & (lengths[parents] < lengths[below])
        below, parents = below[fits], parents[fits]
        same = _equal_runs(data, starts[below], starts[parents], lengths[parents])
        yield below[same], parents[same]


def _equal_runs(
    data: NDArray[np.uint8], left: Positions, right: Positions, lengths: Positions
) -> Flags:
    """Return for each pair of runs of equal length whether their bytes are the same."""
    runs = gather(data, left, lengths), gather(data, right, lengths)
    equal: Flags = np.asarray(pc.equal(*runs))
    return equal
