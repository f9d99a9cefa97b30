"""The only access to the outside world: files, clock and randomness.

Everything in relstate that touches a disk, reads a clock or draws a random number does it through
an `Environment`. So a test can make any access fail, and an object store can take the place of a
folder: names are relative to the store and separated by ``/``, a file appears whole or not at all,
and nothing is changed in place; only an erasure replaces files of the log, each as a whole.

Promises: a file is durable once `put_if_absent` has returned; of many creators of one name exactly
one succeeds; errors are relstate's own and name the path, except FileNotFoundError and
FileExistsError, which are answers.
Does not know: what the files mean, or where they are (local_environment.py, objects).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .disk import Content, FolderVersion

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

    def enclosing(self, folder: str) -> Iterator[tuple[str, Sequence[str]]]:
        """Yield the folders that the store's is in and that have a folder of this name.

        The nearest first, each with the names in that. What cannot be looked at is left out.
        """

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

    def replace(self, name: str, data: bytes) -> None:
        """Give a file, which may exist, another content, whole and durable.

        Readers see the old or the new one. Only for a file of the log whose new content says the
        same of every epoch that can be read: see redaction.py. StorageFullError or FilesystemError,
        after which it has either.
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


def created(put_if_absent: Callable[[str, bytes], None], name: str, data: bytes) -> bool:
    """Create a file; return whether its name was free."""
    try:
        put_if_absent(name, data)
    except FileExistsError:
        return False
    return True
