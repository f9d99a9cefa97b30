"""Compaction: the same rows from fewer files, whatever others commit meanwhile."""

from __future__ import annotations

import errno
import itertools
import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from relstate.storage import SegmentRecord, Store
from relstate.storage.clock import SystemClock
from relstate.storage.errors import ConflictError, RelstateError, StorageError, UnknownOutcomeError
from relstate.storage.local_environment import LocalEnvironment
from relstate.storage.log.entry import Entry
from relstate.storage.log.log import Log
from relstate.storage.maintenance import compaction, policy
from relstate.storage.maintenance.components import components
from relstate.storage.maintenance.rewrite import Rewrite
from relstate.storage.paths import SEGMENTS
from relstate.storage.segment.registry import registry
from relstate.storage.table.encoding import encoding_of
from support.clock import ManualClock
from support.commits import UnsyncedDisk
from support.faulty_environment import FaultyEnvironment, trials
from support.places import in_folder
from support.stores import (
    Rows,
    StoreMaker,
    batch_of,
    committed,
    contents,
    unsynced,
    upsert,
    written,
)
from support.views import new_view, progressed, refresh, view_rows

_ROWS: Rows = [(key, f"row {key}") for key in range(40)]


@pytest.fixture
def filled(store: Store) -> Store:
    """A store whose table has the rows in five files, which mostly hide each other."""
    fill(store)
    return store


def fill(store: Store, table: str = "t") -> None:
    """Write the rows in five epochs."""
    store.create_table(table, "k BIGINT, v STRING", primary_key=["k"])
    upsert(store, table, [(key, "old") for key in range(30)])
    upsert(store, table, [(key, "gone") for key in range(40, 50)])
    upsert(store, table, _ROWS[:25], deleted=[(key, None) for key in range(40, 45)])
    upsert(store, table, _ROWS[20:])
    upsert(store, table, [], deleted=[(key, None) for key in range(45, 60)])


def names(store: Store) -> set[str]:
    """Return the live segments."""
    return set(store.state.segments)


def on_disk(store: Store) -> set[str]:
    """Return the segments in the folder."""
    return {file.removesuffix(".lmdb") for file in store.environment.list(SEGMENTS)}


def live(store: Store, table: str) -> int:
    """Return the number of files in the table's shard that has the most."""
    table_id = store.state.table(table).definition.table_id
    shards = Counter(
        shard
        for segment in store.state.segments_of(table_id)
        for part in segment.record.tables
        if part.table_id == table_id
        for shard, size in enumerate(part.shard_bytes)
        if size
    )
    return max(shards.values())


# --- What it leaves ------------------------------------------------------------------------------


def test_one_file_is_left_and_every_epoch_reads_as_before(filled: Store) -> None:
    """A small table is one file afterwards, without deletes; the older files stay for earlier
    epochs.
    """
    before = {epoch: contents(filled, "t", epoch) for epoch in range(2, filled.epoch + 1)}
    newest = filled.state.segments_of(1)[0]

    report = filled.compact()

    (segment,) = filled.state.segments.values()
    assert (report.files_read, report.files_written, report.epoch) == (5, 1, filled.epoch)
    assert report.bytes_written == segment.record.size
    assert (segment.epoch, segment.rank) == (newest.epoch, newest.rank)
    assert segment.record.rows(1) == len(_ROWS)
    assert contents(filled, "t") == _ROWS
    assert {epoch: contents(filled, "t", epoch) for epoch in before} == before


def test_nothing_to_do_is_no_commit(filled: Store) -> None:
    """Neither after a compaction nor in a store without rows."""
    filled.compact()
    epoch = filled.epoch

    report = filled.compact()

    assert (filled.epoch, report.epoch, report.files_read) == (epoch, epoch, 0)
    filled.truncate("t")
    assert filled.compact("t").files_read == 0


def test_it_is_no_change_of_data(filled: Store) -> None:
    """Feeds and views ignore maintenance."""
    data_epoch = filled.state.tables[1].data_epoch

    filled.compact()

    entry = next(filled.history())
    assert (entry.operation, entry.data_change) == ("compact", False)
    assert filled.state.tables[1].data_epoch == data_epoch


def test_later_writes_hide_what_was_compacted(filled: Store) -> None:
    """Later deletes remove rows of the compacted file."""
    filled.compact()

    upsert(filled, "t", [(1, "newer")], deleted=[(2, None)])
    filled.compact()

    expected = dict(_ROWS) | {1: "newer"}
    del expected[2]
    assert dict(contents(filled, "t")) == expected


def test_large_tables_are_cut_by_shard(make_store: StoreMaker) -> None:
    """One file per shard; it has no rows of other shards."""
    store = make_store(vnode_count=16, shards=4)
    store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
    rows = [(key, "x" * 1000) for key in range(6000)]
    upsert(store, "t", rows[:4000])
    upsert(store, "t", rows[3000:])
    seen: list[tuple[int, int]] = []

    report = store.compact(progress=lambda done, count: seen.append((done, count)))

    (component,) = components(store.state)
    assert report.files_written == 4
    assert sorted(tuple(file.shards) for file in component.files) == [(0,), (1,), (2,), (3,)]
    assert seen == [(done, 4) for done in range(5)]
    assert contents(store, "t") == rows
    assert store.compact().files_read == 0


def test_what_is_too_large_for_a_segment_is_cut_in_key_order(
    make_store: StoreMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files with one sequence number follow one another: they are read as one run."""
    store = make_store(vnode_count=16, shards=2)
    store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
    rows = [(key, "x" * 500) for key in range(12_000)]
    for part in range(3):
        upsert(store, "t", rows[part::3])
    monkeypatch.setattr("relstate.storage.segment.writer.SEGMENT_BYTES", 1 << 20)

    report = store.compact()

    records = [segment.record for segment in store.state.segments.values()]
    assert report.files_written == len(records) > 6
    spans = sorted((record.tables[0].first_key, record.tables[0].last_key) for record in records)
    assert all(last < first for (_, last), (first, _) in itertools.pairwise(spans))
    assert contents(store, "t") == rows


def test_tables_that_share_files_are_compacted_together(store: Store) -> None:
    """And no others; rows of a truncated table in them do not come back."""
    for name in "abc":
        store.create_table(name, "k BIGINT, v STRING", primary_key=["k"])
        upsert(store, name, [(1, "old")])
        upsert(store, name, [(1, name)])
    shared(store, {"a": (7, "hidden"), "b": (7, "old")})
    store.truncate("a")
    shared(store, {"a": (8, "a"), "b": (7, "b")})

    report = store.compact("a")

    assert report.files_written == 1
    assert contents(store, "a") == [(8, "a")]
    assert contents(store, "b") == [(1, "b"), (7, "b")]
    assert live(store, "c") == 2
    assert store.compact().files_read == 2


def shared(store: Store, rows: Mapping[str, tuple[object, ...]]) -> None:
    """Write one row of each of some tables into one segment."""
    committed(store, shared_segment(store, rows))


def shared_segment(
    store: Store, rows: Mapping[str, tuple[object, ...]]
) -> tuple[SegmentRecord, ...]:
    """Return the segment of one row of each of some tables, for a commit."""
    writer = store.jobs.segment_writer()
    for name, row in rows.items():
        encoding = encoding_of(store.state.table(name).definition, store.settings.vnode_count)
        writer.add(*encoding.encode(batch_of(store, name, [row])))
    return writer.finish()


@pytest.mark.parametrize("cut", [0, policy.CUT])
def test_rows_of_relstates_own_tables_leave_users_files(
    store: Store, monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    """Files that hold both are merged together; those that are cut by shard hold one."""
    monkeypatch.setattr(policy, "CUT", cut)
    store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
    store.view_catalog.create(new_view(store, "v", "t"))
    state = store.internal_tables("v")[0]
    refresh(store, progressed(store, "v"), segments=view_rows(store, state, 1))
    segments = shared_segment(store, {"t": (7, "t"), state: (7, 7)})
    refresh(store, progressed(store, "v"), segments=segments)

    store.compact()

    tables = [
        [part.table_id for part in segment.record.tables]
        for segment in store.state.segments.values()
    ]
    assert {len(ids) for ids in tables} == ({2} if cut else {1})
    assert contents(store, "t") == [(7, "t")]
    assert contents(store, state) == [(1, None), (7, 7)]


def test_expired_rows_leave(tmp_path: Path) -> None:
    """In the bottom files for good; above older files a delete replaces them, and no row
    reappears.
    """
    clock = ManualClock(SystemClock().now())
    path = str(tmp_path / "store")
    environment = LocalEnvironment(path, UnsyncedDisk(clock), clock)
    with Store.create(path, vnode_count=7, shards=3, environment=environment) as store:
        store.create_table("t", "k BIGINT, v STRING", primary_key=["k"], ttl=3600)
        upsert(store, "t", [(key, "old") for key in range(20)])
        store.set_ttl("t", 60)
        upsert(store, "t", [(key, "short") for key in range(10)])
        store.set_ttl("t", None)
        upsert(store, "t", [(20, "stays")])
        clock.advance(600)
        assert len(contents(store, "t")) == 11

        assert store.compact().files_read == 3

        (segment,) = store.state.segments.values()
        assert segment.record.rows(1) == 11
        assert [key for key, _ in contents(store, "t")] == list(range(10, 21))
        store.set_ttl("t", 3600)
        assert store.compact().files_read == 0
        clock.advance(2 * 3600)
        # One file, but there are expired rows in it.
        assert store.compact().files_read == 1
        assert [key for key, _ in contents(store, "t")] == [20]
        assert store.compact().files_read == 0
        assert store.check().problems == ()


# --- By itself, after commits --------------------------------------------------------------------


@pytest.mark.parametrize("keys", [1_000, 1_000_000], ids=["same keys", "growing"])
def test_small_epochs_leave_few_files(make_store: StoreMaker, keys: int) -> None:
    """Whatever their number; the rows equal those of a dict."""
    store = make_store()
    store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
    expected: dict[int, str] = {}
    most = 0
    for epoch in range(300):
        rows = [(epoch * 7919 * step % keys, f"{epoch}") for step in range(1, 9)]
        deleted = [(key, None) for key in list(expected)[:2]]
        upsert(store, "t", rows, deleted)
        expected |= rows
        for key, _ in deleted:
            del expected[key]
        most = max(most, live(store, "t"))

    assert most <= 12
    assert dict(contents(store, "t")) == expected
    assert any(entry.operation == "compact" for entry in store.history())


def test_no_error_of_any_kind_fails_the_commit(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One that nobody foresaw is logged too: a caller that sees it would commit twice."""

    def fail(*_: object) -> None:
        raise ValueError("unforeseen")

    store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
    monkeypatch.setattr(Rewrite, "run", fail)
    with caplog.at_level(logging.WARNING):
        for epoch in range(20):
            upsert(store, "t", [(1, str(epoch))])
    assert "unforeseen" in caplog.text
    assert dict(contents(store, "t")) == {1: "19"}


def test_trouble_never_fails_the_commit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, and the next commit merges the files."""
    path = str(tmp_path / "store")
    store = Store.create(path, vnode_count=7, shards=3, environment=unsynced(path))
    store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
    for epoch in range(6):
        upsert(store, "t", [(key, str(epoch)) for key in range(20)])
    full_disk = FaultyEnvironment(path, error_at="sync segments/*", errno=errno.ENOSPC)
    with Store.open(path, environment=full_disk) as failing:
        segments = written(store, "t", [(key, "last") for key in range(20)])
        with caplog.at_level(logging.WARNING):
            epoch = committed(failing, segments)
    assert full_disk.struck
    assert "nothing was compacted" in caplog.text
    assert store.epoch == epoch
    assert names(store) == on_disk(store)

    upsert(store, "t", [(1, "more")])

    assert live(store, "t") <= 2
    assert store.check().problems == ()


# --- Races ---------------------------------------------------------------------------------------


def test_beside_writers_nothing_is_lost(make_store: StoreMaker) -> None:
    """Several threads write and compact one store through handles of their own; no row is
    missing.
    """
    store = make_store(vnode_count=7, shards=3)
    store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
    failures: list[BaseException] = []

    def write(number: int) -> None:
        try:
            with Store.open(store.path, environment=unsynced(store.path)) as own:
                for turn in range(25):
                    upsert(own, "t", [(key, f"{turn}") for key in range(number, 40, 4)])
        except BaseException as error:
            failures.append(error)

    def compact() -> None:
        try:
            with Store.open(store.path, environment=unsynced(store.path)) as own:
                for _ in range(25):
                    with suppress(ConflictError):
                        own.compact()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    threads += [threading.Thread(target=compact) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert contents(store, "t") == [(key, "24") for key in range(40)]


Rival = Callable[[Store], object]


def _overwrite(store: Store) -> None:
    segments = written(store, "t", [(1, "overwritten")])
    committed(store, segments, based_tables=(1,))


def _recreate(store: Store) -> None:
    store.drop_table("t")
    store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])


_RIVALS: list[tuple[Rival, Rows]] = [
    (lambda store: upsert(store, "t", [(0, "rival")], [(1, None)]), [(0, "rival"), *_ROWS[2:]]),
    (lambda store: store.truncate("t"), []),
    (_overwrite, [(1, "overwritten")]),
    (_recreate, []),
    (lambda store: store.compact(), _ROWS),
]


@in_folder
@pytest.mark.parametrize(
    ("rival", "expected"), _RIVALS, ids=["upsert", "truncate", "overwrite", "drop", "compact"]
)
def test_a_rival_commit_wins_without_harm(filled: Store, rival: Rival, expected: Rows) -> None:
    """A commit between plan and commit is found; the files written in vain are removed."""
    done = False

    def interfere(touch: str) -> None:
        nonlocal done
        if touch.startswith("link _log/") and not done:
            done = True
            with Store.open(filled.path, environment=unsynced(filled.path)) as store_of_rival:
                rival(store_of_rival)

    environment = FaultyEnvironment(filled.path, before=interfere)
    with Store.open(filled.path, environment=environment) as store:
        store.compact()

    assert done
    assert contents(filled, "t") == expected
    named = {record.name for entry in filled.history() for record in entry.added}
    assert on_disk(filled) <= named


def test_a_compaction_that_always_loses_gives_up(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It raises, and leaves no file."""

    def lost(*_: object, **__: object) -> None:
        raise ConflictError("taken")

    monkeypatch.setattr(compaction, "commit", lost)
    before = on_disk(filled)

    with pytest.raises(ConflictError, match="other compactions"):
        filled.compact()

    assert on_disk(filled) == before
    assert contents(filled, "t") == _ROWS


# --- Crashes and errors at every step ------------------------------------------------------------


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that compacts to two files: two components."""
    path = tmp_path_factory.mktemp("prepared") / "store"
    with Store.create(str(path), vnode_count=5, shards=2, environment=unsynced(str(path))) as store:
        fill(store)
        fill(store, "u")
    return path


def check_whole(environment: FaultyEnvironment) -> Sequence[Entry]:
    """Check what a new process finds, at every epoch; return the compactions in its history."""
    registry.close(environment.root)
    with Store.open(environment.root) as store:
        assert store.check().problems == ()
        assert contents(store, "t") == contents(store, "u") == _ROWS
        # The first upserts, long since replaced.
        assert contents(store, "t", 3) == [(key, "old") for key in range(30)]
        return [entry for entry in store.history() if entry.operation == "compact"]


@pytest.mark.parametrize("cut", ["killed", "power cut", "torn"])
def test_a_crash_at_any_step_changes_no_row(prepared: Path, tmp_path: Path, cut: str) -> None:
    """Whatever was synced; a compaction that returned is committed."""
    seen = set()
    for environment in trials(prepared, tmp_path, "crash_at"):
        returned = False
        with environment.crashing():
            Store.open(environment.root, environment=environment).compact()
            returned = True
        if cut != "killed":
            environment.power_cut(seed=None if cut == "power cut" else len(environment.touches))

        done = len(check_whole(environment))

        assert done == 2 or not returned
        seen.add(done)
    assert seen == {0, 1, 2}


@pytest.mark.parametrize(
    ("fault", "number"),
    [("error_at", errno.ENOSPC), ("error_at", errno.EIO), ("lost_at", errno.EIO)],
    ids=["ENOSPC", "EIO", "lost answer"],
)
def test_an_error_at_any_step_changes_no_row(
    prepared: Path, tmp_path: Path, fault: str, number: int
) -> None:
    """It is an error of ours, and the same handle can compact again."""
    for environment in trials(prepared, tmp_path, fault, errno=number):
        try:
            store = Store.open(environment.root, environment=environment)
        except RelstateError:
            continue
        try:
            store.compact()
        except (StorageError, UnknownOutcomeError):
            store.compact()

        assert len(check_whole(environment)) in (2, 3)


def test_a_slept_compaction_never_commits_over_others(filled: Store) -> None:
    """Its inputs were replaced while it slept: it must not bring back their rows."""
    log = Log(filled.environment)
    state = filled.state
    filled.compact()
    upsert(filled, "t", [], deleted=[(key, None) for key in range(40)])
    filled.compact()

    _, report = compaction.compact(log, state, [1])

    assert report.files_read == 0
    assert contents(filled, "t") == []
