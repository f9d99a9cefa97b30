"""Altering a table: how rows written before are read, and older epochs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relstate.storage import Proposal, Store, TableSchema, Transaction
from relstate.storage.errors import SchemaError, SchemaMismatchError, TableNotFoundError, UsageError
from support.examples import examples
from support.stores import committed, contents, stored_row, unsynced


@pytest.fixture
def altered(store: Store) -> Store:
    """A store with a table of a few rows, which tests alter."""
    store.create_table("t", "k INT, a INT, b STRING", primary_key=["k"])
    write(store, k=[1, 2], a=[10, 20], b=["x", "y"])
    return store


def write(store: Store, **columns: list[Any]) -> int:
    """Upsert rows given by column."""
    arrays = {name: pa.array(values) for name, values in columns.items()}
    return store.write("t", pa.table(arrays))


def test_a_column_is_added(altered: Store) -> None:
    """It is NULL in existing rows, and can be written from then on."""
    before = altered.epoch
    altered.add_columns("t", "c DOUBLE, d ARRAY<INT>")
    write(altered, k=[2, 3], a=[21, 30], b=["y", "z"], c=[0.5, None], d=[[1], None])

    assert contents(altered, "t") == [
        (1, 10, "x", None, None), (2, 21, "y", 0.5, [1]), (3, 30, "z", None, None),
    ]  # fmt: skip
    assert altered.table("t").get(1) == (1, 10, "x", None, None)
    assert contents(altered, "t", before) == [(1, 10, "x"), (2, 20, "y")]


def test_a_column_becomes_nullable(store: Store) -> None:
    """Rows that were written before are read; NULL is written from then on; a key column is not."""
    columns = "k INT, a INT NOT NULL, b STRING"
    store.create_table("t", columns, primary_key=["k"])
    write(store, k=[1], a=[10], b=["x"])
    before = store.epoch
    store.allow_null("t", "A")
    write(store, k=[2], a=pa.array([None], pa.int32()), b=["y"])

    assert contents(store, "t") == [(1, 10, "x"), (2, None, "y")]
    assert store.table("t").get(1) == (1, 10, "x")
    assert store.table("t").get(2) == (2, None, "y")
    assert not store.at(before).table("t").schema.column("a").nullable
    assert store.allow_null("t", "b") > before
    with pytest.raises(SchemaError, match="'k' is part of the primary key"):
        store.allow_null("t", "k")


def test_a_column_is_dropped(altered: Store) -> None:
    """Also from existing rows; a column of the same name that is added later is another column."""
    before = altered.epoch
    altered.drop_columns("t", "A")
    assert contents(altered, "t") == [(1, "x"), (2, "y")]

    altered.add_columns("t", "a INT")
    write(altered, k=[2], b=["y"], a=[5])
    assert contents(altered, "t") == [(1, "x", None), (2, "y", 5)]
    assert contents(altered, "t", before) == [(1, 10, "x"), (2, 20, "y")]


def test_a_column_is_renamed(altered: Store) -> None:
    """A key column too; older epochs know the old name."""
    before = altered.epoch
    altered.rename_column("t", "k", "id")
    altered.rename_column("t", "b", "B")
    altered.rename_column("t", "a", "amount")

    assert altered.table("t").schema.arrow_schema.names == ["id", "amount", "B"]
    assert altered.table("t").get(1) == (1, 10, "x")
    assert contents(altered, "t") == [(1, 10, "x"), (2, 20, "y")]
    assert altered.at(before).table("t").schema.arrow_schema.names == ["k", "a", "b"]


def test_a_column_is_widened(altered: Store) -> None:
    """Existing values stay; greater ones fit from then on."""
    altered.widen_column("t", "a", "BIGINT")
    write(altered, k=[3], a=[2**40], b=["z"])
    altered.widen_column("t", "a", "DECIMAL(22,2)")
    write(altered, k=[4], a=[Decimal("0.25")], b=["z"])

    assert [row[1] for row in contents(altered, "t")] == [
        Decimal("10.00"), Decimal("20.00"), Decimal(2**40), Decimal("0.25"),
    ]  # fmt: skip
    assert stored_row(altered.table("t"), 3)[1] == Decimal(2**40)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("BIGINT", "INT"), ("INT", "STRING"), ("DOUBLE", "FLOAT"), ("BIGINT", "DOUBLE"),
        ("DECIMAL(10,2)", "DECIMAL(10,3)"), ("INT", "DECIMAL(9,0)"), ("STRING", "BINARY"),
        ("INT", "INT"), ("TIMESTAMP", "TIMESTAMP_NTZ"), ("INT", "FLOAT"),
    ],
)  # fmt: skip
def test_what_would_lose_a_value_is_not_wider(store: Store, old: str, new: str) -> None:
    """It is refused, whatever the values."""
    store.create_table("t", f"k INT, a {old}", primary_key=["k"])
    epoch = store.epoch

    with pytest.raises(SchemaError, match="cannot become"):
        store.widen_column("t", "a", new)
    assert store.epoch == epoch


def test_what_cannot_be_altered_is_refused(altered: Store) -> None:
    """Nothing is committed."""
    epoch = altered.epoch
    refused: list[tuple[Any, str]] = [
        (lambda: altered.add_columns("t", "A STRING"), "has a column of this name"),
        (lambda: altered.add_columns("t", "c INT, C INT"), "has a column of this name"),
        (lambda: altered.add_columns("t", "c INT NOT NULL"), "NOT NULL"),
        (lambda: altered.drop_columns("t", "k"), "primary key"),
        (lambda: altered.drop_columns("t", "nothing"), "no column 'nothing'"),
        (lambda: altered.drop_columns("t"), "the list of columns to drop is empty"),
        (lambda: altered.rename_column("t", "a", "B"), "the name is taken"),
        (lambda: altered.rename_column("t", "a", ""), "needs a name"),
        (lambda: altered.widen_column("t", "k", "BIGINT"), "primary key"),
    ]

    for alter, words in refused:
        with pytest.raises(SchemaError, match=words):
            alter()
    with pytest.raises(TableNotFoundError):
        altered.add_columns("nothing", "c INT")
    assert altered.epoch == epoch


def test_the_version_column_stays(store: Store) -> None:
    """A version column is neither dropped nor widened: its bytes are in the rows."""
    store.create_table("t", "k INT, v INT", primary_key=["k"], version_column="v")

    with pytest.raises(SchemaError, match="cannot be dropped"):
        store.drop_columns("t", "v")
    with pytest.raises(SchemaError, match="cannot be widened"):
        store.widen_column("t", "v", "BIGINT")
    store.rename_column("t", "v", "version")
    write(store, k=[1], version=[5])
    write(store, k=[1], version=[4])
    assert contents(store, "t") == [(1, 5)]


def test_a_writer_that_knows_the_old_schema_still_lands(altered: Store) -> None:
    """It began before the table was altered: its rows are read under the new schema."""
    target = altered.jobs.write_target("t")
    writer = target.open(altered.environment)
    writer.write(pa.record_batch({"k": pa.array([3], pa.int32()), "a": pa.array([30], pa.int32())}))
    altered.drop_columns("t", "b")
    altered.widen_column("t", "a", "BIGINT")
    altered.jobs.commit(
        Proposal(operation="write", started=altered.environment.now(), segments=writer.finish())
    )

    assert contents(altered, "t") == [(1, 10), (2, 20), (3, 30)]
    with pytest.raises(SchemaMismatchError):
        write(altered, k=[4], b=["gone"])


def test_two_who_alter_at_once_both_land(altered: Store) -> None:
    """The second one alters the result of the first."""
    path = altered.path

    def add(number: int) -> None:
        with Store.open(path) as store:
            store.add_columns("t", f"c{number} INT")

    threads = [threading.Thread(target=add, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    names = altered.table("t").schema.arrow_schema.names
    assert sorted(names) == ["a", "b", *(f"c{number}" for number in range(8)), "k"]
    ids = [column.id for column in altered.table("t").schema.columns]
    assert len(set(ids)) == len(ids)


def test_a_strict_state_table_wants_a_table_as_it_was_made(altered: Store) -> None:
    """It compares rows by their bytes."""
    altered.add_columns("t", "c INT")

    with pytest.raises(UsageError, match="was altered"):
        altered.state_table("t", strict=True)
    state = altered.state_table("t")
    state.insert([1, 11, "x", 7])
    assert state.get_row(2) == (2, 20, "y", None)
    state.commit()
    assert altered.table("t").get(1) == (1, 11, "x", 7)


@settings(max_examples=examples(20))
@given(st.lists(st.sampled_from(["add", "drop", "rename", "widen", "write"]), max_size=12))
def test_any_alterations_keep_every_value(steps: list[str]) -> None:
    """At every epoch the rows equal those of a dict."""
    with (
        TemporaryDirectory() as folder,
        Store.create(f"{folder}/s", vnode_count=4, environment=unsynced(f"{folder}/s")) as store,
    ):
        check_alterations(store, steps)


def check_alterations(store: Store, steps: list[str]) -> None:
    """Alter a table and a dict step by step, and compare every epoch."""
    store.create_table("t", "k INT", primary_key=["k"])
    types: dict[str, str] = {}
    rows: dict[int, dict[str, Any]] = {}
    states: dict[int, list[tuple[Any, ...]]] = {}
    for number, step in enumerate(steps):
        if step == "add":
            types[f"c{number}"] = "TINYINT"
            store.add_columns("t", f"c{number} TINYINT")
            for row in rows.values():
                row[f"c{number}"] = None
        elif step == "write":
            row = dict.fromkeys(types, number)
            rows[number % 3] = row
            schema = store.table("t").schema.arrow_schema
            store.write("t", pa.Table.from_pylist([{"k": number % 3, **row}], schema))
        elif types:
            name = next(iter(types))
            kind = types.pop(name)
            if step == "drop":
                store.drop_columns("t", name)
                for row in rows.values():
                    del row[name]
            elif step == "rename":
                store.rename_column("t", name, f"r{number}")
                types = {f"r{number}": kind} | types
                for key, row in rows.items():
                    rows[key] = {f"r{number}": row.pop(name)} | row
            else:
                wider = {"TINYINT": "SMALLINT", "SMALLINT": "INT", "INT": "BIGINT"}.get(kind)
                if wider is not None:
                    store.widen_column("t", name, wider)
                types = {name: wider or kind} | types
        names = store.table("t").schema.arrow_schema.names[1:]
        states[store.epoch] = [
            (key, *(row[name] for name in names)) for key, row in sorted(rows.items())
        ]

    for epoch, expected in states.items():
        assert contents(store, "t", epoch) == expected
    assert store.check().ok


def test_a_comment_is_kept_and_altered(store: Store) -> None:
    """It is in the log, as of each epoch; rows and the schema's version do not change."""
    store.create_table(
        "t", "k INT COMMENT 'its ''key'' ' 'here', v INT COMMENT \"a\\tb\"", primary_key=["k"]
    )
    write(store, k=[1], v=[2])
    before = store.epoch
    store.comment_column("t", "V", "other")
    store.comment_column("t", "k", None)
    store.add_columns("t", "c INT COMMENT 'new'")

    def comments(schema: TableSchema) -> list[str | None]:
        return [column.comment for column in schema.columns]

    with Store.open(store.path) as reopened:
        assert comments(reopened.table("t").schema) == [None, "other", "new"]
        assert comments(reopened.at(before).table("t").schema) == ["its 'key' here", "a\tb"]
        assert reopened.table("t").schema.version == 2
        assert contents(reopened, "t") == [(1, 2, None)]
    with pytest.raises(SchemaError, match="no column 'nothing'"):
        store.comment_column("t", "nothing", "x")


def test_no_argument_makes_a_store_unreadable(store: Store) -> None:
    """Values that a reader of the log would refuse are refused before the commit."""
    store.create_table("t", "k INT, v INT", primary_key=["k"])
    build = partial(store.create_table, "u", "k INT, v INT", primary_key=["k"])
    attempts: list[Callable[[Any], object]] = [
        lambda value: store.set_ttl("t", value),
        lambda value: build(ttl=value),
        lambda value: build(version_column="v", tombstone_retention=value),
        lambda value: store.comment_column("t", "v", value),
        lambda value: build(append_only=value),
    ]
    for attempt in attempts:
        for value in (2.5, 10**30, np.int64(5)):
            with pytest.raises(UsageError, match=r"is (a whole number|at most|text|True or False)"):
                attempt(value)
    for batch in (2.5, 10**30, np.int64(5)):
        transaction = Transaction("writer", 1, batch)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="cannot be stored; nothing was committed"):
            committed(store, (), based_tables=(1,), transactions=(transaction,))
    with Store.open(store.path) as reopened:
        assert reopened.epoch == store.epoch
        assert reopened.check().ok


def test_settings_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    """The store can then be created with others."""
    for options in ({"retention": 2.5}, {"vnode_count": 2.0}, {"shards": True}):
        with pytest.raises(UsageError, match=r"is a whole number|must be 1 to"):
            Store.create(str(tmp_path / "s"), **options)
    Store.create(str(tmp_path / "s")).close()
    assert Store.open(str(tmp_path / "s")).epoch == 1
