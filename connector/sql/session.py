"""Opening the SQL door in a session of Spark.

Promises: a session in which no Python source can work is told so here, by name, and not by what
Spark would say later.
Does not know: statements.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from relstate.storage import Store, errors

from .database import Database

_BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"


def connect(spark: SparkSession, path: str) -> Database:
    """Return the store at ``path`` as a database of a session.

    StoreNotFoundError or NotAStoreError if there is none; SessionError if it is not a session, or
    is set so that it cannot read from Python.
    """
    if not hasattr(spark, "conf"):
        raise errors.SessionError(f"connect needs a SparkSession, not {spark!r}")
    check_session(spark)
    return Database(spark, Store.open(path))


def check_session(spark: SparkSession) -> None:
    """SessionError if a setting of the session keeps every Python source from being read."""
    rows = spark.conf.get(_BATCH_ROWS)
    if rows is not None and int(rows) <= 0:
        raise errors.SessionError(
            f"{_BATCH_ROWS} is {rows}, and with less than 1 Spark reads from no Python source: "
            f"spark.conf.unset('{_BATCH_ROWS}') brings back the default"
        )
