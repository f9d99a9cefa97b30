"""The figures of a whole store: its first page.

Promises: a store of thousands of tables is answered in less than a second; a damaged part of the
log, or of the folder, is reported and does not hide the rest.
Does not know: how figures are shown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from relstate.connector.commits import Commit, commits
from relstate.storage import Store, StoreState, VacuumReport, errors, figures

from .activity import Activity, activity
from .damage import damage_problem
from .row_counts import with_counts
from .views import ViewFigures, view_figures

COMMITS = 20
"""How many of the latest commits are shown."""

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class StorePage:
    """All about a store.

    ``time`` of its latest commit and ``now``: microseconds since 1970. ``retention`` in seconds.
    ``sizes`` are of all tables, internal ones too. ``vacuum``: what it would remove now. What
    cannot be read is None, or empty, and why is in ``problems``.
    """

    path: str
    store_id: str
    epoch: int
    oldest_epoch: int
    time: int
    now: int
    vnode_count: int
    shard_count: int
    retention: int
    sizes: tuple[figures.TableSize, ...]
    shards: tuple[figures.ShardFiles, ...]
    views: tuple[ViewFigures, ...]
    disk: figures.DiskUse | None
    compaction: figures.CompactionForecast | None
    vacuum: VacuumReport | None
    activity: Activity | None
    commits: tuple[Commit, ...]
    problems: tuple[str, ...]

    @property
    def tables(self) -> tuple[figures.TableSize, ...]:
        """The sizes of the users' tables."""
        return tuple(size for size in self.sizes if size.kind == "table")


def store_page(store: Store, state: StoreState) -> StorePage:
    """Return what the first page of a store shows.

    Reads some thousand entries of the log at most, and those within the retention once.
    """
    problems: list[str] = []

    def attempt(compute: Callable[[], _Value], otherwise: _Value) -> _Value:
        try:
            return compute()
        except (errors.RelstateError, FileNotFoundError) as error:
            problems.append(str(error))
            return otherwise

    settings = state.settings
    sizes: tuple[figures.TableSize, ...] = attempt(
        lambda: with_counts(store, state, figures.table_sizes(state)), ()
    )
    damage = damage_problem(store, state)
    if damage is not None:
        problems.append(damage)
    return StorePage(
        store.path,
        settings.store_id,
        state.epoch,
        state.oldest_epoch,
        state.time,
        store.environment.now(),
        settings.vnode_count,
        settings.shards,
        settings.retention,
        sizes,
        attempt(lambda: figures.shard_files(state), ()),
        attempt(lambda: view_figures(store, state, sizes), ()),
        attempt(lambda: figures.disk_use(store.environment, state), None),
        attempt(lambda: figures.forecast_compaction(state), None),
        attempt(lambda: store.vacuum(dry_run=True), None),
        attempt(lambda: activity(store, state), None),
        attempt(lambda: tuple(islice(commits(store), COMMITS)), ()),
        tuple(dict.fromkeys(problems)),
    )
