"""The program `relstate redis`, and the clients of others: libraries, Redis's own tools, crowds."""

from __future__ import annotations

import asyncio
import itertools
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread

import coredis
import pytest
import redis

from relstate.storage import Store
from support.redis_servers import SECONDS, Connection, Served, rows
from support.sources import ROOT

_MAIN = "import sys; from relstate.connector.cli import main; sys.exit(main())"


def start_program(path: str, *options: str) -> tuple[subprocess.Popen[str], int]:
    """Run `relstate redis` and return the process and its port."""
    command = [sys.executable, "-c", _MAIN, "redis", path, "--port", "0", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stderr is not None
    lines = []
    # A warning may come first, of the limit of open files.
    for line in process.stderr:
        lines.append(line)
        if match := re.search(r":(\d+)/", line):
            return process, int(match[1])
    process.wait()
    raise AssertionError("".join(lines))


def test_what_was_answered_survives_a_kill(tmp_path: Path) -> None:
    """Under ``always`` every SET that was answered is there after a ``kill -9``."""
    path = str(tmp_path / "store")
    Store.create(path).close()
    process, port = start_program(path)
    answered = []
    with process:
        try:
            client = redis.Redis(port=port, socket_timeout=SECONDS)
            for number in range(30):
                client.set(f"key{number}", number)
                answered.append(f"key{number}".encode())
            process.send_signal(signal.SIGKILL)
        finally:
            process.kill()
            client.close()
    with Store.open(path) as store:
        assert {row["key"] for row in rows(store)} >= set(answered)
        assert store.check().problems == ()


def test_what_several_clients_were_answered_survives_a_kill(tmp_path: Path) -> None:
    """The same while commits of the changes of eight clients are under way."""
    path = str(tmp_path / "store")
    Store.create(path).close()
    process, port = start_program(path)
    answered: list[bytes] = []

    def send(client_number: int) -> None:
        client = redis.Redis(port=port, socket_timeout=SECONDS)
        with suppress(redis.ConnectionError), client:
            for number in itertools.count():
                key = f"{client_number} {number}"
                client.set(key, number)
                answered.append(key.encode())

    threads = [Thread(target=send, args=(number,)) for number in range(8)]
    with process:
        try:
            for thread in threads:
                thread.start()
            while len(answered) < 300 and all(thread.is_alive() for thread in threads):
                time.sleep(0.001)
        finally:
            process.kill()
            for thread in threads:
                thread.join(SECONDS)
    assert len(answered) >= 300
    with Store.open(path) as store:
        assert {row["key"] for row in rows(store)} >= set(answered)
        assert store.check().problems == ()


def test_the_program_ends_when_it_is_told(tmp_path: Path) -> None:
    """What was answered before is committed, also under ``everysec``."""
    path = str(tmp_path / "store")
    Store.create(path).close()
    process, port = start_program(path, "--appendfsync", "everysec")
    with process:
        try:
            client = redis.Redis(port=port, socket_timeout=SECONDS)
            client.set("a", "x")
            process.terminate()
            assert process.wait(SECONDS) == 0
        finally:
            process.kill()
            client.close()
    with Store.open(path) as store:
        assert rows(store) == [{"key": b"a", "type": "string", "value": b"x"}]


def test_a_library_s_client_gets_the_replies_that_it_knows(server: Served) -> None:
    """redis-py, in both protocols, with replies as Redis gives them."""
    for protocol in (2, 3):
        client = redis.Redis(port=server.settings.port, protocol=protocol, client_name="test")
        try:
            assert client.flushall()
            assert client.set("a", 1, ex=100)
            assert client.incr("a") == 2
            assert client.ttl("a") == 100
            assert client.mget("a", "b") == [b"2", None]
            assert client.hset("h", mapping={"f": "1", "g": "2"}) == 2
            assert client.hgetall("h") == {b"f": b"1", b"g": b"2"}
            assert sorted(client.scan_iter()) == [b"a", b"h"]
            assert dict(client.hscan_iter("h")) == {b"f": b"1", b"g": b"2"}
            assert client.type("h") == b"hash"
            assert client.dbsize() == 2
            assert client.info("server")["redis_version"] == "7.0.0"
            assert client.config_get("appendfsync") == {"appendfsync": "always"}
            assert client.client_getname() in ("test", b"test")
            with pytest.raises(redis.ResponseError, match="wrong kind of value"):
                client.get("h")
            with client.pipeline() as pipeline:
                pipeline.watch("a")
                pipeline.multi()
                pipeline.incr("a")
                pipeline.delete("h")
                assert pipeline.execute() == [3, 1]
        finally:
            client.close()


def test_another_library_s_client_works(server: Served) -> None:
    """Coredis, which shares no code with redis-py and speaks RESP3."""

    async def talk() -> None:
        client = coredis.Redis(port=server.settings.port)
        async with client:
            assert await client.set("a", "1")
            assert await client.incr("a") == 2
            assert await client.hset("h", {"f": "1", "g": "2"}) == 2
            assert await client.hgetall("h") == {b"f": b"1", b"g": b"2"}
            assert await client.zadd("z", {"m": 1.5, "n": 2}) == 2
            assert await client.zscore("z", "m") == 1.5
            assert await client.sadd("s", ["x", "y"]) == 2
            assert await client.smembers("s") == {b"x", b"y"}
            assert await client.rpush("l", ["a", "b"]) == 2
            assert await client.lrange("l", 0, -1) == [b"a", b"b"]
            assert {key async for key in client.scan_iter()} == {b"a", b"h", b"l", b"s", b"z"}
            async with client.pipeline(transaction=True) as pipeline:
                first, second = pipeline.incr("a"), pipeline.delete(["h", "none"])
            assert (await first, await second) == (3, 1)
            with pytest.raises(coredis.exceptions.WrongTypeError):
                await client.get("z")

    asyncio.run(talk())


@pytest.mark.skipif(shutil.which("redis-cli") is None, reason="redis-cli is not on PATH")
def test_redis_s_own_client_works(server: Served) -> None:
    """It asks for the commands first, and reads commands from its input."""
    command = ["redis-cli", "-p", str(server.settings.port)]
    lines = "SET a 'b c'\nGET a\nHSET h f 1\nHGETALL h\nINCR a\n"
    done = subprocess.run(
        command, input=lines, capture_output=True, text=True, timeout=SECONDS, check=True
    )

    *replies, error = done.stdout.strip().splitlines()
    assert replies == ["OK", "b c", "1", "f", "1"]
    assert error.startswith("ERR value is not an integer")


@pytest.mark.skipif(
    shutil.which("redis-benchmark") is None, reason="redis-benchmark is not on PATH"
)
def test_redis_s_own_benchmark_finds_every_command(server: Served, client: Connection) -> None:
    """It ends at the first error; many clients send many requests at once."""
    port = str(server.settings.port)
    command = ["redis-benchmark", "-p", port, "-n", "500", "-c", "20", "-P", "8", "-q"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)

    assert "rror" not in done.stdout + done.stderr
    for name in ("PING_INLINE", "SET", "GET", "LPUSH", "SPOP", "ZPOPMIN", "LRANGE_600", "MSET"):
        assert f"{name}" in done.stdout
    assert client("DBSIZE") > 0


def test_many_idle_clients_disturb_nobody(server: Served, client: Connection) -> None:
    """Each is known, and forgotten when it has gone."""
    idle = [server.connect() for _ in range(500)]

    assert client("PING") == b"PONG"
    server.wait_until(lambda: len(server.server.service.sessions) == 501)
    assert len(client("CLIENT", "LIST").splitlines()) == 501
    for other in idle:
        other.close()
    deadline = time.monotonic() + SECONDS
    while len(client("CLIENT", "LIST").splitlines()) > 1:
        assert time.monotonic() < deadline


@pytest.mark.timeout(600)
def test_ten_thousand_idle_clients_disturb_nobody(tmp_path: Path) -> None:
    """Others are served at once; the limit of open files is raised as far as it may be."""
    count = 10_000
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = count + 1000
    if most != resource.RLIM_INFINITY and most < needed:
        pytest.skip(f"this process may have {most} files open")
    path = str(tmp_path / "store")
    Store.create(path).close()
    process, port = start_program(path, "--maxclients", str(count + 10))
    idle: list[socket.socket] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limit, needed), most))
    with process:
        try:
            idle += (socket.create_connection(("127.0.0.1", port), SECONDS) for _ in range(count))
            client = Connection(socket.create_connection(("127.0.0.1", port), SECONDS))
            assert client("SET", "a", "x") == b"OK"
            assert client.pipeline([["GET", "a"]] * 1000) == [b"x"] * 1000
            assert len(client("CLIENT", "LIST").splitlines()) == count + 1
            idle[-1].sendall(b"GET a\r\n")
            assert idle[-1].recv(100) == b"$1\r\nx\r\n"
            for connection in idle:
                connection.close()
            deadline = time.monotonic() + SECONDS
            while len(client("CLIENT", "LIST").splitlines()) > 1:
                assert time.monotonic() < deadline
            client.close()
        finally:
            for connection in idle:
                connection.close()
            process.terminate()
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))


_LARGE: list[list[bytes | str]] = [
    ["APPEND", f"large {number % 40}", b"x" * 1_000_000] for number in range(160)
]
_FIELDS: list[list[bytes | str]] = [
    ["HSET", "hash", *[word for n in range(500) for word in (f"{start} {n}", b"x" * 100)]]
    for start in range(400)
]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("requests", [_LARGE, _FIELDS], ids=["long strings", "a large hash"])
def test_memory_stays_near_the_limit(tmp_path: Path, requests: list[list[bytes | str]]) -> None:
    """Once what was changed is committed: the program itself takes about 80 MB, without pandas."""
    path = str(tmp_path / "store")
    Store.create(path).close()
    limit = 32 << 20
    process, port = start_program(path, "--appendfsync", "everysec", "--maxmemory", str(limit))
    with process:
        try:
            client = redis.Redis(port=port, socket_timeout=SECONDS)
            for request in requests:
                # Refused while all of it waits for a commit.
                with suppress(redis.OutOfMemoryError):
                    client.execute_command(*request)
            deadline = time.monotonic() + SECONDS
            while (used := _anonymous_bytes(process.pid)) > 100_000_000 + 1.5 * limit:
                assert time.monotonic() < deadline, f"{used} bytes"
                time.sleep(0.2)
            assert "/pandas/" not in Path(f"/proc/{process.pid}/maps").read_text("utf-8")
        finally:
            process.kill()
            client.close()


def _anonymous_bytes(pid: int) -> int:
    """Return how much memory of a process is not that of files."""
    status = Path(f"/proc/{pid}/status").read_text("utf-8")
    match = re.search(r"RssAnon:\s+(\d+) kB", status)
    assert match is not None
    return int(match[1]) << 10
