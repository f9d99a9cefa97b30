"""Which keys expire next: a bounded part of all expiries, the earliest.

Promises: every key that has expired is returned by `due` sooner or later, also those that expired
while no server was running; at most a fixed number of expiries is in memory.
Does not know: values. An expiry that was returned may be an old one: look at the key.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from itertools import chain

from .tables import DATABASES, StoredTables

MOST_EXPIRIES = 200_000
_MOST_DUE = 1000


class Expiries:
    """The earliest expiries. Those at ``_horizon`` or later may be missing."""

    def __init__(
        self,
        tables: StoredTables,
        uncommitted: Callable[[], Iterable[tuple[int, int, bytes]]],
        most: int = MOST_EXPIRIES,
    ) -> None:
        """``uncommitted`` returns the expiries that the tables do not have yet."""
        self._tables = tables
        self._uncommitted = uncommitted
        self._most = most
        self._heap: list[tuple[int, int, bytes]] = []
        self._horizon: int | None = 0

    def add(self, expiry: int, number: int, key: bytes) -> None:
        """Add when a key of a database expires."""
        if self._horizon is None or expiry < self._horizon:
            heapq.heappush(self._heap, (expiry, number, key))
            if len(self._heap) > self._most:
                self._shrink()

    def due(self, now: int) -> list[tuple[int, bytes]]:
        """Return some keys that may have expired by now, with the numbers of their databases."""
        if self._horizon is not None and self._horizon <= now:
            self._load()
        keys: list[tuple[int, bytes]] = []
        while self._heap and self._heap[0][0] <= now and len(keys) < _MOST_DUE:
            _, number, key = heapq.heappop(self._heap)
            keys.append((number, key))
        return keys

    def _load(self) -> None:
        """Read the earliest expiries from the tables and from what is not committed."""
        stored = (
            (expiry, number, key)
            for number in range(DATABASES)
            for key, expiry in self._tables.keys(number, expiring=True)
            if expiry is not None
        )
        entries = heapq.nsmallest(self._most, chain(stored, self._uncommitted(), self._heap))
        is_complete = len(entries) < self._most
        self._heap = entries
        self._horizon = None if is_complete else entries[-1][0]

    def _shrink(self) -> None:
        """Forget the later half."""
        self._heap = heapq.nsmallest(self._most // 2, self._heap)
        self._horizon = self._heap[-1][0]
