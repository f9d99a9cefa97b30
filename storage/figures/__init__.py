"""Figures of a store for people: sizes of tables, files, and what maintenance would do.

Promises: pure functions of a state, or reads that change nothing; the cost of each is stated.
Does not know: how figures are shown.
"""

from .files import (
    CompactionForecast,
    DamagedFiles,
    DiskUse,
    ShardFiles,
    damaged_files,
    disk_use,
    forecast_compaction,
    shard_files,
)
from .row_size import typical_row_bytes
from .sizes import TableSize, table_size, table_sizes
from .vnodes import VnodeSizes, vnode_sizes

__all__ = [
    "CompactionForecast",
    "DamagedFiles",
    "DiskUse",
    "ShardFiles",
    "TableSize",
    "VnodeSizes",
    "damaged_files",
    "disk_use",
    "forecast_compaction",
    "shard_files",
    "table_size",
    "table_sizes",
    "typical_row_bytes",
    "vnode_sizes",
]
