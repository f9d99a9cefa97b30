"""Casts of a column that keep its order, seen from their result.

A comparison of a cast column with a constant is one of the column itself with other constants: the
values whose casts lie in a set are a set again, because the cast keeps the order. So nothing has to
be cast while rows are read, and a cast that rounds (BIGINT to DOUBLE) is as exact as Spark's.

Promises: `preimage` is exact; casts that do not keep the order, or fail for some values, are
refused.
Does not know: columns, rows.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal
from typing import TypeAlias

from ..errors import UnsupportedExpressionError
from ..schema import types as t
from .coercion import integer_decimal
from .constant import INTEGERS
from .domain import Domain, domain_of
from .valueset import Ordinal, ValueSet, toggled
from .zone import MICROSECONDS_A_DAY, Zone

# Finds the least ordinal of the source whose cast is at or above an ordinal of the target.
_Find: TypeAlias = Callable[[int], int]

_WIDE = Context(prec=100)


def is_castable(source: t.DataType, target: t.DataType, zone: Zone) -> bool:
    """Tell whether `preimage` is known for a cast."""
    return (
        source == target
        or _is_text_to_bytes(source, target)
        or _find(source, target, zone) is not None
    )


def preimage(source: t.DataType, target: t.DataType, values: ValueSet, zone: Zone) -> ValueSet:
    """Return the values of type ``source`` whose casts to ``target`` lie in a set.

    UnsupportedExpressionError if the cast may fail, or does not keep the order of values.
    """
    if source == target or _is_text_to_bytes(source, target):
        return values
    find = _find(source, target, zone)
    domain = domain_of(source)
    if find is None or domain is None:
        raise UnsupportedExpressionError(
            f"a column of type {source} is not compared as {target}: that may fail or round row by "
            "row; write the constant in the column's own type"
        )
    assert isinstance(domain.least, int)
    assert domain.most is not None
    cuts: list[Ordinal] = []
    for cut in values.cuts:
        assert isinstance(cut, int)
        turn = max(find(cut), domain.least)
        if turn <= domain.most:
            cuts.append(turn)
    return toggled(domain.least, cuts)


def _is_text_to_bytes(source: t.DataType, target: t.DataType) -> bool:
    return isinstance(source, t.String) and not source.is_collated and target == t.Binary()


def _find(source: t.DataType, target: t.DataType, zone: Zone) -> _Find | None:
    match target:
        case t.Decimal():
            return _to_decimal(source, target)
        case t.Double():
            return _to_double(source)
        case t.TinyInt() | t.SmallInt() | t.Int() | t.BigInt():
            wider = isinstance(source, INTEGERS) and _rank(source) < _rank(target)
            return (lambda cut: cut) if wider else None
        case t.Date() | t.Timestamp() | t.TimestampNtz():
            return _to_moment(source, target, zone)
    return None


def _rank(integer: t.DataType) -> int:
    return INTEGERS.index(type(integer))


def _to_decimal(source: t.DataType, target: t.Decimal) -> _Find | None:
    narrow = source if isinstance(source, t.Decimal) else integer_decimal(source)
    if narrow is None or narrow.scale > target.scale:
        return None
    if narrow.precision - narrow.scale > target.precision - target.scale:
        return None
    unit = 10 ** (target.scale - narrow.scale)
    return lambda cut: -(-cut // unit)


def _to_double(source: t.DataType) -> _Find | None:
    domain, double = domain_of(source), domain_of(t.Double())
    if domain is None or double is None:
        return None
    match source:
        case t.TinyInt() | t.SmallInt() | t.Int() | t.BigInt():
            return _searched(domain, lambda ordinal: double.ordinal(float(ordinal)))
        case t.Decimal(_, scale):
            return _searched(
                domain,
                lambda ordinal: double.ordinal(float(Decimal(ordinal).scaleb(-scale, _WIDE))),
            )
        case t.Float():
            return _searched(domain, lambda ordinal: double.ordinal(domain.value(ordinal)))
    return None


def _to_moment(source: t.DataType, target: t.DataType, zone: Zone) -> _Find | None:
    day = MICROSECONDS_A_DAY
    match source, target:
        case t.Date(), t.TimestampNtz():
            return lambda cut: -(-cut // day)
        case t.TimestampNtz(), t.Date():
            return lambda cut: cut * day
    if zone.offset is None:
        return None
    offset = zone.offset
    match source, target:
        case t.Date(), t.Timestamp():
            return lambda cut: -(-(cut + offset) // day)
        case t.Timestamp(), t.Date():
            return lambda cut: cut * day - offset
        case t.Timestamp(), t.TimestampNtz():
            return lambda cut: cut - offset
        case t.TimestampNtz(), t.Timestamp():
            return lambda cut: cut + offset
    return None


def _searched(domain: Domain, cast: Callable[[int], Ordinal]) -> _Find:
    """Return the search for the first of a domain's ordinals whose cast reaches a place."""

    def find(cut: int) -> int:
        assert isinstance(domain.least, int)
        assert domain.most is not None
        low, high = domain.least, domain.most + 1
        while low < high:
            middle = (low + high) // 2
            reached = cast(middle)
            assert isinstance(reached, int)
            if reached >= cut:
                high = middle
            else:
                low = middle + 1
        return low

    return find
