"""Expressions as JSON values, in which they travel to the tasks and are kept in the log.

Promises: ``value_from_json(value_to_json(v), schema) == v``; whatever else comes is refused, as it
may come from outside. Types are not sent: they follow from the columns. On disk: never change a
name.
Does not know: what an expression means.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeAlias

from ..errors import UnsupportedTypeError
from ..predicate.condition_json import condition_from_json, condition_to_json
from ..schema import types as t
from ..schema.ddl import parse_type
from ..schema.schema import TableSchema
from .arithmetic import Arithmetic, Signed, arithmetic, signed
from .boolean import Compared, ConditionValue, IsNull, Junction, Negation, compared
from .calendar import (
    DatePart,
    DaySum,
    EpochNumber,
    TimeCast,
    Truncated,
    date_part,
    day_sum,
    epoch_number,
    time_cast,
    truncated,
)
from .choice import Choice, Coalesce, Extreme, choice, coalesce, extreme
from .column import ColumnValue
from .kinds import is_whole
from .literal import Literal, literal
from .number_cast import NumberCast, number_cast
from .quotient import Quotient, quotient
from .text import (
    Concat,
    Length,
    Substring,
    TextCast,
    Trim,
    concat,
    length,
    substring,
    text_cast,
    trim,
)
from .value import Value

Json: TypeAlias = Any


def value_to_json(value: Value) -> Json:
    """Return an expression as JSON values; a column is its name."""
    of = [value_to_json(operand) for operand in value.operands]
    match value:
        case ColumnValue(name):
            return name
        case Literal(content, data_type):
            text = None if content is None else str(content)
            return {"kind": "literal", "value": text, "type": str(data_type)}
        case Arithmetic(operator) | Quotient(operator):
            return {"kind": "operator", "operator": operator, "of": of}
        case Signed(function) | EpochNumber(function) | DaySum(function) | Trim(function):
            return {"kind": "function", "function": function, "of": of}
        case Extreme(operator):
            return {"kind": "extreme", "operator": operator, "of": of}
        case Coalesce():
            return {"kind": "coalesce", "of": of}
        case Choice(_, otherwise):
            return {"kind": "choice", "has_otherwise": otherwise is not None, "of": of}
        case NumberCast(_, data_type):
            return {"kind": "number_cast", "type": str(data_type), "of": of}
        case TextCast():
            return {"kind": "text_cast", "of": of}
        case TimeCast(_, data_type, offset):
            return {"kind": "time_cast", "type": str(data_type), "offset": offset, "of": of}
        case DatePart(part, _, offset):
            return {"kind": "date_part", "part": part, "offset": offset, "of": of}
        case Truncated(unit, _, offset):
            return {"kind": "truncated", "unit": unit, "offset": offset, "of": of}
        case Length(unit):
            return {"kind": "length", "unit": unit, "of": of}
        case Substring(_, position, count):
            return {"kind": "substring", "position": position, "length": count, "of": of}
        case Concat():
            return {"kind": "concat", "of": of}
        case Compared(_, operator, _):
            return {"kind": "compared", "operator": operator, "of": of}
        case Junction(operator):
            return {"kind": "junction", "operator": operator, "of": of}
        case Negation():
            return {"kind": "not", "of": of}
        case IsNull():
            return {"kind": "is_null", "of": of}
        case ConditionValue(condition):
            return {"kind": "condition", "condition": condition_to_json(condition)}
    raise AssertionError(f"unknown expression {value!r}")


def value_from_json(value: Json, schema: TableSchema) -> Value:
    """Return the expression that `value_to_json` made JSON of.

    KeyError, TypeError, ValueError, ArithmeticError, RecursionError or one of relstate's errors if
    it is not one over the columns of the schema.
    """
    if isinstance(value, str):
        return ColumnValue.named(value, schema)
    match value["kind"]:
        case "literal":
            data_type = parse_type(value["type"])
            return literal(_content(value["value"], data_type), data_type)
        case "condition":
            return ConditionValue(condition_from_json(value["condition"], schema))
    operands = [value_from_json(operand, schema) for operand in value["of"]]
    return _MAKERS[value["kind"]](value, operands)


def _operator(value: Json, operands: list[Value]) -> Value:
    make = arithmetic if value["operator"] in ("+", "-", "*") else quotient
    return make(value["operator"], *operands)


def _function(value: Json, operands: list[Value]) -> Value:
    name = value["function"]
    for prefix, make in (
        ("unix_", epoch_number), ("date", day_sum), ("trim", trim), ("ltrim", trim),
        ("rtrim", trim),
    ):  # fmt: skip
        if name.startswith(prefix):
            return make(name, *operands)
    return signed(name, *operands)


def _choice(value: Json, operands: list[Value]) -> Value:
    otherwise = operands.pop() if value["has_otherwise"] else None
    return choice(list(zip(operands[::2], operands[1::2], strict=True)), otherwise)


def _junction(value: Json, operands: list[Value]) -> Value:
    left, right = operands
    if value["operator"] not in ("and", "or"):
        raise ValueError(f"unknown operator {value['operator']!r}")
    return Junction(value["operator"], _boolean(left), _boolean(right))


def _only(operands: list[Value]) -> Value:
    (operand,) = operands
    return operand


def _boolean(operand: Value) -> Value:
    if not isinstance(operand.type, t.Boolean):
        raise UnsupportedTypeError(f"a condition is a BOOLEAN, not {operand.type}")
    return operand


_MAKERS: dict[str, Callable[[Json, list[Value]], Value]] = {
    "operator": _operator,
    "function": _function,
    "extreme": lambda value, of: extreme(value["operator"], of),
    "coalesce": lambda _, of: coalesce(of),
    "choice": _choice,
    "number_cast": lambda value, of: number_cast(_only(of), parse_type(value["type"])),
    "text_cast": lambda _, of: text_cast(*of),
    "time_cast": lambda value, of: time_cast(_only(of), parse_type(value["type"]), value["offset"]),
    "date_part": lambda value, of: date_part(value["part"], _only(of), value["offset"]),
    "truncated": lambda value, of: truncated(value["unit"], _only(of), value["offset"]),
    "length": lambda value, of: length(value["unit"], *of),
    "substring": lambda value, of: substring(_only(of), value["position"], value["length"]),
    "concat": lambda _, of: concat(of),
    "compared": lambda value, of: compared(of[0], value["operator"], *of[1:]),
    "junction": _junction,
    "not": lambda _, of: Negation(_boolean(*of)),
    "is_null": lambda _, of: IsNull(*of),
}


def _content(text: str | None, data_type: t.DataType) -> Any:
    if text is None or isinstance(data_type, t.String):
        return text
    if is_whole(data_type) or isinstance(data_type, t.Date | t.Timestamp | t.TimestampNtz):
        return int(text)
    match data_type:
        case t.Double():
            return float(text)
        case t.Decimal():
            return Decimal(text)
        case t.Boolean():
            return text == str(True)
    raise UnsupportedTypeError(f"there is no literal of type {data_type}")
