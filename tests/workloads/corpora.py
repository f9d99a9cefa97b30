"""The workloads by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .clickbench import generator as clickbench
from .dialect import generator as dialect
from .nexmark import generator as nexmark
from .tpcds import generator as tpcds
from .tpch import generator as tpch
from .workload import Workload

WORKLOADS: Mapping[str, Callable[[], Workload]] = {
    "nexmark": nexmark.workload,
    "tpch": tpch.workload,
    "clickbench": clickbench.workload,
    "tpcds": tpcds.workload,
    "dialect": dialect.workload,
}
