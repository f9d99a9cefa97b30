"""Conditions as JSON values, in which they travel from the driver to where a read is planned.

Every value is exact: a set of values is its cuts, which are integers, or bytes in hexadecimal.

Promises: ``condition_from_json(condition_to_json(c), schema) == c`` for a condition over the
schema; whatever else comes is refused, as it may come from outside.
Does not know: what a condition means.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from ..schema import types as t
from ..schema.schema import TableSchema
from .condition import (
    NEGATED,
    And,
    Comparison,
    Condition,
    IsTrue,
    Matches,
    Member,
    Or,
    Path,
    Truth,
)
from .domain import Domain, domain_of
from .extension import extension
from .valueset import Ordinal, ValueSet

Json: TypeAlias = Any

# Nothing that the binder makes is nested so deeply: its own recursion ends before.
_MOST_DEPTH = 400


def condition_to_json(condition: Condition) -> Json:
    """Return a condition as JSON values."""
    match condition:
        case Truth(value):
            return {"kind": "truth", "value": value}
        case Member(path, data_type, values, when_null):
            cuts = [cut.hex() if isinstance(cut, bytes) else cut for cut in values.cuts]
            return {
                "kind": "member",
                "column": list(path),
                "type": str(data_type),
                "cuts": cuts,
                "when_null": when_null,
            }
        case Comparison(left, operator, right, data_type, null_safe):
            return {
                "kind": "comparison",
                "left": list(left),
                "operator": operator,
                "right": list(right),
                "type": str(data_type),
                "null_safe": null_safe,
            }
        case Matches(path, pattern, expected):
            return {
                "kind": "matches",
                "column": list(path),
                "pattern": pattern,
                "expected": expected,
            }
        case And(parts):
            return {"kind": "and", "parts": [condition_to_json(part) for part in parts]}
        case Or(parts):
            return {"kind": "or", "parts": [condition_to_json(part) for part in parts]}
        case IsTrue(inner, expected):
            return {"kind": "is_true", "of": condition_to_json(inner), "expected": expected}
    return {"kind": "computed", **extension().to_json(condition)}


def condition_from_json(value: Json, schema: TableSchema, depth: int = 0) -> Condition:
    """Return the condition over a table's columns that `condition_to_json` described.

    ``depth``: of how many conditions it is a part. ValueError, KeyError or TypeError if it is not
    one.
    """
    if depth > _MOST_DEPTH:
        raise ValueError("it is nested too deeply")
    match value["kind"]:
        case "truth":
            return Truth(_flag_or_none(value["value"]))
        case "member":
            path, data_type = _column(value["column"], schema)
            _check_type(value["type"], data_type)
            values = _value_set(value["cuts"], data_type)
            return Member(path, data_type, values, _flag_or_none(value["when_null"]))
        case "comparison":
            return _comparison(value, schema)
        case "matches":
            path, data_type = _column(value["column"], schema)
            _check_type(str(t.String()), data_type)
            return Matches(path, _regex(value["pattern"]), _flag(value["expected"]))
        case "and":
            return And(_parts(value["parts"], schema, depth))
        case "or":
            return Or(_parts(value["parts"], schema, depth))
        case "is_true":
            inner = condition_from_json(value["of"], schema, depth + 1)
            return IsTrue(inner, _flag(value["expected"]))
        case "computed":
            return extension().from_json(value, schema)
    raise ValueError(f"unknown kind {value['kind']!r}")


def _comparison(value: Json, schema: TableSchema) -> Comparison:
    left, left_type = _column(value["left"], schema)
    right, right_type = _column(value["right"], schema)
    _check_type(value["type"], left_type)
    if left_type != right_type or domain_of(left_type) is None:
        raise ValueError(f"columns of types {left_type} and {right_type} do not compare")
    if value["operator"] not in NEGATED:
        raise ValueError(f"unknown operator {value['operator']!r}")
    return Comparison(left, value["operator"], right, left_type, _flag(value["null_safe"]))


def _parts(value: Json, schema: TableSchema, depth: int) -> tuple[Condition, ...]:
    if not isinstance(value, list) or not value:
        raise TypeError("parts must be a list that is not empty")
    return tuple(condition_from_json(part, schema, depth + 1) for part in value)


def _column(value: Json, schema: TableSchema) -> tuple[Path, t.DataType]:
    """Return the path of a column or a field, and its type."""
    if not isinstance(value, list) or not value:
        raise TypeError("a column must be a list of names")
    columns = {column.name: column.type for column in schema.columns}
    data_type = columns[value[0]]
    for name in value[1:]:
        if not isinstance(data_type, t.Struct):
            raise ValueError(f"{data_type} has no fields")
        data_type = {field.name: field.type for field in data_type.fields}[name]
    return tuple(value), data_type


def _check_type(name: Json, data_type: t.DataType) -> None:
    if name != str(data_type):
        raise ValueError(f"the type is {data_type}, not {name!r}")


def _value_set(value: Json, data_type: t.DataType) -> ValueSet:
    if not isinstance(value, list):
        raise TypeError("cuts must be a list")
    domain = domain_of(data_type)
    if domain is None:
        if value:
            raise ValueError(f"values of {data_type} have no order")
        return ValueSet(0, ())
    cuts = tuple(_cut(cut, domain) for cut in value)
    if not all(_is_less(first, second) for first, second in pairwise(cuts)):
        raise ValueError("cuts must ascend")
    return ValueSet(domain.least, cuts)


def _cut(value: Json, domain: Domain) -> Ordinal:
    if isinstance(domain.least, bytes):
        return bytes.fromhex(value)
    if not isinstance(value, int) or isinstance(value, bool) or domain.most is None:
        raise TypeError("a cut must be an integer")
    if not domain.least <= value <= domain.most:
        raise ValueError(f"{value} is outside of {domain.type}")
    return value


def _is_less(first: Any, second: Any) -> bool:
    return bool(first < second)


def _regex(value: Json) -> str:
    if not isinstance(value, str):
        raise TypeError("a pattern must be text")
    # Arrow's error for a wrong pattern is a ValueError.
    pc.match_substring_regex(pa.array([""]), value)
    return value


def _flag(value: Json) -> bool:
    if not isinstance(value, bool):
        raise TypeError("a flag must be true or false")
    return value


def _flag_or_none(value: Json) -> bool | None:
    return None if value is None else _flag(value)
