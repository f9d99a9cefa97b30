"""The materialized views of a store: created, refreshed and rescaled through one session.

Promises: calls of several threads run one after the other. Other processes may do the same at the
same time: the commits decide.
Does not know: statements.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from threading import Lock

from pyspark.sql import SparkSession

from relstate.storage import Store, StoreState, errors

from .backfill import populate
from .creation import check_parallelism, new_view
from .lineage import inputs_of, levels, upstream, view_ids
from .refresh import Refreshed, Round
from .renaming import follow_rename
from .runner import VIEW_CHANGED, JobRunner

# A conflict means that another process refreshes the same views; so many, that it never stops.
_ATTEMPTS = 20

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

    def create(
        self,
        name: str,
        query: str,
        parallelism: int | None = None,
        *,
        columns: Sequence[str] = (),
        user_properties: Mapping[str, str | None] | None = None,
        column_comments: Mapping[str, str] | None = None,
    ) -> int:
        """Create a view, populate it, and return the epoch at which it is populated.

        The arguments are those of `new_view`, whose errors are raised. If it cannot be
        computed over the rows of its inputs, there is no view. An interrupted CREATE leaves a view
        that the next refresh continues to populate.
        """
        with self._turn:
            state = self._store.state
            view = new_view(
                self._spark,
                state,
                name,
                query,
                parallelism,
                columns=columns,
                user_properties=user_properties,
                column_comments=column_comments,
            )
            inputs = [state.tables[read.table_id].definition for read in view.inputs]
            created = self._store.create_view(view, inputs)
            self._runner.plans.trust(view.plan, view.settings)
            try:
                populate(self._runner, created.view_id)
            except Exception:
                try:
                    self._store.drop_view(name, if_exists=True)
                except errors.RelstateError as error:
                    _logger.warning("view %s, which failed, was not dropped: %s", name, error)
                raise
            return self._store.epoch

    def refresh(self, names: Sequence[str] | None = None) -> Refreshed:
        """Bring views, by default all, and what they read to the latest epoch of their tables.

        Views that are not populated yet are populated first. ViewNotFoundError; ConflictError if
        others keep refreshing the same views; the error of a view that could not be computed, when
        all others are committed.
        """
        with self._turn:
            state = self._store.state
            views = upstream(state, view_ids(state, names))
            is_populated = all(state.views[view_id].progress.is_populated for view_id in views)
            failures = self._populate(state, views)
            refreshed = self._refresh(names, state if is_populated else self._store.state)
            if failures:
                raise failures[0]
            return refreshed

    def set_properties(
        self, name: str, parallelism: int | None, changes: Mapping[str, str | None]
    ) -> int:
        """Set properties of a view and return the epoch: see `Store.set_view_properties`.

        Of another parallelism, the fewest vnodes move, and no row of its state. OptionError if it
        is not possible.
        """
        if parallelism is not None:
            check_parallelism(self._store.settings.vnode_count, parallelism)
        return self._store.set_view_properties(name, parallelism, changes)

    def rename(self, name: str, new: str) -> int:
        """Give a view another name and return the epoch.

        Views that read it continue, with the new name in their queries. ViewNotFoundError,
        TableExistsError, TableNameError, DependentViewsError if the query of one means something
        else by the new name.
        """
        return self._store.rename_view(name, new, partial(follow_rename, name, new))

    def _refresh(self, names: Sequence[str] | None, state: StoreState) -> Refreshed:
        """Refresh views from a state, the newest known, or from later ones if others did it too."""
        for _ in range(_ATTEMPTS):
            try:
                return Round(self._runner, state).run(upstream(state, view_ids(state, names)))
            except VIEW_CHANGED as error:
                _logger.info("a refresh starts again: %s", error)
                state = self._store.state
        raise errors.ConflictError(
            f"{self._store.path}: others refreshed the same views {_ATTEMPTS} times meanwhile, so "
            "that this refresh committed nothing: let one refresh at a time"
        )

    def _populate(self, state: StoreState, views: Collection[int]) -> list[Exception]:
        """Populate the views that are not, those they read first, and return the errors."""
        failures: dict[int, Exception] = {}
        for level in levels(state, views):
            for view_id in level:
                is_populated = state.views[view_id].progress.is_populated
                if is_populated or not failures.keys().isdisjoint(inputs_of(state, view_id)):
                    continue
                try:
                    populate(self._runner, view_id)
                except Exception as error:
                    failures[view_id] = error
        return list(failures.values())
