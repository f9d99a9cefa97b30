"""Servers that tests talk to as Redis clients: `relstate redis` in a thread, and Redis itself."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hiredis

from relstate.connector.redis.server import Server
from relstate.connector.redis.settings import Settings
from relstate.storage import Store

REDIS_SERVER = shutil.which("redis-server")
SECONDS = 120
"""After so long a server hangs. No test depends on how fast the machine is."""
_INCOMPLETE = object()
Request = Sequence[bytes | str | int | float]


class Connection:
    """A client that sends requests and returns replies as hiredis reads them, errors as values."""

    def __init__(self, connected: socket.socket) -> None:
        connected.settimeout(SECONDS)
        self.socket = connected
        self._reader = hiredis.Reader(notEnoughData=_INCOMPLETE)

    def __call__(self, *request: bytes | str | int | float) -> Any:
        """Send one request and return its reply."""
        return self.pipeline([request])[0]

    def pipeline(self, requests: Sequence[Request]) -> list[Any]:
        """Send requests at once and return their replies."""
        self.send(*requests)
        return [self.reply() for _ in requests]

    def send(self, *requests: Request) -> None:
        """Send requests, and wait for no reply."""
        self.socket.sendall(b"".join(map(request_bytes, requests)))

    def reply(self) -> Any:
        """Return the next reply. EOFError if the connection ends before."""
        while (reply := self._reader.gets()) is _INCOMPLETE:
            data = self.socket.recv(65536)
            if not data:
                raise EOFError
            self._reader.feed(data)
        return reply

    def close(self) -> None:
        """End the connection."""
        self.socket.close()


def request_bytes(request: Request) -> bytes:
    """Return a request as clients send it."""
    words = [word if isinstance(word, bytes) else str(word).encode() for word in request]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w) for w in words)


class Served:
    """`relstate redis` over a store, in a thread of this process."""

    def __init__(self, store: Store, settings: Settings | None = None) -> None:
        self.store = store
        self.settings = settings or Settings()
        self.settings.port = 0
        self._clients: list[Connection] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.server = self.run(self._start)

    async def _start(self) -> Server:
        server = Server(self.store, self.settings)
        await server.start()
        return server

    def run(self, make: Callable[[], Any]) -> Any:
        """Run a coroutine function, or a function, in the thread of the server."""

        async def call() -> Any:
            result = make()
            return await result if asyncio.iscoroutine(result) else result

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(SECONDS)

    def connect(self) -> Connection:
        """Return a new client."""
        address = ("127.0.0.1", self.settings.port)
        self._clients.append(Connection(socket.create_connection(address, SECONDS)))
        return self._clients[-1]

    def forget(self) -> None:
        """Let the next commands read from the tables, once all is committed."""
        self.settle()
        self.run(self.server.service.keyspace.drop_committed)

    def end_looks(self) -> None:
        """Let the server no longer look at the store by itself.

        For tests of what is seen before a look, or after it: they call `Server.expire_due`.
        """
        self.run(self._end_looks)

    async def _end_looks(self) -> None:
        expiring = self.server._expiring
        assert expiring is not None
        expiring.cancel()
        await asyncio.wait([expiring])

    def settle(self) -> None:
        """Return once all is committed."""
        keyspace = self.server.service.keyspace
        self.wait_until(lambda: not (keyspace.has_changes or keyspace.is_committing))

    def wait_until(self, is_true: Callable[[], bool]) -> None:
        """Return once something is true in the thread of the server."""
        deadline = time.monotonic() + SECONDS
        while not self.run(is_true):
            assert time.monotonic() < deadline
            time.sleep(0.001)

    def stop(self) -> None:
        """End the server; what was answered is committed."""
        for client in self._clients:
            client.close()
        self.run(self.server.stop)
        self.end()

    def end(self) -> None:
        """End the thread of a server that was stopped."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS)
        self._loop.close()


def before_next_commit(server: Served, act: Callable[[], object]) -> None:
    """Let something happen immediately before the next commit of the server."""
    tables = server.server.service.keyspace.tables
    commit = tables.commit

    def interrupted(batch: Any) -> None:
        tables.commit = commit
        act()
        commit(batch)

    tables.commit = interrupted


def rows(store: Store, number: int = 0) -> list[dict[str, Any]]:
    """Return the rows of a database's table, without the columns that are NULL."""
    return [
        {name: value for name, value in row.items() if value is not None}
        for row in store.table(f"redis_{number}").to_dicts()
    ]


@contextmanager
def served(store: Store, settings: Settings | None = None) -> Iterator[Served]:
    """Serve a store while the block runs."""
    server = Served(store, settings)
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def real_redis(folder: Path) -> Iterator[Connection]:
    """Run Redis itself, reached by a socket in a folder, and yield a client."""
    assert REDIS_SERVER is not None
    path = folder / "redis.sock"
    options = ["--port", "0", "--unixsocket", str(path), "--save", "", "--dir", str(folder)]
    with subprocess.Popen([REDIS_SERVER, *options], stdout=subprocess.DEVNULL) as process:
        try:
            client = Connection(connected(str(path)))
            yield client
            client.close()
        finally:
            process.terminate()


def another(client: Connection) -> Connection:
    """Return a new connection to the server of another."""
    address = client.socket.getpeername()
    if isinstance(address, str):
        return Connection(connected(address))
    return Connection(socket.create_connection(address, SECONDS))


def connected(path: str) -> socket.socket:
    """Return a connection to a socket at a path, once something listens there."""
    deadline = time.monotonic() + SECONDS
    while True:
        client = socket.socket(socket.AF_UNIX)
        try:
            client.connect(path)
        except OSError:
            client.close()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        else:
            return client
