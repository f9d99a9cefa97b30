"""The server: where it listens, how it ends, and what it does without being asked.

Promises: it listens on the loopback address unless another is given; at SIGTERM and SIGINT it
commits what is left and ends; keys that have expired are deleted while nobody asks for them.
Does not know: requests and replies.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable

import pyarrow as pa

from relstate.storage import Store, errors, raise_descriptor_limit

from . import sessions  # noqa: F401 - fills the table of commands
from .client import Client
from .committer import Committer
from .connection import REDIS_VERSION
from .keyspace import Keyspace
from .script.scripts import Scripts
from .service import Service
from .settings import Settings
from .tables import StoredTables, create_table

_logger = logging.getLogger(__name__)

_EXPIRY_PAUSE = 0.1
_BACKLOG = 511
# Descriptors that are not those of clients, most of them of segments.
_OTHER_FILES = 512


class Server:
    """A server of one store. It is made in the event loop that runs it."""

    def __init__(self, store: Store, settings: Settings) -> None:
        """SchemaError if a table of the store is in the way."""
        self._settings = settings
        create_table(store, 0)
        keyspace = Keyspace(
            StoredTables(store), store.environment, settings.maxmemory, settings.max_request_bytes
        )
        self.service = Service(keyspace, settings, Scripts(keyspace, REDIS_VERSION))
        self._clients: set[Client] = set()
        self._waiting: dict[Client, None] = {}
        self.committer = Committer(self.service, self)
        self._server: asyncio.Server | None = None
        self._expiring: asyncio.Task[None] | None = None
        self._expiry_lock = asyncio.Lock()

    async def start(self) -> tuple[str, int]:
        """Listen, and return the address and the port. OptionError if that is not possible."""
        loop = asyncio.get_running_loop()
        settings = self._settings
        try:
            self._server = await loop.create_server(
                lambda: Client(self.service, self.committer, self._clients, self._waiting),
                settings.host,
                settings.port,
                backlog=_BACKLOG,
            )
        except OSError as error:
            raise errors.OptionError(
                f"cannot listen on {settings.host}, port {settings.port}: {error}; choose another "
                "one (--host, --port)"
            ) from None
        host, port = self._server.sockets[0].getsockname()[:2]
        settings.port = port
        self._expiring = loop.create_task(self._expire())
        return host, port

    async def stop(self) -> None:
        """Commit what is left, and disconnect everybody. FilesystemError if that fails."""
        assert self._server is not None
        assert self._expiring is not None
        self._server.close()
        self._expiring.cancel()
        for client in self._clients:
            client.stop_serving()
        try:
            await self.committer.finish()
        finally:
            for client in list(self._clients):
                client.disconnect()

    @property
    def waiting_clients(self) -> int:
        """The number of clients whose replies wait for a commit."""
        return len(self._waiting)

    def settle(self, number: int, error: str | None) -> None:
        """Send the replies that waited for the batches up to a number, or the error instead.

        Who waits longest is the first: who took a lock knows it before those whom it kept out.
        """
        for client in list(self._waiting):
            client.settle(number, error)

    async def _expire(self) -> None:
        """Delete keys that have expired, for ever."""
        while True:
            try:
                await self.expire_due()
            except errors.RelstateError as error:
                _logger.warning("cannot look for expired keys: %s", error)
            except Exception:
                _logger.exception("cannot delete expired keys; this is tried again")
            await asyncio.sleep(_EXPIRY_PAUSE)

    async def expire_due(self) -> None:
        """Look for other writers' changes, and delete keys that have expired.

        Clients are served while expiries are read from the tables.
        """
        async with self._expiry_lock:
            keyspace = self.service.keyspace
            keyspace.tick = keyspace.now()
            keyspace.refresh()
            if self.service.write_error is not None:
                return
            expiries = keyspace.expiries
            read = expiries.begin_read(keyspace.now())
            if read is not None:
                loop = asyncio.get_running_loop()
                expiries.finish_read(await loop.run_in_executor(None, read))
            for number, key in keyspace.expiries.due(keyspace.now()):
                self.service.databases[number].look_at(key)
            self.committer.wake()


def serve(store: Store, settings: Settings, started: Callable[[str, int], None]) -> None:
    """Serve a store until the process is interrupted or terminated.

    ``started`` is called with the address and the port. OptionError if it cannot listen there,
    SchemaError if a table of the store is in the way, FilesystemError if the last changes cannot
    be committed.
    """
    # What a commit needed goes back to the system: Arrow's own allocators would keep most of it.
    pa.set_memory_pool(pa.system_memory_pool())
    asyncio.run(_serve(store, settings, started))


def _make_room(settings: Settings) -> None:
    """Let this process have as many connections as it may; fewer clients if these are too few."""
    limit = raise_descriptor_limit(settings.maxclients + _OTHER_FILES)
    room = max(limit - _OTHER_FILES, 1)
    if room < settings.maxclients:
        _logger.warning(
            "maxclients is %d, not %d: this process may have %d files open; raise the limit "
            "(ulimit -n)",
            room,
            settings.maxclients,
            limit,
        )
        settings.maxclients = room


async def _serve(store: Store, settings: Settings, started: Callable[[str, int], None]) -> None:
    _make_room(settings)
    server = Server(store, settings)
    started(*await server.start())
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    await ended.wait()
    await server.stop()
