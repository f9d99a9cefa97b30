"""Steps without state: what a task does to chunks wherever it has them.

Promises: a function of the chunk.
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
        """Return what becomes of a chunk."""


def run_steps(steps: Sequence[Step], chunk: pa.RecordBatch) -> pa.RecordBatch:
    """Return what becomes of a chunk in some steps, one after the other."""
    for step in steps:
        chunk = step.run(chunk)
    return chunk


@dataclass(frozen=True, slots=True)
class SelectStep:
    """Columns chosen, ordered and named: for each a field of the chunk, and its new field."""

    sources: tuple[str, ...]
    fields: tuple[types.Field, ...]

    def run(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Return the chunk with these columns."""
        columns = [chunk.column(source) for source in self.sources]
        return pa.RecordBatch.from_arrays(
            [chunk.column(0), *columns], schema=chunk_schema(self.fields)
        )
