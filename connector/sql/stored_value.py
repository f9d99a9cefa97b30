"""What is stored of the value of an expression, by the rule of SQL and of Spark.

``storeAssignmentPolicy=ANSI``: a number may become any number, a date or timestamp any of these,
any simple value text; a value that does not fit is an error. The fields of structs are found by
name, as Spark does in UPDATE, MERGE and INSERT … BY NAME, or by position, as in other INSERTs.
Does not know: statements, tables.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql.types import NullType

from relstate.connector.types import can_store, cast_text, spark_type
from relstate.storage import errors, types

from .struct_fields import StructFields


@dataclass(frozen=True, slots=True)
class StoredValues:
    """The rule by which a statement stores values.

    ``is_ansi``: the session's casts fail for values that do not fit. ``by_name``: see
    `StructFields`.
    """

    is_ansi: bool
    by_name: bool

    def text(self, frame: DataFrame, name: str, stored: types.DataType, description: str) -> str:
        """Return the SQL of what is stored of a column of a frame in what has another type.

        ``name``: one that needs no quotes. ``description``: where it is stored, for messages.
        SchemaMismatchError if nothing of the column's type can be stored there.
        """
        value_type, stored_type = frame.schema[name].dataType, spark_type(stored)
        fields = StructFields(description, self.by_name, renames=not self.is_ansi)
        moved_type = fields.type_of(value_type, stored_type)
        if not can_store(moved_type, stored_type):
            raise errors.SchemaMismatchError(
                f"{description}: an expression of type {value_type.simpleString()} cannot be "
                f"stored where the type is {stored_type.simpleString()}; cast it"
            )
        value = fields.text_of(name, value_type, stored_type)
        # Without ANSI mode a cast would silently lose what does not fit; the writer refuses it.
        is_safe = self.is_ansi or isinstance(value_type, NullType)
        if value_type == stored_type or not is_safe:
            return value
        return f"CAST({value} AS {cast_text(stored)})"
