"""Which keys expire next: a bounded part of all expiries, the earliest.

Promises: every key that has expired is returned by `due` sooner or later, also those that expired
while no server was running; at most a fixed number of expiries is in memory. The tables are read in
any thread, while keys go on to change.
Does not know: values. An expiry that was returned may be an old one: look at the key.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from itertools import chain
from typing import TypeAlias

from .tables import DATABASES, StoredTables

_Entry: TypeAlias = tuple[int, int, bytes]
MOST_EXPIRIES = 200_000
_MOST_DUE = 1000


class _Earliest:
    """The earliest of some expiries. Those at ``horizon`` or later may be missing; None: none."""

    def __init__(self, entries: list[_Entry], horizon: int | None, most: int) -> None:
        """``entries`` are sorted."""
        self.entries, self.horizon = entries, horizon
        self._most = most

    def add(self, entry: _Entry) -> None:
        """Add an expiry; of more than ``most`` the later half is forgotten."""
        if self.horizon is None or entry[0] < self.horizon:
            heapq.heappush(self.entries, entry)
            if len(self.entries) > self._most:
                self.entries = heapq.nsmallest(self._most // 2, self.entries)
                self.horizon = self.entries[-1][0]


class Expiries:
    """The earliest expiries."""

    def __init__(
        self,
        tables: StoredTables,
        uncommitted: Callable[[], Iterable[_Entry]],
        most: int = MOST_EXPIRIES,
    ) -> None:
        """``uncommitted`` returns the expiries that the tables do not have yet."""
        self._tables = tables
        self._uncommitted = uncommitted
        self._most = most
        self._earliest = _Earliest([], 0, most)
        # Those that were added since a read of the tables began.
        self._added: _Earliest | None = None

    def add(self, expiry: int, number: int, key: bytes) -> None:
        """Add when a key of a database expires."""
        self._earliest.add((expiry, number, key))
        if self._added is not None:
            self._added.add((expiry, number, key))

    def due(self, now: int) -> list[tuple[int, bytes]]:
        """Return some keys that may have expired by now, with the numbers of their databases.

        If `begin_read` says that a read is due, more are known after it.
        """
        keys: list[tuple[int, bytes]] = []
        entries = self._earliest.entries
        while entries and entries[0][0] <= now and len(keys) < _MOST_DUE:
            _, number, key = heapq.heappop(entries)
            keys.append((number, key))
        return keys

    def begin_read(self, now: int) -> Callable[[], list[_Entry]] | None:
        """Return what reads the earliest expiries of this moment, for `finish_read`.

        It may be called in any thread. None if all that are due by now are known.
        """
        horizon = self._earliest.horizon
        if horizon is None or horizon > now:
            return None
        tables = [(number, self._tables.expiring_keys(number)) for number in range(DATABASES)]
        others = [*self._uncommitted(), *self._earliest.entries]
        self._added = _Earliest([], None, self._most)

        def read() -> list[_Entry]:
            stored = (
                (expiry, number, key)
                for number, keys in tables
                if keys is not None
                for key, expiry in keys.read()
                if expiry is not None
            )
            return heapq.nsmallest(self._most, chain(stored, others))

        return read

    def finish_read(self, entries: list[_Entry]) -> None:
        """Take over the expiries that were read, with those that were added meanwhile."""
        assert self._added is not None
        is_complete = len(entries) < self._most
        horizons = [None if is_complete else entries[-1][0], self._added.horizon]
        horizon = min((moment for moment in horizons if moment is not None), default=None)
        self._earliest = _Earliest(entries, horizon, self._most)
        for entry in self._added.entries:
            self._earliest.add(entry)
        self._added = None
