"""A store as of one epoch, and a table as of the latest one.

Promises: a snapshot stays at its epoch; a latest reader finds the newest epoch at each call, and
gives the same reader as long as nothing of its table has changed.
Does not know: how epochs come to be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .log.state import StoreState
from .plan import ReadPlan
from .table.storagetable import StorageTable
from .table.table import Table

if TYPE_CHECKING:
    from .store import Store


class Snapshot:
    """A store as of one epoch. Safe between threads."""

    def __init__(self, store: Store, state: StoreState) -> None:
        """``state``: the store's at that epoch."""
        self._store = store
        self.state = state

    @property
    def epoch(self) -> int:
        """The epoch."""
        return self.state.epoch

    def tables(self) -> tuple[str, ...]:
        """Return the names of the tables there were, sorted."""
        return self.state.table_names()

    def table(self, name: str) -> Table:
        """Return a table as it was.

        TableNotFoundError if there was none of this name, ViewNotPopulatedError for a view that had
        not all its rows.
        """
        plan = self.read_plan(name)
        self.state.check_populated(plan.definition.table_id)
        reader = plan.open(self._store.environment)

        def open_reader() -> StorageTable:
            self._store.check_open()
            return reader

        return Table(name, open_reader)

    def read_plan(self, name: str, columns: Sequence[str] | None = None) -> ReadPlan:
        """Return what `Store.read_plan` does for the epoch, without another look at the log."""
        return plan_at(self._store, self.state, self.state.time, name, columns)


class LatestReader:
    """Gives the reader of a table at the latest epoch, the same one while that stays so."""

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._name = name
        self._found: tuple[StoreState, StorageTable] | None = None

    @property
    def epoch(self) -> int:
        """The epoch of the reader that was given last."""
        assert self._found is not None
        return self._found[0].epoch

    def __call__(self) -> StorageTable:
        """Return the reader of the table as it is now.

        TableNotFoundError if it was dropped, ViewNotPopulatedError for a view without all its rows.
        """
        state = self._store.state
        found = self._found
        if found is not None and found[0] is state:
            return found[1]
        plan = plan_at(self._store, state, self._store.environment.now(), self._name, None)
        state.check_populated(plan.definition.table_id)
        reader = None if found is None else found[1]
        if reader is None or not reader.reads(plan.definition, plan.segments):
            reader = plan.open(self._store.environment, self._store.environment.now)
        self._found = (state, reader)
        return reader


def plan_at(
    store: Store, state: StoreState, time: int, name: str, columns: Sequence[str] | None
) -> ReadPlan:
    """Return the plan of reading a table in a state; ``time``: see `ReadPlan`.

    TableNotFoundError, SchemaError for a column that is not there.
    """
    definition = state.table(name).definition
    schema = definition.schema
    names = None if columns is None else tuple(schema.column(column).name for column in columns)
    return ReadPlan(
        store.path,
        definition,
        state.settings.vnode_count,
        state.epoch,
        state.segments_of(definition.table_id),
        time,
        names,
    )
