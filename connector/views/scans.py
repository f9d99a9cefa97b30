"""What the sources of a refresh give, and the tasks that read it: the first rows of its job.

Promises: what a source gives is fixed before the job begins; small reads are done on the driver,
which takes less time than to run a task.
Does not know: what becomes of the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

from relstate.connector.failure import strip_tracebacks
from relstate.connector.parallelism import parallelism
from relstate.connector.source.read import DRIVER_BYTES
from relstate.connector.types import passes_as_is, struct_of
from relstate.storage import (
    CHANGE_TYPE,
    Environment,
    FeedPlan,
    Op,
    ReadPlan,
    adds_row,
    ragged,
    types,
)
from relstate.vnode import cached_property

from .exchange import RowOutput, TaskOutput
from .executor.changes import Mask, Step, chunk_schema, run_steps
from .plan.generate import Source
from .plan.stateless import Scan
from .quarantine import RowSelection, key_codec
from .wire import control_rows

# What makes a task of what the driver does not read, in stored bytes.
_TASK_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class OneRowPlan:
    """The snapshot of a `OneRow`: its row is in vnode 0."""

    vnode_count: int
    stored_rows: int = 1
    stored_bytes: int = 0


@dataclass(frozen=True)
class RowsPlan:
    """Changes of a scan that have been read: a chunk of its fields, all in vnode 0."""

    scan: Scan
    rows: pa.RecordBatch
    vnode_count: int

    @cached_property
    def keys(self) -> ragged.Bytes:
        """The encoded keys of the rows."""
        return key_codec(self.scan).encode(self.rows)

    def selected(self, selection: RowSelection) -> RowsPlan:
        """Return the changes that a selection takes in."""
        if selection.is_all:
            return self
        return self.filtered(selection.takes(self.rows, self.keys))

    def filtered(self, is_taken: Mask) -> RowsPlan:
        """Return some of the changes."""
        if is_taken.all():
            return self
        taken = pa.array(is_taken)
        plan = RowsPlan(self.scan, self.rows.filter(taken), self.vnode_count)
        # The keys need not be encoded again.
        plan.__dict__["keys"] = self.keys.filter(taken)
        return plan

    @property
    def stored_rows(self) -> int:
        """How many there are."""
        return int(self.rows.num_rows)

    @property
    def stored_bytes(self) -> int:
        """How many bytes they have."""
        return int(self.rows.nbytes)


@dataclass(frozen=True, slots=True)
class SourceRead:
    """What a source gives in one epoch.

    ``plan``: a change feed, a part of a snapshot, or rows; None for nothing. ``vnodes``: which.
    ``selection``: which of the changes the view takes in; None for all.
    """

    source: Source
    plan: FeedPlan | ReadPlan | OneRowPlan | RowsPlan | None
    vnodes: range
    selection: RowSelection | None = None

    @property
    def stored_bytes(self) -> int:
        """About how many stored bytes it reads."""
        if self.plan is None:
            return 0
        return self.plan.stored_bytes * len(self.vnodes) // self.plan_vnodes

    @property
    def rows(self) -> int:
        """About how many stored rows it reads."""
        if self.plan is None:
            return 0
        return self.plan.stored_rows * len(self.vnodes) // self.plan_vnodes

    def part(self, number: int, count: int) -> SourceRead:
        """Return one of ``count`` parts of it, each of some of the vnodes, or of nothing."""
        vnodes = _part(self.vnodes, number, count)
        # There may be fewer vnodes than parts. No task would read an empty range, and none would
        # add the control rows.
        return replace(self, plan=self.plan if vnodes else None, vnodes=vnodes)

    def selected(self, selection: RowSelection) -> SourceRead:
        """Return the changes that a selection takes in, instead of the present one."""
        if isinstance(self.plan, RowsPlan):
            return replace(self, plan=self.plan.selected(selection))
        return replace(self, selection=None if selection.is_all else selection)

    @property
    def plan_vnodes(self) -> int:
        """The number of vnodes of the store."""
        assert self.plan is not None
        plan = self.plan.before if isinstance(self.plan, FeedPlan) else self.plan
        return plan.vnode_count

    def chunks(
        self, vnodes: range, environment: Environment | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the changes of the rows in some vnodes; ``environment``: as of `ReadPlan.read`."""
        chunks = self._all_chunks(vnodes, environment)
        if self.selection is None:
            yield from chunks
        else:
            yield from map(self.selection.apply, chunks)

    def _all_chunks(
        self, vnodes: range, environment: Environment | None
    ) -> Iterator[pa.RecordBatch]:
        match self.plan:
            case FeedPlan():
                for batch in self.plan.read((vnodes,), environment):
                    yield _changes(batch, self.source)
            case ReadPlan():
                for batch in self.plan.read((vnodes,), environment):
                    yield _inserts(batch.num_rows, batch.columns, self.source)
            case RowsPlan() if 0 in vnodes:
                yield self.plan.rows
            case OneRowPlan() if 0 in vnodes:
                yield _inserts(1, [pa.array([0], pa.int8())], self.source)


def source_frame(
    session: SparkSession, read: SourceRead, steps: Sequence[Step], output: TaskOutput, units: int
) -> DataFrame:
    """Return the changes of a source, after some steps, as rows of the wire.

    A control row for each of the parallel units is among them.
    """
    task = SourceTask(read, tuple(steps), output, 1, units)
    fields = output.wire_fields
    struct = struct_of(fields)
    if read.plan is None or sends_from_driver(fields, read.stored_bytes):
        rows = pa.Table.from_batches(task.part(0))
        return session.createDataFrame(rows, struct)
    tasks = max(parallelism(session), -(-read.stored_bytes // _TASK_BYTES))
    tasks = min(tasks, len(read.vnodes))
    return session.range(0, tasks, 1, tasks).mapInArrow(replace(task, tasks=tasks), struct)


def sends_from_driver(fields: Iterable[types.Field], size: int) -> bool:
    """Return whether the driver sends changes with some fields to Spark; ``size``: in bytes."""
    return size <= DRIVER_BYTES and all(passes_as_is(field.type) for field in fields)


def rows_frame(
    session: SparkSession, chunk: pa.RecordBatch, fields: tuple[types.Field, ...], units: int
) -> DataFrame:
    """Return a chunk with some fields as rows of the wire, as `source_frame` returns changes."""
    output = RowOutput(fields)
    batches = [control_rows(range(units), b"", output.schema), *output.batches([chunk])]
    rows = pa.Table.from_batches(batches)
    return session.createDataFrame(rows, struct_of(output.wire_fields))


@dataclass(frozen=True, slots=True)
class SourceTask:
    """Reads a part of a source. Travels to the tasks, which call it with the parts' numbers."""

    read: SourceRead
    steps: tuple[Step, ...]
    output: TaskOutput
    tasks: int
    units: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the changes of the parts whose numbers come; part 0 adds the control rows."""
        numbers = (number for batch in batches for number in batch.column(0).to_pylist())
        return strip_tracebacks(rows for number in numbers for rows in self.part(number))

    def part(self, number: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one part; the steps process all of its changes at once."""
        if number == 0:
            yield control_rows(range(self.units), b"", self.output.schema)
        chunks = self.read.chunks(_part(self.read.vnodes, number, self.tasks))
        if self.steps:
            chunks = self._run_steps(chunks)
        yield from self.output.batches(chunks)

    def _run_steps(self, chunks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        batches = list(chunks)
        if batches:
            yield run_steps(self.steps, pa.concat_batches(batches))


def _part(vnodes: range, number: int, count: int) -> range:
    start, stop = (vnodes.start + len(vnodes) * n // count for n in (number, number + 1))
    return range(start, stop)


def _inserts(rows: int, columns: Sequence[pa.Array], source: Source) -> pa.RecordBatch:
    return _chunk(np.full(rows, Op.INSERT), columns, source)


def _changes(feed: pa.RecordBatch, source: Source) -> pa.RecordBatch:
    """Return a batch of a feed, in which the change type comes after the columns, as a chunk."""
    number = feed.schema.get_field_index(CHANGE_TYPE)
    kinds, columns = feed.column(number), feed.remove_column(number).columns
    return _chunk(np.where(adds_row(kinds), Op.INSERT, Op.DELETE), columns, source)


def _chunk(ops: NDArray[np.int64], columns: Sequence[pa.Array], source: Source) -> pa.RecordBatch:
    arrays = [pa.array(ops, pa.int8()), *columns]
    return pa.RecordBatch.from_arrays(arrays, schema=chunk_schema(source.fields))
