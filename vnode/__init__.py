"""Virtual nodes: where a row belongs, and who owns that place.

A row's distribution key hashes to a vnode (hash, scalar, on the algorithm in xxh64); a mapping
says which parallel unit owns each vnode (mapping); contiguous groups of vnodes are shards and
partitions (group).

Promises: pure functions and values, the same answer everywhere and for ever.
Does not know: tables, files, Spark; it does no I/O.
"""

from .group import (
    DEFAULT_SHARDS,
    DEFAULT_VNODE_COUNT,
    MAX_VNODE_COUNT,
    check_vnode_count,
    even_ranges,
    groups,
    shard_of,
    shard_ranges,
    shards_of,
)
from .hash import vnodes_of, xxhash64
from .mapping import Move, VnodeMapping
from .scalar import scalar_hasher

__all__ = [
    "DEFAULT_SHARDS",
    "DEFAULT_VNODE_COUNT",
    "MAX_VNODE_COUNT",
    "Move",
    "VnodeMapping",
    "check_vnode_count",
    "even_ranges",
    "groups",
    "scalar_hasher",
    "shard_of",
    "shard_ranges",
    "shards_of",
    "vnodes_of",
    "xxhash64",
]
