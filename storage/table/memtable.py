"""The mem table: the changes of one epoch in memory, one per key.

A change of a row is a *transition*: its value before and its value after, either of which may be
absence. Changes of one key, in their order, merge into one transition:

- a `StrictMemTable` (executors) requires that a change finds what the previous change left. This
  is RisingWave's merge table: a second insert, a delete or update of an absent row, or of another
  value, is an error; an insert and a delete of one key are not written at all.
- a `MemTable` (users) is blind: the last change wins, and a delete is kept even after an insert of
  the same epoch, because an older epoch may hold the row.

Values stay in the arrays they come in: only keys and positions are sorted and merged, and changes
are handed out in parts.

Promises: a refused change leaves the mem table as it was; single changes and whole arrays of them
give the same result. Does not know: tables, files, or what was committed before.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..codec.ragged import (
    NO_BYTES,
    Bytes,
    Positions,
    equal_neighbours,
    lengths_of,
    parts_of,
    sort_order,
)
from ..errors import ConsistencyError
from ..segment.block import Block

Flags = NDArray[np.bool_]
_NO_POSITIONS = np.empty(0, np.int64)
# Keys of changes, and the positions of their values before and after.
_Changes = tuple[Bytes, Positions, Positions]
# The position of the value of an absent row.
_ABSENT = 0
# Single changes become arrays when they hold this many bytes: as Python objects they take twice the
# memory, but are looked up faster.
_SINGLE_BYTES = 64 << 20
# Smaller arrays of values are joined with the next.
_SMALL_BYTES = 1 << 20
# Values that no change refers to are dropped above this size, if they are most of the values.
_COMPACT_BYTES = 64 << 20
# A part of the changes has about this many bytes.
_PART_BYTES = 8 << 20
_COMPARED_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class Transition:
    """The change of one row: its encoded value before and after, None where there is no row."""

    before: bytes | None
    after: bytes | None


class Values:
    """Values in the arrays they came in, by their positions; position 0 has that of a delete."""

    def __init__(self, delete: bytes) -> None:
        self._pieces: tuple[Bytes, ...] = (pa.array([delete], pa.large_binary()),)
        # Where each piece begins, and the end of the last.
        self._starts: tuple[int, ...] = (0, 1)

    def add(self, values: Bytes) -> Positions:
        """Keep values, and return their positions."""
        *pieces, last = self._pieces
        start = self._starts[-1]
        if last.nbytes < _SMALL_BYTES:
            values, begin = pa.concat_arrays([last, values]), self._starts[-2]
        else:
            pieces, begin = [*pieces, last], start
        self._pieces = (*pieces, values)
        self._starts = (*self._starts[: len(pieces)], begin, begin + len(values))
        return np.arange(start, self._starts[-1])

    def cut(self, size: int) -> None:
        """Forget the values from position ``size`` on."""
        piece = bisect_left(self._starts, size) - 1
        start = self._starts[piece]
        self._pieces = (*self._pieces[:piece], self._pieces[piece].slice(0, size - start))
        self._starts = (*self._starts[: piece + 1], size)

    def __len__(self) -> int:
        return self._starts[-1]

    def get(self, position: int) -> bytes | None:
        """Return one value; None for that of a delete."""
        if position == _ABSENT:
            return None
        piece = bisect_right(self._starts, position) - 1
        value: bytes = self._pieces[piece][int(position) - self._starts[piece]].as_py()
        return value

    def take(self, positions: Positions) -> Bytes:
        """Return the values at some positions, a copy."""
        pieces = np.searchsorted(self._starts, positions, side="right") - 1
        order = np.argsort(pieces, kind="stable")
        bounds = np.searchsorted(pieces[order], np.arange(len(self._pieces) + 1))
        parts = [
            piece.take(pa.array(positions[order[start:stop]] - first))
            for piece, first, start, stop in zip(
                self._pieces, self._starts[:-1], bounds[:-1], bounds[1:], strict=True
            )
            if start < stop
        ]
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        return pa.concat_arrays(parts).take(pa.array(ranks)) if parts else NO_BYTES

    def joined(self) -> Bytes:
        """Return all values as one array."""
        if len(self._pieces) > 1:
            self._pieces = (pa.concat_arrays(self._pieces),)
            self._starts = (0, self._starts[-1])
        return self._pieces[0]

    @property
    def lengths(self) -> Positions:
        """The length of every value."""
        return np.concatenate([lengths_of(piece) for piece in self._pieces])

    @property
    def size(self) -> int:
        """The bytes that the values take."""
        return sum(piece.nbytes for piece in self._pieces)


@dataclass(frozen=True, slots=True)
class Transitions:
    """Merged changes, one per key, in key order.

    ``before`` and ``after``: positions in ``values``, 0 where there is no row.
    """

    keys: Bytes
    before: Positions
    after: Positions
    values: Values

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def had_row(self) -> Flags:
        """Whether there was a row before each change."""
        had_row: Flags = self.before != _ABSENT
        return had_row

    def parts(self) -> Iterator[Transitions]:
        """Yield the changes in parts whose values have about 8 MiB."""
        sizes = self.values.lengths
        ends = np.cumsum(lengths_of(self.keys) + sizes[self.before] + sizes[self.after])
        start = 0
        while start < len(self):
            size = ends[start - 1] if start else 0
            stop = max(int(np.searchsorted(ends, size + _PART_BYTES)), start + 1)
            yield Transitions(
                self.keys.slice(start, stop - start),
                self.before[start:stop],
                self.after[start:stop],
                self.values,
            )
            start = stop

    def entries(self) -> tuple[Bytes, Bytes]:
        """Return the (full keys, values) that record the changes: puts and deletes."""
        return self.keys, self.values.take(self.after)

    def block(self) -> Block:
        """Return the entries as a block, without a copy of their values."""
        keys, key_offsets = parts_of(self.keys)
        values, value_offsets = parts_of(self.values.joined())
        starts = value_offsets[self.after]
        lengths = value_offsets[self.after + 1] - starts
        return Block(keys, key_offsets[:-1], np.diff(key_offsets), values, starts, lengths)


class MemTable:
    """The changes of one epoch, of which the last one of a key wins. For one thread."""

    def __init__(self, delete: bytes) -> None:
        """``delete``: the value that deletes a row."""
        self._delete = delete
        self.clear()

    def clear(self) -> None:
        """Forget all changes."""
        self._values = Values(self._delete)
        self._compact_above = _COMPACT_BYTES
        self._keys: Bytes = NO_BYTES
        self._before = self._after = _NO_POSITIONS
        self._pending: list[_Changes] = []
        self._pending_rows = 0
        self._single: dict[bytes, Transition] = {}
        self._single_bytes = 0

    def __len__(self) -> int:
        """The number of changes not yet merged into one another, an upper bound of the keys."""
        return len(self._keys) + self._pending_rows + len(self._single)

    def get(self, key: bytes) -> Transition | None:
        """Return the change of a key, None if it was not changed."""
        change = self._single.get(key)
        if change is not None:
            return change
        self._merge_pending()
        keys = self._keys
        row = bisect_left(range(len(keys)), key, key=lambda row: keys[row].as_py())
        if row == len(keys) or keys[row].as_py() != key:
            return None
        return Transition(self._values.get(self._before[row]), self._values.get(self._after[row]))

    def apply_change(self, key: bytes, change: Transition) -> None:
        """Add the change of one row. ConsistencyError (strict) if it does not fit."""
        earlier = self.get(key)
        if earlier is not None:
            self._check_pair(key, earlier, change)
            change = Transition(earlier.before, change.after)
        self._single[key] = change
        self._single_bytes += len(key) + len(change.before or b"") + len(change.after or b"")
        if self._single_bytes > _SINGLE_BYTES:
            self._merge_single()

    def apply(self, keys: Bytes, values: Bytes, deleted: Flags) -> None:
        """Add inserts and, where ``deleted`` says so, deletes of rows, in their order.

        ``values``: those of the rows; of the deleted ones a strict mem table looks at them too.
        ConsistencyError (strict) if a change does not fit: none is applied then.
        """
        self._merge_single()
        size = len(self._values)
        positions = self._values.add(values)
        before = np.where(deleted, positions, _ABSENT)
        after = np.where(deleted, _ABSENT, positions)
        try:
            self._add(keys, before, after)
        except ConsistencyError:
            self._values.cut(size)
            raise

    def changes(self) -> Transitions:
        """Return the merged changes, at most one per key, in key order."""
        self._merge_single()
        self._merge_pending()
        rows = np.flatnonzero(~self._is_nothing())
        if len(rows) == len(self._keys):
            return Transitions(self._keys, self._before, self._after, self._values)
        keys = self._keys.take(pa.array(rows))
        return Transitions(keys, self._before[rows], self._after[rows], self._values)

    # What a strict mem table does otherwise

    def _add(self, keys: Bytes, before: Positions, after: Positions) -> None:
        """Add later changes; they are merged when they are as many as those that are merged.

        To merge the changes of every chunk with all others would take quadratic time.
        """
        if len(keys):
            self._pending.append((keys, before, after))
            self._pending_rows += len(keys)
        is_large = self._values.size > self._compact_above
        if self._pending_rows >= len(self._keys) or is_large:
            self._merge_pending()

    def _check_pair(self, key: bytes, earlier: Transition, later: Transition) -> None:
        """ConsistencyError if a change does not fit the previous change of its key."""

    def _check(self, keys: Bytes, earlier: Positions, later: Positions) -> None:
        """As `_check_pair`, for the values that some changes left and the next ones expect."""

    def _is_nothing(self) -> Flags:
        """Return which changes need not be written: none, as older epochs may hold the rows."""
        return np.zeros(len(self._keys), np.bool_)

    # Merging: there are never single changes and pending ones at once

    def _merge_pending(self) -> None:
        """Merge the changes that `_add` has left."""
        if self._pending:
            keys, before, after = zip(*self._pending, strict=True)
            self._merge(pa.concat_arrays(keys), np.concatenate(before), np.concatenate(after))

    def _merge_single(self) -> None:
        """Merge the single changes, each of which replaces what the arrays hold of its key."""
        if not self._single:
            return
        changes = self._single
        keys = pa.array(list(changes), pa.large_binary())
        rows = np.flatnonzero(~np.asarray(pc.is_in(self._keys, value_set=keys)))
        self._keys = self._keys.take(pa.array(rows))
        self._before, self._after = self._before[rows], self._after[rows]
        before = self._add_single([change.before for change in changes.values()])
        after = self._add_single([change.after for change in changes.values()])
        self._merge(keys, before, after)
        self._single, self._single_bytes = {}, 0

    def _add_single(self, values: list[bytes | None]) -> Positions:
        """Keep single values, and return their positions; that of None is `_ABSENT`."""
        is_there = np.array([value is not None for value in values], np.bool_)
        present = [value for value in values if value is not None]
        positions = np.full(len(values), _ABSENT)
        positions[is_there] = self._values.add(pa.array(present, pa.large_binary()))
        return positions

    def _merge(self, keys: Bytes, before: Positions, after: Positions) -> None:
        """Merge later changes, in their order, into those there are; then none are pending."""
        if not len(keys):
            return
        keys = pa.concat_arrays([self._keys, keys])
        before = np.concatenate([self._before, before])
        after = np.concatenate([self._after, after])
        order = sort_order(keys)
        keys = keys.take(pa.array(order))
        repeats = equal_neighbours(keys)
        follows = np.flatnonzero(repeats) + 1
        if len(follows):
            pairs = keys.take(pa.array(follows))
            self._check(pairs, after[order[follows - 1]], before[order[follows]])
        firsts = np.flatnonzero(np.append(True, ~repeats))
        lasts = np.flatnonzero(np.append(~repeats, True))
        self._keys = keys.take(pa.array(firsts)) if len(follows) else keys
        self._before, self._after = before[order[firsts]], after[order[lasts]]
        # Not before they are merged: an error, such as one of memory, must not lose them.
        self._pending, self._pending_rows = [], 0
        if self._values.size > self._compact_above:
            self._compact()

    def _compact(self) -> None:
        """Drop the values that no change refers to, if they are at least three quarters."""
        used = np.unique(np.concatenate([[_ABSENT], self._before, self._after]))
        if 4 * int(self._values.lengths[used].sum()) <= self._values.size:
            values = Values(self._delete)
            values.add(self._values.take(used[1:]))
            self._values = values
            self._before = np.searchsorted(used, self._before)
            self._after = np.searchsorted(used, self._after)
        self._compact_above = max(_COMPACT_BYTES, 2 * self._values.size)


class StrictMemTable(MemTable):
    """The changes of one epoch, each of which finds what the previous one of its key left."""

    def __init__(self, delete: bytes, describe: Callable[[bytes], str]) -> None:
        """``describe`` names the table and the key of a full key in errors."""
        super().__init__(delete)
        self._describe = describe

    def _add(self, keys: Bytes, before: Positions, after: Positions) -> None:
        # Merged at once, because a change that does not fit is refused at once.
        self._merge(keys, before, after)

    def _check_pair(self, key: bytes, earlier: Transition, later: Transition) -> None:
        if earlier.after != later.before:
            raise self._misfit(key, earlier.after, later.before)

    def _check(self, keys: Bytes, earlier: Positions, later: Positions) -> None:
        for start in range(0, len(keys), _COMPARED_ROWS):
            part = slice(start, start + _COMPARED_ROWS)
            left, expected = self._values.take(earlier[part]), self._values.take(later[part])
            wrong = np.flatnonzero(np.asarray(pc.not_equal(left, expected)))
            # An absent row has the bytes of a delete, which are those of no row.
            if len(wrong):
                row = start + int(wrong[0])
                raise self._misfit(
                    keys[row].as_py(), self._values.get(earlier[row]), self._values.get(later[row])
                )

    def _is_nothing(self) -> Flags:
        """Return which rows came and went within the epoch."""
        nothing: Flags = (self._before == _ABSENT) & (self._after == _ABSENT)
        return nothing

    def _misfit(self, key: bytes, left: bytes | None, expected: bytes | None) -> ConsistencyError:
        change = "an insert" if expected is None else "a delete or update"
        finds = "no row" if left is None else "a row" if expected is None else "another row"
        return ConsistencyError(
            f"{self._describe(key)}: {change} does not fit the earlier change of this epoch, which "
            f"left {finds}; write changes in the order in which they happened"
        )
