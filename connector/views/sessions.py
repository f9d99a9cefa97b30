"""The sessions in which views are computed.

A view is refreshed under the settings it was created under, whatever those of the session that
asks for it; so it has a session of its own in the same Spark.

Promises: the user's session keeps its settings, stays the active one, and never sees a refresh's
names.
Does not know: views.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock

from pyspark.sql import SparkSession

# What the meaning of expressions hangs on, and so is kept with a view.
REMEMBERED = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
}
# What only its speed hangs on: a refresh's stages are few and small, and known beforehand.
_REFRESH = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}


def remembered(spark: SparkSession) -> dict[str, str]:
    """Return the settings of a session that a view created in it keeps."""
    return {name: str(spark.conf.get(name, default)) for name, default in REMEMBERED.items()}


def parallelism(spark: SparkSession) -> int:
    """Return how many tasks Spark runs at once; Spark Connect does not tell, and has 4."""
    context = getattr(spark, "_sc", None)
    return 4 if context is None else int(context.defaultParallelism)


@contextmanager
def undisturbed(spark: SparkSession) -> Iterator[None]:
    """Leave the active session of this thread active: Spark activates that which makes a frame.

    ``spark``: the user's session, which is the one that Python's side says is active then.
    """
    if getattr(spark, "_sc", None) is None:  # Spark Connect activates nothing
        yield
        return
    kind = SparkSession._get_j_spark_session_class(spark._jvm)
    active = kind.getActiveSession()
    try:
        yield
    finally:
        if active.isDefined():
            kind.setActiveSession(active.get())
            SparkSession._activeSession = spark


class Sessions:
    """Sessions by settings, each made when first asked for. Safe between threads."""

    def __init__(self, spark: SparkSession, own: Mapping[str, str] = _REFRESH) -> None:
        """``spark``: a session of the Spark to be used. ``own``: what all of them are set to."""
        self._spark = spark
        self._own = dict(own)
        self._made: dict[tuple[tuple[str, str], ...], SparkSession] = {}
        self._lock = Lock()

    @property
    def spark(self) -> SparkSession:
        """The session that it was made with."""
        return self._spark

    def of(self, settings: Mapping[str, str]) -> SparkSession:
        """Return the session for some settings."""
        key = tuple(sorted(settings.items()))
        with self._lock:
            if key not in self._made:
                session = self._spark.newSession()
                for name, value in {**self._own, **settings}.items():
                    session.conf.set(name, value)
                self._made[key] = session
            return self._made[key]


def batch_sessions(spark: SparkSession) -> Sessions:
    """Return sessions for large queries, whose stages Spark sizes."""
    partitions = 4 * parallelism(spark)
    return Sessions(
        spark,
        {
            "spark.sql.adaptive.enabled": "true",
            "spark.sql.shuffle.partitions": str(partitions),
        },
    )
