"""Values of Python as the types of columns take them, where they mean the same.

What is converted is what Spark's rules of store assignment convert (``ANSI``), as far as nothing of
a value is lost: numbers to other types of numbers, dates to timestamps, whole numbers, decimals,
booleans and dates to text. Text is not read as a number or a time, there and here.

Promises: a value that is converted is the same one, in the other type; what has to be rounded or
interpreted is refused.
Does not know: columns, or which values Arrow takes as they are (python_values.py).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from decimal import Decimal
from itertools import chain, islice
from math import isfinite
from numbers import Integral
from typing import Any

import numpy as np

from .python_values import refuse
from .schema import types as t


def converted_values(values: Sequence[Any], data_type: t.DataType) -> Sequence[Any]:
    """Return values, which may be None, as Arrow makes an array of a type of them.

    ValueError for one that cannot become one without a change. What is of no type that is known
    here stays as it is, for Arrow.
    """
    kinds = set(map(type, values)) - {type(None)}
    if kinds <= _TAKEN.get(type(data_type), frozenset()):
        return values
    convert = _CONVERSIONS.get(type(data_type))
    if convert is not None:
        return [None if value is None else convert(value, data_type) for value in values]
    nested = _NESTED.get(type(data_type))
    return values if nested is None else nested(values, data_type)


# Numbers


def _to_integer(value: Any, data_type: t.DataType) -> Any:
    _refuse_text(value, "int")
    return value


def _to_decimal(value: Any, data_type: t.DataType) -> Any:
    assert isinstance(data_type, t.Decimal)
    _refuse_text(value, "Decimal")
    number: Decimal | None = None
    if isinstance(value, bool | np.bool_):
        refuse(value, "is a BOOLEAN")
    elif isinstance(value, Integral):
        number = Decimal(int(value))
    elif isinstance(value, float | np.floating):
        # The digits that Python shows: 1.1, and not the binary fraction next to it.
        number = Decimal(repr(float(value)))
    elif isinstance(value, Decimal):
        number = value
    if number is None:
        return value
    if not number.is_finite():
        refuse(value, "is not a number that a DECIMAL has")
    _check_digits(value, number, data_type)
    return number


def _check_digits(value: Any, number: Decimal, data_type: t.Decimal) -> None:
    digits, exponent = number.as_tuple().digits, number.as_tuple().exponent
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0")
    after = -(exponent + len(digits) - len(text)) if text else 0
    if after > data_type.scale:
        refuse(value, f"has more than {data_type.scale} digits after the point: round it")
    if text and number.adjusted() >= data_type.precision - data_type.scale:
        refuse(
            value, f"has more than {data_type.precision - data_type.scale} digits before the point"
        )


def _to_double(value: Any, data_type: t.DataType) -> Any:
    _refuse_text(value, "float")
    if not isinstance(value, Decimal):
        return value
    number = float(value)
    shown = repr(number)
    if isinstance(data_type, t.Float):
        with np.errstate(over="ignore"):
            shown = str(np.float32(number))
    if isfinite(number) and Decimal(shown) != value:
        refuse(value, f"has more digits than a {data_type}: give float({str(value)!r})")
    return number


def _to_boolean(value: Any, data_type: t.DataType) -> Any:
    if isinstance(value, str | bytes | int | float | Decimal) and not isinstance(value, bool):
        refuse(value, "is not True or False")
    return value


# Texts and times


def _to_text(value: Any, data_type: t.DataType) -> Any:
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Decimal) and value.is_finite():
        return format(value, "f")
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value.isoformat()
    if isinstance(value, float | np.floating | dt.datetime | dt.time | dt.timedelta):
        refuse(value, "is not text, and has several spellings: give one of them, as str() does")
    return value


def _to_timestamp(value: Any, data_type: t.DataType) -> Any:
    if isinstance(value, str):
        refuse(value, "is text: give a datetime, as datetime.fromisoformat() reads it")
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        zone = dt.UTC if isinstance(data_type, t.Timestamp) else None
        return dt.datetime.combine(value, dt.time.min, zone)
    return value


def _refuse_text(value: Any, kind: str) -> None:
    if isinstance(value, str | bytes):
        refuse(value, f"is text: give a number, as {kind}() reads it")


# What is in an array, a map or a struct


def _in_arrays(values: Sequence[Any], data_type: t.DataType) -> Sequence[Any]:
    assert isinstance(data_type, t.Array)
    lists = [list(value) if _is_list(value) else None for value in values]
    elements = list(chain.from_iterable(item for item in lists if item is not None))
    parts = converted_values(elements, data_type.element)
    if parts is elements:
        return values
    rest = iter(parts)
    return [
        value if item is None else list(islice(rest, len(item)))
        for value, item in zip(values, lists, strict=True)
    ]


def _in_maps(values: Sequence[Any], data_type: t.DataType) -> Sequence[Any]:
    assert isinstance(data_type, t.Map)
    pairs = [_pairs_of(value) for value in values]
    keys = [key for item in pairs if item is not None for key, _ in item]
    items = [part for item in pairs if item is not None for _, part in item]
    new_keys = converted_values(keys, data_type.key)
    new_items = converted_values(items, data_type.value)
    if new_keys is keys and new_items is items:
        return values
    rest = zip(new_keys, new_items, strict=True)
    return [
        value if item is None else list(islice(rest, len(item)))
        for value, item in zip(values, pairs, strict=True)
    ]


def _in_structs(values: Sequence[Any], data_type: t.DataType) -> Sequence[Any]:
    assert isinstance(data_type, t.Struct)
    structs = [_fields_of(value, data_type) for value in values]
    is_changed = False
    for field in data_type.fields:
        owners = [fields for fields in structs if fields is not None and field.name in fields]
        parts = [fields[field.name] for fields in owners]
        new_parts = converted_values(parts, field.type)
        if new_parts is not parts:
            is_changed = True
            for fields, part in zip(owners, new_parts, strict=True):
                fields[field.name] = part
    if not is_changed:
        return values
    return [
        value if fields is None else fields for value, fields in zip(values, structs, strict=True)
    ]


def _is_list(value: Any) -> bool:
    is_text = isinstance(value, str | bytes | bytearray | memoryview | Mapping)
    is_scalar = isinstance(value, np.ndarray) and value.ndim == 0
    return isinstance(value, Iterable) and not is_text and not is_scalar


def _pairs_of(value: Any) -> list[tuple[Any, Any]] | None:
    """Return the pairs of a map; None of what is none."""
    if isinstance(value, Mapping):
        return list(value.items())
    if not _is_list(value):
        return None
    pairs = list(value)
    is_map = all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs)
    return pairs if is_map else None


def _fields_of(value: Any, data_type: t.Struct) -> dict[Any, Any] | None:
    """Return the fields of a struct by name, in a dict of their own; None of what is none."""
    if isinstance(value, Mapping):
        return dict(value)
    names = [field.name for field in data_type.fields]
    if isinstance(value, tuple) and len(value) == len(names):
        return dict(zip(names, value, strict=True))
    return None


_INTEGERS = (t.TinyInt, t.SmallInt, t.Int, t.BigInt)
_CONVERSIONS: dict[type[t.DataType], Callable[[Any, t.DataType], Any]] = {
    **dict.fromkeys(_INTEGERS, _to_integer),
    t.Decimal: _to_decimal,
    t.Float: _to_double,
    t.Double: _to_double,
    t.Boolean: _to_boolean,
    t.String: _to_text,
    t.Timestamp: _to_timestamp,
    t.TimestampNtz: _to_timestamp,
}
_NESTED: dict[type[t.DataType], Callable[[Sequence[Any], t.DataType], Sequence[Any]]] = {
    t.Array: _in_arrays,
    t.Map: _in_maps,
    t.Struct: _in_structs,
}
_TAKEN: dict[type[t.DataType], Set[type]] = {
    **dict.fromkeys(_INTEGERS, frozenset({int, float})),
    t.Float: frozenset({float, int}),
    t.Double: frozenset({float, int}),
    t.Boolean: frozenset({bool}),
    t.String: frozenset({str}),
    t.Timestamp: frozenset({dt.datetime}),
    t.TimestampNtz: frozenset({dt.datetime}),
}
"""The types of which nothing is converted."""
