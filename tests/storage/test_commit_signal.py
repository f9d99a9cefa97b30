"""The signal of commits: a reader without a look never misses a commit that was reported.

The clocks of these tests move by hand, so that no interval ends by chance.
"""

from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from time import monotonic

import pytest

from relstate.storage.commit_signal import LOOK_INTERVAL
from relstate.storage.disk import Disk, filesystem_of
from relstate.storage.errors import ClosedError
from relstate.storage.local_environment import LocalEnvironment
from relstate.storage.log.log import Log
from relstate.storage.log.state import StoreState
from relstate.storage.paths import SIGNAL, entry_path
from relstate.storage.store import Store
from support.clock import ManualClock
from support.commits import UnsyncedDisk, advanced, commit_when_asked, new_store, quick_environment
from support.faulty_environment import FaultyEnvironment
from support.races import Before

HAMMER_SECONDS = 1.0


@pytest.fixture
def clock() -> ManualClock:
    """The clock of all environments of a test."""
    return ManualClock()


@pytest.fixture
def root(tmp_path: Path, clock: ManualClock) -> Path:
    """A store with one table, at epoch 2."""
    new_store(quick_environment(tmp_path / "store", clock), "orders")
    return tmp_path / "store"


class Reader:
    """A process that follows the log."""

    def __init__(self, environment: LocalEnvironment) -> None:
        self.log = Log(environment)
        self.state = self.log.load()
        # The first look is after the announcement of `load`.
        self.look()

    @classmethod
    def of(cls, root: Path, clock: ManualClock) -> Reader:
        return cls(quick_environment(root, clock))

    def look(self) -> int:
        self.state = self.log.refresh(self.state)
        return self.state.epoch


def commit_by(environment: LocalEnvironment) -> StoreState:
    """Commit one epoch, as another process."""
    log = Log(environment)
    state = log.load()
    return advanced(log, state, state.epoch + 1)


# The order of the steps


def test_a_reader_that_looks_while_an_entry_is_made_sees_it_after_the_commit(
    root: Path, tmp_path: Path, clock: ManualClock
) -> None:
    """At every step of a commit: so it is announced after its entry exists, before it returns."""
    for step in range(1, 40):
        store = tmp_path / str(step)
        shutil.copytree(root, store)
        reader = Reader.of(store, clock)
        look = Before(step, reader.look)
        epoch = commit_by(FaultyEnvironment(store, clock=clock, before=look)).epoch

        assert reader.look() == epoch
        if not look.happened:
            assert step > 15
            return
    raise AssertionError("a commit has more steps than were tried")


def test_a_commit_during_a_look_is_seen_by_the_next(root: Path, clock: ManualClock) -> None:
    """At every step of a look: so its number is read before it."""
    others = quick_environment(root, clock)
    epochs: list[int] = []
    hooks: list[Before] = []

    def call_hooks(touch: str) -> None:
        for hook in hooks:
            hook(touch)

    for step in range(1, 6):
        epochs.clear()
        hooks.clear()
        act = Before(step, lambda: epochs.append(commit_by(others).epoch))
        reader = Reader(FaultyEnvironment(root, clock=clock, before=call_hooks))
        clock.advance(LOOK_INTERVAL)
        hooks.append(act)
        reader.look()
        if not act.happened:
            assert step > 3
            return
        assert reader.look() == epochs[0]
    raise AssertionError("a look has more steps than were tried")


# Entries that nobody announced


def die_before_announcing(root: Path, clock: ManualClock, state: StoreState) -> None:
    """Let a writer die between the entry after a state and its announcement."""
    dying = FaultyEnvironment(root, clock=clock, crash_at=f"announce in {SIGNAL}")
    with dying.crashing():
        advanced(Log(dying), state, state.epoch + 1)
    assert dying.struck
    assert dying.touches[-1] == f"announce in {SIGNAL}"
    assert (root / entry_path(state.epoch + 1)).exists()


def test_what_a_dead_writer_did_not_announce_is_seen_after_an_interval(
    root: Path, clock: ManualClock
) -> None:
    """And not before: until then, no call has returned it."""
    reader = Reader.of(root, clock)
    die_before_announcing(root, clock, reader.state)

    assert reader.look() == 2
    clock.advance(LOOK_INTERVAL)
    assert reader.look() == 3


def test_a_process_that_finds_an_entry_announces_it_first(root: Path, clock: ManualClock) -> None:
    """By a look or by opening the store: all others see it then, without waiting."""
    for finds_by_look in (True, False):
        others = [Reader.of(root, clock) for _ in range(2)]
        finders_clock = ManualClock()
        finder = Reader.of(root, finders_clock)
        for other in others:
            other.look()
        state = finder.state
        die_before_announcing(root, clock, state)
        assert [other.look() for other in others] == [state.epoch] * 2

        if finds_by_look:
            finders_clock.advance(LOOK_INTERVAL)
            assert finder.look() == state.epoch + 1
        else:
            assert Reader.of(root, clock).state.epoch == state.epoch + 1
        assert [other.look() for other in others] == [state.epoch + 1] * 2


def test_a_writer_that_meets_an_unannounced_entry_commits_after_it(
    root: Path, clock: ManualClock
) -> None:
    """The slot that it finds taken makes it look again."""
    writer = Reader.of(root, clock)
    die_before_announcing(root, clock, writer.state)

    assert advanced(writer.log, writer.state, 4).epoch == 4


# Files that are not as usual


def test_a_signal_that_was_replaced_or_removed_hides_nothing_for_longer_than_an_interval(
    root: Path, clock: ManualClock
) -> None:
    """The file that has the name is mapped at the next look."""
    signal = root / SIGNAL
    replacements: list[Callable[[], object]] = [
        lambda: None,
        lambda: signal.write_bytes(bytes(8)),
        lambda: signal.write_bytes(b""),
        signal.mkdir,
    ]
    for replace in replacements:
        reader = Reader.of(root, clock)
        signal.unlink()
        replace()
        epoch = commit_by(quick_environment(root, clock)).epoch
        clock.advance(LOOK_INTERVAL)
        assert reader.look() == epoch
        epoch = commit_by(quick_environment(root, clock)).epoch
        assert reader.look() == epoch
        if signal.is_dir():
            signal.rmdir()


class OddDisk(UnsyncedDisk):
    """A disk of some type of file system, on which the signal may not be writable."""

    def __init__(self, clock: ManualClock, kind: str = "ext4", number: int = 0) -> None:
        super().__init__(clock)
        self.kind, self.number = kind, number
        self.waits: list[float] = []
        self.writes: list[tuple[bool, bool]] = []

    def filesystem(self, path: str) -> str:
        """Return the type."""
        return self.kind

    def overwrite(self, path: str, data: bytes, *, create: bool, sync: bool) -> None:
        """Fail, or take note."""
        if self.number:
            raise OSError(self.number, os.strerror(self.number), path)
        self.writes.append((create, sync))
        super().overwrite(path, data, create=create, sync=sync)

    def wait(self, seconds: float) -> None:
        """Take note."""
        self.waits.append(seconds)


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs", "9p", "virtiofs", ""])
def test_files_of_another_machine_are_not_mapped(root: Path, clock: ManualClock, kind: str) -> None:
    """Each read looks; a commit is announced to readers to whom the folder is local."""
    local = Reader.of(root, clock)
    disk = OddDisk(clock, kind)
    remote = Reader(LocalEnvironment(str(root), disk, clock))
    assert remote.log.environment.signal(SIGNAL) is None
    assert not remote.log.is_quiet(remote.state)

    advanced(remote.log, remote.state, 3)
    assert local.look() == 3
    assert set(disk.writes) == {(False, True)}

    (root / SIGNAL).unlink()
    advanced(remote.log, remote.state, 4)
    assert not (root / SIGNAL).exists()
    assert disk.waits == []


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_a_process_that_cannot_announce_waits_until_all_have_looked(
    root: Path, clock: ManualClock, number: int
) -> None:
    """Unless there is no signal, or the entry is old, by the clock of the files."""
    disk = OddDisk(clock, number=number)
    log = Log(LocalEnvironment(str(root), disk, clock))
    state = log.load()
    disk.waits.clear()
    state = advanced(log, state, 3)
    # The clock of the test is behind that of the files.
    assert disk.waits == [2 * LOOK_INTERVAL]

    disk.waits.clear()
    later = LocalEnvironment(str(root), disk, ManualClock(4_000_000_000_000_000))
    assert Log(later).load() == state
    assert disk.waits == []

    (root / SIGNAL).unlink()
    advanced(log, state, 4)
    assert disk.waits == []


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/data/shop/_log/.signal", "xfs"),
        ("/data", "xfs"),
        ("/database", "ext4"),
        ("/data/far away/shop", "nfs4"),
        ("/twice/shop", "fuse.sshfs"),
        ("/", "ext4"),
    ],
)
def test_the_file_system_of_a_path_is_that_of_the_nearest_mount(path: str, kind: str) -> None:
    """The last one, where a mount hides another; paths have their blanks in octal."""
    mounts = "\n".join(
        (
            "27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw",
            "30 27 8:1 / /data rw - xfs /dev/sda rw",
            "31 30 0:40 / /data/far\\040away rw master:2 propagate_from:1 - nfs4 host:/x rw",
            "32 27 8:2 / /twice rw - ext4 /dev/sdb rw",
            "33 32 0:41 / /twice rw - fuse.sshfs host:/ rw",
        )
    )
    assert filesystem_of(path, mounts) == kind


def test_this_machines_file_systems_are_known(tmp_path: Path) -> None:
    """The type is a word; the kernel's own is not one on which a store may be."""
    assert Disk().filesystem(str(tmp_path)).isprintable()
    assert Disk().filesystem("/proc/self") in ("proc", "")


# Processes


def test_a_read_sees_what_another_process_has_committed(root: Path) -> None:
    """However soon after it: two processes, without a pause, for a second or more."""
    forking = multiprocessing.get_context("fork")
    ours, theirs = forking.Pipe()
    process = forking.Process(target=commit_when_asked, args=(str(root), theirs))
    process.start()
    try:
        store = Store.open(str(root))
        ours.send(True)
        assert ours.poll(60)
        expected, commits, reads = ours.recv(), 0, 0
        end = monotonic() + HAMMER_SECONDS
        while monotonic() < end or commits <= 20 or reads <= commits:
            assert store.epoch >= expected
            ours.send(True)
            while not ours.poll():
                assert store.epoch >= expected
                reads += 1
            expected = ours.recv()
            assert store.epoch >= expected
            commits += 1
    finally:
        ours.send(False)
        process.join()


def test_a_child_that_was_forked_sees_commits_of_its_parent(root: Path, clock: ManualClock) -> None:
    """And the parent those of its child: both have the same memory."""
    reader = Reader.of(root, clock)
    asked, ask = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(asked, 1)
        advanced(reader.log, reader.state, 4)
        os._exit(reader.look())
    advanced(Log(quick_environment(root, clock)), reader.state, 3)
    os.write(ask, b"x")
    _, status = os.waitpid(child, 0)
    os.close(asked)
    os.close(ask)

    assert os.waitstatus_to_exitcode(status) == 4
    assert reader.look() == 4


def test_a_store_that_was_closed_is_not_read(root: Path) -> None:
    """Even if nothing was committed since its last look."""
    store = Store.open(str(root))
    table = store.table("orders")
    assert table.get(1) is None
    store.close()

    with pytest.raises(ClosedError):
        table.get(1)


def test_a_commit_is_one_write_to_the_signal(root: Path, clock: ManualClock) -> None:
    """The writer's own look does not announce what it has announced."""
    environment = FaultyEnvironment(root, clock=clock)
    log = Log(environment)
    state = log.load()
    before = len(environment.touches)
    advanced(log, state, 3)

    assert environment.touches[before:].count(f"announce in {SIGNAL}") == 1
