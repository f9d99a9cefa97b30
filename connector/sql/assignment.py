"""What an expression becomes when it is stored in a column.

The rule is that of SQL and of Spark's ``storeAssignmentPolicy=ANSI``: numbers become numbers,
moments moments, and anything simple text; a value that does not fit is an error. Text becomes
nothing else by itself.
Does not know: statements, rows.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import types as s

from relstate.connector.types import struct_type
from relstate.storage import Column as TableColumn
from relstate.storage import TableDefinition, errors

_MOMENTS = (s.DateType, s.TimestampType, s.TimestampNTZType)
_NOT_TEXT = (s.ArrayType, s.MapType, s.StructType, s.VariantType)


class Assigner:
    """Stores expressions in the columns of one table."""

    def __init__(self, definition: TableDefinition, is_ansi: bool) -> None:
        """``is_ansi``: whether casts of the session fail where a value does not fit."""
        self._name = definition.name
        self._is_ansi = is_ansi
        columns = definition.schema.columns
        fields = struct_type(columns).fields
        self._types = {
            column.id: field.dataType for column, field in zip(columns, fields, strict=True)
        }

    def __call__(self, found: s.DataType, value: Column, column: TableColumn) -> Column:
        """Return what is stored of a value of type ``found``, under the column's name.

        SchemaMismatchError if nothing of that type goes into the column.
        """
        wanted = self._types[column.id]
        if not _can_store(found, wanted):
            raise errors.SchemaMismatchError(
                f"table {self._name}: an expression of type {found.simpleString()} cannot be "
                f"stored in the column {column.name!r} of type {column.type}; cast it"
            )
        # Without ANSI a cast would lose what does not fit in silence; the writer refuses it.
        if found == wanted or not (self._is_ansi or isinstance(found, s.NullType)):
            return value.alias(column.name)
        return value.cast(wanted).alias(column.name)


def _can_store(found: s.DataType, wanted: s.DataType) -> bool:
    if found == wanted or isinstance(found, s.NullType):
        return True
    if isinstance(found, s.NumericType) and isinstance(wanted, s.NumericType):
        return True
    if isinstance(found, _MOMENTS) and isinstance(wanted, _MOMENTS):
        return True
    if isinstance(wanted, s.StringType):
        return not isinstance(found, _NOT_TEXT)
    if isinstance(found, s.ArrayType) and isinstance(wanted, s.ArrayType):
        return _can_store(found.elementType, wanted.elementType)
    if isinstance(found, s.MapType) and isinstance(wanted, s.MapType):
        return _can_store(found.keyType, wanted.keyType) and _can_store(
            found.valueType, wanted.valueType
        )
    if isinstance(found, s.StructType) and isinstance(wanted, s.StructType):
        return len(found) == len(wanted) and all(
            _can_store(one.dataType, other.dataType)
            for one, other in zip(found, wanted, strict=True)
        )
    return type(found) is type(wanted)
