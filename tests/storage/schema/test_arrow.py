"""The laws between data types and Arrow's."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given

from relstate.storage import types as t
from relstate.storage.errors import UnsupportedTypeError
from relstate.storage.schema.arrow import arrow_schema, arrow_type, fields_of, from_arrow
from support.datatypes import value_types


def as_arrow_shows_it(data_type: t.DataType) -> t.DataType:
    """Return the type without what Arrow does not carry: collations, units, precision of times."""
    match data_type:
        case t.Array(element, contains_null):
            return t.Array(as_arrow_shows_it(element), contains_null)
        case t.Map(key, value, value_contains_null):
            return t.Map(as_arrow_shows_it(key), as_arrow_shows_it(value), value_contains_null)
        case t.Struct(fields):
            return t.Struct(
                tuple(
                    t.Field(field.name, as_arrow_shows_it(field.type), field.nullable)
                    for field in fields
                )
            )
        case t.String() | t.Time() | t.DayTimeInterval():
            return type(data_type)()
    return data_type


@given(value_types())
def test_a_type_comes_back_from_arrow(data_type: t.DataType) -> None:
    """``from_arrow`` undoes ``arrow_type`` as far as Arrow carries the type."""
    assert from_arrow(arrow_type(data_type)) == as_arrow_shows_it(data_type)


@pytest.mark.parametrize("data_type", [t.YearMonthInterval(), t.CalendarInterval()])
def test_what_spark_cannot_hand_over_is_refused(data_type: t.DataType) -> None:
    """Intervals that Spark 4.3 does not hand to Python cannot be stored, nested or not."""
    for refused in (data_type, t.Array(data_type), t.Struct((t.Field("a", data_type),))):
        with pytest.raises(UnsupportedTypeError, match="cannot be stored"):
            arrow_type(refused)


def test_nothing_that_is_not_null_is_refused() -> None:
    """VOID holds NULL only, so VOID NOT NULL cannot be stored."""
    for refused in (t.Array(t.Void(), False), t.Struct((t.Field("a", t.Void(), False),))):
        with pytest.raises(UnsupportedTypeError, match="VOID NOT NULL"):
            arrow_type(refused)


def test_a_schema_is_its_fields() -> None:
    """Names and nullability stay, in both directions."""
    fields = (t.Field("a", t.BigInt(), False), t.Field("b c", t.String()))

    assert fields_of(arrow_schema(fields)) == fields


@pytest.mark.parametrize(
    ("arrow", "expected"),
    [
        (pa.large_string(), t.String()),
        (pa.string_view(), t.String()),
        (pa.binary(4), t.Binary()),
        (pa.large_binary(), t.Binary()),
        (pa.dictionary(pa.int32(), pa.string()), t.String()),
        (pa.date64(), t.Date()),
        (pa.time32("s"), t.Time()),
        (pa.timestamp("ns", "Europe/Berlin"), t.Timestamp()),
        (pa.timestamp("s"), t.TimestampNtz()),
        (pa.duration("ns"), t.DayTimeInterval()),
        (pa.large_list(pa.int8()), t.Array(t.TinyInt())),
        (pa.list_(pa.int8(), 3), t.Array(t.TinyInt())),
        (pa.decimal256(38, 2), t.Decimal(38, 2)),
    ],
)
def test_other_carriers_of_the_same_values(arrow: pa.DataType, expected: t.DataType) -> None:
    """Arrow has several layouts for some of Spark's types; all are accepted."""
    assert from_arrow(arrow) == expected


@pytest.mark.parametrize(
    "arrow",
    [
        pa.uint64(),
        pa.float16(),
        pa.decimal256(50, 2),
        pa.decimal128(5, -2),
        pa.month_day_nano_interval(),
        pa.dense_union([pa.field("a", pa.int32())]),
        pa.list_(pa.uint8()),
    ],
)
def test_types_without_a_counterpart_are_refused(arrow: pa.DataType) -> None:
    """Arrow types without a type in Spark SQL raise UnsupportedTypeError."""
    with pytest.raises(UnsupportedTypeError, match="no counterpart"):
        from_arrow(arrow)
