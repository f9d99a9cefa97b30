"""A session of Spark for one run of the benchmarks."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES = 2


@contextmanager
def local_session(
    folder: str, settings: Mapping[str, str] = MappingProxyType({})
) -> Iterator[SparkSession]:
    """Give a local session of two cores, with the baselines' sources; it ends with the block.

    ``folder`` is for what Spark leaves. ``settings``: more of the session.
    """
    # Spark starts its Python workers by these; they must be this interpreter.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    from .discard import DiscardingSource
    from .replay import ReplayingSource

    builder = SparkSession.builder.master(f"local[{CORES}]").appName("relstate benchmarks")
    session = builder.config(map={**_settings(folder), **settings}).getOrCreate()
    try:
        session.dataSource.register(DiscardingSource)
        session.dataSource.register(ReplayingSource)
        yield session
    finally:
        session.stop()
        _end_gateway()


def _settings(folder: str) -> dict[str, str | int | float | bool | None]:
    return {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "3g",
        "spark.local.dir": f"{folder}/local",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def _end_gateway() -> None:
    """End the Java process that a stopped session leaves running."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None:
        return
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    process = gateway.proc
    process.stdin.close()
    process.wait()
