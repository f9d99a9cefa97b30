"""Refreshing views: what changed in their inputs, computed by Spark, and committed as one epoch.

A refresh takes one epoch for all views, the latest when it begins: tables are read up to it, views
as they are after this very refresh. Views are computed level by level; what those of a level write
is read by the next one before it is committed, and one commit holds all of them.

Promises: state, rows and progress of views are in one commit, or nothing is; a view whose inputs
did not change is left alone; a view that cannot be computed keeps nobody else from moving on.
Does not know: how views are created or filled first (backfill).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from relstate.connector.failure import describe_error, unwrap_errors
from relstate.connector.task_report import TaskReport
from relstate.storage import (
    CHANGE_TYPE,
    CatalogView,
    CommitResult,
    Entry,
    NewProgress,
    Proposal,
    ReadPlan,
    SegmentRecord,
    Store,
    StoreState,
    errors,
    placed_in,
)

from .job import ViewJob, message_frame
from .lineage import inputs_of, levels, upstream, view_ids
from .message import checked
from .plan.stateless import Scan
from .scans import ScanRead, scan_frame
from .sessions import Sessions, parallelism, undisturbed
from .task import Target
from .viewplan import ViewPlan, stored_plan

# A conflict means that somebody else refreshes the same views; so many, that they never stop.
_ATTEMPTS = 20
# Rows that one job takes in, about: what a few tasks hold in memory at once.
PART_ROWS = 1 << 21
# What is no better when more rows come at once.
LASTING = (errors.CommitError, errors.StorageError, errors.SessionError, errors.MissingError)
# What a commit is refused with where a view was refreshed, altered or dropped meanwhile.
MOVED = (errors.ConflictError, errors.TableNotFoundError)
ANSI = "spark.sql.ansi.enabled"

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What a refresh did.

    ``epoch``: the store's with it; ``reflects``: of the tables that the views reflect now;
    ``views``: those that moved; ``rows``: how many changes they took in.
    """

    epoch: int
    reflects: int
    views: tuple[str, ...]
    rows: int


@dataclass(frozen=True, slots=True)
class ViewRun:
    """One view's part of a refresh: its job, and what each scan of its plan reads."""

    view: CatalogView
    name: str
    job: ViewJob
    reads: tuple[ScanRead, ...]

    @property
    def rows(self) -> int:
        """About how many stored rows the scans look at."""
        return sum(read.rows for read in self.reads)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the tasks of one view wrote, when the first began, and how many changes came in."""

    segments: tuple[SegmentRecord, ...]
    started: int
    rows: int

    def then(self, later: Outcome) -> Outcome:
        """Return what this and a later one wrote together."""
        return Outcome(
            self.segments + later.segments,
            min(self.started, later.started),
            self.rows + later.rows,
        )


class Refresher:
    """Moves the views of a store forward. For one thread at a time."""

    def __init__(self, spark: SparkSession, store: Store) -> None:
        self._store = store
        self._sessions = Sessions(spark)
        self._plans: dict[int, ViewPlan] = {}
        self._threads = ThreadPoolExecutor(parallelism(spark), "relstate refresh")

    @property
    def store(self) -> Store:
        """The store."""
        return self._store

    def refresh(self, names: Sequence[str] | None = None) -> Refreshed:
        """Bring views, by default all, and those they read to the latest epoch of their inputs.

        ViewNotFoundError; ConflictError where others keep refreshing the same views; the error of
        a view that could not be computed, when all others are committed.
        """
        for _ in range(_ATTEMPTS):
            state = self._store.state
            wanted = upstream(state, view_ids(state, names))
            try:
                return self.round(state, wanted)
            except MOVED as error:
                _logger.info("a refresh begins anew: %s", error)
        raise errors.ConflictError(
            f"{self._store.path}: others refreshed the same views {_ATTEMPTS} times meanwhile, so "
            "that this refresh committed nothing: let one refresh at a time"
        )

    def round(self, state: StoreState, wanted: frozenset[int]) -> Refreshed:
        """Refresh views, all that they read among them, once, from a state. Errors as `refresh`.

        ConflictError, and nothing is committed, if one of them was refreshed meanwhile;
        TableNotFoundError if one was dropped.
        """
        done = _Round(state)
        for level in levels(state, wanted):
            runs = [run for view_id in level if (run := self._planned(done, view_id))]
            for run, outcome in self._outcomes(runs):
                done.take(run, outcome)
        epoch = self._commit(done)
        if done.failures:
            raise done.failures[0]
        moved = tuple(sorted(state.name_of(view_id) for view_id in done.moved))
        return Refreshed(epoch, state.epoch, moved, done.rows)

    def commit_outcomes(
        self, outcomes: Sequence[Outcome], progress: Sequence[NewProgress]
    ) -> CommitResult:
        """Commit what tasks wrote, and how far views are then.

        ConflictError, TableNotFoundError if one was dropped: what was written is thrown away.
        """
        segments = tuple(one for outcome in outcomes for one in outcome.segments)
        proposal = Proposal(
            operation="refresh",
            started=min(outcome.started for outcome in outcomes),
            data_change=bool(segments),
            segments=segments,
            progress=tuple(progress),
        )
        try:
            done = self._store.commit(proposal)
        except MOVED:
            self._store.discard(segments)
            raise
        assert done.committed
        return done

    def plan_of(self, state: StoreState, view_id: int) -> ViewPlan:
        """Return the plan of a view, the same object each time."""
        if view_id not in self._plans:
            plan = state.views[view_id].definition.plan
            self._plans[view_id] = stored_plan(state.name_of(view_id), plan)
        return self._plans[view_id]

    def run(self, state: StoreState, view_id: int, reads: Sequence[ScanRead]) -> ViewRun:
        """Return a view's part of a refresh that reads its state as of ``state``."""
        view = state.views[view_id]
        tables = [state.name_of(one) for one in (*view.definition.internal, view_id)]
        settings, path = state.settings, self._store.path
        job = ViewJob(
            view_id,
            self.plan_of(state, view_id),
            view.definition.mapping,
            Target(path, settings.vnode_count, settings.shards),
            tuple(ReadPlan.of(path, state, table) for table in tables),
            view.definition.settings[ANSI].lower() == "true",
        )
        return ViewRun(view, state.name_of(view_id), job, tuple(reads))

    # Jobs

    def outcome(self, run: ViewRun) -> Outcome:
        """Compute a view and return what was written.

        Changes that tasks had better not hold all at once come in parts, each over what those
        before it wrote. LostMessageError, what executors and expressions raise.
        """
        count = -(-run.rows // PART_ROWS)
        if count > 1:
            parts = (tuple(one.part(n, count) for one in run.reads) for n in range(count))
            try:
                *_, (_, outcome) = self.grown(run, parts)
                return outcome
            except LASTING:
                raise
            except Exception as error:
                # Between two parts there may be rows that no epoch has, which an expression of the
                # view does not take: then all has to come at once.
                _logger.warning(
                    "a refresh in %d parts failed; it is tried in one: %s",
                    count,
                    describe_error(error),
                )
        return self._computed(run)

    def grown(
        self, run: ViewRun, parts: Iterable[tuple[ScanRead, ...]]
    ) -> Iterator[tuple[ViewRun, Outcome]]:
        """Compute parts of a view one over the other, and yield after each all that they wrote.

        The run that is yielded reads it. If one fails, what was written is removed.
        """
        total = Outcome((), self._store.environment.now(), 0)
        try:
            for number, reads in enumerate(parts, 1):
                outcome = self._computed(replace(run, reads=reads))
                total = total.then(outcome)
                epoch = self._store.epoch + number
                states = (_grown(plan, outcome.segments, epoch) for plan in run.job.states)
                run = replace(run, job=replace(run.job, states=tuple(states)))
                yield run, total
        except Exception:
            self._store.discard(total.segments)
            raise

    def _computed(self, run: ViewRun) -> Outcome:
        session = self._sessions.of(run.view.definition.settings)
        sources = {id(read.scan): read for read in run.reads}
        fan = run.job.mapping.units
        with unwrap_errors(), undisturbed(self._sessions.spark):
            frame = message_frame(
                run.job,
                lambda scan, steps: scan_frame(session, sources[id(scan)], steps, fan),
                run.rows,
            )
            rows = frame.collect()
        reports = [TaskReport.from_json(bytes(row[0])) for row in rows]
        return _outcome(run, reports, run.job.plan.readers)

    def _outcomes(self, runs: Sequence[ViewRun]) -> list[tuple[ViewRun, Outcome | Exception]]:
        """Compute the views of one level, side by side: small jobs leave room for each other."""
        if len(runs) < 2:
            return [(run, self._attempt(run)) for run in runs]
        return list(zip(runs, self._threads.map(self._attempt, runs), strict=True))

    def _attempt(self, run: ViewRun) -> Outcome | Exception:
        try:
            return self.outcome(run)
        except Exception as error:
            return failure_of(run.name, error)

    # What a view reads

    def _planned(self, done: _Round, view_id: int) -> ViewRun | None:
        """Return `_run_of`; None, too, where it fails, which is no other view's matter."""
        try:
            return self._run_of(done, view_id)
        except MOVED:
            raise
        except Exception as error:
            done.fail(view_id, failure_of(done.state.name_of(view_id), error))
            return None

    def _run_of(self, done: _Round, view_id: int) -> ViewRun | None:
        """Return a view's part; None if there is nothing to take in, or its input failed."""
        state = done.state
        if done.failed.intersection(inputs_of(state, view_id)):
            done.failed.add(view_id)
            return None
        view = state.views[view_id]
        if not view.progress.is_populated:
            done.failed.add(view_id)
            return None
        if not done.has_changes(view_id):
            return None
        reads = [self._feed(done, view, scan) for scan in self.plan_of(state, view_id).scans]
        if all(read.plan is None for read in reads):
            return None
        return self.run(state, view_id, reads)

    def _feed(self, done: _Round, view: CatalogView, scan: Scan) -> ScanRead:
        state = done.state
        seen = view.progress.epoch_of(scan.table_id)
        table = state.tables[scan.table_id]
        pending = done.pending if scan.table_id in done.moved else None
        vnodes = range(state.settings.vnode_count)
        if table.data_epoch <= seen and pending is None:
            return ScanRead(scan, None, vnodes)
        # What has expired held no changes: vacuum keeps those that a view has to read.
        first = max(seen, state.oldest_epoch) + 1
        plan = self._store.feed_plan(
            table.definition.name,
            first,
            state.epoch,
            deduplication="netChanges",
            columns=[*scan.column_names, CHANGE_TYPE],
            pending=pending,
        )
        return ScanRead(scan, plan if plan.steps else None, vnodes)

    def _commit(self, done: _Round) -> int:
        if not done.moved:
            return done.state.epoch
        progress = [done.progress(view_id) for view_id in sorted(done.moved)]
        return self.commit_outcomes(list(done.moved.values()), progress).epoch


class _Round:
    """A refresh under way: what views have been computed from a state so far."""

    def __init__(self, state: StoreState) -> None:
        self.state = state
        self.moved: dict[int, Outcome] = {}
        self.failed: set[int] = set()
        self.failures: list[Exception] = []

    def take(self, run: ViewRun, outcome: Outcome | Exception) -> None:
        """Take in what became of a view."""
        view_id = run.job.view_id
        if isinstance(outcome, Exception):
            self.fail(view_id, outcome)
        else:
            self.moved[view_id] = outcome

    def fail(self, view_id: int, failure: Exception) -> None:
        """Take in that a view could not be computed."""
        self.failed.add(view_id)
        self.failures.append(failure)

    @property
    def rows(self) -> int:
        """How many changes all views took in."""
        return sum(outcome.rows for outcome in self.moved.values())

    @property
    def pending(self) -> Entry:
        """What has been written so far, as the commit that it is going to be."""
        state = self.state
        return Entry(
            commit_id="pending",
            parent=state.commit_id,
            epoch=state.epoch + 1,
            time=state.time,
            started=state.time,
            operation="refresh",
            added=tuple(one for outcome in self.moved.values() for one in outcome.segments),
        )

    def has_changes(self, view_id: int) -> bool:
        """Return whether an input of a view may have changed since the view took it in."""
        inputs = self.state.views[view_id].progress.inputs
        return any(one in self.moved or self.state.has_changed(one, at) for one, at in inputs)

    def progress(self, view_id: int) -> NewProgress:
        """Return how far a view is once this is committed."""
        before, epoch = self.state.views[view_id], self.state.epoch
        inputs = tuple(
            (one, None if one in self.moved else epoch) for one, _ in before.progress.inputs
        )
        return NewProgress(before, epoch, inputs)


def failure_of(view: str, error: Exception) -> Exception:
    """Return what says that a view could not be computed.

    What would fail whatever the view and its rows are stays what it is.
    """
    if isinstance(error, (errors.ViewFailedError, *LASTING)):
        return error
    if isinstance(error, errors.RelstateError):
        failure = errors.ViewFailedError(f"view {view!r} could not be computed: {error}")
    else:
        failure = errors.ViewFailedError(
            f"view {view!r} could not be computed; if an expression of its SELECT does not take a "
            "row of its inputs, correct the row, or create the view anew with an expression that "
            f"takes it. What was raised: {describe_error(error)}"
        )
    failure.__cause__ = error
    return failure


def _grown(plan: ReadPlan, segments: Sequence[SegmentRecord], epoch: int) -> ReadPlan:
    """Return a plan that reads segments, too, as if they had been committed last."""
    placed = placed_in(segments, epoch, plan.definition.table_id)
    return replace(plan, segments=(*placed, *plan.segments))


def _outcome(run: ViewRun, reports: Sequence[TaskReport], readers: frozenset[int]) -> Outcome:
    own = [report for report in reports if report.view_id == run.job.view_id]
    complete = checked(run.name, own, run.job.plan.units(run.job.mapping))
    return Outcome(
        tuple(segment for report in complete for segment in report.segments),
        min(report.started for report in complete),
        sum(report.rows for report in complete if readers.intersection(report.parts)),
    )
