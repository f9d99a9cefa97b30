"""The versions of Spark that relstate works with, and which of them runs.

Importing it does not load PySpark: the command line compares versions without it.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from relstate.storage import errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEAST_SPARK = (4, 1)
"""The oldest minor version of Spark that relstate works with."""
BELOW_SPARK = (4, 4)
"""The first minor version of Spark that relstate does not work with."""

_versions: WeakKeyDictionary[SparkSession, str] = WeakKeyDictionary()


def version_numbers(version: str) -> tuple[int, ...]:
    """Return the numbers at the start of a version: (4, 3, 0) for ``4.3.0.dev1``."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else ()


def check_version(version: str) -> None:
    """SessionError for a version of Spark that relstate does not work with."""
    if not LEAST_SPARK <= version_numbers(version) < BELOW_SPARK:
        least, newest = dotted(LEAST_SPARK), f"{BELOW_SPARK[0]}.{BELOW_SPARK[1] - 1}"
        raise errors.SessionError(
            f"this is Spark {version}, and relstate works with Spark {least} to {newest}: "
            f"pip install 'pyspark>={least},<{dotted(BELOW_SPARK)}'"
        )


def check_pyspark() -> None:
    """SessionError for an installed PySpark that relstate does not work with.

    Its version is another, or it is Spark Connect's thin client, which lacks modules.
    """
    check_version(pyspark_version())
    if find_spec("pyspark.sql.classic") is None:
        needed = f"pyspark[connect]>={dotted(LEAST_SPARK)},<{dotted(BELOW_SPARK)}"
        raise errors.SessionError(
            "pyspark-client is installed, Spark Connect's thin client: relstate.connect needs the "
            "whole PySpark (pyspark.sql.classic), also over Spark Connect: pip uninstall "
            f"pyspark-client, then pip install '{needed}'"
        )


@cache
def pyspark_version() -> str:
    """Return the version of the PySpark that this process imports."""
    import pyspark

    return pyspark.__version__


def session_version(spark: SparkSession) -> str:
    """Return the version of the Spark that runs what a session asks for.

    With Spark Connect that of the server, which may be another one than PySpark's.
    """
    if spark not in _versions:
        _versions[spark] = spark.version
    return _versions[spark]


def dotted(numbers: tuple[int, ...]) -> str:
    """Return the numbers of a version as text: ``4.3`` for (4, 3)."""
    return ".".join(map(str, numbers))
