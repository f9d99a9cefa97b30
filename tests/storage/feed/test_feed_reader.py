"""The feed of any range, applied to the table before it, leads to the table after it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relstate.storage import SegmentRecord, StorageTable, Store
from relstate.storage.errors import CorruptionError
from relstate.storage.local_environment import LocalEnvironment
from support.clock import ManualClock
from support.commits import UnsyncedDisk
from support.examples import examples
from support.feeds import Change, applied, changes_of, read_feed
from support.model import Model
from support.places import in_folder
from support.shapes import SHAPES, Shape
from support.stores import StoreMaker, committed, contents, unsynced, upsert, written


@st.composite
def commits(draw: st.DrawFn, shape: Shape) -> list[tuple[str, list[list[tuple[Any, bool]]]]]:
    """Draw commits: a kind, and for each task rows to be written or deleted."""
    task = st.lists(st.tuples(shape.rows, st.booleans()), max_size=6)
    kinds = st.sampled_from(
        ["write", "write", "write", "overwrite", "truncate", "again", "other", "compact"]
    )
    return draw(
        st.lists(st.tuples(kinds, st.lists(task, min_size=1, max_size=3)), min_size=1, max_size=7)
    )


def run(store: Store, shape: Shape, model: Model, kind: str, tasks: list[Any]) -> None:
    """Make one commit in the store and in the model, and the maintenance after it."""
    change(store, shape, model, kind, tasks)
    model.pass_epochs(store.epoch)


def change(store: Store, shape: Shape, model: Model, kind: str, tasks: list[Any]) -> None:
    """Make one commit in the store and in the model."""
    table_id = store.state.table(shape.name).definition.table_id
    if kind == "truncate":
        store.truncate(shape.name)
        model.replace(shape.name, [])
        return
    if kind == "other":
        store.create_table(f"t{store.epoch}", "k INT", primary_key=["k"])
        return
    if kind == "compact":
        store.compact()
        return
    segments: list[SegmentRecord] = []
    expected = []
    if kind == "again":
        # What is there already, written once more.
        tasks = [[(row, True) for row in model.tables[shape.name].values()]]
    for task in tasks:
        puts = [row for row, is_put in task if is_put]
        deleted = [row for row, is_put in task if not is_put]
        if puts or deleted:
            segments += written(store, shape.name, puts, deleted)
        expected += [(shape.key_of(row), row) for row in puts]
        expected += [(shape.key_of(row), None) for row in deleted]
    if kind == "overwrite":
        committed(store, segments, based_tables=(table_id,))
        model.replace(shape.name, expected)
    elif segments:
        committed(store, segments)
        model.apply(shape.name, expected)


Rows = dict[Any, Any]


def check(store: Store, shape: Shape, model: Model, first: int, last: int) -> None:
    """Check the laws of both kinds of feed for one range of epochs."""

    def rows_at(epoch: int) -> Rows:
        return model.past[epoch].get(shape.name, {})

    check_range(store, shape, rows_at, first, last)


def check_range(
    store: Store, shape: Shape, rows_at: Callable[[int], Rows], first: int, last: int
) -> None:
    """Check the laws of both kinds of feed, where the rows of every epoch are known."""
    before, after = rows_at(first - 1), rows_at(last)
    changes = changes_of(store.changes(shape.name, first, last))
    net = changes_of(store.changes(shape.name, first, last, deduplication="netChanges"))

    assert applied(shape, before, net) == after
    keys = [shape.key_of(change.row) for change in net if change.type != "update_preimage"]
    assert len(keys) == len(set(keys)), "a net feed has one change a key"
    now = before
    for epoch in range(first, last + 1):
        now = applied(shape, now, [change for change in changes if change.epoch == epoch])
        assert now == rows_at(epoch)
    assert {change.epoch for change in net} <= {change.epoch for change in changes}


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
@settings(max_examples=examples(16))
@given(data=st.data())
def test_a_feed_leads_from_one_epoch_to_another(shape: Shape, data: st.DataObject) -> None:
    """Net, or change by change, over every range of any history; unchanged rows are not in it."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/store"
        vnode_count = data.draw(st.sampled_from([1, 7]))
        with Store.create(path, vnode_count=vnode_count, environment=unsynced(path)) as store:
            model = Model()
            shape.create(store)
            model.create(shape.name)
            for kind, tasks in data.draw(commits(shape)):
                run(store, shape, model, kind, tasks)
            for first in range(2, store.epoch + 1):
                for last in range(first, store.epoch + 1):
                    check(store, shape, model, first, last)


MERGED = Shape(
    name="merged",
    columns="k INT, a INT, b STRING, v INT",
    primary_key=("k",),
    key=(0,),
    rows=st.tuples(
        st.integers(0, 3),
        st.none() | st.integers(0, 2),
        st.none() | st.sampled_from(["x", "y"]),
        st.none() | st.integers(0, 3),
    ),
)
PROPERTIES: list[dict[str, Any]] = [
    {"merge": merge, "version_column": version}
    for merge in ("overwrite", "ignore", "partial")
    for version in (None, "v")
    if (merge, version) not in (("overwrite", None), ("ignore", "v"))
]


@pytest.mark.parametrize("properties", PROPERTIES, ids=str)
@settings(max_examples=examples(16))
@given(data=st.data())
def test_a_feed_is_of_rows_as_they_are_merged(
    properties: dict[str, Any], data: st.DataObject
) -> None:
    """Whatever the merge behaviour of the table: changes are those of the visible rows."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/store"
        with Store.create(path, vnode_count=3, environment=unsynced(path)) as store:
            store.create_table("merged", MERGED.columns, primary_key=["k"], **properties)
            for kind, tasks in data.draw(commits(MERGED)):
                change(store, MERGED, Model(tables={"merged": {}}), kind, tasks)

            @cache
            def rows_at(epoch: int) -> Rows:
                rows = contents(store, "merged", epoch) if epoch > 1 else []
                return {row[:1]: row for row in rows}

            for first in range(2, store.epoch + 1):
                for last in range(first, store.epoch + 1):
                    check_range(store, MERGED, rows_at, first, last)


@pytest.fixture
def orders(store: Store) -> Store:
    """A table of five rows, two of them changed at the next epoch and back at the one after."""
    store.create_table("orders", "id INT, v STRING", primary_key=["id"])
    upsert(store, "orders", [(key, "a") for key in range(5)])
    upsert(store, "orders", [(0, "b"), (1, "b"), (2, "a"), (7, "a")], [(3, None), (9, None)])
    upsert(store, "orders", [(0, "a"), (1, "c")], [(7, None)])
    return store


def test_changes_come_commit_by_commit(orders: Store) -> None:
    """With both images of an update; unchanged rows, and deletes of missing rows, are not in it."""
    assert read_feed(orders, "orders", 4) == [
        Change("update_preimage", 4, (0, "a")),
        Change("update_postimage", 4, (0, "b")),
        Change("update_preimage", 4, (1, "a")),
        Change("update_postimage", 4, (1, "b")),
        Change("delete", 4, (3, "a")),
        Change("insert", 4, (7, "a")),
        Change("update_preimage", 5, (0, "b")),
        Change("update_postimage", 5, (0, "a")),
        Change("update_preimage", 5, (1, "b")),
        Change("update_postimage", 5, (1, "c")),
        Change("delete", 5, (7, "a")),
    ]


def test_net_changes_are_what_all_commits_came_to(orders: Store) -> None:
    """Rows that were inserted and deleted are not in it; an image has the epoch that removed
    or wrote it.
    """
    assert read_feed(orders, "orders", 4, deduplication="netChanges") == [
        Change("update_preimage", 4, (1, "a")),
        Change("delete", 4, (3, "a")),
        Change("update_postimage", 5, (1, "c")),
    ]


def test_an_update_can_be_a_delete_and_an_insert(orders: Store) -> None:
    """If images are not requested."""
    changes = read_feed(orders, "orders", 5, update_images=False)

    assert [(change.type, change.row) for change in changes] == [
        ("delete", (0, "b")),
        ("insert", (0, "a")),
        ("delete", (1, "b")),
        ("insert", (1, "c")),
        ("delete", (7, "a")),
    ]


def test_a_truncate_deletes_every_row(orders: Store) -> None:
    """Repeated truncates add nothing; of an overwrite only rows that differ are in the feed."""
    orders.truncate("orders")
    orders.truncate("orders")
    changes = read_feed(orders, "orders", 6)
    assert changes == [Change("delete", 6, row) for row in [(0, "a"), (1, "c"), (2, "a"), (4, "a")]]

    epoch = upsert(orders, "orders", [(0, "a"), (1, "c")])
    table_id = orders.state.table("orders").definition.table_id
    segments = written(orders, "orders", [(0, "a"), (2, "x")])
    committed(orders, segments, based_tables=(table_id,))
    assert read_feed(orders, "orders", epoch + 1) == [
        Change("delete", epoch + 1, (1, "c")),
        Change("insert", epoch + 1, (2, "x")),
    ]


def test_a_table_that_only_grows_tells_of_inserts(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old rows are not looked up: there are none."""
    store.create_table("events", "id INT, v STRING", primary_key=["id"], append_only=True)
    first = upsert(store, "events", [(1, "a"), (2, "a")])
    second = upsert(store, "events", [(3, "b")])
    rows = [(1, "a"), (2, "a"), (3, "b")]
    epochs = (first, first, second)
    inserted = [Change("insert", *change) for change in zip(epochs, rows, strict=True)]
    with monkeypatch.context() as patched:
        patched.setattr(StorageTable, "get_values", None)
        assert read_feed(store, "events", first, deduplication="netChanges") == inserted
        assert read_feed(store, "events", second) == inserted[2:]


def test_a_key_that_expired_may_come_again(tmp_path: Path) -> None:
    """If no epoch is between, the row that expired and the new one are an update."""
    clock, path = ManualClock(), str(tmp_path / "store")
    environment = LocalEnvironment(path, UnsyncedDisk(clock), clock)
    with Store.create(path, vnode_count=3, environment=environment) as store:
        store.create_table("events", "id INT, v STRING", primary_key=["id"], append_only=True)
        rows = pa.table({"id": pa.array([1], pa.int32()), "v": ["a"]})
        store.write("events", rows, ttls=pa.array([1]))
        clock.advance(5)
        epoch = upsert(store, "events", [(1, "b")])

        assert read_feed(store, "events", epoch) == [
            Change("update_preimage", epoch, (1, "a")),
            Change("update_postimage", epoch, (1, "b")),
        ]


def test_columns_are_chosen_and_ordered(orders: Store) -> None:
    """Those of the table and those the feed adds; changes in other columns are reported too."""
    names = ["_Commit_Version", "ID"]
    batches = list(orders.changes("orders", 4, 4, columns=names))

    assert batches[0].schema.names == ["_commit_version", "id"]
    assert [row["id"] for batch in batches for row in batch.to_pylist()].count(0) == 2
    (only,) = orders.changes("orders", 5, columns=["_change_type"])
    assert only.schema.names == ["_change_type"]
    assert only.num_rows == 5


def test_rows_come_under_the_schema_at_the_end(orders: Store) -> None:
    """Columns are identified by their ids; altering them alone changes no row."""
    orders.add_columns("orders", "note STRING")
    orders.rename_column("orders", "v", "word")
    upsert(orders, "orders", [(0, "a", None), (1, "c", "x"), (2, "z", None)])

    assert read_feed(orders, "orders", 8) == [
        Change("update_preimage", 8, (1, "c", None)),
        Change("update_postimage", 8, (1, "c", "x")),
        Change("update_preimage", 8, (2, "a", None)),
        Change("update_postimage", 8, (2, "z", None)),
    ]
    (before,) = orders.changes("orders", 5, 5)
    assert before.schema.names[:2] == ["id", "v"]
    (since,) = orders.changes("orders", 5, 6, columns=["id", "v", "note"])
    assert since.schema.names == ["id", "v", "note"]

    orders.drop_columns("orders", "note")
    upsert(orders, "orders", [(1, "c")])
    assert read_feed(orders, "orders", 10) == []
    # What differed in a column that is no more is no change any more.
    assert {change.row for change in read_feed(orders, "orders", 8)} == {(2, "a"), (2, "z")}


def test_a_delete_that_is_forgotten_is_forgotten_by_the_feed(tmp_path: Path) -> None:
    """Compaction drops deletes that are old enough; a late row of lower version then is seen."""
    clock, path = ManualClock(), str(tmp_path / "store")
    environment = LocalEnvironment(path, UnsyncedDisk(clock), clock)
    with Store.create(path, vnode_count=3, environment=environment) as store:
        store.create_table(
            "merged", MERGED.columns, primary_key=["k"], version_column="v", tombstone_retention=60
        )
        upsert(store, "merged", [(1, 1, "x", 1), (2, 1, "x", 1)])
        upsert(store, "merged", [(3, 1, "x", 1)], [(1, None, None, 9), (2, None, None, 9)])
        upsert(store, "merged", [(1, 2, "late", 5)])
        clock.advance(3600)
        store.compact()
        upsert(store, "merged", [(1, 3, "later", 6)])
        upsert(store, "merged", [(2, 3, "later", 6), (3, 2, "x", 2)])
        store.compact()
        upsert(store, "merged", [(2, 4, "low", 3), (1, 4, "high", 7)])

        def rows_at(epoch: int) -> Rows:
            return {row[:1]: row for row in contents(store, "merged", epoch)}

        assert rows_at(store.epoch)[(1,)] == (1, 4, "high", 7)
        for first in range(3, store.epoch + 1):
            for last in range(first, store.epoch + 1):
                check_range(store, MERGED, rows_at, first, last)


def test_parts_are_the_whole(make_store: StoreMaker) -> None:
    """Each change is in one group of vnodes, however many there are; batches are bounded."""
    store = make_store(vnode_count=64)
    store.create_table("t", "id INT, v STRING", primary_key=["id"])
    upsert(store, "t", [(key, "a") for key in range(3000)])
    upsert(store, "t", [(key, "b") for key in range(0, 3000, 2)])
    plan = store.jobs.feed_plan("t", 3)
    whole = sorted(map(str, changes_of(plan.read())))

    for count in (1, 3, 64, 1000):
        parts = plan.partitions(count)
        assert len(parts) == min(count, 64)
        changes = [change for part in parts for change in changes_of(plan.read(part))]
        assert sorted(map(str, changes)) == whole
    assert len(whole) == 6000


def test_wide_rows_come_in_several_batches(make_store: StoreMaker) -> None:
    """Each of about 8 MiB, an update's images possibly in two of them."""
    store = make_store(vnode_count=4)
    store.create_table("t", "id INT, v STRING", primary_key=["id"])
    upsert(store, "t", [(key, "a" * (1 << 20)) for key in range(20)])
    upsert(store, "t", [(key, "b" * (1 << 20)) for key in range(20)])

    batches = list(store.changes("t", 4))

    assert sum(batch.num_rows for batch in batches) == 40
    assert max(batch.nbytes for batch in batches) < 10 << 20


@in_folder
def test_damage_names_a_file(orders: Store) -> None:
    """Damage is never reported as a change."""
    plan = orders.jobs.feed_plan("orders", 4)
    (segment,) = plan.steps[0].segments
    path = orders.environment.local_path(f"segments/{segment.name}.lmdb")
    with open(path, "r+b") as file:
        content = file.read()
        file.seek(content.index(b"\x00\x00b") + 2 if b"\x00\x00b" in content else 5000)
        file.write(b"\xff")
    orders.close()

    with pytest.raises(CorruptionError, match=segment.name):
        list(plan.read())
    with open(path, "wb") as file:
        file.write(content)
