"""What the table of flights must hold, computed by plain Spark: no stream, no store.

Promises: the truth as of any moment of the year, by SQL over the source's rows alone.
Does not know: relstate, or how the stream of changes was made.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from flights_changes import DEPARTURE, DIVERTED_MINUTES, KEY, LANDING, LEAD_DAYS, SCHEDULE
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

_MOMENTS = f"""
    SELECT *,
        scheduled - INTERVAL '{LEAD_DAYS}' DAY AS announced,
        IF(dep_time IS NULL, scheduled, NULL) AS cancelled,
        scheduled + dep_delay * INTERVAL '1' MINUTE AS departed,
        IF(arr_time IS NULL, NULL, scheduled
           + (dep_delay + coalesce(air_time, {DIVERTED_MINUTES})) * INTERVAL '1' MINUTE) AS landed
    FROM (SELECT *, time_hour + minute * INTERVAL '1' MINUTE AS scheduled FROM {{source}})"""

_FLIGHTS = f"""
    SELECT {", ".join(KEY + SCHEDULE)},
        {", ".join(f"IF(departed < :until, {column}, NULL) AS {column}" for column in DEPARTURE)},
        {", ".join(f"IF(landed < :until, {column}, NULL) AS {column}" for column in LANDING)},
        CASE WHEN landed < :until AND arr_delay IS NULL THEN 'diverted'
             WHEN landed < :until THEN 'landed'
             WHEN departed < :until THEN 'departed'
             ELSE 'scheduled' END AS status,
        CASE WHEN landed < :until THEN landed
             WHEN departed < :until THEN departed
             ELSE announced END AS updated_at
    FROM ({_MOMENTS})
    WHERE announced < :until AND (cancelled IS NULL OR cancelled >= :until)"""


@dataclass(frozen=True, slots=True)
class Comparison:
    """How many rows two relations have, and how many of them only one has."""

    rows: int
    expected_rows: int
    differences: int

    @property
    def equal(self) -> bool:
        """Whether both hold the same rows, each as often."""
        return self.differences == 0


def flights(source: DataFrame, until: datetime) -> DataFrame:
    """Return the table ``flights`` as of ``until``."""
    spark = source.sparkSession
    return spark.sql(_FLIGHTS, args={"until": until}, source=source)


def compare(rows: DataFrame, expected: DataFrame) -> Comparison:
    """Compare two relations of the same columns: every row, every value, exactly."""
    ours = rows.select("*", f.lit(1).alias("ours"), f.lit(0).alias("theirs"))
    theirs = expected.select("*", f.lit(0).alias("ours"), f.lit(1).alias("theirs"))
    each_row = ours.unionByName(theirs).groupBy(expected.columns)
    counts = each_row.agg(f.sum("ours").alias("ours"), f.sum("theirs").alias("theirs"))
    total = counts.agg(f.sum("ours"), f.sum("theirs"), f.sum(f.abs(f.expr("ours - theirs"))))
    return Comparison(*(value or 0 for value in total.first() or (0, 0, 0)))
