"""The memory of one task: it must not grow with the data, however wide the rows are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from relstate.storage import Store

from .. import rows
from ..figure import Comparison, Figure, Samples
from ..resident import WorkerMemory
from ..workbench import Workbench, new_table, write

_ASKED = 512
_TABLE = "rows"


@dataclass(frozen=True, slots=True)
class _Case:
    """Rows of one kind. ``width``: the bytes of a row's only string, 0 for the usual rows."""

    count: int
    width: int = 0

    @property
    def title(self) -> str:
        return f"{self.count:,} rows" + (f" of {self.width >> 10} KiB" if self.width else "")

    @property
    def columns(self) -> str:
        return rows.WIDE_COLUMNS if self.width else rows.COLUMNS

    def batches(self) -> Iterator[pa.RecordBatch]:
        whole = range(self.count)
        return rows.wide_batches(whole, self.width) if self.width else rows.batches(whole)

    def frame(self, spark: SparkSession) -> DataFrame:
        if self.width:
            return rows.wide_frame(spark, self.count, self.width)
        return rows.frame(spark, self.count)


def memory(bench: Workbench) -> Iterator[Figure]:
    """Measure the most memory of its own that one Python worker of Spark has, in MiB.

    Workers are used again, and keep some of what they had: so reads, which take less, come first.
    """
    for measure in (_read, _write):
        for case in _cases(bench.size.rows):
            with bench.store() as store:
                new_table(store, _TABLE, case.columns)
                yield measure(bench, store, case)


def _cases(count: int) -> list[_Case]:
    """Return the usual rows and wide ones, few and ten times as many."""
    return [
        _Case(count // 10),
        _Case(count),
        _Case(count // 50, 1 << 10),
        _Case(count // 5, 1 << 10),
        _Case(count // 5000, 100 << 10),
        _Case(count // 500, 100 << 10),
    ]


def _read(bench: Workbench, store: Store, case: _Case) -> Figure:
    write(store, _TABLE, case.batches())
    frame = bench.spark.read.format("relstate").option("table", _TABLE).load(store.path)
    return _measured(f"read {case.title}", frame.write.format("noop").mode("append").save)


def _write(bench: Workbench, store: Store, case: _Case) -> Figure:
    writer = case.frame(bench.spark).write.format("relstate").option("table", _TABLE)
    return _measured(f"write {case.title}", lambda: writer.mode("append").save(store.path))


def _measured(case: str, job: Callable[[], None]) -> Figure:
    with WorkerMemory() as workers:
        job()
    return Figure(
        workload="memory",
        case=case,
        unit="MiB",
        samples=Samples((workers.peak / (1 << 20),)),
        comparison=Comparison.ALONE,
        against="",
        asked=_ASKED,
    )
