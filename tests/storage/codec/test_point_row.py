"""Laws of single rows: the bytes and values of whole batches, and no value changed silently."""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from relstate.storage import types as t
from relstate.storage.codec.row import RowCodec
from relstate.storage.errors import (
    DataError,
    NullValueError,
    SchemaMismatchError,
    ValueRangeError,
)
from relstate.storage.schema.arrow import arrow_type
from support.columns import PLAIN_TYPES, arrays, data_types
from support.examples import examples


def point_value(value: Any, data_type: t.DataType) -> Any:
    """Return a value of `pa.Array.to_pylist` as a point lookup returns it."""
    match data_type:
        case _ if value is None:
            return None
        case t.Array(element, _):
            return [point_value(item, element) for item in value]
        case t.Map(key_type, value_type, _):
            pairs = [(point_value(k, key_type), point_value(v, value_type)) for k, v in value]
            nested = isinstance(key_type, t.Array | t.Map | t.Struct | t.Variant)
            return pairs if nested else dict(pairs)
        case t.Struct(fields):
            return {field.name: point_value(value[field.name], field.type) for field in fields}
    return value


def comparable(value: Any) -> Any:
    """Return a value in which floats are their bits, so that NaN equals itself."""
    match value:
        case float():
            return struct.pack("<d", value)
        case list() | tuple():
            return type(value)(map(comparable, value))
        case dict():
            return [(comparable(key), comparable(item)) for key, item in value.items()]
    return value


@given(st.data(), st.lists(data_types(), min_size=1, max_size=10), st.integers(0, 3))
def test_single_rows_are_those_of_batches(
    data: DataObject, types: list[t.DataType], rows: int
) -> None:
    """A single row has the bytes that it has in a batch, and they decode to its values."""
    columns = [data.draw(arrays(data_type, rows)) for data_type in types]
    codec = RowCodec(types)
    encoded = codec.encode(columns, b"HEAD").to_pylist()
    for row, values in zip(
        encoded, zip(*(c.to_pylist() for c in columns), strict=True), strict=True
    ):
        assert b"HEAD" + codec.encode_row(values) == row
        expected = tuple(map(point_value, values, types))
        assert comparable(codec.decode_row(row, 4)) == comparable(expected)


@given(st.data(), st.lists(data_types(), min_size=1, max_size=10))
def test_some_values_are_those_of_the_row(data: DataObject, types: list[t.DataType]) -> None:
    """In any order; a row that is cut off does not decode to other values."""
    columns = [data.draw(arrays(data_type, 3)) for data_type in types]
    indices = data.draw(st.permutations(range(len(types))))[: data.draw(st.integers(0, 10))]
    codec = RowCodec(types)
    decode = codec.decoder_of(indices)
    for row in codec.encode(columns, b"HEAD").to_pylist():
        values = codec.decode_row(row, 4)
        assert comparable(decode(row, 4, len(row))) == comparable([values[i] for i in indices])
        with pytest.raises((ValueError, IndexError, struct.error)):
            decode(row[:4], 4, 4)


@pytest.mark.parametrize("data_type", PLAIN_TYPES, ids=str)
@settings(max_examples=examples(25))
@given(data=st.data())
def test_each_plain_type(data_type: t.DataType, data: DataObject) -> None:
    """Values of each type have the bytes they have in a batch, also as elements of arrays."""
    for whole in (data_type, t.Array(data_type)):
        column = data.draw(arrays(whole, 3))
        codec = RowCodec([whole])
        for row, value in zip(
            codec.encode([column], b"").to_pylist(), column.to_pylist(), strict=True
        ):
            assert codec.encode_row([value]) == row
            assert comparable(codec.decode_row(row, 0)) == comparable((value,))


PAIR = t.Struct((t.Field("x", t.Int()), t.Field("y", t.String(), False)))
TWINS = t.Struct((t.Field("x", t.Int()), t.Field("x", t.Int())))


@pytest.mark.parametrize(
    ("data_type", "given_value", "returned"),
    [
        (t.Double(), 3, 3.0),
        (t.Decimal(10, 2), 3, Decimal("3.00")),
        (t.Decimal(10, 2), Decimal("3.1000"), Decimal("3.10")),
        (t.Decimal(38, 0), Decimal(10**38 - 1), Decimal(10**38 - 1)),
        (t.Decimal(38, 38), Decimal("-0." + "9" * 38), Decimal("-0." + "9" * 38)),
        (t.Binary(), bytearray(b"ab"), b"ab"),
        (t.Array(t.Int()), (1, 2), [1, 2]),
        (PAIR, (1, "a"), {"x": 1, "y": "a"}),
        (PAIR, {"y": "a"}, {"x": None, "y": "a"}),
        (TWINS, (1, 2), (1, 2)),
        (t.Map(t.String(), t.Int()), {"a": 1}, {"a": 1}),
        (t.Map(t.String(), t.Int()), [("a", 1)], {"a": 1}),
        (t.Map(PAIR, t.Int()), [((1, "a"), 1)], [({"x": 1, "y": "a"}, 1)]),
        (t.Map(t.Array(t.Int()), t.Int()), [([1], 1)], [([1], 1)]),
        (
            t.Timestamp(),
            datetime(2024, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))),
            datetime(2024, 1, 1, tzinfo=UTC),
        ),
    ],
    ids=str,
)
def test_what_is_taken_and_what_is_returned(
    data_type: t.DataType, given_value: Any, returned: Any
) -> None:
    """A value in any of its Python types is returned in the one type for it."""
    codec = RowCodec([data_type])
    (decoded,) = codec.decode_row(codec.encode_row([given_value]), 0)
    assert repr(decoded) == repr(returned)


@pytest.mark.parametrize(
    ("data_type", "value", "error"),
    [
        (t.Boolean(), 1, SchemaMismatchError),
        (t.BigInt(), "1", SchemaMismatchError),
        (t.BigInt(), 1.0, SchemaMismatchError),
        (t.BigInt(), 1 << 63, ValueRangeError),
        (t.TinyInt(), 128, ValueRangeError),
        (t.Double(), "1", SchemaMismatchError),
        (t.Double(), Decimal("0.1"), SchemaMismatchError),
        (t.Double(), 2**53 + 1, ValueRangeError),
        (t.Float(), 1e300, ValueRangeError),
        (t.String(), b"a", SchemaMismatchError),
        (t.String(), 1, SchemaMismatchError),
        (t.String(), "\ud800", ValueRangeError),
        (t.Binary(), 5, SchemaMismatchError),
        (t.Binary(), "a", SchemaMismatchError),
        (t.Date(), datetime(2024, 1, 1), SchemaMismatchError),
        (t.Date(), "2024-01-01", SchemaMismatchError),
        (t.Timestamp(), datetime(2024, 1, 1), SchemaMismatchError),
        (t.TimestampNtz(), datetime(2024, 1, 1, tzinfo=UTC), SchemaMismatchError),
        (t.Timestamp(), date(2024, 1, 1), SchemaMismatchError),
        (t.Time(), time(1, tzinfo=UTC), SchemaMismatchError),
        (t.DayTimeInterval(), timedelta.max, ValueRangeError),
        (t.DayTimeInterval(), 5, SchemaMismatchError),
        (t.Decimal(4, 2), 0.5, SchemaMismatchError),
        (t.Decimal(4, 2), Decimal("0.001"), ValueRangeError),
        (t.Decimal(4, 2), Decimal(100), ValueRangeError),
        (t.Decimal(4, 2), Decimal("NaN"), ValueRangeError),
        (t.Decimal(38, 2), Decimal("Infinity"), ValueRangeError),
        (t.Decimal(38, 0), Decimal("1e999999"), ValueRangeError),
        (t.Decimal(38, 0), Decimal("1e-999999"), ValueRangeError),
        (t.Void(), 0, SchemaMismatchError),
        (t.Array(t.Int()), "ab", SchemaMismatchError),
        (t.Array(t.Int()), {1}, SchemaMismatchError),
        (t.Array(t.Int()), ["a"], SchemaMismatchError),
        (t.Map(t.String(), t.Int()), ["ab"], SchemaMismatchError),
        (t.Map(t.String(), t.Int()), {None: 1}, NullValueError),
        (PAIR, {"x": 1, "y": "a", "z": 3}, SchemaMismatchError),
        (PAIR, (1, "a", 3), SchemaMismatchError),
        (PAIR, {"x": 1}, NullValueError),
        (TWINS, {"x": 1}, SchemaMismatchError),
    ],
    ids=str,
)
def test_value_that_does_not_fit_is_refused(
    data_type: t.DataType, value: Any, error: type[DataError]
) -> None:
    """A value of another type, or beyond its type, is an error, never another value."""
    codec = RowCodec([t.Int(), data_type])
    with pytest.raises(error):
        codec.encode_row([5, value])


def test_refusal_names_the_value_and_its_type() -> None:
    """The message shows the value that does not fit, shortened, and the type it is not of."""
    codec = RowCodec([t.Int(), t.Array(t.BigInt()), t.String()])
    with pytest.raises(
        ValueRangeError, match=r"\[1, 9{20}.*\.\.\. is not a value of list<.*int64>"
    ):
        codec.encode_row([1, [1, int("9" * 70)], "a"])


def test_wrong_number_of_values_is_refused() -> None:
    """A row has as many values as there are columns."""
    codec = RowCodec([t.Int(), t.Int()])
    for values in ([], [1], [1, 2, 3]):
        with pytest.raises(SchemaMismatchError, match="2 values"):
            codec.encode_row(values)


@pytest.mark.parametrize(
    ("data_type", "stored"),
    [
        (kind, stored)
        for kind, numbers in [
            (t.Date(), [2**31 - 1, -(2**31), -719163, 2932897]),
            (t.Timestamp(), [2**63 - 1, -(2**63), -62135596800000001, 253402300800000000]),
            (t.TimestampNtz(), [2**63 - 1, -(2**63), -62135596800000001, 253402300800000000]),
        ]
        for stored in numbers
    ],
    ids=str,
)
def test_dates_beyond_python_are_refused(data_type: t.DataType, stored: int) -> None:
    """A date before the year 1 or after 9999, which Spark has, is not reported as damage."""
    width = np.int32 if isinstance(data_type, t.Date) else np.int64
    column = pa.array(np.array([stored], width)).view(arrow_type(data_type))
    codec = RowCodec([data_type])
    row = codec.encode([column], b"")[0].as_py()
    with pytest.raises(ValueRangeError, match="scan"):
        codec.decode_row(row, 0)
