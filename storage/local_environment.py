"""The environment of a store in a folder of this machine.

Promises: those of environment.py, after a power cut, too.
Does not know: what the files mean.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from .clock import Clock, SystemClock, check_clock
from .commit_signal import CommitSignal
from .disk import MOST_READ, Content, Disk, FolderVersion
from .disk_errors import ErrorConversion, in_doubt
from .environment import created
from .errors import FilesystemError, RelstateError

_T = TypeVar("_T")

# The errors of link() where there are no hard links.
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
# After these errors link() has certainly not made the name; after others it may have.
_CERTAIN = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.ENOENT, errno.ENOTDIR}
)


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
        with ErrorConversion("read", path):
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
        with ErrorConversion("map", path):
            return self._disk.map(path)

    def size(self, name: str) -> int:
        """Return a file's size in bytes. FileNotFoundError if there is none."""
        path = self.location(name)
        with ErrorConversion("look at", path):
            return self._disk.size(path)

    def sizes(self, names: Sequence[str]) -> list[int | None]:
        """Return the sizes of files, None for those that are missing."""
        return [_or_none(self.size, name) for name in names]

    def identity(self, name: str) -> tuple[int, ...]:
        """Return a file's inode, size and times. FileNotFoundError if there is none."""
        path = self.location(name)
        with ErrorConversion("look at", path):
            return self._disk.identity(path)

    def modified(self, name: str) -> int:
        """Return when a file was last written. FileNotFoundError if there is none."""
        path = self.location(name)
        with ErrorConversion("look at", path):
            return self._disk.modified(path)

    def exists(self, name: str) -> bool:
        """Return whether the name is taken; False, too, if an error hides it."""
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
        with ErrorConversion("list", path):
            return sorted(self._disk.list(path))

    def enclosing(self, folder: str) -> Iterator[tuple[str, Sequence[str]]]:
        """Yield the folders above the store's, by its path and by what a link in that leads to."""
        with ErrorConversion("look for", self.root):
            paths = dict.fromkeys((self.root, self._disk.resolve(self.root)))
        for path in paths:
            parent = os.path.dirname(path)
            while parent != path:
                with suppress(OSError):
                    yield parent, self._disk.list(f"{parent}/{folder}")
                path, parent = parent, os.path.dirname(parent)

    def make_folders(self, folders: Sequence[str]) -> None:
        """Make the root, its missing parents and the folders in it, durably."""
        for folder in ("", *folders):
            self._make_folder(self.location(folder))

    def _make_folder(self, path: str) -> None:
        parent = os.path.dirname(path)
        if parent != path and not self._disk.exists(parent):
            self._make_folder(parent)
        with ErrorConversion("make", path, missing_is_answer=False), suppress(FileExistsError):
            self._disk.make_folder(path)
        # Another process that created it may have died before this.
        with ErrorConversion("make", path, missing_is_answer=False):
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
        if len(data) > MOST_READ:
            raise FilesystemError(
                f"{path}: it would have {len(data)} bytes, and at most {MOST_READ} can be read; "
                "nothing was written: commit fewer files at once, or compact and vacuum the store"
            )
        temporary = f"{path}.{self.random_id()}.tmp"
        try:
            with ErrorConversion("write", temporary, missing_is_answer=False):
                written = self._disk.write(temporary, [data])
                if time is not None:
                    check_clock(path, time, written)
            self._sync_all([temporary, *map(self.location, after)])
            self._link(temporary, path)
        finally:
            # If this fails, vacuum removes the stray file later.
            with suppress(OSError):
                self._disk.remove(temporary)
        with in_doubt(path):
            self._disk.sync(os.path.dirname(path))

    def put_all_if_absent(self, files: Mapping[str, bytes]) -> frozenset[str]:
        """Create files one after another; return the names that were taken."""
        return frozenset(
            name for name, data in files.items() if not created(self.put_if_absent, name, data)
        )

    def replace(self, name: str, data: bytes) -> None:
        """Write a temporary file, make it durable, rename it, make the name durable."""
        path = self.location(name)
        temporary = f"{path}.{self.random_id()}.tmp"
        try:
            with ErrorConversion("write", temporary, missing_is_answer=False):
                self._disk.write(temporary, [data])
            self._sync_all([temporary])
            with ErrorConversion("replace", path, missing_is_answer=False):
                self._disk.rename(temporary, path)
        except RelstateError:
            # If this fails, vacuum removes the stray file later.
            with suppress(OSError):
                self._disk.remove(temporary)
            raise
        self.sync_folder(os.path.dirname(name))

    def _sync_all(self, paths: Sequence[str]) -> None:
        try:
            self._disk.sync_all(paths)
        except OSError as error:
            with ErrorConversion("sync", error.filename, missing_is_answer=False):
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
                ErrorConversion("create", path, missing_is_answer=False),
                in_doubt(path, but=_CERTAIN),
            ):
                raise

    def write(self, name: str, parts: Iterable[Content]) -> None:
        """Create a file that does not exist and write its content: see `Environment.write`."""
        path = self.location(name)
        with ErrorConversion("write", path, missing_is_answer=False):
            self._disk.write(path, parts)

    def remove(self, name: str) -> None:
        """Remove a file; a missing file is not an error."""
        path = self.location(name)
        with suppress(FileNotFoundError), ErrorConversion("remove", path):
            self._disk.remove(path)

    def publish(self, name: str) -> None:
        """Make the content of a file durable. FileNotFoundError if there is none."""
        path = self.location(name)
        with ErrorConversion("sync", path):
            self._disk.sync(path)

    def sync_folder(self, folder: str) -> None:
        """Make the names in a folder durable. FileNotFoundError if there is no such folder."""
        self.publish(folder)

    def random_id(self) -> str:
        """Return 16 random bytes as 32 hexadecimal digits."""
        return os.urandom(16).hex()


def _or_none(read: Callable[[str], _T], name: str) -> _T | None:
    try:
        return read(name)
    except FileNotFoundError:
        return None
