"""A bucket for the benchmarks: a server of S3's protocol as a process, and clients that count.

The server is moto, of the extra ``dev``: what it takes is part of both sides of a figure. See
moto_server.py.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from relstate.storage import Location
from relstate.storage.objects.cache import Cache
from relstate.storage.objects.client import Client, ObjectClient
from relstate.storage.objects.object_environment import ObjectEnvironment

SERVER = Path(__file__).with_name("moto_server.py")
"""The program of the server."""
_SECONDS = 60


@contextmanager
def bucket_server(folder: str) -> Iterator[dict[str, str]]:
    """Run a server with the bucket ``bench``; yield the storage options of its stores.

    ``folder``: for what the server writes. The options have no cache.
    """
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    endpoint = f"http://127.0.0.1:{port}"
    command = [sys.executable, str(SERVER), "-H", "127.0.0.1", "-p", str(port)]
    with open(f"{folder}/server.log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        _make_bucket(endpoint)
        yield {
            "endpoint": endpoint,
            "access_key_id": "bench",
            "secret_access_key": "bench",
            "region": "us-east-1",
            "allow_http": "true",
        }
    finally:
        process.terminate()
        process.wait()


def _make_bucket(endpoint: str) -> None:
    """Make the bucket as soon as the server answers."""
    request = urllib.request.Request(f"{endpoint}/bench", method="PUT")
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            urllib.request.urlopen(request).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


class _CountedClient:
    """A client whose requests are counted."""

    def __init__(self, client: ObjectClient) -> None:
        self._client = client
        self.requests = 0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)

        def request(*arguments: Any, **options: Any) -> Any:
            self.requests += 1
            return method(*arguments, **options)

        return request


class CountedEnvironment(ObjectEnvironment):
    """The environment of a store in a bucket that counts its requests."""

    def __init__(self, root: Location, folder: str) -> None:
        """``folder``: of the cache."""
        self._counted = _CountedClient(ObjectClient(root))
        super().__init__(root, cast(Client, self._counted), Cache(folder))

    def taken(self, action: Callable[[], object]) -> int:
        """Return how many requests an action makes."""
        before = self._counted.requests
        action()
        return self._counted.requests - before
