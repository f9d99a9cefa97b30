"""Steps without state: functions that a task applies to chunks.

Promises: the result depends on the chunk alone.
Does not know: tasks, executors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from relstate.storage import types

from .changes import chunk_schema


class Step(Protocol):
    """A function from chunk to chunk."""

    @property
    def fields(self) -> tuple[types.Field, ...]:
        """The fields of the chunks that it returns."""

    def run(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Return the resulting chunk."""


def run_steps(steps: Sequence[Step], chunk: pa.RecordBatch) -> pa.RecordBatch:
    """Return the chunk after all steps, applied in order."""
    for step in steps:
        chunk = step.run(chunk)
    return chunk


@dataclass(frozen=True, slots=True)
class SelectStep:
    """Selects, orders and renames columns: for each the source field and the new field."""

    sources: tuple[str, ...]
    fields: tuple[types.Field, ...]

    def run(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Return the chunk with these columns."""
        columns = [chunk.column(source) for source in self.sources]
        return pa.RecordBatch.from_arrays(
            [chunk.column(0), *columns], schema=chunk_schema(self.fields)
        )
