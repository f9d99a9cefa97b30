"""A store as of one epoch, and the readers of its tables at that epoch or at the newest.

Promises: a snapshot stays at its epoch. A reader of the newest epoch looks for it at each call, and
returns the same table object as long as nothing of the table has changed. Snapshots and readers
pickle by the path of the store: the copy opens the store again.
Does not know: how epochs come to be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from .epochs import Epochs
from .errors import RelstateError
from .forklock import ForkLock
from .log.names import lower_name
from .log.state import StoreState
from .read_plan import ReadPlan
from .table.storagetable import StorageTable
from .table.table import Table

_T = TypeVar("_T")


class Snapshot:
    """A store as of one epoch. Safe between threads."""

    def __init__(self, epochs: Epochs, state: StoreState) -> None:
        """``state``: the store's at that epoch."""
        self._epochs = epochs
        self.state = state

    def __repr__(self) -> str:
        return f"Snapshot({self._epochs.path!r}, epoch {self.epoch})"

    def _repr_html_(self) -> str:
        """Return the tables and views as they were, with their sizes."""
        from .figures.html import tables_html

        return tables_html(self._epochs.path, self.state)

    @property
    def epoch(self) -> int:
        """The epoch."""
        return self.state.epoch

    def tables(self) -> tuple[str, ...]:
        """Return the names of the tables at that epoch, sorted."""
        return self.state.table_names()

    def table(self, name: str) -> Table:
        """Return a table as it was.

        TableNotFoundError if there was none of this name, ViewNotPopulatedError for a view that did
        not hold all its rows yet.
        """
        return Table(name, SnapshotReader(self._epochs, self.state, name))

    def read_plan(self, name: str, columns: Sequence[str] | None = None) -> ReadPlan:
        """Return what `Store.read_plan` does for the epoch, without another look at the log."""
        return ReadPlan.of(self._epochs.path, self.state, name, columns)

    def __reduce__(self) -> tuple[object, tuple[str, int]]:
        return _snapshot, (self._epochs.path, self.epoch)


def _snapshot(path: str, epoch: int) -> Snapshot:
    epochs = Epochs.open_path(path)
    return Snapshot(epochs, epochs.state_at(epoch))


class SnapshotReader:
    """Returns a table as of one epoch."""

    def __init__(self, epochs: Epochs, state: StoreState, name: str) -> None:
        """Errors as of `Snapshot.table`."""
        plan = ReadPlan.of(epochs.path, state, name)
        state.check_populated(plan.definition.table_id)
        self._epochs = epochs
        self._plan = plan
        self._table = plan.open(epochs.environment)

    def __call__(self) -> StorageTable:
        """Return the table. ClosedError if the store was closed."""
        self._epochs.check_open()
        return self._table

    def begin(self, read: Callable[[StorageTable, bool], _T]) -> _T:
        """Return what a read of the table returns: see `Reader.begin`."""
        return read(self(), False)

    def __reduce__(self) -> tuple[object, tuple[str, str, int]]:
        return _snapshot_reader, (self._plan.path, self._plan.definition.name, self._plan.epoch)


def _snapshot_reader(path: str, name: str, epoch: int) -> SnapshotReader:
    epochs = Epochs.open_path(path)
    return SnapshotReader(epochs, epochs.state_at(epoch), name)


class LatestReader:
    """Returns a table at the newest epoch, the same object while that does not change it."""

    def __init__(self, epochs: Epochs, name: str) -> None:
        self._epochs = epochs
        self._is_quiet = epochs.log.is_quiet
        self._name = name
        self._last: tuple[StoreState, StorageTable] | None = None

    @property
    def epoch(self) -> int:
        """The epoch of the table that was returned last."""
        assert self._last is not None
        return self._last[0].epoch

    def __call__(self) -> StorageTable:
        """Return the table as it is now.

        TableNotFoundError if it was dropped, ViewNotPopulatedError for a view without all its rows.
        """
        # Gets call this: what follows leads to the same in ten calls.
        last = self._last
        if last is not None and self._is_quiet(last[0]) and not self._epochs.is_closed:
            return last[1]
        return self.at(self._epochs.state)

    def begin(self, read: Callable[[StorageTable, bool], _T]) -> _T:
        """Return what a read of the table as it is now returns: see `Reader.begin`.

        Where a look for a newer epoch is a request, the table that was read last is read meanwhile;
        if it is not the newest, what that returned is dropped. The errors of a call, and of
        ``read``.
        """
        last = self._last
        if last is None or not self._epochs.looks_by_requests:
            return read(self(), False)
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(1) as pool:
            try:
                look = pool.submit(lambda: self._epochs.state)
            except RuntimeError:
                # The process may have no more threads, or ends.
                return read(self(), False)
            begun: list[_T] = []
            failure: RelstateError | None = None
            try:
                begun.append(read(last[1], True))
            except RelstateError as error:
                failure = error
            table = self.at(look.result())
        if table is not last[1]:
            return read(table, False)
        if failure is not None:
            raise failure
        return begun[0]

    def at(self, state: StoreState) -> StorageTable:
        """Return the table as it is in what is known to be the newest state."""
        last = self._last
        if last is not None and last[0] is state:
            return last[1]
        environment = self._epochs.environment
        plan = ReadPlan.of(self._epochs.path, state, self._name, time=environment.now())
        state.check_populated(plan.definition.table_id)
        table = None if last is None else last[1]
        if table is None or not table.reads(
            plan.definition, plan.segments, [source.segments for source in plan.indexes]
        ):
            table = plan.open(environment, environment.now)
        self._last = (state, table)
        return table

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return _latest_reader, (self._epochs.path, self._name)


class LatestReaders:
    """The readers of the newest epoch of the tables that were asked for last. Thread-safe.

    What a reader has opened and compiled serves the next caller as well, until a commit: so
    ``store.table(name).get(key)`` costs little more than ``table.get(key)``.
    """

    _MOST = 16

    def __init__(self, epochs: Epochs) -> None:
        self._epochs = epochs
        self._lock = ForkLock()
        epochs.before_release(self.clear)
        self._state: StoreState | None = None
        self._readers: dict[str, LatestReader] = {}

    def reader(self, name: str) -> LatestReader:
        """Return the reader of a table. Errors as of `LatestReader`; TableNameError.

        Where a look is a request, a table that was there lately is looked for by its reader only.
        """
        key = lower_name(name)
        state = self._epochs.likely_state
        with self._lock:
            if state is not self._state:
                self._state, self._readers = state, {}
            cached = self._readers.get(key)
        if cached is not None:
            return cached
        reader = LatestReader(self._epochs, name)
        reader()
        with self._lock:
            if state is self._state:
                while len(self._readers) >= self._MOST:
                    del self._readers[next(iter(self._readers))]
                self._readers[key] = reader
        return reader

    def clear(self) -> None:
        """Release what is open."""
        with self._lock:
            self._state, self._readers = None, {}


def _latest_reader(path: str, name: str) -> LatestReader:
    reader = LatestReader(Epochs.open_path(path), name)
    reader()
    return reader
