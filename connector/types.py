"""Conversion between Spark's StructType and relstate's fields, columns and Arrow schemas.

Promises: a schema that is passed to Spark and back has the same types, names and nullability. Both
sides use Spark's own JSON form, so nothing is lost.
Does not know: what a schema is for.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import types as s
from pyspark.sql.types import StructType

from relstate.storage import Column, TableSchema, arrow, errors, feed_fields, type_json
from relstate.storage import types as t

_PLAIN = (
    t.Boolean, t.TinyInt, t.SmallInt, t.Int, t.BigInt, t.Float, t.Double, t.Decimal, t.String,
    t.Binary, t.Date, t.Timestamp, t.TimestampNtz,
)  # fmt: skip

_MOMENTS = (s.DateType, s.TimestampType, s.TimestampNTZType)
_NOT_TEXT = (s.ArrayType, s.MapType, s.StructType, s.VariantType)


def fields_of(schema: StructType) -> tuple[t.Field, ...]:
    """Return the fields of a schema of Spark. UnsupportedTypeError for a type not stored."""
    return tuple(type_json.field_from_json(field) for field in schema.jsonValue()["fields"])


def arrow_schema_of(schema: StructType) -> pa.Schema:
    """Return the Arrow schema in which Spark hands over, and takes, rows of ``schema``."""
    return pa.schema([arrow.arrow_field(field) for field in fields_of(schema)])


def passes_as_is(data_type: t.DataType) -> bool:
    """Tell whether Spark takes Arrow's values of a type unchanged when it makes a frame."""
    is_collated = isinstance(data_type, t.String) and data_type.is_collated
    return isinstance(data_type, _PLAIN) and not is_collated


def has_variant(data_type: s.DataType) -> bool:
    """Tell whether a value of a type of Spark's is a VARIANT, or has one inside."""
    match data_type:
        case s.StructType():
            return any(has_variant(field.dataType) for field in data_type.fields)
        case s.ArrayType():
            return has_variant(data_type.elementType)
        case s.MapType():
            return has_variant(data_type.keyType) or has_variant(data_type.valueType)
    return isinstance(data_type, s.VariantType)


def struct_type(columns: Sequence[Column]) -> StructType:
    """Return columns of a table as a schema of Spark."""
    return struct_of([column.field for column in columns])


def struct_of(fields: Sequence[t.Field]) -> StructType:
    """Return fields as a schema of Spark."""
    values = [type_json.field_to_json(field) for field in fields]
    return StructType.fromJson({"type": "struct", "fields": values})


def spark_type(data_type: t.DataType) -> s.DataType:
    """Return a type as one of Spark's."""
    return struct_of([t.Field("value", data_type, True)]).fields[0].dataType


def cast_text(data_type: t.DataType) -> str:
    """Return the SQL of a type for a CAST, in which each field of a struct may be NULL.

    Spark refuses a cast to a field that is NOT NULL; writers refuse a NULL in it.
    """
    return str(_nullable(data_type))


def _nullable(data_type: t.DataType) -> t.DataType:
    match data_type:
        case t.Array(element):
            return t.Array(_nullable(element))
        case t.Map(key, value):
            return t.Map(_nullable(key), _nullable(value))
        case t.Struct(fields):
            return t.Struct(
                tuple(t.Field(field.name, _nullable(field.type), True) for field in fields)
            )
    return data_type


def named_columns(schema: TableSchema, names: Sequence[str] | None) -> tuple[Column, ...]:
    """Return the columns of these names in this order, the visible ones by default.

    SchemaMismatchError if the table has no such column.
    """
    if names is None:
        return schema.visible_columns
    try:
        return tuple(schema.column(name) for name in names)
    except errors.SchemaError as error:
        raise errors.SchemaMismatchError(str(error)) from None


def check_readable(schema: TableSchema, requested: StructType) -> tuple[Column, ...]:
    """Return the columns of the table that ``requested`` names, in its order.

    SchemaMismatchError if a column is missing, has another type in the table, or may be NULL in
    the table and not in ``requested``.
    """
    fields = _requested_fields(requested)
    columns = named_columns(schema, [field.name for field in fields])
    _check(fields, columns)
    return columns


def check_feed_readable(schema: TableSchema, requested: StructType) -> tuple[t.Field, ...]:
    """Return the fields of the table's change feed that ``requested`` names, in its order.

    Errors as for `check_readable`; SchemaError if the table has no feed because of its columns.
    """
    fields = _requested_fields(requested)
    columns = feed_fields(schema, [field.name for field in fields])
    _check(fields, columns)
    return columns


def _requested_fields(schema: StructType) -> tuple[t.Field, ...]:
    fields = fields_of(schema)
    if not fields:
        raise errors.SchemaMismatchError("the given schema has no columns; name at least one")
    return fields


def _check(fields: Sequence[t.Field], columns: Sequence[Column | t.Field]) -> None:
    """SchemaMismatchError unless fields can hold what columns do, pair by pair."""
    for field, column in zip(fields, columns, strict=True):
        if not _holds(field.type, column.type):
            raise errors.SchemaMismatchError(
                f"the column {column.name!r} is {column.type} in the table and {field.type} in "
                "the given schema; read it as it is and cast it afterwards"
            )
        if column.nullable and not field.nullable:
            raise errors.SchemaMismatchError(
                f"the column {column.name!r} may be NULL in the table and is NOT NULL in the "
                "given schema"
            )


def _holds(wide: t.DataType, narrow: t.DataType) -> bool:
    """Tell whether every value of ``narrow`` is one of ``wide``; they may differ in NULLs only."""
    match wide, narrow:
        case t.Array(), t.Array():
            return _admits(wide.contains_null, narrow.contains_null) and _holds(
                wide.element, narrow.element
            )
        case t.Map(), t.Map():
            return (
                _admits(wide.value_contains_null, narrow.value_contains_null)
                and _holds(wide.key, narrow.key)
                and _holds(wide.value, narrow.value)
            )
        case t.Struct(), t.Struct():
            return len(wide.fields) == len(narrow.fields) and all(
                field.name == narrow_field.name
                and _admits(field.nullable, narrow_field.nullable)
                and _holds(field.type, narrow_field.type)
                for field, narrow_field in zip(wide.fields, narrow.fields, strict=True)
            )
    return wide == narrow


def _admits(wide: bool, narrow: bool) -> bool:
    return wide or not narrow


def can_store(value_type: s.DataType, stored_type: s.DataType) -> bool:
    """Tell whether a value of a type may be assigned to a column of another, by the ANSI rule.

    Numbers become numbers, dates and timestamps each other, and simple values text.
    """
    if value_type == stored_type or isinstance(value_type, s.NullType):
        return True
    if isinstance(value_type, s.NumericType) and isinstance(stored_type, s.NumericType):
        return True
    if isinstance(value_type, _MOMENTS) and isinstance(stored_type, _MOMENTS):
        return True
    if isinstance(stored_type, s.StringType):
        return not isinstance(value_type, _NOT_TEXT)
    if isinstance(value_type, s.ArrayType) and isinstance(stored_type, s.ArrayType):
        return can_store(value_type.elementType, stored_type.elementType)
    if isinstance(value_type, s.MapType) and isinstance(stored_type, s.MapType):
        return can_store(value_type.keyType, stored_type.keyType) and can_store(
            value_type.valueType, stored_type.valueType
        )
    if isinstance(value_type, s.StructType) and isinstance(stored_type, s.StructType):
        return len(value_type) == len(stored_type) and all(
            can_store(field.dataType, stored_field.dataType)
            for field, stored_field in zip(value_type, stored_type, strict=True)
        )
    return type(value_type) is type(stored_type)
