"""The workloads by name, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ..figure import Figure
from ..workbench import Workbench
from .change_feed import change_feed
from .cluster import cluster_workers
from .cold import cold
from .commit import commit
from .compaction import compaction
from .document import document_cells, document_patch, document_scan
from .document_update import document_update
from .epochs import epochs
from .growth import growth
from .index import index_lookup, index_write
from .lookup import get, get_rows
from .memory import memory
from .microbatch import microbatch
from .objects import objects
from .opening import opening
from .redis import redis
from .spark_scan import spark_scan
from .spark_write import spark_write
from .sql_aggregate import sql_aggregate
from .sql_change import sql_change
from .sql_lookup import sql_lookup
from .table_scan import table_scan
from .upsert import upsert
from .views import (
    append_only,
    backfill,
    bad_rows,
    freshness,
    latency,
    range_join,
    redis_view,
    refresh,
    sizes,
    windows,
)
from .views import epochs as view_epochs
from .views import memory as view_memory
from .views.public import nexmark, tpch
from .vnodes import vnodes

Workload = Callable[[Workbench], Iterator[Figure]]

WORKLOADS: Mapping[str, Workload] = {
    "table-scan": table_scan,
    "get": get,
    "get-rows": get_rows,
    "index-lookup": index_lookup,
    "index-write": index_write,
    "document-scan": document_scan,
    "document-patch": document_patch,
    "document-cells": document_cells,
    "document-update": document_update,
    "change-feed": change_feed,
    "commit": commit,
    "open": opening,
    "cold": cold,
    "object-store": objects,
    "cluster": cluster_workers,
    "redis": redis,
    "epochs": epochs,
    "compaction": compaction,
    "spark-scan": spark_scan,
    "spark-write": spark_write,
    "sql-lookup": sql_lookup,
    "sql-aggregate": sql_aggregate,
    "sql-change": sql_change,
    "micro-batch": microbatch,
    "upsert": upsert,
    "memory": memory,
    "growth": growth,
    "vnodes": vnodes,
    "view-refresh": refresh,
    "view-latency": latency,
    "view-freshness": freshness,
    "view-redis": redis_view,
    "view-backfill": backfill,
    "view-append-only": append_only,
    "view-range-join": range_join,
    "view-epochs": view_epochs,
    "view-windows": windows,
    "view-bad-rows": bad_rows,
    "view-memory": view_memory,
    "view-sizes": sizes,
    "view-nexmark": nexmark,
    "view-tpch": tpch,
}
