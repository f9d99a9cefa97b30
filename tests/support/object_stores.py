"""Object stores for tests: one in memory that counts requests, servers, and a proxy before them."""

from __future__ import annotations

import base64
import hmac
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import HTTPError

import pytest

from relstate.storage.clock import Clock
from relstate.storage.location import Location
from relstate.storage.objects.cache import Cache
from relstate.storage.objects.client import IsWanted, ObjectClient, ObjectStatus, Take
from relstate.storage.objects.object_environment import ObjectEnvironment

SECRET = "s3cr3t-of-the-tests"
_S3_SERVER = Path(__file__).parents[2] / "benchmarks" / "moto_server.py"


class CountingClient(ObjectClient):
    """A client that remembers its requests, as pairs of a method and a key."""

    def __init__(self, location: Location) -> None:
        super().__init__(location)
        self.requests: list[tuple[str, str]] = []
        self.range_bytes = 0

    def get(self, key: str) -> bytes:
        self.requests.append(("get", key))
        return super().get(key)

    def get_range(self, key: str, start: int, stop: int) -> tuple[bytes, int]:
        self.requests.append(("get_range", key))
        content, size = super().get_range(key, start, stop)
        self.range_bytes += len(content)
        return content, size

    def take_range(
        self, key: str, start: int, stop: int, take: Take, is_wanted: IsWanted = lambda: True
    ) -> int:
        self.requests.append(("take_range", key))
        return super().take_range(key, start, stop, take, is_wanted)

    def head(self, key: str) -> ObjectStatus:
        self.requests.append(("head", key))
        return super().head(key)

    def list(self, folder: str) -> list[str]:
        self.requests.append(("list", folder))
        return super().list(folder)

    def delete(self, key: str) -> None:
        self.requests.append(("delete", key))
        super().delete(key)

    def put(self, key: str, data: bytes | memoryview) -> None:
        self.requests.append(("put", key))
        super().put(key, data)

    def put_new(self, key: str, data: bytes) -> None:
        self.requests.append(("put_new", key))
        super().put_new(key, data)


class CountedStore(ObjectEnvironment):
    """The environment of a store in memory, which counts its requests."""

    def __init__(
        self,
        uri: str,
        cache: str | os.PathLike[str],
        capacity: int = 1 << 30,
        clock: Clock | None = None,
        client: CountingClient | None = None,
    ) -> None:
        location = Location(uri)
        self.client = client or CountingClient(location)
        super().__init__(location, self.client, Cache(os.fspath(cache), capacity), clock)

    def taken(self) -> list[tuple[str, str]]:
        """Return the requests since the last call."""
        requests = [(kind, key.split("/", 1)[-1]) for kind, key in self.client.requests]
        self.client.requests.clear()
        return requests


class DatedClient(CountingClient):
    """A client of a server in memory that dates objects by a clock of its own."""

    def __init__(self, location: Location, clock: Clock) -> None:
        super().__init__(location)
        self._clock = clock
        # A test's clients share the server, and so its dates.
        self._dates = _dates.setdefault(location, {})

    def put(self, key: str, data: bytes | memoryview) -> None:
        super().put(key, data)
        self._dates[key] = self._clock.now()

    def put_new(self, key: str, data: bytes) -> None:
        super().put_new(key, data)
        self._dates[key] = self._clock.now()

    def head(self, key: str) -> ObjectStatus:
        return ObjectStatus(super().head(key).size, self._dates[key])


_dates: dict[str, dict[str, int]] = {}


class DatedStore(CountedStore):
    """A store in memory whose objects are dated by a clock of the server's own."""

    def __init__(
        self, uri: str, cache: str | os.PathLike[str], clock: Clock, server: Clock
    ) -> None:
        super().__init__(uri, cache, clock=clock, client=DatedClient(Location(uri), server))


@contextmanager
def _process(command: list[str], log: Path) -> Iterator[None]:
    """Run a program that writes to a log."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            yield
        finally:
            process.terminate()
            process.wait()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _wait_for(make_bucket: Callable[[], urllib.request.Request]) -> None:
    """Make a bucket as soon as its server answers."""
    for _ in range(300):
        try:
            urllib.request.urlopen(make_bucket()).close()
            return
        except HTTPError:
            raise
        except OSError:
            time.sleep(0.1)
    raise TimeoutError("the server does not answer")


@contextmanager
def s3_server(folder: Path) -> Iterator[str]:
    """Run moto's S3 server as a process; yield its endpoint. It has a bucket ``shop``."""
    port = _free_port()
    endpoint = f"http://127.0.0.1:{port}"
    command = [sys.executable, str(_S3_SERVER), "-H", "127.0.0.1", "-p", str(port)]
    with _process(command, folder / "moto.log"):
        _wait_for(lambda: urllib.request.Request(f"{endpoint}/shop", method="PUT"))
        yield endpoint


# What everybody knows of the emulator of Azure's storage.
_ACCOUNT = "devstoreaccount1"
_ACCOUNT_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)


@contextmanager
def azure_server(folder: Path) -> Iterator[str]:
    """Run Azurite's server of blobs as a process; yield its endpoint. It has a container ``shop``.

    The test is skipped where Azurite is not installed.
    """
    program = shutil.which("azurite-blob")
    if program is None:
        pytest.skip("azurite-blob is not installed (npm install azurite)")
    port = _free_port()
    endpoint = f"http://127.0.0.1:{port}/{_ACCOUNT}"
    command = [program, "--silent", "--disableTelemetry", "--inMemoryPersistence"]
    command += ["--skipApiVersionCheck", "--blobHost", "127.0.0.1", "--blobPort", str(port)]
    with _process(command, folder / "azurite.log"):
        _wait_for(lambda: _container_request(f"{endpoint}/shop"))
        yield endpoint


def _container_request(url: str) -> urllib.request.Request:
    """Return the signed request that makes a container."""
    dated = f"x-ms-date:{formatdate(usegmt=True)}"
    path = f"/{_ACCOUNT}/{url.split('/', 3)[-1]}"
    text = "PUT" + "\n" * 12 + f"{dated}\nx-ms-version:2021-08-06\n{path}\nrestype:container"
    digest = hmac.digest(base64.b64decode(_ACCOUNT_KEY), text.encode(), "sha256")
    headers = {
        "x-ms-date": dated.split(":", 1)[1],
        "x-ms-version": "2021-08-06",
        "Authorization": f"SharedKey {_ACCOUNT}:{base64.b64encode(digest).decode()}",
        "Content-Length": "0",
    }
    return urllib.request.Request(f"{url}?restype=container", method="PUT", headers=headers)


@dataclass(frozen=True)
class BucketServer:
    """A server of buckets, and how it is named and asked: a scheme, an endpoint, and options."""

    scheme: str
    endpoint: str

    def uri(self, prefix: str) -> str:
        """Return the URI of a prefix in its bucket."""
        return f"{self.scheme}://shop/{prefix}"

    def options(self, cache: Path, host: str | None = None, **options: str) -> dict[str, str]:
        """Return the storage options; ``host``: of what stands before the server."""
        endpoint = self.endpoint
        if host is not None:
            endpoint = re.sub("^http://[^/]*", host, endpoint)
        if self.scheme == "s3":
            return s3_options(endpoint, cache, **options)
        return {
            "endpoint": endpoint,
            "account_name": _ACCOUNT,
            "account_key": _ACCOUNT_KEY,
            "allow_http": "true",
            "cache_folder": str(cache),
            **options,
        }


@contextmanager
def bucket_server(scheme: str, folder: Path) -> Iterator[BucketServer]:
    """Run the server of a scheme, ``s3`` or ``az``."""
    with (s3_server if scheme == "s3" else azure_server)(folder) as endpoint:
        yield BucketServer(scheme, endpoint)


def s3_options(endpoint: str, cache: Path, **options: str) -> dict[str, str]:
    """Return the storage options of a store on a server of the tests."""
    return {
        "endpoint": endpoint,
        "access_key_id": "tester",
        "secret_access_key": SECRET,
        "region": "us-east-1",
        "allow_http": "true",
        "cache_folder": str(cache),
        **options,
    }


TROUBLES = ("drop", "lose", "twice", "delay", "cut", "500", "503", "429", "412", "409", "late500")


@contextmanager
def unreliable_proxy(
    endpoint: str,
    seed: int,
    share: float,
    troubles: Sequence[str] = TROUBLES,
    paths: str = "",
) -> Iterator[str]:
    """Run a proxy before a server; yield its endpoint.

    Of so large a share of the requests for paths in which a pattern is found it draws one to
    be answered by an error before or after it was carried out, carried out twice, delayed, or cut
    off in the middle of its answer. By 409 S3 refuses a create-only put while another request for
    its key is under way.
    """
    target = re.sub("^http://([^/]*).*", r"\1", endpoint)
    draw = random.Random(seed)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _carry_out(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
            connection = HTTPConnection(target, timeout=30)
            try:
                headers = {
                    name: value
                    for name, value in self.headers.items()
                    if name.lower() not in ("connection", "transfer-encoding")
                }
                connection.request(self.command, self.path, body, headers)
                answer = connection.getresponse()
                return answer.status, answer.getheaders(), answer.read()
            finally:
                connection.close()

        def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
            self.send_response_only(status)
            for name, value in headers:
                if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                    self.send_header(name, value)
            length = len(body)
            if self.command == "HEAD":
                length = int(
                    {name.lower(): value for name, value in headers}.get("content-length", 0)
                )
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(body)

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            trouble = "none"
            if re.search(paths, self.path) and draw.random() < share:
                trouble = draw.choice(troubles)
            if trouble == "drop":
                self.close_connection = True
                return
            if trouble in ("500", "503", "429", "412", "409"):
                self._answer(int(trouble), [], b"")
                return
            if trouble == "delay":
                time.sleep(draw.uniform(0.05, 0.3))
            if trouble == "twice":
                self._carry_out(body)
            status, headers, content = self._carry_out(body)
            if trouble == "late500":
                self._answer(500, [], b"")
            elif trouble == "lose":
                self.close_connection = True
            elif trouble == "cut" and content:
                self.send_response_only(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content[: len(content) // 2])
                self.close_connection = True
            else:
                self._answer(status, headers, content)

        do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _serve  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
