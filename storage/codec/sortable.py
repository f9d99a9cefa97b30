"""Values of fixed width as unsigned numbers that sort as the values do.

Signed integers have their sign bit flipped. Floats are in IEEE 754's total order with every -0
made 0 and every NaN made one, above infinity, as Spark compares them. A decimal is its unscaled
value in 8 bytes up to a precision of 18, else in 16. On disk, big endian: never change.
Promises to read back the value that was written, -0 and NaNs apart.
Does not know: NULLs, descending order, text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..schema import types as t
from ..schema.arrow import arrow_type

Numbers: TypeAlias = NDArray[np.unsignedinteger]

# On disk: never change.
LONG_DECIMAL_PRECISION = 18


@dataclass(frozen=True, slots=True)
class Sortable:
    """How values of one type become unsigned numbers of ``sizes`` bytes, most significant first.

    ``numbers`` takes an Arrow array without NULLs; ``values`` returns one of the exact type.
    """

    sizes: tuple[int, ...]
    numbers: Callable[[pa.Array], list[Numbers]]
    values: Callable[[Sequence[Numbers]], pa.Array]


def sortable(data_type: t.DataType, *, tells_zeros: bool = False) -> Sortable | None:
    """Return the form of a type whose values have one width; None for any other type.

    ``tells_zeros``: -0 is before 0, instead of being 0; never on disk in the key of a table.
    """
    match data_type:
        case t.Boolean():
            return Sortable((1,), _from_booleans, _to_booleans)
        case t.Float():
            return _float(np.uint32, np.float32, 0x7FC00000, tells_zeros)
        case t.Double():
            return _float(np.uint64, np.float64, 0x7FF8000000000000, tells_zeros)
        case t.Decimal(precision, _):
            long = precision > LONG_DECIMAL_PRECISION
            return _long_decimal(data_type) if long else _short_decimal(data_type)
    signed = _SIGNED.get(type(data_type))
    return None if signed is None else _integer(data_type, np.dtype(signed))


_SIGNED: dict[type[t.DataType], type[np.signedinteger]] = {
    t.TinyInt: np.int8,
    t.SmallInt: np.int16,
    t.Int: np.int32,
    t.BigInt: np.int64,
    t.Date: np.int32,
    t.Timestamp: np.int64,
    t.TimestampNtz: np.int64,
    t.Time: np.int64,
    t.DayTimeInterval: np.int64,
}


def _from_booleans(array: pa.Array) -> list[Numbers]:
    return [np.asarray(array.cast(pa.uint8()))]


def _to_booleans(numbers: Sequence[Numbers]) -> pa.Array:
    if numbers[0].size and numbers[0].max() > 1:
        raise ValueError("a boolean of a key is neither 0 nor 1")
    return pa.array(numbers[0]).cast(pa.bool_())


def _integer(data_type: t.DataType, signed: np.dtype[np.signedinteger]) -> Sortable:
    unsigned = np.dtype(f"u{signed.itemsize}")
    sign = unsigned.type(1 << (8 * signed.itemsize - 1))
    arrow = arrow_type(data_type)

    def numbers(array: pa.Array) -> list[Numbers]:
        return [_data(array, unsigned) ^ sign]

    def values(numbers: Sequence[Numbers]) -> pa.Array:
        return _array(arrow, numbers[0] ^ sign)

    return Sortable((signed.itemsize,), numbers, values)


def _float(
    unsigned: type[np.unsignedinteger],
    floating: type[np.floating],
    nan_bits: int,
    tells_zeros: bool,
) -> Sortable:
    size = np.dtype(unsigned).itemsize
    last = unsigned(8 * size - 1)
    sign, ones, nan = unsigned(1 << int(last)), unsigned((1 << 8 * size) - 1), unsigned(nan_bits)
    arrow = pa.from_numpy_dtype(floating)

    def numbers(array: pa.Array) -> list[Numbers]:
        floats = _data(array, np.dtype(floating))
        bits = floats.view(unsigned)
        bits = np.where(np.isnan(floats), nan, bits)
        if not tells_zeros:
            bits = np.where(floats == 0, unsigned(0), bits)
        # All bits of a negative number are flipped; of a positive one only the sign.
        return [bits ^ ((bits >> last) * ones | sign)]

    def values(numbers: Sequence[Numbers]) -> pa.Array:
        flipped = numbers[0]
        return _array(arrow, flipped ^ ((flipped >> last ^ unsigned(1)) * ones | sign))

    return Sortable((size,), numbers, values)


_SIGN = np.uint64(1 << 63)


def _short_decimal(data_type: t.DataType) -> Sortable:
    arrow = arrow_type(data_type)

    def numbers(array: pa.Array) -> list[Numbers]:
        return [_data(array, np.dtype("u8"), 2)[::2] ^ _SIGN]

    def values(numbers: Sequence[Numbers]) -> pa.Array:
        low = (numbers[0] ^ _SIGN).view(np.int64)
        return _array(arrow, np.stack([low, low >> 63], axis=1))

    return Sortable((8,), numbers, values)


def _long_decimal(data_type: t.DataType) -> Sortable:
    arrow = arrow_type(data_type)

    def numbers(array: pa.Array) -> list[Numbers]:
        words = _data(array, np.dtype("u8"), 2)
        return [words[1::2] ^ _SIGN, words[::2]]

    def values(numbers: Sequence[Numbers]) -> pa.Array:
        high, low = numbers
        return _array(arrow, np.stack([low, high ^ _SIGN], axis=1))

    return Sortable((8, 8), numbers, values)


def _data(array: pa.Array, dtype: np.dtype[Any], words: int = 1) -> NDArray[Any]:
    """Return the values of an Arrow array of fixed width as numpy sees their bytes, uncopied."""
    start = array.offset * words * dtype.itemsize
    return np.frombuffer(array.buffers()[1], dtype, len(array) * words, start)


def _array(arrow: pa.DataType, values: NDArray[Any]) -> pa.Array:
    return pa.Array.from_buffers(arrow, len(values), [None, pa.py_buffer(values)])
