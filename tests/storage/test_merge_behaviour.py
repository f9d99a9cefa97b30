"""Tables that merge rows: every read, at every epoch, is what a dict makes of the writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relstate.storage import Store
from relstate.storage.errors import (
    OptionError,
    SchemaError,
    SchemaMismatchError,
    UsageError,
    ValueRangeError,
)
from relstate.storage.local_environment import LocalEnvironment
from relstate.storage.schema.properties import Merge
from support.examples import examples
from support.stores import stored_row, unsynced

Row = tuple[int, int | None, int | None, str | None]
COLUMNS = "k INT, v INT, a INT, b STRING"
SCHEMA = pa.schema({"k": pa.int32(), "v": pa.int32(), "a": pa.int32(), "b": pa.string()})
ROW = st.tuples(
    st.integers(0, 5),
    st.none() | st.integers(0, 3),
    st.none() | st.integers(0, 9),
    st.none() | st.sampled_from(["x", "y"]),
)
WRITE = st.tuples(st.booleans(), st.lists(ROW, min_size=1, max_size=6))


class Model:
    """What a dict makes of the writes, one row after the other."""

    def __init__(self, merge: Merge, versioned: bool) -> None:
        self.rows: dict[int, tuple[Any, ...]] = {}
        self._versions: dict[int, tuple[int, bool]] = {}
        self._merge = merge
        self._versioned = versioned

    def write(self, is_delete: bool, rows: list[Row]) -> None:
        """Apply the rows of one write."""
        for row in rows:
            # Of equal versions a delete is the greater one.
            version = (-1 if row[1] is None else row[1], is_delete)
            if self._versioned and version < self._versions.get(row[0], (-1, False)):
                continue
            self._versions[row[0]] = version
            old = self.rows.get(row[0])
            if is_delete:
                self.rows.pop(row[0], None)
            elif old is None or self._merge == "overwrite":
                self.rows[row[0]] = row
            elif self._merge == "partial":
                pairs = zip(row, old, strict=True)
                self.rows[row[0]] = tuple(old if new is None else new for new, old in pairs)


def batch(rows: list[Row]) -> pa.RecordBatch:
    """Return rows as a batch."""
    columns = zip(SCHEMA, zip(*rows, strict=True), strict=True)
    return pa.record_batch([pa.array(values, field.type) for field, values in columns], SCHEMA)


@pytest.mark.parametrize(
    ("merge", "versioned"),
    [
        ("overwrite", False),
        ("overwrite", True),
        ("ignore", False),
        ("partial", False),
        ("partial", True),
    ],
)
@settings(max_examples=examples(30))
@given(writes=st.lists(WRITE, min_size=1, max_size=6))
def test_every_read_is_what_a_dict_says(
    merge: Merge, versioned: bool, writes: list[tuple[bool, list[Row]]]
) -> None:
    """Lookups, multi-gets, scans in both orders and counts, at the latest epoch and at others."""
    with (
        TemporaryDirectory() as folder,
        Store.create(f"{folder}/s", vnode_count=4, environment=unsynced(f"{folder}/s")) as store,
    ):
        version = "v" if versioned else None
        table = store.create_table(
            "t", COLUMNS, primary_key=["k"], merge=merge, version_column=version
        )
        model = Model(merge, versioned)
        states = {store.epoch: dict(model.rows)}
        for is_delete, drawn in writes:
            rows = drawn
            if versioned and merge != "overwrite":
                # Rows of one key in one write are merged before they meet what is there.
                rows = list({row[0]: row for row in drawn}.values())
            epoch = store.delete("t", batch(rows)) if is_delete else store.write("t", batch(rows))
            model.write(is_delete, rows)
            states[epoch] = dict(model.rows)

        for epoch, expected in states.items():
            table = store.at(epoch).table("t")
            assert {row["k"]: tuple(row.values()) for row in table.to_arrow().to_pylist()} == (
                expected
            )
        keys = pa.record_batch({"k": pa.array(range(7), pa.int32())})
        assert {row["k"]: tuple(row.values()) for row in table.get_rows(keys).to_pylist()} == (
            model.rows
        )
        assert {key: row for key in range(7) if (row := table.get(key)) is not None} == model.rows
        assert table.count() == len(model.rows)
        assert store.check().ok


def test_rows_of_one_write_are_merged_across_its_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often a writer has to spill."""
    monkeypatch.setattr("relstate.storage.segment.writer.SEGMENT_BYTES", 1 << 12)
    with Store.create(str(tmp_path / "s"), vnode_count=4) as store:
        store.create_table("t", COLUMNS, primary_key=["k"], merge="partial")
        rows = pa.table(
            {
                "k": pa.array([key % 50 for key in range(1000)], pa.int32()),
                "a": pa.array([key if key < 500 else None for key in range(1000)], pa.int32()),
                "b": pa.array([None if key < 500 else str(key) for key in range(1000)]),
            }
        )
        epoch = store.write("t", rows)

        assert [len(entry.added) > 1 for entry in store.history() if entry.epoch == epoch] == [True]
        for key in range(50):
            assert store.table("t").get(key) == (key, None, 450 + key, str(950 + key))


def test_long_keys_are_merged_too(tmp_path: Path) -> None:
    """Rows whose keys share an entry remain separate rows."""
    with Store.create(str(tmp_path / "s"), vnode_count=1) as store:
        store.create_table("t", "k STRING, a INT, b INT", primary_key=["k"], merge="partial")
        keys = ["x" * 600 + tail for tail in "abc"]
        store.write("t", pa.table({"k": keys, "a": pa.array([1, 2, 3], pa.int32())}))
        store.write("t", pa.table({"k": keys[:2], "b": pa.array([4, 5], pa.int32())}))

        assert [stored_row(store.table("t"), key)[1:] for key in keys] == [
            (1, 4),
            (2, 5),
            (3, None),
        ]
        assert sorted(row[1:] for row in map(tuple, rows_of(store, "t"))) == [
            (1, 4), (2, 5), (3, None),
        ]  # fmt: skip


def rows_of(store: Store, name: str) -> list[list[Any]]:
    """Return all rows of a table."""
    return [list(row.values()) for row in store.table(name).to_arrow().to_pylist()]


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"merge": "sum"}, "merge is 'sum'"),
        ({"version_column": "nothing"}, "no column 'nothing'"),
        ({"version_column": "k"}, "cannot be in the primary key"),
        ({"merge": "ignore", "version_column": "v"}, "a version column has no effect"),
        ({"merge": "partial", "ttl": 60}, "cannot expire"),
        ({"append_only": True, "merge": "ignore"}, "append-only"),
        ({"ttl": 0}, "whole number of seconds from 1"),
        ({"ttl": -5}, "whole number of seconds from 1"),
        ({"tombstone_retention": -1}, "whole number of seconds from 0"),
    ],
)
def test_properties_that_cannot_be_are_refused(
    tmp_path: Path, properties: dict[str, Any], words: str
) -> None:
    """The table is not created."""
    with Store.create(str(tmp_path / "s")) as store:
        with pytest.raises(SchemaError, match=words):
            store.create_table("t", COLUMNS, primary_key=["k"], **properties)
        assert store.tables() == ()


def test_a_state_table_is_for_plain_tables(tmp_path: Path) -> None:
    """A state table returns rows as its executor wrote them."""
    with Store.create(str(tmp_path / "s")) as store:
        store.create_table("merged", COLUMNS, primary_key=["k"], merge="partial")
        store.create_table("expiring", COLUMNS, primary_key=["k"], ttl=60)

        for name in ("merged", "expiring"):
            with pytest.raises(UsageError, match="merges its rows or lets them expire"):
                store.state_table(name)


def test_rows_that_are_merged_have_no_ttl(tmp_path: Path) -> None:
    """Neither that of the table nor one of their own."""
    with Store.create(str(tmp_path / "s"), environment=LocalEnvironment(str(tmp_path / "s"))) as s:
        s.create_table("t", COLUMNS, primary_key=["k"], merge="partial")

        with pytest.raises(OptionError, match="cannot expire one by one"):
            s.write("t", batch([(1, None, None, None)]), ttls=pa.array([60]))
        with pytest.raises(SchemaError, match="cannot expire"):
            s.set_ttl("t", 60)
        assert s.table("t").count() == 0


@pytest.mark.parametrize("merge", ["overwrite", "partial"])
@pytest.mark.parametrize("version", [5, None])
@pytest.mark.parametrize("maintain", [Store.compact, Store.vacuum, Store.check])
def test_a_delete_wins_over_a_row_of_the_same_version(
    tmp_path: Path, merge: Merge, version: int | None, maintain: Callable[[Store], object]
) -> None:
    """Whichever comes first, in one commit or in two, before and after maintenance."""
    row = batch([(1, version, 7, "x")])
    with Store.create(str(tmp_path / "s"), vnode_count=4) as store:
        for name in ("first", "last"):
            store.create_table(name, COLUMNS, primary_key=["k"], merge=merge, version_column="v")
        store.delete("first", row)
        store.write("first", row)
        store.write("last", row)
        store.delete("last", row)
        for name in ("first", "last"):
            assert store.table(name).get(1) is None
            maintain(store)
            store.write(name, row)
            assert store.table(name).to_arrow().num_rows == 0
            store.write(name, batch([(1, 6, 8, "y")]))
            assert stored_row(store.table(name), 1) == (1, 6, 8, "y")


@settings(max_examples=examples(30))
@given(writes=st.lists(WRITE, min_size=1, max_size=6))
def test_several_version_columns_are_compared_in_order(
    writes: list[tuple[bool, list[Row]]],
) -> None:
    """The greatest (v, b) of a key wins, NULL being the least, in any order and after a merge.

    Of equal ones a delete wins, else the last write.
    """
    with (
        TemporaryDirectory() as folder,
        Store.create(f"{folder}/s", vnode_count=4, environment=unsynced(f"{folder}/s")) as store,
    ):
        store.create_table("t", COLUMNS, primary_key=["k"], version_column=["v", "b"])
        expected: dict[int, tuple[tuple[int, str, bool], Row | None]] = {}
        for is_delete, rows in writes:
            (store.delete if is_delete else store.write)("t", batch(rows))
            for row in rows:
                version = (-1 if row[1] is None else row[1], row[3] or "", is_delete)
                if row[0] not in expected or version >= expected[row[0]][0]:
                    expected[row[0]] = (version, None if is_delete else row)
        alive = {key: row for key, (_, row) in expected.items() if row is not None}
        for _ in range(2):
            rows_read = store.table("t").to_arrow().to_pylist()
            assert {row["k"]: tuple(row.values()) for row in rows_read} == alive
            store.compact()
        assert store.check().ok


def test_version_columns_are_several_different_columns_outside_of_the_key(tmp_path: Path) -> None:
    """The names are checked when the table is created, and cannot be dropped after."""
    with Store.create(str(tmp_path / "s")) as store:
        for names, problem in ((["v", "v"], "twice"), (["k", "v"], "primary key"), ([], "empty")):
            with pytest.raises(SchemaError, match=problem):
                store.create_table("t", COLUMNS, primary_key=["k"], version_column=names)
        store.create_table("t", COLUMNS, primary_key=["k"], version_column=["v", "a"])
        with pytest.raises(SchemaError, match="version column"):
            store.drop_columns("t", "a")


@pytest.mark.parametrize("text", ["v" * 65_532, "\0" * 32_766])
def test_the_longest_version_is_stored(tmp_path: Path, text: str) -> None:
    """Its length, as it is encoded, is the greatest that a header has room for."""
    with Store.create(str(tmp_path / "s")) as store:
        store.create_table(
            "t", "id INT, v STRING, x STRING", primary_key=["id"], version_column="v"
        )
        store.write("t", [{"id": 1, "v": text, "x": "x"}])

        assert store.table("t").get(1) == (1, text, "x")
        assert store.check().ok


@pytest.mark.parametrize("text", ["v" * 65_533, "v" * 65_535, "\0" * 32_767])
@pytest.mark.parametrize("version_column", ["v", ["n", "v"]])
def test_a_longer_version_is_refused(
    tmp_path: Path, text: str, version_column: str | list[str]
) -> None:
    """Nothing of the write is stored, also of a delete; the message names the row."""
    with Store.create(str(tmp_path / "s")) as store:
        columns = "id INT, v STRING, x STRING, n INT"
        store.create_table("t", columns, primary_key=["id"], version_column=version_column)
        rows = [{"id": 1, "v": "a", "x": "x"}, {"id": 2, "v": text, "x": "x"}]
        for write in (store.write, store.delete):
            with pytest.raises(ValueRangeError, match=r"the row with id = 2 .* at most 65535"):
                write("t", [{**row, "n": 1} for row in rows])
        assert store.epoch == 2
        assert store.check().orphans == 0


def test_a_write_without_its_version_is_refused(tmp_path: Path) -> None:
    """It would change nothing; a NULL is the lowest version, as before."""
    with Store.create(str(tmp_path / "s")) as store:
        store.create_table("t", "id INT, x INT, v INT", primary_key=["id"], version_column="v")
        store.create_table(
            "p", "id INT, x INT, v INT", primary_key=["id"], version_column="v", merge="partial"
        )
        for table in ("t", "p"):
            store.write(table, [{"id": 1, "x": 1, "v": 10}])
            epoch = store.epoch
            for rows in (
                [{"id": 1, "x": 2}],
                [{"id": 2, "x": 2, "V": 1}, {"id": 1, "x": 2}],
                pa.table({"id": [1], "x": [2]}),
            ):
                with pytest.raises(SchemaMismatchError, match=f"table {table}: .*'v' is missing"):
                    store.write(table, rows)
            with pytest.raises(SchemaMismatchError, match="'v' is missing; found id"):
                store.delete(table, [{"id": 1}])
            assert store.epoch == epoch
            store.write(table, [{"id": 1, "x": 2, "v": None}])
            store.delete(table, [{"id": 1, "v": None}])
            assert store.table(table).get(1) == (1, 1, 10)
            store.delete(table, [{"id": 1, "v": 10}])
            assert store.table(table).get(1) is None


def test_all_version_columns_are_given(tmp_path: Path) -> None:
    """One of two is not enough."""
    with Store.create(str(tmp_path / "s")) as store:
        store.create_table(
            "t", "id INT, v INT, n INT", primary_key=["id"], version_column=["v", "n"]
        )
        with pytest.raises(SchemaMismatchError, match="'n' is missing; found id, v"):
            store.write("t", [{"id": 1, "v": 1}])


def test_a_default_is_the_version_of_a_write_without_one(tmp_path: Path) -> None:
    """Also of a delete, and if it is the time of the write."""
    with Store.create(str(tmp_path / "s")) as store:
        store.create_table("t", "id INT, x INT, v INT", primary_key=["id"], version_column="v")
        store.set_default("t", "v", "7")
        store.write("t", [{"id": n, "x": 1, "v": n} for n in (6, 7, 8)])
        store.write("t", [{"id": n, "x": 2} for n in (6, 7, 8)])
        assert [stored_row(store.table("t"), n).x for n in (6, 7, 8)] == [2, 2, 1]
        store.delete("t", [{"id": n} for n in (6, 7, 8)])
        assert [row["id"] for row in store.table("t").to_dicts()] == [8]

        columns = "id INT, x INT, at TIMESTAMP"
        store.create_table("c", columns, primary_key=["id"], version_column="at")
        store.set_default("c", "at", "current_timestamp()")
        store.write("c", [{"id": 1, "x": 1}])
        store.write("c", [{"id": 1, "x": 2}])
        assert stored_row(store.table("c"), 1).x == 2
        store.delete("c", [{"id": 1}])
        assert store.table("c").get(1) is None
        assert store.check().ok
