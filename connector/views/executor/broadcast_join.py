"""The broadcast join: pairs of changed rows with the rows of the other side, without an equality.

Every unit gets all changes of both sides and keeps its share of both by their own keys:

    delete    dL- x R'     dL- x dR-     L' x dR-      R', dR: those of this unit's share
    insert    dL+ x R'     dL+ x dR+     L' x dR+      L', R': those that the epoch does not delete

If the right side has one row at most, the unit of a left row computes all its pairs: left changes
go to their own unit, and every unit reads the one row wherever it is.

A row that is replaced by one that differs only in what is compared with the other side's order is
*moved*: only the pairs that it loses and gains are read and emitted.

Promises: every pair in one unit, and once. Rows are read only in the ranges of the other side's
order that changes can match, and never all at once; pairs come in slices. No pair of a row that was
not deleted is emitted both as deleted and inserted without a change of what is visible of it.
Does not know: conditions, degrees.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from relstate.storage import OP_COLUMN, Op, RowCodec, types
from relstate.vnode import cached_property

from ..plan.broadcast_join import BroadcastJoin
from ..plan.join import JoinKind
from ..plan.node import Node, Order
from .changes import Changes, Mask, chunk_schema, empty_chunk, insert_mask, with_schema
from .executor import (
    LEFT_MATCHES,
    LEFT_ROW,
    MATCHES_COLUMN,
    PAIR,
    PART_COLUMN,
    RIGHT_MATCHES,
    RIGHT_ROW,
    SIDE_COLUMN,
    Executor,
    StateTableSpec,
)
from .matching import ComparedRows, Comparisons, Moves
from .rowkeys import RowKeys, Rows
from .state import State

_SIDES = ("left", "right")
_PART = types.Field(PART_COLUMN, types.TinyInt())
_MATCHES = types.Field(MATCHES_COLUMN, types.BigInt())


def candidate_fields(node: BroadcastJoin) -> tuple[types.Field, ...]:
    """Return the fields of what the executor returns: the node's own if it is an inner join.

    Else candidates: the kind of a row, its number of matches, and visible fields, the right ones
    only if something reads them.
    """
    if node.kind is JoinKind.INNER:
        return node.fields
    left, right = node.visible
    reads_right = node.kind.gives_pairs or node.condition is not None
    return (_PART, _MATCHES, *left, *(right if reads_right else ()))


class BroadcastJoinExecutor(Executor[BroadcastJoin]):
    """Both inputs of a join; its chunks have `SIDE_COLUMN` and the fields of both inputs.

    An inner join returns its rows, other joins candidates (`candidate_fields`): pairs, changed rows
    of kept sides, and matches, which only count. A semi or anti join without a condition has one
    row for many matches.
    """

    label = "broadcast_join"

    def __init__(self, node: BroadcastJoin, states: Sequence[State], is_ansi: bool = True) -> None:
        super().__init__(node, states, is_ansi)
        self._comparisons = Comparisons(node)
        self._row_keys = tuple(
            RowKeys(side.fields, _state_order(node, number))
            for number, side in enumerate(node.children)
        )
        self._output = _Output(node)

    @classmethod
    def tables(cls, node: BroadcastJoin) -> tuple[StateTableSpec, ...]:
        """The rows of each side by the field that orders them, if any, and the side's key."""
        return tuple(_table(node, number) for number in range(2))

    @classmethod
    def count_rows(cls, node: BroadcastJoin, chunk: pa.RecordBatch, unit: int) -> int:
        """Return how many changed rows a chunk represents: what all units get counts in one."""
        if unit == 0:
            return int(chunk.num_rows)
        is_left = np.asarray(chunk.column(SIDE_COLUMN)) == 0
        return int(is_left.sum()) if node.has_one_row else 0

    def run(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batches of `batches` as one."""
        return pa.concat_batches([empty_chunk(self._output.schema), *self.batches(chunk)])

    def batches(self, chunk: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the output chunks of the epoch, each of at most 262,144 pairs.

        ConsistencyError if the chunk is not net. State is written before the first one.
        """
        sides = [self._side(chunk, number) for number in range(2)]
        for side in sides:
            own = side.matching.filtered(side.is_own[side.is_matching])
            own.write_to(self.states[side.number], [field.name for field in side.table.fields])
        yield from self._changed_rows(sides)
        yield from self._pairs_of_changes(sides)
        for side in sides:
            yield from self._pairs_with_stored(side, sides[1 - side.number])

    def _side(self, chunk: pa.RecordBatch, number: int) -> _Side:
        names = list(self.node.children[number].names)
        is_side = np.asarray(chunk.column(SIDE_COLUMN)) == number
        rows = chunk.select(names).filter(pa.array(is_side))
        where = f"the {_SIDES[number]} side of {self.label}"
        changes = Changes.of(rows, insert_mask(chunk)[is_side], self._row_keys[number], where)
        is_own = self.states[number].owns(changes.rows)
        return _Side(self.node, number, changes, is_own, self._comparisons)

    def _changed_rows(self, sides: Sequence[_Side]) -> Iterator[pa.RecordBatch]:
        """Yield the changed rows of kept sides that belong to this unit, but not those moved."""
        keeps = (self.node.kind.keeps_left, self.node.kind.keeps_right)
        for side, part, is_kept in zip(sides, (LEFT_ROW, RIGHT_ROW), keeps, strict=True):
            if not is_kept:
                continue
            is_changed = side.is_own.copy()
            is_changed[side.matching_positions[side.moved_rows]] = False
            changes = side.changes.filtered(is_changed)
            if len(changes):
                yield self._output.rows_of(side.number, changes.rows, changes.inserts, part)

    def _pairs_of_changes(self, sides: Sequence[_Side]) -> Iterator[pa.RecordBatch]:
        left, right = sides
        is_met = right.is_own[right.is_matching] | self.node.has_one_row
        for inserted in (False, True):
            lefts = np.flatnonzero(left.matching.inserts == inserted)
            rights = np.flatnonzero((right.matching.inserts == inserted) & is_met)
            left_rows, right_rows = left.compared.take(lefts), right.compared.take(rights)
            for left_picks, right_picks in self._comparisons.pairs(left_rows, right_rows):
                inserts = np.full(len(left_picks), inserted)
                yield from self._output.pairs(
                    left_rows.rows, left_picks, right_rows.rows, right_picks, inserts
                )

    def _pairs_with_stored(self, side: _Side, opposite: _Side) -> Iterator[pa.RecordBatch]:
        """Yield the pairs of a side's changes with the stored rows of the opposite side."""
        for stored in self._stored_rows(side, opposite):
            build = self._comparisons.encode(stored, opposite.number)
            pair = (side.plain, build) if side.number == 0 else (build, side.plain)
            for picks in self._comparisons.pairs(*pair):
                inserts = side.plain_inserts[picks[side.number]]
                yield from self._output.pairs(
                    pair[0].rows, picks[0], pair[1].rows, picks[1], inserts
                )
            pair = (side.compared, build) if side.number == 0 else (build, side.compared)
            for probe, build_picks, inserts in self._comparisons.moved_pairs(
                side.number, side.compared, side.moves, build
            ):
                picks = (probe, build_picks) if side.number == 0 else (build_picks, probe)
                yield from self._output.pairs(
                    pair[0].rows, picks[0], pair[1].rows, picks[1], inserts
                )

    def _stored_rows(self, side: _Side, opposite: _Side) -> Iterator[pa.RecordBatch]:
        """Yield the opposite side's rows that changes may match and the epoch does not delete."""
        state = self.states[opposite.number]
        if state.is_empty or not len(side.matching):
            return
        schema = opposite.changes.rows.schema
        first = opposite.table.primary_key[0].name
        ranges = self._comparisons.ranges(
            side.number, side.compared, side.plain_rows, side.moves, schema.field(first).type
        )
        is_read_everywhere = self.node.has_one_row and opposite.number == 1
        deleted = opposite.changes.keys.filter(pa.array(~opposite.changes.inserts))
        keys = self._row_keys[opposite.number]
        for batch in state.range_scan(
            ranges.lows, ranges.highs, schema.names, everywhere=is_read_everywhere
        ):
            rows = with_schema(batch, schema)
            if len(deleted):
                rows = rows.filter(pc.invert(pc.is_in(keys.encode(rows), value_set=deleted)))
            if rows.num_rows:
                yield rows


@dataclass(frozen=True)
class _Side:
    """The changes of one input.

    ``is_own``: which of them belong to this unit.
    """

    node: BroadcastJoin
    number: int
    changes: Changes
    is_own: Mask
    comparisons: Comparisons

    @cached_property
    def table(self) -> StateTableSpec:
        """The side's state table."""
        return _table(self.node, self.number)

    @cached_property
    def is_matching(self) -> Mask:
        """Which changes have no NULL in what is compared: the others match nothing."""
        is_null = np.zeros(len(self.changes), np.bool_)
        for name in self.comparisons.names(self.number):
            is_null |= np.asarray(self.changes.rows.column(name).is_null())
        return ~is_null

    @cached_property
    def matching_positions(self) -> Rows:
        """The positions of the changes that can match."""
        return np.flatnonzero(self.is_matching)

    @cached_property
    def matching(self) -> Changes:
        """The changes that can match."""
        return self.changes.filtered(self.is_matching)

    @cached_property
    def compared(self) -> ComparedRows:
        """The rows of the changes that can match, with their values."""
        return self.comparisons.encode(self.matching.rows, self.number)

    @cached_property
    def moves(self) -> Moves:
        """The rows that were replaced and only moved in the order of the other side."""
        node, rows, inserts = self.node, self.matching.rows, self.matching.inserts
        no_rows = np.empty(0, np.int64)
        if not node.hidden or inserts.all() or not inserts.any():
            return Moves(no_rows, no_rows)
        bound_order = node.order_of(1 - self.number)
        names = [field.name for field in node.visible[self.number]]
        names += [
            comparison.sides[self.number]
            for comparison in node.comparisons
            if comparison.sides[1 - self.number] != bound_order
        ]
        fields = {field.name: field for field in node.children[self.number].fields}
        codec = RowCodec([fields[name].type for name in dict.fromkeys(names)])
        contents = codec.encode(rows.select(list(dict.fromkeys(names))).columns, b"")
        before, after = np.flatnonzero(~inserts), np.flatnonzero(inserts)
        olds, news = (contents.take(pa.array(rows)) for rows in (before, after))
        indices = pc.index_in(olds, value_set=news)
        is_moved = np.asarray(indices.is_valid())
        positions = np.asarray(indices.drop_null()).astype(np.int64)
        return Moves(before[is_moved], after[positions])

    @cached_property
    def moved_rows(self) -> Rows:
        """Those of the changes that can match that belong to moves."""
        return np.concatenate([self.moves.before, self.moves.after])

    @cached_property
    def plain_rows(self) -> Rows:
        """The others."""
        is_plain = np.ones(len(self.matching), np.bool_)
        is_plain[self.moved_rows] = False
        return np.flatnonzero(is_plain)

    @cached_property
    def plain(self) -> ComparedRows:
        """The rows of `plain_rows`."""
        return self.compared.take(self.plain_rows)

    @cached_property
    def plain_inserts(self) -> Mask:
        """Which of `plain_rows` are inserted."""
        return self.matching.inserts[self.plain_rows]


class _Output:
    """Makes the chunks that a join returns."""

    def __init__(self, node: BroadcastJoin) -> None:
        self._node = node
        self._visible = tuple([field.name for field in fields] for fields in node.visible)
        self.schema = chunk_schema(candidate_fields(node))

    def rows_of(
        self, side: int, rows: pa.RecordBatch, inserts: Mask, part: int, matches: Rows | None = None
    ) -> pa.RecordBatch:
        """Return rows of one side as candidates."""
        columns = dict(
            zip(self._visible[side], rows.select(self._visible[side]).columns, strict=True)
        )
        return self._chunk(columns, inserts, part, matches)

    def pairs(
        self,
        left: pa.RecordBatch,
        left_picks: Rows,
        right: pa.RecordBatch,
        right_picks: Rows,
        inserts: Mask,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the chunks for some pairs of rows, by their positions."""
        kind = self._node.kind
        if not kind.gives_pairs and self._node.condition is None:
            yield self._counted(0, left, left_picks, inserts, LEFT_MATCHES)
            return
        columns: dict[str, pa.Array] = {}
        for names, rows, picks in zip(
            self._visible, (left, right), (left_picks, right_picks), strict=True
        ):
            picked_rows = rows.select(names).take(pa.array(picks))
            columns |= dict(zip(names, picked_rows.columns, strict=True))
        yield self._chunk(columns, inserts, PAIR if kind.gives_pairs else LEFT_MATCHES)
        if kind is not JoinKind.FULL:
            return
        if self._node.condition is None:
            yield self._counted(1, right, right_picks, inserts, RIGHT_MATCHES)
        else:
            yield self._chunk(columns, inserts, RIGHT_MATCHES)

    def _counted(
        self, side: int, rows: pa.RecordBatch, picks: Rows, inserts: Mask, part: int
    ) -> pa.RecordBatch:
        """Return a row for each of some rows whose number of matches changes."""
        positions, codes = np.unique(picks, return_inverse=True)
        gained = np.bincount(codes[inserts], minlength=len(positions))
        matches = gained - np.bincount(codes[~inserts], minlength=len(positions))
        changed = np.flatnonzero(matches)
        counts = matches[changed]
        changed_rows = rows.take(pa.array(positions[changed]))
        return self.rows_of(side, changed_rows, counts > 0, part, np.abs(counts))

    def _chunk(
        self, columns: dict[str, pa.Array], inserts: Mask, part: int, matches: Rows | None = None
    ) -> pa.RecordBatch:
        count = len(inserts)
        ops = np.where(inserts, Op.INSERT, Op.DELETE).astype(np.int8)
        columns = {
            **columns,
            OP_COLUMN: pa.array(ops),
            PART_COLUMN: pa.array(np.full(count, part, np.int8)),
            MATCHES_COLUMN: pa.array(np.ones(count, np.int64) if matches is None else matches),
        }
        arrays = [
            columns[field.name] if field.name in columns else pa.nulls(count, field.type)
            for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _state_order(node: BroadcastJoin, side: int) -> tuple[Order, ...]:
    """Return the primary key of a side's state: the field that orders it, and the side's key."""
    order = node.order_of(side)
    names = (*(() if order is None else (order,)), *node.children[side].key)
    return tuple(map(Order, dict.fromkeys(names)))


def _table(node: BroadcastJoin, side: int) -> StateTableSpec:
    child: Node = node.children[side]
    order = _state_order(node, side)
    by_name = {field.name: field for field in child.fields}
    names = dict.fromkeys((*(column.name for column in order), *child.names))
    return StateTableSpec(_SIDES[side], tuple(by_name[n] for n in names), order, child.key)
