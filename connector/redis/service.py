"""What all clients of a server share: the databases, the settings, who is connected.

Does not know: sockets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from .database import Database
from .keyspace import Keyspace
from .patterns import glob
from .replies import Push, Reply
from .script.scripts import Scripts
from .settings import Settings
from .tables import DATABASES
from .waiting import WaitingList


class Connected(Protocol):
    """A client that is connected; ``address``: its host and port; ``is_closing``: not for long."""

    id: int
    address: str
    is_closing: bool
    unblock: Callable[[Reply], bool]

    @property
    def subscriptions(self) -> int:
        """The number of channels and patterns that it is subscribed to."""

    def describe(self) -> bytes:
        """Return the line of CLIENT LIST about it."""

    def disconnect(self) -> None:
        """End its connection now."""


class Subscriber(Protocol):
    """A client that gets messages."""

    def deliver(self, message: Reply) -> None:
        """Send a message."""


class Subscribers:
    """The subscribers of channels, or of patterns, by their names."""

    def __init__(self) -> None:
        self._by_name: dict[bytes, dict[Subscriber, None]] = {}

    def add(self, name: bytes, subscriber: Subscriber) -> None:
        """Subscribe a client."""
        self._by_name.setdefault(name, {})[subscriber] = None

    def remove(self, name: bytes, subscriber: Subscriber) -> None:
        """Let a client no longer be subscribed."""
        subscribers = self._by_name[name]
        del subscribers[subscriber]
        if not subscribers:
            del self._by_name[name]

    def of(self, name: bytes) -> list[Subscriber]:
        """Return the subscribers of a name."""
        return list(self._by_name.get(name, ()))

    def names(self) -> list[bytes]:
        """Return the names that have subscribers."""
        return list(self._by_name)


class Service:
    """The state of a server that is not data. For one thread."""

    def __init__(self, keyspace: Keyspace, settings: Settings, scripts: Scripts) -> None:
        self.keyspace = keyspace
        self.databases = [Database(keyspace, number) for number in range(DATABASES)]
        self.settings = settings
        self.sessions: dict[int, Connected] = {}
        self.channels, self.patterns = Subscribers(), Subscribers()
        self.monitors: dict[Subscriber, None] = {}
        self.waiting = WaitingList(keyspace)
        keyspace.notifications.publish = self.publish
        self.scripts = scripts
        self.started = keyspace.now()
        self.commands_run = 0
        self.connections = 0
        self.write_error: str | None = None
        self._last_id = 0

    def publish(self, channel: bytes, message: bytes) -> int:
        """Send a message to a channel, and return how many get it."""
        receivers = 0
        for subscriber in self.channels.of(channel):
            subscriber.deliver(Push([b"message", channel, message]))
            receivers += 1
        for pattern in self.patterns.names():
            if glob(pattern).is_of_channel(channel):
                for subscriber in self.patterns.of(pattern):
                    subscriber.deliver(Push([b"pmessage", pattern, channel, message]))
                    receivers += 1
        return receivers

    def add(self, session: Connected) -> int:
        """Register a session and return its id."""
        self._last_id += 1
        self.connections += 1
        self.sessions[self._last_id] = session
        return self._last_id
