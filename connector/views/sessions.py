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
_OWN = {
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


def batch_session(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """Return a new session under some settings for large queries, whose stages Spark sizes."""
    session = spark.newSession()
    own = {
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.shuffle.partitions": str(4 * parallelism(spark)),
    }
    for name, value in {**own, **settings}.items():
        session.conf.set(name, value)
    return session


class Sessions:
    """Sessions by settings, each made when first asked for. Safe between threads."""

    def __init__(self, spark: SparkSession) -> None:
        """``spark``: a session of the Spark to be used."""
        self._spark = spark
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
                self._made[key] = self._new(settings)
            return self._made[key]

    def _new(self, settings: Mapping[str, str]) -> SparkSession:
        session = self._spark.newSession()
        shuffled = self._spark.conf.get("spark.sql.shuffle.partitions")
        kept = {} if shuffled is None else {"spark.sql.shuffle.partitions": str(shuffled)}
        for name, value in {**_OWN, **kept, **settings}.items():
            session.conf.set(name, value)
        return session
