"""What a task of a refresh does: it runs the executors of a fragment in one unit, for one epoch.

Promises: what it writes is durable before the driver hears of it, and nobody else does; a task
that fails or is run again leaves files behind, never rows.
Does not know: Spark's frames, or who commits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from relstate.connector.failure import reported_items
from relstate.storage import (
    LocalEnvironment,
    ReadPlan,
    SegmentRecord,
    SegmentWriter,
    errors,
    types,
)
from relstate.vnode import VnodeMapping

from .executor.state import StoredState
from .message import TaskMessage
from .operators import Operator
from .wire import change_rows, chunk_schema, control_rows, wire_schema

# Rows handed to Spark at once.
_BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class Target:
    """Where a task writes: a store, and how its rows are distributed."""

    path: str
    vnode_count: int
    shards: int

    def writer(self) -> SegmentWriter:
        """Return a writer of segments."""
        return SegmentWriter(LocalEnvironment(self.path), self.vnode_count, self.shards)


class Writers:
    """The writers of one task: one for the view's rows, one for all state, as they are kept."""

    def __init__(self, target: Target, owned: NDArray[np.bool_]) -> None:
        """``owned``: of every vnode whether it is this task's to write."""
        self.owned = owned
        self._target = target
        self._writers: dict[bool, SegmentWriter] = {}

    def writer(self, *, is_root: bool) -> SegmentWriter:
        """Return the writer of the view's own rows, or that of its state."""
        if is_root not in self._writers:
            self._writers[is_root] = self._target.writer()
        return self._writers[is_root]

    def finish(self) -> tuple[SegmentRecord, ...]:
        """Return what all of them wrote, durable."""
        return tuple(one for writer in self._writers.values() for one in writer.finish())

    def abort(self) -> None:
        """Remove what they wrote."""
        for writer in self._writers.values():
            writer.abort()


class Step(Protocol):
    """A part of a fragment, from chunk to chunk."""

    @property
    def executors(self) -> tuple[int, ...]:
        """The numbers of the executors it runs."""

    def run(self, chunk: pa.RecordBatch, writers: Writers) -> pa.RecordBatch:
        """Return what the changes of a chunk make."""


@dataclass(frozen=True, slots=True)
class ExecutorStep:
    """An executor, and its state tables as they are read."""

    operator: Operator
    states: tuple[ReadPlan, ...]
    is_ansi: bool

    @property
    def executors(self) -> tuple[int, ...]:
        """Its number."""
        return (self.operator.number,)

    def run(self, chunk: pa.RecordBatch, writers: Writers) -> pa.RecordBatch:
        """Return what the executor gives, its changes of state written."""
        writer = writers.writer(is_root=self.operator.is_root)
        states = [StoredState(plan.open(), writer, writers.owned) for plan in self.states]
        executor = self.operator.executor(self.operator.node, states, is_ansi=self.is_ansi)
        return executor.run(chunk)


@dataclass(frozen=True, slots=True)
class SelectStep:
    """Columns chosen, ordered and named: for each a field of the chunk, and its new name."""

    columns: tuple[tuple[str, str], ...]
    fields: tuple[types.Field, ...]

    @property
    def executors(self) -> tuple[int, ...]:
        """None."""
        return ()

    def run(self, chunk: pa.RecordBatch, writers: Writers) -> pa.RecordBatch:
        """Return the chunk with these columns."""
        columns = [chunk.column(source) for source, _ in self.columns]
        return pa.RecordBatch.from_arrays(
            [chunk.column(0), *columns], schema=chunk_schema(self.fields)
        )


@dataclass(frozen=True, slots=True)
class FragmentTask:
    """The steps of a fragment. Travels to the tasks, where it is called with their rows.

    ``fields``: of the rows that come; ``result``: of those that go. ``fan``: how many units the
    next fragment may have, each of which gets a control row. ``units``: in how many units it runs,
    of which ``mapping`` tells who owns which vnode where there are several.
    """

    view_id: int
    target: Target
    mapping: VnodeMapping
    fields: tuple[types.Field, ...]
    steps: tuple[Step, ...]
    result: tuple[types.Field, ...]
    units: int
    fan: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the steps in the unit of this task, and yield changes and control rows."""
        return reported_items(self._rows(batches))

    def _rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        started = LocalEnvironment(self.target.path).now()
        chunk, messages, unit = self._received(batches)
        rows = chunk.num_rows
        writers = Writers(self.target, self._owned(unit))
        try:
            for step in self.steps:
                chunk = step.run(chunk, writers)
            segments = writers.finish()
        except BaseException:
            writers.abort()
            raise
        schema = wire_schema(self.result)
        for start in range(0, chunk.num_rows, _BATCH_ROWS):
            yield change_rows(chunk.slice(start, _BATCH_ROWS), schema)
        executors = tuple(number for step in self.steps for number in step.executors)
        own = TaskMessage(self.view_id, executors, unit, rows, started, segments)
        for message in (*messages, own.encode()):
            yield control_rows([unit], message, schema)
        yield control_rows(range(unit, self.fan, self.units), b"", schema)

    def _received(
        self, batches: Iterator[pa.RecordBatch]
    ) -> tuple[pa.RecordBatch, list[bytes], int]:
        """Return the changes and the messages among the rows of a task, and which unit it is.

        The control rows tell: the task's own number does not, where a union stands behind it.
        """
        schema = chunk_schema(self.fields)
        messages: list[bytes] = []
        targets: set[int] = set()
        chunks: list[pa.RecordBatch] = []
        for batch in batches:
            target, control = batch.columns[-2:]
            if control.null_count < len(control):
                messages += [one for one in control.drop_null().to_pylist() if one]
                targets.update(target.drop_null().to_pylist())
                batch = batch.filter(control.is_null())
            if batch.num_rows:
                chunks.append(_in_schema(batch.select(range(len(schema))), schema))
        chunk = pa.concat_batches(chunks) if chunks else _empty(schema)
        return chunk, messages, self._unit(targets)

    def _owned(self, unit: int) -> NDArray[np.bool_]:
        if self.units == 1:
            return np.ones(self.mapping.vnode_count, bool)
        owned: NDArray[np.bool_] = np.array(self.mapping.owners) == unit
        return owned

    def _unit(self, targets: set[int]) -> int:
        """Return the unit whose control rows these are. LostMessageError unless it is one."""
        if self.units == 1:
            return 0
        if len(targets) != 1:
            raise errors.LostMessageError(
                f"a task of the view with the id {self.view_id} got control rows for the units "
                f"{sorted(targets)} instead of one: Spark lost rows or brought them elsewhere; "
                "nothing was committed: refresh again"
            )
        return targets.pop()


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, one.type) for one in schema], schema=schema)


def _in_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch of Spark's under our schema: timestamps come in the session's time zone."""
    if batch.schema.equals(schema):
        return batch
    pairs = zip(batch.columns, schema, strict=True)
    columns = [c if c.type.equals(field.type) else c.cast(field.type) for c, field in pairs]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
