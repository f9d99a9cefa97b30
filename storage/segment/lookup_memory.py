"""The memory that a process may take for what makes lookups faster.

Matrices of filters have a budget of their own: indexes are the size of the keys of whole files, and
would leave no memory for them.

Promises: no more is reserved than there is. Safe between threads, and after a fork.
Does not know: what the memory holds.
"""

from __future__ import annotations

from ..forklock import ForkLock

_MOST_FILTER_BYTES = 128 << 20
_MOST_INDEX_BYTES = 64 << 20
_MOST_DIGEST_BYTES = 16 << 20


class LookupMemory:
    """A number of bytes, of which some are reserved. Safe between threads."""

    def __init__(self, size: int) -> None:
        """``size``: in bytes."""
        self._free = size
        # An owner may be collected, and its memory released, within `reserve`.
        self._lock = ForkLock()

    def reserve(self, size: int) -> bool:
        """Return whether so many bytes were free; they are not any more."""
        with self._lock:
            if size > self._free:
                return False
            self._free -= size
            return True

    def release(self, size: int) -> None:
        """Free so many bytes."""
        with self._lock:
            self._free += size


filter_memory = LookupMemory(_MOST_FILTER_BYTES)
"""For matrices of the filters of files: see filtermatrix.py."""
index_memory = LookupMemory(_MOST_INDEX_BYTES)
"""For indexes of keys (keyindex.py), and slots (table/keylookups.py)."""
digest_memory = LookupMemory(_MOST_DIGEST_BYTES)
"""For hashes of keys (table/keydigests.py)."""
