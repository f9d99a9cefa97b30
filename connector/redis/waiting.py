"""Clients that wait for an element: BLPOP and its like.

Promises: keys serve in the order in which they changed, each first who waits longest for it; nobody
is served with what another took.
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
    """Who waits for which keys. For one thread.

    ``waiters``: by key those who wait for it, who waits longest first.
    """

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace
        self._waits: dict[Waiter, Wait] = {}
        self.waiters: dict[tuple[int, bytes], dict[Waiter, None]] = {}
        keyspace.waited = self.waiters

    def add(self, waiter: Waiter, wait: Wait) -> None:
        """Let a client wait."""
        self._waits[waiter] = wait
        for database_key in wait.database_keys:
            self.waiters.setdefault(database_key, {})[waiter] = None

    def remove(self, waiter: Waiter) -> Wait | None:
        """Let a client wait no longer; return what it waited for, None for nothing."""
        wait = self._waits.pop(waiter, None)
        for database_key in () if wait is None else dict.fromkeys(wait.database_keys):
            waiters = self.waiters[database_key]
            del waiters[waiter]
            if not waiters:
                del self.waiters[database_key]
        return wait

    def serve(self) -> None:
        """Serve those who wait for keys that have changed, key by key in that order."""
        ready = self._keyspace.ready
        while ready:
            database_keys = dict.fromkeys(ready)
            ready.clear()
            for database_key in database_keys:
                for waiter in list(self.waiters.get(database_key, ())):
                    self._keyspace.uncommitted = 0
                    reply = self._waits[waiter].attempt(database_key[1])
                    if reply is not None:
                        self.remove(waiter)
                        waiter.resume(reply)
