"""One refresh: what changed in the inputs of views, computed level by level, in one commit.

A refresh takes one epoch for all views, the latest when it begins: tables are read up to it, views
as they are after this very refresh. Views are computed level by level; what those of a level write
is read by the next one before it is committed, and one commit holds all of them.

All views that compare rows with the present time see one time, that of the refresh.

Promises: a view whose inputs did not change, and that time has not changed, is not touched; a view
that cannot be computed does not keep others from being refreshed.
Does not know: how jobs run (runner), how views are created or first filled (backfill).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Set
from dataclasses import asdict, dataclass, field, replace

from relstate.storage import (
    CHANGE_TYPE,
    CatalogView,
    Entry,
    NewProgress,
    RefreshFigures,
    StoreState,
    TableDefinition,
    ViewFailure,
    errors,
    keep_failure,
    without_expiry,
)

from .clock import ClockReading, time_now
from .full_refresh import can_be_full, pays_off
from .job import JobOutput, ViewJob
from .lineage import inputs_of, is_replacement, levels
from .local_run import is_small
from .merges import Merges
from .plan.generate import OneRow, Source
from .runner import PART_ROWS, VIEW_CHANGED, JobRunner
from .scans import SourceRead
from .snapshot_parts import SnapshotStart, all_rows, stored_rows
from .view_failure import view_failure

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What a refresh did.

    ``epoch``: the store's with it; ``reflects``: of the tables that the views reflect now;
    ``views``: those that moved; ``rows``: how many changes they took in. ``local``: those of the
    views that were computed in this process, without a job of Spark; ``full``: those that were
    computed from all rows of their inputs. ``seconds``: of each phase.
    ``failures``: the errors of views that could not be computed, by their ids. ``quarantined``: how
    many rows are in the quarantines of the views that moved, by their names; those without one
    are not there.
    """

    epoch: int
    reflects: int
    views: tuple[str, ...]
    rows: int
    local: tuple[str, ...]
    full: tuple[str, ...]
    seconds: Phases
    failures: Mapping[int, Exception] = field(default_factory=dict)
    quarantined: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Phases:
    """The seconds of a refresh by phase.

    ``planning``: finding what changed, and what has to be computed; ``execution``: reading changes
    and writing rows, by jobs or in this process; ``commit``: making that durable and visible, and
    merges of files that are due then, unless a stream does them beside its refreshes.
    """

    planning: float = 0.0
    execution: float = 0.0
    commit: float = 0.0

    @property
    def milliseconds(self) -> dict[str, int]:
        """The phases by name, in whole milliseconds."""
        return {name: round(seconds * 1000) for name, seconds in asdict(self).items()}


class Round:
    """One refresh of views from a state of the store. Used once.

    ``time``: the present time for its views, in microseconds since 1970.
    """

    def __init__(
        self,
        runner: JobRunner,
        state: StoreState,
        views: Set[int],
        skipped: Set[int] = frozenset(),
        merges: Merges | None = None,
    ) -> None:
        """``views``: all that they read among them; ``skipped``: those that are left as they are.

        Views that read a skipped one wait for it. ``merges``: as of `JobRunner.commit`.
        """
        self._runner = runner
        self._state = state
        self._views = views
        self._merges = merges
        self._environment = runner.store.environment
        self._started = self._environment.now()
        self.time = time_now(self._environment, state, views)
        # Seconds, by the ids of views.
        self._planning: dict[int, float] = {}
        self._readings: dict[int, ClockReading] = {}
        self._outputs: dict[int, JobOutput] = {}
        self._phases = Phases()
        self._failed = set(skipped)
        self._failures: dict[int, Exception] = {}

    def run(self) -> Refreshed:
        """Refresh the views.

        ConflictError, and nothing is committed, if one of them was refreshed meanwhile;
        TableNotFoundError if one was dropped; the error of a view that could not be computed, when
        all others are committed.
        """
        refreshed = self.attempt()
        for failure in refreshed.failures.values():
            raise failure
        return refreshed

    def attempt(self) -> Refreshed:
        """Refresh the views as `run` does; the errors of views are returned, not raised."""
        monotonic = self._environment.monotonic
        for level in levels(self._state, self._views):
            jobs = [job for view_id in level if (job := self._planned_job(view_id)) is not None]
            started = monotonic()
            for job, result in zip(jobs, self._runner.run_all(jobs), strict=True):
                if isinstance(result, Exception):
                    self._fail(job.view_id, self._runner.failure_of(job, result))
                else:
                    self._outputs[job.view_id] = result
            self._phases.execution += monotonic() - started
        started = monotonic()
        epoch = self._commit()
        self._phases.commit = monotonic() - started
        rows = sum(output.rows for output in self._outputs.values())
        views = self._names(self._outputs)
        local = self._names(i for i, output in self._outputs.items() if output.is_local)
        full = self._names(i for i, output in self._outputs.items() if output.is_full)
        return Refreshed(
            epoch,
            self._state.epoch,
            views,
            rows,
            local,
            full,
            self._phases,
            dict(self._failures),
            self._quarantined(),
        )

    def _quarantined(self) -> dict[str, int]:
        return {
            self._state.name_of(view_id): output.quarantined
            for view_id, output in self._outputs.items()
            if output.quarantined is not None and not is_replacement(self._state, view_id)
        }

    def _names(self, view_ids: Iterable[int]) -> tuple[str, ...]:
        visible = (i for i in view_ids if not is_replacement(self._state, i))
        return tuple(sorted(map(self._state.name_of, visible)))

    def _fail(self, view_id: int, error: Exception) -> None:
        self._failed.add(view_id)
        failure = view_failure(self._state.title_of(self._state.views[view_id]), error)
        self._failures[view_id] = failure
        if isinstance(failure, errors.ViewFailedError):
            epoch, time = self._state.epoch, self._environment.now()
            keep_failure(self._environment, view_id, ViewFailure(epoch, time, str(failure)))

    def _commit(self) -> int:
        if not self._outputs:
            return self._state.epoch
        progress = [self._progress(view_id) for view_id in sorted(self._outputs)]
        epoch = self._runner.commit(list(self._outputs.values()), progress, self._merges).epoch
        for view_id, output in self._outputs.items():
            _logger.info(
                "refreshed view %s in epoch %d: %d changes, planned in %.3f s, computed in %.3f s",
                self._state.title_of(self._state.views[view_id]),
                epoch,
                output.rows,
                self._planning[view_id],
                output.seconds,
            )
        return epoch

    def _progress(self, view_id: int) -> NewProgress:
        """Return how far a view is once this refresh is committed."""
        before, epoch = self._state.views[view_id], self._state.epoch
        inputs = tuple(
            (table_id, None if table_id in self._outputs else epoch)
            for table_id, _ in before.progress.inputs
        )
        reading = self._readings.get(view_id)
        clock = None
        if reading is not None:
            epochs = {table_id: self._state.epoch for table_id, _ in inputs}
            expiries = self._runner.next_expiries(self._state, view_id, epochs, self.time)
            clock = reading.clock(self._outputs[view_id].moments, expiries)
        quarantined = self._outputs[view_id].quarantined or 0
        figures = self._figures(view_id)
        return NewProgress(
            before, epoch, inputs, clock=clock, figures=figures, quarantined=quarantined
        )

    def _figures(self, view_id: int) -> RefreshFigures:
        """Return what the refresh of a view did, for the history."""
        output = self._outputs[view_id]
        return RefreshFigures(
            self._started,
            round(self._planning[view_id] * 1_000_000),
            round(output.seconds * 1_000_000),
            output.rows,
            sum(segment.rows(view_id) for segment in output.segments),
            output.is_local,
            output.is_full,
        )

    # What a view reads

    def _planned_job(self, view_id: int) -> ViewJob | None:
        """Return a view's job as `_job` does, and note how long that took."""
        started = self._environment.monotonic()
        job = self._job(view_id)
        self._planning[view_id] = self._environment.monotonic() - started
        self._phases.planning += self._planning[view_id]
        return job

    def _job(self, view_id: int) -> ViewJob | None:
        """Return a view's job; None if it has nothing to take in, or cannot be computed now."""
        view = self._state.views[view_id]
        is_blocked = not self._failed.isdisjoint((view_id, *inputs_of(self._state, view_id)))
        if is_blocked or not view.progress.is_populated:
            self._failed.add(view_id)
            return None
        is_due = view.progress.is_due(self.time)
        if not is_due and not self._has_changes(view):
            return None
        try:
            plan = self._runner.plan_of(self._state, view_id)
            reads = [self._read(view, source) for source in plan.sources]
            if not is_due and all(read.plan is None for read in reads):
                return None
            reading = self._runner.reading(self._state, view_id, self.time, view.progress.clock)
            if reading is not None:
                self._readings[view_id] = reading
            return self._with_snapshot(self._runner.job(self._state, view_id, reads, reading))
        except VIEW_CHANGED:
            raise
        except Exception as error:
            self._fail(view_id, error)
            return None

    def _with_snapshot(self, job: ViewJob) -> ViewJob:
        """Return a job, over all rows of its inputs if that takes less time, or may turn out to."""
        inputs = [table_id for table_id, _ in job.view.progress.inputs]
        # What this refresh writes is not yet among the rows of an epoch.
        follows_others = not self._outputs.keys().isdisjoint(inputs)
        is_possible = can_be_full(job.plan, has_quarantine=job.quarantine is not None)
        if follows_others or not is_possible:
            return job
        store, epoch = self._runner.store, self._state.epoch
        start = SnapshotStart(epoch, dict.fromkeys(inputs, epoch), self.time)
        job = replace(job, restart=start)
        if is_small(job):
            return job
        # Of most rows that have changed the older version is stored, too.
        stored = stored_rows(store, job.plan, start)
        rows = [count - read.rows for count, read in zip(stored, job.reads, strict=True)]
        if not pays_off(job, rows, job.plan.rows_of_part(PART_ROWS)):
            return job
        return replace(job, snapshot=all_rows(store, job.plan, start), restart=None)

    def _has_changes(self, view: CatalogView) -> bool:
        """Return whether an input of a view may have changed since the view took it in."""
        return any(
            table_id in self._outputs or self._state.has_changed(table_id, epoch)
            for table_id, epoch in view.progress.inputs
        )

    def _read(self, view: CatalogView, source: Source) -> SourceRead:
        """Return what a source gives: the changes that the view has not taken in."""
        state = self._state
        vnodes = range(state.settings.vnode_count)
        if isinstance(source, OneRow):
            return SourceRead(source, None, vnodes)
        taken_in = view.progress.epoch_of(source.table_id)
        table = state.tables[source.table_id]
        pending = self._pending if source.table_id in self._outputs else None
        is_due = source.by_parts and view.progress.is_due(self.time)
        if table.data_epoch <= taken_in and pending is None and not is_due:
            return SourceRead(source, None, vnodes)
        if not source.follows_expiry and state.expiring_rows(source.table_id):
            raise _expiring_rows_error(table.definition)
        # What has expired held no changes: vacuum keeps those that a view still has to read.
        first = max(taken_in, state.oldest_epoch) + 1
        plan = self._runner.store.jobs.feed_plan(
            table.definition.name,
            first,
            state.epoch,
            deduplication="netChanges",
            columns=[*source.column_names, CHANGE_TYPE],
            pending=pending,
            shows_expiry=source.expiry is not None,
            times=self._times(view) if source.by_parts else None,
        )
        return SourceRead(source, plan if plan.steps else None, vnodes)

    def _times(self, view: CatalogView) -> tuple[int, int]:
        """Return the present time of a view before this refresh, and after it."""
        clock = view.progress.clock
        assert clock is not None
        return clock.time, self.time

    @property
    def _pending(self) -> Entry:
        """What has been written so far, as the commit that it is going to be."""
        state, results = self._state, self._outputs.values()
        return Entry(
            commit_id="pending",
            parent=state.commit_id,
            epoch=state.epoch + 1,
            time=state.time,
            started=state.time,
            operation="refresh",
            added=tuple(segment for output in results for segment in output.segments),
        )


def _expiring_rows_error(definition: TableDefinition) -> errors.SchemaError:
    return errors.SchemaError(
        f"table {definition.name!r} holds rows that were written with a TTL, which the view was "
        f"not planned for; {without_expiry(definition)}, or create the view again"
    )
