"""An environment that fails where a test wants it to: crashes, power cuts, errors, lost answers.

`FaultyEnvironment` is a `LocalEnvironment` over a disk that counts every touch of the outside
world: every read, look, write, link, removal and sync. So what fails is the real order of system
calls, not a model of it. A crash loop looks like this:

    for step in itertools.count(1):
        environment = FaultyEnvironment(path, crash_at=step)
        with environment.crashing():
            commit(Log(environment), ...)
        environment.power_cut()
        assert the store at path, opened anew, is the old one or the new one
        if not environment.struck:
            break                                   # the step lies behind the last touch

**What a power cut leaves.** What was synced when the environment was made, or has been since: a
file's content by its own sync (`publish`), a folder's names, those that came and those that went,
by the folder's sync. Content that was not synced is gone, and the file empty. `power_cut(seed=n)`
draws instead, for each unsynced thing apart, whether it is lost, kept or (content) torn in two: a
real disk may have written any part of it. Never calling `power_cut` is the other extreme, a killed
process under a living kernel.

Limits: one process; what other processes do to the folder counts as not synced. Files are removed
through the environment only. Clocks and random ids never fail.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from errno import EIO
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from relstate.storage.clock import Clock
from relstate.storage.disk import Content, Disk, FolderVersion, raise_first
from relstate.storage.local_environment import LocalEnvironment
from relstate.storage.segment.registry import registry


class SimulatedCrash(BaseException):
    """The process is dead: not an Exception, so that no handler takes it for a trouble."""


class FaultyEnvironment(LocalEnvironment):
    """A `LocalEnvironment` that fails at one touch of the outside world.

    Which one: its number, counted from 1, or a shell pattern of its description, whose first match
    it is, say ``"link _log/*42.json"``.

    ``crash_at``: that touch and all later ones raise SimulatedCrash and do nothing.
    ``error_at``: that touch raises OSError(``errno``) and does nothing (a look sees nothing).
    ``lost_at``: that touch is done, then raises OSError(``errno``) (a look sees nothing), unless it
    raised by itself.
    ``before``: called before each touch with its description, say ``"link _log/<file>"``, to let
    others act at just that moment; what it touches through this environment is not counted.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        crash_at: int | str | None = None,
        error_at: int | str | None = None,
        lost_at: int | str | None = None,
        errno: int = EIO,
        before: Callable[[str], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        """``root``: the store's folder; what is in it now counts as durable.

        ``clock``: that of the file system, too.
        """
        self._faults = _Faults(os.path.abspath(root), crash_at, error_at, lost_at, errno, before)
        self._faulty_disk = _FaultyDisk(self._faults, clock)
        super().__init__(os.fspath(root), self._faulty_disk, clock)

    @property
    def touches(self) -> list[str]:
        """What was touched so far, in order: an operation and a name relative to the store."""
        return self._faults.touches

    @property
    def struck(self) -> bool:
        """Whether the touch that was to go wrong was reached."""
        return self._faults.struck

    @contextmanager
    def crashing(self) -> Iterator[None]:
        """Run a block that the crash may end."""
        with suppress(SimulatedCrash):
            yield

    def power_cut(self, seed: int | None = None) -> None:
        """Leave on the disk what a power cut would; with a ``seed``, what one might.

        The environment is dead from here on: open the store by a new one.
        """
        self._faults.crashed = True
        self._faulty_disk.platter.power_cut(None if seed is None else random.Random(seed))


@dataclass(slots=True)
class _Faults:
    root: str
    crash_at: int | str | None
    error_at: int | str | None
    lost_at: int | str | None
    errno: int
    before: Callable[[str], None] | None
    touches: list[str] = field(default_factory=list)
    struck: bool = False
    crashed: bool = False
    _inside: bool = False

    @contextmanager
    def touch(self, operation: str, path: str) -> Iterator[None]:
        if self._inside:
            yield
            return
        if self.crashed:
            raise SimulatedCrash
        self.touches.append(f"{operation} {os.path.relpath(path, self.root)}")
        crash, error, lost = map(self._is_now, (self.crash_at, self.error_at, self.lost_at))
        self._let_others_act()
        self.struck = self.struck or crash or error or lost
        if crash:
            self.crashed = True
            raise SimulatedCrash
        if error:
            self._fail("refused", path)
        yield
        if lost:
            self._fail("done, but the answer was lost", path)

    def _is_now(self, at: int | str | None) -> bool:
        """Return whether the touch that has just begun is the one that goes wrong."""
        if isinstance(at, str):
            return not self.struck and fnmatchcase(self.touches[-1], at)
        return len(self.touches) == at

    def _let_others_act(self) -> None:
        if self.before is None:
            return
        self._inside = True
        try:
            self.before(self.touches[-1])
        finally:
            self._inside = False

    def _fail(self, reason: str, path: str) -> None:
        raise OSError(self.errno, f"{os.strerror(self.errno)} ({reason})", path)


class _FaultyDisk(Disk):
    """A `Disk` whose every method is one touch, and which knows what is durable."""

    def __init__(self, faults: _Faults, clock: Clock | None) -> None:
        self._touch = faults.touch
        self._root = faults.root
        self._clock = clock
        self.platter = _Platter(faults.root)

    def read(self, path: str) -> bytes:
        with self._touch("read", path):
            return super().read(path)

    def map(self, path: str) -> NDArray[np.uint8]:
        with self._touch("map", path):
            return super().map(path)

    def map_number(self, path: str) -> memoryview:
        with self._touch("map", path):
            return super().map_number(path)

    def overwrite(self, path: str, data: bytes, *, create: bool, sync: bool) -> None:
        with self._touch("announce in", path):
            super().overwrite(path, data, create=create, sync=sync)

    def filesystem(self, path: str) -> str:
        with self._touch("look at the file system of", path):
            return super().filesystem(path)

    def wait(self, seconds: float) -> None:
        with self._touch("wait in", self._root):
            super().wait(seconds)

    def file_id(self, path: str) -> tuple[int, int]:
        with self._touch("look at the file", path):
            return super().file_id(path)

    def size(self, path: str) -> int:
        with self._touch("look at", path):
            return super().size(path)

    def identity(self, path: str) -> tuple[int, ...]:
        with self._touch("look at the identity of", path):
            return super().identity(path)

    def modified(self, path: str) -> int:
        with self._touch("look at the time of", path):
            return super().modified(path)

    def exists(self, path: str) -> bool:
        with suppress(OSError), self._touch("look for", path):
            return super().exists(path)
        return False

    def folder_version(self, path: str) -> FolderVersion | None:
        with suppress(OSError), self._touch("look at the version of", path):
            return super().folder_version(path)
        return None

    def list(self, path: str) -> list[str]:
        with self._touch("list", path):
            return super().list(path)

    def resolve(self, path: str) -> str:
        with self._touch("resolve", path):
            return super().resolve(path)

    def make_folder(self, path: str) -> None:
        with self._touch("make", path):
            super().make_folder(path)

    def write(self, path: str, parts: Iterable[Content]) -> int:
        with self._touch("write", path):
            time = super().write(path, parts)
        return time if self._clock is None else self._clock.now()

    def link(self, source: str, target: str) -> None:
        with self._touch("link", target):
            super().link(source, target)

    def rename(self, source: str, target: str) -> None:
        with self._touch("rename to", target):
            self.platter.forget(target)
            super().rename(source, target)

    def remove(self, path: str) -> None:
        with self._touch("remove", path):
            self.platter.forget(path)
            super().remove(path)

    def sync(self, path: str) -> None:
        with self._touch("sync", path):
            # What is durable is the platter's to know: nothing waits for the real disk.
            self.platter.sync(Path(path))

    def sync_all(self, paths: Sequence[str]) -> None:
        # One after the other, so that a touch has a number; none waits for another to succeed.
        failures: list[tuple[BaseException, str]] = []
        for path in paths:
            try:
                self.sync(path)
            except OSError as error:
                failures.append((error, path))
        raise_first(failures)


@dataclass(slots=True, eq=False)
class _Content:
    """The durable content of one file, under whatever names; None: nothing of it is durable."""

    durable: bytes | None = None


class _Platter:
    """What is durable of a folder and all that is in it.

    ``_names`` are the durable names, each with its file's content, or None for a folder.
    ``_live`` knows the contents by the inodes that exist now.
    """

    def __init__(self, root: str) -> None:
        self._root = Path(root)
        self._live: dict[int, _Content] = {}
        self._names: dict[Path, _Content | None] = {}
        for path in self._present():
            self._names[path] = None if path.is_dir() else self._content(path)
            if path.is_file():
                self._content(path).durable = path.read_bytes()

    def _present(self) -> list[Path]:
        """Return the root and all that is in it, folders before what they hold."""
        if not self._root.exists():
            return []
        return [self._root, *sorted(self._root.rglob("*"))]

    def _content(self, path: Path) -> _Content:
        return self._live.setdefault(path.stat().st_ino, _Content())

    def sync(self, path: Path) -> None:
        if not path.is_dir():
            self._content(path).durable = path.read_bytes()
            return
        for name in [name for name in self._names if name.parent == path and not name.exists()]:
            del self._names[name]
        for child in path.iterdir():
            if child == self._root or self._root in child.parents:
                self._names[child] = None if child.is_dir() else self._content(child)

    def forget(self, path: str) -> None:
        """Let go of a file whose last name is about to be removed: its inode may come again."""
        with suppress(FileNotFoundError):
            status = os.stat(path)
            if status.st_nlink == 1:
                self._live.pop(status.st_ino, None)

    def power_cut(self, draw: random.Random | None) -> None:
        contents: dict[Path, bytes | None] = {}
        for path in sorted({*self._names, *self._present()}):
            if path != self._root and contents.get(path.parent, b"") is not None:
                continue  # the folder it was in is not there
            if self._survives(path, draw):
                contents[path] = self._survivor(path, draw)
        self._replace(contents)

    def _survives(self, path: Path, draw: random.Random | None) -> bool:
        durable = path in self._names
        if durable == path.exists() or draw is None:
            return durable
        return draw.random() < 0.5

    def _survivor(self, path: Path, draw: random.Random | None) -> bytes | None:
        """Return what is in a file after the cut; None for a folder."""
        durable = self._names.get(path)
        if path.is_dir() or (path in self._names and durable is None):
            return None
        if not path.exists():
            assert durable is not None
            return durable.durable or b""
        live = self._content(path)
        if durable is not None and durable is not live and (draw is None or draw.random() < 0.5):
            return durable.durable or b""  # the name was given to another file meanwhile
        now = path.read_bytes()
        synced = live.durable
        if synced == now or draw is None:
            return synced or b""
        return draw.choice([synced or b"", now, now[: draw.randrange(len(now) + 1)]])

    def _replace(self, contents: dict[Path, bytes | None]) -> None:
        """Make the folder hold just this; a file that stays as it is stays the same inode."""
        for path in reversed(self._present()):
            if path in contents and (path.is_dir() or path.read_bytes() == contents[path]):
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        for path, content in contents.items():
            if content is None:
                path.mkdir(exist_ok=True)
            elif not path.exists():
                path.write_bytes(content)


def failing(
    root: str | os.PathLike[str],
    fault: str,
    at: int | str,
    *,
    errno: int = EIO,
    clock: Clock | None = None,
) -> FaultyEnvironment:
    """Return an environment with a fault at a touch.

    ``fault``: ``crash_at``, ``error_at`` or ``lost_at``.
    """
    faults: dict[str, Any] = {fault: at}
    return FaultyEnvironment(root, errno=errno, clock=clock, **faults)


def trials(
    prepared: Path,
    tmp_path: Path,
    fault: str,
    *,
    errno: int = EIO,
    make_clock: Callable[[], Clock] | None = None,
) -> Iterator[FaultyEnvironment]:
    """Yield an environment over a copy of a store for each touch at which a fault can happen.

    The last one has no fault.
    """
    for step in itertools.count(1):
        root = tmp_path / f"{fault}{step}"
        shutil.copytree(prepared, root)
        clock = None if make_clock is None else make_clock()
        environment = failing(root, fault, step, errno=errno, clock=clock)
        yield environment
        registry.close(str(root))
        shutil.rmtree(root)
        if not environment.struck:
            return
