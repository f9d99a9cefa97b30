"""The segments that a process has open.

Promises: each file is open once per process, however many read it (LMDB refuses a second opening);
opening waits for no server: a file that is not on this machine is read as it arrives; a file's size
is checked at every opening, and its hash before the first read and again if the file has changed;
descriptors stay within a share of those of the process, however many segments are read. A segment
stays open while anyone holds a reference to it; of those that nobody holds, some stay open until
they are forgotten, or their files were removed by another process: each time as many have been
opened as a part of those kept, all of the store are looked for.
Does not know: who reads a segment.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

import xxhash

from ..codec.ragged import Buffer
from ..disk import descriptor_limit
from ..environment import Arriving, Environment
from ..errors import CorruptionError, RelstateError, SegmentMissingError
from ..forklock import ForkLock
from ..log.segment_record import SegmentRecord
from ..paths import SEGMENTS, parse_segment_file, segment_path
from .segment import DescriptorShare, SegmentFile

# Segments use at most this share, 1 / _SHARE, of the descriptors of the process, and at most this
# many: the kernel limits the maps of a process too.
_SHARE = 4
_MOST_KEPT = 8192
# Of so many files it is remembered that their hashes were verified: commits and merges make new
# ones for years.
_MOST_VERIFIED = 1 << 16
# Removed files are looked for after so many openings, or this share of the files that are kept.
_LEAST_OPENED, _KEPT_SHARE = 32, 4


class SegmentRegistry:
    """Open segments by path. Safe between threads and across ``fork``.

    ``opened``: how many files it has opened.
    """

    def __init__(self, capacity: int) -> None:
        """``capacity``: how many unused segments to keep open, and how many
        descriptors all open ones may take together.
        """
        self._capacity = capacity
        self._share = DescriptorShare(capacity)
        self._lock = ForkLock()
        self._open: weakref.WeakValueDictionary[str, SegmentFile] = weakref.WeakValueDictionary()
        # Held by the thread that opens the file of a path; it is gone with the last who waits.
        self._turns: weakref.WeakValueDictionary[str, ForkLock] = weakref.WeakValueDictionary()
        self._recent: OrderedDict[str, SegmentFile] = OrderedDict()
        self.opened = self._looked_at = 0
        # The hash and identity of each file, by path, when it was verified; the latest come last.
        self._verified: dict[str, tuple[str, tuple[int, ...]]] = {}

    def open(
        self, environment: Environment, record: SegmentRecord, verify: str = "hash"
    ) -> SegmentFile:
        """Return the open segment that ``record`` describes.

        ``verify``: "hash" reads a file whole before its first use in this process, and again if it
        was changed or replaced before it is opened again; "size" trusts the disk.
        SegmentMissingError if there is no such file; CorruptionError, naming the file, if its
        size or hash is not the log's.
        """
        try:
            return self._held(environment, record, verify)
        except CorruptionError:
            # The copy on this machine may be damaged, and the file itself whole.
            if not environment.drop_copy(segment_path(record.name)):
                raise
        return self._held(environment, record, verify)

    def _held(self, environment: Environment, record: SegmentRecord, verify: str) -> SegmentFile:
        path = environment.local_path(segment_path(record.name))
        self._sweep(environment)
        with self._lock:
            segment = self._open.get(path)
            if segment is not None and self._is_ready(segment, record, verify):
                return self._kept(segment)
            turn = self._turns.get(path)
            if turn is None:
                turn = self._turns[path] = ForkLock()
        # Opening and hashing take long: they wait for nobody but who does so with the same file.
        with turn:
            segment = registered = self._open.get(path)
            if segment is None or segment.is_damaged:
                self._forget_hash(segment)
                segment = _open_file(environment, record, path, self._share)
            if not self._is_ready(segment, record, verify):
                _check_hash(segment.contents, record, segment.path)
                self._note_verified(segment, record)
            with self._lock:
                self._open[path] = segment
                self.opened += segment is not registered
                return self._kept(segment)

    def _is_ready(self, segment: SegmentFile, record: SegmentRecord, verify: str) -> bool:
        """Return whether an open file is sound, and verified if that is asked for."""
        if segment.is_damaged:
            return False
        if verify != "hash" or segment.is_verified:
            return True
        return self._verified.get(segment.path) == (record.hash, segment.identity)

    def _kept(self, segment: SegmentFile) -> SegmentFile:
        """Return a segment, which is now the last to be closed. For who has the lock."""
        self._recent[segment.path] = segment
        self._recent.move_to_end(segment.path)
        while len(self._recent) > self._capacity:
            self._recent.popitem(last=False)
        return segment

    def close(self, folder: str) -> None:
        """Release the segments kept open under ``folder``; those in use close when released."""
        with self._lock:
            for path in [path for path in self._recent if path.startswith(f"{folder}/")]:
                del self._recent[path]

    def release(self, environment: Environment, names: Iterable[str]) -> None:
        """Release segments that are not needed soon; those in use close when released."""
        with self._lock:
            for name in names:
                self._recent.pop(environment.local_path(segment_path(name)), None)

    def forget(self, environment: Environment, names: Collection[str]) -> None:
        """Release segments whose files were removed, and remember nothing of them."""
        self.release(environment, names)
        with self._lock:
            for name in names:
                self._verified.pop(environment.local_path(segment_path(name)), None)

    def forget_removed(self, environment: Environment, names: Collection[str]) -> None:
        """Forget those of some segments whose files are not on this machine any more."""
        self.forget(environment, [name for name in names if not _is_here(environment, name)])

    def kept(self, environment: Environment) -> list[str]:
        """Return the names of the segments of a store that are kept open, used or not."""
        with self._lock:
            return _names_in(environment, self._recent)

    def verified(self, environment: Environment) -> list[str]:
        """Return the names of the segments of a store that were verified, open or not."""
        with self._lock:
            return _names_in(environment, self._verified)

    def _sweep(self, environment: Environment) -> None:
        """Release segments whose files another process has removed, now and then."""
        # In an object store, copies are removed by none while they are open.
        opened = self.opened - self._looked_at
        least = max(_LEAST_OPENED, len(self._recent) // _KEPT_SHARE)
        if opened >= least and not environment.is_remote:
            self._looked_at = self.opened
            self.forget_removed(environment, self.kept(environment))

    def verify(self, environment: Environment, record: SegmentRecord) -> None:
        """Verify the hash of a file, whether or not it was verified before. Errors as of `open`."""
        path = environment.local_path(segment_path(record.name))
        environment.drop_copy(segment_path(record.name))
        lease = _hold(environment, record)
        _check_hash(_sized(environment, record, path), record, path)
        del lease

    def _note_verified(self, segment: SegmentFile, record: SegmentRecord) -> None:
        with self._lock:
            self._verified[segment.path] = record.hash, segment.identity
            if len(self._verified) > _MOST_VERIFIED:
                del self._verified[next(iter(self._verified))]

    def _forget_hash(self, damaged: SegmentFile | None) -> None:
        """Verify the hash of a damaged file again when it is opened next."""
        if damaged is not None:
            with self._lock:
                self._verified.pop(damaged.path, None)


def _open_file(
    environment: Environment, record: SegmentRecord, path: str, share: DescriptorShare
) -> SegmentFile:
    name = segment_path(record.name)
    lease, arriving = environment.bring(name, record.size, record.hash)
    if arriving is not None:
        source = _ArrivingFile(arriving, environment.location(name))
        return SegmentFile(path, source, share, lease=lease)
    with _missing_file_error(path):
        # Read before the file is mapped: the hash of a file that changes between is verified again.
        identity = environment.identity(name)
    return SegmentFile(path, _sized(environment, record, path), share, identity, lease)


class _ArrivingFile:
    """A segment on its way, whose absence is a SegmentMissingError."""

    def __init__(self, arriving: Arriving, location: str) -> None:
        self._arriving, self._location = arriving, location

    def contents(self) -> Buffer:
        with _missing_file_error(self._location):
            return self._arriving.contents()

    def announce(self) -> None:
        self._arriving.announce()

    def wait(self, start: int, stop: int) -> None:
        with _missing_file_error(self._location):
            self._arriving.wait(start, stop)

    def wait_for_all(self) -> None:
        with _missing_file_error(self._location):
            self._arriving.wait_for_all()

    def abandon(self) -> None:
        self._arriving.abandon()


def _names_in(environment: Environment, paths: Iterable[str]) -> list[str]:
    """Return the names of those segments among some paths that are a store's."""
    folder = f"{environment.local_path(SEGMENTS)}/"
    files = (path[len(folder) :] for path in paths if path.startswith(folder))
    return [name for name in map(parse_segment_file, files) if name is not None]


def _is_here(environment: Environment, name: str) -> bool:
    try:
        environment.identity(segment_path(name))
    except FileNotFoundError:
        return False
    except RelstateError:
        # Who commits or reads need not know that this could not be seen.
        return True
    return True


def _hold(environment: Environment, record: SegmentRecord) -> object:
    name = segment_path(record.name)
    with _missing_file_error(environment.location(name)):
        return environment.hold(name, record.size, record.hash)


def _sized(environment: Environment, record: SegmentRecord, path: str) -> Buffer:
    """Return the map of a file that has the size in the log."""
    with _missing_file_error(path):
        contents = environment.map(segment_path(record.name))
    if len(contents) != record.size:
        raise CorruptionError(
            f"{path}: {len(contents)} bytes, but the log says {record.size}; the file was "
            "truncated or replaced: restore it from a backup"
        )
    return contents


@contextmanager
def _missing_file_error(path: str) -> Iterator[None]:
    """Raise SegmentMissingError, naming the file, for FileNotFoundError."""
    try:
        yield
    except FileNotFoundError as error:
        raise SegmentMissingError(
            f"{path}: the log names this segment, but the file is missing; if vacuum removed it "
            "during a long read, read again, otherwise restore it from a backup"
        ) from error


def _check_hash(contents: Buffer, record: SegmentRecord, path: str) -> None:
    actual_hash = xxhash.xxh3_64_hexdigest(contents.data)
    if actual_hash != record.hash:
        raise CorruptionError(
            f"{path}: hash {actual_hash}, but the log says {record.hash}; the file was changed "
            "after it was published: restore it from a backup"
        )


registry = SegmentRegistry(min(descriptor_limit() // _SHARE, _MOST_KEPT))
