"""A standalone cluster of Spark on this machine: a master and workers, each a process.

They are those of pip's own pyspark. Each has a folder of its own, in which it and its executors
run; what executors do is unlucky where a test says so (support/accidents).
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pyspark
import pytest

from .processes import children_of, end
from .sources import ROOT

_SPARK_HOME = Path(pyspark.__file__).parent
_HOST = "127.0.0.1"
_DEPLOY = "org.apache.spark.deploy"
_SECONDS = 120.0
_Value = TypeVar("_Value")


@dataclass
class Daemon:
    """A process of Spark, started with ``command``, and its folder."""

    command: tuple[str, ...]
    folder: Path
    environment: dict[str, str]
    process: subprocess.Popen[bytes] = field(init=False)

    def start(self, pattern: str) -> str:
        """Start the process; wait for a text in its log, and return what its group matches."""
        self.folder.mkdir(parents=True, exist_ok=True)
        log = self.folder / "log"
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [_SPARK_HOME / "bin" / "spark-class", *self.command],
                cwd=self.folder,
                env=self.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        return wait_for(lambda: self._match(pattern), f"{self.command[0]}, see {log}")

    def _match(self, pattern: str) -> str | None:
        if self.process.poll() is not None:
            log = (self.folder / "log").read_text(errors="replace")
            raise AssertionError(f"{self.command[0]} has ended:\n{log[-4000:]}")
        match = re.search(pattern, (self.folder / "log").read_text(errors="replace"))
        return match and match.group(1)

    def stop(self, signal_number: int = signal.SIGTERM) -> None:
        """End the process and all that it has started."""
        end(self.process.pid, signal_number)
        self.process.wait()


class Cluster:
    """A master and two workers of one core each. Used as a context."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        """``variables``: of the environment of the workers, beside a cache for each."""
        self.folder = folder
        self._variables = variables
        self.accidents = folder / "accidents"
        self.accidents.mkdir(parents=True)
        self.master = ""
        self._master = self._daemon(
            "master", f"{_DEPLOY}.master.Master", "--host", _HOST, "--port", "0", *_WEB_UI
        )
        self._workers: list[Daemon] = []

    def __enter__(self) -> Cluster:
        try:
            self.master = self._master.start(r"Starting Spark master at (\S+)")
            for number in range(2):
                self._workers.append(self._worker(number))
            for number in range(2):
                self.start_worker(number)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End all processes."""
        for daemon in (*self._workers, self._master):
            if hasattr(daemon, "process"):
                daemon.stop()

    def start_worker(self, number: int) -> None:
        """Start a worker, and wait until the master knows it."""
        self._workers[number].start(r"(Successfully registered) with master")

    def replace_dead_workers(self) -> int:
        """Start the workers that were killed again; return how many there were."""
        dead = [n for n, worker in enumerate(self._workers) if worker.process.poll() is not None]
        for number in dead:
            self._workers[number].stop()
            self.start_worker(number)
        return len(dead)

    def caches(self) -> list[Path]:
        """Return the folders of the workers' caches."""
        return [worker.folder / "cache" for worker in self._workers]

    def logs(self) -> list[Path]:
        """Return the files that the master, the workers and the executors log to."""
        work = (self.folder.glob(f"worker*/work/*/*/{name}") for name in ("stdout", "stderr"))
        return [*self.folder.glob("*/log"), *(log for logs in work for log in logs)]

    def executors(self) -> list[int]:
        """Return the process ids of all executors."""
        return [child for worker in self._workers for child in children_of(worker.process.pid)]

    @contextmanager
    def accident(self, name: str) -> Iterator[None]:
        """Let an accident happen in a block, in which it must happen: see support/accidents."""
        planned = self.accidents / name
        planned.touch()
        try:
            yield
            assert not planned.exists(), f"{name} did not happen"
        finally:
            planned.unlink(missing_ok=True)

    @property
    def settings(self) -> dict[str, str]:
        """The settings of a driver of this cluster."""
        return {**_SETTINGS, "spark.master": self.master}

    def _worker(self, number: int) -> Daemon:
        # Spark starts no second attempt of a slow task on the host of the first.
        host = f"127.0.0.{number + 1}"
        arguments = ("--host", host, "--cores", "1", "--memory", "1g", *_WEB_UI, self.master)
        worker = self._daemon(f"worker{number}", f"{_DEPLOY}.worker.Worker", *arguments)
        worker.environment["SPARK_LOCAL_IP"] = host
        return worker

    def _daemon(self, name: str, *command: str) -> Daemon:
        folder = self.folder / name
        environment = self._environment() | {
            "SPARK_WORKER_DIR": str(folder / "work"),
            "SPARK_LOCAL_DIRS": str(folder / "local"),
            "RELSTATE_ACCIDENTS": str(self.accidents),
            "RELSTATE_CACHE_FOLDER": str(folder / "cache"),
        }
        environment["PYTHONPATH"] += f":{ROOT / 'tests' / 'support' / 'accidents'}"
        return Daemon(command, folder, environment)

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            **self._variables,
            "SPARK_HOME": str(_SPARK_HOME),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": _QUICK_START,
            "SPARK_LOCAL_IP": _HOST,
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": f"{ROOT / 'package'}:{ROOT / 'tests'}",
        }


# As in tests/conftest.py: no process lives for long.
_QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
on_demand = pytest.mark.skipif(
    os.environ.get("RELSTATE_CLUSTERS") != "all", reason="runs if RELSTATE_CLUSTERS=all"
)
"""Marks tests that take minutes and seldom say more than the others."""

_WEB_UI = ("--webui-port", "0")
_SETTINGS = {
    "spark.driver.bindAddress": _HOST,
    "spark.driver.host": _HOST,
    "spark.driver.memory": "1g",
    "spark.executor.extraJavaOptions": _QUICK_START,
    "spark.executor.memory": "512m",
    "spark.log.level": "WARN",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
LOCAL_CLUSTER = {
    **_SETTINGS,
    "spark.master": "local-cluster[2,1,1024]",
    "spark.executor.memory": "1024m",
}
"""The settings of a driver that starts two executors as processes of its own."""


def wait_for(
    condition: Callable[[], _Value | None], what: str, seconds: float = _SECONDS
) -> _Value:
    """Return the first value of a condition that is true; fail if there is none in time."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:.0f} s for {what}")
        time.sleep(0.05)
    return value
