"""A segment on its way to this machine, which is read while it arrives.

Its object is fetched by ranges, in portions, each of which is used as its bytes come: the first,
which has the index of its blocks, then the upper pages of its tree, which are last, then what is
after the place that is read.

Promises: a reader gets only bytes that were verified by the hash of their block, and waits for
these alone; the whole appears in the cache after its hash was verified, too.
Does not know: what is in a segment; which thread fetches it, or when.
"""

from __future__ import annotations

import copy
import os
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import xxhash
from numpy.typing import NDArray

from ..errors import CorruptionError, FilesystemError
from .cache import Cache, PartialCopy
from .client import IsWanted, Take
from .leases import Lease
from .packing import BlockIndex, block_index, index_bytes

Portion: TypeAlias = tuple[int, int]
"""Blocks of a segment, from one to, not including, another."""

# Of an object: the first portion, so that readers begin early, and the largest. A segment that is
# smaller than the largest comes by one request.
_FIRST_BYTES, _PORTION_BYTES = 1 << 20, 4 << 20
# The pages above the leaves are in the last 1 / _UPPER_SHARE of a segment, unless keys are long.
_UPPER_SHARE = 64


@dataclass(frozen=True, slots=True)
class Origin:
    """A segment in a bucket and its place in the cache.

    ``fetch``: reads a range of the object, which may end before the range does, and returns the
    object's size; it takes what is called with the pieces of the range and the object's size, and
    whether the range is still wanted.
    """

    location: str
    path: str
    size: int
    digest: str
    fetch: Callable[[int, int, Take, IsWanted], int]


class Arrival:
    """A segment on its way. Safe between threads; not across ``fork``, where reads fail.

    ``lease``: of its copy, to be kept by those who read it. ``position``: the block that was read
    last, None before anybody has begun to read. ``is_behind``: to be fetched though nobody reads
    it.
    """

    def __init__(self, origin: Origin, cache: Cache, lease: Lease, *, is_behind: bool) -> None:
        """``lease``: of its copy, which is to be made in ``cache``."""
        self.lease = lease
        self.position: int | None = None
        self._origin, self._cache = origin, cache
        self._process, self._opener = os.getpid(), threading.current_thread()
        self._changed = threading.Condition()
        self._waiting = 0
        self.is_behind = is_behind
        # One for each who wants it. A list: its methods cannot be interrupted.
        self._readers = [None] if is_behind else []
        self._is_whole = False
        self._failure: BaseException | None = None
        self._contents: NDArray[np.uint8] | None = None
        self._copy: PartialCopy | None = None
        self._index: BlockIndex | None = None
        # Which blocks are here.
        self._has = np.zeros(0, np.bool_)
        self._first_upper = 0
        self._left = 0

    # For readers

    def join(self) -> None:
        """Take note of one more who reads it."""
        self._readers.append(None)
        self.is_behind = False

    def abandon(self) -> None:
        """Take note that one reader will read it no more; callable in a garbage collection."""
        self._readers.pop()

    def announce(self) -> None:
        """Take note that it is read from now on, before those that nobody has begun to read."""
        if self.position is None:
            self.position = 0

    def contents(self) -> NDArray[np.uint8]:
        """Return the map of the segment, in which only what was waited for may be read.

        FileNotFoundError; CorruptionError, StorageFullError or FilesystemError if it cannot come.
        """
        if self._contents is None:
            self._wait_until(lambda: self._contents is not None)
        assert self._contents is not None
        return self._contents

    def wait(self, start: int, stop: int) -> None:
        """Wait until some bytes of the segment are here. The errors of `contents`."""
        if not self._is_whole:
            self._wait_until(lambda: self._has_bytes(start, stop))

    def wait_for_all(self) -> None:
        """Wait until the segment is here and is in the cache. The errors of `contents`."""
        if not self._is_whole:
            self._wait_until(lambda: self._is_whole)

    def _wait_until(self, is_there: Callable[[], bool]) -> None:
        if os.getpid() != self._process:
            raise FilesystemError(
                f"{self._origin.location}: it was being fetched when this process was forked; a "
                "process that has used an object store must not be forked: use spawn"
            )
        self.announce()
        with self._changed:
            self._waiting += 1
            try:
                while True:
                    # In this order: after a failure blocks are no longer written.
                    has_come = is_there()
                    if self._failure is not None:
                        raise copy.copy(self._failure)
                    if has_come:
                        return
                    self._changed.wait()
            finally:
                self._waiting -= 1

    def _has_bytes(self, start: int, stop: int) -> bool:
        if self._is_whole:
            return True
        index = self._index
        if index is None:
            return False
        first = bisect_right(index.starts, start) - 1
        last = bisect_left(index.starts, min(stop, index.size))
        missing = np.flatnonzero(~self._has[first:last])
        block = first + int(missing[0]) if len(missing) else last - 1
        # Who walks down the tree does not read on from there.
        if block < self._first_upper:
            self.position = block
        return not len(missing)

    # For the threads that fetch

    @property
    def is_waited_for(self) -> bool:
        """Whether a thread waits for it now."""
        return self._waiting > 0

    @property
    def is_wanted(self) -> bool:
        """Whether to go on: somebody reads it, and the process does not end."""
        return bool(self._readers) and (
            self._waiting > 0
            or threading.main_thread().is_alive()
            or (self._opener.is_alive() and not self._opener.daemon)
        )

    @property
    def has_failed(self) -> bool:
        """Whether it cannot come."""
        return self._failure is not None

    @property
    def is_whole(self) -> bool:
        """Whether it is in the cache."""
        return self._is_whole

    def distance(self, portion: Portion) -> int:
        """Return how many bytes of the segment are between what is read and a portion."""
        index, block = self._index, self.position or 0
        if index is None:
            return 0
        first, last = portion
        if first >= self._first_upper:
            return 0
        nearest = min(max(block, first), last - 1)
        return abs(index.starts[nearest] - index.starts[block])

    def begin(self, add: Callable[[Sequence[Portion]], None]) -> bool:
        """Fetch the first portion; ``add`` takes the others, before all of the first has come.

        False if the segment is being fetched for someone else now.
        """
        origin = self._origin
        self._copy = self._cache.begin(origin.path, origin.size)
        if self._copy is None:
            if not self._cache.contains(origin.path, origin.size):
                return False
            self._end(self._cache.map(origin.path))
            return True
        is_small = origin.size <= _PORTION_BYTES
        stop = _PORTION_BYTES if is_small else _FIRST_BYTES
        start = _Start(self, add, stop)
        object_size = self._fetch(0, stop, start.take)
        if self._index is None:
            self._take_unpacked(start.content, object_size)
        elif start.blocks is not None:
            start.blocks.end()
        return True

    def open_index(
        self,
        start: memoryview,
        object_size: int,
        stop: int,
        add: Callable[[Sequence[Portion]], None],
    ) -> _Blocks:
        """Take the index, in the first bytes of the object; return what takes the next bytes.

        ``stop``: where the first portion ends. The errors of `block_index`.
        """
        origin, index = self._origin, block_index(start)
        if (index.size, index.digest) != (origin.size, origin.digest):
            raise ValueError(f"{index.size} bytes of hash {index.digest}")
        if index.object_size != object_size:
            raise ValueError(f"an object of {object_size} bytes instead of {index.object_size}")
        assert self._copy is not None
        contents = self._cache.map(self._copy.temporary)
        upper = index.size - index.size // _UPPER_SHARE
        first_upper = max(bisect_right(index.starts, upper) - 1, 0)
        first = max(bisect_right(index.stored_starts, stop) - 1, 0)
        portions = _portions(index, first, max(first_upper, first))
        with self._changed:
            self._has = np.zeros(len(index.hashes), np.bool_)
            self._first_upper = first_upper
            self._left = len(index.hashes)
            self._index, self._contents = index, contents
        add(portions)
        return _Blocks(self, index, 0, first)

    def _take_unpacked(self, start: bytes, object_size: int) -> None:
        """Take an object that is the segment itself, and has no hashes of blocks."""
        assert self._copy is not None
        pieces = [start]
        if len(start) < object_size:
            self._fetch(len(start), object_size, lambda piece, _: pieces.append(bytes(piece)))
        content = b"".join(pieces)
        digest = xxhash.xxh3_64_hexdigest(content)
        if (len(content), digest) != (self._origin.size, self._origin.digest):
            raise ValueError(f"{len(content)} bytes of hash {digest}")
        self._copy.write(0, content)
        self._keep()

    def fetch(self, portion: Portion) -> None:
        """Fetch a portion."""
        assert self._index is not None
        blocks = _Blocks(self, self._index, *portion)
        stored = self._index.stored_starts
        self._fetch(stored[portion[0]], stored[portion[1]], lambda piece, _: blocks.take(piece))
        blocks.end()

    def _fetch(self, start: int, stop: int, take: Take) -> int:
        return self._origin.fetch(start, stop, take, lambda: self.is_wanted)

    def take_block(self, number: int, content: bytes) -> None:
        """Take a verified block; with the last one, the whole segment."""
        assert self._index is not None
        assert self._copy is not None
        self._copy.write(self._index.starts[number], content)
        with self._changed:
            self._has[number] = True
            self._left -= 1
            is_last = not self._left
            self._changed.notify_all()
        if is_last:
            self._finish()

    def _finish(self) -> None:
        """Verify the whole and give it its place in the cache."""
        assert self._contents is not None
        digest = xxhash.xxh3_64_hexdigest(self._contents.data)
        if digest != self._origin.digest:
            raise ValueError(f"{self._origin.size} bytes of hash {digest}")
        self._keep()

    def _keep(self) -> None:
        assert self._copy is not None
        self._copy.keep()
        self._copy = None
        contents = self._contents
        self._end(self._cache.map(self._origin.path) if contents is None else contents)

    def _end(self, contents: NDArray[np.uint8]) -> None:
        with self._changed:
            self._contents, self._is_whole = contents, True
            self._changed.notify_all()

    def give_up(self) -> None:
        """Take note that it does not come, because nobody wants it."""
        self.fail(
            FilesystemError(
                f"{self._origin.location}: nobody reads it any more, or the process ends"
            )
        )

    def fail(self, error: BaseException) -> None:
        """Take note that the segment cannot come, and give up its copy."""
        origin = self._origin
        if isinstance(error, ValueError):
            error = CorruptionError(
                f"{origin.location}: {error}, but the log says {origin.size} bytes of hash "
                f"{origin.digest}; the object was changed after it was published: restore it from "
                "a backup"
            )
        with self._changed:
            if self._failure is not None:
                return
            self._failure = error
            self._changed.notify_all()
        # Other threads may still write to it: that does nothing then.
        if self._copy is not None:
            self._copy.discard()


class _Start:
    """The first portion of an object, as its pieces come."""

    def __init__(
        self, arrival: Arrival, add: Callable[[Sequence[Portion]], None], stop: int
    ) -> None:
        self._arrival, self._add, self._stop = arrival, add, stop
        self.content = b""
        self.blocks: _Blocks | None = None

    def take(self, piece: memoryview, object_size: int) -> None:
        if self.blocks is not None:
            self.blocks.take(piece)
            return
        self.content += piece
        # No magic: the object has no index, and all of it is needed.
        size = index_bytes(self.content)
        if size is None or len(self.content) < min(size, object_size):
            return
        content = memoryview(self.content)
        self.blocks = self._arrival.open_index(content, object_size, self._stop, self._add)
        self.blocks.take(content[size:])
        self.content = b""


class _Blocks:
    """Some blocks of an object, which are taken as soon as all bytes of each have come."""

    def __init__(self, arrival: Arrival, index: BlockIndex, first: int, last: int) -> None:
        self._arrival, self._index = arrival, index
        self._next, self._last = first, last
        self._rest: bytes | memoryview = b""

    def take(self, piece: memoryview) -> None:
        stored = self._index.stored_starts
        data = memoryview(b"".join((self._rest, piece))) if len(self._rest) else piece
        start = stored[self._next]
        while self._next < self._last:
            begin, end = stored[self._next] - start, stored[self._next + 1] - start
            if len(data) < end:
                data = data[begin:]
                break
            content = self._index.block(self._next, data[begin:end])
            self._arrival.take_block(self._next, content)
            self._next += 1
        else:
            data = data[:0]
        self._rest = data

    def end(self) -> None:
        """ValueError if bytes are missing."""
        if self._next < self._last:
            missing = self._index.stored_starts[self._last] - self._index.stored_starts[self._next]
            raise ValueError(f"{missing - len(self._rest)} bytes of a range are missing")


def _portions(index: BlockIndex, first: int, first_upper: int) -> list[Portion]:
    """Return the blocks from the first on in portions: each twice the one before, up to
    `_PORTION_BYTES`, and those with the upper pages of the tree.
    """
    stored, last = index.stored_starts, len(index.hashes)
    bounds, size = [first], _FIRST_BYTES
    while bounds[-1] < first_upper:
        size = min(2 * size, _PORTION_BYTES)
        stop = bisect_right(stored, stored[bounds[-1]] + size) - 1
        bounds.append(min(max(stop, bounds[-1] + 1), first_upper))
    while bounds[-1] < last:
        stop = bisect_right(stored, stored[bounds[-1]] + _PORTION_BYTES) - 1
        bounds.append(min(max(stop, bounds[-1] + 1), last))
    return list(pairwise(bounds))
