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

from relstate.storage import ragged

from .changes import Mask, with_schema
from .rowkeys import Codes, RowKeys, Rows, first_positions, mark_codes, number_keys
from .state import State

# More rows than a partition has.
_EVERYTHING = 1 << 40


@dataclass(frozen=True, slots=True)
class Bounds:
    """Positions, sorted and distinct.

    ``rows``: the columns of each. ``groups``: its partition, ascending. ``counts``: how many rows
    to read from it on.
    """

    rows: pa.RecordBatch
    groups: Codes
    counts: Rows

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def reads_to_end(self) -> Mask:
        """Which bounds are read to the end of their partition."""
        return self.counts >= _EVERYTHING

    def follows_in_group(self) -> Mask:
        """Return which bounds are not the first of their partition."""
        follows = np.zeros(len(self), np.bool_)
        follows[1:] = self.groups[1:] == self.groups[:-1]
        return follows

    def to_end(self, from_bounds: Rows) -> tuple[Bounds, Rows]:
        """Return (bounds, for each of these bounds its number among them).

        From each of ``from_bounds``, at most one of a partition, its partition is read to the end:
        the later bounds of the partition are left out, and numbered as it is.
        """
        firsts = np.full(int(self.groups[-1]) + 1, len(self))
        firsts[self.groups[from_bounds]] = from_bounds
        numbers = np.arange(len(self))
        remains = numbers <= firsts[self.groups]
        counts = self.counts.copy()
        counts[from_bounds] = _EVERYTHING
        remaining = Bounds(
            self.rows.filter(pa.array(remains)), self.groups[remains], counts[remains]
        )
        return remaining, np.cumsum(remains) - 1


@dataclass(frozen=True, slots=True)
class Islands:
    """Stored rows in key order, each once, and their islands.

    ``row_islands``: the island of each row, -1 for a row that was read alone. ``bound_islands``:
    that of each bound, ascending. ``is_at_end``: for each island whether its partition has no row
    after it.
    """

    rows: pa.RecordBatch
    keys: ragged.Bytes
    row_islands: Codes
    bound_islands: Codes
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

    def with_rows(self, rows: pa.RecordBatch, row_keys: RowKeys) -> Islands:
        """Return the islands with further rows, some of which they may have already."""
        if not rows.num_rows:
            return self
        keys = pa.concat_arrays([self.keys, row_keys.encode(rows)])
        firsts = ragged.first_of_equal(keys)
        alone = np.full(rows.num_rows, -1)
        positions = pa.array(firsts)
        return replace(
            self,
            rows=pa.concat_batches([self.rows, rows]).take(positions),
            keys=keys.take(positions),
            row_islands=np.concatenate([self.row_islands, alone])[firsts],
        )


def read_islands(
    state: State, bounds: Bounds, before: int, row_keys: RowKeys, schema: pa.Schema, group: int
) -> Islands:
    """Return the rows around bounds, at least one ``before`` each if its partition has any.

    ``row_keys``: the key of the rows; ``group``: how many of its columns are the partition.
    """
    follows = bounds.follows_in_group()
    if state.is_empty or not len(bounds):
        islands = np.cumsum(~follows) - 1
        no_rows = pa.RecordBatch.from_pylist([], schema)
        is_at_end = np.ones(int(islands[-1]) + 1 if len(islands) else 0, np.bool_)
        return Islands(no_rows, row_keys.encode(no_rows), islands[:0], islands, is_at_end)
    owners, rows = state.rows_from(bounds.rows, group, bounds.counts, schema.names)
    is_whole = np.bincount(owners, minlength=len(bounds)) < bounds.counts
    # Where all rows up to a bound were read already, none before it is missing.
    is_linked = follows & np.append(False, is_whole[:-1])
    asked = np.flatnonzero(~is_linked)
    ends = bounds.rows.take(pa.array(asked))
    indices, earlier = state.rows_before(ends, group, np.full(len(asked), before), schema.names)
    all_rows = pa.concat_batches([with_schema(rows, schema), with_schema(earlier, schema)])
    keys = row_keys.encode(all_rows)
    (codes, earlier_codes), count = number_keys(
        [keys.slice(0, rows.num_rows), keys.slice(rows.num_rows)]
    )
    is_repeated = mark_codes(codes, count)[earlier_codes]
    is_linked[asked[indices[is_repeated]]] = True
    islands = np.cumsum(~is_linked) - 1
    firsts = ragged.first_of_equal(keys)
    positions = pa.array(firsts)
    is_last = np.append(islands[1:] != islands[:-1], True)
    is_at_end = is_whole[is_last] & ~np.append(follows[1:], False)[is_last]
    return Islands(
        all_rows.take(positions),
        keys.take(positions),
        islands[np.concatenate([owners, asked[indices]])[firsts]],
        islands,
        is_at_end,
    )
