"""Vacuum: it removes the files that no epoch in retention needs, and no other."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from relstate.storage import Proposal, Store
from relstate.storage.clock import SystemClock
from relstate.storage.errors import (
    ConflictError,
    EpochExpiredError,
    OptionError,
    RelstateError,
    SegmentMissingError,
    StorageError,
    UnknownOutcomeError,
)
from relstate.storage.local_environment import LocalEnvironment
from relstate.storage.maintenance.vacuum import VacuumReport
from relstate.storage.paths import ARCHIVE, LOG, SEGMENTS, entry_path
from relstate.storage.segment.registry import registry
from support.clock import ManualClock
from support.commits import UnsyncedDisk
from support.faulty_environment import FaultyEnvironment, trials
from support.races import Before
from support.stores import Rows, contents, upsert, written
from support.views import new_view, progressed, refresh, view_rows

_DAY = 24 * 3600
_ROWS: Rows = [(key, "newest") for key in range(10)]


@pytest.fixture
def clock() -> ManualClock:
    """The clock of the machine, whose files are as old as the real ones."""
    return ManualClock(SystemClock().now())


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[Store]:
    """A store whose table was written three times, an hour apart, and then compacted."""
    path = str(tmp_path / "store")
    environment = LocalEnvironment(path, UnsyncedDisk(clock), clock)
    with Store.create(path, vnode_count=5, shards=2, environment=environment) as store:
        fill(store, clock)
        yield store
        assert store.check().problems == ()


def fill(store: Store, clock: ManualClock) -> None:
    """Write the rows, an hour apart: epochs 3, 4 and 5; then compact them: epoch 6."""
    store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
    for value in ("old", "newer", "newest"):
        clock.advance(3600)
        upsert(store, "t", [(key, value) for key in range(10)])
    clock.advance(3600)
    store.compact()


def files(store: Store, folder: str = SEGMENTS) -> set[str]:
    """Return the names in a folder."""
    return set(store.environment.list(folder))


def of_epochs(store: Store, *epochs: int) -> set[str]:
    """Return the files of the segments that epochs added."""
    return {
        f"{record.name}.lmdb"
        for entry in store.history()
        if entry.epoch in epochs
        for record in entry.added
    }


def orphan(store: Store, age: float) -> str:
    """Write a file that nothing names, so many seconds old; return its name."""
    name = f"{store.environment.random_id()}-000000.lmdb"
    leave(store, f"{SEGMENTS}/{name}", age)
    return name


def leave(store: Store, path: str, age: float) -> None:
    """Write a file, so many seconds old."""
    file = Path(store.environment.location(path))
    file.write_bytes(b"left behind")
    then = store.environment.now() / 1e6 - age
    os.utime(file, (then, then))


def test_what_expired_goes_at_once(store: Store) -> None:
    """A retention keeps the epoch that was the newest when it began, and all later ones."""
    before = {epoch: contents(store, "t", epoch) for epoch in range(2, 7)}
    old = of_epochs(store, 3)
    size = sum(store.environment.size(f"{SEGMENTS}/{file}") for file in of_epochs(store, 3, 4, 5))

    # Three hours ago epoch 3 was an hour old and current.
    assert store.vacuum(retention=2 * 3600 + 1) == VacuumReport(0, 0, 3)
    assert store.vacuum(retention=3600) == VacuumReport(0, 0, 5)
    assert old <= files(store)
    assert {epoch: contents(store, "t", epoch) for epoch in (5, 6, 7)} == {
        epoch: before[min(epoch, 6)] for epoch in (5, 6, 7)
    }
    assert store.vacuum(retention=0) == VacuumReport(3, size, 8)
    assert files(store) == of_epochs(store, 6)
    assert contents(store, "t") == _ROWS


def test_expired_epochs_are_told_with_the_oldest(store: Store) -> None:
    """By number and by time; the store's own retention is the default."""
    then = datetime.fromtimestamp(store.environment.now() / 1e6, UTC)

    assert store.vacuum().oldest_epoch == 1
    store.vacuum(retention=0)

    with pytest.raises(EpochExpiredError, match="6 is the oldest"):
        store.at(5)
    with pytest.raises(EpochExpiredError, match="6 is the oldest"):
        store.epoch_at(then - timedelta(hours=1))


def test_a_dry_run_tells_and_does_nothing(store: Store) -> None:
    """Its report is that of the vacuum that follows."""
    before, epoch = files(store), store.epoch

    expected = store.vacuum(retention=0, dry_run=True)

    assert (files(store), store.epoch, store.state.oldest_epoch) == (before, epoch, 1)
    assert expected.files == 3
    assert store.vacuum(retention=0) == expected


def test_nothing_to_do_is_no_commit(store: Store) -> None:
    """However often it is asked for."""
    store.vacuum(retention=0)
    epoch = store.epoch

    assert store.vacuum(retention=0).files == 0
    assert store.epoch == epoch


def test_a_negative_retention_is_refused(store: Store) -> None:
    """It would expire future epochs."""
    with pytest.raises(OptionError, match=r"retention is a whole number of seconds .*, not -1"):
        store.vacuum(retention=-1)


def test_orphans_go_when_no_job_can_commit_them(store: Store) -> None:
    """A file that nothing names may belong to a running job: only old ones are removed."""
    young, old = orphan(store, _DAY - 60), orphan(store, _DAY + 120)
    temporary = [f"{folder}/x.json.{'0' * 32}.tmp" for folder in (LOG, ARCHIVE)]
    leave(store, temporary[0], _DAY + 120)
    leave(store, temporary[1], 60)
    foreign_file = f"{SEGMENTS}/notes.txt"
    leave(store, foreign_file, 10 * _DAY)

    report = store.vacuum()

    assert report.files == 2
    assert young in files(store)
    assert old not in files(store)
    assert store.environment.exists(foreign_file)
    assert [store.environment.exists(path) for path in temporary] == [False, True]


def test_a_job_that_slept_cannot_commit_what_was_removed(store: Store, clock: ManualClock) -> None:
    """Whether it commits after the vacuum, or had looked at the log before it and then slept."""
    started, segments = clock.now(), written(store, "t", [(99, "slept")])
    clock.advance(_DAY + 120)
    slept = Proposal(operation="write", started=started, segments=segments)

    def vacuum_first(touch: str) -> None:
        if touch.startswith("link _log/") and not vacuumed:
            vacuumed.append(store.vacuum(retention=10 * _DAY))

    vacuumed: list[VacuumReport] = []
    # The clock of the sleeper stands still while it sleeps: it last looked in time.
    behind = ManualClock(started + 3600 * 1_000_000 * 23)
    environment = FaultyEnvironment(store.path, before=vacuum_first, clock=behind)
    with (
        Store.open(store.path, environment=environment) as sleeper,
        pytest.raises(RelstateError),
    ):
        sleeper.jobs.commit(slept)
    # Its segment, and the entry it was about to link.
    assert [report.files for report in vacuumed] == [2]
    with pytest.raises(SegmentMissingError, match="vacuumed"):
        store.jobs.commit(slept)
    assert contents(store, "t") == _ROWS


def test_a_reader_from_before_is_told(store: Store) -> None:
    """It still reads open files; opening others fails, with an error about the epoch."""
    plan = store.read_plan("t", epoch=4)
    reading = plan.open(store.environment)
    assert reading.get((1,)) is not None

    store.vacuum(retention=0)

    assert reading.get((2,)) is not None
    del reading
    with pytest.raises(
        SegmentMissingError, match=r"epoch 4 is no longer kept.*retention is 86400 s"
    ):
        plan.open(store.environment).get((1,))


def test_a_scan_under_way_ends_as_it_began(store: Store) -> None:
    """Its files are open; removing their names does not affect it."""
    scan = store.at(3).table("t").scan()
    batch = next(scan)

    store.vacuum(retention=0)

    assert batch.num_rows + sum(rest.num_rows for rest in scan) == 10


def test_archived_checkpoints_stay_for_the_oldest_epoch(store: Store, clock: ManualClock) -> None:
    """The last one before it and those after it; all archived entries stay."""
    while store.epoch < 200:
        clock.advance(60)
        upsert(store, "t", [(store.epoch, "more")])
    checkpoints = {file for file in files(store, ARCHIVE) if "checkpoint" in file}
    entries = files(store, ARCHIVE) - checkpoints
    expected = {epoch: contents(store, "t", epoch) for epoch in range(75, 200, 9)}
    oldest = store.epoch_at(datetime.fromtimestamp(clock.now() / 1e6 - 60 * 90, UTC))

    report = store.vacuum(retention=60 * 90)

    assert report.oldest_epoch == oldest
    assert 64 < oldest < 120
    left = files(store, ARCHIVE)
    assert entries <= left
    assert {int(file[:20]) for file in left & checkpoints} == {
        epoch for epoch in (32, 64, 96, 128) if epoch >= oldest // 32 * 32
    }
    for epoch, rows in expected.items():
        if epoch >= oldest:
            assert contents(store, "t", epoch) == rows
    assert len(list(store.history())) == store.epoch


def test_a_clock_set_back_keeps_more(store: Store, clock: ManualClock) -> None:
    """It never brings back an expired epoch."""
    store.vacuum(retention=3600)
    clock.set_back(30)

    assert store.vacuum(retention=2 * 3600).files == 0
    assert store.vacuum(retention=0).files == 0
    assert store.state.oldest_epoch == 5
    clock.advance(60)
    assert store.vacuum(retention=0).files == 3
    assert contents(store, "t") == _ROWS


def test_of_two_at_once_the_one_that_keeps_more_does_not_win(store: Store) -> None:
    """Epochs expired by the other stay expired, whoever commits last."""
    done: list[VacuumReport] = []

    def interfere(touch: str) -> None:
        if touch.startswith("link _log/") and not done:
            done.append(store.vacuum(retention=0))

    environment = FaultyEnvironment(store.path, before=interfere, clock=store.environment)
    with Store.open(store.path, environment=environment) as other_handle:
        report = other_handle.vacuum(retention=3600)

    assert done[0].oldest_epoch == report.oldest_epoch == store.state.oldest_epoch == 6
    assert contents(store, "t") == _ROWS


# --- Crashes and errors at every step ------------------------------------------------------------


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with files to be removed: of three epochs, and orphans."""
    path, clock = tmp_path_factory.mktemp("prepared") / "store", ManualClock(SystemClock().now())
    environment = LocalEnvironment(str(path), UnsyncedDisk(clock), clock)
    with Store.create(str(path), vnode_count=5, shards=2, environment=environment) as store:
        fill(store, clock)
        orphan(store, 2 * _DAY)
        leave(store, f"{LOG}/x.json.{'0' * 32}.tmp", 2 * _DAY)
    return path


def hours_later() -> ManualClock:
    """Return a clock five hours after the store was filled."""
    return ManualClock(SystemClock().now() + 5 * 3600 * 1_000_000)


def check_whole(environment: FaultyEnvironment, vacuum: Callable[[Store], object]) -> int:
    """Check what a new process reads, and that it can vacuum; return how many files that
    removes.
    """
    registry.close(environment.root)
    own = LocalEnvironment(environment.root, UnsyncedDisk(environment), environment)
    with Store.open(environment.root, environment=own) as store:
        assert store.check().problems == ()
        for epoch in range(store.state.oldest_epoch, store.epoch + 1):
            rows = contents(store, "t", epoch) if epoch > 1 else []
            assert len(rows) == (10 if epoch > 2 else 0)
        assert contents(store, "t") == _ROWS
        left = len(files(store))
        vacuum(store)
        assert contents(store, "t") == _ROWS
        return left


def later(store: Store) -> None:
    """Vacuum when all remaining files are old."""
    for file in files(store):
        path = store.environment.location(f"{SEGMENTS}/{file}")
        os.utime(path, (0, 0))
    store.vacuum(retention=0)
    assert files(store) == {f"{name}.lmdb" for name in store.state.segments}


@pytest.mark.parametrize("cut", ["killed", "power cut", "torn"])
def test_a_crash_at_any_step_loses_nothing(prepared: Path, tmp_path: Path, cut: str) -> None:
    """Every readable epoch is whole, and the next vacuum removes the remaining files."""
    seen = set()
    for environment in trials(prepared, tmp_path, "crash_at", make_clock=hours_later):
        with environment.crashing():
            Store.open(environment.root, environment=environment).vacuum(retention=0)
        if cut != "killed":
            environment.power_cut(seed=None if cut == "power cut" else len(environment.touches))

        seen.add(check_whole(environment, later))
    assert {1, 5} <= seen


@pytest.mark.parametrize("fault", ["error_at", "lost_at"])
def test_an_error_at_any_step_loses_nothing(prepared: Path, tmp_path: Path, fault: str) -> None:
    """It is an error of ours, and the same handle can be used again."""
    for environment in trials(prepared, tmp_path, fault, make_clock=hours_later):
        try:
            store = Store.open(environment.root, environment=environment)
        except RelstateError:
            continue
        try:
            store.vacuum(retention=0)
        except (StorageError, UnknownOutcomeError):
            store.vacuum(retention=0)

        check_whole(environment, later)


# Views hold it back


def rest(store: Store, clock: ManualClock) -> None:
    """Let an hour pass, and make a commit that no view reads."""
    clock.advance(3600)
    store.truncate("other")


@pytest.fixture
def viewed(store: Store, clock: ManualClock) -> Store:
    """The store with the view v of the table t, which has read all up to epoch 8."""
    store.create_table("other", "k BIGINT", primary_key=["k"])
    store.view_catalog.create(new_view(store, "v", "t"))
    refresh(store, progressed(store, "v"))
    rest(store, clock)
    return store


def test_what_a_view_has_to_read_is_kept(viewed: Store, clock: ManualClock) -> None:
    """The changes after its progress are kept, however old they are, until it has read them."""
    reached = viewed.view("v").progress.reflects
    upsert(viewed, "t", [(1, "after")])
    for _ in range(3):
        rest(viewed, clock)

    assert viewed.vacuum(retention=0).oldest_epoch == reached
    changes = viewed.changes("t", reached + 1, columns=["v", "_change_type"])
    assert [row["v"] for part in changes for row in part.to_pylist()] == ["newest", "after"]
    refresh(viewed, progressed(viewed, "v"))
    epoch = viewed.epoch
    assert viewed.vacuum(retention=0).oldest_epoch == epoch


def test_a_view_without_changes_to_take_in_holds_nothing_back(
    viewed: Store, clock: ManualClock
) -> None:
    """Its inputs are unchanged: later changes can be read from the oldest epoch on."""
    upsert(viewed, "t", [(2, "last")])
    refresh(viewed, progressed(viewed, "v"))
    rest(viewed, clock)
    oldest = viewed.vacuum(retention=0).oldest_epoch

    assert oldest == viewed.epoch - 1 > viewed.view("v").progress.reflects
    upsert(viewed, "t", [(1, "after")])
    changes = viewed.changes("t", oldest + 1, columns=["v"])
    assert sum(part.num_rows for part in changes) == 2
    refresh(viewed, progressed(viewed, "v"))


def test_what_a_view_still_backfills_is_kept(viewed: Store, clock: ManualClock) -> None:
    """It reads its inputs at one epoch until the backfill ends, whether they change or not."""
    begun = viewed.epoch
    refresh(viewed, progressed(viewed, "v", begun, backfill=1), segments=view_rows(viewed, "v", 1))
    for step in (2, 3):
        rest(viewed, clock)
        assert viewed.vacuum(retention=0).oldest_epoch == begun
        assert contents(viewed, "t", begun) == _ROWS
        refresh(viewed, progressed(viewed, "v", begun, backfill=step))
    refresh(viewed, progressed(viewed, "v", begun))
    assert viewed.vacuum(retention=0).oldest_epoch > begun


def test_a_dropped_view_and_one_that_has_not_begun_hold_nothing_back(
    viewed: Store, clock: ManualClock
) -> None:
    """They have no progress."""
    viewed.view_catalog.create(new_view(viewed, "w", "t"))
    upsert(viewed, "t", [(1, "after")])
    rest(viewed, clock)
    viewed.drop_view("v")

    epoch = viewed.epoch
    assert viewed.vacuum(retention=0).oldest_epoch == epoch


def test_a_vacuum_and_a_view_that_begins_do_not_cross(viewed: Store, clock: ManualClock) -> None:
    """The second one to commit is refused: neither loses what it relies on."""
    viewed.view_catalog.create(new_view(viewed, "w", "t"))
    begun = viewed.epoch
    rest(viewed, clock)
    started = viewed.environment.now()
    refresh(viewed, progressed(viewed, "w", begun, backfill=1))
    expiring = Proposal(
        operation="vacuum", started=started, data_change=False, oldest_epoch=viewed.epoch
    )
    with pytest.raises(ConflictError, match=f"a view still needs epoch {begun}"):
        viewed.jobs.commit(expiring)
    refresh(viewed, progressed(viewed, "w", backfill=1))
    viewed.jobs.commit(expiring)
    with pytest.raises(EpochExpiredError, match=f"needs the changes since epoch {begun}, but"):
        refresh(viewed, progressed(viewed, "w", begun, backfill=1))


def test_a_vacuum_under_which_a_view_begins_looks_again(viewed: Store, clock: ManualClock) -> None:
    """Its commit is refused, as it would expire what the view reads; the next attempt keeps
    that.
    """
    viewed.view_catalog.create(new_view(viewed, "w", "t"))
    begun = viewed.epoch
    rest(viewed, clock)
    progress = progressed(viewed, "w", begun, backfill=1)
    others = Before(f"link {entry_path(begun + 2)}", lambda: refresh(viewed, progress))
    slow = Store.open(
        viewed.path, environment=FaultyEnvironment(viewed.path, clock=clock, before=others)
    )

    assert slow.vacuum(retention=0).oldest_epoch == begun
    assert others.happened
    assert contents(viewed, "t", begun) == _ROWS
