"""The hash equals Spark SQL's ``xxhash64`` for every type that a key may have."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from relstate.vnode import scalar_hasher, vnodes_of, xxhash64
from support.hashing import KINDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 4000
CHAINS = [
    ("bigint", "string"),
    ("string", "bigint"),
    ("int", "decimal_long", "timestamp"),
    ("binary", "array", "double", "boolean"),
    ("nested", "struct", "day_time_interval", "time", "date", "float", "smallint"),
    tuple(KINDS),
]

Random = random.Random


def integers(bits: int) -> Callable[[Random], int]:
    """Integers of every magnitude, with the extremes."""

    def draw(source: Random) -> int:
        size = source.randint(0, bits)
        return source.choice([1 << size, -(1 << size), source.getrandbits(bits)]) % (1 << bits) - (
            1 << bits - 1
        )

    return draw


def floats(source: Random) -> float:
    """Floats that fit 32 bits too, with both zeros, infinities and NaN."""
    drawn = source.choice([0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, source.gauss(0, 1e9)])
    return float(np.float32(drawn))


def decimals(precision: int, scale: int) -> Callable[[Random], Decimal]:
    """Decimals of every length of unscaled bytes, mostly around the powers of 256."""

    def draw(source: Random) -> Decimal:
        power = 1 << source.randint(0, 127)
        whole = source.choice([power, power - 1, source.getrandbits(128), 10**precision - 1])
        sign = source.randint(0, 1)
        digits = [int(digit) for digit in str(whole)[-precision:]]
        return Decimal((sign, digits, -scale))

    return draw


def text(source: Random) -> str:
    """Strings of 0 to 300 bytes, with one to four bytes per character."""
    length = source.choice([0, 1, source.randint(0, 40), source.randint(0, 75)])
    return "".join(source.choice("\0a9 é漢😀\U0010ffff") for _ in range(length))


def moments(source: Random) -> datetime:
    """Times from year 1 to 9999, to the microsecond."""
    return datetime(1, 1, 1) + timedelta(
        days=source.randrange(3_652_059), microseconds=source.randrange(86_400_000_000)
    )


def elements(draw: Callable[[Random], Any]) -> Callable[[Random], list[Any]]:
    """Arrays of 0 to 5 elements, some of them NULL."""
    return lambda source: [
        None if source.random() < 0.3 else draw(source) for _ in range(source.randint(0, 5))
    ]


def fields(**draws: Callable[[Random], Any]) -> Callable[[Random], dict[str, Any]]:
    """Structs, some of their fields NULL."""
    return lambda source: {
        name: None if source.random() < 0.3 else draw(source) for name, draw in draws.items()
    }


DRAWS: dict[str, Callable[[Random], Any]] = {
    "boolean": lambda source: source.random() < 0.5,
    "tinyint": integers(8),
    "smallint": integers(16),
    "int": integers(32),
    "bigint": integers(64),
    "float": floats,
    "double": lambda source: source.choice([floats(source), source.gauss(0, 1e300)]),
    "decimal_short": decimals(18, 4),
    "decimal_small": decimals(5, 0),
    "decimal_long": decimals(38, 10),
    "decimal_middle": decimals(19, 0),
    "string": text,
    "binary": lambda source: source.randbytes(source.choice([0, 1, source.randint(0, 300)])),
    "date": lambda source: date.fromordinal(source.randint(1, date.max.toordinal())),
    "timestamp": lambda source: moments(source).replace(tzinfo=UTC),
    "timestamp_ntz": moments,
    "time": lambda source: source.choice([time.min, time.max, moments(source).time()]),
    "day_time_interval": lambda source: timedelta(
        microseconds=source.choice([0, -1, source.randint(-(2**62), 2**62)])
    ),
    "array": elements(integers(64)),
    "struct": fields(number=integers(32), text=text),
    "nested": elements(fields(names=elements(text), on=lambda source: source.random() < 0.5)),
}


@cache
def table() -> pa.Table:
    """Random rows of every type; one value in ten is NULL."""
    source = Random(20240229)
    columns = {
        name: pa.array(
            [None if source.random() < 0.1 else DRAWS[name](source) for _ in range(ROWS)],
            kind.arrow,
        )
        for name, kind in KINDS.items()
    }
    return pa.table(columns)


@pytest.fixture(scope="session")
def rows(spark: SparkSession) -> DataFrame:
    """The table as a DataFrame with the declared types."""
    schema = ", ".join(f"{name} {kind.ddl}" for name, kind in KINDS.items())
    with_places = table().append_column("place", pa.array(range(ROWS), pa.int32()))
    return spark.createDataFrame(with_places, f"{schema}, place INT").cache()


@pytest.fixture(scope="session")
def hashes(rows: DataFrame) -> dict[tuple[str, ...], list[int]]:
    """The hashes that Spark computes for the rows, in their order, by the hashed columns."""
    chains = [*((name,) for name in KINDS), *CHAINS]
    columns = [f"xxhash64({', '.join(names)}) AS hash_{n}" for n, names in enumerate(chains)]
    computed = rows.selectExpr("place", *columns).toArrow().sort_by("place")
    return {names: computed[f"hash_{n}"].to_pylist() for n, names in enumerate(chains)}


def columns_of(names: Sequence[str]) -> list[pa.Array]:
    """The same columns as Arrow arrays."""
    return [table()[name].combine_chunks() for name in names]


@pytest.mark.parametrize("name", KINDS)
def test_every_type_hashes_as_in_spark(hashes: dict[tuple[str, ...], list[int]], name: str) -> None:
    """Thousands of values of the type, hashed as arrays and singly, equal Spark's."""
    expected = hashes[(name,)]
    (column,) = columns_of([name])
    hash_row = scalar_hasher([column.type])

    assert xxhash64([column]).tolist() == expected
    assert [hash_row((value,)) for value in values_of(column)] == expected


@pytest.mark.parametrize("names", CHAINS, ids="-".join)
def test_columns_chain_as_in_spark(
    hashes: dict[tuple[str, ...], list[int]], names: tuple[str, ...]
) -> None:
    """Several columns, NULLs among them, hash together as Spark chains them."""
    expected = hashes[names]
    columns = columns_of(names)
    hash_row = scalar_hasher([column.type for column in columns])
    in_python = zip(*(values_of(column) for column in columns), strict=True)

    assert xxhash64(columns).tolist() == expected
    assert [hash_row(row) for row in in_python] == expected


def test_vnodes_are_spark_s_remainder(rows: DataFrame) -> None:
    """``pmod(xxhash64(key), vnode_count)`` in SQL is the row's vnode."""
    counts = (1, 255, 256, 32768)
    columns = [f"pmod(xxhash64(bigint, string), {count}) AS vnode_{count}" for count in counts]
    expected = rows.selectExpr("place", *columns).toArrow().sort_by("place")

    for count in counts:
        vnodes = vnodes_of(columns_of(["bigint", "string"]), count)
        assert vnodes.tolist() == expected[f"vnode_{count}"].to_pylist()


def test_year_month_intervals_hash_as_their_months(spark: SparkSession, rows: DataFrame) -> None:
    """Spark does not pass such intervals to Python; their months as an INT hash alike."""
    hashed = rows.selectExpr("place", "xxhash64(make_ym_interval(0, int)) AS hash").toArrow()

    assert xxhash64(columns_of(["int"])).tolist() == hashed.sort_by("place")["hash"].to_pylist()


def test_extreme_literals_hash_as_in_spark(spark: SparkSession) -> None:
    """The ends of every range, and what a cast to the type makes of other spellings."""
    literals: list[tuple[str, pa.DataType, Any]] = [
        ("-128Y", pa.int8(), -128),
        ("-32768S", pa.int16(), -32768),
        ("-2147483648", pa.int32(), -(2**31)),
        ("CAST(-9223372036854775808 AS BIGINT)", pa.int64(), -(2**63)),
        ("9223372036854775807", pa.int64(), 2**63 - 1),
        ("CAST('-0.0' AS DOUBLE)", pa.float64(), -0.0),
        ("CAST('-0.0' AS FLOAT)", pa.float32(), -0.0),
        ("CAST('Infinity' AS DOUBLE)", pa.float64(), math.inf),
        ("4.9E-324D", pa.float64(), 5e-324),
        ("1.7976931348623157E308D", pa.float64(), 1.7976931348623157e308),
        ("CAST('-NaN' AS DOUBLE)", pa.float64(), -math.nan),
        ("CAST(0 AS DECIMAL(38,0))", pa.decimal128(38), Decimal(0)),
        (f"CAST({'9' * 38} AS DECIMAL(38,0))", pa.decimal128(38), Decimal("9" * 38)),
        (f"CAST(-{'9' * 38} AS DECIMAL(38,0))", pa.decimal128(38), Decimal("-" + "9" * 38)),
        (f"CAST(-{'9' * 18} AS DECIMAL(18,0))", pa.decimal128(18), Decimal("-" + "9" * 18)),
        ("DATE'0001-01-01'", pa.date32(), date.min),
        ("DATE'9999-12-31'", pa.date32(), date.max),
        ("TIMESTAMP_NTZ'0001-01-01 00:00:00'", pa.timestamp("us"), datetime.min),
        ("TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'", pa.timestamp("us"), datetime.max),
        ("TIME'23:59:59.999999'", pa.time64("ns"), time.max),
        ("CAST(ARRAY() AS ARRAY<INT>)", pa.list_(pa.int32()), []),
        ("ARRAY(CAST(NULL AS INT))", pa.list_(pa.int32()), [None]),
        ("CAST('a' AS CHAR(5))", pa.string(), "a"),
    ]
    hashed = spark.sql(f"SELECT {', '.join(f'xxhash64({literal})' for literal, *_ in literals)}")
    (row,) = hashed.collect()
    for (literal, kind, value), expected in zip(literals, row, strict=True):
        assert xxhash64([pa.array([value], kind)])[0] == expected, literal
        assert scalar_hasher([kind])((value,)) == expected, literal


def test_nans_of_any_payload_hash_as_in_spark(spark: SparkSession) -> None:
    """Spark sees the same bits, and hashes all NaNs alike."""
    bits = np.array([0x7FF8000000000000, 0x7FF0000000000001, 0xFFF8000000000ABC], np.uint64)
    nans = pa.table({"value": bits.view(np.float64)})
    hashes = spark.createDataFrame(nans).selectExpr("xxhash64(value) AS hash").toArrow()

    assert xxhash64([nans["value"].combine_chunks()]).tolist() == hashes["hash"].to_pylist()


def values_of(column: pa.Array) -> list[Any]:
    """The column's values as point lookups take them; times count in nanoseconds in Arrow."""
    if pa.types.is_time(column.type):
        column = column.cast(pa.time64("us"))
    values: list[Any] = column.to_pylist()
    return values
