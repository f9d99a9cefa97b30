"""The hashes of a table's keys in a small file, kept in memory as long as the file is open.

After a commit the other files of a table are the same, so only those of the new one are computed.
They take four bytes of memory per entry, of a memory of their own (see segment/lookup_memory.py).

Promises: every key that is not long is there. Safe between threads.
Does not know: which files a table has.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..segment.longkey import GROUP_KEY_BYTES
from ..segment.lookup_memory import digest_memory
from ..segment.segment import SegmentFile
from .encoding import Encoding

# So many leaf pages have arrays that the allocator keeps: pages from the system would cost more.
_LEAVES_AT_ONCE = 64
_BYTES_PER_ENTRY = 4


@dataclass(frozen=True, slots=True, weakref_slot=True)
class KeyDigests:
    """The lower 32 bits of the hash of each key's distribution key, in key order.

    ``counts``: how many keys each vnode has.
    """

    digests: NDArray[np.uint32]
    counts: NDArray[np.int64]


_OfTables: TypeAlias = dict[int, KeyDigests]
_known: weakref.WeakKeyDictionary[SegmentFile, _OfTables] = weakref.WeakKeyDictionary()


def has_digests(file: SegmentFile, table_id: int) -> bool:
    """Return whether those of a table in a file are in memory."""
    return table_id in _known.get(file, ())


def digests_of(file: SegmentFile, encoding: Encoding) -> KeyDigests:
    """Return those of a table in a file, and keep them.

    Where the memory is full, all others are forgotten: those of files that nobody reads any more
    would fill it. CorruptionError, naming the file, if a page is damaged.
    """
    known = _known.get(file, {}).get(encoding.table_id)
    if known is not None:
        return known
    digests = _read_digests(file, encoding)
    size = len(digests.digests) * _BYTES_PER_ENTRY
    if not digest_memory.reserve(size):
        _known.clear()
        if not digest_memory.reserve(size):
            return digests
    weakref.finalize(digests, digest_memory.release, size)
    _known.setdefault(file, {})[encoding.table_id] = digests
    return digests


def _read_digests(file: SegmentFile, encoding: Encoding) -> KeyDigests:
    digests: list[NDArray[np.uint32]] = [np.empty(0, np.uint32)]
    counts = np.zeros(encoding.vnode_count, np.int64)
    low, high = encoding.vnode_bounds(range(encoding.vnode_count))
    for buffer, starts, lengths in file.keys_between(low, high, _LEAVES_AT_ONCE):
        is_short = lengths < GROUP_KEY_BYTES
        if not is_short.all():
            # The rows of long keys are left to the general way.
            starts, lengths = starts[is_short], lengths[is_short]
        digests.append(encoding.key_hashes(buffer, starts, lengths).astype(np.uint32))
        vnodes = encoding.prefix.vnodes_at(buffer, starts)
        counts += np.bincount(vnodes, minlength=encoding.vnode_count)
    return KeyDigests(np.concatenate(digests), counts)
