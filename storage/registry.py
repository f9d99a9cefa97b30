"""The segments a process has open.

Promises: each file is open once a process, however many read it (LMDB refuses a second opening);
a file's size is checked before every opening and its hash before the first one; the number of
files kept open for later stays within a share of the process's descriptor limit.
Does not know: what reads a segment, and for how long: a segment stays open while anyone holds it.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict

import xxhash

from .entry import SegmentRecord
from .environment import Environment, after_fork, descriptor_limit
from .errors import CorruptionError, SegmentMissingError
from .paths import segment_path
from .ragged import Buffer
from .segment import SegmentFile

# Each open segment holds two descriptors: LMDB's and that of the map scans read.
_DESCRIPTORS_A_SEGMENT = 2


class SegmentRegistry:
    """Open segments by path. Safe between threads and right across ``fork``."""

    def __init__(self, kept: int) -> None:
        """``kept``: how many segments to keep open when nobody holds them."""
        self._kept = kept
        self._lock = threading.Lock()
        self._open: weakref.WeakValueDictionary[str, SegmentFile] = weakref.WeakValueDictionary()
        self._recent: OrderedDict[str, SegmentFile] = OrderedDict()
        self._verified: set[tuple[str, str]] = set()

    def open(
        self, environment: Environment, record: SegmentRecord, verify: str = "hash"
    ) -> SegmentFile:
        """Return the open segment that ``record`` describes.

        ``verify``: "hash" reads a file whole once a process; "size" trusts the disk.
        SegmentMissingError if there is no such file; CorruptionError, naming the file, if its
        size or hash is not the log's.
        """
        path = environment.local_path(segment_path(record.name))
        with self._lock:
            segment = self._open.get(path)
            if segment is None:
                segment = SegmentFile(path, self._whole(environment, record, path, verify))
                self._open[path] = segment
            self._recent[path] = segment
            self._recent.move_to_end(path)
            while len(self._recent) > self._kept:
                self._recent.popitem(last=False)
            return segment

    def close(self, folder: str) -> None:
        """Forget the segments kept open under ``folder``; those in use close when let go."""
        with self._lock:
            for path in [path for path in self._recent if path.startswith(folder)]:
                del self._recent[path]

    def renew_lock(self) -> None:
        """Replace the lock, which another thread may have held when this process forked."""
        self._lock = threading.Lock()

    def verify(self, environment: Environment, record: SegmentRecord) -> None:
        """Read a file whole, whether or not it was before. The errors of `open`."""
        path = environment.local_path(segment_path(record.name))
        _check_hash(_sized(environment, record, path), record, path)

    def _whole(
        self, environment: Environment, record: SegmentRecord, path: str, verify: str
    ) -> Buffer:
        contents = _sized(environment, record, path)
        known = (path, record.hash)
        if verify == "hash" and known not in self._verified:
            _check_hash(contents, record, path)
            self._verified.add(known)
        return contents


def _sized(environment: Environment, record: SegmentRecord, path: str) -> Buffer:
    """Return the map of a file that has the size the log says."""
    try:
        contents = environment.map(segment_path(record.name))
    except FileNotFoundError as error:
        raise SegmentMissingError(
            f"{path}: the log names this segment but the file is gone; if it was vacuumed "
            "under a long reader, read again, else restore it from a backup"
        ) from error
    if len(contents) != record.size:
        raise CorruptionError(
            f"{path}: {len(contents)} bytes, but the log says {record.size}; the file was "
            "truncated or replaced: restore it from a backup"
        )
    return contents


def _check_hash(contents: Buffer, record: SegmentRecord, path: str) -> None:
    found = xxhash.xxh3_64_hexdigest(contents.data)
    if found != record.hash:
        raise CorruptionError(
            f"{path}: hash {found}, but the log says {record.hash}; the file was changed "
            "after it was published: restore it from a backup"
        )


registry = SegmentRegistry(descriptor_limit() // (4 * _DESCRIPTORS_A_SEGMENT))
after_fork(registry.renew_lock)
