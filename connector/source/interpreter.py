"""The Python that Spark starts: the one that runs the driver, unless another is named.

Spark starts ``python3`` on PATH where PYSPARK_PYTHON is not set. Where a virtual environment's
Python was started by its path, without activating it, that is another one, which cannot import
relstate.

Promises: only a local Spark is told, where the driver's Python exists for its workers too; a Python
that the user named is kept.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any
from weakref import WeakSet

from pyspark.sql import SparkSession

from .datasource import RelstateDataSource

_DEFAULT = "python3"
_REGISTERED: WeakSet[SparkSession] = WeakSet()


def use_this_python() -> None:
    """Let a Spark that starts later run the Python that runs this, unless another is named."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def use_driver_python(spark: SparkSession) -> None:
    """Let a session run data sources and functions in the Python that runs this.

    Nothing happens if Spark finds this Python itself, if the user named one, or if workers may be
    on other machines.
    """
    context: Any = getattr(spark, "_sc", None)  # None for Spark Connect
    if context is None or not _is_local(context.master):
        return
    if context.pythonExec == _DEFAULT and not _is_on_path():
        context.pythonExec = sys.executable
    is_chosen_here = context.pythonExec == sys.executable and "PYSPARK_PYTHON" not in os.environ
    if is_chosen_here and spark not in _REGISTERED:
        _register(spark)
        _REGISTERED.add(spark)


def _register(spark: SparkSession) -> None:
    """Register the source: Spark looks for the others by the Python of its own choice.

    Whether the name is free Spark asks of the active session.
    """
    sessions: Any = SparkSession._get_j_spark_session_class(spark._jvm)
    active = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        spark.dataSource.register(RelstateDataSource)
    finally:
        if active.isDefined():
            sessions.setActiveSession(active.get())
        else:
            sessions.clearActiveSession()


def _is_local(master: str) -> bool:
    return master == "local" or master.startswith("local[")


def _is_on_path() -> bool:
    """Return whether ``python3`` on PATH is of the environment of this Python."""
    path = shutil.which(_DEFAULT)
    return (
        path is not None
        and os.path.dirname(path) == os.path.dirname(sys.executable)
        and os.path.realpath(path) == os.path.realpath(sys.executable)
    )
