"""Tables without a primary key: bags of rows, over real files."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from relstate.storage import Kind, Store
from relstate.storage.errors import (
    AppendOnlyError,
    RelstateError,
    SchemaError,
    SchemaMismatchError,
    UsageError,
)
from relstate.storage.local_environment import LocalEnvironment
from relstate.storage.schema.schema import TableSchema
from relstate.storage.table import tablewriter
from relstate.storage.table.rowid import RowIds
from relstate.storage.table.storagetable import StorageTable
from support.clock import ManualClock
from support.commits import UnsyncedDisk
from support.stores import StoreMaker, committed, rows_of

ROWS = st.lists(
    st.tuples(st.sampled_from([None, 1, 2]), st.sampled_from([None, "", "a", "b"])), max_size=8
)
Bag = Counter[tuple[Any, ...]]


def rows_table(rows: list[tuple[Any, ...]]) -> pa.Table:
    """Return rows of the columns a and b."""
    columns = {
        "a": pa.array([row[0] for row in rows], pa.int32()),
        "b": pa.array([row[1] for row in rows], pa.string()),
    }
    return pa.table(columns)


class BagMachine(RuleBasedStateMachine):
    """A table of two columns without a key, and the bag of rows that it should hold."""

    @initialize()
    def begin(self) -> None:
        """Make a store with an empty table."""
        self.folder = tempfile.TemporaryDirectory()
        self.clock = ManualClock()
        environment = LocalEnvironment(f"{self.folder.name}/store", UnsyncedDisk(), self.clock)
        self.store = Store.create(environment.root, vnode_count=7, environment=environment)
        self.store.create_table("t", "a INT, b STRING")
        self.table = self.store.table("t")
        self.bag: Bag = Counter()
        # What a follower of the change feed has, by row id.
        self.follower: dict[bytes, tuple[Any, ...]] = {}
        self.followed = self.store.epoch
        self.past: dict[int, Bag] = {}

    def teardown(self) -> None:
        """Compare every epoch that was looked at, and check the store."""
        if hasattr(self, "store"):
            for epoch, bag in self.past.items():
                assert Counter(rows_of(self.store.at(epoch).table("t").to_arrow())) == bag
            assert self.store.check().problems == ()
            self.folder.cleanup()

    @rule(rows=ROWS, is_overwrite=st.booleans())
    def write(self, rows: list[tuple[Any, ...]], is_overwrite: bool) -> None:
        """Every row that is written is a new row."""
        self.store.write("t", rows_table(rows), overwrite=is_overwrite)
        self.bag = Counter(rows) + (Counter() if is_overwrite else self.bag)

    @rule(data=st.data())
    def change(self, data: st.DataObject) -> None:
        """As the task of a statement does: rows by their ids, new ones without, in one batch."""
        ids, rows = self.rows_by_id()
        chosen = [
            index for index in range(len(ids)) if data.draw(st.integers(0, 2), label="chosen") == 0
        ]
        kinds = [data.draw(st.sampled_from([Kind.PUT, Kind.DELETE])) for _ in chosen]
        new = data.draw(ROWS)
        after = [(index, data.draw(st.sampled_from("ab"))) for index in range(len(chosen))]
        batch = pa.record_batch(
            {
                "_row_id": pa.array([ids[i] for i in chosen] + [None] * len(new), pa.binary()),
                "a": pa.array([a for a, _ in after] + [a for a, _ in new], pa.int32()),
                "b": pa.array([b for _, b in after] + [b for _, b in new], pa.string()),
            }
        )
        writer = self.store.jobs.write_target("t").open(self.store.environment)
        writer.write(batch, np.array([*kinds, *[Kind.PUT] * len(new)], np.uint8))
        committed(self.store, writer.finish())
        self.bag -= Counter(rows[index] for index in chosen)
        self.bag += Counter(row for row, kind in zip(after, kinds, strict=True) if kind == Kind.PUT)
        self.bag += Counter(new)

    @rule()
    def truncate(self) -> None:
        """Remove all rows."""
        self.store.truncate("t")
        self.bag = Counter()

    @rule()
    def compact(self) -> None:
        """Compact: the rows stay the same."""
        self.store.compact("t")

    @rule(seconds=st.floats(-1, 1))
    def move_clock(self, seconds: float) -> None:
        """Set the clock: ids do not depend on a right one."""
        self.clock.advance(seconds) if seconds > 0 else self.clock.set_back(-seconds)

    @rule()
    def follow(self) -> None:
        """Apply the feed to the rows by their ids: the result is exactly the table."""
        columns = ["_row_id", "a", "b", "_change_type"]
        for batch in self.store.changes("t", self.followed + 1, columns=columns):
            for row_id, a, b, change in rows_of(batch):
                if change in ("insert", "update_postimage"):
                    self.follower[row_id] = (a, b)
                else:
                    assert self.follower.pop(row_id) == (a, b)
        self.followed = self.store.epoch
        assert Counter(self.follower.values()) == self.bag

    @rule()
    def follow_without_ids(self) -> None:
        """Apply the feed of the visible columns to the bag: a removed row was in it."""
        bag: Bag = Counter()
        for batch in self.store.changes("t", 2):
            for a, b, change, *_ in rows_of(batch):
                is_new = change in ("insert", "update_postimage")
                bag[(a, b)] += 1 if is_new else -1
        assert +bag == self.bag

    @rule()
    def remember(self) -> None:
        """Look at this epoch again at the end."""
        self.past[self.store.epoch] = Counter(self.bag)

    @invariant()
    def holds_the_bag(self) -> None:
        """Scans, counts and conditions see every row as often as it was written."""
        if not hasattr(self, "store"):
            return
        assert Counter(rows_of(self.table.scan())) == self.bag
        assert self.table.count() == self.bag.total()
        matches = Counter({row: n for row, n in self.bag.items() if row[0] == 1})
        assert Counter(rows_of(self.table.scan(where="a = 1", ordered=True))) == matches
        ids, _ = self.rows_by_id()
        assert len(set(ids)) == len(ids)

    def rows_by_id(self) -> tuple[list[bytes], list[tuple[Any, ...]]]:
        """Return the ids of all rows, and the rows."""
        scanned = rows_of(self.table.scan(["_row_id", "a", "b"]))
        return [row[0] for row in scanned], [row[1:] for row in scanned]


def test_a_table_without_a_key_is_a_bag() -> None:
    """Whatever is inserted, updated, deleted, compacted and followed, with whatever clock."""
    run_state_machine_as_test(
        BagMachine, settings=settings(max_examples=30, stateful_step_count=20, deadline=None)
    )


@pytest.fixture
def events(store: Store) -> Store:
    """A store with a table of two equal rows and another one."""
    store.create_table("events", "a INT, b STRING")
    store.write("events", rows_table([(1, "x"), (1, "x"), (2, "y")]))
    return store


def test_rows_come_in_the_order_in_which_they_were_written(events: Store) -> None:
    """In a read that returns rows in the order of the key."""
    events.write("events", rows_table([(0, "z"), (9, "a")]))
    expected = [(1, "x"), (1, "x"), (2, "y"), (0, "z"), (9, "a")]
    assert rows_of(events.table("events").to_arrow()) == expected


def test_a_batch_without_rows_writes_none(events: Store) -> None:
    """As the first of a stream, or alone; with overwrite the table is empty after it."""
    batch = rows_table([(1, "x")]).to_batches()[0]
    none = batch.slice(0, 0)
    events.write("events", none)
    events.write("events", pa.RecordBatchReader.from_batches(batch.schema, [none, batch, none]))
    assert events.table("events").count() == 4
    events.write("events", none, overwrite=True)
    assert events.table("events").count() == 0


def test_narrow_rows_are_written_in_parts(
    make_store: StoreMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the size of what is written: the ids of the rows take more bytes than the rows."""
    monkeypatch.setattr(tablewriter, "_BATCH_BYTES", 1600)
    parts: list[int] = []
    identify = RowIds.identify

    def counted(ids: RowIds, schema: TableSchema, batch: pa.RecordBatch) -> pa.RecordBatch:
        parts.append(batch.num_rows)
        return identify(ids, schema, batch)

    monkeypatch.setattr(RowIds, "identify", counted)
    store = make_store()
    store.create_table("flags", "flag BOOLEAN")
    store.write("flags", pa.table({"flag": [True] * 1000}))
    assert parts == [100] * 10
    ids = rows_of(store.table("flags").to_arrow(["_row_id"]))
    assert len(set(ids)) == 1000


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda store: store.table("events").get(1), UsageError, "looked up by key: use scan"),
        (lambda store: store.table("events").get_rows([(1,)]), UsageError, "has no primary key"),
        (
            lambda store: store.delete("events", rows_table([(1, "x")])),
            UsageError,
            "DELETE FROM … WHERE",
        ),
        (lambda store: store.state_table("events"), UsageError, "cannot be a state table"),
        (
            lambda store: store.write("events", pa.table({"_row_id": [b"1"], "a": [1]})),
            SchemaMismatchError,
            r"unknown column '_row_id'; the columns are a, b$",
        ),
        (lambda store: store.drop_columns("events", "_row_id"), SchemaError, "hidden row id"),
        (lambda store: store.rename_column("events", "_row_id", "i"), SchemaError, "hidden row"),
        (lambda store: store.comment_column("events", "_row_id", "i"), SchemaError, "hidden row"),
        (lambda store: store.widen_column("events", "_row_id", "INT"), SchemaError, "hidden row"),
        (lambda store: store.drop_columns("events", "a", "b"), SchemaError, "needs at least one"),
        (lambda store: store.add_columns("events", "_row_id INT"), SchemaError, "of this name"),
        (lambda store: store.create_table("t", "a INT", primary_key=[]), SchemaError, "is empty"),
        (lambda store: store.create_table("t", "_row_id INT"), SchemaError, "declare a primary"),
        (lambda store: store.create_table("t", "a INT", merge="ignore"), SchemaError, "merged"),
        (
            lambda store: store.create_table("t", "a INT", version_column="a"),
            SchemaError,
            "never merged",
        ),
        (
            lambda store: store.create_table("t", "a INT", distribution_key=["a"]),
            SchemaError,
            "no distribution key",
        ),
    ],
)
def test_what_needs_a_key_is_refused_in_words(
    call: Callable[[Store], object], error: type[RelstateError], message: str, events: Store
) -> None:
    """The error says so, and nothing is changed."""
    epoch = events.epoch
    with pytest.raises(error, match=message):
        call(events)
    assert events.epoch == epoch


def test_columns_are_altered(events: Store) -> None:
    """Rows keep their ids and their order."""
    ids = rows_of(events.table("events").scan(["_row_id"], ordered=True))
    events.add_columns("events", "c BIGINT")
    events.rename_column("events", "b", "name")
    events.widen_column("events", "a", "BIGINT")
    events.write("events", pa.table({"a": [5], "name": ["w"], "c": [7]}))
    events.drop_columns("events", "a")

    rows = rows_of(events.table("events").to_arrow())
    assert rows == [("x", None), ("x", None), ("y", None), ("w", 7)]
    assert rows_of(events.table("events").scan(["_row_id"], ordered=True))[:3] == ids


def test_rows_expire(make_store: StoreMaker) -> None:
    """By the TTL of the table, or their own."""
    store = make_store()
    store.create_table("events", "a INT, b STRING", ttl=3600)
    store.write("events", rows_table([(1, "x")] * 3), ttls=pa.array([1, None, 10]))
    store.set_ttl("events", None)
    store.write("events", rows_table([(1, "x")]))
    counts = [
        store.read_plan("events", time=datetime.fromtimestamp(at, UTC)).open().count()
        for at in (store.environment.now() / 1e6 + seconds for seconds in (0, 5, 60, 7200))
    ]
    assert counts == [4, 3, 2, 1]


def test_an_append_only_table_looks_no_key_up(
    make_store: StoreMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New ids sort after all existing ones. Deletes and overwrites are refused."""
    store = make_store()
    store.create_table("events", "a INT, b STRING", append_only=True)
    lookups: list[int] = []
    find = StorageTable.find

    def counted(table: StorageTable, keys: pa.RecordBatch, *rest: Any) -> Any:
        lookups.append(len(keys))
        return find(table, keys, *rest)

    monkeypatch.setattr(StorageTable, "find", counted)
    for _ in range(5):
        store.write("events", rows_table([(1, "x")] * 1000))
    assert lookups == []
    assert store.table("events").count() == 5000
    changes: list[Callable[[], object]] = [
        lambda: store.truncate("events"),
        lambda: store.write("events", rows_table([]), overwrite=True),
    ]
    for change in changes:
        with pytest.raises(AppendOnlyError):
            change()


def test_rows_are_spread_over_all_vnodes(make_store: StoreMaker) -> None:
    """Also those of one small write."""
    store = make_store(vnode_count=16)
    store.create_table("events", "a INT, b STRING")
    store.write("events", rows_table([(1, "x")] * 1600))
    plan = store.read_plan("events")
    counts = [plan.open().count(vnodes=[range(vnode, vnode + 1)]) for vnode in range(16)]
    assert sum(counts) == 1600
    assert min(counts) > 50
