"""What is not evaluated exactly is refused, and the error says which part and why.

`tests/connector/where` holds that what is taken means what it means in Spark.
"""

from __future__ import annotations

import pytest

from relstate.storage import TableSchema
from relstate.storage.errors import (
    OptionError,
    SchemaMismatchError,
    UnsupportedExpressionError,
    UsageError,
)
from relstate.storage.predicate.predicate import Predicate
from relstate.storage.schema.ddl import parse_columns

SCHEMA = TableSchema.build(
    parse_columns(
        "i INT, s STRING, c STRING COLLATE UTF8_LCASE, d DOUBLE, n DECIMAL(6,2), ts TIMESTAMP, "
        "f FLOAT, st STRUCT<x: INT, y: INT, Y: INT>, arr ARRAY<INT>, `odd name` INT, "
        "iv INTERVAL DAY"
    ),
    ["i"],
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("i IN (SELECT 1)", r"'i IN \(SELECT 1\)' is a subquery"),
        ("EXISTS (SELECT 1)", "a subquery"),
        ("i = (SELECT max(i) FROM t)", "a subquery"),
        ("count(*) > 1", r"'COUNT\(\*\)' is an aggregate function"),
        ("sum(i) OVER () > 1", "a window function"),
        ("rand() < 0.5", "not deterministic"),
        ("ts < current_timestamp()", "not deterministic"),
        ("ts < now()", "not deterministic"),
        ("monotonically_increasing_id() = 1", "not deterministic"),
        ("i = :x", "a parameter"),
        ("i = ?", "a parameter"),
        ("nothing(i) = 1", "a function that is not supported here"),
        ("isnan(i, i)", "a function that is not supported here"),
        ("startswith(s)", "a function that is not supported here"),
        ("upper(s) = 'A'", "the case of other texts than constants is not supported"),
        ("nothing(i)", "a function that is not supported here"),
        ("i + 1 = 2", r"'i \+ 1 = 2': it may overflow or divide by zero"),
        ("-i = 1", "may overflow"),
        ("s + 1 = 2", "not computed here: STRING is not computed with decimals"),
        ("s || i = 'ax'", "INT is not a STRING"),
        ("s ILIKE 'a'", "a condition that is not supported here"),
        ("s RLIKE 'a'", "a condition that is not supported here"),
        ("s LIKE ANY ('a', 'b')", "LIKE"),
        ("i LIKE '1%'", "not a column of type STRING, but INT"),
        ("s LIKE s", "not a constant text"),
        ("s LIKE 'a' ESCAPE 'ab'", "ESCAPE that is not one character"),
        ("startswith(i, 'a')", "not a column of type STRING"),
        ("i = TRUE", "INT is not compared with a constant of type BOOLEAN; write a whole number"),
        ("i = 'x'", "INT is not compared with a constant of type STRING; write a whole number"),
        ("i = 5D", "INT is not compared with a constant of type DOUBLE"),
        ("i < 9223372036854775808", "outside of BIGINT"),
        ("NOT -9223372036854775809 > i", "outside of BIGINT"),
        ("n > 1e0", "DOUBLE; write a number without an exponent"),
        ("s = 5", "STRING is not compared with a constant of type INT; write text in quotes"),
        ("c = 'a'", "cannot be compared here"),
        ("c = c", "STRING COLLATE UTF8_LCASE cannot be compared here"),
        ("arr = arr", "cannot be compared here"),
        ("arr[0] = 1", "not supported here"),
        ("iv > INTERVAL '1' DAY", "not supported here"),
        ("st = st", "cannot be compared here"),
        ("n = d", "compare columns of the same type"),
        ("i", "of type INT; a condition is a BOOLEAN"),
        ("'a'", "not a condition"),
        ("i IS TRUE", "a condition is a BOOLEAN"),
        ("(i = 1) = (i = 2)", "a condition where a value belongs"),
        ("i = 1 = TRUE", "a condition where a value belongs"),
        ("CAST(d AS INT) = 1", "a cast of DOUBLE to INT is not supported"),
        ("CAST(d AS STRING) = '1'", "a cast of DOUBLE to STRING is not supported"),
        ("f = 1e-3F", "a FLOAT with an exponent"),
        ("CAST(1.55 AS DECIMAL(2,1)) = n", "only after rounding"),
        ("isnan(i)", "a test of INT; isnan takes a FLOAT or DOUBLE column"),
        ("1 IN (i)", "IN takes a column and a list of constants"),
        ("i IN (i, 1)", "IN takes a column and a list of constants"),
        ("i IN ()", "without a list of values"),
        ("(i, s) = 1", "a row is compared with rows of as many values"),
        ("(i, s) < (1, 'a')", "rows are compared by =, <> and IN only"),
        ("(i, s) IN ((1, NULL))", "a NULL in a row"),
        ("ts = TIMESTAMP '2020-02-30 00:00:00'", "is not a TIMESTAMP"),
        ("*", "not supported here"),
        ("i = 1; DROP TABLE t", "write one expression"),
        ("i = 1e400", "outside of DOUBLE"),
    ],
)
def test_what_is_not_exact_is_refused(text: str, reason: str) -> None:
    """With the smallest part that is refused, the whole text, and the reason."""
    with pytest.raises(UnsupportedExpressionError, match=reason) as raised:
        Predicate.parse(text, SCHEMA)
    assert isinstance(raised.value, UsageError)
    assert type(raised.value) is UnsupportedExpressionError
    assert text[:20] in str(raised.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x = 1", "there is no column 'x'; the columns are i, s"),
        ("`i ` = 1", "there is no column 'i '"),
        ("t.i = 1", "there is no column 't'"),
        ("i.x = 1", "i is INT and has no field 'x'"),
        ("st.z = 1", "st has no field 'z'; its fields are x, y, Y"),
        ("st.y = 1", "st has 2 fields 'y'"),
    ],
)
def test_unknown_columns_are_named(text: str, reason: str) -> None:
    """With those there are."""
    with pytest.raises(SchemaMismatchError, match=reason):
        Predicate.parse(text, SCHEMA)


def test_names_match_whatever_their_case() -> None:
    """Quoted or not; a batch is asked for the name as the table spells it."""
    assert Predicate.parse("I = 1 AND `ODD Name` = 2 AND ST.X = 3", SCHEMA).columns == (
        "i",
        "st",
        "odd name",
    )


def test_an_unknown_time_zone_is_refused() -> None:
    """Even if there is no time in the text."""
    with pytest.raises(OptionError, match="Mars/Base"):
        Predicate.parse("i = 1", SCHEMA, "Mars/Base")


def test_thousands_of_values_are_taken() -> None:
    """In IN, and in ORs of comparisons, of single values or rows."""
    many = Predicate.parse(" OR ".join(f"i = {number}" for number in range(5000)), SCHEMA)
    rows = ", ".join(f"({number}, 'x')" for number in range(2000))

    assert many.ranges() is not None
    assert Predicate.parse(f"(i, s) IN ({rows})", SCHEMA).ranges() is not None
