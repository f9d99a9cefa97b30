"""The laws of DEFAULT without Spark: every writer gives a missing column its default."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from relstate.storage import Store
from relstate.storage.errors import (
    CheckViolationError,
    SchemaError,
    SchemaMismatchError,
    UnsupportedExpressionError,
)


@pytest.mark.parametrize(
    ("data_type", "expression", "expected"),
    [
        ("BOOLEAN", "TRUE", True),
        ("TINYINT", "-128", -128),
        ("BIGINT", "-9223372036854775808", -(1 << 63)),
        ("FLOAT", "0.1", 0.10000000149011612),
        ("DOUBLE", "1e300", 1e300),
        ("DOUBLE", "CAST('-inf' AS DOUBLE)", float("-inf")),
        ("DECIMAL(38,2)", "999999999999999999999999999999999999.25",
         Decimal("999999999999999999999999999999999999.25")),
        ("STRING", "'grüße 🙂'", "grüße 🙂"),
        ("STRING COLLATE UTF8_LCASE", "'A'", "A"),
        ("BINARY", "X'00FF'", b"\0\xff"),
        ("DATE", "'2026-02-28'", date(2026, 2, 28)),
        ("TIMESTAMP", "'1969-12-31 23:59:59.999999'",
         datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
        ("TIMESTAMP_NTZ", "'2026-01-01 00:00:00'", datetime(2026, 1, 1)),
        ("TIME", "CAST('12:00:00' AS TIME)", time(12)),
        ("INT", "NULL", None),
    ],
)  # fmt: skip
def test_a_default_has_the_type_of_its_column(
    store: Store, data_type: str, expression: str, expected: Any
) -> None:
    """Also after the store was opened again."""
    defaults = {"c": expression}
    store.create_table("t", f"id INT, c {data_type}", primary_key=["id"], defaults=defaults)
    store.write("t", [{"id": 1}])
    with Store.open(store.path) as other:
        other.write("t", [{"id": 2}])
    assert store.table("t").to_dicts() == [{"id": 1, "c": expected}, {"id": 2, "c": expected}]


def test_rows_without_a_column_get_its_default(store: Store) -> None:
    """Of dicts each by itself; a NULL that is given stays; NOT NULL does not need the column."""
    columns = "id INT, c INT, d STRING NOT NULL"
    store.create_table("t", columns, primary_key=["id"], defaults={"c": "7", "d": "'x'"})
    store.write("t", [{"id": 1}, {"id": 2, "c": None}, {"id": 3, "c": 4, "d": "y"}])
    store.write("t", pa.table({"ID": [4]}))
    rows = [(row["c"], row["d"]) for row in store.table("t").to_dicts()]
    assert rows == [(7, "x"), (None, "x"), (4, "y"), (7, "x")]
    with pytest.raises(SchemaMismatchError, match="'id' is missing"):
        store.write("t", [{"c": 1}])


def test_tables_without_a_key_and_documents_have_defaults(store: Store) -> None:
    """A row of documents that is written whole has them; a patch changes what it names."""
    store.create_table("events", "a INT, b INT", defaults={"b": "7"})
    store.write("events", [{"a": 1}])
    assert store.table("events").to_dicts() == [{"a": 1, "b": 7}]
    columns = "id INT, a INT, b INT"
    store.create_table(
        "docs", columns, primary_key=["id"], encoding="document", defaults={"b": "7"}
    )
    store.write("docs", [{"id": 1, "a": 1}])
    store.patch("docs", [{"id": 2, "a": 2}])
    assert [row["b"] for row in store.table("docs").to_dicts()] == [7, None]


def test_a_constraint_sees_the_default(store: Store) -> None:
    """A default that makes a condition false is refused when a row gets it."""
    store.create_table(
        "t", "id INT, c INT", primary_key=["id"], constraints={"low": "c < 5"}, defaults={"c": "7"}
    )
    with pytest.raises(CheckViolationError):
        store.write("t", [{"id": 1}])
    store.write("t", [{"id": 1, "c": 1}])


def test_a_default_follows_its_column(store: Store) -> None:
    """When it is renamed or widened, also to DECIMAL and DOUBLE."""
    defaults = {"a": "7", "b": "8", "c": "9"}
    store.create_table("t", "id INT, a INT, b INT, c INT", primary_key=["id"], defaults=defaults)
    store.rename_column("t", "a", "z")
    store.widen_column("t", "b", "DECIMAL(12,2)")
    store.widen_column("t", "c", "DOUBLE")
    store.write("t", [{"id": 1}])
    assert store.table("t").to_dicts() == [{"id": 1, "z": 7, "b": Decimal("8.00"), "c": 9.0}]


@pytest.mark.parametrize(
    ("expression", "error", "match"),
    [
        ("foo", UnsupportedExpressionError, "the DEFAULT foo of the column 'c'.*'foo'.*a constant"),
        ("id.x", UnsupportedExpressionError, "has no field 'x'.*a constant"),
        ("1", SchemaError, r"write a time such as CAST\('12:00:00' AS TIME\)"),
    ],
)
def test_a_refusal_says_what_a_default_is(
    store: Store, expression: str, error: type[Exception], match: str
) -> None:
    """Of a name that is no column, too; the time that it shows is accepted."""
    store.create_table("t", "id INT, c TIME", primary_key=["id"])
    with pytest.raises(error, match=match):
        store.set_default("t", "c", expression)
    store.set_default("t", "c", "CAST('12:00:00' AS TIME)")


@pytest.mark.parametrize("expression", ["7 -- c", "/* c */ 7 /* d */", "-- c\n7"])
def test_a_default_has_no_comment_around_it(store: Store, expression: str) -> None:
    """Its text is part of a longer one in SHOW CREATE TABLE."""
    store.create_table("t", "id INT, c INT", primary_key=["id"], defaults={"c": expression})
    default = store.state.table("t").definition.schema.column("c").default
    assert default is not None
    assert default.expression == "7"
