"""The change of each group, in a form that adds up: tasks before the shuffle can compute it.

A task adds up its rows of an epoch before the shuffle (`combine`): one row per
group, with the columns of the parts and the number of deleted rows. In the unit that owns the group
these rows are added up again (`merge`).

Promises: the result does not depend on the order of rows and tasks.
Does not know: state tables. Values that are stored singly do not add up (`StateLayout.adds_up`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from relstate.storage import types

from ..plan.aggregate import Aggregate
from ..plan.node import Order
from .changes import chunk_schema, insert_mask, make_chunk
from .deltas import Deltas, Groups, Runs, group_deltas, group_rows
from .mode import Frequencies
from .part import Columns, ValueSource, to_counts
from .rowkeys import RowKeys
from .state_layout import StateLayout

DELETED = "_deleted"


@dataclass(frozen=True, slots=True)
class GroupChanges:
    """The change of each group.

    ``columns``: of the parts that add up; ``deleted``: the number of deleted rows; ``deltas``: the
    single values, and ``frequencies``: how many rows have them, for parts that need them.
    """

    columns: Columns
    deleted: NDArray[np.int64]
    deltas: Mapping[ValueSource, Deltas] = field(default_factory=dict)
    frequencies: Mapping[ValueSource, Frequencies] = field(default_factory=dict)


def partial_fields(node: Aggregate) -> tuple[types.Field, ...]:
    """Return the fields of the rows that `combine` returns."""
    groups = StateLayout(node).groups.fields
    return (*groups, types.Field(DELETED, types.BigInt()))


def combine(node: Aggregate, chunk: pa.RecordBatch) -> pa.RecordBatch:
    """Return the change of each group by the rows of a chunk, as a chunk of inserts."""
    layout = StateLayout(node)
    groups = group_rows(chunk, group_keys(node))
    weights = row_weights(chunk)
    changes = group_changes(
        layout, {source: source_deltas(chunk, groups, weights, source) for source in layout.sources}
    )
    columns = {**dict(zip(node.group, groups.keys.columns, strict=True)), **changes.columns}
    columns[DELETED] = pa.array(changes.deleted)
    rows = pa.RecordBatch.from_pydict(columns)
    schema = chunk_schema(partial_fields(node))
    return make_chunk(schema, rows, np.ones(rows.num_rows, np.bool_))


@dataclass(frozen=True, slots=True)
class CombineStep:
    """Combines rows into the changes of an aggregate's groups."""

    node: Aggregate

    @property
    def fields(self) -> tuple[types.Field, ...]:
        """The fields of the combined rows."""
        return partial_fields(self.node)

    def run(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Return one row for each group in the chunk."""
        return combine(self.node, chunk)


def merge(layout: StateLayout, chunk: pa.RecordBatch, groups: Groups) -> GroupChanges:
    """Return the sum of the rows of `combine` over each group."""
    runs = Runs(len(groups), groups.codes)
    rows = chunk.take(pa.array(groups.order))
    columns = {name: rows.column(name) for name in rows.schema.names}
    sums: dict[str, pa.Array] = {}
    for part in layout.parts:
        names = (field.name for field in part.fields)
        sums |= zip(names, part.summed(columns, runs), strict=True)
    return GroupChanges(sums, runs.totals(to_counts(columns[DELETED])))


def group_changes(
    layout: StateLayout,
    deltas: Mapping[ValueSource, Deltas],
    frequencies: Mapping[ValueSource, Frequencies] | None = None,
) -> GroupChanges:
    """Return the change of each group by inserted and deleted values."""
    columns: dict[str, pa.Array] = {}
    for part in layout.adding:
        names = (field.name for field in part.fields)
        columns |= zip(names, part.changed(deltas[part.source]), strict=True)
    deleted = deltas[layout.row_count.source].deleted
    return GroupChanges(columns, deleted, deltas, frequencies or {})


def source_deltas(
    chunk: pa.RecordBatch, groups: Groups, weights: NDArray[np.int64], source: ValueSource
) -> Deltas:
    """Return the changes of a source's values in a chunk; the source is not distinct."""
    return group_deltas(chunk, groups, weights, source.argument, source.filter)


def row_weights(chunk: pa.RecordBatch) -> NDArray[np.int64]:
    """Return for every row 1 if it is inserted, -1 if it is deleted."""
    return np.where(insert_mask(chunk), 1, -1)


def count_rows(node: Aggregate, chunk: pa.RecordBatch) -> int:
    """Return how many changed rows the rows of `combine` represent."""
    columns = {name: chunk.column(name) for name in chunk.schema.names}
    added = StateLayout(node).row_count.of(columns)
    return int(added.sum() + 2 * to_counts(columns[DELETED]).sum())


def group_keys(node: Aggregate) -> RowKeys:
    """Return the keys of an aggregate's groups."""
    return RowKeys(node.fields, [Order(name) for name in node.group])
