"""The laws of values as JSON: every type is written, nothing is lost, terminals are safe."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relstate.connector.row_json import json_rows, json_values, text_of
from relstate.storage import types as t
from relstate.storage.schema.arrow import arrow_type
from relstate.storage.schema.ddl import parse_type
from support.columns import arrays, data_types

_NANOSECOND = 1


@pytest.mark.parametrize(
    ("ddl", "value", "expected"),
    [
        ("BOOLEAN", True, True),
        ("BIGINT", 2**63 - 1, 2**63 - 1),
        ("DOUBLE", 1.5, 1.5),
        ("DOUBLE", float("nan"), "NaN"),
        ("FLOAT", float("inf"), "Infinity"),
        ("FLOAT", float("-inf"), "-Infinity"),
        ("DECIMAL(12,2)", Decimal(63), "63.00"),
        ("DECIMAL(10,7)", Decimal("0.0000001"), "0.0000001"),
        ("STRING", "a\nb", "a\nb"),
        ("BINARY", b"\x00\xff", "AP8="),
        ("DATE", datetime.date(2026, 1, 31), "2026-01-31"),
        ("DATE", 2**31 - 1, 2**31 - 1),
        ("DATE", -(2**31), -(2**31)),
        ("DATE", -719_163, -719_163),
        ("DATE", datetime.date.min, "0001-01-01"),
        ("DATE", datetime.date.max, "9999-12-31"),
        (
            "TIMESTAMP",
            datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC),
            "2026-01-31T12:00:00.000000Z",
        ),
        ("TIMESTAMP", 2**63 - 1, 2**63 - 1),
        ("TIMESTAMP", 253_402_300_800_000_000, 253_402_300_800_000_000),
        ("TIMESTAMP_NTZ", -(2**63), -(2**63)),
        ("TIMESTAMP_NTZ", datetime.datetime.min, "0001-01-01T00:00:00.000000"),
        ("TIMESTAMP_NTZ", datetime.datetime.max, "9999-12-31T23:59:59.999999"),
        (
            "TIMESTAMP_NTZ",
            datetime.datetime(2026, 1, 31, 12, 0, 0, 5),
            "2026-01-31T12:00:00.000005",
        ),
        ("TIME(0)", datetime.time(12), "12:00:00"),
        ("TIME(6)", datetime.time(12, 0, 0, 5), "12:00:00.000005"),
        ("TIME(0)", _NANOSECOND, "00:00:00.000000001"),
        (
            "INTERVAL DAY TO SECOND",
            datetime.timedelta(days=-1, hours=-2, minutes=-3, seconds=-4, microseconds=-5),
            "-1 02:03:04.000005",
        ),
        ("INTERVAL DAY TO SECOND", -(2**63) + 1, "-106751991 04:00:54.775807"),
        ("ARRAY<DECIMAL(3,1)>", [Decimal("1.5"), None], ["1.5", None]),
        (
            "STRUCT<a: INT, b: ARRAY<DATE>>",
            {"a": 1, "b": [datetime.date(2026, 1, 31)]},
            {"a": 1, "b": ["2026-01-31"]},
        ),
        ("MAP<STRING, DOUBLE>", [("a", 1.0), ("b", None)], {"a": 1.0, "b": None}),
        ("MAP<INT, STRING>", [(1, "x")], {"1": "x"}),
        ("STRUCT<>", {}, {}),
    ],
)
def test_a_value_is_written_as_the_table_says(ddl: str, value: Any, expected: Any) -> None:
    """Every type has one form, NULL is null, beside other values and in a slice too."""
    data_type = parse_type(ddl)
    array = pa.array([None, value, None], arrow_type(data_type))

    assert json_values(array, data_type) == [None, expected, None]
    assert json_values(array.slice(1, 1), data_type) == [expected]
    assert json_values(array.slice(0, 0), data_type) == []


def test_a_struct_whose_names_repeat_loses_no_field() -> None:
    """A struct that an object cannot hold is an array."""
    data_type = t.Struct((t.Field("a", t.Int()), t.Field("a", t.Int())))
    parts = [pa.array([1, 3], pa.int32()), pa.array([2, 4], pa.int32())]
    array = pa.StructArray.from_arrays(parts, fields=list(arrow_type(data_type)))

    assert json_values(array, data_type) == [[1, 2], [3, 4]]


def test_a_variant_is_its_json() -> None:
    """A variant is written as its JSON, not as its bytes."""
    from pyspark.sql.types import VariantVal

    variant = VariantVal.parseJson('{"a": [1, "x", 0.123456789012345678]}')
    array = pa.array([{"value": variant.value, "metadata": variant.metadata}, None])

    assert json_values(array, t.Variant()) == ['{"a":[1,"x",0.123456789012345678]}', None]


@given(st.data())
def test_every_column_becomes_json(data: st.DataObject) -> None:
    """A column of any type gives as many JSON values as it has rows, null for NULL."""
    data_type = data.draw(data_types().filter(lambda data_type: "VARIANT" not in str(data_type)))
    array = data.draw(arrays(data_type, 4))
    values = json_values(array, data_type)

    assert [value is None for value in values] == array.is_null().to_pylist()
    assert json.loads(json.dumps(values, allow_nan=False)) == values


def test_rows_have_the_columns_names() -> None:
    """A row is an object with its columns in order."""
    batch = pa.RecordBatch.from_pydict({"b": [1, 2], "a": ["x", None]})

    rows = list(json_rows(batch, [t.BigInt(), t.String()]))

    assert rows == [{"b": 1, "a": "x"}, {"b": 2, "a": None}]
    assert list(rows[0]) == ["b", "a"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "NULL"),
        ("text [bold]", "text [bold]"),
        ("\x1b[31m\n", "\\x1b[31m\\n"),
        ("é€", "é€"),
        (True, "true"),
        ([1, {"a": None}], '[1, {"a": null}]'),
    ],
)
def test_a_cell_shows_text_and_commands_no_terminal(value: Any, expected: str) -> None:
    """Text is written as it is, with control characters escaped."""
    assert text_of(value) == expected
