"""Refreshes of views after few and many changes, beside an idle job and Spark's recompute."""

from __future__ import annotations

from collections.abc import Iterator

from relstate.connector.sql.database import Database
from relstate.connector.views.runner import JobRunner
from relstate.connector.views.sessions import Sessions

from ...figure import Comparison, Figure
from ...flights import Changes
from ...idle import run_idle
from ...turns import Run, in_turns, seconds
from ...views import VIEWS, followed
from ...workbench import Workbench

# Changed rows: so many milliseconds more than the idle job, so much of the recompute's time.
_ASKED = {1000: (150.0, 1 / 20), 10_000: (200.0, 1 / 10), 50_000: (600.0, 1 / 5)}
# From so many rows on the recompute is what is asked about; below, the idle job.
_LARGE = 50_000_000
# Changed rows are at most such a part of all.
_LEAST_PART = 20


def refresh(bench: Workbench) -> Iterator[Figure]:
    """Measure whole refreshes of one view each, from the plan of the feeds to the commit.

    The store is compacted before each: what a commit tends by itself stops at some megabytes.
    At 5 million rows the idle job is what is asked about, at 50 million the recompute: they are
    asked for by ``--rows 50000000``, take long to fill and tens of gigabytes, and are compacted
    only once.
    """
    database, changes = bench.once(followed)
    for name in VIEWS:
        database.refresh(name)
        view = _Refreshing(database, changes, name)
        for count, asked in _asked(bench).items():
            if bench.size.rows < _LARGE:
                database.store.compact()
            yield from _measured(bench, view, count, asked)


class _Refreshing:
    """One view: refreshed, passed through an idle job, and computed again by Spark."""

    def __init__(self, database: Database, changes: Changes, name: str) -> None:
        self.name = name
        self._database, self._changes = database, changes
        self._runner = JobRunner(database.spark, database.store)
        self._sessions = Sessions(database.spark)
        self._state = database.store.state
        self._calls = 0

    def after(self, count: int, run: Run) -> Run:
        """Return a run which commits changes first, unless it is the second of a turn."""

        def changed() -> float:
            if self._calls % 2 == 0:
                self._changes.commit(self._database.store, count)
                self._state = self._database.store.state
            self._calls += 1
            return run()

        return changed

    def refresh(self) -> None:
        """Refresh the view."""
        assert self._database.refresh(self.name).views == (self.name,)

    def idle(self) -> None:
        """Run the job of that refresh with executors that do nothing."""
        run_idle(self._runner, self._sessions, self._state, self.name)

    def recompute(self) -> None:
        """Run the view's SELECT as a batch, and drop what it gives."""
        self._database.sql(VIEWS[self.name]).write.format("noop").mode("overwrite").save()


def _asked(bench: Workbench) -> dict[int, tuple[float, float]]:
    """Return what is asked of so many changed rows; where there are few rows, of fewer."""
    most = max(bench.size.rows // _LEAST_PART, 1)
    return {min(count, most): asked for count, asked in _ASKED.items()}


def _measured(
    bench: Workbench, view: _Refreshing, changed: int, asked: tuple[float, float]
) -> Iterator[Figure]:
    rows, turns = bench.size.rows, bench.size.turns
    case = f"{view.name}: {changed:,} of {rows:,} rows"
    extra, share = asked
    ours, idle, batch = (
        view.after(changed, seconds(action)) for action in (view.refresh, view.idle, view.recompute)
    )
    yield Figure(
        workload="view-refresh",
        case=case,
        unit="ms",
        samples=in_turns(ours, idle, 2 * turns).scaled(1e3),
        comparison=Comparison.EXTRA,
        against="the same job over the same changes, with executors that do nothing",
        asked=extra if rows < _LARGE else None,
    )
    yield Figure(
        workload="view-refresh: recompute",
        case=case,
        unit="ms",
        samples=in_turns(ours, batch, max(turns // 2, 1)).scaled(1e3),
        comparison=Comparison.TIME,
        against="Spark's batch of the view's SELECT over the store's tables, its rows dropped",
        asked=share if rows >= _LARGE else None,
    )
