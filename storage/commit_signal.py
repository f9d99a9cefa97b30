"""How processes of one machine learn without a system call that nothing was committed.

A commit is a file with a new name, which others find by a look at the log's folder. Beside the
entries is a file of 8 bytes, which readers map into their memory: a writer writes a new random
number into it after its entry exists and before the commit is reported. A reader takes the number
*before* it looks at the folder. As long as the number is the same, no commit was reported since
that look, and another look is not needed. Each side makes a system call between its two accesses,
so the processor does not exchange them.

**A reader that finds an entry announces it, too**, before it returns anything of that epoch: the
writer may have died between the two steps. So every epoch that a call has returned was announced
after its entry was made.

**The number is random**, not an epoch: writers overwrite each other's in any order, and part of one
may be mixed with part of another; whatever results differs from what was there before their
entries. An epoch or a commit id could be written a second time by a process that slept.

**A reader relies on a number for `LOOK_INTERVAL` at most**, so that it sees entries which arrive
without one (a synchronised folder, a restored file), and maps the file again if it was replaced. A
process that cannot write the number (a read-only file system, another user's file) waits until no
reader can rely on a look from before the entry.

**Only local file systems** are mapped, where what one process writes is in the memory of all.
Elsewhere readers look each time; writers write the number if there is a file, for the folder may be
local to another machine, as to the server of a network file system.

Promises: where `number` returns memory, a commit whose `announce` has returned has changed it, or
is older than `LOOK_INTERVAL`. Safe between threads, and in a process that was forked. Nothing here
is durable, or part of a store's state: the file may be missing, damaged or removed.
Does not know: log entries.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from .disk import Disk

LOOK_INTERVAL = 0.01
"""Seconds for which a reader may rely on a number that has not changed."""

# File systems of one machine, on which maps, reads and writes of a file have the same pages.
_LOCAL = frozenset(
    {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "tmpfs", "xfs", "zfs"}
)
# A file that could not be mapped is not tried again for so many seconds.
_RETRY_SECONDS = 1.0
_NUMBER_BYTES = 8


class CommitSignal:
    """The file of one store whose number says that something was committed."""

    def __init__(
        self,
        path: str,
        disk: Disk,
        now: Callable[[], int],
        monotonic: Callable[[], float],
        random_id: Callable[[], str],
    ) -> None:
        """``path``: of the file. ``now``, ``monotonic``, ``random_id``: as of `Environment`."""
        self._path = path
        self._disk = disk
        self._now = now
        self._monotonic = monotonic
        self._random_id = random_id
        self._is_local: bool | None = None
        self._next_try = float("-inf")
        # The identity of the file that is mapped, and its memory.
        self._mapped: tuple[tuple[int, int], memoryview] | None = None

    def number(self) -> memoryview | None:
        """Return memory whose item 0 differs after each commit; None if there is none.

        It is of the file that has the name now. Takes a look at it.
        """
        if not self._has_local_files() or self._monotonic() < self._next_try:
            return None
        mapped = self._mapped
        try:
            identity = self._disk.file_id(self._path)
            if mapped is None or mapped[0] != identity:
                # A file that takes the name in between is found to be another one the next time.
                self._mapped = mapped = (identity, self._disk.map_number(self._path))
        except (OSError, ValueError):
            self._mapped = None
            self._next_try = self._monotonic() + _RETRY_SECONDS
            return None
        return mapped[1]

    def announce(self, entry: str) -> None:
        """Let every reader of the number look again. ``entry``: the path of what was committed."""
        is_local = self._has_local_files()
        number = bytes.fromhex(self._random_id())[:_NUMBER_BYTES]
        try:
            # Not by the map: a store to memory cannot report that the disk is full.
            self._disk.overwrite(self._path, number, create=is_local, sync=not is_local)
        except FileNotFoundError:
            pass
        except OSError:
            if self._disk.exists(self._path):
                self._wait_for_looks(entry)

    def _wait_for_looks(self, entry: str) -> None:
        """Wait until every reader has looked since an entry was made, by the files' clock."""
        longest, age = 2 * LOOK_INTERVAL, 0.0
        with suppress(OSError):
            age = self._now() / 1e6 - self._disk.identity(entry)[3] / 1e9
        if age < longest:
            self._disk.wait(min(longest - age, longest))

    def _has_local_files(self) -> bool:
        if self._is_local is None:
            try:
                self._is_local = self._disk.filesystem(self._path) in _LOCAL
            except OSError:
                return False
        return self._is_local
