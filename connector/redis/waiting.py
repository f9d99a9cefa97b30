"""Clients that wait for an element: BLPOP and its like.

Promises: who waits longest for a key is served first; nobody is served with what another took.
Does not know: sockets, time.
"""

from __future__ import annotations

from typing import Protocol

from .command import Wait
from .keyspace import Keyspace
from .replies import Reply


class Waiter(Protocol):
    """A client that waits."""

    def resume(self, reply: Reply) -> None:
        """Send the reply, and go on with the requests that came meanwhile."""


class WaitingList:
    """Who waits for which keys. For one thread."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace
        self._waits: dict[Waiter, Wait] = {}

    def add(self, waiter: Waiter, wait: Wait) -> None:
        """Let a client wait."""
        self._waits[waiter] = wait
        self._count(wait, 1)

    def remove(self, waiter: Waiter) -> Wait | None:
        """Let a client wait no longer; return what it waited for, None for nothing."""
        wait = self._waits.pop(waiter, None)
        if wait is not None:
            self._count(wait, -1)
        return wait

    def _count(self, wait: Wait, change: int) -> None:
        waited = self._keyspace.waited
        for database_key in wait.database_keys:
            waited[database_key] = waited.get(database_key, 0) + change
            if not waited[database_key]:
                del waited[database_key]

    def serve(self) -> None:
        """Serve those who wait for keys that have changed."""
        ready = self._keyspace.ready
        while ready:
            database_keys = set(ready)
            ready.clear()
            for waiter, wait in list(self._waits.items()):
                if database_keys.isdisjoint(wait.database_keys):
                    continue
                self._keyspace.uncommitted = 0
                reply = wait.attempt()
                if reply is not None:
                    self.remove(waiter)
                    waiter.resume(reply)
