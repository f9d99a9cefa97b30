"""Hypothesis strategies for data types and for Python values of them."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any, Literal

import pyarrow as pa
from hypothesis import strategies as st

from relstate.storage import types as t
from relstate.storage.codec.variant_value import variant_of
from relstate.storage.schema.arrow import arrow_type

_PLAIN_KEYS = st.sampled_from(
    [
        t.Boolean(),
        t.TinyInt(),
        t.SmallInt(),
        t.Int(),
        t.BigInt(),
        t.Float(),
        t.Double(),
        t.String(),
        t.Binary(),
        t.Date(),
        t.Timestamp(),
        t.TimestampNtz(),
        t.Time(),
        t.Time(0),
        t.DayTimeInterval(),
        t.DayTimeInterval("hour", "minute"),
        t.DayTimeInterval("second", "second"),
    ]
)
_PLAIN_VALUES = _PLAIN_KEYS | st.sampled_from(
    [t.Variant(), t.Void(), t.String("UTF8_LCASE"), t.String("de_CI")]
)
_INTERVALS = st.sampled_from([t.CalendarInterval(), t.YearMonthInterval(), t.Time(9)])

_NAMES = st.sampled_from(["a", "b2", "odd name", "tick`s", "ünïcode", "select", "x.y", "9"])


def decimals() -> st.SearchStrategy[t.DataType]:
    """Every decimal type."""
    return st.integers(1, 38).flatmap(
        lambda precision: st.builds(t.Decimal, st.just(precision), st.integers(0, precision))
    )


def _structs(types: st.SearchStrategy[t.DataType]) -> st.SearchStrategy[t.DataType]:
    names = st.lists(_NAMES, max_size=3, unique=True)
    return names.flatmap(
        lambda chosen: st.tuples(
            *[st.builds(_field, st.just(name), types, st.booleans()) for name in chosen]
        ).map(t.Struct)
    )


def _field(name: str, data_type: t.DataType, nullable: bool) -> t.Field:
    return t.Field(name, data_type, nullable or data_type == t.Void())


def _array(element: t.DataType, contains_null: bool) -> t.Array:
    return t.Array(element, contains_null or element == t.Void())


def _map(key: t.DataType, value: t.DataType, value_contains_null: bool) -> t.Map:
    return t.Map(key, value, value_contains_null or value == t.Void())


def key_types() -> st.SearchStrategy[t.DataType]:
    """Every type that may stand in a key, nested ones included."""
    return st.recursive(
        _PLAIN_KEYS | decimals(),
        lambda types: st.builds(_array, types, st.booleans()) | _structs(types),
        max_leaves=4,
    )


def value_types() -> st.SearchStrategy[t.DataType]:
    """Every type that a table may store."""
    return st.recursive(_PLAIN_VALUES | decimals(), _nested, max_leaves=5)


def all_types() -> st.SearchStrategy[t.DataType]:
    """Every type there is, those that cannot be stored included."""
    return st.recursive(_PLAIN_VALUES | decimals() | _INTERVALS, _nested, max_leaves=5)


def _nested(types: st.SearchStrategy[t.DataType]) -> st.SearchStrategy[t.DataType]:
    arrays = st.builds(_array, types, st.booleans())
    keys = types.filter(lambda data_type: data_type != t.Void())
    return arrays | st.builds(_map, keys, types, st.booleans()) | _structs(types)


def values_of(data_type: t.DataType, nullable: bool = True) -> st.SearchStrategy[Any]:
    """Values of a type, as Arrow's ``as_py`` returns them; None among them if ``nullable``."""
    values = _values(data_type)
    return st.none() | values if nullable else values


def array_of(data_type: t.DataType, values: list[Any]) -> pa.Array:
    """Return the values as an array of exactly the type's Arrow type."""
    return pa.array(values, arrow_type(data_type))


def _values(data_type: t.DataType) -> st.SearchStrategy[Any]:
    match data_type:
        case t.Decimal(precision, scale):
            limit = 10**precision - 1
            return st.integers(-limit, limit).map(lambda unscaled: _decimal(unscaled, scale))
        case t.Array(element, contains_null):
            return st.lists(values_of(element, contains_null), max_size=4)
        case t.Map(key, value, value_contains_null):
            pair = st.tuples(values_of(key, False), values_of(value, value_contains_null))
            return st.lists(pair, max_size=3)
        case t.Struct(fields):
            return st.fixed_dictionaries(
                {field.name: values_of(field.type, field.nullable) for field in fields}
            )
    return _PLAIN_STRATEGIES[type(data_type)]()


def _decimal(unscaled: int, scale: int) -> decimal.Decimal:
    digits = tuple(int(digit) for digit in str(abs(unscaled)))
    return decimal.Decimal((int(unscaled < 0), digits, -scale))


def _integers(bits: int) -> Callable[[], st.SearchStrategy[int]]:
    limit = 1 << (bits - 1)
    edges = st.sampled_from([-limit, -1, 0, 1, limit - 1])
    return lambda: edges | st.integers(-limit, limit - 1)


def _floats(width: Literal[32, 64]) -> Callable[[], st.SearchStrategy[float]]:
    edges = st.sampled_from([0.0, -0.0, float("inf"), float("-inf"), float("nan")])
    return lambda: edges | st.floats(width=width)


def _binary() -> st.SearchStrategy[bytes]:
    return (
        st.lists(st.sampled_from([0, 0, 1, 2, 97, 254, 255]), max_size=12).map(bytes) | st.binary()
    )


def _text() -> st.SearchStrategy[str]:
    return st.text("\x00\x00\x01ab€\U0001f600", max_size=12) | st.text()


_DOCUMENTS = st.recursive(
    st.none() | st.booleans() | _text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text(), inner, max_size=3),
    max_leaves=6,
)
_PLAIN_STRATEGIES: dict[type[t.DataType], Callable[[], st.SearchStrategy[Any]]] = {
    t.Boolean: st.booleans,
    t.TinyInt: _integers(8),
    t.SmallInt: _integers(16),
    t.Int: _integers(32),
    t.BigInt: _integers(64),
    t.Float: _floats(32),
    t.Double: _floats(64),
    t.String: _text,
    t.Binary: _binary,
    t.Date: st.dates,
    t.Timestamp: lambda: st.datetimes(timezones=st.just(datetime.UTC)),
    t.TimestampNtz: st.datetimes,
    t.Time: st.times,
    t.DayTimeInterval: lambda: st.timedeltas(
        datetime.timedelta(days=-100_000_000), datetime.timedelta(days=100_000_000)
    ),
    t.Variant: lambda: _DOCUMENTS.map(variant_of),
    t.Void: st.none,
}
