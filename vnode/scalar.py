"""The same hash for one row of Python values, as fast as Python allows: for point lookups.

Values are int, float, str, bytes, bool, Decimal, datetime.date, datetime.datetime (aware for a
timestamp, naive for one without time zone), datetime.time, datetime.timedelta (day-time
interval), a dict or a sequence for a struct, a sequence for an array, None for NULL.

Promises: `scalar_hasher` gives for a row what `hash.xxhash64` gives for the same row in columns.
Does not know: the table, as `hash` does not.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal, Inexact
from typing import Any, TypeAlias

import pyarrow as pa
from xxhash import xxh64_intdigest

from .hash import LONG_DECIMAL_DIGITS, SEED, check_type

_Pack: TypeAlias = Callable[[Any], bytes]
_Hash: TypeAlias = Callable[[Any, int], int]

_SIGN = 1 << 63
_TURN = 1 << 64

_EPOCH = datetime(1970, 1, 1)
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_MICROSECOND = timedelta(microseconds=1)
_EXACT = Context(prec=76, traps=[Inexact])

_check_tiny_int = struct.Struct("<b").pack
_check_small_int = struct.Struct("<h").pack
_pack_int = struct.Struct("<i").pack
_pack_long = struct.Struct("<q").pack
_pack_float = struct.Struct("<f").pack
_pack_double = struct.Struct("<d").pack
_NAN = float("nan")
_BOOLEANS = {False: 0, True: 1}

_MISFITS = (struct.error, TypeError, ValueError, ArithmeticError, AttributeError, LookupError)


def scalar_hasher(types: Sequence[pa.DataType]) -> Callable[[Sequence[object]], int]:
    """Return the function from one row, a value for each of ``types``, to its hash (signed).

    The row's vnode is that hash modulo the vnode count. TypeError for a type that has no hash,
    ValueError without types. The function raises ValueError for a row that does not fit them.
    """
    if not types:
        raise ValueError("at least one column is needed to hash a row")
    if len(types) == 1 and (pack := _packer(types[0])) is not None:
        return _single_hasher(types[0], pack)
    return _chained_hasher(types)


def _single_hasher(kind: pa.DataType, pack: _Pack) -> Callable[[Sequence[object]], int]:
    def hash_row(row: Sequence[object]) -> int:
        try:
            (value,) = row
            if value is None:
                return SEED
            digest = xxh64_intdigest(pack(value), SEED)
        except _MISFITS as error:
            raise _misfit(row, [kind], error) from error
        return digest - _TURN if digest >= _SIGN else digest

    return hash_row


def _chained_hasher(types: Sequence[pa.DataType]) -> Callable[[Sequence[object]], int]:
    hash_values = _chain([_value_hasher(kind) for kind in types])

    def hash_row(row: Sequence[object]) -> int:
        try:
            digest = hash_values(row, SEED)
        except _MISFITS as error:
            raise _misfit(row, types, error) from error
        return digest - _TURN if digest >= _SIGN else digest

    return hash_row


def _misfit(row: Sequence[object], types: Sequence[pa.DataType], error: Exception) -> ValueError:
    expected = ", ".join(str(kind) for kind in types)
    return ValueError(f"the row {row!r} does not fit the types ({expected}): {error}")


def _value_hasher(kind: pa.DataType) -> _Hash:
    """Return the function from a value (not None) and a seed to the hash, unsigned."""
    pack = _packer(kind)
    if pack is not None:
        return _hash_packed(pack)
    if pa.types.is_struct(kind):
        return _hash_struct(kind)
    if pa.types.is_null(kind):
        return _hash_void
    return _hash_array(_value_hasher(kind.value_type))


def _hash_packed(pack: _Pack) -> _Hash:
    def hash_value(value: Any, seed: int) -> int:
        return xxh64_intdigest(pack(value), seed)

    return hash_value


def _chain(hashers: Sequence[_Hash]) -> _Hash:
    count = len(hashers)

    def hash_values(values: Sequence[Any], seed: int) -> int:
        if len(values) != count:
            raise ValueError(f"{len(values)} values, not {count}")
        # An index costs half of what a strict zip does.
        for index, value in enumerate(values):
            if value is not None:
                seed = hashers[index](value, seed)
        return seed

    return hash_values


def _hash_struct(kind: pa.DataType) -> _Hash:
    fields = [kind.field(index) for index in range(kind.num_fields)]
    names = [field.name for field in fields]
    hash_values = _chain([_value_hasher(field.type) for field in fields])

    def hash_struct(value: Any, seed: int) -> int:
        ordered = [value[name] for name in names] if isinstance(value, Mapping) else value
        return hash_values(ordered, seed)

    return hash_struct


def _hash_array(hash_element: _Hash) -> _Hash:
    def hash_array(elements: Any, seed: int) -> int:
        for element in elements:
            if element is not None:
                seed = hash_element(element, seed)
        return seed

    return hash_array


def _hash_void(value: Any, seed: int) -> int:
    raise ValueError(f"a column of the void type holds NULL only, not {value!r}")


def _packer(kind: pa.DataType) -> _Pack | None:
    """Return the function from a value to the bytes that are hashed; None for a type with parts.

    TypeError for a type that has no hash.
    """
    check_type(kind)
    if pa.types.is_decimal(kind):
        return _decimal_packer(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind):
        return _pack_timestamp_ntz if kind.tz is None else _pack_timestamp
    return _PACKERS.get(kind.id)


def _decimal_packer(precision: int, scale: int) -> _Pack:
    def unscaled(value: Decimal) -> int:
        shifted = _EXACT.scaleb(value, scale)
        whole = int(shifted)
        if whole != shifted or abs(whole) >= 10**precision:
            raise ValueError(f"{value} is not a decimal({precision}, {scale})")
        return whole

    def pack_long(value: Decimal) -> bytes:
        return _pack_long(unscaled(value))

    def pack_big(value: Decimal) -> bytes:
        whole = unscaled(value)
        bits = (whole if whole >= 0 else ~whole).bit_length()
        return whole.to_bytes(bits // 8 + 1, "big", signed=True)

    return pack_long if precision <= LONG_DECIMAL_DIGITS else pack_big


def _pack_boolean(value: bool) -> bytes:
    return _pack_int(_BOOLEANS[value])


def _pack_tiny_int(value: int) -> bytes:
    _check_tiny_int(value)
    return _pack_int(value)


def _pack_small_int(value: int) -> bytes:
    _check_small_int(value)
    return _pack_int(value)


def _pack_binary(value: bytes) -> bytes:
    # Unlike bytes(value), which makes five zeros of a 5.
    return b"".join((value,))


def _pack_canonical_float(value: float) -> bytes:
    return _pack_float(value + 0.0 if value == value else _NAN)


def _pack_canonical_double(value: float) -> bytes:
    return _pack_double(value + 0.0 if value == value else _NAN)


def _pack_timestamp(value: datetime) -> bytes:
    return _pack_long((value - _EPOCH_UTC) // _MICROSECOND)


def _pack_timestamp_ntz(value: datetime) -> bytes:
    return _pack_long((value - _EPOCH) // _MICROSECOND)


def _pack_date(value: date) -> bytes:
    return _pack_int(value.toordinal() - _EPOCH_DAY)


def _pack_time(value: time) -> bytes:
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return _pack_long((seconds * 1_000_000 + value.microsecond) * 1000)


def _pack_duration(value: timedelta) -> bytes:
    return _pack_long(value // _MICROSECOND)


_PACKERS: dict[int, _Pack] = {
    pa.lib.Type_BOOL: _pack_boolean,
    pa.lib.Type_INT8: _pack_tiny_int,
    pa.lib.Type_INT16: _pack_small_int,
    pa.lib.Type_INT32: _pack_int,
    pa.lib.Type_INT64: _pack_long,
    pa.lib.Type_DATE32: _pack_date,
    pa.lib.Type_TIME64: _pack_time,
    pa.lib.Type_DURATION: _pack_duration,
    pa.lib.Type_FLOAT: _pack_canonical_float,
    pa.lib.Type_DOUBLE: _pack_canonical_double,
    pa.lib.Type_STRING: str.encode,
    pa.lib.Type_LARGE_STRING: str.encode,
    pa.lib.Type_BINARY: _pack_binary,
    pa.lib.Type_LARGE_BINARY: _pack_binary,
}
