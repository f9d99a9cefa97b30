"""The materialized views of a store: created, refreshed and rescaled through one session.

Promises: calls of several threads run one after the other. Other processes may do the same at the
same time: the commits decide.
Does not know: statements.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from threading import Lock

from pyspark.sql import SparkSession

from relstate.storage import CatalogView, NewView, Store, StoreState, TableDefinition, errors

from .backfill import populate
from .creation import (
    PLAIN_VIEW,
    ViewOptions,
    check_parallelism,
    new_view,
    options_of,
    replacement_view,
)
from .lineage import inputs_of, is_replacement, levels, upstream, view_ids
from .merges import Merges
from .refresh import Refreshed, Round
from .renaming import follow_rename
from .replacement import finish_replacement
from .runner import VIEW_CHANGED, JobRunner
from .view_failure import continued_error

# A conflict means that another process refreshes the same views; so many, that it never stops.
_ATTEMPTS = 20
# What remains until a view, or a row, is changed: the view that failed is not kept.
_OF_VIEW = (errors.ViewFailedError, errors.DependentViewsError)

_logger = logging.getLogger(__name__)


class Views:
    """Materialized views. Safe between threads."""

    def __init__(self, spark: SparkSession, store: Store) -> None:
        self._spark = spark
        self._store = store
        self._runner = JobRunner(spark, store)
        self._turn = Lock()

    @property
    def spark(self) -> SparkSession:
        """The session."""
        return self._spark

    @property
    def store(self) -> Store:
        """The store."""
        return self._store

    @property
    def runner(self) -> JobRunner:
        """The runner of their jobs."""
        return self._runner

    def create(self, name: str, query: str, options: ViewOptions = PLAIN_VIEW) -> int:
        """Create a view, populate it, and return the epoch at which it is populated.

        Errors of `new_view` are raised. If it cannot be computed over the rows of its inputs, there
        is no view. A CREATE that is interrupted, by a failure of the machines too, leaves a view
        that the next refresh continues to populate.
        """
        with self._turn, self._store.one_look():
            state = self._store.state
            view = new_view(self._spark, state, name, query, options)
            created = self._store.view_catalog.create(view, _inputs_of(state, view))
            self._runner.plans.trust(view.plan, view.settings)
            try:
                populate(self._runner, created.view_id)
            except _OF_VIEW:
                try:
                    self._store.drop_view(name, if_exists=True)
                except errors.RelstateError as error:
                    _logger.warning("view %s, which failed, was not dropped: %s", name, error)
                raise
            except errors.JobFailedError as error:
                raise continued_error(error) from None
            return self._store.known_epoch

    def replace(self, name: str, query: str, options: ViewOptions) -> int:
        """Give a view another SELECT and options, and return the epoch at which it has them.

        The new rows are computed beside the old ones, which stay readable; one commit exchanges
        them. If they cannot be computed, the view stays as it is. An interrupted replacement is
        continued by the next refresh of the view. ViewNotFoundError, the errors of
        `replacement_view` and of `finish_replacement`.
        """
        with self._turn, self._store.one_look():
            state = self._store.state
            return self._replace(state, state.view(name), query, options)

    def alter_query(self, name: str, query: str) -> int:
        """Give a view another SELECT as `replace` does; its options stay as they are."""
        with self._turn, self._store.one_look():
            state = self._store.state
            view = state.view(name)
            return self._replace(state, view, query, options_of(state, view))

    def _replace(
        self, state: StoreState, replaced: CatalogView, query: str, options: ViewOptions
    ) -> int:
        view = replacement_view(self._spark, state, replaced, query, options)
        required = [*_inputs_of(state, view), state.tables[replaced.view_id].definition]
        created = self._store.view_catalog.create_replacement(replaced.view_id, view, required)
        self._runner.plans.trust(view.plan, view.settings)
        try:
            populate(self._runner, created.view_id)
            finish_replacement(self._runner, created.view_id)
        except _OF_VIEW:
            self._drop_replacement(created.view_id)
            raise
        except errors.JobFailedError as error:
            raise continued_error(error) from None
        return self._store.known_epoch

    def _drop_replacement(self, view_id: int) -> None:
        try:
            self._store.view_catalog.drop_replacement(view_id)
        except errors.RelstateError as error:
            _logger.warning("the replacement of a view, which failed, was not dropped: %s", error)

    def refresh(self, names: Sequence[str] | None = None) -> Refreshed:
        """Bring views, by default all, and what they read to the latest epoch of their tables.

        Views that are not populated yet are populated first. ViewNotFoundError; ConflictError if
        others keep refreshing the same views; the error of a view that could not be computed, when
        all others are committed.
        """
        refreshed = self.advance(names)
        for failure in refreshed.failures.values():
            raise failure
        return refreshed

    def advance(
        self,
        names: Sequence[str] | None = None,
        skipped: Set[int] = frozenset(),
        merges: Merges | None = None,
    ) -> Refreshed:
        """Refresh views as `refresh` does; the errors of views are returned, not raised.

        ``skipped``: views, by ids, that are left as they are. ``merges``: where the merges of files
        are left that are due then; by default they are done before it returns.
        """
        with self._turn, self._store.one_look():
            state = self._store.state
            views = upstream(state, view_ids(state, names))
            failures = self._populate(state, views, skipped)
            is_replaced = self._finish_replacements(state, views - skipped, failures)
            is_populated = all(state.views[view_id].progress.is_populated for view_id in views)
            is_current = is_populated and not is_replaced
            state = state if is_current else self._store.state
            refreshed = self._refresh(names, state, skipped | failures.keys(), merges)
            return replace(refreshed, failures={**failures, **refreshed.failures})

    def set_properties(
        self, name: str, parallelism: int | None, changes: Mapping[str, str | None]
    ) -> int:
        """Set properties of a view and return the epoch: see `ViewCatalog.set_properties`.

        Of another parallelism, the fewest vnodes move, and no row of its state. OptionError if it
        is not possible.
        """
        if parallelism is not None:
            check_parallelism(self._store.settings.vnode_count, parallelism)
        return self._store.view_catalog.set_properties(name, parallelism, changes)

    def rename(self, name: str, new: str) -> int:
        """Give a view another name and return the epoch.

        Views that read it continue, with the new name in their queries. ViewNotFoundError,
        TableExistsError, TableNameError, DependentViewsError if the query of one means something
        else by the new name.
        """
        return self._store.view_catalog.rename(name, new, partial(follow_rename, name, new))

    def _refresh(
        self,
        names: Sequence[str] | None,
        state: StoreState,
        skipped: Set[int],
        merges: Merges | None,
    ) -> Refreshed:
        """Refresh views from a state, the newest known, or from later ones if others did it too."""
        for _ in range(_ATTEMPTS):
            try:
                views = upstream(state, view_ids(state, names))
                return Round(self._runner, state, views, skipped, merges).attempt()
            except VIEW_CHANGED as error:
                _logger.info("a refresh starts again: %s", error)
                with self._store.one_look(again=True):
                    state = self._store.state
        raise errors.ConflictError(
            f"{self._store.path}: others refreshed the same views {_ATTEMPTS} times meanwhile; "
            "nothing was committed: run one refresh at a time"
        )

    def _populate(
        self, state: StoreState, views: Collection[int], skipped: Set[int]
    ) -> dict[int, Exception]:
        """Populate the views that are not, those they read first, and return the errors by ids."""
        failures: dict[int, Exception] = {}
        waiting = set(skipped)
        for level in levels(state, views):
            for view_id in level:
                if state.views[view_id].progress.is_populated:
                    continue
                if not waiting.isdisjoint((view_id, *inputs_of(state, view_id))):
                    waiting.add(view_id)
                    continue
                try:
                    populate(self._runner, view_id)
                except Exception as error:
                    failures[view_id] = error
                    waiting.add(view_id)
                    self._give_up(state, view_id, error)
        return failures

    def _finish_replacements(
        self, state: StoreState, views: Collection[int], failures: dict[int, Exception]
    ) -> bool:
        """Let replacements take the place of their views; add errors, and return if there are any.

        A replacement that is not populated now has failed before.
        """
        replacements = [view_id for view_id in views if is_replacement(state, view_id)]
        for view_id in replacements:
            view = self._store.state.views.get(view_id)
            if view is not None and view.progress.is_populated:
                try:
                    finish_replacement(self._runner, view_id)
                except Exception as error:
                    failures.setdefault(view_id, error)
                    self._give_up(state, view_id, error)
        return bool(replacements)

    def _give_up(self, state: StoreState, view_id: int, error: Exception) -> None:
        """Drop a replacement whose SELECT fails, or which lacks what a view reads by now."""
        if isinstance(error, _OF_VIEW) and is_replacement(state, view_id):
            self._drop_replacement(view_id)


def _inputs_of(state: StoreState, view: NewView) -> list[TableDefinition]:
    return [state.tables[read.table_id].definition for read in view.inputs]
