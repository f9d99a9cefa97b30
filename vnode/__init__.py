"""Virtual nodes: which one a row belongs to, and which unit owns it.

A row's distribution key hashes to a vnode: hash (columns, or one row) over xxh64 (the algorithm)
and canonical (the forms of Python values). Ranges of vnodes are shards, and a mapping says which
parallel unit owns each vnode (mapping). What all layers need besides is the property without a lock
(cached_property).

Promises: pure functions and values, the same answer everywhere and for ever.
Does not know: tables, files, Spark; it does no I/O.
"""

from .cached_property import cached_property
from .canonical import canonical_form, canonical_row, struct_values
from .hash import SEED as HASH_SEED
from .hash import canonical_hasher, form_packer, scalar_hasher, vnodes_of, xxhash64
from .mapping import (
    DEFAULT_SHARDS,
    DEFAULT_VNODE_COUNT,
    MAX_VNODE_COUNT,
    VnodeMapping,
    shard_ranges,
    shards_of,
)
from .xxh64 import hash_bytes

__all__ = [
    "DEFAULT_SHARDS",
    "DEFAULT_VNODE_COUNT",
    "HASH_SEED",
    "MAX_VNODE_COUNT",
    "VnodeMapping",
    "cached_property",
    "canonical_form",
    "canonical_hasher",
    "canonical_row",
    "form_packer",
    "hash_bytes",
    "scalar_hasher",
    "shard_ranges",
    "shards_of",
    "struct_values",
    "vnodes_of",
    "xxhash64",
]
