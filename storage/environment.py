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
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from .commit_signal import CommitSignal
from .disk import Content, Disk, FolderVersion
from .errors import ClockError, FilesystemError, StorageFullError, UnknownOutcomeError

_T = TypeVar("_T")

# How far clocks of machines and file systems may differ, in microseconds.
CLOCK_TOLERANCE = 60 * 1_000_000

# Longer than the clock of any file system takes from one value to the next: a kernel's ticks every
# few milliseconds, some file systems count whole seconds.
FOLDER_VERSION_TICK = 2.0


class PartReader(Protocol):
    """Parts of a file: see `Environment.parts`."""

    def read(self, start: int, stop: int) -> bytes:
        """Return verified bytes of the file, fewer if it ends before ``stop``.

        ValueError if they are damaged; FileNotFoundError, FilesystemError.
        """


class Arriving(Protocol):
    """A file on its way to this machine: see `Environment.bring`. Safe between threads.

    A wait raises FileNotFoundError if there is no such file, CorruptionError if its content is not
    that of its hash, StorageFullError or FilesystemError if it cannot come.
    """

    def contents(self) -> NDArray[np.uint8]:
        """Return a map of the file, in which only what was waited for may be read."""

    def announce(self) -> None:
        """Take note that it is read from now on: what follows is fetched before other files."""

    def wait(self, start: int, stop: int) -> None:
        """Wait until some bytes of the file are here, verified."""

    def wait_for_all(self) -> None:
        """Wait until the file is at its `local_path`, verified."""

    def abandon(self) -> None:
        """Take note that nobody will read it any more; callable in a garbage collection."""


class Environment(Protocol):
    """The files, clocks and randomness that a store uses. Safe between threads.

    ``listing_interval``: seconds after which a reader that follows the log lists its folder, even
    if single looks show no new entry: how long a stale cache of names can hide an entry.
    ``removal_delay``: seconds for which a log entry stays after it was created, by the clock of the
    files; 0: it may be removed at once. A reader that looked at its entry within this time need not
    look at it again.
    ``has_current_names``: a listing has every file that existed when it began. False where a cache
    of names may hide one.
    ``fills_up``: the files share a disk that may have no space left.
    ``is_remote``: each access is a request to a server, which may not answer.
    """

    listing_interval: float
    removal_delay: float
    has_current_names: bool
    fills_up: bool
    is_remote: bool

    def location(self, name: str) -> str:
        """Return the absolute path or URI of ``name``, for messages."""

    def local_path(self, name: str) -> str:
        """Return the path at which LMDB may open the file ``name``."""

    def read(self, name: str) -> bytes:
        """Return a file's content. FileNotFoundError if there is none."""

    def read_all(self, names: Sequence[str]) -> list[bytes | None]:
        """Return the contents of files, None for those that are missing; at the same time where
        each read waits for a server.
        """

    def hold(self, name: str, size: int, digest: str) -> object:
        """Make a segment readable at its `local_path` for as long as the returned object exists.

        ``digest``: the content's hash, which is verified if the file is copied here now.
        FileNotFoundError if there is none; CorruptionError if its content is another one.
        """

    def bring(self, name: str, size: int, digest: str) -> tuple[object, Arriving | None]:
        """Return what `hold` does without waiting, and the segment on its way if it is not here.

        Several are brought at the same time.
        """

    def parts(self, name: str, size: int, digest: str) -> PartReader | None:
        """Return what reads parts of a segment that is not on this machine; None: `hold` is quick.

        The arguments are those of `hold`.
        """

    def drop_copy(self, name: str) -> bool:
        """Remove this machine's copy of a file; return whether there was one to remove.

        False where the file at `local_path` is the only one.
        """

    def map(self, name: str) -> NDArray[np.uint8]:
        """Return a file's content, read-only, memory-mapped where that is possible.

        FileNotFoundError if there is none.
        """

    def size(self, name: str) -> int:
        """Return a file's size in bytes. FileNotFoundError if there is none."""

    def sizes(self, names: Sequence[str]) -> list[int | None]:
        """Return the sizes of files, None for those that are missing."""

    def identity(self, name: str) -> tuple[int, ...]:
        """Return numbers that differ once a file is changed or replaced. FileNotFoundError."""

    def modified(self, name: str) -> int:
        """Return when a file was last written, in microseconds since 1970 by the file system's
        clock. FileNotFoundError if there is none.
        """

    def exists(self, name: str) -> bool:
        """Return whether the file exists. Cheap.

        An error on the way is a False where the files are on a local file system; FilesystemError
        where the look is a request to a server.
        """

    def list(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted, without the folder. FileNotFoundError if none."""

    def folder_version(self, folder: str) -> FolderVersion | None:
        """Return a value that changes with every name that comes to the folder or leaves it.

        Of two changes within `FOLDER_VERSION_TICK` seconds the second may leave it as it is. None
        where the files have no such value. Cheap: an error on the way is a None.
        """

    def signal(self, name: str) -> memoryview | None:
        """Return memory whose item 0 differs after each `announce` of the same name.

        None where processes share no memory: a change is found by a look. What is returned may be
        relied on for `LOOK_INTERVAL` seconds, then it is asked for again. Cheap.
        """

    def announce(self, name: str, entry: str) -> None:
        """Change what `signal` returns, in all processes, because the file ``entry`` was created.

        Where that cannot be done, wait until nobody can rely on it. It raises no error.
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

    def put_all_if_absent(self, files: Mapping[str, bytes]) -> frozenset[str]:
        """Do what `put_if_absent` does with files; at the same time where each waits for a server.

        Return the names that were taken. After an error some files may have been created.
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

    # Not a function of its own, which would double the time: each get asks for it.
    monotonic = staticmethod(time.monotonic)


class LocalEnvironment:
    """A folder of a POSIX file system with hard links. Safe between threads and processes."""

    listing_interval = 60.0
    removal_delay = 0.0
    has_current_names = False
    fills_up = True
    is_remote = False

    def __init__(self, root: str, disk: Disk | None = None, clock: Clock | None = None) -> None:
        """``root``: the store's folder, which need not exist yet."""
        self.root = os.path.abspath(root)
        self._disk = disk or Disk()
        self._clock = clock or SystemClock()
        self._signals: dict[str, CommitSignal] = {}
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

    def read_all(self, names: Sequence[str]) -> list[bytes | None]:
        """Return the contents of files, None for those that are missing."""
        return [_or_none(self.read, name) for name in names]

    def hold(self, name: str, size: int, digest: str) -> None:
        """Do nothing: the file is at its `local_path`."""

    def bring(self, name: str, size: int, digest: str) -> tuple[None, None]:
        """Return nothing: the file is here."""
        return None, None

    def parts(self, name: str, size: int, digest: str) -> None:
        """Return None: the file is here."""

    def drop_copy(self, name: str) -> bool:
        """Return False: there is no file but the one at its `local_path`."""
        return False

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

    def sizes(self, names: Sequence[str]) -> list[int | None]:
        """Return the sizes of files, None for those that are missing."""
        return [_or_none(self.size, name) for name in names]

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
        """Return whether the file exists; False, too, if an error hides it."""
        return self._disk.exists(f"{self.root}/{name}" if name else self.root)

    def folder_version(self, folder: str) -> FolderVersion | None:
        """Return a value that changes with the names in a folder; None if it is not known."""
        try:
            return self._disk.folder_version(f"{self.root}/{folder}")
        except OSError:
            return None

    def signal(self, name: str) -> memoryview | None:
        """Return memory whose item 0 differs after each `announce`: see `commit_signal`."""
        return self._signal(name).number()

    def announce(self, name: str, entry: str) -> None:
        """Change the number in a file, or wait until nobody relies on the one before."""
        self._signal(name).announce(self.location(entry))

    def _signal(self, name: str) -> CommitSignal:
        signal = self._signals.get(name)
        if signal is None:
            path = self.location(name)
            signal = CommitSignal(path, self._disk, self.now, self.monotonic, self.random_id)
            self._signals[name] = signal
        return signal

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
                    check_clock(path, time, written)
            self._sync_all([temporary, *map(self.location, after)])
            self._link(temporary, path)
        finally:
            # If this fails, vacuum removes the stray file later.
            with suppress(OSError):
                self._disk.remove(temporary)
        with _in_doubt(path):
            self._disk.sync(os.path.dirname(path))

    def put_all_if_absent(self, files: Mapping[str, bytes]) -> frozenset[str]:
        """Create files one after another; return the names that were taken."""
        return frozenset(
            name for name, data in files.items() if not created(self.put_if_absent, name, data)
        )

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


def created(put_if_absent: Callable[[str, bytes], None], name: str, data: bytes) -> bool:
    """Create a file; return whether its name was free."""
    try:
        put_if_absent(name, data)
    except FileExistsError:
        return False
    return True


def _or_none(read: Callable[[str], _T], name: str) -> _T | None:
    try:
        return read(name)
    except FileNotFoundError:
        return None


def check_clock(
    path: str, time: int, file_time: int, clock: str = "the file system's clock"
) -> None:
    """Raise ClockError if a commit's time is too far ahead of the clock of its files."""
    ahead = time - file_time
    if ahead > CLOCK_TOLERANCE:
        raise ClockError(
            f"{path}: the time of this commit is {ahead / 1_000_000:.0f} s ahead of "
            f"{clock}; nothing was committed: set this machine's clock, or, if it is right "
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


def after_fork(call: Callable[[], None]) -> None:
    """Call ``call`` in every child process that is forked from now on."""
    os.register_at_fork(after_in_child=call)
