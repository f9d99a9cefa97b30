"""What is stored of the value of an expression, by the rule of SQL and of Spark.

``storeAssignmentPolicy=ANSI``: a number may become any number, a date or timestamp any of these,
any simple value text; a value that does not fit is an error.
Does not know: statements, tables.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, NullType

from relstate.connector.types import can_store
from relstate.storage import errors


def stored_value(
    frame: DataFrame, name: str, stored_type: DataType, what: str, *, is_ansi: bool
) -> Column:
    """Return what is stored of a column of a frame in what has another type.

    ``what``: where it is stored, for messages. SchemaMismatchError if nothing of the column's type
    can be stored there.
    """
    value_type = frame.schema[name].dataType
    if not can_store(value_type, stored_type):
        raise errors.SchemaMismatchError(
            f"{what}: an expression of type {value_type.simpleString()} cannot be stored where the "
            f"type is {stored_type.simpleString()}; cast it"
        )
    value = f.col(name)
    # Without ANSI mode a cast would silently lose what does not fit; the writer refuses it.
    is_safe = is_ansi or isinstance(value_type, NullType)
    return value.cast(stored_type) if value_type != stored_type and is_safe else value
