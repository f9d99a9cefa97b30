"""A refresh of few changes in the driver's process, without a Spark job.

The executors of a view run here one after the other, in one unit that owns all vnodes. State has
the vnode in its keys, not the unit, so they write what the tasks of a job would write. Spark
evaluates expressions over the rows between them (local_expressions).

Promises: what a run wrote becomes durable with its commit; a run that fails or is given up leaves
no files.
Does not know: how a job runs (frame), or who commits.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pyarrow as pa

from relstate.storage import Environment, arrow, location_of, types

from .bounds import GivenUpError, StateBoundError
from .elements import element_bytes, element_count, element_rows, makes_elements
from .executor.changes import chunk_schema, empty_chunk
from .executor.keyed_rows import row_fields
from .executor.next_moments import NextMoments
from .executor.session_step import SessionStep
from .job import JobOutput, ViewJob
from .join_rows import AnyJoin, candidate_fields, match_condition, side_step
from .local_expressions import LocalEvaluator
from .plan.aggregate import Aggregate
from .plan.asof_join import AsofJoin
from .plan.broadcast_join import BroadcastJoin
from .plan.generate import Generate, OneRow, Source
from .plan.join import Join
from .plan.materialize import Materialize
from .plan.node import Expression, Node, walk
from .plan.session import SessionRecompute
from .plan.shared import Shared
from .plan.stateless import Filter, Project, Scan, Union
from .plan.temporal import TemporalFilter
from .plan.topn import TopN
from .plan.window import OrderedWindow
from .task import Writers
from .viewplan import Operator, ViewPlan

LOCAL_ROWS = 65_536
"""Changes that a run takes in from each source.

One process takes 0.3 to 0.8 s for 50,000 changes, and a job 0.9 to 1.8 s on two cores (sums, a
join, first rows, extremes: docs/benchmarks.md).
"""
OUTPUT_ROWS = 2 * LOCAL_ROWS
"""Rows that an operator may return: beyond that, a job that begins again is faster."""
LOCAL_BYTES = 32 << 20
"""Bytes of these rows: a run holds a few times as much in the driver's memory."""
STATE_ROWS = 4 * LOCAL_ROWS
"""Rows that its executors may read of their state."""
# A window reads the rows that follow a change in its partition, and sessions all of their group: of
# more changes the state that a run may read does not suffice.
_WINDOW_SHARE = 4

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
    SessionRecompute,
    Shared,
    Materialize,
)


def can_run_locally(plan: ViewPlan) -> bool:
    """Return whether no operator of a plan needs a job of Spark.

    Functions that make rows of maps or JSON, and aggregates and windows that Spark evaluates again,
    are evaluated in tasks only.
    """
    return all(
        makes_elements(node) if isinstance(node, Generate) else isinstance(node, _LOCAL_NODES)
        for node in walk(plan.root)
    )


def is_small(job: ViewJob) -> bool:
    """Return whether a job takes in so few changes that it should run in the driver."""
    has_window = any(
        isinstance(node, OrderedWindow | SessionRecompute) for node in walk(job.plan.root)
    )
    most = LOCAL_ROWS // _WINDOW_SHARE if has_window else LOCAL_ROWS
    is_short = all(read.rows <= most for read in job.reads)
    return is_short and sum(read.stored_bytes for read in job.reads) <= LOCAL_BYTES


def run_locally(
    job: ViewJob, evaluator: LocalEvaluator, environment: Environment
) -> JobOutput | None:
    """Run a job in this process and return what was written.

    None if the run was given up, and nothing remains of it: an operator returned more than
    `OUTPUT_ROWS` or `LOCAL_BYTES`, or Spark could not evaluate an expression. Errors: what
    executors raise, StateBoundError if they read more than `STATE_ROWS`.
    """
    try:
        return attempt_locally(job, evaluator, environment)
    except StateBoundError:
        raise
    except GivenUpError as error:
        # If an expression has failed: a job may apply a filter above it first.
        _logger.debug("view %s is computed by a job", job.name, exc_info=error)
        return None


def attempt_locally(job: ViewJob, evaluator: LocalEvaluator, environment: Environment) -> JobOutput:
    """Run a job as `run_locally` does. GivenUpError says why it was given up."""
    started = environment.now()
    with Writers(job.target, None, environment, STATE_ROWS) as writers:
        run = _LocalRun(job, evaluator, environment, writers)
        run.rows_of(job.plan.root)
        changes = job.quarantine_changes
        if changes is not None:
            writers.writer(is_root=True).add(changes.keys, changes.values)
        # Tasks of later jobs of a refresh read these segments, in a bucket what is uploaded.
        is_synced = location_of(job.target.path).is_object_store
        segments = writers.finish() if is_synced else writers.finish_unsynced()
    moments = (NextMoments.from_json(values) for _, values in sorted(writers.moments))
    return JobOutput(
        segments,
        started,
        run.read_rows,
        tuple(moments),
        is_local=True,
        syncs_segments=not is_synced,
        quarantine=None if changes is None else changes.after,
    )


class _LocalRun:
    """One run of a job. Used once.

    ``read_rows``: how many changes its executors have received from sources.
    """

    def __init__(
        self,
        job: ViewJob,
        evaluator: LocalEvaluator,
        environment: Environment,
        writers: Writers,
    ) -> None:
        self._job = job
        self._evaluator = evaluator
        self._environment = environment
        self._writers = writers
        self._reads = {id(read.source): read for read in job.reads}
        self._shared: dict[int, pa.RecordBatch] = {}
        self.read_rows = 0

    def rows_of(self, node: Node) -> pa.RecordBatch:
        """Return what an operator of the plan returns."""
        rows = self._job.operator_rows.get(id(node))
        if rows is not None:
            _check_size(rows.num_rows, rows.nbytes)
            return rows
        match node:
            case Scan() | OneRow():
                return self._collected(self._changes(node), node.fields)
            case Project():
                return self._projected(node, self.rows_of(node.child))
            case Filter():
                return self._filtered(self.rows_of(node.child), node.fields, node.condition)
            case Generate():
                return self._generated(node, self.rows_of(node.child))
            case Union():
                return self._collected(map(self.rows_of, node.inputs), node.fields)
            case Join() | AsofJoin() | BroadcastJoin():
                return self._joined(node)
            case SessionRecompute():
                return self._with_sessions(node)
            case Shared():
                return self._share(node)
            case _:
                (child,) = node.children
                (operator,) = self._job.plan.operators_of(node)
                return self._executed(operator, self.rows_of(child), node.fields)

    def _share(self, node: Shared) -> pa.RecordBatch:
        """Return rows that several operators read, which are computed once."""
        if node.number not in self._shared:
            self._shared[node.number] = self.rows_of(node.child)
        return self._shared[node.number]

    def _projected(self, node: Project, chunk: pa.RecordBatch) -> pa.RecordBatch:
        values = iter(self._evaluate(chunk, node.child.fields, node.expressions))
        columns = [
            next(values) if output.source is None else chunk.column(output.source)
            for output in node.outputs
        ]
        schema = chunk_schema(node.fields)
        result = pa.RecordBatch.from_arrays([chunk.column(0), *columns], schema=schema)
        _check_size(result.num_rows, result.nbytes)
        return result

    def _filtered(
        self, chunk: pa.RecordBatch, fields: tuple[types.Field, ...], condition: str
    ) -> pa.RecordBatch:
        """Return the rows for which a condition, in Spark's SQL over some fields, is true."""
        (is_true,) = self._evaluate(chunk, fields, (Expression(condition, types.Boolean()),))
        return chunk.filter(is_true)

    def _generated(self, node: Generate, chunk: pa.RecordBatch) -> pa.RecordBatch:
        (arrays,) = self._evaluate(chunk, node.child.fields, node.arguments)
        _check_size(element_count(node, arrays), element_bytes(node, chunk, arrays))
        return element_rows(node, chunk, arrays)

    def _evaluate(
        self,
        chunk: pa.RecordBatch,
        fields: tuple[types.Field, ...],
        expressions: tuple[Expression, ...],
    ) -> list[pa.Array]:
        if not chunk.num_rows:
            return [pa.nulls(0, arrow.arrow_type(value.type)) for value in expressions]
        return self._evaluator.evaluate(chunk, fields, expressions) if expressions else []

    def _changes(self, source: Source) -> Iterator[pa.RecordBatch]:
        read = self._reads[id(source)]
        return read.chunks(read.vnodes, self._environment)

    def _joined(self, node: AnyJoin) -> pa.RecordBatch:
        inputs = map(self.rows_of, node.children)
        sides = (side_step(node, number).run(chunk) for number, chunk in enumerate(inputs))
        chunk = pa.concat_batches(list(sides))
        first, *degree = self._job.plan.operators_of(node)
        fields = candidate_fields(node)
        chunk = self._executed(first, chunk, fields)
        for operator in degree:
            assert not isinstance(node, AsofJoin)
            if node.condition is not None:
                chunk = self._filtered(chunk, fields, match_condition(node.condition))
            chunk = self._executed(operator, chunk, node.fields)
        return chunk

    def _with_sessions(self, node: SessionRecompute) -> pa.RecordBatch:
        first, second = self._job.plan.operators_of(node)
        chunk = self._executed(first, self.rows_of(node.child), row_fields(node))
        return self._executed(second, SessionStep(node).run(chunk), node.fields)

    def _executed(
        self, operator: Operator, chunk: pa.RecordBatch, fields: tuple[types.Field, ...]
    ) -> pa.RecordBatch:
        """Return what an executor returns, with some fields; its state is written."""
        step = self._job.step(operator)
        if operator.number in self._job.plan.readers:
            self.read_rows += step.count_rows(chunk, 0)
        return self._collected(step.batches(chunk, self._writers), fields)

    def _collected(
        self, batches: Iterator[pa.RecordBatch], fields: tuple[types.Field, ...]
    ) -> pa.RecordBatch:
        """Return batches as one chunk. GivenUpError before more are in memory than allowed."""
        schema = chunk_schema(fields)
        chunks, rows, size = [empty_chunk(schema)], 0, 0
        for batch in batches:
            rows, size = rows + batch.num_rows, size + batch.nbytes
            _check_size(rows, size)
            chunks.append(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
        return pa.concat_batches(chunks)


def _check_size(rows: int, size: int) -> None:
    """GivenUpError if what an operator returns is too much; ``size``: in bytes."""
    if rows > OUTPUT_ROWS or size > LOCAL_BYTES:
        raise GivenUpError(f"an operator has returned {rows} rows of {size} bytes")
