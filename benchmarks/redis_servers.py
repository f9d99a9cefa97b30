"""`relstate redis` and redis-server, and how many requests a second they answer.

redis-benchmark, of Debian's package redis-tools, is the client of both.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from relstate.storage import Store

_PROGRAMS = ("redis-server", "redis-benchmark")
_RELSTATE = "import sys; from relstate.connector.cli import main; sys.exit(main())"
_SECONDS = 30
# A client's requests are about so many keys.
_KEYS = 10_000


@dataclass(frozen=True, slots=True)
class Load:
    """What redis-benchmark does: ``clients`` send requests of a kind, ``pipelined`` at once.

    ``kind``: one that redis-benchmark knows; with a ``script`` its name, and each request is an
    EVALSHA of it with ``arguments``.
    """

    kind: str
    clients: int
    pipelined: int
    requests: int
    script: str = ""
    arguments: tuple[str, ...] = ()

    def rate(self, port: int) -> float:
        """Return how many requests a second the server at a port answers."""
        command = [
            "redis-benchmark", "-p", str(port), "-c", str(self.clients), "-P", str(self.pipelined),
            "-n", str(self.requests), "--csv",
        ]  # fmt: skip
        if self.script:
            command += ["-r", str(_KEYS), "EVALSHA", _load_script(port, self.script)]
            command += self.arguments
        else:
            command += ["-t", self.kind.lower()]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        rows = [row for row in csv.reader(done.stdout.splitlines()) if len(row) > 1]
        if self.script:
            return float(rows[-1][1])
        return float(dict(row[:2] for row in rows)[self.kind])


def _load_script(port: int, source: str) -> str:
    """Return the SHA1 of a script, which the server at a port gets."""
    words = ["SCRIPT", "LOAD", source]
    request = f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
    with socket.create_connection(("127.0.0.1", port), _SECONDS) as client:
        client.sendall(request.encode())
        reply = client.makefile().read(len("$40\r\n") + 40)
    return reply.split()[-1]


def missing_programs() -> list[str]:
    """Return the names of the programs that this needs and that are not installed."""
    return [name for name in _PROGRAMS if shutil.which(name) is None]


@contextmanager
def relstate_redis(folder: str, appendfsync: str) -> Iterator[int]:
    """Run `relstate redis` over a new store in a folder, and yield its port."""
    path = f"{folder}/store"
    Store.create(path).close()
    options = ["redis", path, "--port", "0", "--appendfsync", appendfsync]
    command = [sys.executable, "-c", _RELSTATE, *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            address = re.search(r":(\d+)/", line)
            assert address is not None, line
            yield int(address[1])
        finally:
            process.terminate()


@contextmanager
def redis_server(folder: str, appendfsync: str) -> Iterator[int]:
    """Run redis-server with an append-only file in a folder, and yield its port."""
    port = _free_port()
    options = {
        "--port": str(port), "--dir": folder, "--save": "", "--appendonly": "yes",
        "--appendfsync": appendfsync,
    }  # fmt: skip
    command = ["redis-server", *[word for option in options.items() for word in option]]
    with open(os.devnull, "wb") as nothing, subprocess.Popen(command, stdout=nothing) as process:
        try:
            _wait_for(port)
            yield port
        finally:
            process.terminate()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _wait_for(port: int) -> None:
    """Return once something listens at a port."""
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), _SECONDS).close()
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        else:
            return
