"""How many tasks Spark runs at once, and how many threads its driver.

Does not know: what they do.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import SparkSession

# Python's lock leaves threads less to do, the more they are.
_MOST_THREADS = 4


def parallelism(spark: SparkSession) -> int:
    """Return how many tasks Spark runs at once; 4 for Spark Connect, which does not say."""
    context = getattr(spark, "_sc", None)
    return 4 if context is None else int(context.defaultParallelism)


def driver_threads(spark: SparkSession) -> int:
    """Return how many threads of the driver read at once: no more than cores, or tasks of Spark."""
    return max(1, min(int(pa.cpu_count()), parallelism(spark), _MOST_THREADS))
