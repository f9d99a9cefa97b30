"""What all clients of a server share: the databases, the settings, who is connected.

Does not know: sockets.
"""

from __future__ import annotations

from typing import Protocol

from .keyspace import Keyspace
from .settings import Settings


class Connected(Protocol):
    """A client that is connected."""

    def describe(self) -> bytes:
        """Return the line of CLIENT LIST about it."""


class Service:
    """The state of a server that is not data. For one thread."""

    def __init__(self, keyspace: Keyspace, settings: Settings) -> None:
        self.keyspace = keyspace
        self.settings = settings
        self.sessions: dict[int, Connected] = {}
        self.started = keyspace.now()
        self.commands_run = 0
        self.connections = 0
        self.write_error: str | None = None
        self._last_id = 0

    def add(self, session: Connected) -> int:
        """Register a session and return its id."""
        self._last_id += 1
        self.connections += 1
        self.sessions[self._last_id] = session
        return self._last_id
