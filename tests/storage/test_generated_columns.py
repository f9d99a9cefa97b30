"""The laws of generated columns: every row has the values of their expressions, whoever writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from relstate.storage import Kind, Proposal, Store
from relstate.storage.errors import (
    CheckViolationError,
    NullValueError,
    RelstateError,
    SchemaError,
    SchemaMismatchError,
    UnsupportedExpressionError,
)
from support.stores import contents

COLUMNS = "id INT, a INT, twice BIGINT NOT NULL, name STRING, size INT"
GENERATED = {"twice": "a * 2", "size": "length(name)"}


@pytest.fixture
def computing(store: Store) -> Store:
    """A store with a table of two generated columns, and one row."""
    store.create_table("t", COLUMNS, primary_key=["id"], generated=GENERATED)
    store.write("t", [{"id": 1, "a": 3, "name": "öff"}])
    return store


def test_a_column_that_is_left_out_is_computed(computing: Store) -> None:
    """Of dicts and of Arrow data; one that is given has to have its value, in any exact type."""
    computing.write("t", pa.table({"ID": [2], "A": pa.array([4], pa.int8()), "TWICE": [8]}))
    computing.write("t", [{"id": 3, "a": 5, "size": None}, {"id": 4, "a": 6, "name": ""}])

    assert contents(computing, "t") == [
        (1, 3, 6, "öff", 3),
        (2, 4, 8, None, None),
        (3, 5, 10, None, None),
        (4, 6, 12, "", 0),
    ]


@pytest.mark.parametrize(
    ("row", "error", "match"),
    [
        ({"a": 3, "twice": 7}, CheckViolationError,
         r"'twice', GENERATED ALWAYS AS \(a \* 2\), of the row with id = 9, a = 3 is 6, but 7 was"),
        ({"a": 3, "name": "x", "size": None}, CheckViolationError,
         "'size'.*name = 'x' is 1, but None was given"),
        ({"a": 2**31 - 1}, CheckViolationError, "cannot be computed: the expression overflows"),
        ({"a": None}, NullValueError, "the NOT NULL column 'twice' is NULL"),
        ({"a": 3, "twice": "x"}, SchemaMismatchError, "'twice'"),
    ],
)  # fmt: skip
def test_a_row_with_another_value_is_refused(
    computing: Store, row: dict[str, Any], error: type[RelstateError], match: str
) -> None:
    """Nothing of its write is there; the error has the column, its expression and the values."""
    epoch = computing.epoch
    rows = [{"id": 8, "a": 1}, {"id": 9} | row]
    if isinstance(row.get("twice"), str):
        rows = pa.Table.from_pylist([rows[1]])
    with pytest.raises(error, match=match):
        computing.write("t", rows)

    assert computing.epoch == epoch
    assert computing.check().orphans == 0


def test_deletes_compute_nothing(computing: Store) -> None:
    """Alone or among other rows, whatever the other columns of a deleted row are."""
    computing.delete("t", [{"id": 1}])
    target = computing.jobs.write_target("t")
    with target.open(computing.environment) as writer:
        rows = [{"id": 2, "a": 2**31 - 1}, {"id": 3, "a": 3}, {"id": 4, "a": None}]
        kinds = np.array([Kind.DELETE, Kind.PUT, Kind.DELETE], np.uint8)
        writer.write(pa.RecordBatch.from_pylist(rows), kinds)
        segments = writer.finish()
    computing.jobs.commit(
        Proposal(
            operation="write",
            started=computing.environment.now(),
            segments=segments,
            written_under=(target.definition,),
        )
    )

    assert contents(computing, "t") == [(3, 3, 6, None, None)]


def test_state_tables_compute_them_too(computing: Store) -> None:
    """A batch may leave them out; rows that are given whole are compared by the commit."""
    table = computing.state_table("t")
    table.write(pa.RecordBatch.from_pylist([{"id": 2, "a": 4}]))
    table.insert([3, 5, 10, "xy", 2])
    table.commit()
    table.insert([4, 5, 11, None, None])
    with pytest.raises(CheckViolationError, match="a = 5 is 10, but 11 was given"):
        table.commit()
    table.clear()
    with pytest.raises(CheckViolationError, match="a = 1 is 2, but 3 was given"):
        table.write(pa.RecordBatch.from_pylist([{"id": 5, "a": 1, "twice": 3}]))

    assert [row[:3] for row in contents(computing, "t")] == [(1, 3, 6), (2, 4, 8), (3, 5, 10)]


def test_a_commit_compares_what_others_wrote(computing: Store) -> None:
    """A writer that knows of no generated column is not trusted, if its rows are right or not."""
    target = computing.jobs.write_target("t")
    schema = target.definition.schema
    columns = tuple(replace(column, generated=None) for column in schema.columns)
    definition = replace(target.definition, schema=replace(schema, columns=columns))
    now = computing.environment.now()
    for twice in (9, 8):
        with replace(target, definition=definition).open(computing.environment) as writer:
            writer.write(pa.RecordBatch.from_pylist([{"id": 2, "a": 4, "twice": twice}]))
            segments = writer.finish()
        proposal = Proposal(operation="write", started=now, segments=segments)
        if twice == 9:
            with pytest.raises(CheckViolationError, match="a = 4 is 8, but 9 was given"):
                computing.jobs.commit(proposal)
            computing.jobs.discard(segments)
        else:
            computing.jobs.commit(proposal)

    assert [row[:3] for row in contents(computing, "t")] == [(1, 3, 6), (2, 4, 8)]


def test_indexes_constraints_and_defaults_see_the_value(store: Store) -> None:
    """A default is a source as a value that is given is."""
    store.create_table(
        "t",
        COLUMNS,
        primary_key=["id"],
        generated=GENERATED,
        defaults={"a": "7"},
        constraints={"small": "twice < 20"},
    )
    store.create_index("t", "by_twice", ["twice"])
    store.write("t", [{"id": 1}, {"id": 2, "a": 1}])
    with pytest.raises(CheckViolationError, match="'small'"):
        store.write("t", [{"id": 3, "a": 10}])

    assert [row["id"] for row in store.table("t").to_dicts(where="twice = 14")] == [1]


def test_tables_without_a_key_and_partial_ones_have_them(store: Store) -> None:
    """A partial row has its key, so a column is computed of that only."""
    store.create_table("log", "v INT, half DOUBLE", generated={"half": "v / 2"})
    store.write("log", [{"v": 1}, {"v": None}])
    assert store.table("log").to_dicts() == [{"v": 1, "half": 0.5}, {"v": None, "half": None}]

    columns = "id INT, a INT, bucket INT"
    arguments: dict[str, Any] = {"primary_key": ["id"], "merge": "partial"}
    store.create_table("p", columns, generated={"bucket": "id % 10"}, **arguments)
    store.write("p", [{"id": 42, "a": 1}])
    store.write("p", [{"id": 42}])
    assert contents(store, "p") == [(42, 1, 2)]
    with pytest.raises(SchemaError, match=r"\(merge partial\).*only columns of the primary key"):
        store.create_table("q", columns, generated={"bucket": "a % 10"}, **arguments)


def test_values_are_those_of_the_expression(store: Store) -> None:
    """Times are in UTC; NaN is the same as NaN; a column may be wider than its expression."""
    store.create_table(
        "t",
        "id INT, at TIMESTAMP, day DATE, x DOUBLE, y DOUBLE, price DECIMAL(8,2), sum DECIMAL(12,2)",
        primary_key=["id"],
        generated={
            "day": "CAST(at AS DATE)",
            "y": "x - x",
            "sum": "CASE WHEN id > 0 THEN price END",
        },
    )
    at = datetime(2026, 3, 1, 23, 30, tzinfo=UTC)
    row = {"id": 1, "at": at, "x": float("inf"), "price": Decimal("1.50")}
    store.write("t", [row])
    (written,) = store.table("t").to_dicts()
    store.write("t", [written])

    assert written["day"] == date(2026, 3, 1)
    assert np.isnan(written["y"])
    assert written["sum"] == Decimal("1.50")


def test_generated_columns_outlive_the_process(computing: Store) -> None:
    """They are in the log and in checkpoints; a table that is like another one has them too."""
    for number in range(40):
        computing.write("t", [{"id": number, "a": number}])
    computing.create_table_like("copy", "t")

    with Store.open(computing.path) as again:
        for name in ("t", "copy"):
            again.write(name, [{"id": 1, "a": 21}])
            assert again.table(name).get(1).twice == 42  # type: ignore[union-attr]
            with pytest.raises(CheckViolationError):
                again.write(name, [{"id": 1, "a": 1, "twice": 3}])


def test_what_a_column_is_computed_of_stays(computing: Store) -> None:
    """Until the generated column is dropped; its own name may change, its type not."""
    alterations: list[Callable[[], object]] = [
        lambda: computing.rename_column("t", "a", "b"),
        lambda: computing.drop_columns("t", "a"),
        lambda: computing.widen_column("t", "a", "BIGINT"),
    ]
    for alter in alterations:
        with pytest.raises(SchemaError, match=r"'twice', GENERATED ALWAYS AS \(a \* 2\), reads it"):
            alter()
    with pytest.raises(SchemaError, match="cannot have another type"):
        computing.widen_column("t", "size", "BIGINT")
    with pytest.raises(SchemaError, match="cannot have a DEFAULT"):
        computing.set_default("t", "twice", "3")
    with pytest.raises(SchemaError, match="has generated columns, which document tables"):
        computing.set_encoding("t", "document")
    computing.rename_column("t", "twice", "double")
    computing.write("t", [{"id": 2, "a": 4}])
    computing.drop_columns("t", "double")
    computing.rename_column("t", "a", "b")
    computing.write("t", [{"id": 3, "b": 5}])

    assert [row[:2] for row in contents(computing, "t")] == [(1, 3), (2, 4), (3, 5)]


@pytest.mark.parametrize(
    ("generated", "error", "match"),
    [
        (
            {"size": "upper(name)"},
            UnsupportedExpressionError,
            "'UPPER.*of other texts than const.*arithmetic",
        ),
        ({"size": "rand()"}, UnsupportedExpressionError, "'RAND.*not supported here"),
        ({"size": "current_date()"}, UnsupportedExpressionError, "not supported here"),
        ({"size": "missing + 1"}, SchemaMismatchError, "'size'.*'missing'"),
        ({"size": "size + 1"}, SchemaError, "it reads 'size', which is generated"),
        ({"twice": "a * 2", "size": "CAST(twice AS INT)"}, SchemaError, "reads 'twice'"),
        ({"size": "CAST(twice AS INT)", "twice": "a * 2"}, SchemaError, "reads 'twice'"),
        ({"size": "name"}, SchemaError, r"is STRING, and the column INT: write CAST\(… AS INT\)"),
        ({"size": "a + 1L"}, SchemaError, "is BIGINT, and the column INT"),
        ({"id": "a + 1"}, SchemaError, "'id'.*is part of the primary key"),
        ({"version": "a"}, SchemaError, "is a version column"),
        ({"a": "version"}, SchemaError, "has also a DEFAULT, which would never be used"),
        ({"missing": "a"}, SchemaError, "there is no column 'missing'"),
    ],
)
def test_a_column_that_cannot_be_generated_is_refused(
    store: Store, generated: dict[str, str], error: type[RelstateError], match: str
) -> None:
    """By what it is, or by what it would be computed of; there is no table then."""
    with pytest.raises(error, match=match):
        store.create_table(
            "t",
            f"{COLUMNS}, version INT",
            primary_key=["id"],
            version_column="version",
            defaults={"a": "1"} if "a" in generated else None,
            generated=generated,
        )
    assert not store.state.table_names()


def test_documents_and_rows_with_ids_have_limits(store: Store) -> None:
    """Parts of documents are written alone; the hidden row id is no value of a row."""
    with pytest.raises(SchemaError, match=r"has documents.*encoding = 'row'"):
        store.create_table(
            "d", COLUMNS, primary_key=["id"], encoding="document", generated=GENERATED
        )
    with pytest.raises(SchemaError, match="'_row_id', which is hidden"):
        store.create_table("l", "v INT, b BOOLEAN", generated={"b": "_row_id IS NOT NULL"})


def test_the_catalog_keeps_the_expression(computing: Store) -> None:
    """As it was written, as JSON, and the columns it reads: see docs/format.md."""
    (twice, size) = computing.state.table("t").definition.schema.generated_columns
    assert size.to_json()["generated"] == {
        "expression": "length(name)",
        "value": '{"kind":"length","unit":"characters","of":["name"]}',
        "columns": [4],
    }
    value = json.loads(twice.to_json()["generated"]["value"])
    assert value["kind"] == "number_cast"
