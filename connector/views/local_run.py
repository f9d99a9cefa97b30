"""A refresh of few changes in the driver's process, without a Spark job.

The executors of a view run here one after the other, in one unit that owns all vnodes. State has
the vnode in its keys, not the unit, so they write what the tasks of a job would write. Spark
evaluates expressions over the rows between them (local_rows).

Promises: what a run wrote is durable when it returns; a run that fails or is given up leaves no
files.
Does not know: how a job runs (frame), or who commits.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from relstate.storage import Environment, types

from .executor.changes import chunk_schema, empty_chunk
from .executor.executor import SIDE_COLUMN
from .executor.moments import NextMoments
from .job import JobOutput, ViewJob
from .join_rows import AnyJoin, candidate_fields, join_keys, match_condition, side_fields
from .local_rows import LocalRows
from .local_state import LocalWriters, TooManyRowsError
from .plan.aggregate import Aggregate
from .plan.asof_join import AsofJoin
from .plan.broadcast_join import BroadcastJoin
from .plan.generate import OneRow, Source
from .plan.join import Join
from .plan.materialize import Materialize
from .plan.node import Node, walk
from .plan.shared import Shared
from .plan.stateless import Filter, Project, Scan, Union
from .plan.temporal import TemporalFilter
from .plan.topn import TopN
from .plan.window import OrderedWindow
from .viewplan import Operator, ViewPlan

LOCAL_ROWS = 16_384
"""Changes that a run takes in, and rows that an operator of it may return.

The floor of a job is about 150 ms on two cores. That is how long one process takes for so many
changes; beyond that, tasks in parallel are faster.
"""
LOCAL_BYTES = 8 << 20
"""Bytes of these rows: a run holds a few times as much in the driver's memory."""
STATE_ROWS = 16 * LOCAL_ROWS
"""Rows that its executors may read of their state."""

_logger = logging.getLogger(__name__)

_LOCAL_NODES = (
    Scan,
    OneRow,
    Project,
    Filter,
    Union,
    Aggregate,
    Join,
    AsofJoin,
    BroadcastJoin,
    TopN,
    TemporalFilter,
    OrderedWindow,
    Shared,
    Materialize,
)


def can_run_locally(plan: ViewPlan) -> bool:
    """Return whether no operator of a plan needs a job of Spark.

    The functions that make rows (`Generate`), and aggregates, windows and sessions that Spark
    evaluates again, are evaluated in tasks only.
    """
    return all(isinstance(node, _LOCAL_NODES) for node in walk(plan.root))


def is_small(job: ViewJob) -> bool:
    """Return whether a job takes in so few changes that it should run in the driver."""
    return job.rows <= LOCAL_ROWS and sum(r.stored_bytes for r in job.reads) <= LOCAL_BYTES


def run_locally(job: ViewJob, session: SparkSession, environment: Environment) -> JobOutput | None:
    """Run a job in this process and return what was written.

    None if the run was given up, and nothing remains of it: an operator returned more than
    `LOCAL_ROWS` rows or `LOCAL_BYTES`, executors read more than `STATE_ROWS`, or Spark could not
    evaluate an expression. Errors: what executors raise.
    """
    started = environment.now()
    try:
        with LocalWriters(job.target, environment, STATE_ROWS) as writers:
            run = _LocalRun(job, session, environment, writers)
            run.rows_of(job.plan.root)
            segments = writers.finish()
    except TooManyRowsError:
        return None
    except (PySparkException, Py4JError) as error:
        # A job may not meet the row: Spark moves filters there before it evaluates columns.
        _logger.debug("view %s is computed by a job", job.name, exc_info=error)
        return None
    moments = (NextMoments.from_json(values) for _, values in sorted(writers.moments))
    return JobOutput(segments, started, run.read_rows, tuple(moments), is_local=True)


class _LocalRun:
    """One run of a job. Used once.

    ``read_rows``: how many changes its executors have received from sources.
    """

    def __init__(
        self, job: ViewJob, session: SparkSession, environment: Environment, writers: LocalWriters
    ) -> None:
        self._job = job
        self._session = session
        self._environment = environment
        self._writers = writers
        self._reads = {id(read.source): read for read in job.reads}
        self._shared: dict[int, LocalRows] = {}
        self.read_rows = 0

    def rows_of(self, node: Node) -> LocalRows:
        """Return what an operator of the plan returns."""
        match node:
            case Scan() | OneRow():
                return self._collected(self._changes(node), node.fields)
            case Project():
                return self.rows_of(node.child).projected(node.outputs)
            case Filter():
                return self.rows_of(node.child).filtered(node.condition)
            case Union():
                return self._collected(map(self._chunk, node.inputs), node.fields)
            case Join() | AsofJoin() | BroadcastJoin():
                return self._joined(node)
            case Shared():
                return self._share(node)
            case _:
                (child,) = node.children
                (operator,) = self._job.plan.operators_of(node)
                return self._executed(operator, self._chunk(child), node.fields)

    def _share(self, node: Shared) -> LocalRows:
        """Return rows that several operators read, which are computed once."""
        if node.number not in self._shared:
            self._shared[node.number] = LocalRows.of(self._chunk(node.child), node.fields)
        return self._shared[node.number]

    def _chunk(self, node: Node) -> pa.RecordBatch:
        return self._evaluated(self.rows_of(node))

    def _evaluated(self, rows: LocalRows) -> pa.RecordBatch:
        """Return the rows as a chunk. TooManyRowsError if they have become too large."""
        chunk = rows.evaluated(self._session)
        if chunk.nbytes > LOCAL_BYTES:
            raise TooManyRowsError
        return chunk

    def _changes(self, source: Source) -> Iterator[pa.RecordBatch]:
        read = self._reads[id(source)]
        return read.chunks(read.vnodes, self._environment)

    def _joined(self, node: AnyJoin) -> LocalRows:
        sides = (_side_chunk(node, number, self._chunk(node.children[number])) for number in (0, 1))
        chunk = pa.concat_batches(list(sides))
        first, *degree = self._job.plan.operators_of(node)
        rows = self._executed(first, chunk, candidate_fields(node))
        for operator in degree:
            assert not isinstance(node, AsofJoin)
            if node.condition is not None:
                rows = rows.filtered(match_condition(node.condition))
            rows = self._executed(operator, self._evaluated(rows), node.fields)
        return rows

    def _executed(
        self, operator: Operator, chunk: pa.RecordBatch, fields: tuple[types.Field, ...]
    ) -> LocalRows:
        """Return what an executor returns, with some fields; its state is written."""
        step = self._job.step(operator)
        if operator.number in self._job.plan.readers:
            self.read_rows += step.count_rows(chunk, 0)
        return self._collected(step.batches(chunk, self._writers), fields)

    def _collected(
        self, batches: Iterator[pa.RecordBatch], fields: tuple[types.Field, ...]
    ) -> LocalRows:
        """Return batches as one chunk. TooManyRowsError before more are in memory than allowed."""
        schema = chunk_schema(fields)
        chunks, rows, size = [empty_chunk(schema)], 0, 0
        for batch in batches:
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows > LOCAL_ROWS or size > LOCAL_BYTES:
                raise TooManyRowsError
            chunks.append(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
        return LocalRows.of(pa.concat_batches(chunks), fields)


def _side_chunk(node: AnyJoin, number: int, chunk: pa.RecordBatch) -> pa.RecordBatch:
    """Return the changes of an input of a join with its keys, and NULL for the other's fields."""
    keys = {key.field.name: (key.left, key.right)[number] for key in join_keys(node)}
    own = set(node.children[number].names)
    columns = [chunk.column(0)]
    for field in list(chunk_schema(side_fields(node)))[1:]:
        if field.name == SIDE_COLUMN:
            columns.append(pa.repeat(pa.scalar(number, pa.int8()), chunk.num_rows))
        elif field.name in keys:
            columns.append(chunk.column(keys[field.name]))
        elif field.name in own:
            columns.append(chunk.column(field.name))
        else:
            columns.append(pa.nulls(chunk.num_rows, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=chunk_schema(side_fields(node)))
