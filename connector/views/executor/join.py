"""The hash join: pairs of changed rows and their matches.

For a join that keeps rows without a match these are only candidates: the residual condition may
remove pairs, and the degree executor counts those that are left.

    delete    dL- x R             L' x dR-      L, R: the rows before the epoch
    insert    dL+ x (R' + dR+)    L' x dR+      L', R': those that it does not delete

Promises: no pair is emitted twice, and no two pairs cancel. Rows are looked up only for the join
keys of the other side's changes. Keys are processed 65,536 at a time, and pairs in slices, to bound
memory.
Does not know: conditions, degrees.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from relstate.storage import types

from ..plan.join import Join, JoinKey, JoinKind
from ..plan.node import Node, Order
from .changes import Changes, Mask, chunk_schema, empty_chunk, insert_mask, make_chunk, with_schema
from .executor import LEFT_ROW, PAIR, PART_COLUMN, RIGHT_ROW, SIDE_COLUMN, Executor, StateTableSpec
from .rowkeys import (
    Codes,
    Matches,
    RowKeys,
    first_positions,
    mark_codes,
    number_keys,
    number_sorted_keys,
)
from .state import State

KEYS_AT_ONCE = 65_536
PAIRS_AT_ONCE = 262_144


class JoinExecutor(Executor[Join]):
    """Both inputs of a join; its chunks have `SIDE_COLUMN`, the keys' fields and both inputs'.

    An inner join returns its rows. Other joins return candidates, one per pair and per changed row
    of a kept side: `PART_COLUMN`, the keys' fields, the left and the right ones.
    """

    label = "hash_join"

    def __init__(self, node: Join, states: Sequence[State], is_ansi: bool = True) -> None:
        super().__init__(node, states, is_ansi)
        self._keys = key_fields(node)
        self._join_keys = RowKeys(self._keys, [Order(field.name) for field in self._keys])
        self._row_keys = tuple(row_keys(node, side) for side in node.children)
        self._schema = self._output_schema()

    @classmethod
    def tables(cls, node: Join) -> tuple[StateTableSpec, ...]:
        """The rows of each side by their join keys."""
        return (_table("left", node, node.left), _table("right", node, node.right))

    def run(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batches of `batches` as one."""
        return pa.concat_batches([empty_chunk(self._schema), *self.batches(chunk)])

    def batches(self, chunk: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the output chunks of the epoch, each of at most 262,144 pairs.

        ConsistencyError if the chunk is not net. State is written before the first one.
        """
        sides = [self._changes(chunk, side) for side in (0, 1)]
        keeps = (self.node.kind.keeps_left, self.node.kind.keeps_right)
        matching = [side.filtered(~null_keys(side.rows, self.node.keys)) for side in sides]
        for changes, state, spec in zip(matching, self.states, self.tables(self.node), strict=True):
            changes.write_to(state, [field.name for field in spec.fields])
        for changes, part, is_kept in zip(sides, (LEFT_ROW, RIGHT_ROW), keeps, strict=True):
            if is_kept and len(changes):
                yield self._candidates(changes.rows, changes.inserts, part)
        yield from self._pairs(matching)

    def _changes(self, chunk: pa.RecordBatch, side: int) -> Changes:
        names = [field.name for field in (*self._keys, *self.node.children[side].fields)]
        own = np.asarray(chunk.column(SIDE_COLUMN)) == side
        rows, inserts = chunk.select(names), insert_mask(chunk)
        if not own.all():
            rows, inserts = rows.filter(pa.array(own)), inserts[own]
        where = f"the {('left', 'right')[side]} side of {self.label}"
        return Changes.of(rows, inserts, self._row_keys[side], where)

    def _pairs(self, sides: Sequence[Changes]) -> Iterator[pa.RecordBatch]:
        ranks = [number_sorted_keys(self._join_keys.encode(side.rows)) for side in sides]
        firsts = [first_positions(side_ranks) for side_ranks in ranks]
        distinct_keys = [
            side.rows.take(pa.array(side_firsts)).select(self._join_keys.names)
            for side, side_firsts in zip(sides, firsts, strict=True)
        ]
        key_codes, count = number_keys([self._join_keys.encode(rows) for rows in distinct_keys])
        codes = [
            side_key_codes[side_ranks]
            for side_key_codes, side_ranks in zip(key_codes, ranks, strict=True)
        ]
        for start in range(0, count, KEYS_AT_ONCE):
            bounds = [
                np.searchsorted(side_codes, [start, start + KEYS_AT_ONCE]) for side_codes in codes
            ]
            spans = [
                _Span(side.slice(*side_bounds), side_codes[slice(*side_bounds)] - start)
                for side, side_codes, side_bounds in zip(sides, codes, bounds, strict=True)
            ]
            yield from self._pairs_of(spans, min(count - start, KEYS_AT_ONCE))

    def _pairs_of(self, spans: Sequence[_Span], count: int) -> Iterator[pa.RecordBatch]:
        """Yield the pairs of changes with ``count`` different keys."""
        left = self._with_stored(spans, 0, count)
        right = self._with_stored(spans, 1, count)
        for lefts, rights, inserted in (
            (left.deleted, right.stored, False),
            (left.inserted, right.remaining | right.inserted, True),
            (left.remaining, right.deleted, False),
            (left.remaining, right.inserted, True),
        ):
            yield from self._slices(left, lefts, right, rights, count, inserted)

    def _with_stored(self, spans: Sequence[_Span], side: int, count: int) -> _Rows:
        """Return a side's changed rows, and its stored rows with the opposite changes' keys."""
        own, opposite, state = spans[side], spans[1 - side], self.states[side]
        names = own.changes.rows.schema.names
        if not len(opposite.codes) or state.is_empty:
            return _Rows.of(own, own.changes.rows.slice(0, 0), np.empty(0, np.int64), None)
        firsts = first_positions(opposite.codes)
        prefixes = opposite.changes.rows.take(pa.array(firsts)).select(self._join_keys.names)
        indices, stored = state.prefix_scan(prefixes, names)
        codes = opposite.codes[firsts][indices]
        return _Rows.of(
            own, stored, codes, self._find_deleted(own, stored, codes, self._row_keys[side], count)
        )

    def _find_deleted(
        self, own: _Span, stored: pa.RecordBatch, codes: Codes, keys: RowKeys, count: int
    ) -> Mask | None:
        """Return which of the stored rows are deleted; None if none is."""
        deletes = ~own.changes.inserts
        is_candidate = mark_codes(own.codes[deletes], count)[codes]
        if not is_candidate.any():
            return None
        deleted_keys = own.changes.keys.filter(pa.array(deletes))
        stored_keys = keys.encode(stored.filter(pa.array(is_candidate)))
        (stored_codes, deleted_codes), key_count = number_keys([stored_keys, deleted_keys])
        is_deleted = np.zeros(len(codes), np.bool_)
        is_deleted[is_candidate] = mark_codes(deleted_codes, key_count)[stored_codes]
        return is_deleted

    def _slices(
        self, left: _Rows, lefts: Mask, right: _Rows, rights: Mask, count: int, inserted: bool
    ) -> Iterator[pa.RecordBatch]:
        left_rows, right_rows = np.flatnonzero(lefts), np.flatnonzero(rights)
        if not len(left_rows) or not len(right_rows):
            return
        matches = Matches.of(
            left_rows, left.codes[left_rows], right_rows, right.codes[right_rows], count
        )
        right_names = [field.name for field in self.node.right.fields]
        for start in range(0, matches.total, PAIRS_AT_ONCE):
            stop = min(start + PAIRS_AT_ONCE, matches.total)
            left_picks, right_picks = matches.pairs(start, stop)
            left_matches = left.rows.take(pa.array(left_picks))
            right_matches = right.rows.select(right_names).take(pa.array(right_picks))
            pairs = pa.RecordBatch.from_arrays(
                [*left_matches.columns, *right_matches.columns],
                names=[*left_matches.schema.names, *right_names],
            )
            yield self._candidates(pairs, np.full(stop - start, inserted), PAIR)

    def _candidates(self, rows: pa.RecordBatch, inserts: Mask, part: int) -> pa.RecordBatch:
        if self.node.kind is not JoinKind.INNER:
            parts = pa.array(np.full(len(inserts), part, np.int8))
            rows = rows.append_column(PART_COLUMN, parts)
        return make_chunk(self._schema, rows, inserts)

    def _output_schema(self) -> pa.Schema:
        fields = (*self._keys, *self.node.left.fields, *self.node.right.fields)
        schema = chunk_schema(fields)
        if self.node.kind is JoinKind.INNER:
            return schema
        return schema.insert(1, pa.field(PART_COLUMN, pa.int8(), nullable=False))


@dataclass(frozen=True, slots=True)
class _Span:
    """Changes, and the code of the join key of each."""

    changes: Changes
    codes: Codes


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of one side, the codes of their join keys, and masks of how the epoch changes them.

    ``stored``: the rows that existed before the epoch with a key of the opposite side's changes;
    ``remaining``: the stored rows that the epoch does not delete.
    """

    rows: pa.RecordBatch
    codes: Codes
    deleted: Mask
    inserted: Mask
    stored: Mask
    remaining: Mask

    @classmethod
    def of(
        cls, span: _Span, stored_rows: pa.RecordBatch, codes: Codes, is_deleted: Mask | None
    ) -> _Rows:
        change_count, rows = len(span.changes), span.changes.rows
        inserted = np.zeros(change_count + len(codes), np.bool_)
        inserted[:change_count] = span.changes.inserts
        stored = np.arange(len(inserted)) >= change_count
        remaining = stored.copy()
        if is_deleted is not None:
            remaining[change_count:] = ~is_deleted
        if len(codes):
            rows = pa.concat_batches([rows, with_schema(stored_rows, rows.schema)])
        all_codes = np.concatenate([span.codes, codes])
        return cls(rows, all_codes, ~inserted & ~stored, inserted, stored, remaining)


def key_fields(node: Join) -> tuple[types.Field, ...]:
    """Return the fields of the join keys."""
    return tuple(key.field for key in node.keys)


def row_keys(node: Join, side: Node) -> RowKeys:
    """Return the keys of a side's rows in its states: the join keys, then the side's own key."""
    return RowKeys((*key_fields(node), *side.fields), row_order(node, side))


def row_order(node: Join, side: Node) -> tuple[Order, ...]:
    """Return the primary key of a side's states."""
    return tuple(Order(name) for name in (*(key.field.name for key in node.keys), *side.key))


def null_keys(rows: pa.RecordBatch, keys: Sequence[JoinKey]) -> Mask:
    """Return for every row whether its key has a NULL that equals nothing (not null-safe)."""
    has_null = np.zeros(rows.num_rows, np.bool_)
    for key in keys:
        column = rows.column(key.field.name)
        if not key.is_null_safe and column.null_count:
            has_null |= np.asarray(column.is_null())
    return has_null


def _table(role: str, node: Join, side: Node) -> StateTableSpec:
    fields = (*key_fields(node), *side.fields)
    return StateTableSpec.of_rows(role, fields, row_order(node, side), node.input_distribution)
