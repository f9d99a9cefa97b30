"""The expression of a DEFAULT, read to the value that it has in a column.

Does not know: tables, or what a default is used for.
"""

from __future__ import annotations

from ..errors import SchemaError, SchemaMismatchError, UnsupportedExpressionError
from ..instant import zone_of
from ..schema import types as t
from ..schema.default import ColumnDefault
from ..schema.schema import Column, TableSchema
from ..syntax import parse_condition, tokenize
from .constant import Constant, cast
from .operand import OperandReader

_ADVICE = (
    "a DEFAULT is a constant (a number, text, bytes, TRUE, a date or time, or a cast of one), "
    "which every writer knows without Spark: give other values in the rows that are written"
)


def read_default(expression: str, column: Column, schema: TableSchema) -> ColumnDefault | None:
    """Return the default that an expression is for a column; None for NULL.

    Its text is kept without comments around it. Times without a zone are in UTC. SchemaError for
    text that is not SQL, or another value than the type of the column has;
    UnsupportedExpressionError for what is not a constant.
    """
    t.check_text("a default", expression)
    what = f"the DEFAULT {expression} of the column {column.name!r}"
    try:
        constant = OperandReader(schema, zone_of("UTC")).read(parse_condition(expression))
        if not isinstance(constant, Constant):
            raise UnsupportedExpressionError("it reads a column")
    except (SchemaError, SchemaMismatchError, UnsupportedExpressionError) as error:
        raise UnsupportedExpressionError(f"{what}: {error}; {_ADVICE}") from None
    if constant.value is None:
        return None
    # SHOW CREATE TABLE writes it with other text behind it.
    tokens = tokenize(expression)
    expression = expression[tokens[0].start : tokens[-1].end + 1]
    if isinstance(constant.type, t.String) and isinstance(column.type, t.String):
        return ColumnDefault.of(expression, constant.value)
    try:
        return ColumnDefault.of(expression, cast(constant, column.type, zone_of("UTC")).value)
    except UnsupportedExpressionError as error:
        raise SchemaError(f"{what}: {error}") from None
