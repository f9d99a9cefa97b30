"""A predicate keeps exactly the rows that Spark's WHERE keeps: its three-valued logic, its casts,
its order of floats, its patterns, its literals.

The rows are random ones and all the values that hurt; Spark evaluates the same text in the JVM.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from pyspark.errors import PySparkException

from relstate.storage import TableSchema
from relstate.storage.errors import SchemaMismatchError, UnsupportedExpressionError
from relstate.storage.predicate.predicate import Predicate
from relstate.storage.schema.ddl import parse_columns
from relstate.storage.syntax import parse_condition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = (
    "id INT, ti TINYINT, si SMALLINT, i INT, l BIGINT, j INT, f FLOAT, d DOUBLE, "
    "n DECIMAL(6,2), w DECIMAL(38,10), s STRING, u STRING, b BINARY, bo BOOLEAN, dt DATE, "
    "ts TIMESTAMP, z TIMESTAMP_NTZ, st STRUCT<x: INT, `Y y`: STRING, deep: STRUCT<v: DOUBLE>>, "
    "m MAP<INT, INT>"
)
SCHEMA = TableSchema.build(parse_columns(COLUMNS), ["id"])

TEXTS = ["", "a", "A", "ab", "abc", "a%c", "a_c", "aXc", "a\nc", "é", "éa", "漢", "😀", "😀b", "\0"]
TEXTS += ["a\\c", "it's", 'q"', "b", "ÿ", "ÿz", "Ā", "\U0010ffff", "a ", " a"]
MOMENTS = [
    datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(1970, 1, 1),
    datetime(2020, 2, 29, 12), datetime(2020, 2, 29), datetime(2020, 3, 1),
    datetime(9999, 12, 31, 23, 59, 59, 999999),
]  # fmt: skip
DOUBLES = [0.0, -0.0, 1.5, -1.5, 5.0, 0.1, 1e300, -1e300, 5e-324, float("inf"), float("-inf")]
DOUBLES += [float("nan"), 2.0**53, 2.0**63, 16777216.0, 0.30000000000000004]
POOLS: dict[str, Sequence[Any]] = {
    "ti": [-128, -1, 0, 1, 5, 127],
    "si": [-32768, -1, 0, 1, 5, 128, 32767],
    "i": [-(2**31), -1, 0, 1, 2, 3, 5, 16777217, 2**31 - 1],
    "l": [-(2**63), -1, 0, 1, 5, 2**31, 2**53, 2**53 + 1, 2**63 - 1],
    "j": [-(2**31), 0, 1, 2, 3, 5, 2**31 - 1],
    "f": [float(np.float32(value)) for value in DOUBLES if abs(value) < 1e38 or abs(value) > 1e301],
    "d": DOUBLES,
    "n": [
        Decimal(value) for value in ("-9999.99", "-0.01", "0.00", "0.10", "1.50", "5.00", "9999.99")
    ],
    "w": [
        Decimal(value).scaleb(-10, None)
        for value in (-(10**27), -1, 0, 1, 15000000000, 50000000000, 10**27)
    ],
    "s": TEXTS,
    "u": TEXTS,
    "b": [text.encode() for text in TEXTS] + [b"\xff", b"\x00\x01", b"\x80"],
    "bo": [True, False],
    "dt": [moment.date() for moment in MOMENTS],
    "ts": MOMENTS,
    "z": MOMENTS,
}
ROWS = 400


def structs(source: random.Random) -> dict[str, Any] | None:
    """A struct in a struct, each of which may be NULL."""
    if source.random() < 0.2:
        return None
    deep = None if source.random() < 0.3 else {"v": source.choice([None, *DOUBLES])}
    text = source.choice([None, *TEXTS])
    return {"x": source.choice([None, *POOLS["i"]]), "Y y": text, "deep": deep}


@cache
def table() -> pa.RecordBatch:
    """Random rows of the pools' values; one value in ten is NULL."""
    source = random.Random(11)
    columns: dict[str, list[Any]] = {"id": list(range(ROWS))}
    for name, pool in POOLS.items():
        columns[name] = [
            None if source.random() < 0.1 else source.choice(pool) for _ in range(ROWS)
        ]
    columns["st"] = [structs(source) for _ in range(ROWS)]
    columns["m"] = [None if source.random() < 0.3 else [(1, 2)] for _ in range(ROWS)]
    schema = SCHEMA.arrow_schema
    arrays = [pa.array(columns[field.name], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    """The table as a DataFrame with the declared types."""
    return spark.createDataFrame(pa.table(table()), COLUMNS).cache()


def kept_by_spark(rows: DataFrame, texts: Sequence[str]) -> list[list[int]]:
    """The ids of the rows for which each expression is true in Spark, found in one job."""
    flags = [f"coalesce(({text}\n), false) AS kept_{index}" for index, text in enumerate(texts)]
    flagged = rows.selectExpr("id", *flags).toArrow().sort_by("id")
    ids = np.asarray(flagged["id"])
    return [ids[np.asarray(flagged[f"kept_{index}"])].tolist() for index in range(len(texts))]


def kept(text: str, time_zone: str = "UTC") -> list[int]:
    """The ids of the rows for which a predicate is true."""
    predicate = Predicate.parse(text, SCHEMA, time_zone)
    seen = table().slice(3).select(list(predicate.columns) or ["id"])
    head = table().slice(0, 3)
    masks = [predicate.mask(head), predicate.mask(seen)]
    assert not any(mask.null_count for mask in masks)
    return np.flatnonzero(np.concatenate([np.asarray(mask) for mask in masks])).tolist()


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
    wrong = [
        (text, len(expected), len(ids))
        for text, expected in zip(EXPRESSIONS, kept_by_spark(rows, EXPRESSIONS), strict=True)
        if (ids := kept(text)) != expected
    ]
    assert wrong == []


def test_where_itself_agrees(rows: DataFrame) -> None:
    """A column of flags selects the same rows as Spark's WHERE, optimizer included."""
    for text in EXPRESSIONS[::23]:
        assert sorted(row.id for row in rows.where(text).select("id").collect()) == kept(text)


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
        expected = kept_by_spark(rows, texts)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")

    assert [kept(text, zone) for text in texts] == expected


LEFT_TO_SPARK = r"""
i = 5.0D
i > 1e0
i = '5'
i = ' 5 '
i IN ('5', 1)
i IN (1, 5D)
i BETWEEN '1' AND '3'
l = 9007199254740993D
l > 9007199254740992D
l >= 9.2233720368547758E18
l < 9.3e18
l = 5F
l < 9223372036854775808
ti >= -9223372036854775808.5
NOT i > 99999999999999999999
i BETWEEN 1 AND 99999999999999999999
i = 16777217F
f = 'NaN'
f > 'Infinity'
f >= '-inf'
d = '0'
n = '1.5'
n > 1.5D
n = 0.1D
n = 0.1F
n >= 0.1F
n IN ('1.5', 5)
w = 1.5D
w < 1e17
b = 'a'
CAST(s AS BINARY) = X'C3A9'
s = b
b < s
bo = 'yes'
1 = 1.0
dt = TIMESTAMP '2020-02-29 00:00:00'
dt < TIMESTAMP '2020-02-29 12:00:00'
dt >= TIMESTAMP '2020-02-29 12:00:00'
dt = TIMESTAMP_NTZ '2020-02-29 00:00:00'
ts = TIMESTAMP_NTZ '2020-02-29 12:00:00'
CAST(ts AS DATE) = DATE '2020-02-29'
CAST(ts AS DATE) IN ('2020-02-29', '1969-12-31')
CAST(ts AS DATE) <= '1969-12-31'
CAST(z AS DATE) > '2020-02-29'
date(ts) = '2020-02-29'
z > TIMESTAMP '2020-02-29 12:00:00'
CAST(i AS BIGINT) = 5L
CAST(i AS DOUBLE) > 1.5
CAST(i AS DECIMAL(12,2)) = 5.00
CAST(l AS DOUBLE) = 9007199254740992D
CAST(CAST(ti AS INT) AS BIGINT) = 5
CAST(f AS DOUBLE) = 0.1D
CAST(n AS DOUBLE) = 0.1D
i::BIGINT = 5
CAST('5' AS INT) = i
i >= l
l > d
i = d
ti < si
f < d
f = d
n = w
n > i
l < w
""".strip().split("\n")


@pytest.mark.parametrize("text", LEFT_TO_SPARK)
def test_what_another_family_is_compared_with_is_left_to_spark(text: str) -> None:
    """Casts of columns and constants of other families are refused; Spark evaluates them."""
    with pytest.raises(UnsupportedExpressionError):
        Predicate.parse(text, SCHEMA)


# What Spark refuses, or what fails in it for the rows at hand.
REFUSED = r"""
bo = 1
i = 'x'
i = '5.0'
l = '9223372036854775808'
m = m
dt = 5
i = b
s LIKE 'a\\c'
s LIKE 'a\\'
x = 1
st.q = 1
i.x = 1
count(i) > 1
i IS TRUE
s = 5
i
'a'
nothing(i)
ts = '2020-02-30'
d = 1e400
i = 1_000
(i, j) IN ((1, 2, 3))
""".strip().split("\n")


@pytest.mark.parametrize("text", REFUSED)
def test_what_spark_refuses_is_refused(rows: DataFrame, text: str) -> None:
    """The error is relstate's, not one of Python's or of the parser's."""
    with pytest.raises(PySparkException):
        rows.where(text).count()
    with pytest.raises((UnsupportedExpressionError, SchemaMismatchError)):
        Predicate.parse(text, SCHEMA)


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


@pytest.mark.parametrize("text", UNPARENTHESISED)
def test_what_belongs_together_is_what_spark_puts_together(rows: DataFrame, text: str) -> None:
    """Text without parentheses is read with Spark's precedence, or it is refused."""
    try:
        ids = kept(text)
    except UnsupportedExpressionError:
        return
    assert [ids] == kept_by_spark(rows, [text])


# --- Text ----------------------------------------------------------------------------------------

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


# --- Random trees -------------------------------------------------------------------------------


def quoted(text: str) -> str:
    """A text as a literal of Spark."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def spelled(name: str, value: Any) -> str:
    """A value of a column's pool as a literal of the column's type, or of a near one."""
    match value:
        case bool():
            return str(value).lower()
        case int() if name == "l" and abs(value) < 2**62:
            return f"{value}L"
        case float():
            return f"CAST('{value!r}' AS {'FLOAT' if name == 'f' else 'DOUBLE'})"
        case Decimal():
            return f"{value:f}"
        case bytes():
            return f"X'{value.hex()}'"
        case str():
            return quoted(value)
        case datetime():
            return f"{'TIMESTAMP_NTZ' if name == 'z' else 'TIMESTAMP'} '{_iso(value)}'"
        case date():
            return f"DATE '{value.year:04}-{value.month:02}-{value.day:02}'"
    return str(value)


def _iso(moment: datetime) -> str:
    return f"{moment.year:04}-" + moment.strftime("%m-%d %H:%M:%S.%f")


EXACT_NUMBERS = ("ti", "si", "i", "j", "l", "n")


def literals(name: str) -> SearchStrategy[str]:
    """A literal that compares with a column."""
    own = st.sampled_from(POOLS[name]).map(lambda value: spelled(name, value))
    families = {**dict.fromkeys(EXACT_NUMBERS, ("i", "l", "n")), "f": ("i", "l", "d", "n")}
    families["d"] = families["f"]
    numbers = [
        value for other in families.get(name, ()) for value in map(_speller(other), POOLS[other])
    ]
    return own | st.sampled_from(numbers) if numbers else own


def _speller(name: str) -> Any:
    return lambda value: spelled(name, value)


COMPARED = ("=", "<>", "<", "<=", ">", ">=", "<=>")
COMPARABLE = [("i", "j"), ("s", "u"), ("d", "st.deep.v"), ("i", "st.x"), ("l", "l")]
names = st.sampled_from(sorted(POOLS))


@st.composite
def atoms(draw: st.DrawFn) -> str:
    """A condition on one column, or on two."""
    name = draw(names)
    match draw(st.integers(0, 7)):
        case 0 | 1 | 2:
            return f"{name} {draw(st.sampled_from(COMPARED))} {draw(literals(name))}"
        case 3:
            values = draw(st.lists(literals(name), min_size=1, max_size=5))
            nulls = ["NULL"] if draw(st.integers(0, 3)) == 0 else []
            negated = draw(st.sampled_from(["", "NOT "]))
            return f"{name} {negated}IN ({', '.join(values + nulls)})"
        case 4:
            low, high = draw(literals(name)), draw(literals(name))
            return f"{name} {draw(st.sampled_from(['', 'NOT ']))}BETWEEN {low} AND {high}"
        case 5:
            return f"{name} IS {draw(st.sampled_from(['', 'NOT ']))}NULL"
        case 6:
            pattern = "".join(
                draw(st.lists(st.sampled_from(["a", "c", "%", "_", "é"]), max_size=4))
            )
            return f"s {draw(st.sampled_from(['', 'NOT ']))}LIKE '{pattern}'"
    left, right = draw(st.sampled_from(COMPARABLE))
    return f"{left} {draw(st.sampled_from(COMPARED))} {right}"


def _joined(parts: list[str], word: str) -> str:
    return "(" + f" {word} ".join(parts) + ")"


predicates = st.recursive(
    atoms(),
    lambda inner: st.one_of(
        inner.map("NOT ({})".format),
        st.builds(_joined, st.lists(inner, min_size=2, max_size=4), st.sampled_from(["AND", "OR"])),
        inner.map("(({}) IS NULL)".format),
        st.builds("(({}) IS {}TRUE)".format, inner, st.sampled_from(["", "NOT "])),
    ),
    max_leaves=8,
)


@given(texts=st.lists(predicates, min_size=25, max_size=25))
@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.large_base_example],
)
def test_random_conditions_keep_what_spark_keeps(rows: DataFrame, texts: list[str]) -> None:
    """Conditions of any shape, over rows of extremes and NULLs."""
    expected = kept_by_spark(rows, texts)

    for text, ids in zip(texts, expected, strict=True):
        assert kept(text) == ids, text
