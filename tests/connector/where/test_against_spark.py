"""A predicate keeps exactly the rows that Spark's WHERE keeps: its three-valued logic, its casts,
its order of floats, its patterns, its literals.

The rows are random ones and all the values that hurt; Spark evaluates the same text in the JVM.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame

from relstate.storage.errors import UnsupportedExpressionError
from relstate.storage.syntax import parse_condition
from support.conditions import conditions
from support.examples import examples
from support.where_rows import ids_kept, ids_kept_by_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXPRESSIONS = r'''
i = 5
5 = i
I == `i`
i <> 5
i != 5
NOT i = 5
!(i = 5)
i <=> 5
i <=> NULL
NOT i <=> NULL
i = NULL
NOT (i = NULL)
i IS DISTINCT FROM 5
i IS NOT DISTINCT FROM 5
i = 3.5
i > 3.5
i < 3.5
i <> 3.5
i = 5.0
i = 2147483648
i < 2147483648
i > -2147483649
i >= -2147483648
i = - 5
i IN (1, 2.5, 5)
i IN (1, NULL)
i NOT IN (1, NULL)
i NOT IN (1, 2)
NOT i IN (1, 2)
i BETWEEN 1 AND 3
i NOT BETWEEN 1 AND 3
i BETWEEN 3 AND 1
i BETWEEN 0.5 AND 2.5
i BETWEEN NULL AND 2
NOT i BETWEEN NULL AND 2
ti = 128
ti < 128
ti = -128Y
ti <= 5S
l = 9007199254740993
l = 9223372036854775807
l = -9223372036854775808
l = 9223372036854775808
l <=> 9223372036854775808
l <> -9223372036854775809
l < 9223372036854775807.0
l = 5L
f = 16777216
f = 0.1
f = 0.1F
f = 0.1D
f > 0.1
f = CAST(0.1 AS FLOAT)
f = CAST('0.1' AS FLOAT)
f < 1.5
d = 0.0D
d = -0.0D
d = 0
d > 1e300
d >= 1e300
d > CAST('Infinity' AS DOUBLE)
d = CAST('NaN' AS DOUBLE)
d <> CAST('NaN' AS DOUBLE)
d < CAST('NaN' AS DOUBLE)
d <= CAST('NaN' AS DOUBLE)
d IN (CAST('NaN' AS DOUBLE), 1.5)
d = 0.1
d > 0.3
isnan(d)
NOT isnan(d)
isnan(f) OR isnan(st.deep.v)
n = 1.5
n = 1.50
n > 1.4999
n = 1.505
n = 5
n <= 9999.99
n < 10000
n IN (1, 1.5, 5.00)
n = 1.5BD
n = -0.01BD
w = 1.5
w > 0.0000000001
w >= 0.0000000001
w < 1.5
w BETWEEN -0.0000000001 AND 5
w IN (1.5, 5, 0)
s = 'a'
s = "a"
s > 'a'
s >= 'é'
s < '漢'
s = 'it\'s'
s = 'it''s'
s = "q"""
s = 'a' 'b'
s = 'a\nc'
s = r'a\c'
s = 'a\\c'
s = '\u00e9'
s = '\U0001F600'
s = '\0'
s = '\141'
s = 'a\%c'
s IN ('a', 'b', 'é')
s NOT IN ('a', NULL)
s BETWEEN 'a' AND 'b'
s = ' a'
s LIKE 'a%'
s LIKE 'a_c'
s LIKE 'a\_c'
s LIKE 'a\%c'
s LIKE 'a/%c' ESCAPE '/'
s LIKE 'a%c'
s LIKE '%c'
s LIKE '%'
s LIKE ''
s LIKE '_'
s LIKE '__'
s LIKE '%é%'
s LIKE 'ÿ%'
s LIKE '😀_'
s LIKE 'a\\\\c'
s LIKE r'a\\c'
s NOT LIKE 'a%'
s NOT LIKE '%b%'
NOT s LIKE 'a%c'
s LIKE '%%b'
s LIKE '\U0010ffff%'
s LIKE 'a.c'
s LIKE 'a'
startswith(s, 'a')
startswith(s, '')
startswith(s, '\U0010ffff')
endswith(s, 'c')
NOT endswith(s, 'c')
contains(s, '%')
contains(s, '\0')
contains(s, '')
b = X'61'
b > X'80'
b >= x'1'
b < X'FF' AND b > X''
bo
NOT bo
bo = true
bo = false
bo <> true
bo IS TRUE
bo IS NOT TRUE
bo IS FALSE
bo IS NOT FALSE
bo < true
bo IN (true, NULL)
TRUE
FALSE
1 = 1
1 > 2
'a' < 'b'
NULL <=> NULL
1 <=> NULL
NULL = 1 OR i = 1
NOT (NULL = 1 AND i = 1)
i = 1 AND (NULL = 1)
i IS NULL
i IS NOT NULL
NOT i IS NULL
isnull(i)
isnotnull(i)
m IS NULL
m IS NOT NULL
st IS NULL
st.x IS NULL
st.x = 5
ST.X > 1
st.`Y Y` LIKE 'a%'
st.deep.v > 1
st.deep IS NULL
(i > 1) IS NULL
(i > 1 AND s = 'a') IS NOT NULL
(i > 1 OR s = 'a') IS TRUE
NOT ((i > 1 OR s = 'a') IS TRUE)
(i IN (1, NULL)) IS NULL
dt = DATE '2020-02-29'
dt = DATE'2020-2-29'
dt > '2020-02-29'
dt >= '2020-03'
dt < '2020'
dt = '2020-02-29 12:00:00'
dt IN ('2020-02-29', '1970-01-01')
dt BETWEEN '1970-01-01' AND DATE '2020-02-29'
ts = TIMESTAMP '2020-02-29 12:00:00'
ts = TIMESTAMP '2020-02-29 12:00:00Z'
ts = TIMESTAMP '2020-02-29 14:00:00+02:00'
ts = '2020-02-29T13:00:00 Europe/Rome'
ts = '2020-02-29 12:00'
ts > TIMESTAMP '1969-12-31 23:59:59.999998'
ts >= '9999-12-31 23:59:59.999999'
ts > DATE '2020-02-29'
ts >= '2020-02-29'
ts = TIMESTAMP_LTZ '2020-02-29 12:00:00'
z = TIMESTAMP_NTZ '2020-02-29 12:00:00'
z = '2020-02-29 12:00:00'
z IN ('2020-02-29', '2020-03-01')
s = CAST('abc' AS VARCHAR(2))
s = CAST('a' AS CHAR(3))
CAST(5.0 AS INT) = i
f IN (0.1F, 0.5, 1)
f <= 0.1
f > 16777217
d IN (0.1, 5, 1e300)
d >= 9.99
z >= DATE '2020-02-29'
n > -0.005
i > -0.5
i = -1
l IN (5, 5.0, 9223372036854775808)
st.deep.v >= 0.1
i = j
i <> j
i < j
i <=> j
NOT i <=> j
s < u
s <=> u
d <=> d
d = d
NOT d = d
(i, j) IN ((1, 2), (3, 5), (5, 5))
(i, j) NOT IN ((1, 2), (3, 5))
(i, s) = (5, 'a')
(i, s) <> (5, 'a')
NOT (i, s) = (5, 'a')
(i) IN ((1), (2))
i = 1 OR i = 2 AND s = 'a' OR NOT bo
(i = 1 OR j = 1) AND (i = 2 OR j = 2 OR s IS NULL)
i > 1 AND i < 5 AND i <> 3
i > 1 /* a comment */ AND i < 5 -- to the end
'''.strip().split("\n")


def test_each_kind_of_expression_keeps_what_spark_keeps(rows: DataFrame) -> None:
    """Literals, casts, comparisons, IN, LIKE, IS, structs and NULLs, each by itself."""
    expected = ids_kept_by_spark(rows, EXPRESSIONS)

    assert [
        text for text, ids in zip(EXPRESSIONS, expected, strict=True) if ids_kept(text) != ids
    ] == []


def test_where_itself_agrees(rows: DataFrame) -> None:
    """A column of flags selects the same rows as Spark's WHERE, optimizer included."""
    texts = EXPRESSIONS[::23]
    filtered = [rows.where(text).selectExpr(f"{n} AS n", "id") for n, text in enumerate(texts)]
    found = reduce(DataFrame.union, filtered).collect()

    for number, text in enumerate(texts):
        assert sorted(row.id for row in found if row.n == number) == ids_kept(text)


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Europe/Rome", "+05:30"])
def test_local_times_are_those_of_the_time_zone(
    spark: SparkSession, rows: DataFrame, zone: str
) -> None:
    """Also where clocks are set forward or back, twice a year."""
    texts = [
        f"ts {operator} '{moment}'"
        for moment in ("2020-02-29 12:00:00", "2020-03-08 02:30:00", "2020-11-01 01:30:00")
        for operator in ("<", "=", ">=")
    ]
    texts += ["ts >= '2020-02-29'", "ts = TIMESTAMP '2020-02-29 12:00:00Z'", "dt = '2020-02-29'"]
    if zone == "+05:30":
        texts += ["ts > DATE '2020-02-29'"]
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        expected = ids_kept_by_spark(rows, texts)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")

    assert [ids_kept(text, zone) for text in texts] == expected


# Where a grammar decides what belongs together.
UNPARENTHESISED = """
i = 1 IN (true)
true = i IN (1)
i IN (1) = true
i IS NULL = false
i IS NULL IS NULL
i > 1 IS NULL
i > 1 = true
s LIKE 'a' = true
bo = i > 1
bo = s LIKE 'a'
bo = i IS NULL
NOT bo = true
NOT bo IS NULL
NOT bo AND bo
NOT bo OR bo
bo OR bo AND NOT bo
! bo AND bo
! bo = false
! i IN (1, 2)
i BETWEEN 1 AND 2 = true
i BETWEEN 1 AND 2 AND bo
i BETWEEN 1 AND 2 OR bo AND i = 5
NOT i BETWEEN 1 AND 2 AND bo
bo = NOT bo
bo IS TRUE = false
bo IS NOT TRUE AND i = 1
bo <=> i = 1
bo = true <=> true
i = 1 = bo
i <> 1 <> bo
i = 1 AND bo = true OR s LIKE 'a%' IS NULL
i IN (1, 2) IS NOT NULL
i = - 1 AND j > -1
i = 1 OR j = 1 AND NOT s = 'a' OR bo
i IS DISTINCT FROM 1 AND bo
i IS NOT DISTINCT FROM j = bo
s LIKE 'a%' ESCAPE '/' AND bo
s LIKE 'a/%' ESCAPE '/' IS NULL
NOT s LIKE 'a%' ESCAPE '/'
s NOT LIKE 'a/_c' ESCAPE '/' OR bo
""".strip().split("\n")


def test_what_belongs_together_is_what_spark_puts_together(rows: DataFrame) -> None:
    """Text without parentheses is read with Spark's precedence, or it is refused."""
    ids = {text: ids_of for text in UNPARENTHESISED if (ids_of := ids_or_refusal(text)) is not None}

    assert len(ids) > len(UNPARENTHESISED) / 3
    assert ids == dict(zip(ids, ids_kept_by_spark(rows, list(ids)), strict=True))


def ids_or_refusal(condition: str) -> list[int] | None:
    """Return the ids of the rows that a condition keeps, or None if it is refused."""
    try:
        return ids_kept(condition)
    except UnsupportedExpressionError:
        return None


# How Spark reads escapes is the same for all positions in a condition.
ESCAPES = [
    r"'\u0041\U00000041\101\U0001F600\ud83d\ude00'", r"'\400\08\1\12\477\377'",
    r"'\u00e \U0001F60 \ug'", r"'\n\t\r\b\0\Z\\\%\_\q\a\v\''", r"'\ud800'", r"'\ude00x'",
    r"'\ud83d\U0000de00'", r"'\ud83d' '\ude00'", r"'\ud83d''\ude00'", r"'\U00110000'",
    r"'\U80000000'", r"'\UFFFFFFFF'", r"'\ud83d\U00110000'", r"'\\U00110000'", r"r'\U00110000'",
    r'"\U00110000"', "'\\\u0661\u0661\u0661'", "'a\\\nb'",
]  # fmt: skip


def test_a_text_has_the_characters_that_spark_reads(spark: SparkSession) -> None:
    """Escapes of characters, of halves of them, and of numbers beyond all characters."""
    (row,) = spark.sql(f"SELECT {', '.join(ESCAPES)}").collect()

    texts = [parse_condition(f"s = {escape}").expression.name for escape in ESCAPES]
    assert dict(zip(ESCAPES, texts, strict=True)) == dict(zip(ESCAPES, row, strict=True))


@given(texts=st.lists(conditions, min_size=25, max_size=25))
@settings(
    max_examples=examples(25),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.large_base_example],
)
def test_random_conditions_keep_what_spark_keeps(rows: DataFrame, texts: list[str]) -> None:
    """Conditions of any shape, over rows of extremes and NULLs."""
    for text, ids in zip(texts, ids_kept_by_spark(rows, texts), strict=True):
        assert ids_kept(text) == ids, text
