"""The memory of one task: it must not grow with the data, however wide the rows are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pyspark.sql import DataFrame

from relstate.storage import Store

from .. import rows
from ..figure import Comparison, Figure, Samples
from ..resident import WorkerMemory
from ..workbench import Workbench, new_table

_ASKED = 512.0


@dataclass(frozen=True, slots=True)
class _Case:
    """Rows of one kind; ``kibibytes``: the width of a row's only string, 0 for the usual rows."""

    rows: int
    kibibytes: int = 0

    @property
    def title(self) -> str:
        return f"{self.rows:,} rows" + (f" of {self.kibibytes} KiB" if self.kibibytes else "")

    @property
    def table(self) -> str:
        return f"rows_{self.rows}_{self.kibibytes}"

    def create(self, store: Store) -> None:
        """Create the table."""
        if self.kibibytes:
            store.create_table(self.table, "k BIGINT NOT NULL, s STRING", primary_key=["k"])
        else:
            new_table(store, self.table)

    def frame(self, bench: Workbench) -> DataFrame:
        """Return the rows."""
        frame = rows.frame(bench.spark, self.rows)
        if not self.kibibytes:
            return frame
        return frame.selectExpr("k", f"repeat(s, {(self.kibibytes << 10) // 13}) AS s")


def memory(bench: Workbench) -> Iterator[Figure]:
    """Measure the most memory of its own that one Python worker has, in MiB."""
    store = bench.store()
    for case in _cases(bench.size.rows):
        case.create(store)
        yield _write(bench, store, case)
        yield _read(bench, store, case)


def _write(bench: Workbench, store: Store, case: _Case) -> Figure:
    writer = case.frame(bench).write.format("relstate").option("table", case.table)
    return _measured(f"write {case.title}", lambda: writer.mode("append").save(store.path))


def _read(bench: Workbench, store: Store, case: _Case) -> Figure:
    frame = bench.spark.read.format("relstate").option("table", case.table).load(store.path)
    writer = frame.write.format("noop").mode("append")
    return _measured(f"read {case.title}", writer.save)


def _cases(count: int) -> list[_Case]:
    """Return the usual rows and wide ones, few and ten times as many."""
    return [
        _Case(count // 10),
        _Case(count),
        _Case(count // 50, 1),
        _Case(count // 5, 1),
        _Case(count // 5000, 100),
        _Case(count // 500, 100),
    ]


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
