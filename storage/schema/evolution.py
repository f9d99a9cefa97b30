"""How a table's schema becomes its next version, without a touch of its rows.

Promises: columns keep their ids, new ones get ids that were never used; rows under an earlier
version are read under a later one as if they had been written so: columns that were added are NULL,
those that were widened hold the same values.
Does not know: rows, or who else alters the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..errors import SchemaError
from . import types as t
from .arrow import arrow_schema
from .schema import Column, TableSchema

# On disk: two bytes of every value tell the schema's version. Never raise it.
MAX_VERSION = 0xFFFF

_WHOLE_DIGITS = {t.TinyInt: 3, t.SmallInt: 5, t.Int: 10, t.BigInt: 19}
_WIDER: dict[type[t.DataType], tuple[type[t.DataType], ...]] = {
    t.TinyInt: (t.SmallInt, t.Int, t.BigInt, t.Float, t.Double),
    t.SmallInt: (t.Int, t.BigInt, t.Float, t.Double),
    t.Int: (t.BigInt, t.Double),
    t.Float: (t.Double,),
}


def with_columns(schema: TableSchema, fields: Sequence[t.Field]) -> TableSchema:
    """Return the schema with more columns behind its own.

    SchemaError for a name that is taken, or for NOT NULL: the rows there are have no value for it.
    """
    taken = {column.name.lower() for column in schema.columns}
    for field in fields:
        if not field.name or field.name.lower() in taken:
            raise SchemaError(
                f"the column {field.name!r} cannot be added: there is one of this name"
                if field.name
                else "a column needs a name"
            )
        if not field.nullable:
            raise SchemaError(
                f"the column {field.name!r} cannot be added as NOT NULL: the rows there are have "
                "no value for it; add it without"
            )
        taken.add(field.name.lower())
    if not fields:
        raise SchemaError("there is no column to add")
    arrow_schema(fields)
    added = (
        Column(number, field.name, field.type, field.nullable)
        for number, field in enumerate(fields, start=schema.next_column_id)
    )
    following = schema.next_column_id + len(fields)
    return _next(schema, (*schema.columns, *added), following)


def without_columns(schema: TableSchema, names: Sequence[str]) -> TableSchema:
    """Return the schema without some columns. SchemaError for one of the key, or for all."""
    dropped = {schema.column(name).id for name in names}
    for key in schema.key_columns:
        if key.id in dropped:
            raise SchemaError(
                f"the column {key.name!r} is part of the primary key and cannot be dropped"
            )
    if not dropped:
        raise SchemaError("there is no column to drop")
    return _next(schema, tuple(one for one in schema.columns if one.id not in dropped))


def renamed(schema: TableSchema, name: str, new: str) -> TableSchema:
    """Return the schema with another name for a column. SchemaError if that is taken."""
    column = schema.column(name)
    others = {one.name.lower() for one in schema.columns if one.id != column.id}
    if not new or new.lower() in others:
        raise SchemaError(f"the column {column.name!r} cannot be named {new!r}: the name is taken")
    return _replaced(schema, replace(column, name=new))


def widened(schema: TableSchema, name: str, data_type: t.DataType) -> TableSchema:
    """Return the schema with a wider type for a column.

    Wider is what holds every value of the old type unchanged: whole numbers of more bytes,
    DECIMALs of more digits on both sides, FLOAT to DOUBLE, whole numbers to DECIMAL, FLOAT or
    DOUBLE where that is exact. SchemaError for another type, or for a key column, whose bytes are
    sorted.
    """
    column = schema.column(name)
    if column.id in {key.column_id for key in schema.primary_key}:
        raise SchemaError(
            f"the column {column.name!r} is part of the primary key, so that its type stays"
        )
    if not is_wider(column.type, data_type):
        raise SchemaError(
            f"the column {column.name!r} is {column.type} and cannot become {data_type}: only a "
            "type that holds each of its values unchanged can take its place"
        )
    return _replaced(schema, replace(column, type=data_type))


def is_wider(old: t.DataType, new: t.DataType) -> bool:
    """Return whether a type holds all values of another, which it is not, unchanged."""
    if isinstance(new, t.Decimal):
        return old != new and _fits(old, new)
    return type(new) in _WIDER.get(type(old), ())


def _fits(old: t.DataType, new: t.Decimal) -> bool:
    if isinstance(old, t.Decimal):
        whole, scale = old.precision - old.scale, old.scale
    elif type(old) in _WHOLE_DIGITS:
        whole, scale = _WHOLE_DIGITS[type(old)], 0
    else:
        return False
    return new.scale >= scale and new.precision - new.scale >= whole


def _replaced(schema: TableSchema, column: Column) -> TableSchema:
    return _next(schema, tuple(column if one.id == column.id else one for one in schema.columns))


def _next(
    schema: TableSchema, columns: tuple[Column, ...], next_column_id: int | None = None
) -> TableSchema:
    if schema.version == MAX_VERSION:
        raise SchemaError(
            f"the table has had {MAX_VERSION} schemas, the most there can be; copy it to a new one"
        )
    return TableSchema(
        schema.version + 1,
        columns,
        schema.primary_key,
        schema.distribution_key,
        schema.next_column_id if next_column_id is None else next_column_id,
    )
