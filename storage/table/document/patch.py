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
    given = {field.name.lower(): field.type for field in batch.schema}
    patched = [column for column in schema.value_columns if column.name.lower() in given]
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
    fields += [_patch_field(column, given[column.name.lower()]) for column in patched]
    return BatchShape(pa.schema(fields), keys).conform(batch)


def _patch_field(column: Column, given: pa.DataType) -> pa.Field:
    return pa.field(column.name, patch_type([column.name], column.type, given))


def patch_type(names: Sequence[str], target: t.DataType, given: pa.DataType) -> pa.DataType:
    """Return the type of patches, given in one type, of values of another.

    ``names``: where the values are, for messages.
    """
    if shape_of(target, 1).has_parts:
        match target:
            case t.Struct(fields) if pa.types.is_struct(given):
                return pa.struct(_fields(names, fields, given))
            case t.Map(key, item, _) if pa.types.is_map(given):
                return pa.map_(
                    arrow_type(key), pa.field("value", patch_type(names, item, given.item_type))
                )
    return arrow_type(target)


def _fields(
    names: Sequence[str], fields: Sequence[t.Field], given: pa.StructType
) -> list[pa.Field]:
    """Return the fields of a struct that a patch has."""
    types = {field.name.lower(): field.type for field in given}
    known = {field.name.lower() for field in fields}
    for field in given:
        if field.name.lower() not in known:
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
