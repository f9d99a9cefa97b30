"""The figures of views: progress and lag, plan and state, refreshes, vnodes of parallel units.

Promises: a damaged plan or position does not hide the other figures of a view.
Does not know: how views are refreshed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from relstate.connector.views.lineage import is_behind
from relstate.connector.views.plan.node import plan_lines
from relstate.connector.views.plan_description import (
    FragmentDescription,
    PlanTables,
    describe_fragments,
)
from relstate.connector.views.position import Position
from relstate.connector.views.viewplan import parse_stored_plan
from relstate.storage import (
    CatalogView,
    RefreshFigures,
    RefreshRecord,
    Store,
    StoreState,
    ViewFailure,
    errors,
    figures,
    read_failure,
)
from relstate.vnode import VnodeMapping

from .damage import damage_problem
from .lag import NO_LAG, Lag, lags
from .row_counts import with_counts

REFRESHES = 20
"""How many refreshes of a view are shown."""


@dataclass(frozen=True, slots=True)
class ViewFigures:
    """A view in a list of views.

    ``reflects``: the epoch of tables that it shows. ``is_populated``: whether the rows that were
    there before it are applied. ``is_behind``: whether it, or a view that it reads, has those or
    later changes to apply. ``backfill``: the share that is read of the rows that were there before
    it, or before the view that is to replace it; None if neither is being populated.
    ``parallelism``: its units. ``inputs``: what it reads. ``rows``: an estimate
    if ``rows_estimated``, as in `figures.TableSize`; ``state_tables``, ``state_rows`` and
    ``state_bytes`` are of its state. ``last_refresh``: None if the last one left no figures.
    ``failure``: of the last refresh, if it failed because of the query or a row; else None.
    ``quarantined``: how many rows of inputs are in its quarantine.
    """

    name: str
    reflects: int
    is_populated: bool
    is_behind: bool
    backfill: float | None
    lag: Lag
    parallelism: int
    inputs: tuple[str, ...]
    rows: int
    stored_bytes: int
    state_tables: int
    state_rows: int
    state_bytes: int
    query: str
    last_refresh: RefreshFigures | None
    failure: ViewFailure | None
    rows_estimated: bool = True
    quarantined: int = 0

    @property
    def status(self) -> str:
        """Whether it is up to date, in a word or two."""
        if self.failure is not None:
            return "failed"
        if not self.is_populated:
            return "being populated"
        return "behind" if self.is_behind else "up to date"


def view_figures(
    store: Store, state: StoreState, table_sizes: Sequence[figures.TableSize] | None = None
) -> tuple[ViewFigures, ...]:
    """Return the figures of all views, sorted by their names; reads the log as `lags` does.

    ``table_sizes``: those of all tables, by default as the log has them.
    """
    by_id = lags(store, state)
    known = figures.table_sizes(state) if table_sizes is None else table_sizes
    sizes = {size.table_id: size for size in known}
    time = store.environment.now()
    return tuple(
        _figures_of(store, state, state.view(name), by_id, sizes, time)
        for name in state.view_names()
    )


def _figures_of(
    store: Store,
    state: StoreState,
    view: CatalogView,
    by_id: Mapping[int, Lag],
    sizes: Mapping[int, figures.TableSize],
    time: int,
) -> ViewFigures:
    definition, progress = view.definition, view.progress
    own = sizes[view.view_id]
    state_sizes = [sizes[table_id] for table_id in definition.internal]
    record = progress.last_refresh
    try:
        backfill = backfill_share(state, view)
    except errors.CorruptionError:
        backfill = None
    return ViewFigures(
        state.name_of(view.view_id),
        progress.reflects,
        progress.is_populated,
        is_behind(state, [view.view_id], time),
        backfill,
        by_id.get(view.view_id, NO_LAG),
        definition.mapping.units,
        tuple(state.name_of(table.table_id) for table in definition.inputs),
        own.rows,
        own.stored_bytes,
        len(state_sizes),
        sum(size.rows for size in state_sizes),
        sum(size.stored_bytes for size in state_sizes),
        definition.query,
        None if record is None else record.figures,
        _failure_of(store, view),
        own.rows_estimated,
        progress.quarantined,
    )


def backfill_share(state: StoreState, view: CatalogView) -> float | None:
    """Return the share that has been read for a view that is being populated or replaced.

    None: it is neither. CorruptionError for a damaged position.
    """
    replacement = state.replacement_of(view.view_id)
    backfill = (view if replacement is None else replacement).progress.backfill
    return None if backfill is None else Position.from_json(backfill).share


@dataclass(frozen=True, slots=True)
class Refresh:
    """A refresh of a view: the epoch that it committed, and when.

    Times in microseconds since 1970. ``rest``: the microseconds that are neither planning nor
    running: waiting for other views, and the commit.
    """

    epoch: int
    committed: int
    figures: RefreshFigures

    @property
    def total(self) -> int:
        """How many microseconds it took."""
        return max(self.committed - self.figures.started, 0)

    @property
    def rest(self) -> int:
        """What is left of the total for waiting and the commit."""
        return max(self.total - self.figures.planning - self.figures.running, 0)


@dataclass(frozen=True, slots=True)
class ViewPage:
    """All about one view.

    ``plan``: a line for each operator; ``fragments``: its executors with their tables, whose sizes
    are in ``sizes`` by id. ``problem``: why there is no plan, else None. ``refreshes``: the last
    ones, the newest first. ``settings``: those of the session that created it. ``damage``: what is
    wrong with its files, None if nothing is.
    """

    summary: ViewFigures
    readers: tuple[str, ...]
    plan: tuple[str, ...]
    fragments: tuple[FragmentDescription, ...]
    sizes: Mapping[int, figures.TableSize]
    problem: str | None
    mapping: VnodeMapping
    refreshes: tuple[Refresh, ...]
    settings: Mapping[str, str]
    damage: str | None


def view_page(store: Store, state: StoreState, name: str) -> ViewPage:
    """Return what the page of a view shows. ViewNotFoundError.

    Costs as much as `view_figures`, and reads an entry of the log for each refresh.
    """
    return next(view_pages(store, state, [name]))


def view_pages(store: Store, state: StoreState, names: Iterable[str]) -> Iterator[ViewPage]:
    """Yield the pages of some views; what they share is computed once. ViewNotFoundError."""
    by_id = lags(store, state)
    views = [*map(state.view, names)]
    ids = {view.view_id for view in views}
    sizes = {size.table_id: size for size in figures.table_sizes(state)}
    shown = with_counts(store, state, [sizes[view_id] for view_id in ids])
    sizes |= {size.table_id: size for size in shown}
    time = store.environment.now()
    for view in views:
        yield _page(store, state, view, _figures_of(store, state, view, by_id, sizes, time), sizes)


def _page(
    store: Store,
    state: StoreState,
    view: CatalogView,
    own: ViewFigures,
    sizes: Mapping[int, figures.TableSize],
) -> ViewPage:
    plan: tuple[str, ...] = ()
    fragments: tuple[FragmentDescription, ...] = ()
    problem = None
    try:
        parsed = parse_stored_plan(own.name, view.definition.plan)
        plan = plan_lines(parsed.root)
        tables = PlanTables.of_view(state, view)
        fragments = describe_fragments(parsed, view.definition.mapping, tables)
    except (errors.RelstateError, IndexError) as error:
        problem = str(error)
    return ViewPage(
        own,
        tuple(sorted(map(state.title_of, state.views_reading(view.view_id)))),
        plan,
        fragments,
        {table_id: sizes[table_id] for table_id in view.definition.table_ids},
        problem,
        view.definition.mapping,
        tuple(islice(refreshes(store, view), REFRESHES)),
        dict(sorted(view.definition.settings.items())),
        damage_problem(store, state, view.definition.table_ids),
    )


def _failure_of(store: Store, view: CatalogView) -> ViewFailure | None:
    failure, progress = read_failure(store.environment, view.view_id), view.progress
    if failure is None or failure.epoch < progress.reflects:
        return None
    last = progress.last_refresh
    return None if last is not None and last.figures.started > failure.time else failure


def refreshes(store: Store, view: CatalogView) -> Iterator[Refresh]:
    """Yield the refreshes of a view that left figures, the newest first.

    Each names the one before it, so that the log is not searched.
    """
    record = view.progress.last_refresh
    while record is not None:
        entry = store.jobs.entry(record.epoch)
        yield Refresh(record.epoch, entry.time, record.figures)
        record = _record_before(store, view.view_id, record)


def _record_before(store: Store, view_id: int, record: RefreshRecord) -> RefreshRecord | None:
    """Return the record of the refresh before one; None if there is none."""
    if record.previous is None or not 1 <= record.previous < record.epoch:
        return None
    entry = store.jobs.entry(record.previous)
    records = {progress.view_id: progress.last_refresh for progress in entry.progress}
    return records.get(view_id)
