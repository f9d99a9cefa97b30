"""The system calls on the files of a disk, and the limits of this process.

A folder may be a link, as that of a store is where another disk holds it. A file may not: who can
write into the folder could let a link name any file of whoever reads or writes it. Nor may it be
anything that is no regular file, such as a pipe, which a reader would wait for.

Promises: one method per system call, on absolute paths; errors are those of the system. What has
the name of a file and is none is neither read nor written, without a wait.
Does not know: stores. `environment` gives the calls and their errors a meaning.
"""

from __future__ import annotations

import errno
import os
import re
import resource
import stat
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Content: TypeAlias = bytes | memoryview

# Compared, never interpreted.
FolderVersion: TypeAlias = tuple[int, ...]
# So many files or folders are made durable at the same time.
_SYNCS_AT_ONCE = 8
# What one call reads at most: so much memory is allocated for every file, however small.
_READ_BYTES = 65_536
# More than any file has that is read whole: the entry of a million segments has half of it.
MOST_READ = 1 << 30
_NUMBER_BYTES = 8
# Opening waits for nobody at the other end of a pipe.
_OPENING = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_MOUNTS = "/proc/self/mountinfo"
# How a path in it has spaces and the like.
_OCTAL = re.compile(r"\\([0-7]{3})")


class NotAFileError(OSError):
    """What has the name of a file is none, or one of a size that it cannot have.

    ``strerror``: what it is.
    """

    def __init__(self, path: str, found: str) -> None:
        super().__init__(errno.EINVAL, found, path)


class Disk:
    """The system calls that `LocalEnvironment` uses, one per method, on absolute paths.

    They raise OSError as the system does. A test replaces the object to make any of them fail.
    """

    def read(self, path: str) -> bytes:
        """Return a file's content."""
        # A third of the time of `open`: opening a store reads some twenty small files.
        descriptor = _open_file(path, os.O_RDONLY)
        try:
            _check_size(path, os.fstat(descriptor), MOST_READ)
            parts = []
            while part := os.read(descriptor, _READ_BYTES):
                parts.append(part)
            return b"".join(parts)
        finally:
            os.close(descriptor)

    def map(self, path: str) -> NDArray[np.uint8]:
        """Return a file's content as a read-only map, which holds no descriptor."""
        if not _file_status(path).st_size:
            return np.empty(0, np.uint8)
        # Python's own mmap keeps a duplicate of the descriptor open, Arrow's does not.
        with pa.memory_map(path) as file:
            return np.frombuffer(file.read_buffer(), np.uint8)

    def map_number(self, path: str) -> memoryview:
        """Return memory whose item 0 is always the number that a file of 8 bytes now begins with.

        The file must be writable. ValueError if it is shorter.
        """
        _check_size(path, _file_status(path), _NUMBER_BYTES)
        # Shared, and after the file was opened for writing: a map that is only for reading may
        # stay that of a lower layer when the file is copied to the upper one (overlayfs).
        with pa.memory_map(path, "r+") as file:
            content = memoryview(file.read_buffer(_NUMBER_BYTES))
        if len(content) < _NUMBER_BYTES:
            raise ValueError(f"{path} has less than {_NUMBER_BYTES} bytes")
        return content.cast("B").cast("Q")

    def overwrite(self, path: str, data: bytes, *, create: bool, sync: bool) -> None:
        """Write over the content of a small file in one call; it has no more bytes than ``data``.

        ``create``: make the file if it is missing. ``sync``: wait until it is durable, or where
        the file system is a server's, until it is there.
        """
        descriptor = _open_file(path, os.O_RDWR | (os.O_CREAT if create else 0))
        try:
            _check_size(path, os.fstat(descriptor), len(data))
            os.pwrite(descriptor, data, 0)
            if sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def filesystem(self, path: str) -> str:
        """Return the type of the file system that a path is in, as Linux names it; "" elsewhere."""
        try:
            with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
                return filesystem_of(os.path.realpath(path), file.read())
        except FileNotFoundError:
            return ""

    def wait(self, seconds: float) -> None:
        """Let so much time pass."""
        time.sleep(seconds)

    def size(self, path: str) -> int:
        """Return a file's size in bytes."""
        return _file_status(path).st_size

    def identity(self, path: str) -> tuple[int, ...]:
        """Return a file's inode, size, and times of the last write and the last change."""
        status = _file_status(path)
        return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns

    def file_id(self, path: str) -> tuple[int, int]:
        """Return what no other file that exists has, whatever is written into the file."""
        status = _file_status(path)
        return status.st_dev, status.st_ino

    def modified(self, path: str) -> int:
        """Return when a file was last written, in microseconds since 1970."""
        return _file_status(path).st_mtime_ns // 1000

    def exists(self, path: str) -> bool:
        """Return whether the name is taken, by whatever it is."""
        # Half the time of a stat, and this is on the path of every point lookup.
        return os.access(path, os.F_OK, follow_symlinks=False)

    def folder_version(self, path: str) -> FolderVersion | None:
        """Return a folder's identity and when it was last changed, by the file system's clock."""
        status = os.stat(path)
        # Nobody can set this time, unlike st_mtime.
        return status.st_dev, status.st_ino, status.st_ctime_ns

    def list(self, path: str) -> list[str]:
        """Return the names in a folder."""
        return os.listdir(path)

    def resolve(self, path: str) -> str:
        """Return a path without links; what is missing of it is left as it is."""
        return os.path.realpath(path)

    def make_folder(self, path: str) -> None:
        """Create a folder."""
        os.mkdir(path)

    def write(self, path: str, parts: Iterable[Content]) -> int:
        """Create a file that does not exist and write its content, not yet durable.

        Return when, in microseconds since 1970 by the file system's clock.
        """
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with open(descriptor, "wb", buffering=0) as file:
            for part in parts:
                left = memoryview(part)
                while left:
                    left = left[file.write(left) :]
            return os.fstat(descriptor).st_mtime_ns // 1000

    def link(self, source: str, target: str) -> None:
        """Give a file a second name, atomically, unless the name is taken."""
        os.link(source, target)

    def rename(self, source: str, target: str) -> None:
        """Give a file another name, atomically, in place of the file that has it."""
        os.rename(source, target)

    def remove(self, path: str) -> None:
        """Remove a name of a file, and the file with its last name."""
        os.unlink(path)

    def sync(self, path: str) -> None:
        """Make the content of a file, or the names in a folder, durable."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def sync_all(self, paths: Sequence[str]) -> None:
        """Make several files and folders durable, at the same time.

        The error, if some of them fail, names the path of one.
        """
        failures: list[tuple[BaseException, str]] = []

        def sync(path: str) -> None:
            try:
                self.sync(path)
            except BaseException as error:
                failures.append((error, path))

        for start in range(0, len(paths), _SYNCS_AT_ONCE):
            first, *others = paths[start : start + _SYNCS_AT_ONCE]
            threads = []
            for path in others:
                # No pool: its threads would not be there in a process that was forked.
                thread = threading.Thread(target=sync, args=(path,))
                try:
                    thread.start()
                except RuntimeError:
                    # The process may have no more threads.
                    sync(path)
                else:
                    threads.append(thread)
            sync(first)
            for thread in threads:
                thread.join()
        raise_first(failures)


def _open_file(path: str, flags: int) -> int:
    """Return a descriptor of a regular file, opened without following a link. NotAFileError."""
    try:
        descriptor = os.open(path, flags | _OPENING, 0o666)
    except OSError:
        # The system's errors for a link, a folder and a socket differ, and say less.
        with suppress(FileNotFoundError):
            _file_status(path)
        raise
    try:
        _check_kind(path, os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _file_status(path: str) -> os.stat_result:
    status = os.lstat(path)
    _check_kind(path, status)
    return status


def _check_kind(path: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        found = _KINDS.get(stat.S_IFMT(status.st_mode), "no regular file")
        if stat.S_ISLNK(status.st_mode):
            with suppress(OSError):
                found += f" to {os.readlink(path)!r:.200}"
        raise NotAFileError(path, found)


def _check_size(path: str, status: os.stat_result, most: int) -> None:
    if status.st_size > most:
        raise NotAFileError(path, f"a file of {status.st_size} bytes, not of at most {most},")


def filesystem_of(path: str, mounts: str) -> str:
    """Return the type of the file system of a path without links; "" if it is not known.

    ``mounts``: the content of ``/proc/self/mountinfo``.
    """
    filesystem, longest = "", -1
    for line in mounts.splitlines():
        fields, _, source = line.partition(" - ")
        point = _OCTAL.sub(lambda code: chr(int(code[1], 8)), fields.split(" ")[4])
        is_inside = path == point or path.startswith(f"{point.rstrip('/')}/")
        # Of two mounts at one point the later hides the earlier.
        if is_inside and len(point) >= longest:
            filesystem, longest = source.split(" ")[0], len(point)
    return filesystem


def raise_first(failures: Sequence[tuple[BaseException, str]]) -> None:
    """Raise the first of some errors; one of the system with its path as the file name."""
    for error, path in failures:
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, path) from error
        raise error


def descriptor_limit() -> int:
    """Return how many files this process may have open, at most a million."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1_000_000 if limit == resource.RLIM_INFINITY else min(limit, 1_000_000)


def raise_descriptor_limit(count: int) -> int:
    """Let this process have so many files open, as far as it may; return how many it may have."""
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit != resource.RLIM_INFINITY and limit < count:
        raised = count if most == resource.RLIM_INFINITY else min(count, most)
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, most))
    return descriptor_limit()
