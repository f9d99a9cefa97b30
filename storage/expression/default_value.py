"""The expression of a DEFAULT, read to the value that it has in a column.

A constant, or an expression of constants, is folded to its value. A function of the clock alone is
kept, and has its value when a write is planned.

Does not know: tables, or what a default is used for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..errors import SchemaError, SchemaMismatchError, UnsupportedExpressionError
from ..instant import zone_of
from ..predicate.constant import Constant, cast
from ..predicate.operand import OperandReader
from ..schema import types as t
from ..schema.default import ClockDefault, ClockName, ColumnDefault
from ..schema.schema import Column, TableSchema
from ..syntax import parse_condition, tokenize, without_outer_comments
from .binding import bind_value
from .value import DESCRIPTIONS, Failure

if TYPE_CHECKING:
    from ..syntax import Tree

_ADVICE = (
    "a DEFAULT is a constant (a number, text, bytes, TRUE, a date or time), an expression of "
    "constants that is computed without Spark, or one of the functions current_timestamp(), now(), "
    "localtimestamp() and current_date() alone: give other values in the rows that are written"
)
_CLOCKS: dict[str, ClockName] = {
    "current_timestamp": "timestamp", "now": "timestamp", "localtimestamp": "timestamp",
    "current_date": "date", "curdate": "date",
}  # fmt: skip
# These are functions without parentheses, too.
_BARE = ("current_timestamp", "localtimestamp", "current_date")
_TIMES = (t.Date, t.Timestamp, t.TimestampNtz)


def read_default(
    expression: str, column: Column, schema: TableSchema
) -> ColumnDefault | ClockDefault | None:
    """Return the default that an expression is for a column; None for NULL.

    Its text is kept without comments around it. Times without a zone are in UTC. SchemaError for
    text that is not SQL, or another value than the type of the column has;
    UnsupportedExpressionError for what is neither computed of constants nor a function of the
    clock.
    """
    t.check_text("a default", expression)
    description = f"the DEFAULT {expression} of the column {column.name!r}"
    try:
        tree = parse_condition(expression)
    except (SchemaError, UnsupportedExpressionError) as error:
        raise UnsupportedExpressionError(f"{description}: {error}; {_ADVICE}") from None
    # SHOW CREATE TABLE writes it with other text behind it.
    tokens = tokenize(expression)
    words = [expression[token.start : token.end + 1] for token in tokens]
    expression = without_outer_comments(expression)
    clock = _clock_of(words, schema)
    if clock is not None:
        if not isinstance(column.type, _TIMES):
            raise SchemaError(
                f"{description}: the column is {column.type}, and the present time is a DATE, a "
                "TIMESTAMP or a TIMESTAMP_NTZ"
            )
        return ClockDefault(expression, clock)
    constant = _constant(tree, schema, description)
    if constant.value is None:
        return None
    if isinstance(constant.type, t.String) and isinstance(column.type, t.String):
        return ColumnDefault.of(expression, constant.value)
    try:
        return ColumnDefault.of(expression, cast(constant, column.type, zone_of("UTC")).value)
    except UnsupportedExpressionError as error:
        raise SchemaError(f"{description}: {error}") from None


def _clock_of(words: Sequence[str], schema: TableSchema) -> ClockName | None:
    """Return what an expression is that is a function of the clock alone, given its words."""
    while len(words) > 2 and (words[0], words[-1]) == ("(", ")"):
        words = words[1:-1]
    name = words[0].lower()
    is_column = any(column.name.lower() == name for column in schema.columns)
    is_bare = len(words) == 1 and name in _BARE and not is_column
    return _CLOCKS.get(name) if is_bare or list(words[1:]) == ["(", ")"] else None


def _constant(tree: Tree, schema: TableSchema, description: str) -> Constant:
    """Return the value of an expression of constants. Errors as of `read_default`."""
    try:
        constant = OperandReader(schema, zone_of("UTC")).read(tree)
        if isinstance(constant, Constant):
            return constant
        raise UnsupportedExpressionError("it reads a column")
    except (SchemaError, SchemaMismatchError, UnsupportedExpressionError) as error:
        refusal = error
    try:
        value = bind_value(tree, schema, "UTC")
    except (SchemaError, SchemaMismatchError, UnsupportedExpressionError) as error:
        is_name = isinstance(refusal, SchemaMismatchError)
        raise UnsupportedExpressionError(
            f"{description}: {refusal if is_name else error}; {_ADVICE}"
        ) from None
    if next(value.columns(), None) is not None:
        raise UnsupportedExpressionError(f"{description}: it reads a column; {_ADVICE}")
    values, failures = value.computed(_one_row())
    if failures[0]:
        raise SchemaError(f"{description}: it {DESCRIPTIONS[Failure(int(failures[0]))]}")
    return Constant(_content(values), value.type)


def _one_row() -> pa.RecordBatch:
    """Return a batch of one row without columns."""
    return pa.RecordBatch.from_struct_array(pa.array([{}], pa.struct([])))


def _content(values: pa.Array) -> Any:
    """Return the only value of an array as a `Constant` has it."""
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    elif pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    return values[0].as_py()
