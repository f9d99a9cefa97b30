"""The aggregate: one row per group, maintained from the rows that are inserted and deleted.

The table of the groups has one row per group with the state of all calls (part). Values of which
the least or the greatest is asked for, and that may be deleted (extreme), and distinct values
(distinct), have tables of their own.

Promises: the output is what changed, bit for bit; a group without rows has no state, except for the
one of a global aggregate, which always exists.
Does not know: expressions; Spark has computed arguments and filters.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from relstate.storage import KeyCodec, arrow, types

from ..plan.aggregate import Aggregate
from ..plan.node import Order
from .changes import Step, chunk_schema, empty_chunk, make_chunk
from .deltas import Deltas, Groups, group_rows
from .distinct import distinct_changes
from .executor import Executor, StateTableSpec, state_mismatch_error
from .extreme import ExtremeTable
from .mode import Frequencies, Mode
from .part import Columns, ValueSource, to_counts
from .partial import (
    CombineStep,
    GroupChanges,
    count_rows,
    group_changes,
    group_keys,
    merge,
    row_weights,
    source_deltas,
)
from .result import Overflow
from .state import State
from .state_layout import StateLayout

Mask = NDArray[np.bool_]


class AggregateExecutor(Executor[Aggregate]):
    """The groups of an aggregate in one unit for one epoch.

    The group of a global aggregate is the constant 0 of its type: there may be no row to read it
    from.
    """

    label = "aggregate"

    def __init__(self, node: Aggregate, states: Sequence[State], is_ansi: bool = True) -> None:
        super().__init__(node, states, is_ansi)
        self._layout = StateLayout(node)
        self._schema = chunk_schema(node.fields)
        self._row_keys = group_keys(node)

    @classmethod
    def tables(cls, node: Aggregate) -> tuple[StateTableSpec, ...]:
        """Return the groups' table, one per deletable extreme and one per distinct argument.

        UnsupportedTypeError for a function that is not maintained over values of its type.
        """
        return StateLayout(node).tables

    @classmethod
    def combiner(cls, node: Aggregate) -> tuple[Step, type[Executor[Aggregate]]] | None:
        """Return how the rows of a group are combined, if no part needs the single rows."""
        return (CombineStep(node), MergingAggregateExecutor) if StateLayout(node).adds_up else None

    def run(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Apply an epoch's changes and return the changes of the groups.

        ConsistencyError if more rows are deleted than there are; ValueRangeError if a sum
        overflows.
        """
        groups = self._groups(chunk)
        if not len(groups):
            return empty_chunk(self._schema)
        before, existed = self._before(groups)
        changes = self._changes(chunk, groups)
        exists = self._find_existing(groups, before, changes)
        after = self._after(before, changes)
        for (parts, spec), state in zip(self._layout.extremes, self.states[1:], strict=False):
            first, rows, deltas = parts[0], chunk, changes.deltas[parts[0].source]
            if isinstance(first, Mode):
                rows, deltas = changes.frequencies[first.source].rank_changes(first, groups)
            table = ExtremeTable(parts, spec, state)
            columns = table.advance(before, deltas, rows, groups, exists)
            after |= zip((part.column(part.suffix) for part in parts), columns, strict=True)
        self._check_counts(groups, after)
        self._write(groups, before, after, existed, exists)
        return self._output(groups, before, after, existed, exists)

    def _groups(self, chunk: pa.RecordBatch) -> Groups:
        if not self.node.is_global:
            return group_rows(chunk, self._row_keys)
        columns = [pa.array([0]).cast(field.type) for field in self._row_keys.schema]
        keys = pa.RecordBatch.from_arrays(columns, schema=self._row_keys.schema)
        # The row exists from the first epoch on, even if that epoch has no changes.
        is_idle = not chunk.num_rows and not self.states[0].is_empty
        rows = np.arange(chunk.num_rows)
        return Groups(keys.slice(1) if is_idle else keys, rows, np.zeros_like(rows))

    def _before(self, groups: Groups) -> tuple[Columns, Mask]:
        """Return (columns, whether they exist): the groups' rows before the epoch."""
        fields = [field for part in self._layout.parts for field in part.fields]
        positions = np.full(len(groups), -1, np.int64)
        if self.states[0].is_empty:
            columns = {f.name: pa.nulls(len(groups), arrow.arrow_type(f.type)) for f in fields}
            return columns, positions >= 0
        indices, rows = self.states[0].get_rows(groups.keys, [field.name for field in fields])
        positions[indices] = np.arange(len(indices))
        row_positions = pa.array(positions, mask=positions < 0)
        return {f.name: rows.column(f.name).take(row_positions) for f in fields}, positions >= 0

    def _changes(self, chunk: pa.RecordBatch, groups: Groups) -> GroupChanges:
        """Return the change of each group; write the counts of the distinct values."""
        weights = row_weights(chunk)
        deltas: dict[ValueSource, Deltas] = {}
        frequencies: dict[ValueSource, Frequencies] = {}
        distincts = self._layout.distincts
        for table, state in zip(distincts, self.states[-len(distincts) :], strict=False):
            distinct = distinct_changes(table, state, chunk, groups, weights)
            deltas |= distinct.deltas
            frequencies |= distinct.frequencies
        for source in self._layout.sources:
            deltas[source] = source_deltas(chunk, groups, weights, source)
        return group_changes(self._layout, deltas, frequencies)

    def _find_existing(self, groups: Groups, before: Columns, changes: GroupChanges) -> Mask:
        """Return which groups have a row after the epoch."""
        row_count, deleted = self._layout.row_count, changes.deleted
        count = row_count.of(before)
        if (deleted > count).any():
            group = int(np.flatnonzero(deleted > count)[0])
            self._fail(groups, group, f"has {count[group]} rows, but {deleted[group]} are deleted")
        exists: Mask = (count + row_count.of(changes.columns) > 0) | self.node.is_global
        return exists

    def _after(self, before: Columns, changes: GroupChanges) -> dict[str, pa.Array]:
        columns: dict[str, pa.Array] = {}
        for part in self._layout.adding:
            names = (field.name for field in part.fields)
            columns |= zip(names, part.advance(before, changes.columns), strict=True)
        return columns

    def _check_counts(self, groups: Groups, after: Columns) -> None:
        rows = self._layout.row_count.of(after)
        for name in (name for part in self._layout.parts for name in part.counts):
            count = to_counts(after[name])
            is_invalid = (count < 0) | (count > rows)
            if is_invalid.any():
                group = int(np.flatnonzero(is_invalid)[0])
                self._fail(groups, group, f"has {rows[group]} rows, but {name} is {count[group]}")

    def _fail(self, groups: Groups, group: int, problem: str) -> NoReturn:
        group_key = f" with {self._row_keys.describe(groups.keys, group)}"
        raise state_mismatch_error(
            f"in the state table {self._layout.groups.role} of an aggregate, the group"
            f"{'' if self.node.is_global else group_key} {problem}"
        )

    def _write(
        self, groups: Groups, before: Columns, after: Columns, existed: Mask, exists: Mask
    ) -> None:
        fields = [field for part in self._layout.parts for field in part.fields]
        changed = (existed != exists) | existed & exists & _differ(fields, before, after, existed)
        if not changed.any():
            return
        names = [*self._row_keys.names, *(field.name for field in fields)]
        columns = [*groups.keys.columns, *(after[field.name] for field in fields)]
        rows = pa.RecordBatch.from_arrays(columns, names=names).filter(pa.array(changed))
        deleted = ~exists[changed]
        self.states[0].write(rows, deleted if deleted.any() else None)

    def _output(
        self, groups: Groups, before: Columns, after: Columns, existed: Mask, exists: Mask
    ) -> pa.RecordBatch:
        new = self._outputs(groups, after, self.is_ansi)
        old = self._outputs(groups, before, False) if existed.any() else new
        fields = [call.output for call in self.node.calls]
        differ = _differ(fields, old, new, existed)
        deletes = np.flatnonzero(existed & (~exists | differ))
        inserts = np.flatnonzero(exists & (~existed | differ))
        rows = pa.concat_batches(
            [
                _rows(groups, old, fields).take(pa.array(deletes)),
                _rows(groups, new, fields).take(pa.array(inserts)),
            ]
        )
        return make_chunk(self._schema, rows, np.arange(rows.num_rows) >= len(deletes))

    def _outputs(self, groups: Groups, columns: Columns, is_ansi: bool) -> Columns:
        describe = None if self.node.is_global else partial(self._row_keys.describe, groups.keys)
        overflow = Overflow(is_ansi, describe)
        return {
            result.call.output.name: result.of(columns, overflow) for result in self._layout.results
        }


class MergingAggregateExecutor(AggregateExecutor):
    """An aggregate over rows combined before the shuffle: chunks hold changes of groups.

    A job runs it in place of `AggregateExecutor`.
    """

    @classmethod
    def count_rows(cls, node: Aggregate, chunk: pa.RecordBatch, unit: int) -> int:
        """Return how many changed rows were combined."""
        return count_rows(node, chunk)

    def _changes(self, chunk: pa.RecordBatch, groups: Groups) -> GroupChanges:
        return merge(self._layout, chunk, groups)


def _rows(groups: Groups, outputs: Columns, fields: Sequence[types.Field]) -> pa.RecordBatch:
    columns = [*groups.keys.columns, *(outputs[field.name] for field in fields)]
    names = [*groups.keys.schema.names, *(field.name for field in fields)]
    return pa.RecordBatch.from_arrays(columns, names=names)


def _differ(fields: Sequence[types.Field], old: Columns, new: Columns, existed: Mask) -> Mask:
    """Return which of the rows that existed differ; NaN equals NaN, and -0 is not 0."""
    differ = np.zeros(len(existed), np.bool_)
    if fields and existed.any():
        orders = [Order(field.name) for field in fields]
        codec = KeyCodec([field.type for field in fields], orders, tells_zeros=True)
        keys = (codec.encode([columns[f.name] for f in fields]) for columns in (old, new))
        differ = np.asarray(pc.not_equal(*keys))
    return differ
