"""Values of a source as values of a table's columns, where Spark compares the two exactly.

Promises: a value that is returned equals the same values of the column as it does in Spark.
Does not know: which values are compared, or why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql import types as s

from relstate.connector.types import struct_type
from relstate.storage import Column

_MOST_DIGITS = 38
# Their values are digits before the point.
_DIGITS: Mapping[s.DataType, int] = {
    s.ByteType(): 3,
    s.ShortType(): 5,
    s.IntegerType(): 10,
    s.LongType(): 20,
}


def comparable_values(
    frame: DataFrame, texts: Sequence[str], columns: Sequence[Column]
) -> list[str] | None:
    """Return expressions as values of columns that equal them; NULL where no value does.

    None if Spark compares one of them in a type in which other values may be equal to it.
    """
    fields = frame.select(*map(f.expr, texts)).schema.fields
    values = []
    for text, field, column in zip(texts, fields, columns, strict=True):
        (stored,) = struct_type([column]).fields
        if isinstance(stored.dataType, s.FractionalType) and not isinstance(
            stored.dataType, s.DecimalType
        ):
            # Of floats, equal ones may differ: 0.0 and -0.0.
            return None
        if field.dataType == stored.dataType:
            values.append(text)
        elif _compare_exactly(field.dataType, stored.dataType):
            value = f"try_cast(({text}) AS {column.type})"
            values.append(f"CASE WHEN {value} = ({text}) THEN {value} END")
        else:
            return None
    return values


def _compare_exactly(left: s.DataType, right: s.DataType) -> bool:
    """Return whether two types are of exact numbers that Spark compares without rounding."""
    sizes = [_digits(kind) for kind in (left, right)]
    whole = max((size[0] for size in sizes), default=0)
    fraction = max((size[1] for size in sizes), default=0)
    return all(size != (0, 0) for size in sizes) and whole + fraction <= _MOST_DIGITS


def _digits(kind: s.DataType) -> tuple[int, int]:
    """Return the digits before and after the point of an exact number; (0, 0) for others."""
    if isinstance(kind, s.DecimalType):
        return kind.precision - kind.scale, kind.scale
    return _DIGITS.get(kind, 0), 0
