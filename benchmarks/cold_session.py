"""What the Python processes of a fresh session of Spark spend on its first writes and reads.

A program of its own, since a session is fresh once: it prints a JSON object of operations, each
with the seconds that passed and the processor time of all Python processes meanwhile, and the bytes
that all workers have in the end.

    python -m benchmarks.cold_session FOLDER IDLE_SECONDS [DAEMON_MODULE]
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

from pyspark.sql import SparkSession

import relstate

from .python_processes import python_processes
from .session import local_session

_ROWS = 1_000
_DAEMON = "spark.python.daemon.module"


def main(folder: str, idle: float, *daemon: str) -> None:
    """Measure in a session whose files are in a folder, and print what was measured."""
    settings = {_DAEMON: daemon[0]} if daemon else {}
    with local_session(folder, settings) as spark:
        spark.range(_ROWS).count()
        write, read = _operations(spark, f"{folder}/store")
        turns = ["first", "second"]
        spent = _Spent()
        measured = {}
        for turn in turns + (["idle", "next"] if idle else []):
            if turn == "idle":
                time.sleep(idle)
            for name, operation in (("write", write), ("read", read)):
                measured[f"{turn} {name}"] = spent.by(operation)
        workers = [process for process in python_processes(os.getpid()) if not process.is_daemon]
        resident = sum(process.own_bytes for process in workers)
    print(json.dumps({"operations": measured, "resident": resident}))


def _operations(spark: SparkSession, path: str) -> tuple[Callable[[], object], ...]:
    store = relstate.create(path)
    store.create_table("t", "id BIGINT, v STRING", primary_key=["id"])
    store.close()
    options = {"path": path, "table": "t"}
    rows = spark.range(_ROWS).selectExpr("id", "CAST(id AS STRING) AS v")
    writer = rows.write.format("relstate").mode("append").options(**options)
    return writer.save, lambda: spark.read.format("relstate").options(**options).load().count()


class _Spent:
    """The processor time of Python processes, those that have ended since the last look included.

    What a process spends after the last look at it, and before its end, is not seen.
    """

    def __init__(self) -> None:
        self._seconds = self._now()

    def by(self, operation: Callable[[], object]) -> tuple[float, float]:
        """Return (seconds, processor seconds) of an operation."""
        started = time.perf_counter()
        operation()
        passed = time.perf_counter() - started
        now = self._now()
        spent = sum(max(now[id] - self._seconds.get(id, 0.0), 0.0) for id in now)
        self._seconds = now
        return passed, spent

    def _now(self) -> dict[int, float]:
        return {process.id: process.seconds for process in python_processes(os.getpid())}


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), *sys.argv[3:])
