"""The sessions in which views are computed.

A view is refreshed under the settings it was created under, whatever those of the calling session
are; so it has a session of its own in the same Spark.

Promises: the user's session keeps its settings, stays the active one, and never sees the names of
a refresh.
Does not know: views.
"""

from __future__ import annotations

import atexit
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock, local
from typing import Any

from pyspark.sql import SparkSession

from relstate.connector.parallelism import parallelism
from relstate.connector.source.interpreter import use_driver_python

from .view_settings import apply_settings, without_reading

# What all of them have: Spark 4.3 reads ASOF JOIN, and expressions of type TIME, only then.
_ALWAYS = {"spark.sql.join.asofJoin.enabled": "true", "spark.sql.timeType.enabled": "true"}
# Settings for the jobs of a refresh: its stages are few and small.
_REFRESH = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # A packet of rows (exchange) is one record, and a batch has at most 2 GiB.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(64 << 20),
    # A keyed recompute gives Spark sorted rows: only an aggregation by sorting keeps their order.
    "spark.sql.execution.useObjectHashAggregateExec": "false",
    "spark.sql.execution.replaceHashWithSortAgg": "true",
}


# The session that a block of `keep_active_session` in this thread has activated.
_kept = local()

_EARLY_EVALUATION = "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"


def is_classic(spark: SparkSession) -> bool:
    """Return whether a session has its JVM beside this process; not one of Spark Connect."""
    return getattr(spark, "_sc", None) is not None


def is_stopped(spark: SparkSession) -> bool:
    """Return whether a session has ended, so that nothing can be run in it again."""
    if is_classic(spark):
        context: Any = spark.sparkContext
        return context._jsc is None or bool(context._jsc.sc().isStopped())
    client: Any = spark
    return bool(client.is_stopped)


@contextmanager
def keep_active_session(spark: SparkSession, own: SparkSession | None = None) -> Iterator[None]:
    """Keep this thread's active session: Spark activates the session that makes a frame.

    ``spark``: the user's session, which is the active one for Python. ``own``: the session that is
    active within: Spark 4.3 reads some settings, as of ``groupBy().agg()``, from the active
    session and not from that of the frame. A block within another one of the same session does
    nothing.
    """
    outer = getattr(_kept, "session", None)
    # Spark Connect activates nothing.
    if not is_classic(spark) or (own is not None and outer is own):
        yield
        return
    kind = SparkSession._get_j_spark_session_class(spark._jvm)
    active = kind.getActiveSession()
    if own is not None:
        kind.setActiveSession(own._jsparkSession)
    _kept.session = own
    try:
        yield
    finally:
        _kept.session = outer
        if active.isDefined():
            kind.setActiveSession(active.get())
            SparkSession._activeSession = spark
        elif own is not None:
            kind.clearActiveSession()


class Sessions:
    """Sessions by settings, each made when first asked for. Safe between threads.

    They read a query as by default, which is what relstate does, and not as the settings say.
    """

    def __init__(
        self, spark: SparkSession, own: Mapping[str, str] = _REFRESH, *, reads_as_user: bool = False
    ) -> None:
        """``spark``: a session of the Spark to be used. ``own``: what all of them are set to.

        ``reads_as_user``: they read a query as the settings say.
        """
        self._spark = spark
        self._own = dict(own)
        self._reads_as_user = reads_as_user
        self._made: dict[tuple[tuple[str, str], ...], SparkSession] = {}
        self._lock = Lock()

    @property
    def spark(self) -> SparkSession:
        """The session that was given."""
        return self._spark

    def of(self, settings: Mapping[str, str]) -> SparkSession:
        """Return the session for some settings. SessionError if Spark does not take them."""
        if not self._reads_as_user:
            settings = without_reading(settings)
        key = tuple(sorted(settings.items()))
        with self._lock:
            if key not in self._made:
                session = self._spark.newSession()
                apply_settings(session, settings)
                for name, value in {**_ALWAYS, **self._own}.items():
                    session.conf.set(name, value)
                use_driver_python(session)
                _leave_silently(session)
                self._made[key] = session
            return self._made[key]


def _leave_silently(session: SparkSession) -> None:
    """Let the process end without a last request for a session of Spark Connect.

    PySpark makes one for each session that is not stopped, and repeats it for ten minutes where the
    server has ended, as that of ``remote("local")`` does. The server forgets idle sessions.
    """
    client: Any = None if is_classic(session) else getattr(session, "client", None)
    on_exit = getattr(client, "_on_exit", None)
    if on_exit is not None:
        atexit.unregister(on_exit)


def batch_sessions(spark: SparkSession) -> Sessions:
    """Return sessions for large queries of users, whose stages Spark sizes."""
    partitions = 4 * parallelism(spark)
    return Sessions(
        spark,
        {
            "spark.sql.adaptive.enabled": "true",
            "spark.sql.shuffle.partitions": str(partitions),
            # Spark evaluates expressions over few rows before it applies a filter above them.
            "spark.sql.optimizer.excludedRules": _EARLY_EVALUATION,
            "spark.sql.adaptive.optimizer.excludedRules": _EARLY_EVALUATION,
        },
        reads_as_user=True,
    )
