"""Views of every kind beside Spark's recompute, whatever the share of the rows that changed.

Promises: a refresh and the recompute beside it are of the same view, in one session; Spark computes
the view over Parquet files of the same rows and writes nothing.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import relstate
from relstate.connector.sql.database import Database
from relstate.storage import Kind, Proposal

from ...figure import Comparison, Figure, Samples
from ...flights import mixed_bits
from ...resident import WorkerMemory
from ...turns import Run, seconds
from ...workbench import Workbench, write

_DIMENSIONS = 100_000
_PARTITION_ROWS = 500
# A prime: steps of this many rows visit each row once before any is visited again.
_STEP = 982_451_653
_BATCH_ROWS = 1 << 18
_SHARES = (0.00002, 0.0002, 0.002, 0.02, 0.2, 1.0)
_OF_RECOMPUTE, _OF_CREATION, _MOST_MIB = 1.2, 2.5, 512
_COLUMNS = "id BIGINT, g INT, d INT, p INT, t BIGINT, v BIGINT"
_SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        *(pa.field(name, pa.int32()) for name in ("g", "d", "p")),
        *(pa.field(name, pa.int64()) for name in ("t", "v")),
    ]
)

VIEWS = {
    "count, sum, avg": "SELECT g, count(*) AS n, sum(v) AS s, avg(v) AS a FROM facts GROUP BY g",
    "join with a dimension": "SELECT c, count(*) AS n, sum(v) AS s "
    "FROM facts JOIN dimensions ON d = dimension GROUP BY c",
    "first 3 of each group": "SELECT g, id, v FROM facts "
    "QUALIFY row_number() OVER (PARTITION BY g ORDER BY v DESC, id) <= 3",
    "min, max": "SELECT g, min(v) AS low, max(v) AS high FROM facts GROUP BY g",
    "running sum": "SELECT id, p, t, sum(v) OVER (PARTITION BY p ORDER BY t, id "
    "ROWS UNBOUNDED PRECEDING) AS s FROM facts",
    "rank": "SELECT id, p, rank() OVER (PARTITION BY p ORDER BY v) AS r FROM facts",
    "range frame": "SELECT id, p, sum(v) OVER (PARTITION BY p ORDER BY t "
    "RANGE BETWEEN 100000000 PRECEDING AND CURRENT ROW) AS s FROM facts",
    "join of large tables": "SELECT x.id, x.v, y.v AS other FROM facts x JOIN facts y "
    "ON x.id = y.id",
    "count distinct": "SELECT g, count(DISTINCT d) AS n FROM facts GROUP BY g",
    "percentile": "SELECT g, percentile(v, 0.5) AS m FROM facts GROUP BY g",
    "sessions": "SELECT p, session_window.start AS start, count(*) AS n FROM "
    "(SELECT p, timestamp_micros(t) AS at FROM facts) "
    "GROUP BY p, session_window(at, '10 seconds')",
    "one group": "SELECT count(*) AS n, sum(v) AS s, max(v) AS high FROM facts",
    "one partition": "SELECT id, sum(v) OVER (ORDER BY t, id ROWS UNBOUNDED PRECEDING) AS s "
    "FROM facts",
}


def sizes(bench: Workbench) -> Iterator[Figure]:
    """Measure creation and refreshes of each view, and the most memory of a worker of Spark."""
    for name, query in VIEWS.items():
        with bench.store() as store:
            facts = _Facts(bench, relstate.connect(bench.spark, store.path))
            yield from _figures_of(name, query, facts, bench.size.turns)
            facts.remove()


def _figures_of(name: str, query: str, facts: _Facts, turns: int) -> Iterator[Figure]:
    recompute = facts.recomputing(query)
    recompute()
    baseline = tuple(recompute() for _ in range(turns))

    def figures(what: str, measured: list[_Measured], asked: float) -> Iterator[Figure]:
        case = f"{name}, {facts.count:,} rows, {what}"
        samples = Samples(tuple(run.seconds for run in measured), baseline[: len(measured)])
        yield Figure(
            workload="view-sizes",
            case=case,
            unit="ms",
            samples=samples.scaled(1e3),
            comparison=Comparison.TIME,
            against="Spark over Parquet",
            asked=asked,
        )
        yield Figure(
            workload="view-sizes: memory",
            case=case,
            unit="MiB of a worker",
            samples=Samples(tuple(run.worker_bytes / (1 << 20) for run in measured)),
            comparison=Comparison.ALONE,
            against="",
            asked=_MOST_MIB,
        )

    created = facts.create(query)
    yield from figures("created", [created], _OF_CREATION)
    for share in _SHARES:
        changed = max(int(facts.count * share), 1)
        # The first is not counted.
        measured = [facts.refresh(changed) for _ in range(turns + 1)][1:]
        yield from figures(f"{changed:,} changed", measured, _OF_RECOMPUTE)


@dataclass(frozen=True, slots=True)
class _Measured:
    """How long something took, and the most bytes of its own that a worker had."""

    seconds: float
    worker_bytes: int


class _Facts:
    """A table of facts and one of dimensions, in a store and in Parquet files.

    A row follows from its index and a version, so that a change is another version of it.
    """

    def __init__(self, bench: Workbench, database: Database) -> None:
        self.count = bench.size.rows
        self._database, self._spark = database, bench.spark
        self._folder = bench.folder()
        self._next, self._place, self._version = self.count, 0, 0
        store = database.store
        store.create_table("facts", _COLUMNS, primary_key=["id"])
        store.create_table("dimensions", "dimension INT, c INT", primary_key=["dimension"])
        numbers = np.arange(_DIMENSIONS, dtype=np.int32)
        dimensions = pa.table({"dimension": numbers, "c": numbers % 50})
        store.write("dimensions", dimensions)
        pq.write_table(dimensions, f"{self._folder}/dimensions.parquet")
        write(store, "facts", self._first_rows())

    def _first_rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the table, and write them to the file."""
        with pq.ParquetWriter(f"{self._folder}/facts.parquet", _SCHEMA) as parquet:
            for start in range(0, self.count, _BATCH_ROWS):
                batch = self._rows(np.arange(start, min(start + _BATCH_ROWS, self.count)))
                parquet.write_batch(batch)
                yield batch

    def _rows(self, indices: np.ndarray) -> pa.RecordBatch:
        partitions = max(self.count // _PARTITION_ROWS, 1)
        return _facts(indices, self._version, partitions)

    def remove(self) -> None:
        """Remove the Parquet files."""
        shutil.rmtree(self._folder)

    def recomputing(self, query: str) -> Run:
        """Return a run that lets Spark compute a query over the Parquet files."""
        for table in ("facts", "dimensions"):
            frame = self._spark.read.parquet(f"{self._folder}/{table}.parquet")
            frame.createOrReplaceTempView(table)
        frame = self._spark.sql(query)
        return seconds(lambda: frame.write.format("noop").mode("overwrite").save())

    def create(self, query: str) -> _Measured:
        """Create the view."""
        statement = f"CREATE MATERIALIZED VIEW measured AS {query}"
        return _measured(lambda: self._database.sql(statement))

    def refresh(self, count: int) -> _Measured:
        """Change rows in one commit, and refresh the view.

        Of ten changed rows eight are updates, one is an insert and one a delete.
        """
        inserts = deletes = count // 10
        places = np.arange(self._place, self._place + count - inserts)
        inserted = np.arange(self._next, self._next + inserts)
        indices = np.append(places * (_STEP % self.count) % self.count, inserted)
        kinds = np.full(count, Kind.PUT, np.uint8)
        kinds[:deletes] = Kind.DELETE
        self._place, self._next = self._place + len(places), self._next + inserts
        self._version += 1
        store = self._database.store
        writer, started = store.jobs.write_target("facts").open(), store.environment.now()
        writer.write(self._rows(indices), kinds)
        segments = writer.finish()
        store.jobs.commit(Proposal(operation="write", started=started, segments=segments))
        return _measured(self._database.refresh)


def _measured(action: Callable[[], object]) -> _Measured:
    with WorkerMemory() as workers:
        taken = seconds(action)()
    return _Measured(taken, workers.peak)


def _facts(indices: np.ndarray, version: int, partitions: int) -> pa.RecordBatch:
    """Return a version of some rows: what changes is the value."""
    mixed, value = mixed_bits(indices), mixed_bits(indices + version * 7919)
    columns = (
        indices,
        (mixed % 1000).astype(np.int32),
        ((mixed >> np.uint64(10)) % _DIMENSIONS).astype(np.int32),
        ((mixed >> np.uint64(33)) % partitions).astype(np.int32),
        ((mixed >> np.uint64(24)) & np.uint64(0xFFFFFFFF)).astype(np.int64),
        (value % 100_000).astype(np.int64),
    )
    return pa.RecordBatch.from_arrays(list(map(pa.array, columns)), schema=_SCHEMA)
