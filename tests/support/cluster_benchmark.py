"""The workload of the benchmarks on a cluster, for a driver of the tests: see drivers."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

from relstate.storage import Store

from .sources import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROWS = 800


def measure(spark: SparkSession, path: str) -> dict[str, float]:
    """Return what each part of the workload measures, after checking what it did."""
    # The benchmarks are a program and not installed.
    sys.path.insert(0, str(ROOT))
    workload = importlib.import_module("benchmarks.workloads.cluster")
    workbench = importlib.import_module("benchmarks.workbench")
    rows = importlib.import_module("benchmarks.rows")
    workload.TASKS = 2  # type: ignore[attr-defined]  # as many as run at once
    seconds: dict[str, float] = {}
    with Store.create(path) as store:
        for name in ("t", "written"):
            workbench.new_table(store, name)
        for part in workbench.eighths(_ROWS):
            workbench.write(store, "t", rows.batches(part))
        workload.create_view(spark, path)
        seconds["scan"] = workload.scan_table(spark, path)
        seconds["write"] = workload.append_rows(spark, path, "written", _ROWS)
        assert store.table("written").count() == _ROWS
        # Half of them are new.
        workbench.write(store, "t", rows.batches(range(_ROWS // 2, _ROWS * 3 // 2)))
        seconds["refresh"] = workload.refresh_views(spark, path)
        counts = store.table("t").to_arrow().num_rows, store.table("v").to_dicts(["n"])
        assert counts[0] == _ROWS * 3 // 2 == sum(row["n"] for row in counts[1])
    return seconds
