"""The views of a store, seen through one session: created, refreshed, rescaled and dropped.

Promises: what is asked for by several threads is done one after the other, so that they do not get
into each other's way; other processes may do what they like.
Does not know: statements.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from threading import Lock

from pyspark.sql import SparkSession

from relstate.storage import Store, StoreState, errors

from .backfill import fill
from .creation import check_parallelism, new_view
from .lineage import inputs_of, levels, upstream, view_ids
from .refresh import Refreshed, Refresher

_logger = logging.getLogger(__name__)


class Views:
    """Materialized views. Safe between threads."""

    def __init__(self, spark: SparkSession, store: Store) -> None:
        self._spark = spark
        self._store = store
        self._refresher = Refresher(spark, store)
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
    def refresher(self) -> Refresher:
        """What computes them."""
        return self._refresher

    def create(self, name: str, query: str, parallelism: int | None = None) -> int:
        """Create a view, fill it from what is there, and return the epoch when it is whole.

        ``parallelism``: as in `new_view`, whose errors are raised. If the rows that are there
        cannot be computed, there is no view. Who is interrupted leaves one that the next refresh
        goes on to fill.
        """
        with self._turn:
            state = self._store.state
            view = new_view(self._spark, state, name, query, parallelism)
            read = [state.tables[one.table_id].definition for one in view.inputs]
            created = self._store.create_view(view, read)
            try:
                fill(self._refresher, created.view_id)
            except Exception:
                try:
                    self._store.drop_view(name, if_exists=True)
                except errors.RelstateError as error:
                    _logger.warning("view %s, which failed, was not dropped: %s", name, error)
                raise
            return self._store.epoch

    def refresh(self, names: Sequence[str] | None = None) -> Refreshed:
        """Bring views, by default all, and what they read to the latest epoch of their tables.

        Views that are not filled yet are filled first. Errors as of `Refresher.refresh`.
        """
        with self._turn:
            state = self._store.state
            failures = self._fill(state, view_ids(state, names))
            done = self._refresher.refresh(names)
            if failures:
                raise failures[0]
            return done

    def set_parallelism(self, name: str, parallelism: int) -> int:
        """Keep a view in so many parallel units from the next epoch on; return the epoch.

        The fewest vnodes move, and no row of its state. ViewNotFoundError, OptionError.
        """
        check_parallelism(self._store.settings.vnode_count, parallelism)
        mapping = self._store.view(name).definition.mapping
        if mapping.units == parallelism:
            return self._store.epoch
        return self._store.alter_view_mapping(name, mapping.rescale(parallelism))

    def _fill(self, state: StoreState, wanted: Iterable[int]) -> list[Exception]:
        """Fill the views that are not, those they read first, and return what went wrong."""
        failures: dict[int, Exception] = {}
        for level in levels(state, upstream(state, wanted)):
            for view_id in level:
                is_populated = state.views[view_id].progress.is_populated
                if is_populated or not failures.keys().isdisjoint(inputs_of(state, view_id)):
                    continue
                try:
                    fill(self._refresher, view_id)
                except Exception as error:
                    failures[view_id] = error
        return list(failures.values())
