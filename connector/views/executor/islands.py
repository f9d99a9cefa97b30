"""The stored rows around some positions of sorted partitions, as runs without gaps.

A *bound* is a position: the first columns of the state's key. Around each bound some rows before it
and some from it on are read. Where those of two bounds meet, they are one *island*: rows that are
all the rows of their partition between the first and the last.

Promises: an island without rows before its first bound is at the start of its partition.
Does not know: what changed, or what is computed over the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from relstate.storage import ragged

from .changes import Mask, with_schema
from .rowkeys import Codes, RowKeys, Rows, first_positions
from .state import State

EVERYTHING = 1 << 40
"""More rows than a partition has."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Positions, sorted and distinct.

    ``rows``: the columns of each. ``groups``: its partition, ascending. ``befores``, ``counts``:
    how many rows to read before it, and from it on. ``is_read_on``: whether values may change in
    all of the latter. ``is_to_end``: whether they should be all up to the end of its partition.
    """

    rows: pa.RecordBatch
    groups: Codes
    befores: Rows
    counts: Rows
    is_read_on: Mask
    is_to_end: Mask

    @classmethod
    def of(cls, rows: pa.RecordBatch, groups: Codes, before: int, counts: Rows) -> Bounds:
        """Return bounds with ``before`` rows before each, and ``counts[i]`` from bound i on."""
        befores = np.full(rows.num_rows, before)
        no_bounds = np.zeros(rows.num_rows, np.bool_)
        return cls(rows, groups, befores, counts, no_bounds, no_bounds)

    def __len__(self) -> int:
        return len(self.groups)

    def widened(self, firsts: Rows, lasts: Rows, factor: int) -> Bounds:
        """Return the bounds with more rows before ``firsts``, and from ``lasts`` on."""
        befores, counts = self.befores.copy(), self.counts.copy()
        befores[firsts] *= factor
        counts[lasts] *= factor
        return replace(self, befores=befores, counts=counts)

    def read_on(self, lasts: Rows, count: int) -> Bounds:
        """Return the bounds with ``count`` more rows from ``lasts`` on, whose values may change."""
        counts, is_read_on = self.counts.copy(), self.is_read_on.copy()
        counts[lasts] += count
        is_read_on[lasts] = True
        return replace(self, counts=counts, is_read_on=is_read_on)

    def follows_in_group(self) -> Mask:
        """Return which bounds are not the first of their partition."""
        follows = np.zeros(len(self), np.bool_)
        follows[1:] = self.groups[1:] == self.groups[:-1]
        return follows

    def to_end(self, from_bounds: Rows, most: int) -> tuple[Bounds, Rows]:
        """Return (bounds, for each of these bounds its number among them).

        From each of ``from_bounds``, at most one of a partition, its partition is read to the end,
        or ``most`` rows of it: the later bounds of the partition are left out, and numbered as it.
        """
        firsts = np.full(int(self.groups[-1]) + 1, len(self))
        firsts[self.groups[from_bounds]] = from_bounds
        numbers = np.arange(len(self))
        remains = numbers <= firsts[self.groups]
        counts, is_to_end = self.counts.copy(), self.is_to_end.copy()
        counts[from_bounds] = most
        is_to_end[from_bounds] = True
        remaining = Bounds(
            self.rows.filter(pa.array(remains)),
            self.groups[remains],
            self.befores[remains],
            counts[remains],
            self.is_read_on[remains],
            is_to_end[remains],
        )
        return remaining, np.cumsum(remains) - 1


@dataclass(frozen=True, slots=True)
class Islands:
    """Stored rows in key order, each once, and their islands.

    ``row_islands``: the island of each row, -1 for a row that was read alone. ``bound_islands``:
    that of each bound, ascending. ``is_at_start``, ``is_at_end``: for each island whether its
    partition has no row before it, or after it.
    """

    rows: pa.RecordBatch
    keys: ragged.Bytes
    row_islands: Codes
    bound_islands: Codes
    is_at_start: Mask
    is_at_end: Mask

    def __len__(self) -> int:
        return len(self.is_at_end)

    @property
    def first_bounds(self) -> Rows:
        """The number of the first bound of each island."""
        return first_positions(self.bound_islands)

    @property
    def last_bounds(self) -> Rows:
        """The number of the last bound of each island."""
        return np.append(self.first_bounds[1:], len(self.bound_islands))[: len(self)] - 1

    def are_cut(self, bounds: Bounds) -> bool:
        """Return whether an island has fewer rows than up to the end that ``bounds`` ask for."""
        return bool((bounds.is_to_end[self.last_bounds] & ~self.is_at_end).any())

    def with_rows(self, rows: pa.RecordBatch, row_keys: RowKeys) -> Islands:
        """Return the islands with further rows, some of which they may have already."""
        if not rows.num_rows:
            return self
        keys = row_keys.encode(rows)
        # Often all of them are there, and no row has to be put in order.
        is_new = pc.is_null(pc.index_in(keys, self.keys))
        rows, keys = rows.filter(is_new), keys.filter(is_new)
        if not rows.num_rows:
            return self
        keys = pa.concat_arrays([self.keys, keys])
        order = ragged.sort_order(keys)
        alone = np.full(rows.num_rows, -1)
        positions = pa.array(order)
        return replace(
            self,
            rows=pa.concat_batches([self.rows, rows]).take(positions),
            keys=keys.take(positions),
            row_islands=np.concatenate([self.row_islands, alone])[order],
        )


def read_islands(
    state: State, bounds: Bounds, row_keys: RowKeys, schema: pa.Schema, group: int
) -> Islands:
    """Return the rows around bounds, at least one before each if its partition has any.

    ``row_keys``: the key of the rows; ``group``: how many of its columns are the partition.
    """
    follows = bounds.follows_in_group()
    if state.is_empty or not len(bounds):
        islands = np.cumsum(~follows) - 1
        no_rows = pa.RecordBatch.from_pylist([], schema)
        is_whole = np.ones(int(islands[-1]) + 1 if len(islands) else 0, np.bool_)
        keys = row_keys.encode(no_rows)
        return Islands(no_rows, keys, islands[:0], islands, is_whole, is_whole)
    owners, rows = state.rows_from(bounds.rows, group, bounds.counts, schema.names)
    is_whole = np.bincount(owners, minlength=len(bounds)) < bounds.counts
    # Where all rows up to a bound were read already, none before it is missing.
    is_linked = follows & np.append(False, is_whole[:-1])
    unlinked = np.flatnonzero(~is_linked)
    ends = bounds.rows.take(pa.array(unlinked))
    indices, earlier = state.rows_before(ends, group, bounds.befores[unlinked], schema.names)
    parts = [with_schema(part, schema) for part in (rows, earlier)]
    keys, earlier_keys = map(row_keys.encode, parts)
    before_owners = unlinked[indices]
    is_repeated = _find_repeated(earlier_keys, before_owners, keys, owners, follows)
    is_linked[before_owners[is_repeated]] = True
    islands = np.cumsum(~is_linked) - 1
    kept = np.flatnonzero(~is_repeated)
    # Before each bound its earlier rows, then those from it on: so all rows are in key order.
    turns = np.concatenate([2 * owners + 1, 2 * before_owners[kept]])
    order = np.argsort(turns, kind="stable")
    positions = pa.array(np.concatenate([np.arange(len(owners)), len(owners) + kept])[order])
    befores_read = np.bincount(before_owners, minlength=len(bounds))
    is_at_start = (befores_read < bounds.befores)[first_positions(islands)]
    is_last = np.append(islands[1:] != islands[:-1], True)
    is_at_end = is_whole[is_last] & ~np.append(follows[1:], False)[is_last]
    return Islands(
        pa.concat_batches(parts).take(positions),
        pa.concat_arrays([keys, earlier_keys]).take(positions),
        islands[turns[order] // 2],
        islands,
        is_at_start,
        is_at_end,
    )


def _find_repeated(
    earlier_keys: ragged.Bytes, before_owners: Rows, keys: ragged.Bytes, owners: Rows, follows: Mask
) -> Mask:
    """Return which rows before a bound were read from the bound before it on.

    ``before_owners``, ``owners``: the bound of each row before one, and of each from one on.
    """
    is_repeated = np.zeros(len(before_owners), np.bool_)
    last_rows = np.searchsorted(owners, before_owners - 1, "right") - 1
    compared = np.flatnonzero(follows[before_owners] & (last_rows >= 0))
    compared = compared[owners[last_rows[compared]] == before_owners[compared] - 1]
    lasts = keys.take(pa.array(last_rows[compared]))
    is_known = pc.less_equal(earlier_keys.take(pa.array(compared)), lasts)
    is_repeated[compared[np.asarray(is_known)]] = True
    return is_repeated
