"""Parts of a segment that is in a bucket and not on this machine, for the lookup of a few rows.

Promises: every byte that is returned was verified, by the hash of its block; the index of the
blocks is of the object whose hash the log has; a block is fetched once while it is kept.
Does not know: what the parts mean, or how the rest comes here.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable

from .packing import BlockIndex, block_index, index_bytes

# What is read first: the index of a segment of 250 MB, or a smaller one and the first block.
_START_BYTES = 16 << 10
_MOST_BLOCKS = 16


class Parts:
    """Reads parts of one segment. Safe between threads."""

    def __init__(
        self,
        fetch: Callable[[int, int], tuple[bytes, int]],
        whole: Callable[[], bytes],
        digest: str,
    ) -> None:
        """``fetch``: returns a range of the object, which may end before the range does, and the
        size of the object; ``whole``: returns the segment, for an object without an index;
        ``digest``: its hash.
        """
        self._fetch, self._whole, self._digest = fetch, whole, digest
        self._lock = threading.Lock()
        self._start = b""
        self._index: BlockIndex | None = None
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._content: bytes | None = None

    def read(self, start: int, stop: int) -> bytes:
        """Return bytes of the segment; it may have fewer. ValueError for damage, and the errors of
        the fetches.
        """
        with self._lock:
            if self._content is None and self._index is None:
                self._open()
            if self._index is None:
                assert self._content is not None
                return self._content[start:stop]
            return self._read(self._index, start, stop)

    def _open(self) -> None:
        start, object_size = self._fetch(0, _START_BYTES)
        size = index_bytes(start)
        if size is None:
            self._content = self._whole()
            return
        if len(start) < size <= object_size:
            start += self._fetch(len(start), size)[0]
        index = block_index(start)
        if index.digest != self._digest:
            raise ValueError(f"a segment of hash {index.digest}")
        if index.object_size != object_size:
            raise ValueError(f"an object of {object_size} bytes instead of {index.object_size}")
        self._start, self._index = start, index

    def _read(self, index: BlockIndex, start: int, stop: int) -> bytes:
        stop = min(stop, index.size)
        if not 0 <= start < stop:
            return b""
        first = bisect_right(index.starts, start) - 1
        last = bisect_right(index.starts, stop - 1) - 1
        self._load(index, first, last)
        blocks = [self._blocks[number] for number in range(first, last + 1)]
        while len(self._blocks) > _MOST_BLOCKS:
            self._blocks.popitem(last=False)
        content = b"".join(blocks)
        return content[start - index.starts[first] : stop - index.starts[first]]

    def _load(self, index: BlockIndex, first: int, last: int) -> None:
        """Fetch those of some blocks that are missing, by one request."""
        missing = []
        for number in range(first, last + 1):
            if number in self._blocks:
                self._blocks.move_to_end(number)
            else:
                missing.append(number)
        if not missing:
            return
        offset = index.stored_starts[missing[0]]
        data = memoryview(self._stored(offset, index.stored_starts[missing[-1] + 1]))
        for number in missing:
            begin, end = index.stored_starts[number], index.stored_starts[number + 1]
            self._blocks[number] = index.block(number, data[begin - offset : end - offset])

    def _stored(self, start: int, stop: int) -> bytes:
        if stop <= len(self._start):
            return self._start[start:stop]
        return self._fetch(start, stop)[0]
