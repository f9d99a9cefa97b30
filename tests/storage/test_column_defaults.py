"""The laws of DEFAULT without Spark: every writer gives a missing column its default."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from relstate.storage import Proposal, SegmentRecord, Store
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
        ("STRING", "upper('x') || lcase('Y')", "Xy"),
        ("BIGINT", "(1 + 2) * 3", 9),
        ("DECIMAL(12,2)", "2 * 1.25", Decimal("2.50")),
        ("INT", "CASE WHEN 1 > 2 THEN 3 ELSE pmod(-7, 4) END", 1),
        ("DATE", "date_add(DATE'2026-02-28', 1)", date(2026, 3, 1)),
        ("TIMESTAMP", "CAST(DATE'2026-02-28' AS TIMESTAMP)", datetime(2026, 2, 28, tzinfo=UTC)),
        ("BOOLEAN", "length('é') = 1", True),
        ("INT", "CAST(NULL AS INT)", None),
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
        ("id + 1", UnsupportedExpressionError, "it reads a column; a DEFAULT is a constant"),
        (
            "rand()",
            UnsupportedExpressionError,
            "'RAND.*not supported here.*an expression of constants",
        ),
        ("current_user()", UnsupportedExpressionError, "'CURRENT_USER.*not supported here"),
        ("upper('ä')", UnsupportedExpressionError, "the case of letters beyond ASCII"),
        ("current_timestamp(3)", UnsupportedExpressionError, "one of the functions current_time"),
        ("CAST(now() AS DATE)", UnsupportedExpressionError, "current_date.* alone"),
        ("1 / 0", SchemaError, "it divides by zero"),
        ("now()", SchemaError, "the column is TIME.*, and the present time is a DATE, a TIMESTAMP"),
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


CLOCKS = {
    "at": "current_timestamp()",
    "day": "current_date",
    "local": "( now() )",
    "start": "curdate()",
}
CLOCK_COLUMNS = "id INT, at TIMESTAMP NOT NULL, day DATE, local TIMESTAMP_NTZ, start TIMESTAMP"


@pytest.fixture
def timed(store: Store) -> Store:
    """A store with a table whose columns have the time of their write."""
    store.create_table("t", CLOCK_COLUMNS, primary_key=["id"], defaults=CLOCKS)
    return store


def test_a_default_may_be_the_time_of_the_write(timed: Store) -> None:
    """That of the machine's clock, in UTC; what is given stays."""
    before = timed.environment.now()
    given = datetime(2000, 1, 1, tzinfo=UTC)
    with Store.open(timed.path) as again:
        again.write("t", [{"id": 1}, {"id": 2, "at": given, "day": None}])
    first, second = timed.table("t").to_dicts()

    at = first["at"]
    assert before <= int(at.timestamp() * 1_000_000) <= timed.environment.now()
    assert (first["day"], first["local"]) == (at.date(), at.replace(tzinfo=None))
    assert first["start"] == at.replace(hour=0, minute=0, second=0, microsecond=0)
    assert (second["at"], second["day"], second["local"]) == (given, None, first["local"])


def test_a_write_has_one_time(timed: Store) -> None:
    """All its tasks have the time at which it was planned, however often they run."""
    target = timed.jobs.write_target("t")
    segments: list[SegmentRecord] = []
    for number in range(3):
        with pickle.loads(pickle.dumps(target)).open(timed.environment) as writer:
            writer.write(pa.RecordBatch.from_pylist([{"id": number}]))
            writer.write(pa.RecordBatch.from_pylist([{"id": number + 10}]))
            segments += writer.finish()
    proposal = Proposal(
        operation="write", started=timed.environment.now(), segments=tuple(segments)
    )
    timed.jobs.commit(proposal)
    times = {row["at"] for row in timed.table("t").to_dicts()}
    assert [int(at.timestamp() * 1_000_000) for at in times] == [target.planned]

    timed.write("t", [{"id": 1}])
    assert timed.table("t").get(1).at > times.pop()  # type: ignore[union-attr]


def test_the_time_of_a_write_is_a_value_like_others(store: Store) -> None:
    """For generated columns, constraints, state tables, documents and tables without a key."""
    columns = "id INT, at TIMESTAMP, year INT"
    arguments: dict[str, Any] = {
        "defaults": {"at": "now()"},
        "generated": {"year": "year(at)"},
        "constraints": {"young": "at >= TIMESTAMP'2020-01-01 00:00:00'"},
    }
    store.create_table("t", columns, primary_key=["id"], **arguments)
    store.create_table("log", columns, **arguments)
    store.create_table(
        "d", "id INT, at DATE", primary_key=["id"], encoding="document", defaults={"at": "now()"}
    )
    state = store.state_table("t")
    state.write(pa.RecordBatch.from_pylist([{"id": 1}]))
    state.commit()
    for name in ("t", "log", "d"):
        store.write(name, [{"id": 2}])
        assert all(row["at"] is not None for row in store.table(name).to_dicts())
    rows = store.table("t").to_dicts() + store.table("log").to_dicts()
    assert [row["year"] for row in rows] == [row["at"].year for row in rows]
    assert len(rows) == 3
    with pytest.raises(CheckViolationError, match="'young'"):
        store.write("t", [{"id": 3, "at": datetime(2000, 1, 1, tzinfo=UTC)}])


def test_the_catalog_keeps_the_function(timed: Store) -> None:
    """As it was written; other processes, and tables that are like this one, have it."""
    timed.create_table_like("copy", "t")
    with Store.open(timed.path) as again:
        for name in ("t", "copy"):
            columns = again.state.table(name).definition.schema.columns
            kept = [None if c.default is None else c.default.to_json() for c in columns]
            assert kept == [
                None,
                {"expression": "current_timestamp()", "clock": "timestamp"},
                {"expression": "current_date", "clock": "date"},
                {"expression": "( now() )", "clock": "timestamp"},
                {"expression": "curdate()", "clock": "date"},
            ]
    timed.set_default("t", "local", None)
    timed.write("t", [{"id": 1}])
    assert timed.table("t").get(1).local is None  # type: ignore[union-attr]
