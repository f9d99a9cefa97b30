"""Tables with nullable keys, in one vnode, or with hidden columns: the internal ones of views."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relstate.storage import (
    Kind,
    NewTable,
    Proposal,
    Store,
    TableDefinition,
    TableSchema,
    encoding_of,
    types,
)
from relstate.storage.errors import (
    NullKeyError,
    SchemaError,
    SchemaMismatchError,
)
from relstate.storage.schema.schema import KeyColumn, KeyRange
from relstate.storage.table.rowencoding import RowEncoding
from relstate.vnode import vnodes_of
from support.stores import StoreMaker, contents

_FIELDS = [
    types.Field("a", types.Int()),
    types.Field("b", types.String()),
    types.Field("v", types.BigInt()),
    types.Field("h", types.BigInt()),
]
_ORDERS = [
    (("a desc", "b"), None),
    (("b nulls last", "a"), ("a",)),
    (("a nulls last", "b desc nulls first"), ()),
    (("a", "b"), ("b",)),
]
_ROWS = [
    {"a": a, "b": b, "v": number, "h": -number}
    for number, (a, b) in enumerate(itertools.product((None, -1, 0, 7), (None, "", "x", "\0")))
]


def schema_of(number: int, hidden: tuple[str, ...] = ()) -> TableSchema:
    """Return one of the schemas with a key that may be NULL."""
    key, distribution = _ORDERS[number]
    return TableSchema.build(_FIELDS, key, distribution, nullable_key=True, hidden=hidden)


def filled(make_store: StoreMaker, schema: TableSchema) -> Store:
    """Return a store whose table t has the rows, some of them written twice, some deleted."""
    store = make_store(vnode_count=5, shards=2)
    started = store.environment.now()
    store.jobs.commit(
        Proposal(operation="x", started=started, created_tables=(NewTable("t", schema),))
    )
    batch = pa.RecordBatch.from_pylist(_ROWS, schema.arrow_schema)
    older = batch.set_column(2, schema.arrow_schema.field(2), pa.nulls(len(_ROWS), pa.int64()))
    store.write("t", older)
    store.write("t", batch)
    gone = pa.RecordBatch.from_pylist([{"a": None, "b": "gone"}], schema=batch.schema)
    store.write("t", gone)
    store.delete("t", gone)
    return store


def ordering(key: KeyColumn, name: str) -> Callable[[dict[str, Any]], Any]:
    """Return what sorts rows by the column of a name as a key says."""

    def compared(left: Any, right: Any) -> int:
        if left is None or right is None:
            first = (right is None) - (left is None)
            return first if key.nulls_first else -first
        order = bool(left > right) - bool(left < right)
        return -order if key.descending else order

    rank = functools.cmp_to_key(compared)
    return lambda row: rank(row[name])


def in_key_order(schema: TableSchema) -> list[dict[str, Any]]:
    """Return the rows sorted as their key says."""
    rows = list(_ROWS)
    for key, column in reversed(list(zip(schema.primary_key, schema.key_columns, strict=True))):
        rows.sort(key=ordering(key, column.name))
    return rows


@pytest.mark.parametrize("number", range(len(_ORDERS)))
def test_keys_that_are_null_are_rows_like_others(make_store: StoreMaker, number: int) -> None:
    """They are read by scan, in order, by prefix and range, singly and many at once."""
    schema = schema_of(number)
    store = filled(make_store, schema)
    table, expected = store.table("t"), in_key_order(schema)
    names = [column.name for column in schema.key_columns]

    assert table.to_arrow().to_pylist() == expected
    assert table.count() == len(expected)
    keys = [tuple(row[name] for name in names) for row in expected]
    assert [table.get(*key) for key in keys] == [tuple(row.values()) for row in expected]
    assert table.get_rows(keys).to_pylist() == expected
    batch = pa.RecordBatch.from_pylist(expected, schema.arrow_schema).select(names)
    assert table.get_rows(batch).to_pylist() == expected
    reader = store.read_plan("t").open()
    for prefix in (None, expected[-1][names[0]]):
        batches = reader.scan_in_order(keys=KeyRange(prefix=(prefix,)))
        rows = [row for batch in batches for row in batch.to_pylist()]
        assert rows == [row for row in expected if row[names[0]] == prefix]
    batches = reader.scan_in_order(keys=KeyRange(start=keys[5], stop=keys[9]), descending=True)
    assert [row for batch in batches for row in batch.to_pylist()] == expected[5:9][::-1]
    store.compact()
    assert store.table("t").to_arrow().to_pylist() == expected


@pytest.mark.parametrize("number", range(len(_ORDERS)))
@pytest.mark.parametrize(
    ("where", "is_true"),
    [
        ("a IS NULL", lambda row: row["a"] is None),
        ("a IS NOT NULL AND b IS NULL", lambda row: row["a"] is not None and row["b"] is None),
        ("a = 7", lambda row: row["a"] == 7),
        ("a = 7 OR a IS NULL", lambda row: row["a"] in (7, None)),
        ("a <=> NULL AND b = 'x'", lambda row: row["a"] is None and row["b"] == "x"),
        ("NOT (a <=> 7)", lambda row: row["a"] != 7),
        ("a <= 0", lambda row: row["a"] is not None and row["a"] <= 0),
        (
            "a IN (0, 7) AND b IN ('', 'x')",
            lambda row: row["a"] in (0, 7) and row["b"] in ("", "x"),
        ),
    ],
)
def test_conditions_find_keys_that_are_null(
    make_store: StoreMaker, number: int, where: str, is_true: Any
) -> None:
    """A row that is not read because of its key is none for which the condition is true."""
    schema = schema_of(number)
    store = filled(make_store, schema)
    expected = [row for row in in_key_order(schema) if is_true(row)]
    batches = store.table("t").scan(where=where, ordered=True)
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert rows == expected
    plan = store.read_plan("t").filtered(where)
    parts = [row for unit in plan.partitions(3) for p in plan.read(unit) for row in p.to_pylist()]
    assert sorted(parts, key=str) == sorted(expected, key=str)


@given(
    st.lists(
        st.tuples(st.none() | st.integers(-3, 3), st.none() | st.text("ab\0", max_size=2)),
        min_size=1,
        max_size=20,
    ),
    st.integers(0, len(_ORDERS) - 1),
)
def test_one_row_is_encoded_as_many_are(keys: list[tuple[Any, Any]], number: int) -> None:
    """Key by key and in a batch the bytes are the same, hold the vnode Spark gives, and decode."""
    schema = schema_of(number)
    encoding = encoding_of(TableDefinition(3, "t", schema, 1), 5)
    rows = [{"a": a, "b": b, "v": None, "h": 1} for a, b in keys]
    batch = pa.RecordBatch.from_pylist(rows, schema.arrow_schema)
    full_keys, values = encoding.encode(batch)
    names = [column.name for column in schema.key_columns]

    for row, key, value in zip(rows, full_keys.to_pylist(), values.to_pylist(), strict=True):
        key_values = tuple(row[name] for name in names)
        assert encoding.encode_key(key_values) == key
        assert encoding.encode_row(tuple(row.values())) == value
        assert encoding.decode_row(key_values, value) == tuple(row.values())
    hashed = [batch.column(column.name) for column in schema.distribution_columns]
    expected = vnodes_of(hashed, 5) if hashed else np.zeros(len(rows), np.uint16)
    assert [encoding.prefix.vnode_of(key) for key in full_keys.to_pylist()] == expected.tolist()


def test_a_key_is_given_whole() -> None:
    """A missing key column is not taken for NULL."""
    schema = schema_of(0)
    encoding = RowEncoding(TableDefinition(3, "t", schema, 1), 5)
    batch = pa.RecordBatch.from_pydict({"a": pa.array([1], pa.int32())})
    for conform in (encoding.conform_keys, schema.conform, encoding.encode_deletes):
        with pytest.raises(SchemaMismatchError, match="primary key column 'b' is missing; found a"):
            conform(batch)
    with pytest.raises(SchemaMismatchError, match="primary key column 'b' is missing"):
        schema.check_schema(batch.schema)


def test_users_keys_hold_no_null(make_store: StoreMaker) -> None:
    """Key columns of a table that a user creates are NOT NULL; it has a distribution key."""
    store = make_store()
    table = store.create_table("t", "a INT, b INT", primary_key=["a"])
    assert not table.schema.column("a").nullable
    with pytest.raises(NullKeyError):
        table.get(None)
    with pytest.raises(SchemaError, match="the distribution key is empty"):
        store.create_table("u", "a INT", primary_key=["a"], distribution_key=[])


# Everything in one vnode


def test_a_table_without_distribution_is_in_vnode_0(make_store: StoreMaker) -> None:
    """All its rows are there, and no read looks elsewhere."""
    schema = schema_of(2)
    store = filled(make_store, schema)
    plan = store.read_plan("t")
    encoding = encoding_of(plan.definition, 5)

    assert encoding.vnode_of_range(KeyRange()) == 0
    assert encoding.vnode_of_range(KeyRange(start=(1,))) == 0
    assert encoding.vnodes(pa.RecordBatch.from_pylist(_ROWS, schema.arrow_schema)).tolist() == (
        [0] * len(_ROWS)
    )
    assert sum(part.num_rows for part in plan.read((range(1),))) == len(_ROWS)
    assert not list(plan.read((range(1, 5),)))
    assert plan.filtered("a < 5").pruning().vnodes == 1
    assert plan.filtered("a < 5").partitions(5) == ((range(1),),)
    assert plan.filtered("a = 7 AND b = 'x'").pruning().points == 1


# Hidden columns


def test_hidden_columns_are_read_by_name_only(make_store: StoreMaker) -> None:
    """A read that does not name them does not have them, whichever way a table is read."""
    schema = schema_of(0, hidden=("b", "H"))
    store = filled(make_store, schema)
    table, plan = store.table("t"), store.read_plan("t")
    expected = [{"a": row["a"], "v": row["v"]} for row in in_key_order(schema)]

    assert [column.name for column in schema.visible_columns] == ["a", "v"]
    assert table.to_arrow().to_pylist() == expected
    assert table.get(7, "x") == (7, 14)
    assert table.get(7, "x").as_dict() == {"a": 7, "v": 14}  # type: ignore[union-attr]
    assert table.get_rows([(7, "x")]).schema.names == ["a", "v"]
    assert plan.arrow_schema().names == ["a", "v"]
    assert plan.pruning().columns == ("a", "v")
    assert store.read_plan("t", columns=[]).pruning().columns == ()
    assert next(plan.read((range(5),))).schema == plan.arrow_schema()
    named = store.read_plan("t", columns=["h", "a"])
    assert next(named.read((range(5),))).schema == named.arrow_schema()
    assert next(table.scan(["h", "b"], where="h = -14")).to_pylist() == [{"h": -14, "b": "x"}]
    assert next(table.scan(where="h = -14")).to_pylist() == [{"a": 7, "v": 14}]
    assert [row["h"] for row in table.to_arrow(["h"]).to_pylist()] == [
        row["h"] for row in in_key_order(schema)
    ]


def test_hidden_columns_are_in_feeds_by_name_only(make_store: StoreMaker) -> None:
    """As in reads: in feeds of snapshots and of changes."""
    store = filled(make_store, schema_of(0, hidden=("b", "h")))

    feed = store.jobs.feed_plan("t", 3, columns=None).arrow_schema().names
    assert feed == ["a", "v", "_change_type", "_commit_version", "_commit_timestamp"]
    snapshot = store.jobs.feed_snapshot("t", store.epoch)
    assert snapshot.arrow_schema().names == feed
    assert next(snapshot.read()).schema.names == feed
    rows = [
        row
        for part in store.changes("t", 4, 4, columns=["h", "_change_type"])
        for row in part.to_pylist()
    ]
    assert {row["h"] for row in rows} == {row["h"] for row in _ROWS}


def test_one_visible_column_is_enough(make_store: StoreMaker) -> None:
    """At any position; a table without one is refused."""
    schema = schema_of(0, hidden=("a", "b", "h"))
    store = filled(make_store, schema)

    assert store.table("t").get(7, "x") == (14,)
    assert sorted(contents(store, "t")) == [(row["v"],) for row in _ROWS]
    with pytest.raises(SchemaError, match="all columns are hidden"):
        schema_of(0, hidden=("a", "b", "v", "h"))
    with pytest.raises(SchemaError, match="no column 'x'"):
        schema_of(0, hidden=("x",))


def test_such_schemas_survive_the_log() -> None:
    """The log stores which columns may be NULL, which are hidden, and that nothing is hashed."""
    for number in range(len(_ORDERS)):
        schema = schema_of(number, hidden=("h", "a"))
        assert TableSchema.from_json(schema.to_json()) == schema
    assert schema_of(2).to_json()["distribution_key"] == []


def test_a_delete_needs_the_key_only(make_store: StoreMaker) -> None:
    """A NULL in it identifies the row as any value does."""
    store = filled(make_store, schema_of(1))
    key = pa.table({"b": pa.nulls(1, pa.string()), "a": pa.array([None], pa.int32())})
    store.delete("t", key)
    writer = store.jobs.write_target("t").open(store.environment)
    writer.write(
        pa.RecordBatch.from_pylist([{"a": 7, "b": None}], pa.schema({"a": "int32", "b": "string"})),
        np.array([Kind.DELETE], np.uint8),
    )
    store.jobs.commit(
        Proposal(operation="x", started=store.environment.now(), segments=writer.finish())
    )

    gone = [(None, None), (7, None)]
    assert len(contents(store, "t")) == len(_ROWS) - 2
    assert [store.table("t").get(b, a) for a, b in gone] == [None, None]


def test_zeros_of_either_sign_are_one_key(store: Store) -> None:
    """The value in a key is 0.0, also in a struct; another column keeps the sign."""
    store.create_table("t", "k DOUBLE, s STRUCT<f: FLOAT>, v DOUBLE", primary_key=["k", "s"])
    for zero in (0.0, -0.0):
        store.write("t", [{"k": zero, "s": {"f": -zero}, "v": -0.0}])

    (row,) = store.table("t").to_dicts()
    assert str(row) == "{'k': 0.0, 's': {'f': 0.0}, 'v': -0.0}"
    for zero in (0.0, -0.0):
        assert store.table("t").get(zero, {"f": zero}) is not None
    store.delete("t", [{"k": -0.0, "s": {"f": 0.0}}])
    assert store.table("t").to_dicts() == []
