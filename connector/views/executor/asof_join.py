"""The ASOF join: each left row with the nearest right row, found by an order.

Both sides are kept in the order of what is compared, within their join keys. Rows are thought of in
one order, from any left row towards the right rows that match it: the first right row there is its
match. A changed right row concerns the left rows between the unchanged right row before it and
itself; of these, and of the changed left rows, the match is looked up as it was before the epoch
and as it is after it.

Promises: of the left side only rows whose match may change are read, of the right side the nearest
rows alone. Keys are processed 16,384 at a time.
Does not know: conditions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from relstate.storage import types

from ..plan.asof_join import AsofJoin
from ..plan.join import JoinKind
from ..plan.node import Order
from .changes import Changes, Mask, chunk_schema, empty_chunk, insert_mask, make_chunk, with_schema
from .executor import SIDE_COLUMN, Executor, StateTableSpec
from .join import null_keys
from .rowkeys import Codes, RowKeys, Rows, first_positions, number_keys, number_sorted_keys
from .state import State

KEYS_AT_ONCE = 16_384
# More rows than a key has.
_EVERYTHING = 1 << 40
_SIDES = ("left", "right")


class AsofJoinExecutor(Executor[AsofJoin]):
    """Both inputs of a join; its chunks have `SIDE_COLUMN`, the keys' fields and both inputs'."""

    label = "asof_join"

    def __init__(self, node: AsofJoin, states: Sequence[State], is_ansi: bool = True) -> None:
        super().__init__(node, states, is_ansi)
        self._join_keys = RowKeys(_fields(node, 0), [Order(name) for name in _key_names(node)])
        self._state_keys = [
            RowKeys(_fields(node, side), _state_order(node, side)) for side in (0, 1)
        ]
        self._places = [RowKeys(_fields(node, side), _place_order(node, side)) for side in (0, 1)]
        self._right_keys = RowKeys(_fields(node, 1), _right_order(node))
        self._schema = chunk_schema(node.fields)

    @classmethod
    def tables(cls, node: AsofJoin) -> tuple[StateTableSpec, ...]:
        """The rows of each side by their join keys and by what is compared."""
        return tuple(
            StateTableSpec.of_rows(
                _SIDES[side], _fields(node, side), _state_order(node, side), _key_names(node)
            )
            for side in (0, 1)
        )

    def run(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batches of `batches` as one."""
        return pa.concat_batches([empty_chunk(self._schema), *self.batches(chunk)])

    def batches(self, chunk: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the output chunks of the epoch, one for each 16,384 join keys.

        ConsistencyError if the chunk is not net. State is written before the first one.
        """
        sides = [self._changes(chunk, side) for side in (0, 1)]
        matching = []
        for side, changes in enumerate(sides):
            can_match = self._can_match(changes, side)
            matching.append(changes.filtered(can_match))
            names = [field.name for field in _fields(self.node, side)]
            matching[side].write_to(self.states[side], names)
            if side == 0 and self.node.kind is JoinKind.LEFT and not can_match.all():
                unmatched = changes.filtered(~can_match)
                yield make_chunk(self._schema, self._left_rows(unmatched.rows), unmatched.inserts)
        for left, right in self._slices(*matching):
            yield self._joined(left, right)

    def _changes(self, chunk: pa.RecordBatch, side: int) -> Changes:
        is_side = np.asarray(chunk.column(SIDE_COLUMN)) == side
        names = [field.name for field in _fields(self.node, side)]
        rows = chunk.select(names).filter(pa.array(is_side))
        where = f"the {_SIDES[side]} side of {self.label}"
        return Changes.of(rows, insert_mask(chunk)[is_side], self._state_keys[side], where)

    def _can_match(self, changes: Changes, side: int) -> Mask:
        """Return which changes have no NULL where it matches nothing."""
        compared = changes.rows.column(self.node.comparison.sides[side])
        is_null: Mask = null_keys(changes.rows, self.node.keys) | np.asarray(compared.is_null())
        return ~is_null

    def _slices(self, left: Changes, right: Changes) -> Iterator[tuple[Changes, Changes]]:
        """Yield the changes of both sides for some join keys at a time."""
        keys = [self._join_keys.encode(side.rows) for side in (left, right)]
        codes, count = number_keys(keys)
        for start in range(0, count, KEYS_AT_ONCE):
            stop = start + KEYS_AT_ONCE
            bounds = [np.searchsorted(side, [start, stop]) for side in codes]
            yield left.slice(*bounds[0]), right.slice(*bounds[1])

    def _joined(self, left: Changes, right: Changes) -> pa.RecordBatch:
        """Return the changes of the output for the changes of some join keys."""
        stored = self._concerned_rows(right)
        stored = _without_deleted(stored, self._state_keys[0], left)
        rows = pa.concat_batches([stored, left.rows])
        is_old = np.append(np.ones(stored.num_rows, np.bool_), ~left.inserts)
        is_new = np.append(np.ones(stored.num_rows, np.bool_), left.inserts)
        candidates = self._candidates(rows, right)
        old = np.where(is_old, candidates.matches(candidates.is_old), -1)
        new = np.where(is_new, candidates.matches(candidates.is_new), -1)
        is_changed = (old != new) | ~is_old | ~is_new
        keeps_all = self.node.kind is JoinKind.LEFT
        deleted = np.flatnonzero(is_old & is_changed & (keeps_all | (old >= 0)))
        inserted = np.flatnonzero(is_new & is_changed & (keeps_all | (new >= 0)))
        picks = np.concatenate([deleted, inserted])
        matches = np.concatenate([old[deleted], new[inserted]])
        pairs = self._pairs(rows.take(pa.array(picks)), candidates.rows, matches)
        return make_chunk(self._schema, pairs, np.arange(len(picks)) >= len(deleted))

    def _left_rows(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows.select([field.name for field in self.node.left.fields])

    def _pairs(self, left: pa.RecordBatch, right: pa.RecordBatch, matches: Rows) -> pa.RecordBatch:
        """Return left rows beside right ones, NULL where the number of the match is negative."""
        left = self._left_rows(left)
        names = [field.name for field in self.node.right.fields]
        positions = pa.array(np.where(matches < 0, 0, matches), mask=matches < 0)
        columns = [right.column(name).take(positions) for name in names]
        return pa.RecordBatch.from_arrays(
            [*left.columns, *columns], names=[*left.schema.names, *names]
        )

    # Left rows whose match may change

    def _concerned_rows(self, right: Changes) -> pa.RecordBatch:
        """Return the stored left rows between right changes and the unchanged rows before them."""
        state, schema = self.states[0], self._schema_of(0)
        if not len(right) or state.is_empty:
            return empty_chunk(schema)
        before = self._rows_before(right)
        places = [self._places[1].encode(rows) for rows in (right.rows, before.rows)]
        (codes, before_codes), _ = number_keys(places)
        previous = np.where(before.numbers < 0, -1, np.append(before_codes, 0)[before.numbers])
        # Rows that tie with an unchanged one before them are nobody's match.
        is_end = previous < codes
        ends, starts = right.rows.filter(pa.array(is_end)), before.rows
        bounds = pa.concat_batches([rows.select(self._places[1].names) for rows in (ends, starts)])
        bound_codes = np.concatenate([codes[is_end], before_codes])
        _, firsts = np.unique(bound_codes, return_index=True)
        counts = np.where(firsts < ends.num_rows, _EVERYTHING, 0)
        bounds = bounds.take(pa.array(firsts)).rename_columns(list(self._places[0].names))
        # From the place of a change back to the next bound: an order that begins with it.
        read = state.rows_before if self.node.is_strict else state.rows_from
        _, rows = read(bounds, len(self.node.keys), counts, schema.names)
        return with_schema(rows, schema)

    def _rows_before(self, right: Changes) -> _Before:
        """Return the last unchanged right row before each change."""
        state, schema = self.states[1], self._schema_of(1)
        none = _Before(empty_chunk(schema), np.full(len(right), -1))
        if state.is_empty:
            return none
        keys = self._right_keys.encode(right.rows)
        (codes,), _ = number_keys([keys])
        _, firsts, numbers = np.unique(codes, return_index=True, return_inverse=True)
        positions = right.rows.take(pa.array(firsts)).select(self._state_keys[1].names)
        group = len(self.node.keys)
        if self.node.is_strict:
            # The state has the opposite order; the row of the position itself may come first.
            counts = np.full(len(firsts), 2)
            owners, rows = state.rows_from(positions, group, counts, schema.names)
        else:
            counts = np.full(len(firsts), 1)
            owners, rows = state.rows_before(positions, group, counts, schema.names)
        rows = with_schema(rows, schema)
        is_unchanged = ~np.asarray(pc.is_in(self._right_keys.encode(rows), value_set=keys))
        rows, owners = rows.filter(pa.array(is_unchanged)), owners[is_unchanged]
        of_position = np.full(len(firsts), -1)
        # The first of those that are read is the nearest.
        of_position[owners[::-1]] = np.arange(len(owners))[::-1]
        # Between two changes of a key there may be none: then it is that of the earlier one.
        groups = number_sorted_keys(self._join_keys.encode(positions))
        return _Before(rows, _carried_on(of_position, groups)[numbers])

    # Matches

    def _candidates(self, lefts: pa.RecordBatch, right: Changes) -> _Candidates:
        """Return the right rows that left rows match before the epoch or after it."""
        places = self._places[0].encode(lefts)
        stored = self._nearest_rows(lefts, places, right)
        keys = [self._right_keys.encode(rows) for rows in (stored, right.rows)]
        deleted = keys[1].filter(pa.array(~right.inserts))
        is_deleted = np.asarray(pc.is_in(keys[0], value_set=deleted))
        inserted = right.filtered(right.inserts).rows
        rows = pa.concat_batches([stored, inserted])
        order = _sort_positions(self._right_keys, rows)
        rows = rows.take(pa.array(order))
        is_stored = order < stored.num_rows
        (left_places, right_places), _ = number_keys([places, self._places[1].encode(rows)])
        (left_groups, right_groups), _ = number_keys(
            [self._join_keys.encode(batch) for batch in (lefts, rows)]
        )
        is_new = np.append(~is_deleted, np.ones(inserted.num_rows, np.bool_))[order]
        return _Candidates(
            rows,
            is_stored,
            is_new,
            right_places,
            right_groups,
            left_places,
            left_groups,
            self._side,
        )

    def _nearest_rows(
        self, lefts: pa.RecordBatch, places: pa.Array, right: Changes
    ) -> pa.RecordBatch:
        """Return the first stored right rows from each left row on, one that remains among them."""
        state, schema = self.states[1], self._schema_of(1)
        if state.is_empty or not lefts.num_rows:
            return empty_chunk(schema)
        deleted = right.filtered(~right.inserts).rows
        (codes, deleted_codes), _ = number_keys([places, self._places[1].encode(deleted)])
        distinct, firsts = np.unique(codes, return_index=True)
        positions = lefts.take(pa.array(firsts)).select(self._places[0].names)
        positions = positions.rename_columns(list(self._places[1].names))
        numbers = np.searchsorted(np.sort(deleted_codes), distinct, self._side)
        counts = np.diff(np.append(numbers, len(deleted_codes))) + 1
        read = state.rows_before if self.node.is_strict else state.rows_from
        _, rows = read(positions, len(self.node.keys), counts, schema.names)
        return with_schema(rows, schema)

    @property
    def _side(self) -> Literal["left", "right"]:
        """Where matches of a place begin among the places of right rows, as for `searchsorted`."""
        return "right" if self.node.is_strict else "left"

    def _schema_of(self, side: int) -> pa.Schema:
        fields = _fields(self.node, side)
        return pa.schema(list(chunk_schema(fields))[1:])


@dataclass(frozen=True, slots=True)
class _Before:
    """Unchanged right rows, and for each change the number of the last one before it, or -1."""

    rows: pa.RecordBatch
    numbers: Rows


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Right rows in their order, of which left rows match the first from their places on.

    ``is_old``, ``is_new``: which of them are there before the epoch, and after it. ``places``,
    ``groups``: codes of what is compared and of the join keys; ``left_places``, ``left_groups``:
    those of the left rows. ``side``: as of `np.searchsorted`.
    """

    rows: pa.RecordBatch
    is_old: Mask
    is_new: Mask
    places: Codes
    groups: Codes
    left_places: Codes
    left_groups: Codes
    side: Literal["left", "right"]

    def matches(self, is_there: Mask) -> Rows:
        """Return for each left row the number of its match among some of the rows, or -1."""
        numbers = np.flatnonzero(is_there)
        nexts = np.searchsorted(self.places[numbers], self.left_places, self.side)
        is_match = nexts < len(numbers)
        matches = np.full(len(nexts), -1)
        matches[is_match] = numbers[nexts[is_match]]
        is_match[is_match] = self.groups[matches[is_match]] == self.left_groups[is_match]
        return np.where(is_match, matches, -1)


def _fields(node: AsofJoin, side: int) -> tuple[types.Field, ...]:
    """Return the fields of a side's rows: the keys', and its own."""
    return (*(key.field for key in node.keys), *node.children[side].fields)


def _key_names(node: AsofJoin) -> tuple[str, ...]:
    return tuple(key.field.name for key in node.keys)


def _place_order(node: AsofJoin, side: int) -> list[Order]:
    """Return the keys and what is compared, in the direction in which matches lie."""
    compared = node.comparison.sides[side]
    return [*map(Order, _key_names(node)), _directed(compared, node.is_backward)]


def _right_order(node: AsofJoin) -> tuple[Order, ...]:
    """Return the order of right rows: the first that matches is the nearest."""
    return _distinct([*_place_order(node, 1), *map(Order, node.right.key)])


def _state_order(node: AsofJoin, side: int) -> tuple[Order, ...]:
    """Return the key of a state, in which rows are read from a place on, or up to it.

    What is compared is at the start of what is read. So the right state has the order of matches,
    and the left one the opposite; the reverse if equal values do not match, which are then left out
    at the end of what is read.
    """
    keys = [*map(Order, _key_names(node))]
    is_opposite = node.is_strict if side == 1 else not node.is_strict
    compared = _directed(node.comparison.sides[side], node.is_backward != is_opposite)
    own = [_directed(name, side == 1 and is_opposite) for name in node.children[side].key]
    return _distinct([*keys, compared, *own])


def _directed(name: str, descending: bool) -> Order:
    return Order(name, descending, nulls_first=not descending)


def _distinct(orders: Sequence[Order]) -> tuple[Order, ...]:
    by_name: dict[str, Order] = {}
    for order in orders:
        by_name.setdefault(order.name, order)
    return tuple(by_name.values())


def _without_deleted(rows: pa.RecordBatch, keys: RowKeys, changes: Changes) -> pa.RecordBatch:
    """Return stored rows without those that changes delete."""
    deleted = changes.keys.filter(pa.array(~changes.inserts))
    if not rows.num_rows or not len(deleted):
        return rows
    return rows.filter(pc.invert(pc.is_in(keys.encode(rows), value_set=deleted)))


def _sort_positions(keys: RowKeys, rows: pa.RecordBatch) -> Rows:
    (codes,), _ = number_keys([keys.encode(rows)])
    return np.argsort(codes, kind="stable")


def _carried_on(numbers: Rows, groups: Codes) -> Rows:
    """Return numbers, each of those that are -1 replaced by the last one before it in its group."""
    positions = np.where(numbers < 0, -1, np.arange(len(numbers)))
    last = np.maximum.accumulate(positions) if len(positions) else positions
    firsts = first_positions(groups)
    starts = np.repeat(firsts, np.diff(np.append(firsts, len(groups))))
    return np.where(last >= starts, numbers[last], -1)
