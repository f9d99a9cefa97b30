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

from pyspark.sql import SparkSession

from relstate.connector.failure import describe_error, unwrap_errors
from relstate.connector.failure_kind import FailureKind, condition_of, failure_kind
from relstate.connector.parallelism import parallelism
from relstate.connector.task_report import TaskReport
from relstate.storage import (
    CommitResult,
    NewProgress,
    Proposal,
    ReadPlan,
    SegmentRecord,
    Store,
    StoreState,
    ViewClock,
    errors,
)
from relstate.vnode import cached_property

from .bounds import FailedExpressionError, GivenUpError, StateBoundError
from .clock import ClockReading, steps_of
from .failing_row import FailingRow, find_failing_row
from .frame import report_frame
from .full_refresh import most_state_rows
from .isolation import Attempts, run_isolated
from .job import JobOutput, ViewJob
from .local_expressions import LocalEvaluator
from .local_run import STATE_ROWS, attempt_locally, can_run_locally, is_small, run_locally
from .merges import Merges
from .plan.aggregate import Aggregate
from .plan.node import walk
from .plan.stateless import Project
from .quarantine import Quarantine, QuarantineChanges, Quarantines
from .scans import SourceRead
from .screening import Screening, screen_rows
from .sessions import Sessions, is_classic, keep_active_session
from .snapshot_parts import all_rows, stored_rows
from .stored_plans import StoredPlans
from .task import Target
from .view_failure import KEPT_ERRORS, reason_of_row, view_failure
from .viewplan import ViewPlan

# Rows that one job takes in, about. If one group has them all, one task has them in memory.
PART_ROWS = 1 << 22
# After a failure of the machines a part has so many times fewer rows.
_SMALLER = 8
# After a refresh in which rows failed, so many look for such rows first.
_SCREENED_REFRESHES = 16
# Where a task may read at most so many times what the run in the driver's process has read in vain,
# no task begins again.
_FULL_OF_LOCAL = 2
# What a commit is refused with if a view was refreshed, altered or dropped meanwhile.
VIEW_CHANGED = (errors.ConflictError, errors.TableNotFoundError)

_logger = logging.getLogger(__name__)


def may_be_of_part(error: Exception) -> bool:
    """Return whether what a job raised may depend on which rows it takes in at once."""
    if isinstance(error, errors.RelstateError):
        return isinstance(error, errors.DataError)
    return failure_kind(error) is FailureKind.ROW


def expressions_of(plan: ViewPlan) -> dict[str, str]:
    """Return the expressions of the fields that a plan computes, by their names."""
    projected = {
        output.field.name: output.expression
        for node in walk(plan.root)
        if isinstance(node, Project)
        for output in node.outputs
        if output.source is None
    }
    aggregated = {
        call.output.name: call.text
        for node in walk(plan.root)
        if isinstance(node, Aggregate)
        for call in node.calls
    }
    return aggregated | projected


def _is_of_rows(error: Exception) -> bool:
    """Return whether what a job raised may not be raised without some of its rows."""
    return not isinstance(error, KEPT_ERRORS) and may_be_of_part(error)


def _is_of_machine(error: Exception) -> bool:
    """Return whether what a job raised says that machines failed."""
    if isinstance(error, errors.RelstateError):
        return False
    return failure_kind(error) is FailureKind.MACHINE


def _signature(error: Exception) -> str:
    """Return what two failures for one reason share."""
    return condition_of(error) or type(error).__name__


class JobRunner:
    """Runs the jobs of a store's views. For one thread at a time."""

    def __init__(self, spark: SparkSession, store: Store) -> None:
        self._store = store
        self._sessions = Sessions(spark)
        self._plans = StoredPlans(self._sessions)
        self._evaluators: dict[SparkSession, LocalEvaluator] = {}
        # One for each view that has failed, by ids.
        self._failing_rows: dict[int, FailingRow] = {}
        self._quarantines = Quarantines(store)
        # In how many refreshes of each view, by ids, rows are likely to fail.
        self._failures_expected: dict[int, int] = {}

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
            state.title_of(view),
            self.plan_of(state, view_id),
            Target(self._store.path, settings.vnode_count, settings.shards),
            tuple(ReadPlan.of(self._store.path, state, name) for name in names),
            tuple(reads),
            steps_of(view.progress.clock) if reading is None else reading.steps,
            self._quarantines.of(state, view_id),
        )

    def quarantine_of(self, state: StoreState, view_id: int) -> Quarantine | None:
        """Return the quarantine of a view at a state; None if it has none."""
        return self._quarantines.of(state, view_id)

    def run(self, job: ViewJob) -> JobOutput:
        """Run a job and return what was written.

        That of a view with a quarantine leaves out the rows for which it fails.
        LostMessageError, what executors and expressions raise.
        """
        if job.quarantine is not None:
            return self._run_isolated(job)
        if job.restart is not None:
            try:
                return self._run_after_failures(job, again=job.rows > self._smaller_part(job))
            except StateBoundError:
                _logger.info("%s is refreshed in full: its changes affect many rows", job.name)
            snapshot = all_rows(self._store, job.plan, job.restart)
            job = replace(job, snapshot=snapshot, restart=None)
        if job.snapshot:
            try:
                return self._run_full(job)
            except KEPT_ERRORS:
                raise
            except Exception as error:
                _logger.warning(
                    "a full refresh of %s failed, and its changes are processed instead: %s",
                    job.name,
                    describe_error(error),
                )
        return self._run_after_failures(job, again=job.rows > self._smaller_part(job))

    def _run_full(self, job: ViewJob) -> JobOutput:
        """Run a job over all rows of its inputs; see full_refresh."""
        output = self._run_once(job.in_full())
        replaced = tuple(plan.definition.table_id for plan in job.states[:-1])
        return replace(output, rows=job.rows, replaced=replaced)

    def _run_isolated(self, job: ViewJob) -> JobOutput:
        failures_expected = self._failures_expected.get(job.view_id, 0)
        session = self._sessions.of(job.view.definition.settings)
        with keep_active_session(self._sessions.spark, session):
            attempts = self._attempts_of(job)
            isolated = run_isolated(job, attempts, screens_first=failures_expected > 0)
        expected = _SCREENED_REFRESHES if isolated.screened else max(failures_expected - 1, 0)
        self._failures_expected[job.view_id] = expected
        return isolated.output

    def _attempts_of(self, job: ViewJob) -> Attempts:
        """Return how the jobs of a view with a quarantine are attempted."""
        query, expressions = job.view.definition.query, expressions_of(job.plan)
        session = self._sessions.of(job.view.definition.settings)

        def screen(reads: Sequence[SourceRead]) -> Screening:
            if not is_classic(session):
                return Screening(tuple(reads))
            with keep_active_session(self._sessions.spark, session):
                evaluator, environment = self._evaluator(session), self._store.environment
                return screen_rows(job.plan, query, reads, evaluator, environment)

        return Attempts(
            self._run_after_failures,
            self._failure,
            self._quick_failure,
            _is_of_rows,
            screen,
            lambda error: reason_of_row(error, expressions, query, session),
            self._store.environment,
        )

    def _failure(self, job: ViewJob) -> Exception | None:
        """Return what a job raises that may depend on its rows; what it writes is removed."""
        try:
            output = self._run_after_failures(job)
        except Exception as error:
            if not _is_of_rows(error):
                raise
            return error
        self._store.jobs.discard(output.segments)
        return None

    def _quick_failure(self, job: ViewJob) -> Exception | None:
        """Return what `_failure` does, and what this process raises where a job may not fail."""
        session = self._sessions.of(job.view.definition.settings)
        if is_classic(session) and is_small(job) and can_run_locally(job.plan):
            evaluator, environment = self._evaluator(session), self._store.environment
            try:
                with unwrap_errors(), keep_active_session(self._sessions.spark, session):
                    output = attempt_locally(job, evaluator, environment)
                self._store.jobs.discard(output.segments)
                return None
            except FailedExpressionError as error:
                cause = error.__cause__
                if isinstance(cause, Exception) and _is_of_rows(cause):
                    return cause
            except GivenUpError:
                pass
            except errors.DataError as error:
                return error
        return self._failure(job)

    def _run_after_failures(self, job: ViewJob, *, again: bool = True) -> JobOutput:
        """Run a job, and once more in smaller parts if the machines fail: they may lack memory.

        Spark may also give its task the worker of the one that has just failed, which is about to
        end. ``again``: whether to, also if it has as few rows as a smaller part.
        """
        try:
            return self._run(job, job.plan.rows_of_part(PART_ROWS))
        except StateBoundError:
            raise
        except Exception as error:
            if not again or isinstance(error, KEPT_ERRORS) or not _is_of_machine(error):
                raise
            _logger.warning(
                "the machines failed in a refresh of %s, which is tried in smaller parts: %s",
                job.name,
                describe_error(error),
            )
        return self._run(job, self._smaller_part(job))

    def _smaller_part(self, job: ViewJob) -> int:
        return max(job.plan.rows_of_part(PART_ROWS) // _SMALLER, 1)

    def _run(self, job: ViewJob, part_rows: int) -> JobOutput:
        """Run a job with all of its changes.

        Large change sets are processed in parts to bound the memory of tasks; each part reads the
        state that the previous ones wrote. LostMessageError, what executors and expressions raise.
        """
        count = -(-job.rows // part_rows)
        if count > 1:
            try:
                *_, (_, output) = self.run_parts(job, (job.part(n, count) for n in range(count)))
                return output
            except (*KEPT_ERRORS, StateBoundError):
                raise
            except Exception as error:
                if not may_be_of_part(error):
                    raise
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
                part = replace(job, reads=reads, operator_rows={}, quarantine_changes=None)
                output = self._run_once(part)
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
                output = self._run_locally(job, session)
                if output is not None:
                    return output
            rows = report_frame(self._bounded(job), session).collect()
        reports = [TaskReport.from_json(bytes(row[0])) for row in rows]
        if any(report.given_up for report in reports):
            written = {segment for report in reports for segment in report.segments}
            self._store.jobs.discard(tuple(written))
            raise StateBoundError("the tasks of a job read too many rows of their state")
        return job.collect_output(reports)

    def _run_locally(self, job: ViewJob, session: SparkSession) -> JobOutput | None:
        """Run a job as `run_locally` does; None if a job of Spark is to do the work."""
        try:
            return run_locally(job, self._evaluator(session), self._store.environment)
        except StateBoundError:
            # Spark's tasks would begin again, and a full refresh has not many more rows to read.
            most = self._most_state_rows(job)
            if most is not None and most <= STATE_ROWS * _FULL_OF_LOCAL:
                raise
            return None

    def _bounded(self, job: ViewJob) -> ViewJob:
        """Return a job that is given up when a full refresh takes less, if there may be one."""
        return replace(job, most_state_rows=self._most_state_rows(job))

    def _most_state_rows(self, job: ViewJob) -> int | None:
        if job.restart is None:
            return None
        rows = sum(stored_rows(self._store, job.plan, job.restart))
        return most_state_rows(job, rows, job.plan.rows_of_part(PART_ROWS))

    def failure_of(self, job: ViewJob, error: Exception) -> Exception:
        """Return the error that says why a job failed: see `view_failure`.

        It names the row if it is one row that fails.
        """
        row = None
        if may_be_of_part(error) and job.quarantine is None:
            condition = _signature(error)

            def fails(reads: Sequence[SourceRead]) -> bool:
                return self._fails(replace(job, reads=tuple(reads), restart=None), condition)

            try:
                known = self._failing_rows.get(job.view_id)
                row = find_failing_row(job, fails, self._store.environment, known)
            except Exception as other:
                # The error of the view is what counts.
                _logger.debug("the row that fails in %s is not found", job.name, exc_info=other)
        if row is not None:
            self._failing_rows[job.view_id] = row
        query, expressions = job.view.definition.query, expressions_of(job.plan)
        return view_failure(job.name, error, query, row, expressions)

    def _fails(self, job: ViewJob, signature: str) -> bool:
        """Return whether a job fails in a way; what it writes otherwise is removed."""
        try:
            output = self._run_once(job)
        except KEPT_ERRORS:
            raise
        except Exception as error:
            return _signature(error) == signature
        self._store.jobs.discard(output.segments)
        return False

    def _evaluator(self, session: SparkSession) -> LocalEvaluator:
        if session not in self._evaluators:
            self._evaluators.setdefault(session, LocalEvaluator(session))
        return self._evaluators[session]

    def commit(
        self,
        results: Sequence[JobOutput],
        progress: Sequence[NewProgress],
        merges: Merges | None = None,
    ) -> CommitResult:
        """Commit what jobs wrote, and how far views are then.

        ``merges``: where the merges are left that are due then; by default they are done here.
        ConflictError, TableNotFoundError if a view was dropped: what was written is removed.
        """
        segments = tuple(segment for output in results for segment in output.segments)
        unwritten = [output.unwritten for output in results if output.unwritten is not None]
        with self._store.jobs.discarding(segments):
            segments += self._write_quarantines(unwritten)
        proposal = Proposal(
            operation="refresh",
            started=min(output.started for output in results),
            data_change=bool(segments) or any(output.replaced for output in results),
            segments=segments,
            syncs_segments=any(output.syncs_segments for output in results),
            based_tables=tuple(table for output in results for table in output.replaced),
            progress=tuple(progress),
        )
        try:
            result = self._committed(proposal, merges)
        except VIEW_CHANGED:
            self._store.jobs.discard(segments)
            raise
        for output in results:
            if output.quarantine is not None:
                self._quarantines.note(output.quarantine, result.epoch)
        return result

    def _committed(self, proposal: Proposal, merges: Merges | None) -> CommitResult:
        if merges is None:
            return self._store.jobs.commit(proposal)
        result, grown = self._store.jobs.commit_uncompacted(proposal)
        merges.add(grown)
        return result

    def _write_quarantines(
        self, unwritten: Sequence[QuarantineChanges]
    ) -> tuple[SegmentRecord, ...]:
        """Write what changes in quarantines, all of it to the same segments, which are durable."""
        if not unwritten:
            return ()
        with self._store.jobs.segment_writer() as writer:
            for changes in unwritten:
                writer.add(changes.keys, changes.values)
            return writer.finish()
