"""The hash of one row of Python values, for point lookups; `hash` has that of columns.

Promises: `scalar_hasher` gives for a row what `hash.xxhash64` gives for the same row in columns.
Does not know: the table; which Python values a type takes (`canonical`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
from xxhash import xxh64_intdigest

from .canonical import canonical_row
from .hash import LONG_DECIMAL_DIGITS, SEED, check_type

_Pack: TypeAlias = Callable[[Any], bytes]
_Hash: TypeAlias = Callable[[Any, int], int]

_SIGN = 1 << 63
_TURN = 1 << 64

_pack_int = struct.Struct("<i").pack
_pack_long = struct.Struct("<q").pack
_pack_float = struct.Struct("<f").pack
_pack_double = struct.Struct("<d").pack
_NAN = float("nan")

# struct raises an error of its own, decimals and integers arithmetic ones.
_MISFITS = (struct.error, TypeError, ValueError, ArithmeticError, AttributeError, LookupError)


def scalar_hasher(types: Sequence[pa.DataType]) -> Callable[[Sequence[object]], int]:
    """Return the function from one row, a value for each of ``types``, to its hash (signed).

    The row's vnode is that hash modulo the vnode count. TypeError for a type that has no hash,
    ValueError without types. The function raises ValueError for a row that does not fit them.
    """
    hash_forms = canonical_hasher(types)
    canonical = canonical_row(types)

    def hash_row(row: Sequence[object]) -> int:
        try:
            forms = canonical(row)
        except _MISFITS as error:
            expected = ", ".join(str(kind) for kind in types)
            raise ValueError(f"the row {row!r} does not fit the types ({expected}): {error}") from (
                error
            )
        return hash_forms(forms)

    return hash_row


def canonical_hasher(types: Sequence[pa.DataType]) -> Callable[[Sequence[Any]], int]:
    """Return the function from a row in its canonical form to its hash, as `scalar_hasher` does.

    Requires one form for each of ``types``.
    """
    if not types:
        raise ValueError("at least one column is needed to hash a row")
    if len(types) == 1 and (pack := _packer(types[0])) is not None:
        return _single_hasher(pack)
    hash_values = _chain([_value_hasher(kind) for kind in types])

    def hash_row(row: Sequence[Any]) -> int:
        digest = hash_values(row, SEED)
        return digest - _TURN if digest >= _SIGN else digest

    return hash_row


def _single_hasher(pack: _Pack) -> Callable[[Sequence[Any]], int]:
    def hash_row(row: Sequence[Any]) -> int:
        value = row[0]
        if value is None:
            return SEED
        digest = xxh64_intdigest(pack(value), SEED)
        return digest - _TURN if digest >= _SIGN else digest

    return hash_row


def _value_hasher(kind: pa.DataType) -> _Hash:
    """Return the function from a form (not None) and a seed to the hash, unsigned."""
    pack = _packer(kind)
    if pack is not None:
        return _hash_packed(pack)
    if pa.types.is_struct(kind):
        return _chain([_value_hasher(kind.field(index).type) for index in range(kind.num_fields)])
    if pa.types.is_null(kind):
        return _hash_void
    return _hash_array(_value_hasher(kind.value_type))


def _hash_packed(pack: _Pack) -> _Hash:
    def hash_value(value: Any, seed: int) -> int:
        return xxh64_intdigest(pack(value), seed)

    return hash_value


def _chain(hashers: Sequence[_Hash]) -> _Hash:
    def hash_values(values: Sequence[Any], seed: int) -> int:
        # An index costs half of what a strict zip does.
        for index, value in enumerate(values):
            if value is not None:
                seed = hashers[index](value, seed)
        return seed

    return hash_values


def _hash_array(hash_element: _Hash) -> _Hash:
    def hash_array(elements: Any, seed: int) -> int:
        for element in elements:
            if element is not None:
                seed = hash_element(element, seed)
        return seed

    return hash_array


def _hash_void(value: Any, seed: int) -> int:
    """Return the seed: a column of the void type holds NULL only."""
    return seed


def _packer(kind: pa.DataType) -> _Pack | None:
    """Return the function from a form to the bytes that are hashed; None for a type with parts.

    TypeError for a type that has no hash.
    """
    check_type(kind)
    if pa.types.is_decimal(kind):
        return _pack_long if kind.precision <= LONG_DECIMAL_DIGITS else _pack_big
    return _PACKERS.get(kind.id)


def _pack_big(unscaled: int) -> bytes:
    bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length()
    return unscaled.to_bytes(bits // 8 + 1, "big", signed=True)


def _pack_canonical_float(value: float) -> bytes:
    return _pack_float(value + 0.0 if value == value else _NAN)


def _pack_canonical_double(value: float) -> bytes:
    return _pack_double(value + 0.0 if value == value else _NAN)


_PACKERS: dict[int, _Pack] = {
    pa.lib.Type_BOOL: _pack_int,
    pa.lib.Type_INT8: _pack_int,
    pa.lib.Type_INT16: _pack_int,
    pa.lib.Type_INT32: _pack_int,
    pa.lib.Type_INT64: _pack_long,
    pa.lib.Type_DATE32: _pack_int,
    pa.lib.Type_TIMESTAMP: _pack_long,
    pa.lib.Type_TIME64: _pack_long,
    pa.lib.Type_DURATION: _pack_long,
    pa.lib.Type_FLOAT: _pack_canonical_float,
    pa.lib.Type_DOUBLE: _pack_canonical_double,
    pa.lib.Type_STRING: bytes,
    pa.lib.Type_LARGE_STRING: bytes,
    pa.lib.Type_BINARY: bytes,
    pa.lib.Type_LARGE_BINARY: bytes,
}
