"""Whether Python values fit a data type where Arrow would take them and change them.

Arrow takes 1.7 for an INT as 1, 1e300 for a FLOAT as infinity, the letters of a text for an ARRAY
and leaves out fields that a struct does not have. What Arrow itself refuses is not looked at here.

Does not know: rows, tables.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from decimal import Decimal
from itertools import chain
from math import isinf
from numbers import Number, Real
from typing import Any

import numpy as np
import pyarrow as pa

from .schema import types as t

_SHOWN = 80
_INTEGERS = (t.TinyInt, t.SmallInt, t.Int, t.BigInt)
_GREATEST_FLOAT = float(np.finfo(np.float32).max)


def check_values(values: Collection[Any], data_type: t.DataType) -> None:
    """Do nothing if Arrow takes values, which may be None, for values of a type as they are.

    ValueError for one that it would change. A whole number may be a float, a DATE a midnight
    without a zone, a TIMESTAMP a time without a zone, which is in UTC. What is in an array, a map
    or a struct is checked by its own type.
    """
    check = _CHECKS.get(type(data_type))
    if check is None:
        return
    kinds = set(map(type, values)) - {type(None)}
    if not kinds <= _EXACT.get(type(data_type), frozenset()):
        check([value for value in values if value is not None], data_type)


def refuse(value: Any, reason: str) -> None:
    """Raise ValueError that names a value."""
    raise ValueError(f"{value!r:.{_SHOWN}} {reason}")


def _check_integers(values: Sequence[Any], data_type: t.DataType) -> None:
    for value in values:
        if isinstance(value, bool | np.bool_):
            refuse(value, "is a BOOLEAN")
        if isinstance(value, Real | Decimal) and value % 1 != 0:
            refuse(value, "is not a whole number")


def _check_doubles(values: Sequence[Any], data_type: t.DataType) -> None:
    for value in values:
        if isinstance(value, bool | np.bool_):
            refuse(value, "is a BOOLEAN")


def _check_floats(values: Sequence[Any], data_type: t.DataType) -> None:
    _check_doubles(values, data_type)
    for value in values:
        if isinstance(value, float | np.floating):
            with np.errstate(over="ignore"):
                if isinf(np.float32(value)) and not isinf(value):
                    refuse(value, f"is beyond {_GREATEST_FLOAT}")


def _check_dates(values: Sequence[Any], data_type: t.DataType) -> None:
    for value in values:
        _check_unit(value)
        if not isinstance(value, dt.date | pa.Scalar):
            refuse(value, "is not a date of Python's module datetime")
        if isinstance(value, dt.datetime) and (value.tzinfo or value.time() != dt.time.min):
            refuse(value, "has a time of day or a zone: give its date()")


def _check_timestamps(values: Sequence[Any], data_type: t.DataType) -> None:
    for value in values:
        _check_unit(value)
        if isinstance(value, Number):
            refuse(value, "is a number: give a datetime")


def _check_local_timestamps(values: Sequence[Any], data_type: t.DataType) -> None:
    _check_timestamps(values, data_type)
    for value in values:
        if isinstance(value, dt.datetime) and value.tzinfo is not None:
            refuse(value, "has a time zone: give its local time, value.replace(tzinfo=None)")


def _check_times(values: Sequence[Any], data_type: t.DataType) -> None:
    for value in values:
        if not isinstance(value, dt.time | pa.Scalar):
            refuse(value, "is not a time of Python's module datetime")
        if isinstance(value, dt.time) and value.tzinfo is not None:
            refuse(value, "has a time zone")


def _check_intervals(values: Sequence[Any], data_type: t.DataType) -> None:
    for value in values:
        _check_unit(value)
        if isinstance(value, Number) and not isinstance(value, np.timedelta64):
            refuse(value, "is a number: give a timedelta")


def _check_unit(value: Any) -> None:
    """ValueError for NaT of pandas, and for nanoseconds, which are not stored."""
    if isinstance(value, dt.date | dt.timedelta) and value != value:
        refuse(value, "is not a time: give None")
    if getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0):
        refuse(value, "has nanoseconds: microseconds are stored")


def _check_arrays(values: Sequence[Any], data_type: t.DataType) -> None:
    assert isinstance(data_type, t.Array)
    for value in values:
        if isinstance(value, str | bytes | bytearray | memoryview):
            refuse(value, "is not a list")
    check_values(list(chain.from_iterable(_iterables(values))), data_type.element)


def _iterables(values: Iterable[Any]) -> Iterable[Iterable[Any]]:
    """Yield the values that can be iterated; Arrow refuses the others."""
    return (
        value
        for value in values
        if isinstance(value, Iterable) and not (isinstance(value, np.ndarray) and value.ndim == 0)
    )


def _check_maps(values: Sequence[Any], data_type: t.DataType) -> None:
    assert isinstance(data_type, t.Map)
    keys: list[Any] = []
    items: list[Any] = []
    for value in values:
        pairs = list(value.items() if isinstance(value, Mapping) else _pairs(value))
        value_keys = [key for key, _ in pairs]
        if not isinstance(value, Mapping) and _has_repeats(value_keys):
            refuse(value, "has a key twice")
        keys += value_keys
        items += [item for _, item in pairs]
    check_values(keys, data_type.key)
    check_values(items, data_type.value)


def _pairs(value: Any) -> Iterable[tuple[Any, Any]]:
    """Yield what is a pair in a list; Arrow refuses the others."""
    pairs = value if isinstance(value, Iterable) else ()
    return (pair for pair in pairs if isinstance(pair, tuple) and len(pair) == 2)


def _has_repeats(keys: Sequence[Any]) -> bool:
    try:
        return len(set(keys)) != len(keys)
    except TypeError:  # lists and dicts have no hash
        return any(key in keys[:index] for index, key in enumerate(keys))


def _check_structs(values: Sequence[Any], data_type: t.DataType) -> None:
    assert isinstance(data_type, t.Struct)
    names = [field.name for field in data_type.fields]
    field_values: list[list[Any]] = [[] for _ in names]
    for value in values:
        by_name = value if isinstance(value, Mapping) else dict(_pairs(value))
        if isinstance(value, tuple) and len(value) == len(names):
            by_name = dict(zip(names, value, strict=True))
        _check_names(value, by_name.keys(), names)
        for column, name in zip(field_values, names, strict=True):
            column.append(by_name.get(name))
    for column, field in zip(field_values, data_type.fields, strict=True):
        check_values(column, field.type)


def _check_names(value: Any, given_names: Set[Any], names: Sequence[str]) -> None:
    unknown_names = [name for name in given_names if name not in names]
    if unknown_names:
        refuse(value, f"has a field {unknown_names[0]!r}; the fields are {', '.join(names)}")


_CHECKS: dict[type[t.DataType], Callable[[Sequence[Any], t.DataType], None]] = {
    **dict.fromkeys(_INTEGERS, _check_integers),
    t.Float: _check_floats,
    t.Double: _check_doubles,
    t.Date: _check_dates,
    t.Timestamp: _check_timestamps,
    t.TimestampNtz: _check_local_timestamps,
    t.Time: _check_times,
    t.DayTimeInterval: _check_intervals,
    t.Array: _check_arrays,
    t.Map: _check_maps,
    t.Struct: _check_structs,
}
_EXACT: dict[type[t.DataType], Set[type]] = {
    **dict.fromkeys(_INTEGERS, frozenset({int})),
    t.Double: frozenset({float, int}),
    t.Date: frozenset({dt.date}),
    t.DayTimeInterval: frozenset({dt.timedelta}),
}
"""The types of which Arrow takes every value as it is, or refuses it."""
