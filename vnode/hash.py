"""The hash of rows, Spark SQL's ``xxhash64``, and the vnode that follows from it.

``vnode = pmod(xxhash64(distribution key columns), vnode_count)``. Spark computes the same in the
JVM, so a shuffle by vnode needs no Python.

Whole columns are hashed together; for point lookups there are functions that hash one row of Python
values (see `canonical`), with the same result.

Promises: equal to Spark's function of that name for every type that a key may have: the seed is
42; each column, left to right, hashes the bytes of its value under the hash so far; NULL leaves
the hash as it was. So do the fields of a struct and the elements of an array. Where a row's files
are depends on this: it never changes.
Does not know: the table. (1 INT) and (1 BIGINT) hash apart, so values must have the table's
declared types already.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from xxhash import xxh64_intdigest

from .canonical import canonical_row
from .mapping import check_vnode_count
from .xxh64 import Buffer, Words, hash_bytes, hash_half_words, hash_words

# On disk: the vnode of every row follows from it. Never change it.
SEED = 42

# A decimal of at most this many digits hashes as a 64-bit integer, a longer one as bytes.
LONG_DECIMAL_DIGITS = 18

_Number = TypeVar("_Number", bound=np.number)

_Pack: TypeAlias = Callable[[Any], bytes]
_FormHash: TypeAlias = Callable[[Any, int], int]

_SIGN = 1 << 63
_TURN = 1 << 64

_pack_int = struct.Struct("<i").pack
_pack_long = struct.Struct("<q").pack
_pack_float = struct.Struct("<f").pack
_pack_double = struct.Struct("<d").pack
_NAN = float("nan")

# What values of a wrong type or size raise: `struct` has an error of its own.
_MISFITS = (struct.error, TypeError, ValueError, ArithmeticError, AttributeError, LookupError)

_UNITS = {pa.lib.Type_TIMESTAMP: "us", pa.lib.Type_DURATION: "us", pa.lib.Type_TIME64: "ns"}


def xxhash64(columns: Sequence[pa.Array]) -> NDArray[np.int64]:
    """Return for every row what Spark's ``xxhash64(columns)`` returns.

    The columns are Arrow arrays of one length, of the types that Spark uses: timestamps and
    day-time intervals (durations) in microseconds, times in nanoseconds; a year-month interval
    is its number of months, int32. TypeError for a type that has no hash (maps, calendar
    intervals, unsigned integers, other units); ValueError without columns, or where their
    lengths differ.
    """
    lengths = {len(column) for column in columns}
    if len(lengths) != 1:
        raise ValueError(f"columns to hash must be of one length, not {sorted(lengths)}")
    hashes: Words = np.full(lengths.pop(), SEED, np.uint64)
    for column in columns:
        hashes = _hash_column(column, hashes)
    return hashes.view(np.int64)


def vnodes_of(columns: Sequence[pa.Array], vnode_count: int) -> NDArray[np.uint16]:
    """Return every row's vnode: ``pmod(xxhash64(columns), vnode_count)``.

    Errors are those of `xxhash64`; ValueError for a vnode count beyond 1 to 32768.
    """
    check_vnode_count(vnode_count)
    return np.mod(xxhash64(columns), vnode_count).astype(np.uint16)


def check_type(data_type: pa.DataType) -> None:
    """Raise TypeError unless values of an Arrow type have a hash. Types in it are not checked."""
    unit = _UNITS.get(data_type.id)
    if data_type.id not in _HASHES or (unit is not None and data_type.unit != unit):
        raise TypeError(f"there is no hash for the Arrow type {data_type}")


def _hash_column(array: pa.Array, seeds: Words) -> Words:
    """Return the hashes after one more column; where it is NULL, ``seeds`` as they were."""
    check_type(array.type)
    hashes = _HASHES[array.type.id](array, seeds)
    if not array.null_count:
        return hashes
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    return np.where(valid, hashes, seeds)


def _hash_void(array: pa.Array, seeds: Words) -> Words:
    return seeds


def _hash_boolean(array: pa.Array, seeds: Words) -> Words:
    return hash_half_words(_values(array.cast(pa.uint8()), np.uint8).astype(np.int32), seeds)


def _hash_tiny_int(array: pa.Array, seeds: Words) -> Words:
    return hash_half_words(_values(array, np.int8).astype(np.int32), seeds)


def _hash_small_int(array: pa.Array, seeds: Words) -> Words:
    return hash_half_words(_values(array, np.int16).astype(np.int32), seeds)


def _hash_int(array: pa.Array, seeds: Words) -> Words:
    return hash_half_words(_values(array, np.int32), seeds)


def _hash_big_int(array: pa.Array, seeds: Words) -> Words:
    return hash_words(_values(array, np.int64), seeds)


def _hash_float(array: pa.Array, seeds: Words) -> Words:
    return hash_half_words(_canonical(_values(array, np.float32)).view(np.int32), seeds)


def _hash_double(array: pa.Array, seeds: Words) -> Words:
    return hash_words(_canonical(_values(array, np.float64)).view(np.int64), seeds)


def _canonical(values: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the floats with one zero, the positive one, and one NaN."""
    # Adding to a signalling NaN is an "invalid value" to the processor, and harmless.
    with np.errstate(invalid="ignore"):
        values = values + values.dtype.type(0)
    values[np.isnan(values)] = np.nan
    return values


def _hash_decimal(array: pa.Array, seeds: Words) -> Words:
    # Two words per value, the lower one first.
    words = _values(array, np.uint64, per_row=2).reshape(len(array), 2)
    if array.type.precision <= LONG_DECIMAL_DIGITS:
        return hash_words(np.ascontiguousarray(words[:, 0]), seeds)
    return _hash_big_integers(words, seeds)


def _hash_big_integers(words: NDArray[np.uint64], seeds: Words) -> Words:
    """Hash each integer's shortest big-endian two's complement: Java's BigInteger.toByteArray."""
    big_endian = words[:, ::-1].astype(">u8").view(np.uint8)
    # A leading byte is left out if it and the highest bit of the next only repeat the sign.
    magnitudes = big_endian ^ np.where(big_endian[:, :1] >= 0x80, np.uint8(0xFF), np.uint8(0))
    first = np.where(magnitudes.any(axis=1), (magnitudes != 0).argmax(axis=1), 15)
    leading = np.take_along_axis(magnitudes, first[:, None], axis=1)[:, 0]
    lengths = 16 - first + (leading >= 0x80)
    starts = np.arange(len(words)) * 16 + 16 - lengths
    return hash_bytes(big_endian.reshape(-1), starts, lengths, seeds)


def _hash_bytes(array: pa.Array, seeds: Words) -> Words:
    array = array.cast(pa.large_binary())
    data = array.buffers()[2]
    content: Buffer = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    offsets = _offsets(array)
    return hash_bytes(content, offsets[:-1], np.diff(offsets), seeds)


def _hash_struct(array: pa.Array, seeds: Words) -> Words:
    # Flattening makes the fields of a NULL struct NULL too.
    for field in array.flatten():
        seeds = _hash_column(field, seeds)
    return seeds


def _hash_array(array: pa.Array, seeds: Words) -> Words:
    offsets = array.offsets.to_numpy().astype(np.int64)
    starts, lengths = offsets[:-1], np.diff(offsets)
    hashes = seeds.copy()
    for step in range(int(lengths.max(initial=0))):
        rows = np.flatnonzero(lengths > step)
        elements = array.values.take(pa.array(starts[rows] + step))
        hashes[rows] = _hash_column(elements, hashes[rows])
    return hashes


def _values(array: pa.Array, dtype: type[_Number], per_row: int = 1) -> NDArray[_Number]:
    """Return a fixed-width column's values, without a copy; any values where it is NULL."""
    buffer = array.buffers()[1]
    count = len(array) * per_row
    if buffer is None:
        return np.zeros(count, dtype)
    return np.frombuffer(buffer, dtype, count, array.offset * per_row * np.dtype(dtype).itemsize)


def _offsets(array: pa.Array) -> NDArray[np.int64]:
    """Return where the rows of a large binary array begin, and where the last one ends."""
    buffer = array.buffers()[1]
    if not len(array) or buffer is None:
        return np.zeros(len(array) + 1, np.int64)
    return np.frombuffer(buffer, np.int64, len(array) + 1, array.offset * 8)


_Hash: TypeAlias = Callable[[pa.Array, Words], Words]
_HASHES: dict[int, _Hash] = {
    pa.lib.Type_NA: _hash_void,
    pa.lib.Type_BOOL: _hash_boolean,
    pa.lib.Type_INT8: _hash_tiny_int,
    pa.lib.Type_INT16: _hash_small_int,
    pa.lib.Type_INT32: _hash_int,
    pa.lib.Type_DATE32: _hash_int,
    pa.lib.Type_INT64: _hash_big_int,
    pa.lib.Type_TIMESTAMP: _hash_big_int,
    pa.lib.Type_TIME64: _hash_big_int,
    pa.lib.Type_DURATION: _hash_big_int,
    pa.lib.Type_FLOAT: _hash_float,
    pa.lib.Type_DOUBLE: _hash_double,
    pa.lib.Type_DECIMAL128: _hash_decimal,
    pa.lib.Type_STRING: _hash_bytes,
    pa.lib.Type_BINARY: _hash_bytes,
    pa.lib.Type_LARGE_STRING: _hash_bytes,
    pa.lib.Type_LARGE_BINARY: _hash_bytes,
    pa.lib.Type_STRUCT: _hash_struct,
    pa.lib.Type_LIST: _hash_array,
    pa.lib.Type_LARGE_LIST: _hash_array,
}


# One row of Python values


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
            expected = ", ".join(str(data_type) for data_type in types)
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
    if len(types) == 1 and (pack := form_packer(types[0])) is not None:
        return _single_hasher(pack)
    hash_values = _chained_hasher([_value_hasher(data_type) for data_type in types])

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


def _value_hasher(data_type: pa.DataType) -> _FormHash:
    """Return the function from a form (not None) and a seed to the hash, unsigned."""
    pack = form_packer(data_type)
    if pack is not None:
        return _packed_hasher(pack)
    if pa.types.is_struct(data_type):
        return _chained_hasher(
            [_value_hasher(data_type.field(index).type) for index in range(data_type.num_fields)]
        )
    if pa.types.is_null(data_type):
        return _keep_seed
    return _array_hasher(_value_hasher(data_type.value_type))


def _packed_hasher(pack: _Pack) -> _FormHash:
    def hash_value(value: Any, seed: int) -> int:
        return xxh64_intdigest(pack(value), seed)

    return hash_value


def _chained_hasher(hashers: Sequence[_FormHash]) -> _FormHash:
    def hash_values(values: Sequence[Any], seed: int) -> int:
        # An index costs half of what a strict zip does.
        for index, value in enumerate(values):
            if value is not None:
                seed = hashers[index](value, seed)
        return seed

    return hash_values


def _array_hasher(hash_element: _FormHash) -> _FormHash:
    def hash_array(elements: Any, seed: int) -> int:
        for element in elements:
            if element is not None:
                seed = hash_element(element, seed)
        return seed

    return hash_array


def _keep_seed(value: Any, seed: int) -> int:
    """Return the seed: a column of the void type holds NULL only."""
    return seed


def form_packer(data_type: pa.DataType) -> _Pack | None:
    """Return the function from a form to the bytes that are hashed; None for a type with parts.

    The hash of a row is the XXH64 of the first value's bytes with `SEED`, then that of each next
    value's with the hash so far; NULL leaves it.

    TypeError for a type that has no hash.
    """
    check_type(data_type)
    if pa.types.is_decimal(data_type):
        return _pack_long if data_type.precision <= LONG_DECIMAL_DIGITS else _pack_big
    return _PACKERS.get(data_type.id)


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
