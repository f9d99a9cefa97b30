"""Arguments of `apply_changes` that are expressions or names of columns of its source.

Promises: an argument that does not fit the source is an OptionError with its name and its value.
Does not know: what the arguments are for.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeAlias

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import BooleanType, DataType, NullType

from relstate.connector.failure import describe_error, without_context_log
from relstate.storage import errors

Expression: TypeAlias = str | Column


def expression_type(source: DataFrame, expression: Expression, argument: str) -> DataType:
    """Return the type of an expression over a source. OptionError if Spark cannot read it."""
    if not isinstance(expression, str | Column):
        raise errors.OptionError(
            f"{argument} is {expression!r}: pass an expression in SQL, or a Column"
        )
    try:
        with without_context_log():
            return source.select(as_column(expression)).schema.fields[0].dataType
    except (AnalysisException, ParseException) as error:
        raise errors.OptionError(
            f"{argument} is {_shown(expression)}: {describe_error(error)}"
        ) from None


def check_condition(source: DataFrame, expression: Expression | None, argument: str) -> None:
    """OptionError for an expression that is not a condition over a source."""
    if expression is None:
        return
    data_type = expression_type(source, expression, argument)
    if not isinstance(data_type, BooleanType | NullType):
        raise errors.OptionError(
            f"{argument} is {_shown(expression)}, of type {data_type.simpleString()}: pass a "
            "condition, such as \"op = 'delete'\""
        )


def _shown(expression: Expression) -> str:
    return repr(expression) if isinstance(expression, str) else str(expression)


def as_column(expression: Expression) -> Column:
    """Return an expression in SQL, or a Column, as a Column."""
    return f.expr(expression) if isinstance(expression, str) else expression


def required(name: str) -> Column:
    """Return an expression that fails with NullValueError: an argument is NULL in a change."""
    sentence = f"{name} is NULL in a change: leave it out, or correct it"
    return f.raise_error(f.lit(f"\n{errors.__name__}.NullValueError: {sentence}\n"))


def named_by(source: DataFrame, columns: Sequence[Expression], argument: str) -> tuple[str, ...]:
    """Return the names of columns that are given by name or as an unqualified ``col``.

    OptionError for one name alone.
    """
    if isinstance(columns, str | Column):
        raise errors.OptionError(
            f"{argument} is {_shown(columns)}: pass a list, [{_shown(columns)}]"
        )
    present = {name.lower() for name in source.columns}
    return tuple(
        column if isinstance(column, str) else _name(column, present) for column in columns
    )


def _name(column: Column, present: Collection[str]) -> str:
    text = str(column).removeprefix("Column<'").removesuffix("'>")
    # Spark shows a name as it is, in backticks if it has a dot; Spark Connect as it was written.
    candidates = (text, text[1:-1], text[1:-1].replace("``", "`"))
    return next((name for name in candidates if name.lower() in present), text)
