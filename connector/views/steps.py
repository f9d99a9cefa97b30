"""What a task does to chunks without any state: columns are chosen, rows of groups added up.

Promises: a function of the chunk; it may be called wherever the rows are.
Does not know: tasks, executors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from relstate.storage import types

from .executor.changes import chunk_schema
from .executor.partial import combined, partial_fields
from .plan.aggregate import Aggregate


class Step(Protocol):
    """From chunk to chunk."""

    @property
    def fields(self) -> tuple[types.Field, ...]:
        """Of the rows that it gives."""

    def of(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Return what becomes of a chunk."""


def after(steps: Sequence[Step], chunk: pa.RecordBatch) -> pa.RecordBatch:
    """Return what becomes of a chunk in some steps."""
    for step in steps:
        chunk = step.of(chunk)
    return chunk


@dataclass(frozen=True, slots=True)
class SelectStep:
    """Columns chosen, ordered and named: for each a field of the chunk, and the field it is."""

    sources: tuple[str, ...]
    fields: tuple[types.Field, ...]

    def of(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Return the chunk with these columns."""
        columns = [chunk.column(source) for source in self.sources]
        return pa.RecordBatch.from_arrays(
            [chunk.column(0), *columns], schema=chunk_schema(self.fields)
        )


@dataclass(frozen=True, slots=True)
class CombineStep:
    """Rows added up to what they change of an aggregate's groups."""

    node: Aggregate

    @property
    def fields(self) -> tuple[types.Field, ...]:
        """The group's, and those of what changes."""
        return partial_fields(self.node)

    def of(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Return a row for each group in the chunk."""
        return combined(self.node, chunk)
