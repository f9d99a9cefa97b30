"""What is stored of the value of an expression, by the rule of SQL and of Spark.

``storeAssignmentPolicy=ANSI``: a number may become any number, a date or timestamp any of these,
any simple value text; a value that does not fit is an error.
Does not know: statements, tables.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, NullType

from relstate.connector.types import can_store
from relstate.storage import errors


def stored_value(
    frame: DataFrame, name: str, stored: tuple[DataType, str], description: str, *, is_ansi: bool
) -> str:
    """Return the SQL of what is stored of a column of a frame in what has another type.

    ``name``: one that needs no quotes. ``stored``: that type, and its SQL. ``description``: where
    it is stored, for messages. SchemaMismatchError if nothing of the column's type can be
    stored there.
    """
    stored_type, type_text = stored
    value_type = frame.schema[name].dataType
    if not can_store(value_type, stored_type):
        raise errors.SchemaMismatchError(
            f"{description}: an expression of type {value_type.simpleString()} cannot be stored "
            f"where the type is {stored_type.simpleString()}; cast it"
        )
    # Without ANSI mode a cast would silently lose what does not fit; the writer refuses it.
    is_safe = is_ansi or isinstance(value_type, NullType)
    is_cast = value_type != stored_type and is_safe
    return f"CAST({name} AS {type_text})" if is_cast else name
