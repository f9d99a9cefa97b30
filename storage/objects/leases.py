"""Leases of the files in the cache, which all processes of this machine respect.

One file of the cache's folder has the locks: a byte range of it per file of the cache, at an offset
that is the hash of the file's name. A lease is a shared lock on the byte of a name, whether or not
there is a file yet; who removes a file locks the byte exclusively, without waiting. A second byte
per name excludes those that make the same file.

The locks belong to an open file description (F_OFD_SETLK): the kernel drops them with the last
process that has it, however that ends. A process has one for its leases, on which it counts those
of each name, since its own locks do not exclude each other; and one for each file that it is
making. A forked child has its parent's descriptions: it takes its leases on one of its own, and
closes the others.

A lease may end in a garbage collection, whatever the thread is doing: it is put on a queue then,
which the holder of the mutex empties after releasing it.

Promises: no process removes a file while a lease of it exists in any process; a process that is
killed holds nothing; a forked child neither drops a lease of its parent nor keeps one from ending.
Does not know: what is in the files.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import xxhash

from ..errors import FilesystemError, StorageFullError

# struct flock of 64-bit Linux: type, whence, start, length, process (0 for these locks).
_FLOCK = struct.Struct("@hhqqi0q")
_BUSY = (errno.EAGAIN, errno.EACCES)
_FULL = (errno.ENOSPC, errno.EDQUOT)
# Offsets of a file are 63 bits: the last distinguishes the two bytes of a name.
_NAME_BITS = 61
# Who removes a file has its byte for microseconds; one that was stopped meanwhile must not make
# every reader wait without end.
_PATIENCE, _FIRST_PAUSE, _LONGEST_PAUSE = 60.0, 0.0005, 0.05


class Lease:
    """Keeps a file in the cache: no process removes it while this object exists."""

    __slots__ = ("_leases", "_offset")

    def __init__(self, leases: Leases, offset: int) -> None:
        """``offset``: of the byte that was locked for this lease."""
        self._leases, self._offset = leases, offset

    def __del__(self) -> None:
        _ended.append((self._leases, self._offset))
        _release_ended()


class Leases:
    """The leases of this process in one cache. Safe between threads and across ``fork``."""

    def __init__(self, folder: str) -> None:
        """``folder``: the cache's, which need not exist yet; see `leases_of`."""
        self._folder = folder
        self._path = f"{folder}/leases"
        self._descriptor: int | None = None
        self._counts: dict[int, int] = {}
        self._fills: set[int] = set()

    def take(self, path: str) -> Lease:
        """Return a lease of a file, or of the name of one to be made. FilesystemError."""
        offset = self._offset(path)
        deadline = time.monotonic() + _PATIENCE
        pause = _FIRST_PAUSE
        while not self._try_to_take(offset):
            if time.monotonic() > deadline:
                raise FilesystemError(
                    f"{path}: another process has been removing this file from the cache for "
                    f"{_PATIENCE:.0f} s; is it stopped?"
                )
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        return Lease(self, offset)

    def remove_unused(self, path: str, name: str) -> bool:
        """Remove a file unless there is a lease of ``name``; return whether it was removed.

        FilesystemError.
        """
        offset = self._offset(name)
        with _exclusive(), disk_errors(path):
            if offset in self._counts:
                return False
            descriptor = self._opened()
            if not _lock(descriptor, fcntl.F_WRLCK, offset):
                return False
            try:
                os.unlink(path)
            except FileNotFoundError:
                return False
            finally:
                _lock(descriptor, fcntl.F_UNLCK, offset)
        return True

    @contextmanager
    def filling(self, path: str) -> Iterator[None]:
        """Exclude other threads and processes that make the same file. FilesystemError."""
        descriptor = self._begin_fill()
        try:
            self._lock_fill(descriptor, path, waits=True)
            yield
        finally:
            self.end_fill(descriptor, path)

    def try_to_fill(self, path: str) -> int | None:
        """Do what `filling` does without waiting; return what `end_fill` takes, None if one is
        made now. FilesystemError.
        """
        descriptor = self._begin_fill()
        is_locked = False
        try:
            is_locked = self._lock_fill(descriptor, path, waits=False)
        finally:
            if not is_locked:
                self.end_fill(descriptor, path)
        return descriptor if is_locked else None

    def end_fill(self, descriptor: int, path: str) -> None:
        """Let others make a file again. Any thread may call it."""
        with _exclusive():
            self._end_fill(descriptor, self._offset(path) + 1)

    def _begin_fill(self) -> int:
        with _exclusive(), disk_errors(self._path):
            descriptor = self._new_descriptor()
            self._fills.add(descriptor)
        return descriptor

    def _lock_fill(self, descriptor: int, path: str, *, waits: bool) -> bool:
        with disk_errors(self._path):
            return _lock(descriptor, fcntl.F_WRLCK, self._offset(path) + 1, waits=waits)

    def _end_fill(self, descriptor: int, offset: int) -> None:
        if descriptor in self._fills:
            self._fills.remove(descriptor)
            with suppress(OSError):
                # A process that is being forked may have the description, too.
                _lock(descriptor, fcntl.F_UNLCK, offset)
            os.close(descriptor)

    def _offset(self, path: str) -> int:
        """Return the offset of a file's name: the same on all paths of the folder."""
        name = path.removeprefix(self._folder).encode("utf-8", "surrogateescape")
        return xxhash.xxh3_64_intdigest(name) >> (64 - _NAME_BITS) << 1

    def _try_to_take(self, offset: int) -> bool:
        with _exclusive(), disk_errors(self._path):
            descriptor = self._opened()
            if offset not in self._counts and not _lock(descriptor, fcntl.F_RDLCK, offset):
                return False
            self._counts[offset] = self._counts.get(offset, 0) + 1
            return True

    def _release(self, offset: int) -> None:
        """End one lease of a name. The caller has the mutex."""
        self._counts[offset] -= 1
        if not self._counts[offset]:
            del self._counts[offset]
            if self._descriptor is not None:
                with suppress(OSError):
                    _lock(self._descriptor, fcntl.F_UNLCK, offset)

    def _opened(self) -> int:
        """Return the descriptor of the file of locks, opened again if its file was removed."""
        if self._descriptor is not None and os.fstat(self._descriptor).st_nlink:
            return self._descriptor
        descriptor, former = self._new_descriptor(), self._descriptor
        for offset in self._counts:
            _lock(descriptor, fcntl.F_RDLCK, offset)
        self._descriptor = descriptor
        if former is not None:
            os.close(former)
        return descriptor

    def _new_descriptor(self) -> int:
        os.makedirs(self._folder, 0o700, exist_ok=True)
        return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _adopt(self) -> None:
        """After a fork, in the child: leave the descriptions of the parent."""
        for descriptor in self._fills:
            os.close(descriptor)
        self._fills.clear()
        former, self._descriptor = self._descriptor, None
        if former is not None:
            with suppress(OSError):
                # If it fails, the parent's description keeps the leases until the next one is made.
                self._opened()
                os.close(former)

    def __del__(self) -> None:
        if self._descriptor is not None:
            with suppress(OSError):
                os.close(self._descriptor)


def leases_of(folder: str) -> Leases:
    """Return the leases of this process in the cache of a folder, a real path. FilesystemError."""
    if not hasattr(fcntl, "F_OFD_SETLK"):
        raise FilesystemError(
            f"{folder}: a cache of segments needs locks of open file descriptions, which this "
            "system does not have: use object stores on Linux"
        )
    with _exclusive():
        leases = _all.get(folder)
        if leases is None:
            leases = _all[folder] = Leases(folder)
        return leases


@contextmanager
def disk_errors(path: str) -> Iterator[None]:
    """Raise FilesystemError or StorageFullError, which name the cache, for an error of the disk."""
    try:
        yield
    except OSError as error:
        kind = StorageFullError if error.errno in _FULL else FilesystemError
        raise kind(
            f"{path}: the cache of segments cannot be used ({error.strerror}); look at that disk "
            "and at how many files this process may open, or name another folder by "
            "RELSTATE_CACHE_FOLDER"
        ) from error


def _lock(descriptor: int, kind: int, offset: int, *, waits: bool = False) -> bool:
    """Lock or unlock a byte of a file; return False if another process has it. OSError."""
    command = fcntl.F_OFD_SETLKW if waits else fcntl.F_OFD_SETLK
    try:
        fcntl.fcntl(descriptor, command, _FLOCK.pack(kind, os.SEEK_SET, offset, 1, 0))
    except OSError as error:
        if error.errno in _BUSY:
            return False
        raise
    return True


# What all caches of this process share: they are held across a fork, so that the child's counts are
# those of its locks.
_mutex = threading.Lock()
_all: weakref.WeakValueDictionary[str, Leases] = weakref.WeakValueDictionary()
_ended: deque[tuple[Leases, int]] = deque()


@contextmanager
def _exclusive() -> Iterator[None]:
    """Hold the mutex, and release afterwards the leases that ended meanwhile."""
    with _mutex:
        yield
    _release_ended()


def _release_ended() -> None:
    """Release the leases that have ended, unless a thread has the mutex: that one will."""
    while _ended and _mutex.acquire(blocking=False):
        try:
            with suppress(IndexError):
                while True:
                    leases, offset = _ended.popleft()
                    leases._release(offset)
        finally:
            _mutex.release()


def _release_after_fork() -> None:
    _mutex.release()
    _release_ended()


def _adopt_after_fork() -> None:
    for leases in list(_all.values()):
        leases._adopt()
    _release_after_fork()


os.register_at_fork(
    before=lambda: _mutex.acquire(),
    after_in_parent=_release_after_fork,
    after_in_child=_adopt_after_fork,
)
