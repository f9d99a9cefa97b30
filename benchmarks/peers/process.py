"""The process of one peer, which answers a line of JSON with a line of JSON."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

_ROOT = Path(__file__).parents[2]
_END_SECONDS = 60


class PeerProcess:
    """A worker of this package in an interpreter of its own; a context manager."""

    def __init__(
        self, name: str, python: str, jars: Sequence[str], folder: Path, log: TextIO
    ) -> None:
        """Start it. ``log`` takes what the peer prints."""
        self.name = name
        self._process = subprocess.Popen(
            [python, "-m", f"{__package__}.worker", name, str(folder)],
            cwd=_ROOT,
            env=_environment(os.environ, jars),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            # Its servers and JVMs end with it.
            start_new_session=True,
        )

    def __enter__(self) -> PeerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        self._kill()
        self._process.wait()

    def about(self, limit: float) -> dict[str, Any]:
        """Return what the peer says of itself once it is ready."""
        return self._answer(limit)

    def perform(self, operation: str, arguments: Sequence[Any], limit: float) -> dict[str, Any]:
        """Return the answer to an operation; an error after ``limit`` seconds."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": operation, "with": arguments}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return {"error": "the process of the peer has ended"}
        return self._answer(limit)

    def _answer(self, limit: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        late = threading.Event()

        def end() -> None:
            late.set()
            self._kill()

        timer = threading.Timer(limit, end)
        timer.start()
        line = self._process.stdout.readline()
        timer.cancel()
        if not line:
            reason = f"took longer than {limit:.0f} s" if late.is_set() else "ended"
            return {"error": f"the process of the peer {reason}"}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)


def _environment(variables: Mapping[str, str], jars: Sequence[str]) -> dict[str, str]:
    """Return variables without those that lead Python or Spark to other installations."""
    foreign = ("SPARK_HOME", "PYTHONHOME", "VIRTUAL_ENV", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
    kept = {name: value for name, value in variables.items() if name not in foreign}
    return kept | {"PEER_JARS": ",".join(jars)}
