"""The rows of the keys that changed: the first executor of a keyed recompute.

Promises: it returns all rows of every changed key, as they are after the epoch, in the order of the
key and of the input's key; and one *marker* for a changed key that has no rows left.
Does not know: what is computed over the rows, or where.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from relstate.storage import OP_COLUMN, Op, types

from ..plan.node import Names, Order
from ..plan.recompute import DistinctSet, GroupRecompute, KeyedRecompute
from .changes import Changes, Mask, chunk_schema, empty_chunk, insert_mask, with_schema
from .deltas import group_rows
from .executor import Executor, StateTableSpec, check_fits_state
from .rowkeys import (
    Codes,
    RowKeys,
    Rows,
    first_positions,
    mark_codes,
    number_keys,
    number_sorted_keys,
)
from .state import State

GROUP_COLUMN = "_group"
"""In the rows of changed keys: the number of the key (int64) in this unit."""
ROW_COLUMN = "_row"
"""In the rows of changed keys: the position of the row (int64) in its unit; NULL for a marker."""

_POSITION = (types.Field(GROUP_COLUMN, types.BigInt()), types.Field(ROW_COLUMN, types.BigInt()))


def first_column(number: int) -> str:
    """Return the name of the column that says whether a row is in a distinct set, by its number."""
    return f"_first_{number}"


def row_fields(node: KeyedRecompute) -> tuple[types.Field, ...]:
    """Return the fields of the rows of changed keys: positions, distinct sets, the child's."""
    sets = range(len(node.distinct_sets))
    firsts = (types.Field(first_column(number), types.Boolean()) for number in sets)
    return (*_POSITION, *firsts, *node.child.fields)


class KeyedRowsExecutor(Executor[KeyedRecompute]):
    """The rows of the changed keys of an operator that Spark evaluates again for them.

    The chunks that it returns are not changes: an insert is a row of a changed key, or the marker
    of a key that has an output without rows; a delete is the marker of a key that has none.
    """

    label = "keyed_rows"

    def __init__(self, node: KeyedRecompute, states: Sequence[State], is_ansi: bool = True) -> None:
        super().__init__(node, states, is_ansi)
        self._keys = RowKeys(node.child.fields, _row_order(node))
        self._groups = RowKeys(node.child.fields, [Order(name) for name in node.group])
        self._schema = chunk_schema(row_fields(node))

    @classmethod
    def tables(cls, node: KeyedRecompute) -> tuple[StateTableSpec, ...]:
        """The child's rows, by their key."""
        fields, distribution = node.child.fields, node.distribution or ()
        return (StateTableSpec.of_rows("rows", fields, _row_order(node), distribution),)

    def run(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows and markers of the changed keys.

        ConsistencyError if a deleted row does not exist, or an inserted one already exists.
        """
        rows = chunk.select(list(self.node.child.names))
        changes = Changes.of(rows, insert_mask(chunk), self._keys, self.label)
        if not len(changes):
            return self._idle_chunk()
        ranks = number_sorted_keys(self._groups.encode(changes.rows))
        groups = changes.rows.take(pa.array(first_positions(ranks))).select(
            list(self._groups.names)
        )
        stored, stored_groups = self._stored_rows(groups, changes)
        (stored_codes, codes), count = number_keys([self._keys.encode(stored), changes.keys])
        check_fits_state(self.label, changes, self._keys, codes, mark_codes(stored_codes, count))
        deleted = mark_codes(codes[~changes.inserts], count)
        remaining = np.flatnonzero(~deleted[stored_codes])
        inserted = np.flatnonzero(changes.inserts)
        positions = np.concatenate([remaining, inserted + len(stored_codes)])
        row_groups = np.concatenate([stored_groups[remaining], ranks[inserted]])
        order = np.argsort(np.concatenate([stored_codes[remaining], codes[inserted]]))
        changes.write_to(self.states[0], [field.name for field in self._spec.fields])
        rows = pa.concat_batches([stored, changes.rows]).take(pa.array(positions[order]))
        if isinstance(self.node, GroupRecompute):
            rows = self._groups.normalize(rows)
        return self._output(_KeyedRows(rows, row_groups[order]), groups)

    @property
    def _spec(self) -> StateTableSpec:
        (spec,) = self.tables(self.node)
        return spec

    def _idle_chunk(self) -> pa.RecordBatch:
        """Return the chunk of an epoch without changes: a global aggregate has a row without any.

        Its group is the constant 0 of its type: there may be no row to read it from.
        """
        if not self.node.is_never_empty or not self.states[0].is_empty:
            return empty_chunk(self._schema)
        columns = [pa.array([0]).cast(field.type) for field in self._groups.schema]
        groups = pa.RecordBatch.from_arrays(columns, schema=self._groups.schema)
        no_rows = pa.RecordBatch.from_pylist([], pa.schema(list(self._schema)[-self._width :]))
        return self._output(_KeyedRows(no_rows, np.empty(0, np.int64)), groups)

    @property
    def _width(self) -> int:
        return len(self.node.child.fields)

    def _stored_rows(
        self, groups: pa.RecordBatch, changes: Changes
    ) -> tuple[pa.RecordBatch, Codes]:
        """Return (rows, their groups): the rows of the groups before the epoch."""
        (state,) = self.states
        if state.is_empty:
            return changes.rows.slice(0, 0), np.empty(0, np.int64)
        schema = changes.rows.schema
        indices, rows = state.prefix_scan(groups, schema.names)
        return with_schema(rows, schema), indices

    def _output(self, keyed: _KeyedRows, groups: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows, and a marker for each of the groups without rows."""
        is_empty = ~mark_codes(keyed.groups, groups.num_rows)
        markers = groups.filter(pa.array(is_empty))
        count = markers.num_rows
        marker_op = Op.INSERT if self.node.is_never_empty else Op.DELETE
        ops = np.repeat([Op.INSERT, marker_op], [len(keyed.groups), count]).astype(np.int8)
        numbers = np.concatenate([keyed.groups, np.flatnonzero(is_empty)])
        columns = {
            OP_COLUMN: pa.array(ops),
            GROUP_COLUMN: pa.array(numbers),
            ROW_COLUMN: _followed(pa.array(np.arange(len(keyed.groups))), count),
        }
        for number, rows in enumerate(self.node.distinct_sets):
            is_first = keyed.first_rows(rows, self.node.group, self.node.child.fields)
            columns[first_column(number)] = _followed(pa.array(is_first), count)
        for field in self.node.child.fields:
            column = keyed.rows.column(field.name)
            columns[field.name] = (
                pa.concat_arrays([column, markers.column(field.name)])
                if field.name in self.node.group
                else _followed(column, count)
            )
        arrays = [columns[name] for name in self._schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


@dataclass(frozen=True, slots=True)
class _KeyedRows:
    """Rows in the order of their keys, and the number of the group of each."""

    rows: pa.RecordBatch
    groups: Codes

    def first_rows(
        self, distinct: DistinctSet, group: Names, fields: Sequence[types.Field]
    ) -> Mask:
        """Return which rows are the first of their group with their values."""
        positions: Rows = np.arange(len(self.groups))
        rows = self.rows
        if distinct.filter is not None:
            is_true = pc.fill_null(rows.column(distinct.filter), False)
            rows, positions = rows.filter(is_true), positions[np.asarray(is_true)]
        names = dict.fromkeys((*group, *distinct.columns))
        row_keys = RowKeys(fields, [Order(name) for name in names])
        firsts = group_rows(rows, row_keys).firsts
        is_first: Mask = mark_codes(positions[firsts], len(self.groups))
        return is_first


def _followed(column: pa.Array, nulls: int) -> pa.Array:
    """Return a column followed by NULLs."""
    return pa.concat_arrays([column, pa.nulls(nulls, column.type)])


def _row_order(node: KeyedRecompute) -> tuple[Order, ...]:
    """Return the primary key of the rows: the group, the rest of the child's key."""
    return tuple(map(Order, node.row_key))
