"""Running the jobs of views, and committing what they wrote.

Promises: segments, rows and progress of views are in one commit, or nothing is; what was written
in vain is removed.
Does not know: which views are to be brought forward (refresh, backfill).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property

from pyspark.sql import SparkSession

from relstate.connector.failure import describe_error, unwrap_errors
from relstate.connector.parallelism import parallelism
from relstate.connector.task_report import TaskReport
from relstate.storage import (
    CommitResult,
    NewProgress,
    Proposal,
    ReadPlan,
    Store,
    StoreState,
    ViewClock,
    errors,
)

from .clock import ClockReading, steps_of
from .frame import report_frame
from .job import JobOutput, ViewJob
from .local_expressions import LocalEvaluator
from .local_run import can_run_locally, is_small, run_locally
from .scans import SourceRead
from .sessions import Sessions, is_classic, keep_active_session
from .stored_plans import StoredPlans
from .task import Target
from .viewplan import ViewPlan

# Rows that one job takes in, about: what a few tasks hold in memory at once.
PART_ROWS = 1 << 21
# What does not succeed either if more rows come at once.
LASTING_ERRORS = (errors.CommitError, errors.StorageError, errors.SessionError, errors.MissingError)
# What a commit is refused with if a view was refreshed, altered or dropped meanwhile.
VIEW_CHANGED = (errors.ConflictError, errors.TableNotFoundError)

_logger = logging.getLogger(__name__)


class JobRunner:
    """Runs the jobs of a store's views. For one thread at a time."""

    def __init__(self, spark: SparkSession, store: Store) -> None:
        self._store = store
        self._sessions = Sessions(spark)
        self._plans = StoredPlans(self._sessions)
        self._evaluators: dict[SparkSession, LocalEvaluator] = {}

    @property
    def store(self) -> Store:
        """The store."""
        return self._store

    @property
    def spark(self) -> SparkSession:
        """The session that was given."""
        return self._sessions.spark

    @property
    def plans(self) -> StoredPlans:
        """The plans of the store's views."""
        return self._plans

    def plan_of(self, state: StoreState, view_id: int) -> ViewPlan:
        """Return the plan of a view. CorruptionError if the catalog's is damaged or forged."""
        return self._plans.plan_of(state, view_id)

    def reading(
        self, state: StoreState, view_id: int, time: int, before: ViewClock | None
    ) -> ClockReading | None:
        """Return the present time for a view, and what passes its temporal filters then.

        None if it does not depend on the time. ``before``: its clock; None if it has no rows yet.
        """
        plan = self.plan_of(state, view_id)
        if not plan.reads_clock:
            return None
        session = self._sessions.of(state.views[view_id].definition.settings)
        with keep_active_session(self._sessions.spark, session):
            return ClockReading.at(session, plan.temporal_filters, time, before)

    def next_expiries(
        self, state: StoreState, view_id: int, epochs: Mapping[int, int], time: int
    ) -> list[int | None]:
        """Return the next times after ``time`` at which something that a view reads expires.

        Of what it reads by parts; ``epochs``: those up to which it has taken in its inputs.
        """
        tables = self.plan_of(state, view_id).divided_tables
        return [self._store.jobs.next_expiry(table, epochs[table], time) for table in tables]

    def job(
        self,
        state: StoreState,
        view_id: int,
        reads: Sequence[SourceRead],
        reading: ClockReading | None = None,
    ) -> ViewJob:
        """Return the job of a view that starts from its state as of ``state``.

        ``reading``: of the time that it brings the view to; None if no time passes.
        """
        view, settings = state.views[view_id], state.settings
        names = [state.name_of(table_id) for table_id in (*view.definition.internal, view_id)]
        return ViewJob(
            view,
            state.name_of(view_id),
            self.plan_of(state, view_id),
            Target(self._store.path, settings.vnode_count, settings.shards),
            tuple(ReadPlan.of(self._store.path, state, name) for name in names),
            tuple(reads),
            steps_of(view.progress.clock) if reading is None else reading.steps,
        )

    def run(self, job: ViewJob) -> JobOutput:
        """Run a job and return what was written.

        Large change sets are processed in parts to bound the memory of tasks; each part reads the
        state that the previous ones wrote. LostMessageError, what executors and expressions raise.
        """
        count = -(-job.rows // job.plan.rows_of_part(PART_ROWS))
        if count > 1:
            try:
                *_, (_, output) = self.run_parts(job, (job.part(n, count) for n in range(count)))
                return output
            except LASTING_ERRORS:
                raise
            except Exception as error:
                # Between two parts there may be rows that no epoch has, for which an expression of
                # the view fails: then all has to be processed at once.
                _logger.warning(
                    "a refresh in %d parts failed and is tried in one: %s",
                    count,
                    describe_error(error),
                )
        return self._run_once(job)

    def run_parts(
        self, job: ViewJob, parts: Iterable[tuple[SourceRead, ...]]
    ) -> Iterator[tuple[ViewJob, JobOutput]]:
        """Run parts of a job one after the other, and yield after each all that they wrote.

        The job that is yielded reads it. If one fails, what was written is removed.
        """
        total = JobOutput((), self._store.environment.now(), 0, is_local=True)
        try:
            for number, reads in enumerate(parts, 1):
                output = self._run_once(replace(job, reads=reads))
                total = total.followed_by(output)
                job = job.after(output, self._store.epoch + number)
                yield job, total
        except Exception:
            self._store.jobs.discard(total.segments)
            raise

    def run_all(self, jobs: Sequence[ViewJob]) -> list[JobOutput | Exception]:
        """Run jobs of independent views at the same time; return for each its result or error."""
        if len(jobs) < 2:
            return [self._attempt(job) for job in jobs]
        return list(self._threads.map(self._attempt, jobs))

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(parallelism(self._sessions.spark), "relstate refresh")

    def _attempt(self, job: ViewJob) -> JobOutput | Exception:
        monotonic = self._store.environment.monotonic
        started = monotonic()
        try:
            return replace(self.run(job), seconds=monotonic() - started)
        except Exception as error:
            return error

    def _run_once(self, job: ViewJob) -> JobOutput:
        session = self._sessions.of(job.view.definition.settings)
        with unwrap_errors(), keep_active_session(self._sessions.spark, session):
            if is_classic(session) and is_small(job) and can_run_locally(job.plan):
                output = run_locally(job, self._evaluator(session), self._store.environment)
                if output is not None:
                    return output
            rows = report_frame(job, session).collect()
        return job.collect_output(TaskReport.from_json(bytes(row[0])) for row in rows)

    def _evaluator(self, session: SparkSession) -> LocalEvaluator:
        if session not in self._evaluators:
            self._evaluators.setdefault(session, LocalEvaluator(session))
        return self._evaluators[session]

    def commit(self, results: Sequence[JobOutput], progress: Sequence[NewProgress]) -> CommitResult:
        """Commit what jobs wrote, and how far views are then.

        ConflictError, TableNotFoundError if a view was dropped: what was written is removed.
        """
        segments = tuple(segment for output in results for segment in output.segments)
        proposal = Proposal(
            operation="refresh",
            started=min(output.started for output in results),
            data_change=bool(segments),
            segments=segments,
            syncs_segments=any(output.syncs_segments for output in results),
            progress=tuple(progress),
        )
        try:
            return self._store.jobs.commit(proposal)
        except VIEW_CHANGED:
            self._store.jobs.discard(segments)
            raise
