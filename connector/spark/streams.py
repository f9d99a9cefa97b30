"""What Spark tells a stream of a Python data source, and what it asks of one.

Spark 4.1 asks for the newest offset alone, and takes everything up to it in one micro-batch. Later
versions say where the next micro-batch starts and how much of it to take, and announce a run that
ends with what is available now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .capabilities import MICRO_BATCH_LIMITS
from .version import pyspark_version

if TYPE_CHECKING or MICRO_BATCH_LIMITS.is_in(pyspark_version()):
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxFiles,
        SupportsTriggerAvailableNow,
    )
else:

    class SupportsTriggerAvailableNow:
        """Stands for PySpark's class, of which this version knows nothing."""


def limit_of(most: int | None) -> ReadLimit:
    """Return Spark's limit of so many commits in a micro-batch, which it counts as files."""
    return ReadAllAvailable() if most is None else ReadMaxFiles(most)


def most_commits(limit: ReadLimit | None) -> int | None:
    """Return how many commits a micro-batch takes at most by Spark's limit; None for all."""
    return limit.max_files if limit is not None and isinstance(limit, ReadMaxFiles) else None


__all__ = ["ReadLimit", "SupportsTriggerAvailableNow", "limit_of", "most_commits"]
