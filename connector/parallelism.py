"""How many tasks Spark runs at once. Does not know: what they do."""

from __future__ import annotations

from pyspark.sql import SparkSession


def parallelism(spark: SparkSession) -> int:
    """Return how many tasks Spark runs at once; 4 for Spark Connect, which does not say."""
    context = getattr(spark, "_sc", None)
    return 4 if context is None else int(context.defaultParallelism)
