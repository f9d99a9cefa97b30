"""The cache of segments on this machine's disk, which its processes share.

    <folder>/<store>/segments/<name>.lmdb          a copy, or a segment that was written here
    <folder>/<store>/segments/<name>.lmdb.<id>.tmp a copy that is being made
    <folder>/leases                                the locks (leases.py)

Segments never change, so a copy is never stale. A file's access time, which is set here, is when it
was last opened; the copies opened longest ago go first. A process has a lease of every file from
before it is written or opened until it is closed; only a file without one is removed for room.

Promises: a copy appears whole; of several processes that need one at most one makes it, the others
wait; the files stay within the capacity, except for those that are open, and for a part of it that
each process adds before it looks again.
Does not know: object stores. The content comes from a function.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import xxhash
from numpy.typing import NDArray

from ..disk import Disk
from ..errors import OptionError, RelstateError
from .leases import Lease, disk_errors, leases_of

DEFAULT_BYTES = 8 << 30
# The default is this share of the disk's free space if that is less.
_FREE_SHARE = 10
# Once so much, 1 / _SWEEP_SHARE of the capacity, was added by this process, room is made again.
_SWEEP_SHARE = 32
_TEMPORARY = re.compile(r"\.[0-9-]+\.tmp$")


@dataclass(frozen=True, slots=True)
class CachedFile:
    """A file of the cache: its path, bytes and when it was opened last, in seconds since 1970."""

    path: str
    size: int
    used: float


class Cache:
    """The cache in one folder. Safe between threads, processes and across ``fork``."""

    def __init__(self, folder: str, capacity: int | None = None) -> None:
        """``capacity``: bytes; by default 8 GiB or a tenth of the disk's free space."""
        # Without symbolic links: a lease is of a file's name, which must be one in all processes.
        self.folder = os.path.realpath(folder)
        self._leases = leases_of(self.folder)
        self._capacity = capacity
        self._unswept: int | None = None

    @property
    def capacity(self) -> int:
        """How many bytes the cache takes at most."""
        if self._capacity is None:
            with disk_errors(self.folder):
                os.makedirs(self.folder, 0o700, exist_ok=True)
                free = shutil.disk_usage(self.folder).free
            used = sum(file.size for file in self.files())
            self._capacity = min(DEFAULT_BYTES, (free + used) // _FREE_SHARE)
        return self._capacity

    def lease(self, path: str, size: int) -> Lease | None:
        """Return a lease of a copy; None if there is none of this size. FilesystemError."""
        lease = self._leases.take(path)
        return lease if _is_there(path, size) else None

    def contains(self, path: str, size: int) -> bool:
        """Return whether there is a copy of this size. It may be removed without a lease."""
        try:
            return os.stat(path).st_size == size
        except OSError:
            return False

    def lease_name(self, path: str) -> Lease:
        """Return a lease of a file that is about to be written. FilesystemError."""
        return self._leases.take(path)

    def fill(self, path: str, size: int, digest: str, fetch: Callable[[], bytes]) -> Lease:
        """Return a lease of a copy, made of what ``fetch`` returns if there is none yet.

        ValueError, and no copy, if the content has another size or hash. FilesystemError.
        """
        lease = self._leases.take(path)
        if _is_there(path, size):
            return lease
        with self._leases.filling(path):
            if _is_there(path, size):
                return lease
            content = fetch()
            actual = xxhash.xxh3_64_hexdigest(content)
            if len(content) != size or actual != digest:
                raise ValueError(f"{len(content)} bytes of hash {actual}")
            self.make_room(size)
            self._store(path, content)
        return lease

    def begin(self, path: str, size: int) -> PartialCopy | None:
        """Return a copy that is to be made in parts; None if one is here or is made now.

        The caller has a lease of it. FilesystemError, StorageFullError.
        """
        descriptor = self._leases.try_to_fill(path)
        if descriptor is None:
            return None
        is_begun = False
        try:
            if _is_there(path, size):
                return None
            self.make_room(size)
            copy = PartialCopy(path, size, lambda: self._leases.end_fill(descriptor, path))
            is_begun = True
            return copy
        finally:
            if not is_begun:
                self._leases.end_fill(descriptor, path)

    def map(self, path: str) -> NDArray[np.uint8]:
        """Return a file of the cache as a read-only map. FilesystemError."""
        with disk_errors(path):
            return Disk().map(path)

    def _store(self, path: str, content: bytes) -> None:
        temporary = _temporary(path)
        try:
            with disk_errors(path):
                os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
                with open(temporary, "wb") as file:
                    file.write(content)
                os.replace(temporary, path)
        finally:
            with suppress(OSError):
                os.unlink(temporary)

    def remove(self, path: str) -> bool:
        """Remove a copy, also one that is open; return whether there was one. FilesystemError."""
        with disk_errors(path):
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
        path = f"{folder}/location"
        with disk_errors(folder):
            os.makedirs(f"{folder}/segments", 0o700, exist_ok=True)
        if not os.path.exists(path):
            with self._leases.filling(path):
                self._store(path, location.encode("utf-8", "surrogateescape"))
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
            if total - removed_bytes > most and self._remove_unused(file.path):
                removed, removed_bytes = removed + 1, removed_bytes + file.size
        return removed, removed_bytes

    def _remove_unused(self, path: str) -> bool:
        """Remove a file that no process has a lease of; return whether it was removed."""
        with suppress(RelstateError):
            return self._leases.remove_unused(path, _TEMPORARY.sub("", path))
        return False


class PartialCopy:
    """A copy that is made in parts, under another name until it is whole. Safe between threads.

    ``temporary``: the path of the file, which has its size from the beginning.
    """

    def __init__(self, path: str, size: int, end: Callable[[], None]) -> None:
        """``path``: of the whole copy; ``end``: is called after `keep` or `discard`."""
        self.temporary = _temporary(path)
        self._path, self._end = path, end
        self._lock = threading.Lock()
        with disk_errors(path):
            os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
            self._descriptor: int | None = os.open(
                self.temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666
            )
            os.truncate(self._descriptor, size)

    def write(self, position: int, content: bytes) -> None:
        """Write a part, unless the copy was discarded. FilesystemError, StorageFullError."""
        with self._lock, disk_errors(self._path):
            left = memoryview(content)
            while left and self._descriptor is not None:
                written = os.pwrite(self._descriptor, left, position)
                left, position = left[written:], position + written

    def keep(self) -> None:
        """Give the copy its name. FilesystemError."""
        self._close()
        try:
            with disk_errors(self._path):
                os.replace(self.temporary, self._path)
        finally:
            self._end()

    def discard(self) -> None:
        """Remove what was written."""
        self._close()
        with suppress(OSError):
            os.unlink(self.temporary)
        self._end()

    def _close(self) -> None:
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None


def _temporary(path: str) -> str:
    """Return the path of a file that becomes the one at ``path``, of this thread alone."""
    return f"{path}.{os.getpid()}-{threading.get_ident()}.tmp"


def cache_of(options: Mapping[str, str]) -> Cache:
    """Return the cache that the options of a store name, by default the user's. OptionError."""
    return Cache(cache_folder(options), cache_bytes(options))


def _is_there(path: str, size: int) -> bool:
    """Return whether there is a copy of this size, and note that it is opened now."""
    with disk_errors(path):
        try:
            status = os.stat(path)
        except FileNotFoundError:
            return False
        if status.st_size != size:
            return False
        with suppress(OSError):
            os.utime(path, ns=(time.time_ns(), status.st_mtime_ns))
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
