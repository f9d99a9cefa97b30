"""Segments on their way to this machine, which are read while they arrive.

A segment's object is fetched in portions, by some threads that all segments share: the first, which
has the index of its blocks, then the last block, which has the upper pages of the tree, and what is
between in its order; a portion that a reader waits for goes before all others. The threads end
when nothing is left to fetch.

Promises: a reader gets only bytes that were verified by the hash of their block, and waits for
these alone; the whole appears in the cache after its hash was verified, too; each process of the
machine that needs a segment waits for the one that fetches it; nothing is fetched that nobody reads
any more, and the process ends without waiting for more than the requests under way.
Does not know: what is in a segment.
"""

from __future__ import annotations

import copy
import os
import threading
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import xxhash
from numpy.typing import NDArray

from ..errors import CorruptionError, FilesystemError
from .cache import Cache, PartialCopy
from .client import IsWanted
from .leases import Lease
from .packing import BlockIndex, block_index, index_bytes

AT_ONCE = 8
# Of an object: the first portion, so that readers begin early, and the largest. A segment that is
# smaller than the largest comes by one request.
_FIRST_BYTES, _PORTION_BYTES = 1 << 20, 4 << 20
# How long a thread waits that has nothing to do but to ask whether another process is ready.
_PAUSE = 0.01


@dataclass(frozen=True, slots=True)
class Origin:
    """A segment in a bucket and its place in the cache.

    ``fetch``: returns a range of the object, which may end before the range does, and the object's
    size; it takes whether that is still wanted.
    """

    location: str
    path: str
    size: int
    digest: str
    fetch: Callable[[int, int, IsWanted], tuple[bytes, int]]


class Arrival:
    """A segment on its way. Safe between threads; not across ``fork``, where reads fail.

    ``lease``: of its copy, to be kept by those who read it.
    """

    def __init__(self, origin: Origin, cache: Cache, lease: Lease, arrivals: Arrivals) -> None:
        """``arrivals``: what fetches it."""
        self.lease = lease
        self._origin, self._cache, self._arrivals = origin, cache, arrivals
        self._process, self._opener = os.getpid(), threading.current_thread()
        self._changed = threading.Condition()
        self._waiting = 0
        self._is_abandoned = self._is_whole = False
        self._failure: BaseException | None = None
        self._contents: NDArray[np.uint8] | None = None
        self._copy: PartialCopy | None = None
        self._index: BlockIndex | None = None
        # By block: the portion that it is in, and whether it is here.
        self._portions: Sequence[tuple[int, int]] = ()
        self._has = np.zeros(0, np.bool_)
        self._left = 0
        self._start = b""

    # For readers

    def abandon(self) -> None:
        """Take note that nobody will read it any more; callable in a garbage collection."""
        self._is_abandoned = True

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
        with self._changed:
            self._waiting += 1
            try:
                while not is_there():
                    if self._failure is not None:
                        raise copy.copy(self._failure)
                    self._changed.wait()
            finally:
                self._waiting -= 1

    def _has_bytes(self, start: int, stop: int) -> bool:
        if self._is_whole:
            return True
        if self._index is None:
            return False
        first = bisect_right(self._index.starts, start) - 1
        last = bisect_left(self._index.starts, min(stop, self._index.size))
        missing = np.flatnonzero(~self._has[first:last])
        if not len(missing):
            return True
        block = first + int(missing[0])
        for portion in self._portions:
            if portion[0] <= block < portion[1]:
                self._arrivals.prefer(self, portion)
        return False

    # For the threads that fetch

    @property
    def is_wanted(self) -> bool:
        """Whether to go on: somebody reads it, and the process does not end."""
        return not self._is_abandoned and (
            self._waiting > 0
            or threading.main_thread().is_alive()
            or (self._opener.is_alive() and not self._opener.daemon)
        )

    def check_wanted(self) -> None:
        """Raise FilesystemError unless it is wanted."""
        if not self.is_wanted:
            raise FilesystemError(
                f"{self._origin.location}: nobody reads it any more, or the process ends"
            )

    @property
    def has_failed(self) -> bool:
        """Whether it cannot come."""
        return self._failure is not None

    def begin(self) -> Sequence[tuple[int, int]] | None:
        """Fetch the first portion, which `take_start` takes; return the others, the most urgent
        first.

        None if the segment is being fetched for someone else now.
        """
        origin = self._origin
        self._copy = self._cache.begin(origin.path, origin.size)
        if self._copy is None:
            if not self._cache.contains(origin.path, origin.size):
                return None
            self._end(self._cache.map(origin.path))
            return ()
        is_small = origin.size <= _PORTION_BYTES
        start, object_size = self._fetch(0, _PORTION_BYTES if is_small else _FIRST_BYTES)
        if index_bytes(start) is None:
            self._take_unpacked(start, object_size)
            return ()
        index = block_index(start)
        if (index.size, index.digest) != (origin.size, origin.digest):
            raise ValueError(f"{index.size} bytes of hash {index.digest}")
        if index.object_size != object_size:
            raise ValueError(f"an object of {object_size} bytes instead of {index.object_size}")
        contents = self._cache.map(self._copy.temporary)
        first = bisect_right(index.stored_starts, len(start)) - 1
        portions = _portions(index, first)
        with self._changed:
            self._index, self._contents, self._start = index, contents, start
            self._has = np.zeros(len(index.hashes), np.bool_)
            self._portions, self._left = portions, len(portions) + 1
        return [*portions[-1:], *portions[:-1]]

    def take_start(self) -> None:
        """Take the blocks in the first portion."""
        if self._index is not None and not self._is_whole:
            start, self._start = memoryview(self._start), b""
            last = bisect_right(self._index.stored_starts, len(start)) - 1
            self._take_portion(0, last, start[self._index.stored_starts[0] :])

    def _take_unpacked(self, start: bytes, object_size: int) -> None:
        """Take an object that is the segment itself, and has no hashes of blocks."""
        assert self._copy is not None
        content = start
        if len(start) < object_size:
            content += self._fetch(len(start), object_size)[0]
        digest = xxhash.xxh3_64_hexdigest(content)
        if (len(content), digest) != (self._origin.size, self._origin.digest):
            raise ValueError(f"{len(content)} bytes of hash {digest}")
        self._copy.write(0, content)
        self._keep()

    def fetch(self, portion: tuple[int, int]) -> None:
        """Fetch a portion: blocks from one to, not including, another."""
        assert self._index is not None
        first, last = portion
        start, stop = self._index.stored_starts[first], self._index.stored_starts[last]
        content, _ = self._fetch(start, stop)
        if len(content) != stop - start:
            raise ValueError(f"{len(content)} bytes of an object instead of {stop - start}")
        self._take_portion(first, last, memoryview(content))

    def _fetch(self, start: int, stop: int) -> tuple[bytes, int]:
        return self._origin.fetch(start, stop, lambda: self.is_wanted)

    def _take_portion(self, first: int, last: int, data: memoryview) -> None:
        """Take some blocks; with the last ones, the whole segment."""
        assert self._index is not None
        assert self._copy is not None
        starts, stored = self._index.starts, self._index.stored_starts
        for number in range(first, last):
            begin, end = stored[number] - stored[first], stored[number + 1] - stored[first]
            self._copy.write(starts[number], self._index.block(number, data[begin:end]))
            with self._changed:
                self._has[number] = True
                self._changed.notify_all()
        with self._changed:
            self._left -= 1
            is_last = not self._left
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


class Arrivals:
    """The threads that fetch segments; they end when nothing is left. Safe between threads."""

    def __init__(self, cache: Cache) -> None:
        """``cache``: where the segments arrive."""
        self._cache = cache
        self._lock = threading.Lock()
        # What to do next: of an arrival a portion, or its beginning.
        self._steps: deque[tuple[Arrival, tuple[int, int] | None]] = deque()
        self._threads = 0
        self._pause = threading.Event()

    def start(self, origin: Origin, lease: Lease) -> Arrival:
        """Return a segment on its way. ``lease``: of its copy."""
        arrival = Arrival(origin, self._cache, lease, self)
        self._add([(arrival, None)])
        return arrival

    def prefer(self, arrival: Arrival, portion: tuple[int, int]) -> None:
        """Fetch a portion before all others, unless that has begun."""
        step = (arrival, portion)
        with self._lock:
            if step in self._steps:
                self._steps.remove(step)
                self._steps.appendleft(step)

    def _add(self, steps: Sequence[tuple[Arrival, tuple[int, int] | None]]) -> None:
        """Add steps, and threads for them; without any thread, do them here."""
        with self._lock:
            self._steps.extend(steps)
            for _ in range(min(AT_ONCE - self._threads, len(self._steps))):
                # Not a daemon: those must not be in a library's code when the process ends.
                thread = threading.Thread(target=self._run, name="relstate-fetch")
                try:
                    thread.start()
                except RuntimeError:
                    # The process may have no more threads.
                    break
                self._threads += 1
            if self._threads:
                return
            self._threads += 1
        self._run()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._steps:
                    self._threads -= 1
                    return
                arrival, portion = self._steps.popleft()
            if arrival.has_failed:
                continue
            try:
                self._do(arrival, portion)
            except BaseException as error:
                # Whatever it is, it is the reader's: nobody else waits for this thread.
                arrival.fail(error)

    def _do(self, arrival: Arrival, portion: tuple[int, int] | None) -> None:
        arrival.check_wanted()
        if portion is not None:
            arrival.fetch(portion)
            return
        portions = arrival.begin()
        if portions is None:
            self._pause.wait(_PAUSE)
            self._add([(arrival, None)])
        else:
            self._add([(arrival, portion) for portion in portions])
            arrival.take_start()


def _portions(index: BlockIndex, first: int) -> list[tuple[int, int]]:
    """Return the blocks from the first on in portions: each twice the one before, up to
    `_PORTION_BYTES`, and the last block, which has the upper pages of the tree.
    """
    stored, last = index.stored_starts, len(index.hashes) - 1
    bounds, size = [first], _FIRST_BYTES
    while bounds[-1] < last:
        size = min(2 * size, _PORTION_BYTES)
        stop = bisect_right(stored, stored[bounds[-1]] + size) - 1
        bounds.append(min(max(stop, bounds[-1] + 1), last))
    if first <= last:
        bounds.append(last + 1)
    return list(pairwise(bounds))
