"""Spark's JSON form of the data types, as catalogs and Parquet footers hold it.

Promises: every type survives the round trip, and Spark reads what is written here. On disk, in the
log: never change a name.
Does not know: JSON text; it works on the values that ``json`` dumps and loads.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from ..errors import SchemaError, UnsupportedTypeError
from . import types as t

Json: TypeAlias = str | dict[str, Any]

_COLLATIONS = "__COLLATIONS"
_COMMENT = "comment"

_NAMES: dict[t.DataType, str] = {
    t.Boolean(): "boolean",
    t.TinyInt(): "byte",
    t.SmallInt(): "short",
    t.Int(): "integer",
    t.BigInt(): "long",
    t.Float(): "float",
    t.Double(): "double",
    t.String(): "string",
    t.Binary(): "binary",
    t.Date(): "date",
    t.Timestamp(): "timestamp",
    t.TimestampNtz(): "timestamp_ntz",
    t.CalendarInterval(): "interval",
    t.Variant(): "variant",
    t.Void(): "void",
}
_TYPES = {name: data_type for data_type, name in _NAMES.items()}

_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_TIME = re.compile(r"time\(\s*(\d+)\s*\)")
_INTERVAL = re.compile(r"interval (\w+)(?: to (\w+))?")
_LIMITED = re.compile(r"(?:char|varchar)\(\s*\d+\s*\)")
_COLLATED = re.compile(r"string collate (\w+)")


def to_json(data_type: t.DataType) -> Json:
    """Return ``data_type`` as Spark's ``DataType.jsonValue`` does."""
    match data_type:
        case t.Array(element, contains_null):
            return {
                "type": "array",
                "elementType": to_json(element),
                "containsNull": contains_null,
            }
        case t.Map(key, value, value_contains_null):
            return {
                "type": "map",
                "keyType": to_json(key),
                "valueType": to_json(value),
                "valueContainsNull": value_contains_null,
            }
        case t.Struct(fields):
            return {"type": "struct", "fields": [field_to_json(field) for field in fields]}
    return _NAMES.get(data_type) or _spelled(data_type)


def field_to_json(field: t.Field) -> dict[str, Any]:
    """Return a struct's field as Spark's ``StructField.jsonValue`` does.

    Its metadata holds the comment, and the collations of strings that are not inside a struct of
    their own.
    """
    collations: dict[str, str] = {}
    plain = _without_collations(field.type, field.name, collations)
    metadata: dict[str, Any] = {_COLLATIONS: collations} if collations else {}
    if field.comment is not None:
        metadata[_COMMENT] = field.comment
    return {
        "name": field.name,
        "type": to_json(plain),
        "nullable": field.nullable,
        "metadata": metadata,
    }


def from_json(value: Json) -> t.DataType:
    """Return the data type that Spark's JSON form describes.

    SchemaError for another value, UnsupportedTypeError for a type that is not known here.
    """
    return _read(value, "", {})


def field_from_json(value: dict[str, Any]) -> t.Field:
    """Return the field that Spark's JSON form of one describes; errors as in `from_json`."""
    try:
        name, metadata = value["name"], value.get("metadata") or {}
        data_type = _read(value["type"], name, metadata.get(_COLLATIONS, {}))
        return t.Field(name, data_type, value.get("nullable", True), metadata.get(_COMMENT))
    except (KeyError, TypeError, AttributeError) as error:
        raise SchemaError(f"{value!r} is not a field in Spark's JSON form") from error


def _spelled(data_type: t.DataType) -> str:
    text = str(data_type)
    if isinstance(data_type, t.String):
        return f"string collate {data_type.collation}"
    return text.lower()


def _without_collations(data_type: t.DataType, path: str, collations: dict[str, str]) -> t.DataType:
    match data_type:
        case t.String(collation) if data_type.is_collated:
            provider = "spark" if collation.startswith("UTF8") else "icu"
            collations[path] = f"{provider}.{collation}"
            return t.String()
        case t.Array(element, contains_null):
            return t.Array(
                _without_collations(element, f"{path}.element", collations), contains_null
            )
        case t.Map(key, value, value_contains_null):
            return t.Map(
                _without_collations(key, f"{path}.key", collations),
                _without_collations(value, f"{path}.value", collations),
                value_contains_null,
            )
    return data_type


def _read(value: Json, path: str, collations: dict[str, str]) -> t.DataType:
    if isinstance(value, str):
        if path in collations:
            return t.String(collations[path].split(".")[-1])
        return _read_name(value)
    try:
        return _read_nested(value, path, collations)
    except (KeyError, TypeError) as error:
        raise SchemaError(f"{value!r} is not a data type in Spark's JSON form") from error


def _read_nested(value: dict[str, Any], path: str, collations: dict[str, str]) -> t.DataType:
    match value["type"]:
        case "array":
            element = _read(value["elementType"], f"{path}.element", collations)
            return t.Array(element, _read_flag(value["containsNull"]))
        case "map":
            key = _read(value["keyType"], f"{path}.key", collations)
            item = _read(value["valueType"], f"{path}.value", collations)
            return t.Map(key, item, _read_flag(value["valueContainsNull"]))
        case "struct":
            return t.Struct(tuple(field_from_json(field) for field in value["fields"]))
    raise UnsupportedTypeError(f"{value['type']!r} is not a data type that relstate stores")


def _read_flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is not true or false")
    return value


def _read_name(name: str) -> t.DataType:
    if name in _TYPES:
        return _TYPES[name]
    if match := _DECIMAL.fullmatch(name):
        return t.Decimal(int(match[1]), int(match[2]))
    if match := _TIME.fullmatch(name):
        return t.Time(int(match[1]))
    if match := _INTERVAL.fullmatch(name):
        start, end = match[1], match[2] or match[1]
        family = t.YearMonthInterval if start in t.YEAR_MONTH_UNITS else t.DayTimeInterval
        return family(start, end)
    if match := _COLLATED.fullmatch(name):
        return t.String(match[1])
    if _LIMITED.fullmatch(name):
        return t.String()
    raise UnsupportedTypeError(f"{name!r} is not a data type that relstate stores")
