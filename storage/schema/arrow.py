"""The Arrow types of the data types, in which rows pass between Spark and relstate.

Promises: `arrow_type` is exactly pyspark's ``to_arrow_type(..., timezone="UTC")``, so Spark takes a
batch built with it without a cast.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import pyarrow as pa

from ..errors import UnsupportedTypeError
from . import types as t

_VARIANT = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"}),
    ]
)

_PLAIN: dict[type[t.DataType], pa.DataType] = {
    t.Boolean: pa.bool_(),
    t.TinyInt: pa.int8(),
    t.SmallInt: pa.int16(),
    t.Int: pa.int32(),
    t.BigInt: pa.int64(),
    t.Float: pa.float32(),
    t.Double: pa.float64(),
    t.String: pa.string(),
    t.Binary: pa.binary(),
    t.Date: pa.date32(),
    t.Timestamp: pa.timestamp("us", tz="UTC"),
    t.TimestampNtz: pa.timestamp("us"),
    t.Time: pa.time64("ns"),
    t.DayTimeInterval: pa.duration("us"),
    t.Variant: _VARIANT,
    t.Void: pa.null(),
}


@cache
def arrow_type(data_type: t.DataType) -> pa.DataType:
    """Return the Arrow type in which Spark hands over values of ``data_type``.

    UnsupportedTypeError for year-month and calendar intervals, which Spark 4.3 cannot hand to
    Python through Arrow, and for VOID NOT NULL.
    """
    match data_type:
        case t.Decimal(precision, scale):
            return pa.decimal128(precision, scale)
        case t.Array(element, contains_null):
            return pa.list_(arrow_field(t.Field("element", element, contains_null)))
        case t.Map(key, value, value_contains_null):
            return pa.map_(
                arrow_field(t.Field("key", key, False)),
                arrow_field(t.Field("value", value, value_contains_null)),
            )
        case t.Struct(fields):
            return pa.struct([arrow_field(field) for field in fields])
    plain = _PLAIN.get(type(data_type))
    if plain is None:
        raise UnsupportedTypeError(
            f"{data_type} cannot be stored, because Spark does not pass it to Python; cast it to a "
            "number or to text"
        )
    return plain


def arrow_schema(fields: Iterable[t.Field]) -> pa.Schema:
    """Return fields as an Arrow schema; errors as `arrow_field`."""
    return pa.schema([arrow_field(field) for field in fields])


def arrow_field(field: t.Field) -> pa.Field:
    """Return a field as an Arrow field of the same name and nullability.

    Errors as `arrow_type`, SchemaError for a name that is not text.
    """
    if isinstance(field.type, t.Void) and not field.nullable:
        raise UnsupportedTypeError(f"{field} cannot be stored: VOID has no value but NULL")
    t.check_text("the name of a column", field.name)
    return pa.field(field.name, arrow_type(field.type), nullable=field.nullable)


def from_arrow(arrow: pa.DataType) -> t.DataType:
    """Return the data type that Spark sees in an Arrow type.

    64-bit offsets, views, dictionaries and other time units are accepted: they are other layouts
    of the same values. UnsupportedTypeError if Spark has no such type.
    """
    if pa.types.is_dictionary(arrow) or pa.types.is_run_end_encoded(arrow):
        return from_arrow(arrow.value_type)
    if pa.types.is_nested(arrow):
        return _from_nested(arrow)
    if pa.types.is_decimal(arrow):
        return _from_decimal(arrow)
    if pa.types.is_timestamp(arrow):
        return t.TimestampNtz() if arrow.tz is None else t.Timestamp()
    for matches, data_type in _FROM_PLAIN:
        if matches(arrow):
            return data_type
    raise UnsupportedTypeError(f"the Arrow type {arrow} has no counterpart in Spark SQL")


_FROM_PLAIN = (
    (pa.types.is_boolean, t.Boolean()),
    (pa.types.is_int8, t.TinyInt()),
    (pa.types.is_int16, t.SmallInt()),
    (pa.types.is_int32, t.Int()),
    (pa.types.is_int64, t.BigInt()),
    (pa.types.is_float32, t.Float()),
    (pa.types.is_float64, t.Double()),
    (pa.types.is_string, t.String()),
    (pa.types.is_large_string, t.String()),
    (pa.types.is_string_view, t.String()),
    (pa.types.is_binary, t.Binary()),
    (pa.types.is_large_binary, t.Binary()),
    (pa.types.is_binary_view, t.Binary()),
    (pa.types.is_fixed_size_binary, t.Binary()),
    (pa.types.is_date, t.Date()),
    (pa.types.is_time, t.Time()),
    (pa.types.is_duration, t.DayTimeInterval()),
    (pa.types.is_null, t.Void()),
)


def _from_decimal(arrow: pa.DataType) -> t.DataType:
    if arrow.scale < 0 or arrow.scale > arrow.precision or arrow.precision > 38:
        raise UnsupportedTypeError(f"the Arrow type {arrow} has no counterpart in Spark SQL")
    return t.Decimal(arrow.precision, arrow.scale)


def _from_nested(arrow: pa.DataType) -> t.DataType:
    if pa.types.is_map(arrow):
        return t.Map(
            from_arrow(arrow.key_type), from_arrow(arrow.item_type), arrow.item_field.nullable
        )
    if pa.types.is_struct(arrow):
        return t.Variant() if is_variant(arrow) else t.Struct(fields_of(arrow))
    if pa.types.is_union(arrow):
        raise UnsupportedTypeError(f"the Arrow type {arrow} has no counterpart in Spark SQL")
    return t.Array(from_arrow(arrow.value_type), arrow.value_field.nullable)


def fields_of(schema: pa.Schema | pa.StructType) -> tuple[t.Field, ...]:
    """Return the fields of an Arrow schema or struct; errors as `from_arrow`."""
    return tuple(t.Field(field.name, from_arrow(field.type), field.nullable) for field in schema)


def is_variant(arrow: pa.StructType) -> bool:
    """Return whether a struct is a variant: pyspark marks the metadata field of a variant."""
    names = [field.name for field in arrow]
    if sorted(names) != ["metadata", "value"]:
        return False
    return (arrow.field("metadata").metadata or {}).get(b"variant") == b"true"
