"""The workloads of materialized views."""

from .append_only import append_only
from .backfill import backfill
from .epochs import epochs
from .latency import latency
from .memory import memory
from .range_join import range_join
from .refresh import refresh
from .windows import windows

__all__ = [
    "append_only",
    "backfill",
    "epochs",
    "latency",
    "memory",
    "range_join",
    "refresh",
    "windows",
]
