"""A standalone cluster of Spark on this machine, for the benchmarks: a master and workers.

Each worker has one core. Drivers are processes that hold as many of the workers as they are given,
so that two of them, with one worker and with two, can take turns.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HOST = "127.0.0.1"
_SECONDS = 120.0
_DEPLOY = "org.apache.spark.deploy"
_PORTS = ("--port", "0", "--webui-port", "0")
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


@contextmanager
def cluster(folder: str, workers: int) -> Iterator[str]:
    """Run a master and workers of one core; yield the master's address.

    ``folder``: for what they write.
    """
    root = Path(folder)
    with ExitStack() as daemons:
        command: tuple[str, ...] = ("master.Master", "--host", _HOST, *_PORTS)
        master = daemons.enter_context(_daemon(root / "master", command, r"Spark master at (\S+)"))
        for number in range(workers):
            command = ("worker.Worker", "--host", _HOST, *_PORTS, "--cores", "1", "--memory", "2g")
            daemons.enter_context(
                _daemon(root / f"worker{number}", (*command, master), r"(registered) with master")
            )
        yield master


@contextmanager
def _daemon(folder: Path, command: tuple[str, ...], pattern: str) -> Iterator[str]:
    """Run a daemon of Spark; yield what a pattern's group matches in its log."""
    import pyspark

    home = Path(pyspark.__file__).parent
    folder.mkdir()
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": _HOST,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_WORKER_DIR": str(folder / "work"),
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "RELSTATE_CACHE_FOLDER": str(folder / "cache"),
        "PYSPARK_PYTHON": sys.executable,
    }
    main, *arguments = command
    program = [str(home / "bin" / "spark-class"), f"{_DEPLOY}.{main}", *arguments]
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            program, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        deadline = time.monotonic() + _SECONDS
        while (match := re.search(pattern, log.read_text(errors="replace"))) is None:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{main} did not start: {log.read_text(errors='replace')}")
            time.sleep(0.1)
        yield match[1]
    finally:
        process.terminate()
        process.wait()


class ClusterDriver:
    """A process with a session on so many cores of a cluster. Used as a context."""

    def __init__(self, folder: str, master: str, cores: int) -> None:
        """``folder``: for what Spark leaves."""
        self._pool = ProcessPoolExecutor(
            1, get_context("spawn"), _start_session, (folder, master, cores)
        )

    def __enter__(self) -> ClusterDriver:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.submit(_stop_session).result()
        self._pool.shutdown()

    def call(
        self,
        function: Callable[Concatenate[SparkSession, _Arguments], _Result],
        *arguments: _Arguments.args,
        **options: _Arguments.kwargs,
    ) -> _Result:
        """Return what a function of a module returns for the session and arguments."""
        result: _Result = self._pool.submit(_call, function, arguments, options).result()
        return result


def _start_session(folder: str, master: str, cores: int) -> None:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    settings: dict[str, Any] = {
        "spark.cores.max": str(cores),
        "spark.driver.bindAddress": _HOST,
        "spark.driver.host": _HOST,
        "spark.driver.memory": "1g",
        "spark.executor.memory": "1g",
        "spark.local.dir": f"{folder}/local",
        "spark.log.level": "ERROR",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master(master).appName(f"relstate benchmarks, {cores} cores")
    builder.config(map=settings).getOrCreate()


def _session() -> SparkSession:
    from pyspark.sql import SparkSession

    return SparkSession.active()


def _stop_session() -> None:
    _session().stop()


def _call(function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    return function(_session(), *arguments, **options)
