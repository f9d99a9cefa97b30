"""The expression of a generated column: read from SQL, and kept as text.

Does not know: rows, or who writes them.
"""

from __future__ import annotations

import json

from ..errors import (
    SchemaError,
    SchemaMismatchError,
    UnsupportedExpressionError,
    UnsupportedTypeError,
)
from ..schema import types as t
from ..schema.generated import GeneratedColumn
from ..schema.schema import Column, TableSchema
from .binding import parse_value
from .expression_json import value_from_json, value_to_json
from .kinds import is_number
from .number_cast import number_cast
from .value import Value

_ADVICE = (
    "every writer computes a generated column without Spark, by columns, constants, arithmetic, "
    "CASE, coalesce, greatest, comparisons, casts, lengths and parts of texts, and parts of dates "
    "and times: compute other values in the query that is inserted, or in a materialized view"
)


def read_generated(expression: str, column: Column, schema: TableSchema) -> GeneratedColumn:
    """Return the expression of a generated column of a table.

    Its text is kept without comments around it. Times without a zone are in UTC. SchemaError for
    text that is not SQL, an expression of another type, or one that reads the column itself;
    UnsupportedExpressionError for what is not known to be computed exactly, SchemaMismatchError for
    an unknown column.
    """
    from ..syntax import without_outer_comments

    t.check_text("the expression of a generated column", expression)
    description = f"the column {column.name!r}, GENERATED ALWAYS AS ({expression})"
    try:
        value = parse_value(expression, schema)
    except SchemaMismatchError as error:
        raise SchemaMismatchError(f"{description}: {error}") from None
    except UnsupportedExpressionError as error:
        raise UnsupportedExpressionError(f"{description}: {error}; {_ADVICE}") from None
    value = _in_type_of(column, value, description)
    names = set(value.columns())
    return GeneratedColumn(
        without_outer_comments(expression),
        json.dumps(value_to_json(value), separators=(",", ":")),
        tuple(source.id for source in schema.columns if source.name in names),
    )


def generated_value(generated: GeneratedColumn, schema: TableSchema) -> Value:
    """Return the value that a generated column of a table with a schema has."""
    return value_from_json(json.loads(generated.value), schema)


def _in_type_of(column: Column, value: Value, description: str) -> Value:
    """Return a value in the type of its column, if a cast to it fails for no value. SchemaError."""
    if value.type == column.type or (
        isinstance(value.type, t.String) and isinstance(column.type, t.String)
    ):
        return value
    try:
        cast = number_cast(value, column.type) if is_number(value.type) else None
    except UnsupportedTypeError:
        cast = None
    if cast is None or cast.own_failures:
        is_nested = isinstance(column.type, t.Array | t.Map | t.Struct)
        cast_advice = "" if is_nested else f"write CAST(… AS {column.type}), or "
        raise SchemaError(
            f"{description}: the expression is {value.type}, and the column {column.type}: "
            f"{cast_advice}declare the column as {value.type}"
        )
    return cast
