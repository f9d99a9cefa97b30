"""Counts and sums over a table that only grows, beside Spark's own streaming aggregation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

import relstate
from relstate.storage import Store

from ...figure import Comparison, Figure
from ...session import CORES
from ...turns import in_turns, seconds
from ...workbench import Workbench

_FILES = 10
_KEYS = 100_000
_COLUMNS = "id BIGINT NOT NULL, key BIGINT, amount BIGINT"
_VIEW = (
    "CREATE MATERIALIZED VIEW totals AS "
    "SELECT key, count(*) AS count, sum(amount) AS total FROM events GROUP BY key"
)


def append_only(bench: Workbench) -> Iterator[Figure]:
    """Measure rows a second from files, one a commit, until the groups of them all are there.

    What is asked about is a view that takes in what came to its table, beside Spark's aggregation
    of the very same commits, and of the files that they came from. The last figure is the view and
    the stream into its table together, which Spark's aggregation of the files has not to write.
    """
    input_ = _Input(bench)
    spark = "Spark's streaming aggregation of the {}, in update mode, to db.writer"
    name = "view-append-only"
    feed, files = input_.aggregated_feed, input_.aggregated_files
    for workload, case, ours, baseline, source, asked in (
        (name, "view", input_.refreshed, feed, "same commits", 1.0),
        (f"{name}: files", "view", input_.refreshed, files, "files", 1.0),
        (f"{name}: files", "stream and view", input_.followed, files, "files", None),
    ):
        samples = in_turns(ours, baseline, max(bench.size.turns // 2, 1))
        yield Figure(
            workload=workload,
            case=f"{case}: {bench.size.rows:,} rows in {_files(bench)} files",
            unit="M rows/s",
            samples=samples.rates(bench.size.rows / 1e6),
            comparison=Comparison.RATE,
            against=spark.format(source),
            asked=asked,
        )


class _Input:
    """The files, and what is made of them: each run has a new store."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._spark = _session(bench.spark)
        self._folder = bench.folder()
        rows, files = bench.size.rows, _files(bench)
        for number in range(files):
            part = range(rows * number // files, rows * (number + 1) // files)
            pq.write_table(_events(part), str(Path(self._folder) / f"{number:05d}.parquet"))

    def followed(self) -> float:
        """Stream the files into a table while a view follows it."""
        with self._bench.store() as store:
            database = _with_view(self._spark, store)

            def run() -> None:
                views = database.stream("totals")
                writer = self._files().writeStream.format("relstate").option("table", "events")
                writer = writer.option("checkpointLocation", self._bench.folder())
                _ended(writer.trigger(availableNow=True).start(store.path))
                views.processAllAvailable()
                views.stop()

            took = seconds(run)()
            self._check(store)
            return took

    def refreshed(self) -> float:
        """Append file by file, and return how long the refreshes after it take in all."""
        with self._bench.store() as store:
            database = _with_view(self._spark, store)
            took = self._appended(store, lambda: database.refresh("totals"))
            self._check(store)
        return took

    def aggregated_files(self) -> float:
        """Let Spark aggregate the stream of files."""
        with self._bench.store() as store:
            _create_totals(store)
            writer = self._aggregation(self._files(), store).trigger(availableNow=True)
            took = seconds(lambda: _ended(writer.start()))()
            self._check(store)
            return took

    def aggregated_feed(self) -> float:
        """Append file by file, and return how long Spark's aggregation of the table takes to
        follow in all.
        """
        with self._bench.store() as store:
            _create_events(store)
            _create_totals(store)
            reader = self._spark.readStream.format("relstate")
            feed = reader.options(table="events", readChangeFeed="true").load(store.path)
            query = self._aggregation(feed, store).start()
            try:
                took = self._appended(store, query.processAllAvailable)
            finally:
                query.stop()
            self._check(store)
        return took

    def _appended(self, store: Store, then: Callable[[], object]) -> float:
        """Append file by file to the events, and return how long what follows takes in all."""
        took = 0.0
        for file in sorted(Path(self._folder).iterdir()):
            rows = self._spark.read.parquet(str(file))
            writer = rows.write.format("relstate").option("table", "events").mode("append")
            writer.save(store.path)
            took += seconds(then)()
        return took

    def _aggregation(self, rows: DataFrame, store: Store) -> DataStreamWriter:
        sums = f.count("*").alias("count"), f.sum("amount").alias("total")
        writer = rows.groupBy("key").agg(*sums).writeStream.outputMode("update")
        writer = writer.option("checkpointLocation", self._bench.folder())
        return writer.foreachBatch(relstate.connect(self._spark, store.path).writer("totals"))

    def _files(self) -> DataFrame:
        reader = self._spark.readStream.schema(_COLUMNS).option("maxFilesPerTrigger", 1)
        return reader.parquet(self._folder)

    def _check(self, store: Store) -> None:
        """Check that no row was lost."""
        counts = (batch.column("count") for batch in store.table("totals").scan(columns=["count"]))
        assert sum(np.asarray(count).sum() for count in counts) == self._bench.size.rows


def _files(bench: Workbench) -> int:
    return min(_FILES, bench.size.batches)


def _session(spark: SparkSession) -> SparkSession:
    """Return a session with a shuffle for this machine: the usual 200 partitions are no rival."""
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", str(CORES))
    return session


def _create_events(store: Store) -> None:
    store.create_table("events", _COLUMNS, primary_key=["id"], append_only=True)


def _create_totals(store: Store) -> None:
    columns = "key BIGINT NOT NULL, count BIGINT, total BIGINT"
    store.create_table("totals", columns, primary_key=["key"])


def _with_view(spark: SparkSession, store: Store) -> relstate.Database:
    _create_events(store)
    database = relstate.connect(spark, store.path)
    database.sql(_VIEW)
    return database


def _events(ids: range) -> pa.Table:
    numbers = np.arange(ids.start, ids.stop, dtype=np.int64)
    keys = np.random.default_rng(ids.start).integers(_KEYS, size=len(numbers))
    return pa.table({"id": numbers, "key": keys, "amount": numbers % 1000})


def _ended(query: StreamingQuery) -> None:
    query.awaitTermination()
