"""The results of an aggregate, recomputed from all live rows in plain Python."""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cache, reduce
from typing import Any

from relstate.connector.views.plan.aggregate import COVARIANCES, Aggregate, Call, Function
from relstate.storage import KeyCodec, KeyColumn, types

from .datatypes import array_of

Row = dict[str, Any]

TOLERANCE = 1e-9
_BITWISE: dict[Function, Callable[[int, int], int]] = {
    Function.BIT_AND: operator.and_, Function.BIT_OR: operator.or_, Function.BIT_XOR: operator.xor,
}  # fmt: skip


def groups_of(node: Aggregate, rows: Iterable[Row]) -> dict[tuple[bytes, ...], list[Row]]:
    """Return the rows of each group, by the group's values as bytes."""
    groups: dict[tuple[bytes, ...], list[Row]] = {(): []} if node.is_global else {}
    for row in rows:
        group = () if node.is_global else group_of(node, row)
        groups.setdefault(group, []).append(row)
    return groups


def group_of(node: Aggregate, row: Row) -> tuple[bytes, ...]:
    """Return the values of a row's group as bytes, equal where Spark says so."""
    return tuple(key_of(node.child.type_of(name), row[name]) for name in node.group)


def key_of(data_type: types.DataType, value: Any) -> bytes:
    """Return a value as bytes that compare as Spark does."""
    key: bytes = _codec(data_type).encode([array_of(data_type, [value])])[0].as_py()
    return key


@cache
def _codec(data_type: types.DataType) -> KeyCodec:
    return KeyCodec([data_type], [KeyColumn(1)])


def value_of(node: Aggregate, call: Call, rows: Sequence[Row]) -> Any:
    """Return the result of a call over the rows of a group, in non-ANSI mode."""
    passing = [row for row in rows if call.filter is None or row[call.filter]]
    if call.argument is None:
        return len(passing)
    data_type = node.child.type_of(call.argument)
    values = [row[call.argument] for row in passing if row[call.argument] is not None]
    if call.is_distinct:
        values = list({key_of(data_type, value): value for value in values}.values())
    if call.function is Function.COUNT:
        return len(values)
    if not values:
        return None
    if call.function in _BITWISE:
        return reduce(_BITWISE[call.function], values)
    if call.function is Function.MODE:
        return _mode(data_type, values)
    if call.function in COVARIANCES:
        return _covariance(call.function, values)
    if call.function in (Function.MIN, Function.MAX):
        chosen = min if call.function is Function.MIN else max
        return chosen(values, key=lambda value: key_of(data_type, value))
    if isinstance(data_type, types.Float | types.Double):
        return _of_floats(call.function, values)
    return _of_whole(call, data_type, values)


def _mode(data_type: types.DataType, values: Sequence[Any]) -> Any:
    """Return the least of the most frequent values."""
    keys = [key_of(data_type, value) for value in values]
    counts = Counter(keys)
    best = min(counts, key=lambda key: (-counts[key], key))
    return values[keys.index(best)]


def _covariance(function: Function, pairs: Sequence[Row]) -> float | None:
    is_sample = function is Function.COVAR_SAMP
    if is_sample and len(pairs) == 1:
        return None
    if not all(math.isfinite(value) for pair in pairs for value in pair.values()):
        return math.nan
    y, x = ([Fraction(pair[name]) for pair in pairs] for name in ("y", "x"))
    mean_y, mean_x = (sum(values, Fraction()) / len(pairs) for values in (y, x))
    products = ((b - mean_y) * (a - mean_x) for b, a in zip(y, x, strict=True))
    return float(sum(products, Fraction()) / (len(pairs) - is_sample))


def same(value: Any, expected: Any, largest: float) -> bool:
    """Return whether two values are equal; floats at 1e-9 of the largest magnitude."""
    if not isinstance(expected, float) or not isinstance(value, float):
        return bool(value == expected)
    if math.isnan(expected) or math.isinf(expected):
        return value == expected or (math.isnan(expected) and math.isnan(value))
    return abs(value - expected) <= TOLERANCE * max(largest, 1e-300)


def _of_floats(function: Function, values: Sequence[float]) -> float | None:
    count = len(values)
    if function in (Function.SUM, Function.AVG):
        total = sum(map(Fraction, values), Fraction()) if all(map(math.isfinite, values)) else None
        total_value = float(sum(values)) if total is None else float(total)
        return total_value if function is Function.SUM else total_value / count
    is_sample = function in (Function.VAR_SAMP, Function.STDDEV_SAMP)
    if is_sample and count == 1:
        return None
    if not all(map(math.isfinite, values)):
        return math.nan
    exact = list(map(Fraction, values))
    mean = sum(exact, Fraction()) / count
    variance = float(sum((x - mean) ** 2 for x in exact) / (count - is_sample))
    is_root = function in (Function.STDDEV_POP, Function.STDDEV_SAMP)
    return math.sqrt(variance) if is_root else variance


def _of_whole(call: Call, data_type: types.DataType, values: Sequence[Any]) -> Any:
    scale = data_type.scale if isinstance(data_type, types.Decimal) else 0
    total = sum(int(Fraction(value) * 10**scale) for value in values)
    output = call.output.type
    if isinstance(output, types.Double):
        return total / len(values)
    if call.function is Function.SUM:
        return _fitting(total, output)
    assert isinstance(output, types.Decimal)
    assert isinstance(data_type, types.Decimal)
    if abs(total) >= 10 ** min(data_type.precision + 10, 38):
        return None
    quotient = Fraction(abs(total) * 10 ** (output.scale - scale), len(values))
    rounded = math.floor(quotient + Fraction(1, 2))
    return _fitting(-rounded if total < 0 else rounded, output)


def _fitting(number: int, output: types.DataType) -> int | Decimal | None:
    if isinstance(output, types.Decimal):
        if abs(number) >= 10**output.precision:
            return None
        return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -output.scale))
    return (number + 2**63) % 2**64 - 2**63


def output_type(function: Function, argument: types.DataType | None) -> types.DataType:
    """Return the type that Spark gives a call."""
    if function is Function.COUNT or argument is None:
        return types.BigInt()
    if function in (Function.MIN, Function.MAX, Function.MODE, *_BITWISE):
        return argument
    if isinstance(argument, types.Decimal) and function is Function.SUM:
        return types.Decimal(min(argument.precision + 10, 38), argument.scale)
    if isinstance(argument, types.Decimal) and function is Function.AVG:
        return types.Decimal(min(argument.precision + 4, 38), min(argument.scale + 4, 38))
    if function is Function.SUM and not isinstance(argument, types.Float | types.Double):
        return types.BigInt()
    return types.Double()
