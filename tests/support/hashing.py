"""Columns of every type that has a hash: their types, and values of them that hurt.

Values are the Python values that point lookups take.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy


@dataclass(frozen=True, slots=True)
class Kind:
    """A type as Arrow and Spark's DDL know it, and the values (never None) that it may hold."""

    arrow: pa.DataType
    ddl: str
    values: SearchStrategy[Any]


def _integers(bits: int) -> SearchStrategy[int]:
    least, most = -(1 << bits - 1), (1 << bits - 1) - 1
    return st.sampled_from([least, -1, 0, 1, most]) | st.integers(least, most)


def _decimals(precision: int, scale: int) -> SearchStrategy[Decimal]:
    most = 10**precision - 1
    edges = [
        sign * (1 << bits) - less for bits in (7, 8, 63, 64) for sign in (1, -1) for less in (0, 1)
    ]
    unscaled = st.sampled_from([edge for edge in (*edges, -most, most, 0) if abs(edge) <= most])
    return (unscaled | st.integers(-most, most)).map(
        lambda whole: Decimal((whole < 0, [int(digit) for digit in str(abs(whole))], -scale))
    )


# Spark's own calendar reaches further down, Arrow's and Python's do not.
_TIMES = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999))
_TEXT = st.sampled_from(["", "\0", "a", "é", "漢字", "😀" * 3]) | st.text(max_size=80)
_BYTES = st.sampled_from([b"", b"\0", b"\xff" * 9]) | st.binary(max_size=160)
_DURATIONS = st.timedeltas(timedelta(days=-106_751_991), timedelta(days=106_751_991))

KINDS: dict[str, Kind] = {
    "boolean": Kind(pa.bool_(), "BOOLEAN", st.booleans()),
    "tinyint": Kind(pa.int8(), "TINYINT", _integers(8)),
    "smallint": Kind(pa.int16(), "SMALLINT", _integers(16)),
    "int": Kind(pa.int32(), "INT", _integers(32)),
    "bigint": Kind(pa.int64(), "BIGINT", _integers(64)),
    "float": Kind(pa.float32(), "FLOAT", st.floats(width=32)),
    "double": Kind(pa.float64(), "DOUBLE", st.floats()),
    "decimal_short": Kind(pa.decimal128(18, 4), "DECIMAL(18,4)", _decimals(18, 4)),
    "decimal_small": Kind(pa.decimal128(5, 0), "DECIMAL(5,0)", _decimals(5, 0)),
    "decimal_long": Kind(pa.decimal128(38, 10), "DECIMAL(38,10)", _decimals(38, 10)),
    "decimal_middle": Kind(pa.decimal128(19, 0), "DECIMAL(19,0)", _decimals(19, 0)),
    "string": Kind(pa.string(), "STRING", _TEXT),
    "binary": Kind(pa.binary(), "BINARY", _BYTES),
    "date": Kind(pa.date32(), "DATE", st.dates(date(1, 1, 1), date(9999, 12, 31))),
    "timestamp": Kind(
        pa.timestamp("us", "UTC"), "TIMESTAMP", _TIMES.map(lambda value: value.replace(tzinfo=UTC))
    ),
    "timestamp_ntz": Kind(pa.timestamp("us"), "TIMESTAMP_NTZ", _TIMES),
    "time": Kind(pa.time64("ns"), "TIME(6)", st.times(time(0), time(23, 59, 59, 999_999))),
    "day_time_interval": Kind(pa.duration("us"), "INTERVAL DAY TO SECOND", _DURATIONS),
    "array": Kind(
        pa.list_(pa.int64()), "ARRAY<BIGINT>", st.lists(st.none() | _integers(64), max_size=5)
    ),
    "struct": Kind(
        pa.struct({"number": pa.int32(), "text": pa.string()}),
        "STRUCT<number: INT, text: STRING>",
        st.fixed_dictionaries({"number": st.none() | _integers(32), "text": st.none() | _TEXT}),
    ),
    "nested": Kind(
        pa.list_(pa.struct({"names": pa.list_(pa.string()), "on": pa.bool_()})),
        "ARRAY<STRUCT<names: ARRAY<STRING>, on: BOOLEAN>>",
        st.lists(
            st.none()
            | st.fixed_dictionaries(
                {
                    "names": st.none() | st.lists(st.none() | _TEXT, max_size=3),
                    "on": st.none() | st.booleans(),
                }
            ),
            max_size=3,
        ),
    ),
}
