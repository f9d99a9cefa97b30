"""The only access to the outside world: files, clock and randomness.

Everything in relstate that touches a disk, reads a clock or draws a random number does it through
an `Environment`. So a test can make any access fail, and an object store can take the place of a
folder: names are relative to the store and separated by ``/``, a file appears whole or not at all,
and nothing is changed in place.

Promises: a file is durable once `put_if_absent` has returned; of many creators of one name exactly
one succeeds; errors are relstate's own and name the path, except FileNotFoundError and
FileExistsError, which are answers.
Does not know: what the files mean.
"""

from __future__ import annotations

import errno
import os
import resource
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .errors import ClockError, FilesystemError, StorageFullError, UnknownOutcomeError
from .location import local_folder

# How far clocks of machines and file systems may differ, in microseconds.
CLOCK_TOLERANCE = 60 * 1_000_000

Content: TypeAlias = bytes | memoryview

# Compared, never interpreted.
FolderVersion: TypeAlias = tuple[int, ...]
# Longer than the clock of any file system takes from one value to the next: a kernel's ticks every
# few milliseconds, some file systems count whole seconds.
FOLDER_VERSION_TICK = 2.0
# So many files or folders are made durable at the same time.
_SYNCS_AT_ONCE = 8
# What one call reads at most: so much memory is allocated for every file, however small.
_READ_BYTES = 65_536


class Environment(Protocol):
    """The files, clocks and randomness that a store uses. Safe between threads.

    ``listing_interval``: seconds after which a reader that follows the log lists its folder, even
    if single looks show no new entry: how long a stale cache of names can hide an entry.
    """

    listing_interval: float

    def location(self, name: str) -> str:
        """Return the absolute path or URI of ``name``, for messages."""

    def local_path(self, name: str) -> str:
        """Return the path at which LMDB may open the file ``name``."""

    def read(self, name: str) -> bytes:
        """Return a file's content. FileNotFoundError if there is none."""

    def map(self, name: str) -> NDArray[np.uint8]:
        """Return a file's content, read-only, memory-mapped where that is possible.

        FileNotFoundError if there is none.
        """

    def size(self, name: str) -> int:
        """Return a file's size in bytes. FileNotFoundError if there is none."""

    def identity(self, name: str) -> tuple[int, ...]:
        """Return numbers that differ once a file is changed or replaced. FileNotFoundError."""

    def modified(self, name: str) -> int:
        """Return when a file was last written, in microseconds since 1970 by the file system's
        clock. FileNotFoundError if there is none.
        """

    def exists(self, name: str) -> bool:
        """Return whether the file exists. Cheap: an error on the way is a False."""

    def list(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted, without the folder. FileNotFoundError if none."""

    def folder_version(self, folder: str) -> FolderVersion | None:
        """Return a value that changes with every name that comes to the folder or leaves it.

        Of two changes within `FOLDER_VERSION_TICK` seconds the second may leave it as it is. None
        where the files have no such value. Cheap, like `exists`: an error on the way is a None.
        """

    def make_folders(self, folders: Sequence[str]) -> None:
        """Create the store's folder and the folders in it where they are missing, durably."""

    def put_if_absent(
        self, name: str, data: bytes, time: int | None = None, after: Sequence[str] = ()
    ) -> None:
        """Create a file, whole and durable, or change nothing.

        ``time``: that of the commit which the file is, in microseconds since 1970; ClockError if it
        is more than `CLOCK_TOLERANCE` ahead of the file system's clock. ``after``: files, and
        folders for their names, that are made durable before the file exists, at the same time as
        its content; they may be durable although it was not created. FileExistsError if the name
        is taken; StorageFullError or FilesystemError if the file was certainly not created;
        UnknownOutcomeError if it may or may not have been.
        """

    def write(self, name: str, parts: Iterable[Content]) -> None:
        """Create a file that does not exist and write its content, part by part.

        Not durable by itself, and half of it may be there after an error. StorageFullError or
        FilesystemError.
        """

    def remove(self, name: str) -> None:
        """Remove a file; a missing file is not an error. Not durable by itself."""

    def publish(self, name: str) -> None:
        """Make a file durable that `write` has made."""

    def sync_folder(self, folder: str) -> None:
        """Make the names in a folder durable, the new and the removed ones."""

    def now(self) -> int:
        """Return the wall-clock time in microseconds since 1970, UTC. It may jump."""

    def monotonic(self) -> float:
        """Return seconds of a clock that never goes backwards; its origin has no meaning."""

    def random_id(self) -> str:
        """Return 16 random bytes as 32 hexadecimal digits."""


class Clock(Protocol):
    """The two clocks of a machine, as `Environment` describes them."""

    def now(self) -> int:
        """Return the wall-clock time in microseconds since 1970, UTC."""

    def monotonic(self) -> float:
        """Return seconds of a clock that never goes backwards."""


class SystemClock:
    """The clocks of the machine this runs on."""

    def now(self) -> int:
        """Return the wall-clock time in microseconds since 1970, UTC."""
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        """Return seconds of the monotonic clock."""
        return time.monotonic()


class Disk:
    """The system calls that `LocalEnvironment` uses, one per method, on absolute paths.

    They raise OSError as the system does. A test replaces the object to make any of them fail.
    """

    def read(self, path: str) -> bytes:
        """Return a file's content."""
        # A third of the time of `open`: opening a store reads some twenty small files.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            parts = []
            while part := os.read(descriptor, _READ_BYTES):
                parts.append(part)
            return b"".join(parts)
        finally:
            os.close(descriptor)

    def map(self, path: str) -> NDArray[np.uint8]:
        """Return a file's content as a read-only map, which holds no descriptor."""
        if not os.stat(path).st_size:
            return np.empty(0, np.uint8)
        # Python's own mmap keeps a duplicate of the descriptor open, Arrow's does not.
        with pa.memory_map(path) as file:
            return np.frombuffer(file.read_buffer(), np.uint8)

    def size(self, path: str) -> int:
        """Return a file's size in bytes."""
        return os.stat(path).st_size

    def identity(self, path: str) -> tuple[int, ...]:
        """Return a file's inode, size, and times of the last write and the last change."""
        status = os.stat(path)
        return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns

    def modified(self, path: str) -> int:
        """Return when a file was last written, in microseconds since 1970."""
        return os.stat(path).st_mtime_ns // 1000

    def exists(self, path: str) -> bool:
        """Return whether there is a file or folder."""
        # Half the time of a stat, and this is on the path of every point lookup.
        return os.access(path, os.F_OK)

    def folder_version(self, path: str) -> FolderVersion | None:
        """Return a folder's identity and when it was last changed, by the file system's clock."""
        status = os.stat(path)
        # Nobody can set this time, unlike st_mtime.
        return status.st_dev, status.st_ino, status.st_ctime_ns

    def list(self, path: str) -> list[str]:
        """Return the names in a folder."""
        return os.listdir(path)

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

    def remove(self, path: str) -> None:
        """Remove a name of a file, and the file with its last name."""
        os.unlink(path)

    def sync(self, path: str) -> None:
        """Make the content of a file, or the names in a folder, durable."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
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


def raise_first(failures: Sequence[tuple[BaseException, str]]) -> None:
    """Raise the first of some errors; one of the system with its path as the file name."""
    for error, path in failures:
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, path) from error
        raise error


class LocalEnvironment:
    """A folder of a POSIX file system with hard links. Safe between threads and processes."""

    listing_interval = 60.0

    def __init__(self, root: str, disk: Disk | None = None, clock: Clock | None = None) -> None:
        """``root``: the store's folder, which need not exist yet."""
        self.root = os.path.abspath(root)
        self._disk = disk or Disk()
        self._clock = clock or SystemClock()
        self.now = self._clock.now
        self.monotonic = self._clock.monotonic

    def location(self, name: str) -> str:
        """Return the absolute path of ``name``."""
        return f"{self.root}/{name}" if name else self.root

    def local_path(self, name: str) -> str:
        """Return the absolute path of ``name``."""
        return self.location(name)

    def read(self, name: str) -> bytes:
        """Return a file's content. FileNotFoundError if there is none."""
        path = self.location(name)
        with _ErrorConversion("read", path):
            return self._disk.read(path)

    def map(self, name: str) -> NDArray[np.uint8]:
        """Return a file's content as a read-only map. FileNotFoundError if there is none."""
        path = self.location(name)
        with _ErrorConversion("map", path):
            return self._disk.map(path)

    def size(self, name: str) -> int:
        """Return a file's size in bytes. FileNotFoundError if there is none."""
        path = self.location(name)
        with _ErrorConversion("look at", path):
            return self._disk.size(path)

    def identity(self, name: str) -> tuple[int, ...]:
        """Return a file's inode, size and times. FileNotFoundError if there is none."""
        path = self.location(name)
        with _ErrorConversion("look at", path):
            return self._disk.identity(path)

    def modified(self, name: str) -> int:
        """Return when a file was last written. FileNotFoundError if there is none."""
        path = self.location(name)
        with _ErrorConversion("look at", path):
            return self._disk.modified(path)

    def exists(self, name: str) -> bool:
        """Return whether the file exists."""
        return self._disk.exists(f"{self.root}/{name}" if name else self.root)

    def folder_version(self, folder: str) -> FolderVersion | None:
        """Return a value that changes with the names in a folder; None if it is not known."""
        try:
            return self._disk.folder_version(f"{self.root}/{folder}")
        except OSError:
            return None

    def list(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted. FileNotFoundError if there is no such folder."""
        path = self.location(folder)
        with _ErrorConversion("list", path):
            return sorted(self._disk.list(path))

    def make_folders(self, folders: Sequence[str]) -> None:
        """Make the root, its missing parents and the folders in it, durably."""
        for folder in ("", *folders):
            self._make_folder(self.location(folder))

    def _make_folder(self, path: str) -> None:
        parent = os.path.dirname(path)
        if parent != path and not self._disk.exists(parent):
            self._make_folder(parent)
        with _ErrorConversion("make", path, missing_is_answer=False), suppress(FileExistsError):
            self._disk.make_folder(path)
        # Another process that created it may have died before this.
        with _ErrorConversion("make", path, missing_is_answer=False):
            self._disk.sync(parent)

    def put_if_absent(
        self, name: str, data: bytes, time: int | None = None, after: Sequence[str] = ()
    ) -> None:
        """Write a temporary file, make it durable, link it to its name, make the link durable.

        What it comes after is made durable together with the temporary file. Raises what
        `Environment.put_if_absent` does; FilesystemError also where the file system has no hard
        links, for without them a file cannot be created whole and only once.
        """
        path = self.location(name)
        temporary = f"{path}.{self.random_id()}.tmp"
        try:
            with _ErrorConversion("write", temporary, missing_is_answer=False):
                written = self._disk.write(temporary, [data])
                if time is not None:
                    _check_clock(path, time, written)
            self._sync_all([temporary, *map(self.location, after)])
            self._link(temporary, path)
        finally:
            # If this fails, vacuum removes the stray file later.
            with suppress(OSError):
                self._disk.remove(temporary)
        with _in_doubt(path):
            self._disk.sync(os.path.dirname(path))

    def _sync_all(self, paths: Sequence[str]) -> None:
        try:
            self._disk.sync_all(paths)
        except OSError as error:
            with _ErrorConversion("sync", error.filename, missing_is_answer=False):
                raise

    def _link(self, temporary: str, path: str) -> None:
        try:
            self._disk.link(temporary, path)
        except FileExistsError:
            raise
        except OSError as error:
            if error.errno in _NO_LINKS:
                raise FilesystemError(
                    f"{path}: this file system has no hard links ({error.strerror}), and without "
                    "them a commit is not atomic: put the store on a local POSIX file system"
                ) from error
            with (
                _ErrorConversion("create", path, missing_is_answer=False),
                _in_doubt(path, but=_CERTAIN),
            ):
                raise

    def write(self, name: str, parts: Iterable[Content]) -> None:
        """Create a file that does not exist and write its content: see `Environment.write`."""
        path = self.location(name)
        with _ErrorConversion("write", path, missing_is_answer=False):
            self._disk.write(path, parts)

    def remove(self, name: str) -> None:
        """Remove a file; a missing file is not an error."""
        path = self.location(name)
        with suppress(FileNotFoundError), _ErrorConversion("remove", path):
            self._disk.remove(path)

    def publish(self, name: str) -> None:
        """Make the content of a file durable. FileNotFoundError if there is none."""
        path = self.location(name)
        with _ErrorConversion("sync", path):
            self._disk.sync(path)

    def sync_folder(self, folder: str) -> None:
        """Make the names in a folder durable. FileNotFoundError if there is no such folder."""
        self.publish(folder)

    def random_id(self) -> str:
        """Return 16 random bytes as 32 hexadecimal digits."""
        return os.urandom(16).hex()


def environment_of(path: str | os.PathLike[str]) -> Environment:
    """Return the environment of the store at a user's path. OptionError as of `local_folder`."""
    return LocalEnvironment(local_folder(path))


def _check_clock(path: str, time: int, file_time: int) -> None:
    ahead = time - file_time
    if ahead > CLOCK_TOLERANCE:
        raise ClockError(
            f"{path}: the time of this commit is {ahead / 1_000_000:.0f} s ahead of the file "
            "system's clock; nothing was committed: set this machine's clock, or, if it is right "
            "and the last commit was made by a wrong one, call Store.repair_clock() "
            "(relstate repair --clock)"
        )


# The errors of link() where there are no hard links.
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
# After these errors link() has certainly not made the name; after others it may have.
_CERTAIN = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.ENOENT, errno.ENOTDIR}
)


class _ErrorConversion:
    """Turns the system's errors into relstate's, except the two that are answers.

    A class, because a generator takes twice the time, and every look at a file needs one.
    """

    __slots__ = ("_doing", "_missing_is_answer", "_path")

    def __init__(self, doing: str, path: str, *, missing_is_answer: bool = True) -> None:
        self._doing = doing
        self._path = path
        self._missing_is_answer = missing_is_answer

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, OSError) and not isinstance(error, FileExistsError):
            raise self._conversion(error) from error

    def _conversion(self, error: OSError) -> Exception:
        doing, path = self._doing, self._path
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            if self._missing_is_answer:
                return FileNotFoundError(error.errno, error.strerror, path)
            return FilesystemError(
                f"{path}: cannot {doing} it: its folder does not exist or takes no new names; was "
                "the store moved or deleted?"
            )
        if error.errno == errno.EFBIG:
            return StorageFullError(
                f"{path}: cannot {doing} it, the file would exceed this process's limit of file "
                "sizes (ulimit -f), or that of the file system; nothing was committed: raise the "
                "limit and write again"
            )
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return StorageFullError(
                f"{path}: cannot {doing} it, there is no space left ({error.strerror}); nothing "
                "was committed: free some space and write again"
            )
        return FilesystemError(
            f"{path}: cannot {doing} it: {error.strerror}; check the file system and the "
            "permissions of the store's folder"
        )


@contextmanager
def _in_doubt(path: str, but: frozenset[int] = frozenset()) -> Iterator[None]:
    """Turn the system's errors into an unknown outcome, except those with numbers in ``but``."""
    try:
        yield
    except OSError as error:
        if error.errno in but:
            raise
        raise UnknownOutcomeError(
            f"{path}: the file may or may not have been created ({error.strerror})"
        ) from error


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


def after_fork(call: Callable[[], None]) -> None:
    """Call ``call`` in every child process that is forked from now on."""
    os.register_at_fork(after_in_child=call)
