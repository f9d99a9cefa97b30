"""The workloads of materialized views."""

from .append_only import append_only
from .backfill import backfill
from .bad_rows import bad_rows
from .epochs import epochs
from .freshness import freshness
from .latency import latency
from .memory import memory
from .range_join import range_join
from .redis import redis_view
from .refresh import refresh
from .sizes import sizes
from .windows import windows

__all__ = [
    "append_only",
    "backfill",
    "bad_rows",
    "epochs",
    "freshness",
    "latency",
    "memory",
    "range_join",
    "redis_view",
    "refresh",
    "sizes",
    "windows",
]
