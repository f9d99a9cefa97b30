"""Fields of a value: an Arrow array to and from the bytes that each row has for it.

A field of fixed width has one slot of the same size per row; a field of variable length has one run
of bytes per row. Those that hold other fields are in nested_field.py.

Promises: every bit pattern survives: -0.0, the payload of a NaN, any decimal of 38 digits. What is
decoded is checked: text is UTF-8, and no row reaches into another.
Does not know: where in a row its bytes are. A slot of a NULL may hold anything here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import ValueRangeError
from .ragged import Buffer, Bytes, Positions, from_binary, gather

Nulls = NDArray[np.bool_] | None
Slots = NDArray[np.generic]

# On disk: never change. Decimals of up to so many digits are signed integers of 1, 2, … 8 bytes.
_DECIMAL_DIGITS = (2, 4, 6, 9, 11, 14, 16, 18)
_WORD = 8
MAX_ARROW_OFFSET = 2**31 - 1


class FixedField(ABC):
    """The codec of one field of fixed width.

    ``arrow_type``: the exact type of the arrays on both sides. ``dtype``: the slot, little
    endian and packed; on disk, so it never changes. ``spare``: how many bytes before a slot are
    best loaded with it, as one number of 64 bits, which numpy loads faster than an odd number of
    bytes; 0 if the slot alone is.
    """

    arrow_type: pa.DataType
    dtype: np.dtype[np.generic]
    spare = 0

    @abstractmethod
    def slots_of(self, array: pa.Array) -> Slots:
        """Return one slot per row, of `dtype`. ValueRangeError if a value does not fit it."""

    @abstractmethod
    def array_of(self, slots: Slots, nulls: Nulls) -> pa.Array:
        """Return contiguous slots as an array that is NULL where ``nulls`` says so.

        They are of `dtype`, or, of a field with ``spare`` bytes, int64 whose lowest bytes are
        anything.
        """


class VariableField(ABC):
    """The codec of one field of variable length.

    ``arrow_type``: the exact type of the arrays on both sides.
    """

    arrow_type: pa.DataType

    @abstractmethod
    def encode(self, array: pa.Array, nulls: Nulls) -> Bytes:
        """Return the bytes of every row, none where ``nulls`` says that it is NULL.

        NullValueError, ValueRangeError if a nested value does not fit the type.
        """

    @abstractmethod
    def decode(
        self, buffer: Buffer, starts: Positions, lengths: Positions, nulls: Nulls
    ) -> pa.Array:
        """Return the array whose rows are at ``starts`` in ``buffer``, NULL where ``nulls``.

        Every run must be within the buffer; those of NULL rows must be empty. ValueError if
        the bytes are not values of the type. OverflowError if the array would be too large.
        """


Field = FixedField | VariableField


class PlainField(FixedField):
    """A field whose bytes in the row are those in Arrow: numbers, dates, times, intervals."""

    def __init__(self, arrow_type: pa.DataType) -> None:
        self.arrow_type = arrow_type
        width = arrow_type.bit_width // 8
        # As integers and as strings of bytes, floats and decimals keep every bit.
        self.dtype = np.dtype(f"<u{width}" if width <= 8 else f"S{width}")

    def slots_of(self, array: pa.Array) -> Slots:
        """Return Arrow's own values, without a copy."""
        return _values(array, self.dtype)

    def array_of(self, slots: Slots, nulls: Nulls) -> pa.Array:
        """Return the slots as an array, without a copy."""
        return _array(self.arrow_type, slots, len(slots), nulls)


class BooleanField(FixedField):
    """A field of truth values: a bit in Arrow, a byte of 0 or 1 in the row."""

    arrow_type = pa.bool_()
    dtype = np.dtype("u1")

    def slots_of(self, array: pa.Array) -> Slots:
        """Return one byte per row, 0 or 1."""
        return _values(array.cast(pa.uint8()), self.dtype)

    def array_of(self, slots: Slots, nulls: Nulls) -> pa.Array:
        """Return the array; ValueError if a byte is neither 0 nor 1."""
        flags = slots.view(np.uint8)
        if (flags > 1).any():
            raise ValueError("a byte of the type BOOLEAN is neither 0 nor 1")
        return _array(self.arrow_type, np.packbits(flags, bitorder="little"), len(slots), nulls)


class NarrowDecimalField(FixedField):
    """A field of decimals of up to 18 digits: 16 bytes in Arrow, 1 to 8 in the row."""

    def __init__(self, arrow_type: pa.Decimal128Type, width: int) -> None:
        """``width``: the bytes in the row."""
        self.arrow_type = arrow_type
        self._width = width
        is_number = width in (1, 2, 4, 8)
        self.dtype = np.dtype(f"<i{width}" if is_number else f"S{width}")
        self.spare = 0 if is_number else _WORD - width

    def slots_of(self, array: pa.Array) -> Slots:
        """Return the unscaled values; ValueRangeError if one has more digits than its type."""
        words = _values(array, np.dtype("S16")).view(np.int64).reshape(-1, 2)
        low, high = words[:, 0], words[:, 1]
        too_wide = high != low >> 63
        most = 1 << 8 * self._width - 1
        if len(low) and not -most <= int(low.min()) <= int(low.max()) < most:
            too_wide |= (low < -most) | (low >= most)
        if too_wide.any() and (nulls := nulls_of(array)) is not None:
            too_wide &= ~nulls
        if too_wide.any():
            raise ValueRangeError(
                f"row {int(too_wide.argmax())} holds more digits than {self.arrow_type} has"
            )
        if not self.spare:
            return low.astype(self.dtype)
        # The lowest bytes of each number, without a copy.
        return np.ndarray((len(low),), self.dtype, words, 0, (2 * _WORD,))

    def array_of(self, slots: Slots, nulls: Nulls) -> pa.Array:
        """Return the array; the sign fills the upper half."""
        words = np.empty((len(slots), 2), np.int64)
        if self.spare:
            numbers = self._with_spare(slots) if slots.dtype == self.dtype else slots.view(np.int64)
            np.right_shift(numbers, 8 * self.spare, out=words[:, 0])
        else:
            words[:, 0] = slots
        np.right_shift(words[:, 0], 63, out=words[:, 1])
        return _array(self.arrow_type, words, len(slots), nulls)

    def _with_spare(self, slots: Slots) -> NDArray[np.int64]:
        """Return slots as the upper bytes of numbers."""
        numbers = np.zeros((len(slots), _WORD), np.uint8)
        numbers[:, self.spare :] = slots.view(np.uint8).reshape(len(slots), self._width)
        return numbers.view(np.int64).reshape(len(slots))


class VoidField(FixedField):
    """A field that is always NULL and takes no room."""

    arrow_type = pa.null()
    dtype = np.dtype("V0")

    def slots_of(self, array: pa.Array) -> Slots:
        """Return slots of no bytes."""
        return np.empty(len(array), self.dtype)

    def array_of(self, slots: Slots, nulls: Nulls) -> pa.Array:
        """Return NULLs; ValueError if a row is said not to be NULL."""
        if len(slots) and (nulls is None or not nulls.all()):
            raise ValueError("a value of the type VOID is not NULL")
        return pa.nulls(len(slots))


class BytesField(VariableField):
    """A field of text or binary data: its bytes as they are."""

    def __init__(self, arrow_type: pa.DataType) -> None:
        self.arrow_type = arrow_type

    def encode(self, array: pa.Array, nulls: Nulls) -> Bytes:
        """Return the bytes of the rows, without a copy where no row is NULL."""
        return from_binary(array)

    def decode(
        self, buffer: Buffer, starts: Positions, lengths: Positions, nulls: Nulls
    ) -> pa.Array:
        """Return the rows as text (checked to be UTF-8) or as binary data."""
        check_offsets(int(lengths.sum()))
        array = gather(buffer, starts, lengths).cast(self.arrow_type)
        if nulls is None:
            return array
        buffers = [bitmap_of(nulls), *array.buffers()[1:]]
        return pa.Array.from_buffers(self.arrow_type, len(array), buffers, offset=array.offset)


def fixed_field(arrow_type: pa.DataType) -> FixedField | None:
    """Return the codec of a type of fixed width; None if values of the type vary in width."""
    if pa.types.is_null(arrow_type):
        return VoidField()
    if pa.types.is_boolean(arrow_type):
        return BooleanField()
    if pa.types.is_decimal(arrow_type) and (width := decimal_width(arrow_type.precision)):
        return NarrowDecimalField(arrow_type, width)
    if pa.types.is_primitive(arrow_type) or pa.types.is_decimal(arrow_type):
        return PlainField(arrow_type)
    return None


def decimal_width(digits: int) -> int | None:
    """Return how many bytes a decimal of so many digits has in a row; None for 16."""
    widths = (width for width, most in enumerate(_DECIMAL_DIGITS, 1) if digits <= most)
    return next(widths, None)


def fill(target: Slots, field: FixedField, array: pa.Array, nulls: Nulls) -> None:
    """Put the slots of an array into ``target``, which may be strided; a NULL is all zeros."""
    target[...] = field.slots_of(array)
    if nulls is not None:
        target[nulls] = np.zeros((), field.dtype)


def nulls_of(array: pa.Array) -> Nulls:
    """Return which rows are NULL; None if no row is."""
    if not array.null_count:
        return None
    nulls: NDArray[np.bool_] = array.is_null().to_numpy(zero_copy_only=False)
    return nulls


def bitmap_of(nulls: Nulls) -> pa.Buffer | None:
    """Return Arrow's validity bitmap for rows that are NULL where ``nulls`` says so."""
    return None if nulls is None else pa.py_buffer(np.packbits(~nulls, bitorder="little"))


def check_offsets(size: int) -> None:
    """Refuse an array of ``size`` bytes or elements if Arrow's 32-bit offsets cannot hold it.

    Spark takes no wider ones. OverflowError, since the rows are well: there are too many.
    """
    if size > MAX_ARROW_OFFSET:
        raise OverflowError(
            f"a column of these rows takes {size} bytes or elements and an Arrow array holds "
            f"{MAX_ARROW_OFFSET}: decode fewer rows at once"
        )


def arrow_offsets(bounds: Positions) -> pa.Buffer:
    """Return the offsets of a list array; OverflowError if its elements are too many."""
    check_offsets(int(bounds[-1]))
    return pa.py_buffer(bounds.astype(np.int32))


def _array(
    arrow_type: pa.DataType, values: NDArray[np.generic], rows: int, nulls: Nulls
) -> pa.Array:
    """Return values of a fixed width, laid out as in Arrow, as an array, without a copy."""
    return pa.Array.from_buffers(arrow_type, rows, [bitmap_of(nulls), pa.py_buffer(values)])


def _values(array: pa.Array, dtype: np.dtype[np.generic]) -> Slots:
    """Return the values of an array of a fixed width in Arrow, without a copy."""
    if not len(array):
        return np.empty(0, dtype)
    return np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * dtype.itemsize)
