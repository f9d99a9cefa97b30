"""Values of measures as JSON values, in which they travel from the driver to the tasks.

Promises: ``value_from_json(value_to_json(v), schema) == v``; whatever else comes is refused, as it
may come from outside. Types are not sent: they follow from the columns.
Does not know: what a value means.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, TypeAlias

from ..errors import UnsupportedTypeError
from ..predicate.condition_json import condition_from_json, condition_to_json
from ..schema import types as t
from ..schema.ddl import parse_type
from ..schema.schema import TableSchema
from .value import (
    Arithmetic,
    Choice,
    ColumnValue,
    NumberValue,
    Value,
    arithmetic,
    choice,
    number_value,
)

Json: TypeAlias = Any


def value_to_json(value: Value) -> Json:
    """Return a value as JSON values; a column is its name."""
    match value:
        case ColumnValue(name):
            return name
        case NumberValue(number, data_type):
            return {"number": str(number), "type": str(data_type)}
        case Arithmetic(operator, left, right):
            return {"operator": operator, "of": [value_to_json(left), value_to_json(right)]}
        case Choice(branches, otherwise):
            return {
                "branches": [
                    [condition_to_json(condition), value_to_json(branch)]
                    for condition, branch in branches
                ],
                "otherwise": None if otherwise is None else value_to_json(otherwise),
            }
    raise AssertionError(f"unknown value {value!r}")


def value_from_json(value: Json, schema: TableSchema) -> Value:
    """Return the value that `value_to_json` made JSON of.

    KeyError, TypeError, ValueError, ArithmeticError, RecursionError or one of relstate's errors if
    it is not over the columns of the schema.
    """
    if isinstance(value, str):
        column = schema.column(value)
        return ColumnValue(column.name, column.type)
    if "number" in value:
        data_type = parse_type(value["type"])
        return number_value(_number(value["number"], data_type), data_type)
    if "operator" in value:
        left, right = (value_from_json(operand, schema) for operand in value["of"])
        return arithmetic(value["operator"], left, right)
    branches = tuple(
        (condition_from_json(condition, schema), value_from_json(branch, schema))
        for condition, branch in value["branches"]
    )
    otherwise = value["otherwise"]
    return choice(branches, None if otherwise is None else value_from_json(otherwise, schema))


def _number(text: str, data_type: t.DataType) -> int | float | Decimal:
    match data_type:
        case t.Int() | t.BigInt():
            return int(text)
        case t.Double():
            return float(text)
        case t.Decimal():
            return Decimal(text)
    raise UnsupportedTypeError(f"there is no number of type {data_type}")
