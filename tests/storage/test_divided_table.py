"""A table with many segments: what is read of its manifests, and what travels to a task."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from relstate.storage import Proposal, ReadPlan, Store
from relstate.storage.environment import Environment
from relstate.storage.epochs import Epochs
from relstate.storage.errors import AppendOnlyError, SegmentMissingError, UniqueViolationError
from relstate.storage.log import table_segments
from relstate.storage.log.entry import Settings
from relstate.storage.log.folding import Division
from relstate.storage.log.live_segments import file_names
from relstate.storage.log.manifest_files import ManifestFiles, shared_manifests
from relstate.storage.log.sequenced_segment import KEY_OF
from relstate.storage.log.store_creation import create_store
from relstate.storage.log.table_segments import DividedSegments
from relstate.storage.maintenance import compaction
from relstate.vnode import shards_of
from support.clock import ManualClock
from support.commits import quick_environment
from support.divided_logs import divided_log
from support.faulty_environment import FaultyEnvironment
from support.stores import contents, rows_of, written

VNODES, SHARDS = 16, 4
SETTINGS = Settings("5e" * 16, VNODES, SHARDS, 3600)
FINE = Division(most=0, size=2)
GROUPS, GROUP_ROWS = range(60), 20
DAY = 24 * 3600

Rows = list[tuple[int, int, str]]


@pytest.fixture(autouse=True)
def no_table_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide every table, and know no manifest that another test has read."""
    monkeypatch.setattr(table_segments, "FEW", 0)
    monkeypatch.setattr(shared_manifests, "_contents", {})


@pytest.fixture
def clock() -> ManualClock:
    """A clock set by hand."""
    return ManualClock()


def opened(environment: Environment) -> Store:
    """Return the store as a new process has it, that has read nothing."""
    log = divided_log(environment, FINE)
    return Store(Epochs(log, log.load()))


def shards_by_group(store: Store) -> dict[int, int]:
    """Return the shard of the rows of each group."""
    encoding = store.read_plan("t").open(store.environment).encoding
    groups = pa.RecordBatch.from_pydict({"g": pa.array(GROUPS, pa.int32())})
    vnodes = encoding.prefix.vnodes_in(encoding.encode_prefixes(groups))
    return dict(zip(GROUPS, shards_of(vnodes, VNODES, SHARDS).tolist(), strict=True))


def group_rows(group: int) -> Rows:
    """Return the rows of a group."""
    return [(group, key, f"{group}-{key}") for key in range(GROUP_ROWS)]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A divided store: a segment for each group of rows, committed one after another."""
    path = tmp_path_factory.mktemp("divided") / "store"
    environment = quick_environment(path, ManualClock())
    log = divided_log(environment, FINE)
    store = Store(Epochs(log, create_store(log, SETTINGS)))
    store.create_table(
        "t", "g INT, k BIGINT, v STRING", primary_key=["g", "k"], distribution_key=["g"]
    )
    for group in GROUPS:
        segments = written(store, "t", group_rows(group))
        now = environment.now()
        proposal = Proposal(operation="write", started=now, segments=segments)
        store.jobs.commit_uncompacted(proposal)
    log.folding.put_checkpoint(store.state)
    return path


@pytest.fixture
def path(loaded: Path, tmp_path: Path) -> Path:
    """A copy of the divided store."""
    shutil.copytree(loaded, tmp_path / "store")
    return tmp_path / "store"


def all_rows() -> Rows:
    """Return the rows of the table."""
    return [row for group in GROUPS for row in group_rows(group)]


_MANIFEST = ".manifest.json"


def manifests_read(environment: FaultyEnvironment) -> set[str]:
    """Return the names of the manifests that were read."""
    files = {touch.split("/")[-1] for touch in environment.touches if "read _archive" in touch}
    return {file.removesuffix(_MANIFEST) for file in files if file.endswith(_MANIFEST)}


def manifests_of(store: Store, shard: int | None) -> set[str]:
    """Return the names of the manifests of a shard."""
    return set(file_names({shard: store.state.segments.manifests[shard]}))


READS: dict[str, Callable[[Store, int], object]] = {
    "get": lambda store, group: store.table("t").get(group, 7),
    "get_rows": lambda store, group: store.table("t").get_rows([(group, 7), (group, 44)]),
    "condition": lambda store, group: store.table("t").to_arrow(where=f"g = {group} AND k < 4"),
    "whole group": lambda store, group: store.table("t").to_arrow(where=f"g = {group}"),
    "state table": lambda store, group: store.state_table("t").get_row(group, 3),
    "plan": lambda store, group: store.read_plan("t").filtered(f"g = {group}").partitions(4),
}


def test_what_an_overwrite_hides_is_not_counted(path: Path, clock: ManualClock) -> None:
    """Whatever manifest its epoch is in: the sums are those of the visible segments."""
    store = opened(quick_environment(path, clock))
    table_id = store.read_plan("t").definition.table_id
    live = store.state.segments
    stored = sorted(live.of_table(table_id), key=KEY_OF, reverse=True)
    for base_epoch in (segment.epoch for segment in stored):
        visible = [segment for segment in stored if segment.epoch >= base_epoch]

        segments = DividedSegments.of(live, table_id, base_epoch, SHARDS)

        assert segments is not None
        rows = sum(table.rows for table in segments.statistics())
        assert (rows, len(segments)) == (len(visible) * GROUP_ROWS, len(visible))
        assert [segment.name for segment in segments] == [segment.name for segment in visible]


@pytest.mark.parametrize("read", READS)
def test_a_read_of_one_shard_reads_its_manifests_only(path: Path, read: str) -> None:
    """Those of other shards stay unread; of some keys, also those of other keys."""
    watched = FaultyEnvironment(path)
    store = opened(watched)
    group = 5
    shard = shards_by_group(store)[group]
    READS[read](store, group)

    names = manifests_read(watched)
    of_shard = manifests_of(opened(quick_environment(path)), shard)
    assert names <= of_shard
    assert len(names) < len(of_shard)


def test_planning_a_read_reads_no_manifest(path: Path) -> None:
    """Neither its sizes nor its partitions; the plan is small, and each task reads its shard's."""
    watched = FaultyEnvironment(path)
    store = opened(watched)
    plan = store.read_plan("t")
    partitions = plan.partitions(SHARDS)
    assert plan.stored_rows == len(all_rows())
    assert len(plan.segments) == len(GROUPS)
    assert plan.stored_bytes > plan.stored_rows
    assert not plan.expiring_segments
    data = pickle.dumps(plan)
    assert manifests_read(watched) == set()

    rows: Rows = []
    for shard, vnodes in enumerate(partitions):
        watched = FaultyEnvironment(path)
        # As in another process: its reader of manifests opens the store by its path.
        task_plan: ReadPlan = pickle.loads(data)
        assert isinstance(task_plan.segments, DividedSegments)
        for manifest in task_plan.segments._manifests():
            assert isinstance(manifest.reader, ManifestFiles)
            manifest.reader._environment = watched
        rows += rows_of(task_plan.read(vnodes, watched))
        read = manifests_read(watched)
        assert read
        assert read <= manifests_of(store, shard)
        shared_manifests._contents.clear()
    assert sorted(rows) == all_rows()


def test_a_plan_has_what_was_committed_after_the_checkpoint(path: Path) -> None:
    """Its segments travel with it; what is committed later is not seen."""
    store = opened(quick_environment(path))
    store.write("t", pa.table({"g": pa.array([1], pa.int32()), "k": [1], "v": ["new"]}))
    plan: ReadPlan = pickle.loads(pickle.dumps(store.read_plan("t")))
    store.write("t", pa.table({"g": pa.array([2], pa.int32()), "k": [2], "v": ["later"]}))
    expected = {(g, k): v for g, k, v in all_rows()} | {(1, 1): "new"}
    vnodes = (range(VNODES),)

    assert {(g, k): v for g, k, v in rows_of(plan.read(vnodes))} == expected
    assert plan.open().get((1, 1)) == (1, 1, "new")
    store.truncate("t")
    assert store.read_plan("t").stored_rows == 0
    assert {(g, k): v for g, k, v in rows_of(plan.read(vnodes))} == expected


def test_a_planned_read_outlasts_later_checkpoints_and_vacuums(
    path: Path, clock: ManualClock
) -> None:
    """As long as its epoch is in retention; after that the error says what happened."""
    environment = quick_environment(path, clock)
    store = opened(environment)
    store.write("t", one_row(1))
    plan = pickle.dumps(store.read_plan("t"))
    expected = sorted(contents(store, "t"))
    for age, retention in ((0, 3600), (3 * DAY, 4 * DAY)):
        store.compact("t")
        pass_epochs(store, 100)
        clock.advance(age)
        let_files_be_as_old_as(clock, path)
        store.vacuum(retention)
        shared_manifests._contents.clear()
        assert sorted(rows_of(pickle.loads(plan).read((range(VNODES),), environment))) == expected

    clock.advance(3 * DAY)
    pass_epochs(store, 100)
    store.vacuum(retention=0)
    shared_manifests._contents.clear()
    with pytest.raises(SegmentMissingError, match="a vacuum removed the records of segments of a"):
        list(pickle.loads(plan).read((range(VNODES),), environment))
    with pytest.raises(SegmentMissingError, match="is no longer kept"):
        pickle.loads(plan).open(environment).get((5, 5))


def one_row(group: int) -> pa.Table:
    """Return a new row of a group."""
    return pa.table({"g": pa.array([group], pa.int32()), "k": [1], "v": ["new"]})


def pass_epochs(store: Store, count: int) -> None:
    """Commit something."""
    for number in range(count):
        store.set_user_properties("t", {"n": str(number)})


def let_files_be_as_old_as(clock: ManualClock, path: Path) -> None:
    """Let the files of the archive that are younger than a clock says be as old as it says."""
    now = clock.now() / 1e6
    for file in (path / "_archive").iterdir():
        if file.stat().st_mtime > now:
            os.utime(file, (now, now))


@pytest.mark.parametrize("unique", [False, True])
def test_writers_that_look_up_read_the_shards_that_they_write(
    path: Path, unique: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index is kept, also a unique one."""
    # It looks for files to merge in all shards.
    monkeypatch.setattr(compaction, "auto_compact", lambda log, state, tables: state)
    store = opened(quick_environment(path))
    store.create_index("t", "by_v", ["v"], unique=unique)
    store._epochs.log.folding.put_checkpoint(store.state)
    watched = FaultyEnvironment(path)
    store = opened(watched)
    group = 5
    of_shard = manifests_of(store, shards_by_group(store)[group])
    of_index = manifests_of(store, None)
    store.write("t", pa.table({"g": pa.array([group], pa.int32()), "k": [1], "v": ["x"]}))
    # The entries of the index are in one segment of all shards.
    assert manifests_read(watched) - of_index < of_shard
    assert [row.k for row in store.table("t").get_by("by_v", "x")] == [1]
    assert store.table("t").get_by("by_v", f"{group}-1") == []
    if unique:
        with pytest.raises(UniqueViolationError):
            store.write("t", pa.table({"g": pa.array([6], pa.int32()), "k": [1], "v": ["6-2"]}))


def test_an_append_only_table_reads_the_shard_that_is_written(tmp_path: Path) -> None:
    """It refuses a key that it has, whatever segments name it."""
    environment = quick_environment(tmp_path / "store")
    log = divided_log(environment, FINE)
    store = Store(Epochs(log, create_store(log, SETTINGS)))
    store.create_table("t", "g INT, k BIGINT", primary_key=["g", "k"], append_only=True)
    for block in range(20):
        keys = np.arange(block * 10, block * 10 + 10)
        store.write("t", pa.table({"g": pa.array(keys % 7, pa.int32()), "k": keys}))
    log.folding.put_checkpoint(store.state)
    store = opened(environment)
    with pytest.raises(AppendOnlyError):
        store.write("t", pa.table({"g": pa.array([35 % 7], pa.int32()), "k": [35]}))
    store.write("t", pa.table({"g": pa.array([1], pa.int32()), "k": [1000]}))
    assert len(contents(store, "t")) == 201
