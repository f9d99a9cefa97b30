"""The cache of segments on this machine's disk, which its processes share.

    <folder>/<store>/segments/<name>.lmdb   a copy, or a segment that was written here
    <folder>/locks/<number>                 held while a copy is made

Segments never change, so a copy is never stale. A file's access time, which is set here, is when it
was last opened; the copies opened longest ago go first. A process holds a shared lock on every file
that it has open; only a file without one is removed for room.

Promises: a copy appears whole; of several processes that need one at most one makes it, the others
wait; the files stay within the capacity, except for those that are open.
Does not know: object stores. The content comes from a function.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import xxhash

from ..errors import FilesystemError, OptionError, StorageFullError

DEFAULT_BYTES = 8 << 30
# The default is this share of the disk's free space if that is less.
_FREE_SHARE = 10
_LOCKS = 1024
# Once so much, 1 / _SWEEP_SHARE of the capacity, was added by this process, room is made again.
_SWEEP_SHARE = 32
_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, slots=True)
class CachedFile:
    """A file of the cache: its path, bytes and when it was opened last, in seconds since 1970."""

    path: str
    size: int
    used: float


class Lease:
    """Keeps a file in the cache: no process removes it while this object exists."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        """``descriptor``: of the file, with a shared lock on it."""
        self._descriptor = descriptor

    def __del__(self) -> None:
        with suppress(OSError):
            os.close(self._descriptor)


class Cache:
    """The cache in one folder. Safe between threads, processes and across ``fork``."""

    def __init__(self, folder: str, capacity: int | None = None) -> None:
        """``capacity``: bytes; by default 8 GiB or a tenth of the disk's free space."""
        self.folder = os.path.abspath(folder)
        self._capacity = capacity
        self._unswept: int | None = None

    @property
    def capacity(self) -> int:
        """How many bytes the cache takes at most."""
        if self._capacity is None:
            os.makedirs(self.folder, 0o700, exist_ok=True)
            free = shutil.disk_usage(self.folder).free + sum(file.size for file in self.files())
            self._capacity = min(DEFAULT_BYTES, free // _FREE_SHARE)
        return self._capacity

    def lease(self, path: str, size: int) -> Lease | None:
        """Return a lease of a copy; None if there is none of this size."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        lease = Lease(descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        status = os.fstat(descriptor)
        # It may have been removed between the opening and the lock.
        if status.st_nlink == 0 or status.st_size != size:
            return None
        with suppress(OSError):
            os.utime(path, ns=(time.time_ns(), status.st_mtime_ns))
        return lease

    def fill(self, path: str, size: int, digest: str, fetch: Callable[[], bytes]) -> Lease:
        """Return a lease of a copy, made of what ``fetch`` returns if there is none yet.

        ValueError, and no copy, if the content has another size or hash.
        """
        while (lease := self.lease(path, size)) is None:
            with self._filling(path):
                if (lease := self.lease(path, size)) is not None:
                    return lease
                content = fetch()
                actual = xxhash.xxh3_64_hexdigest(content)
                if len(content) != size or actual != digest:
                    raise ValueError(f"{len(content)} bytes of hash {actual}")
                self.make_room(size)
                self._store(path, content)
        return lease

    def _store(self, path: str, content: bytes) -> None:
        temporary = f"{path}.{os.getpid()}-{threading.get_ident()}.tmp"
        try:
            with _disk_errors(path):
                os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
                with open(temporary, "wb") as file:
                    file.write(content)
                os.replace(temporary, path)
        finally:
            with suppress(OSError):
                os.unlink(temporary)

    @contextmanager
    def _filling(self, path: str) -> Iterator[None]:
        """Exclude other threads and processes that make the same copy."""
        number = xxhash.xxh3_64_intdigest(path.encode("utf-8", "surrogateescape")) % _LOCKS
        with _disk_errors(self.folder):
            os.makedirs(f"{self.folder}/locks", 0o700, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            descriptor = os.open(f"{self.folder}/locks/{number}", flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def remove(self, path: str) -> bool:
        """Remove a copy, also one that is open; return whether there was one."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            return False
        return True

    def files(self) -> list[CachedFile]:
        """Return the files of the cache, of all stores."""
        files = []
        for store in self.stores():
            with suppress(FileNotFoundError), os.scandir(f"{store}/segments") as entries:
                for entry in entries:
                    with suppress(FileNotFoundError):
                        status = entry.stat()
                        files.append(CachedFile(entry.path, status.st_size, status.st_atime))
        return files

    def stores(self) -> dict[str, str]:
        """Return the locations of the stores in the cache by their folders."""
        locations = {}
        with suppress(FileNotFoundError), os.scandir(self.folder) as entries:
            for entry in entries:
                with suppress(OSError, ValueError), open(f"{entry.path}/location", "rb") as file:
                    locations[entry.path] = file.read().decode("utf-8", "surrogateescape")
        return locations

    def make_store(self, name: str, location: str) -> str:
        """Return the folder of a store's files, made if it is missing."""
        folder = f"{self.folder}/{name}"
        with _disk_errors(folder):
            os.makedirs(f"{folder}/segments", 0o700, exist_ok=True)
            if not os.path.exists(f"{folder}/location"):
                self._store(f"{folder}/location", location.encode("utf-8", "surrogateescape"))
        return folder

    def make_room(self, size: int) -> None:
        """Remove the files opened longest ago until ``size`` bytes more fit the capacity."""
        if self._unswept is not None:
            self._unswept += size
            if self._unswept < self.capacity // _SWEEP_SHARE:
                return
        self._unswept = 0
        self._sweep(max(self.capacity - size, 0))

    def clear(self) -> tuple[int, int]:
        """Remove all files that no process has open; return (files, bytes) removed."""
        return self._sweep(0)

    def _sweep(self, most: int) -> tuple[int, int]:
        """Remove files until at most so many bytes are left; return (files, bytes) removed."""
        files = sorted(self.files(), key=lambda file: file.used)
        total = sum(file.size for file in files)
        removed = removed_bytes = 0
        for file in files:
            if total - removed_bytes > most and _remove_unused(file.path):
                removed, removed_bytes = removed + 1, removed_bytes + file.size
        return removed, removed_bytes


def cache_of(options: Mapping[str, str]) -> Cache:
    """Return the cache that the options of a store name, by default the user's. OptionError."""
    return Cache(cache_folder(options), cache_bytes(options))


def _remove_unused(path: str) -> bool:
    """Remove a file that no process has open; return whether it was removed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def cache_folder(options: Mapping[str, str]) -> str:
    """Return the folder of the cache: an option's, a variable's, or one in the user's home."""
    folder = options.get("cache_folder") or os.environ.get("RELSTATE_CACHE_FOLDER")
    if folder:
        return folder
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return f"{base}/relstate"


def cache_bytes(options: Mapping[str, str]) -> int | None:
    """Return the capacity that an option or a variable sets; None for the default. OptionError."""
    text = options.get("cache_bytes") or os.environ.get("RELSTATE_CACHE_BYTES")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise OptionError(f"the size of the cache, {text!r}, is not a number of bytes")
    return int(text)


@contextmanager
def _disk_errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        kind = StorageFullError if error.errno in _FULL else FilesystemError
        raise kind(
            f"{path}: the cache of segments cannot be written ({error.strerror}); free space on "
            "that disk, or name another folder by RELSTATE_CACHE_FOLDER"
        ) from error
