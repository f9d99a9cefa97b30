"""The laws of expressions read from SQL."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from relstate.storage import TableSchema
from relstate.storage.errors import SchemaMismatchError, UnsupportedExpressionError
from relstate.storage.expression.binding import parse_value
from relstate.storage.expression.expression_json import value_from_json, value_to_json
from relstate.storage.expression.value import Failure
from relstate.storage.predicate.predicate import Predicate
from relstate.storage.schema.ddl import parse_columns

SCHEMA = TableSchema.build(
    parse_columns(
        "id BIGINT, i INT, b TINYINT, l BIGINT, d DOUBLE, n DECIMAL(12,2), s STRING, dt DATE, "
        "ts TIMESTAMP, z TIMESTAMP_NTZ, bo BOOLEAN"
    ),
    ["id"],
)
EARLY = datetime.datetime(1969, 12, 31, 23, 59, 59, 500_000)
ROW: dict[str, Any] = {
    "id": 1, "i": -7, "b": -128, "l": 2**40, "d": -0.5, "n": Decimal("12.30"), "s": " é😀x",
    "dt": datetime.date(2024, 2, 29), "ts": EARLY.replace(tzinfo=datetime.UTC), "z": EARLY,
    "bo": True,
}  # fmt: skip


def rows(**values: Any) -> pa.RecordBatch:
    """Return a batch of one row."""
    return pa.RecordBatch.from_pylist([ROW | values], schema=SCHEMA.arrow_schema)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i div 2", -3),
        ("+i % +3", -1),
        ("i > +b", True),
        ("pmod(i, 3)", 2),
        ("pmod(i, -3)", -1),
        ("i / 2", -3.5),
        ("n / 2D", 6.15),
        ("abs(i) - l", 7 - 2**40),
        ("length(s)", 4),
        ("octet_length(s)", 8),
        ("trim(s) || '.'", "é😀x."),
        ("substring(s, -2)", "😀x"),
        ("substring(s, -9, 7)", " é"),
        ("substring(s, -2, 5)", "😀x"),
        ("coalesce(nullif(i, -7), b, l)", -128),
        ("greatest(i, d, NULLIF(l, l))", -0.5),
        ("year(ts) * 100 + month(ts)", 196912),
        ("second(z)", 59),
        ("unix_seconds(ts)", -1),
        ("unix_millis(ts)", -500),
        ("dayofweek(dt) * 10 + weekday(dt)", 53),
        ("date_add(dt, 1)", datetime.date(2024, 3, 1)),
        ("datediff(dt, DATE '2024-01-01')", 59),
        ("trunc(dt, 'quarter')", datetime.date(2024, 1, 1)),
        ("date_trunc('hour', ts)", datetime.datetime(1969, 12, 31, 23, tzinfo=datetime.UTC)),
        ("CAST(date_sub(dt, 747000) AS STRING)", "-0022-12-12"),
        ("CAST(date_add(dt, 3000000) AS STRING)", "+10237-11-19"),
        ("CAST(i AS DECIMAL(5,2))", Decimal("-7.00")),
        ("CAST(CAST(i AS DECIMAL(38,0)) AS DECIMAL(20,0))", Decimal(-7)),
        ("CAST(bo AS INT)", 1),
        ("CASE WHEN i > 0 THEN i / 0 WHEN bo THEN 2.5 END", 2.5),
        ("length(s) IN (1, 4) AND NOT i % 2 = 0", True),
        ("(i % 2) IS NULL OR length(s) BETWEEN 5 AND 9", False),
        ("bo AND nullif(i, -7) > 0", None),
        ("CAST(l AS DECIMAL(19,0))", Decimal(2**40)),
        ("n + 1 = 9223372036854775807", False),
        ("n * CAST(NULL AS INT)", None),
        # Spark compares them as DOUBLE, in which the two are one number.
        ("coalesce(9007199254740992, l) IN (9007199254740993, 1D)", True),
    ],
)
def test_values_are_those_of_spark(text: str, expected: Any) -> None:
    """Of negative numbers and times, characters of several bytes, and NULL; also after JSON."""
    value = parse_value(text, SCHEMA)
    assert value_from_json(value_to_json(value), SCHEMA) == value
    assert value.of(rows()).to_pylist() == [expected]
    assert not value.failures(rows()).any()


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("i / (i - i)", Failure.DIVISION_BY_ZERO),
        ("i div (i - i)", Failure.DIVISION_BY_ZERO),
        ("d % 0", Failure.REMAINDER_BY_ZERO),
        ("-b", Failure.OVERFLOW),
        ("abs(b)", Failure.OVERFLOW),
        ("CAST(l AS INT)", Failure.CAST_OVERFLOW),
        ("CAST(n AS DECIMAL(3,2))", Failure.DECIMAL_RANGE),
        ("bo AND l * l > 0", Failure.OVERFLOW),
        ("coalesce(l * l, 1)", Failure.OVERFLOW),
        ("trunc(date_sub(date_sub(dt, 2147483647), 19783), 'quarter')", Failure.OVERFLOW),
    ],
)
def test_what_spark_raises_is_a_failure(text: str, failure: Failure) -> None:
    """Of its class; the value is NULL."""
    value = parse_value(text, SCHEMA)

    assert value.may_fail
    assert value.failures(rows()).tolist() == [failure]


@pytest.mark.parametrize(
    "text",
    [
        "NOT bo AND l * l > 0", "bo OR l * l > 0", "coalesce(i, i div 0)", "if(bo, i, -b)",
        "nullif(i, i) / 0", "nullif(i, i) + l * l",
    ],
)  # fmt: skip
def test_what_spark_does_not_compute_does_not_fail(text: str) -> None:
    """Right of what decides, in other branches, and beside NULL."""
    assert not parse_value(text, SCHEMA).failures(rows()).any()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("upper(s)", r"'UPPER\(s\)' is not computed here: the case of other texts than constants"),
        ("lower('Ä')", "the case of letters beyond ASCII is not supported"),
        ("n / 3", "may be rounded"),
        ("-CAST(n AS DECIMAL(38,2))", "rounded by Spark"),
        ("CAST(s AS INT)", "a cast of STRING to INT is not supported"),
        ("TRY_CAST(l AS INT)", "TRY_CAST"),
        ("date_trunc('hour', z)", "the hour of TIMESTAMP_NTZ"),
        ("date_trunc('era', ts)", "'era' is not supported"),
        ("hour(dt)", "hour of DATE"),
        ("substring(s, i)", "not a whole number"),
        ("sum(i)", "an aggregate function"),
        ("i = 'x' OR length(s) = 'x'", "INT"),
    ],
)
def test_what_is_not_exact_is_refused(text: str, reason: str) -> None:
    """With the part that is not, and why."""
    with pytest.raises(UnsupportedExpressionError, match=reason):
        parse_value(text, SCHEMA)


def test_local_times_of_a_region_are_refused() -> None:
    """Zone databases differ; those at an offset are exact, and so is what needs no zone."""
    assert parse_value("hour(ts)", SCHEMA, "+02:00").of(rows()).to_pylist() == [1]
    assert parse_value("hour(z)", SCHEMA, "Europe/Rome").of(rows()).to_pylist() == [23]
    for text in ("hour(ts)", "CAST(ts AS DATE)", "date_trunc('day', ts)", "CAST(dt AS TIMESTAMP)"):
        with pytest.raises(UnsupportedExpressionError, match="zone databases"):
            parse_value(text, SCHEMA, "Europe/Rome")


def test_an_unknown_column_is_named() -> None:
    """With those that there are."""
    with pytest.raises(SchemaMismatchError, match="there is no column 'q'; the columns are id, i"):
        parse_value("length(q)", SCHEMA)


def test_conditions_may_be_computed() -> None:
    """A condition of a read, also after JSON; unknown is not true, nor is its negation."""
    batch = pa.RecordBatch.from_pylist(
        [ROW, ROW | {"i": 3}, ROW | {"i": None}], schema=SCHEMA.arrow_schema
    )
    for text, expected in (
        ("i % 2 = 1", [False, True, False]),
        ("NOT i % 2 = 1", [True, False, False]),
        ("(i % 2 = 1) IS NOT TRUE", [True, False, True]),
        ("id = 1 AND length(s) = 4", [True, True, True]),
    ):
        predicate = Predicate.parse(text, SCHEMA)
        again = Predicate.from_json(predicate.json, SCHEMA)
        assert again == predicate
        assert again.mask(batch).to_pylist() == expected


def test_the_first_times_have_no_second_before_them() -> None:
    """Spark raises an error for the starts that are before the first TIMESTAMP."""
    batch = pa.record_batch({"ts": pa.array([-(2**63), 0]).cast(pa.timestamp("us", "UTC"))})
    for unit in ("millisecond", "second", "hour", "week"):
        value = parse_value(f"date_trunc('{unit}', ts)", SCHEMA)

        assert value.may_fail
        assert value.failures(batch).tolist() == [Failure.OVERFLOW, 0]
