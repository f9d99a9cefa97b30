"""Units: a large job has as many as keep the rows of each task few."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import relstate
from relstate.connector.sql import Database
from relstate.connector.views import job, runner
from relstate.connector.views.frame import report_frame
from support.local import IN_JOB, local_rows
from support.multisets import difference, rows_of_table
from support.sources import ROOT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from relstate.connector.views.job import ViewJob
    from support.stores import StoreMaker

QUERY = "SELECT v, count(*) AS n, max(k) AS k FROM t GROUP BY v"
MIB = 1 << 20


def test_a_job_has_a_unit_for_so_many_rows(
    spark: SparkSession, make_store: StoreMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At least those of the view, and at most one for each vnode."""
    store = make_store(vnode_count=8, shards=1)
    store.create_table("t", "k INT, v INT", primary_key=["k"])
    database = relstate.connect(spark, store.path)
    database.sql(f"CREATE MATERIALIZED VIEW v TBLPROPERTIES ('parallelism' = '2') AS {QUERY}")
    units: list[int] = []

    def observed(view_job: ViewJob, session: SparkSession) -> DataFrame:
        units.append(view_job.mapping.units)
        return report_frame(view_job, session)

    monkeypatch.setattr(runner, "report_frame", observed)
    monkeypatch.setattr(job, "UNIT_ROWS", 10)
    for start, count in ((0, 5), (5, 20), (25, 41), (66, 300)):
        put(database, range(start, start + count))
        with local_rows(IN_JOB):
            database.refresh()
        expected = database.sql(QUERY).toArrow()
        rows = database.store.table("v").to_arrow().select(expected.column_names)
        assert difference(rows_of_table(rows), rows_of_table(expected)) == ([], [])
    monkeypatch.setattr(job, "UNIT_ROWS", job.UNIT_BYTES)
    monkeypatch.setattr(job, "UNIT_BYTES", 100)
    put(database, range(20))
    with local_rows(IN_JOB):
        database.refresh()
    *by_rows, by_bytes = units
    assert by_rows == [2, 2, 5, 8]
    assert by_bytes > 2
    (report,) = database.check_views("v")
    assert report.ok, report


def put(database: Database, keys: range) -> None:
    """Insert rows in one epoch."""
    database.store.write(
        "t",
        pa.table(
            {"k": pa.array(keys, pa.int32()), "v": pa.array([key % 7 for key in keys], pa.int32())}
        ),
    )


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["min, max", "first 3 of each group", "join with a dimension"])
def test_a_worker_has_less_than_512_mib_of_its_own(
    name: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a view over a million rows is created, and refreshed after all have changed."""
    monkeypatch.syspath_prepend(str(ROOT))
    sizes = import_module("benchmarks.workloads.views.sizes")
    workbench = import_module("benchmarks.workbench")
    size = workbench.Size(rows=1_000_000, turns=1, batches=1, scale=1.0)
    monkeypatch.setattr(workbench.Workbench, "spark", spark)
    with workbench.Workbench(size) as bench, bench.store() as store:
        facts = sizes._Facts(bench, relstate.connect(spark, store.path))
        measured = [facts.create(sizes.VIEWS[name]), *(facts.refresh(size.rows) for _ in range(2))]
        assert max(run.worker_bytes for run in measured) < 512 * MIB
