"""Requests to a bucket whose answers are wrong, late or missing."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import obstore
import pytest
from obstore import exceptions

from relstate.storage import Store
from relstate.storage.errors import FilesystemError, UnknownOutcomeError
from relstate.storage.location import Location
from relstate.storage.objects import client as client_module
from relstate.storage.objects.client import ObjectClient
from relstate.storage.objects.object_environment import ObjectEnvironment
from support.clock import ManualClock
from support.commands import run
from support.object_stores import CountedStore, s3_options
from support.stores import upsert

Answer = Callable[[str, dict[str, bytes], str, bytes], int]


@contextmanager
def server(answer: Answer, headers: list[tuple[str, str]] | None = None) -> Iterator[str]:
    """Run a server of a bucket; yield its endpoint.

    ``answer``: of a method, the objects, a path and a body returns the status. ``headers``: takes
    those of all requests.
    """
    objects: dict[str, bytes] = {}
    seen_headers = [] if headers is None else headers

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            seen_headers.extend(self.headers.items())
            status = answer(self.command, objects, self.path, body)
            content = objects.get(self.path, b"") if status == 200 else b""
            self.send_response_only(status)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("ETag", '"1"')
            self.send_header("Last-Modified", "Thu, 01 Jan 2026 12:00:00 GMT")
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        do_GET = do_PUT = do_HEAD = do_DELETE = _serve  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{http.server_address[1]}"
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


def location_at(endpoint: str, cache: Path, **options: str) -> Location:
    """Return a location on a server."""
    return Location("s3://shop/x", s3_options(endpoint, cache, **options))


def answered(method: str, objects: dict[str, bytes], path: str, body: bytes) -> int:
    """Return the status of a request that a sound server carries out."""
    if method == "PUT":
        if path in objects:
            return 412
        objects[path] = body
        return 201
    if method == "DELETE":
        objects.pop(path, None)
        return 204
    return 200 if path in objects else 404


def test_a_create_that_succeeded_without_saying_so_is_no_rival(tmp_path: Path) -> None:
    """The object is there, and it is this one's."""
    puts: list[str] = []

    def answer(method: str, objects: dict[str, bytes], path: str, body: bytes) -> int:
        status = answered(method, objects, path, body)
        puts.extend([path] if method == "PUT" else [])
        return 500 if method == "PUT" and len(puts) == 1 else status

    with server(answer) as endpoint:
        client = ObjectClient(location_at(endpoint, tmp_path))
        client.put_new("x/a", b"mine")
        assert len(puts) == 1
        with pytest.raises(FileExistsError):
            client.put_new("x/a", b"another")


def test_a_create_is_repeated_while_the_server_is_busy(tmp_path: Path) -> None:
    """As often as the options say; if it was never answered, its outcome is unknown."""
    puts: list[str] = []
    busy = 2

    def answer(method: str, objects: dict[str, bytes], path: str, body: bytes) -> int:
        if method == "PUT":
            puts.append(path)
            if len(puts) <= busy:
                return 500
        return answered(method, objects, path, body)

    with server(answer) as endpoint:
        client = ObjectClient(location_at(endpoint, tmp_path, max_retries="2"))
        client.put_new("x/a", b"mine")
        assert client.get("x/a") == b"mine"
        assert len(puts) == 3

        puts.clear()
        client = ObjectClient(location_at(endpoint, tmp_path, max_retries="1"))
        with pytest.raises(UnknownOutcomeError, match="s3://shop/x/b"):
            client.put_new("x/b", b"mine")
        assert len(puts) == 2


def test_a_conflict_is_not_an_object(tmp_path: Path) -> None:
    """S3 answers 409 while another request for the key is under way, of which nothing may remain:
    the put is repeated, and found to be too late only by an object that was read.
    """
    puts: list[str] = []
    conflicts, winner = 2, b""

    def answer(method: str, objects: dict[str, bytes], path: str, body: bytes) -> int:
        if method == "PUT":
            puts.append(path)
            if len(puts) <= conflicts:
                if winner:
                    objects[path] = winner
                return 409
        return answered(method, objects, path, body)

    with server(answer) as endpoint:
        client = ObjectClient(location_at(endpoint, tmp_path, max_retries="2"))
        client.put_new("x/a", b"mine")
        assert client.get("x/a") == b"mine"
        assert len(puts) == 3

        puts.clear()
        conflicts = 9
        with pytest.raises(FilesystemError, match=r"s3://shop/x/b: cannot write it: .*409"):
            client.put_new("x/b", b"mine")
        assert len(puts) == 3

        puts.clear()
        winner = b"another"
        with pytest.raises(FileExistsError, match="s3://shop/x/c"):
            client.put_new("x/c", b"mine")
        assert len(puts) == 1


def test_a_server_is_not_called_unsafe_because_of_conflicts(tmp_path: Path) -> None:
    """The probe of If-None-Match puts an object twice: one that was refused by a conflict is not
    there, and the second one would be created.
    """
    puts: list[str] = []

    def answer(method: str, objects: dict[str, bytes], path: str, body: bytes) -> int:
        if method == "PUT":
            puts.append(path)
            if len(puts) == 1:
                return 409
        return answered(method, objects, path, body)

    with server(answer) as endpoint:
        environment = ObjectEnvironment.of(location_at(endpoint, tmp_path, retry_seconds="5"))
        environment.make_folders([])
    assert len(puts) == 3


def test_a_look_that_fails_is_not_a_missing_object(tmp_path: Path) -> None:
    """A reader that took an error for an answer would miss an epoch."""
    with server(lambda *_: 403) as endpoint:
        environment = ObjectEnvironment.of(location_at(endpoint, tmp_path))
        with pytest.raises(FilesystemError):
            environment.exists("a")
        with pytest.raises(FilesystemError):
            environment.exists("")


def test_options_and_variables_complement_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An option, also one of the HTTP client, hides no variable of another name."""
    with server(answered) as endpoint:
        for name, value in (
            ("ENDPOINT_URL", endpoint),
            ("ALLOW_HTTP", "true"),
            ("ACCESS_KEY_ID", "tester"),
            ("SECRET_ACCESS_KEY", "secret"),
        ):
            monkeypatch.setenv(f"AWS_{name}", value)
        for options in ({}, {"timeout": "20s", "cache_folder": str(tmp_path)}):
            client = ObjectClient(Location("s3://shop/x", options))
            with pytest.raises(FileNotFoundError):
                client.get("x/a")


def test_a_check_of_a_server_that_fails_finds_no_problem(tmp_path: Path) -> None:
    """It fails itself, whatever the server does not answer."""
    store = Store.create("", environment=CountedStore(f"memory://{uuid.uuid4().hex}/x", tmp_path))
    store.create_table("t", "id BIGINT", primary_key=["id"])
    upsert(store, "t", [(1,)])
    assert store.check().problems == ()
    environment = store.environment
    assert isinstance(environment, CountedStore)
    get = environment.client.get

    def fail(failing: str, key: str) -> bytes:
        if failing in key:
            raise FilesystemError("no answer")
        return get(key)

    for failing in ("segments/", "_log/"):
        environment.client.get = partial(fail, failing)  # type: ignore[method-assign]
        with pytest.raises(FilesystemError, match="no answer"):
            store.check()


def test_the_command_check_fails_as_its_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 2, as the other commands; 1 would say that the store is damaged."""
    with server(lambda *_: 403) as endpoint:
        for name, value in (("ENDPOINT_URL", endpoint), ("ALLOW_HTTP", "true")):
            monkeypatch.setenv(f"AWS_{name}", value)
        monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
        ended = run("check", "s3://shop/x")
    assert (ended.code, ended.output) == (2, "")
    assert "FilesystemError" in ended.errors


def test_a_server_that_stays_busy_fails_a_read_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within the time that the options give to repeating, by an error that says so."""
    seen: list[str] = []
    clock = ManualClock()
    time = SimpleNamespace(monotonic=clock.monotonic, sleep=clock.advance)
    monkeypatch.setattr(client_module, "time", time)

    def answer(method: str, objects: dict[str, bytes], path: str, body: bytes) -> int:
        seen.append(method)
        return 503

    with server(answer) as endpoint:
        location = location_at(endpoint, tmp_path, max_retries="1", retry_seconds="1")
        client = ObjectClient(location)
        with pytest.raises(FilesystemError, match="503"):
            client.head("x/a")
    assert 0 < clock.monotonic() <= 1
    # More than the repeats that the options allow after other failures.
    assert 3 <= len(seen) <= 6


def test_a_request_that_nobody_waits_for_is_made_once(tmp_path: Path) -> None:
    """A process that ends waits for it: not for repeats, nor for the pauses between them."""
    seen: list[str] = []

    def answer(method: str, objects: dict[str, bytes], path: str, body: bytes) -> int:
        seen.append(method)
        return 503

    with server(answer) as endpoint:
        client = ObjectClient(location_at(endpoint, tmp_path))
        with pytest.raises(FilesystemError, match="503"):
            client.take_range("x/a", 0, 9, lambda *_: None, is_wanted=lambda: False)
    assert seen == ["GET"]


def test_options_of_encryption_reach_the_server(tmp_path: Path) -> None:
    """With the puts of segments and of entries."""
    headers: list[tuple[str, str]] = []
    with server(answered, headers) as endpoint:
        options = {"aws_server_side_encryption": "aws:kms", "aws_sse_kms_key_id": "key-7"}
        client = ObjectClient(location_at(endpoint, tmp_path, **options))
        for put in (client.put, client.put_new):
            headers.clear()
            put(f"x/{put.__name__}", b"content")
            assert ("x-amz-server-side-encryption", "aws:kms") in headers
            assert ("x-amz-server-side-encryption-aws-kms-key-id", "key-7") in headers


def test_an_answer_that_says_no_is_not_asked_for_again(tmp_path: Path) -> None:
    """By a listing, too, whose refusal obstore reports as any other failure."""
    seen: list[str] = []

    def answer(method: str, objects: dict[str, bytes], path: str, body: bytes) -> int:
        seen.append(method)
        return 403

    with server(answer) as endpoint:
        client = ObjectClient(location_at(endpoint, tmp_path))
        for request in (client.get, client.head, client.list):
            seen.clear()
            with pytest.raises(FilesystemError):
                request("x/a")
            assert len(seen) == 1


def test_a_range_that_is_cut_off_is_asked_for_from_there_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte is taken once, and an answer that was whole is not asked for again."""
    content, asked, taken = b"0123456789", [], bytearray()

    class Answer:
        def __init__(self, start: int, stop: int) -> None:
            self.meta = {"size": len(content)}
            self._content = content[start:stop]

        def stream(self, min_chunk_size: int) -> Iterator[bytes]:
            yield self._content[:4]
            if len(self._content) > 4:
                raise exceptions.GenericError("cut off")

    def get(_bucket: object, _key: str, *, options: dict[str, tuple[int, int]]) -> Answer:
        asked.append(options["range"])
        return Answer(*options["range"])

    monkeypatch.setattr(obstore, "get", get)
    client = ObjectClient(Location(f"memory://{tmp_path.name}"))
    size = client.take_range("x", 1, 99, lambda piece, _: taken.extend(piece))
    assert (size, bytes(taken)) == (10, content[1:])
    assert asked == [(1, 99), (5, 99), (9, 99)]
