"""Types whose values have an order: values as ordinals, singly and in batches.

    integers, date, times    the number itself; days, microseconds, nanoseconds as Arrow has them
    boolean                  0 and 1
    decimal                  the unscaled number
    float, double            the bits, so that they sort: -0 is 0, all NaNs are one above infinity
    string, binary           the bytes

Promises Spark's order. Strings with a collation and nested types have no domain.
Does not know: SQL.
"""

from __future__ import annotations

import datetime
import math
import struct
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..codec.sortable import LONG_DECIMAL_PRECISION, sortable
from ..schema import types as t
from .valueset import Ordinal, ValueSet, set_of_cuts

_DAYS_OF_YEAR_ONE = datetime.date(1970, 1, 1).toordinal()
_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_NANOSECONDS_A_DAY = 86_400_000_000_000

# Rounds no number of 38 digits.
_WIDE = Context(prec=100)

_INTEGER_BITS: dict[type[t.DataType], int] = {
    t.TinyInt: 8,
    t.SmallInt: 16,
    t.Int: 32,
    t.BigInt: 64,
    t.Date: 32,
    t.Timestamp: 64,
    t.TimestampNtz: 64,
    t.Time: 64,
    t.DayTimeInterval: 64,
}


@dataclass(frozen=True, slots=True)
class Domain:
    """The values of one type in their order.

    ``least`` and ``most``: the ordinals of the first and the last value; None if there is no last.
    ``bias``: what is added to an ordinal to compare it with the numbers of a batch.
    """

    type: t.DataType
    least: Ordinal
    most: int | None
    bias: int = 0

    # Sets

    @property
    def everything(self) -> ValueSet:
        """All values."""
        return ValueSet(self.least, (self.least,))

    @property
    def nothing(self) -> ValueSet:
        """No value."""
        return ValueSet(self.least, ())

    def after(self, ordinal: Ordinal) -> Ordinal:
        """Return the next ordinal."""
        return ordinal + 1 if isinstance(ordinal, int) else ordinal + b"\0"

    def between(self, first: Ordinal, stop: Ordinal | None) -> ValueSet:
        """Return the values from ``first``, included, to ``stop``, excluded (None: to the end)."""
        cuts: list[Ordinal] = [first] if stop is None else [first, stop]
        if isinstance(self.least, int) and self.most is not None:
            most = self.most
            cuts = [max(cut, self.least) for cut in cuts if isinstance(cut, int) and cut <= most]
        if len(cuts) == 2 and not _ascend(*cuts):
            cuts = []
        return ValueSet(self.least, tuple(cuts))

    def set_where(self, operator: str, value: Any) -> ValueSet:
        """Return the values that compare so (``= <> < <= > >=``) with one value.

        The value need not be one of the type: 1.5 is between two integers.
        """
        ordinal, is_exact = self._floor(value)
        above = self.after(ordinal)
        not_below = ordinal if is_exact else above
        match operator:
            case "=":
                return self.between(not_below, above)
            case "<>":
                return self.between(not_below, above).complement()
            case "<":
                return self.between(self.least, not_below)
            case "<=":
                return self.between(self.least, above)
            case ">":
                return self.between(above, None)
        assert operator == ">=", operator
        return self.between(not_below, None)

    def set_of(self, values: Iterable[Any]) -> ValueSet:
        """Return the set of those of some values that the type has."""
        floors = [ordinal for ordinal, is_exact in map(self._floor, values) if is_exact]
        return self._set_of_ordinals({ordinal for ordinal in floors if self._has(ordinal)})

    def set_of_array(self, array: pa.Array) -> ValueSet:
        """Return the set of the values of an Arrow array of the type; NULL is none of them."""
        if not len(array) - array.null_count:
            return self.nothing
        keys = self.sort_keys(array.drop_null())
        if isinstance(keys, pa.Array):
            return self._set_of_ordinals(set(keys.unique().to_pylist()))
        distinct = np.unique(keys).tolist()
        if self.bias == 1 << 127:
            # numpy drops the zeros at the end of bytes.
            distinct = [int.from_bytes(key.ljust(16, b"\0"), "big") for key in distinct]
        return self._set_of_ordinals({key - self.bias for key in distinct})

    def _set_of_ordinals(self, ordinals: Collection[Ordinal]) -> ValueSet:
        cuts = [cut for ordinal in _sorted(ordinals) for cut in (ordinal, self.after(ordinal))]
        # After the last value of the type there is nothing to cut off.
        if self.most is not None and cuts and cuts[-1] == self.most + 1:
            cuts.pop()
        return set_of_cuts(self.least, cuts)

    def _has(self, ordinal: Ordinal) -> bool:
        if not isinstance(ordinal, int) or not isinstance(self.least, int) or self.most is None:
            return True
        return self.least <= ordinal <= self.most

    # Values of a batch

    def sort_keys(self, array: pa.Array) -> NDArray[Any] | pa.Array:
        """Return numbers, or an Arrow array of bytes, that compare as the values do.

        Those of NULLs are arbitrary.
        """
        form = sortable(self.type)
        if form is None:
            return array.cast(pa.binary())
        if isinstance(self.type, t.Boolean):
            array = array.fill_null(False)
        numbers = form.numbers(array)
        return numbers[0] if len(numbers) == 1 else _side_by_side(numbers[0], numbers[1])

    def contains(self, array: pa.Array, values: ValueSet) -> NDArray[np.bool_]:
        """Return which values are in a set; for a NULL the answer means nothing."""
        keys = self.sort_keys(array)
        if isinstance(keys, pa.Array):
            return _contains_bytes(keys, values)
        cuts = np.array([self._sort_key(cut) for cut in values.cuts], keys.dtype)
        if len(cuts) <= 2:
            inside = [keys >= cuts[0]] if len(cuts) else [np.zeros(len(keys), np.bool_)]
            inside += [keys < cuts[1]] if len(cuts) == 2 else []
            within: NDArray[np.bool_] = np.logical_and.reduce(inside)
            return within
        is_inside: NDArray[np.bool_] = np.searchsorted(cuts, keys, side="right") % 2 == 1
        return is_inside

    def _sort_key(self, ordinal: Ordinal) -> int | bytes:
        assert isinstance(ordinal, int)
        number = ordinal + self.bias
        return number.to_bytes(16, "big") if self.bias == 1 << 127 else number

    # Single values

    def _floor(self, value: Any) -> tuple[Ordinal, bool]:
        """Return the last ordinal at or below a value, and whether it is just that value's."""
        match self.type:
            case t.TinyInt() | t.SmallInt() | t.Int() | t.BigInt() | t.Decimal():
                unit = 10**self.type.scale if isinstance(self.type, t.Decimal) else 1
                if isinstance(value, int):
                    return value * unit, True
                unscaled = Fraction(value) * unit
                return math.floor(unscaled), unscaled.denominator == 1
            case t.Float():
                with np.errstate(over="ignore"):
                    nearest = float(np.float32(value))
                ordinal = _float_ordinal(nearest, ">f", ">I")
                is_exact = nearest == value or math.isnan(value)
                return (ordinal - 1 if nearest > value else ordinal), is_exact
        return self.ordinal(value), True

    def ordinal(self, value: Any) -> Ordinal:
        """Return the ordinal of a value as a `Constant` holds it."""
        match self.type:
            case t.Float():
                return _float_ordinal(value, ">f", ">I")
            case t.Double():
                return _float_ordinal(value, ">d", ">Q")
            case t.Decimal(_, scale):
                return int(value.scaleb(scale, _WIDE))
            case t.String():
                encoded: bytes = value.encode()
                return encoded
            case t.Binary():
                data: bytes = value
                return data
        return int(value)

    def value(self, ordinal: Ordinal) -> Any:
        """Return the value of an ordinal, as a key's codec takes it; None if Python has none."""
        if isinstance(ordinal, bytes):
            return ordinal.decode() if isinstance(self.type, t.String) else ordinal
        try:
            return self._value(ordinal)
        except (OverflowError, ValueError):
            return None

    def _value(self, ordinal: int) -> Any:
        match self.type:
            case t.Boolean():
                return bool(ordinal)
            case t.Float():
                return _float_value(ordinal, ">f", ">I")
            case t.Double():
                return _float_value(ordinal, ">d", ">Q")
            case t.Decimal(_, scale):
                return Decimal(ordinal).scaleb(-scale, _WIDE)
            case t.Date():
                return datetime.date.fromordinal(ordinal + _DAYS_OF_YEAR_ONE)
            case t.Timestamp():
                return (_EPOCH + ordinal * _MICROSECOND).replace(tzinfo=datetime.UTC)
            case t.TimestampNtz():
                return _EPOCH + ordinal * _MICROSECOND
            case t.DayTimeInterval():
                return ordinal * _MICROSECOND
            case t.Time():
                # Python's time counts microseconds, and has no value between two of them.
                microseconds, rest = divmod(ordinal, 1000)
                return None if rest else (_EPOCH + microseconds * _MICROSECOND).time()
        return ordinal


@cache
def domain_of(data_type: t.DataType) -> Domain | None:
    """Return the domain of a type; None if no order of its values is known here."""
    match data_type:
        case t.Boolean():
            return Domain(data_type, 0, 1)
        case t.Float():
            return _float_domain(data_type, ">f", ">I")
        case t.Double():
            return _float_domain(data_type, ">d", ">Q")
        case t.Decimal(precision, _):
            limit = 10**precision - 1
            return Domain(data_type, -limit, limit, _decimal_bias(precision))
        case t.Time():
            return Domain(data_type, 0, _NANOSECONDS_A_DAY - 1, 1 << 63)
        case t.Binary():
            return Domain(data_type, b"", None)
        case t.String():
            return None if data_type.is_collated else Domain(data_type, b"", None)
    bits = _INTEGER_BITS.get(type(data_type))
    if bits is None:
        return None
    half = 1 << bits - 1
    return Domain(data_type, -half, half - 1, half)


def _float_domain(data_type: t.DataType, floating: str, unsigned: str) -> Domain:
    least, most = (
        _float_ordinal(value, floating, unsigned) for value in (float("-inf"), float("nan"))
    )
    return Domain(data_type, least, most)


def _sorted(ordinals: Collection[Any]) -> list[Ordinal]:
    return sorted(ordinals)


def _ascend(first: Any, second: Any) -> bool:
    return bool(first < second)


def _decimal_bias(precision: int) -> int:
    return 1 << 127 if precision > LONG_DECIMAL_PRECISION else 1 << 63


def _side_by_side(high: NDArray[Any], low: NDArray[Any]) -> NDArray[Any]:
    """Return numbers of 128 bits as bytes of one width, which numpy compares in order."""
    return np.stack([high, low], axis=1).astype(">u8").view("S16").reshape(-1)


def _contains_bytes(array: pa.Array, values: ValueSet) -> NDArray[np.bool_]:
    points: list[bytes] = []
    inside = np.zeros(len(array), np.bool_)
    for first, stop in values.ranges():
        assert isinstance(first, bytes)
        if stop == first + b"\0":
            points.append(first)
            continue
        in_range = _flags(pc.greater_equal(array, pa.scalar(first, pa.binary())))
        if stop is not None:
            in_range &= _flags(pc.less(array, pa.scalar(stop, pa.binary())))
        inside |= in_range
    if points:
        inside |= _flags(pc.is_in(array, value_set=pa.array(points, pa.binary())))
    return inside


def _flags(array: pa.Array) -> NDArray[np.bool_]:
    flags: NDArray[np.bool_] = array.fill_null(False).to_numpy(zero_copy_only=False).copy()
    return flags


def _float_ordinal(value: float, floating: str, unsigned: str) -> int:
    bits: int
    (bits,) = struct.unpack(unsigned, struct.pack(floating, value + 0.0))
    width = 8 * struct.calcsize(unsigned)
    sign, ones = 1 << width - 1, (1 << width) - 1
    if value != value:
        return sign | (0x7FC00000 if width == 32 else 0x7FF8000000000000)
    if bits == sign:
        return sign
    return bits ^ ones if bits & sign else bits | sign


def _float_value(ordinal: int, floating: str, unsigned: str) -> float:
    width = 8 * struct.calcsize(unsigned)
    sign, ones = 1 << width - 1, (1 << width) - 1
    bits = ordinal ^ (sign if ordinal & sign else ones)
    value: float
    (value,) = struct.unpack(floating, struct.pack(unsigned, bits))
    return value
