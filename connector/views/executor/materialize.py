"""Materialize: the changes of a plan's root, written to the view's table.

Promises: at most one row per key; a key that is inserted or deleted twice is an error.
Does not know: the view's name, its visible columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from relstate.storage import arrow

from ..plan.materialize import Materialize
from .changes import Changes, chunk_schema, empty_chunk, insert_mask
from .executor import Executor, StateTableSpec
from .rowkeys import RowKeys
from .state import State


class MaterializeExecutor(Executor[Materialize]):
    """The root of a plan; its chunks have the fields of the child, under the child's names."""

    label = "materialize"

    def __init__(self, node: Materialize, states: Sequence[State], is_ansi: bool = True) -> None:
        super().__init__(node, states, is_ansi)
        self._keys = RowKeys(node.fields, node.table_key)

    @classmethod
    def tables(cls, node: Materialize) -> tuple[StateTableSpec, ...]:
        """The view's table."""
        return (StateTableSpec("view", node.fields, node.table_key, node.distribution or ()),)

    def run(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Write the changes and return an empty chunk: the root has no output."""
        self._changes(chunk).write_to(self.states[0], self.node.names)
        return empty_chunk(chunk_schema(self.node.fields))

    def _changes(self, chunk: pa.RecordBatch) -> Changes:
        schema = arrow.arrow_schema(self.node.fields)
        columns = [chunk.column(field) for _, field in self.node.stored]
        rows = pa.RecordBatch.from_arrays(columns, schema=schema)
        return Changes.of(rows, insert_mask(chunk), self._keys, self.label)


class ReplaceExecutor(MaterializeExecutor):
    """The root of a plan in a full refresh: what it gets are all rows of the view."""

    def run(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Write what differs from the rows that the view has; return an empty chunk."""
        changes = self._changes(chunk)
        inserted = changes.filtered(changes.inserts).rows
        self.states[0].replace_rows(inserted.select(list(self.node.names)))
        return empty_chunk(chunk_schema(self.node.fields))
