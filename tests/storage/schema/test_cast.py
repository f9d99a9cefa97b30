"""The laws of exact casts: values stay, or the cast is refused."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relstate.storage.errors import SchemaMismatchError
from relstate.storage.schema.cast import exact_cast
from support.datatypes import array_of, value_types, values_of
from support.examples import examples

BERLIN = pa.timestamp("us", "Europe/Berlin")
UTC = pa.timestamp("us", "UTC")


def widened(arrow: pa.DataType) -> pa.DataType:
    """Return another layout of the same values: 64-bit offsets, fields in another order."""
    if pa.types.is_string(arrow):
        return pa.large_string()
    if pa.types.is_binary(arrow):
        return pa.large_binary()
    if pa.types.is_list(arrow):
        return pa.large_list(pa.field("item", widened(arrow.value_type)))
    if pa.types.is_map(arrow):
        return pa.map_(widened(arrow.key_type), widened(arrow.item_type))
    if pa.types.is_struct(arrow):
        fields = reversed(list(arrow))
        return pa.struct([pa.field(field.name, widened(field.type)) for field in fields])
    return arrow


@st.composite
def arrays(draw: st.DrawFn) -> pa.Array:
    """Draw an array of any type that a table may store, NULLs among its values."""
    data_type = draw(value_types())
    return array_of(data_type, draw(st.lists(values_of(data_type), max_size=5)))


@settings(max_examples=examples(200))
@given(arrays(), st.integers(0, 5), st.integers(0, 5))
def test_another_carrier_changes_nothing(array: pa.Array, start: int, length: int) -> None:
    """Values in another layout stay the same, in slices too."""
    wide = pa.array(array.to_pylist(), widened(array.type)).slice(start, length)

    back = exact_cast(wide.type, array.type)(wide)

    back.validate(full=True)
    assert back.type == array.type
    assert repr(back.to_pylist()) == repr(array.slice(start, length).to_pylist())


@pytest.mark.parametrize(
    ("values", "source", "target", "expected"),
    [
        ([1, None], pa.int8(), pa.int64(), [1, None]),
        ([1, None], pa.uint64(), pa.int8(), [1, None]),
        ([5], pa.int64(), pa.decimal128(12, 2), [Decimal("5.00")]),
        ([2**53], pa.int64(), pa.float64(), [2.0**53]),
        ([0.5], pa.float32(), pa.float64(), [0.5]),
        ([Decimal("1.50")], pa.decimal128(5, 2), pa.decimal128(3, 1), [Decimal("1.5")]),
        ([Decimal("1.5")], pa.decimal256(70, 1), pa.decimal128(38, 2), [Decimal("1.50")]),
        ([datetime.date(2020, 1, 1)], pa.date64(), pa.date32(), [datetime.date(2020, 1, 1)]),
        ([0], pa.timestamp("s"), pa.timestamp("us"), [datetime.datetime(1970, 1, 1)]),
        ([0], BERLIN, UTC, [datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)]),
        ([1], pa.time32("s"), pa.time64("ns"), [datetime.time(0, 0, 1)]),
        ([1], pa.duration("s"), pa.duration("us"), [datetime.timedelta(seconds=1)]),
        ([None], pa.null(), pa.struct([("a", pa.int8())]), [None]),
        (["a", None], pa.dictionary(pa.int8(), pa.string()), pa.string(), ["a", None]),
        ([b"ab"], pa.binary(2), pa.binary(), [b"ab"]),
        ([[1, 2]], pa.list_(pa.int8(), 2), pa.list_(pa.int64()), [[1, 2]]),
        (
            [{"A": 1}],
            pa.struct([("A", pa.int8())]),
            pa.struct([("b", pa.string()), ("a", pa.int64())]),
            [{"b": None, "a": 1}],
        ),
        ([{}, None], pa.struct([]), pa.struct([("a", pa.int8())]), [{"a": None}, None]),
    ],
)
def test_casts_that_keep_every_value(
    values: list[Any], source: pa.DataType, target: pa.DataType, expected: list[Any]
) -> None:
    """Wider numbers, other units, other zones, and fields by name."""
    converted = exact_cast(source, target)(pa.array(values, source))

    assert converted.type == target
    assert converted.to_pylist() == expected


@pytest.mark.parametrize(
    ("value", "source", "target"),
    [
        (128, pa.int64(), pa.int8()),
        (-1, pa.int64(), pa.uint8()),
        (2**53 + 1, pa.int64(), pa.float64()),
        (10**10, pa.int64(), pa.decimal128(12, 2)),
        (Decimal("1.25"), pa.decimal128(5, 2), pa.decimal128(5, 1)),
        (Decimal("99.9"), pa.decimal128(5, 1), pa.decimal128(2, 1)),
        (1, pa.timestamp("ns"), pa.timestamp("us")),
        (2**62, pa.timestamp("s"), pa.timestamp("us")),
        (1, pa.duration("ns"), pa.duration("us")),
        ([1, 2**40], pa.list_(pa.int64()), pa.list_(pa.int32())),
        ([("a", 2**40)], pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.int32())),
    ],
)
def test_values_that_do_not_fit_raise(value: Any, source: pa.DataType, target: pa.DataType) -> None:
    """Nothing is rounded, wrapped or cut."""
    cast = exact_cast(source, target)

    with pytest.raises(pa.ArrowInvalid):
        cast(pa.array([value], source))


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (pa.string(), pa.int64()),
        (pa.int64(), pa.string()),
        (pa.float64(), pa.int64()),
        (pa.float64(), pa.float32()),
        (pa.float64(), pa.decimal128(12, 2)),
        (pa.decimal128(12, 0), pa.int64()),
        (pa.decimal128(12, 2), pa.float64()),
        (pa.bool_(), pa.int8()),
        (pa.int8(), pa.bool_()),
        (pa.string(), pa.binary()),
        (pa.binary(), pa.string()),
        (pa.date32(), pa.timestamp("us")),
        (pa.timestamp("us"), UTC),
        (UTC, pa.timestamp("us")),
        (pa.int64(), pa.timestamp("us")),
        (pa.int8(), pa.list_(pa.int8())),
        (pa.map_(pa.string(), pa.int8()), pa.list_(pa.int8())),
        (pa.list_(pa.string()), pa.list_(pa.int8())),
        (pa.struct([("x", pa.int8())]), pa.struct([("y", pa.int8())])),
        (pa.struct([]), pa.struct([pa.field("y", pa.int8(), nullable=False)])),
        (pa.struct([("x", pa.int8()), ("X", pa.int8())]), pa.struct([("x", pa.int8())])),
    ],
)
def test_pairs_without_an_exact_cast_are_refused(source: pa.DataType, target: pa.DataType) -> None:
    """What would need parsing, printing, rounding or a time zone is refused before any row."""
    with pytest.raises(SchemaMismatchError):
        exact_cast(source, target)


def test_an_extension_type_is_its_storage() -> None:
    """A tensor or a UUID is cast as its storage."""
    array = pa.array([b"0123456789abcdef"], pa.uuid())

    assert exact_cast(array.type, pa.binary())(array).to_pylist() == [b"0123456789abcdef"]


def test_values_outside_a_slice_do_not_matter() -> None:
    """Only the rows of the slice are cast, also inside lists."""
    array = pa.array([[2**40], [1]], pa.list_(pa.int64()))

    converted = exact_cast(array.type, pa.list_(pa.int8()))(array.slice(1))

    assert converted.to_pylist() == [[1]]
