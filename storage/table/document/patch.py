"""Patches: batches of what is to change of rows, in the meaning of a JSON merge patch (RFC 7396).

A column that a batch does not have stays; NULL removes; structs and maps are merged, field by field
and entry by entry; all else is replaced. Of a struct a patch may have some fields only.

Promises: a patch is cast exactly to the table's types; what does not fit is refused.
Does not know: entries.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ...errors import SchemaMismatchError
from ...schema import types as t
from ...schema.arrow import arrow_type
from ...schema.batch import BatchShape
from ...schema.schema import Column, TableSchema
from .containers import shape_of


def conform_patch(schema: TableSchema, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a patch with the table's names and types; the key first, in its order.

    SchemaMismatchError, NullKeyError, ValueRangeError as of `BatchShape.conform`;
    SchemaMismatchError for a patch of the key alone.
    """
    patch_types = {field.name.lower(): field.type for field in batch.schema}
    patched = [column for column in schema.value_columns if column.name.lower() in patch_types]
    if not patched:
        names = ", ".join(column.name for column in schema.value_columns)
        raise SchemaMismatchError(
            f"a patch has the key and the columns that change, some of {names}; this one has "
            f"{', '.join(batch.schema.names) or 'no columns'}"
        )
    keys = [column.name for column in schema.key_columns]
    fields = [
        pa.field(column.name, arrow_type(column.type), False) for column in schema.key_columns
    ]
    fields += [_patch_field(column, patch_types[column.name.lower()]) for column in patched]
    return BatchShape(pa.schema(fields), keys).conform(batch)


def _patch_field(column: Column, source: pa.DataType) -> pa.Field:
    return pa.field(column.name, patch_type([column.name], column.type, source))


def patch_type(names: Sequence[str], target: t.DataType, source: pa.DataType) -> pa.DataType:
    """Return the type of patches for values of type ``target`` that come as type ``source``.

    ``names``: where the values are, for messages.
    """
    if shape_of(target, 1).has_parts:
        match target:
            case t.Struct(fields) if pa.types.is_struct(source):
                return pa.struct(_fields(names, fields, source))
            case t.Map(key, item, _) if pa.types.is_map(source):
                return pa.map_(
                    arrow_type(key), pa.field("value", patch_type(names, item, source.item_type))
                )
    return arrow_type(target)


def _fields(
    names: Sequence[str], fields: Sequence[t.Field], struct_type: pa.StructType
) -> list[pa.Field]:
    """Return the fields of a struct that a patch has."""
    types = {field.name.lower(): field.type for field in struct_type}
    field_names = {field.name.lower() for field in fields}
    for field in struct_type:
        if field.name.lower() not in field_names:
            raise SchemaMismatchError(
                f"{'.'.join(names)} has no field {field.name!r}; its fields are "
                f"{', '.join(field.name for field in fields)}"
            )
    return [
        pa.field(
            field.name, patch_type([*names, field.name], field.type, types[field.name.lower()])
        )
        for field in fields
        if field.name.lower() in types
    ]
