"""A Spark of this program's own, for commands that compute.

Promises: it runs on this machine alone, with this Python, and ends with the command.
Does not know: what it computes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .surroundings import use_this_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "OFF",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@contextmanager
def local_spark() -> Iterator[SparkSession]:
    """Give a session that is stopped afterwards, unless the process had one before."""
    from pyspark.sql import SparkSession

    use_this_python()
    before = SparkSession.getActiveSession()
    builder = SparkSession.builder.master("local[*]").appName("relstate")
    session = builder.config(map=dict(_SETTINGS)).getOrCreate()
    try:
        yield session
    finally:
        if before is None:
            session.stop()
