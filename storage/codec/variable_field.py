"""Fields of variable length: an Arrow array to and from one run of bytes per row.

Promises: what is decoded is checked: text is UTF-8, and no row reaches into another.
Does not know: where in a row its runs of bytes stand.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import pyarrow as pa

from .fixed_field import Nulls, bitmap_of
from .ragged import Buffer, Bytes, Positions, from_binary, gather

MAX_ARROW_OFFSET = 2**31 - 1


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

        Every run must lie within the buffer; those of NULL rows must be empty. ValueError if
        the bytes are no value of the type. OverflowError if the array would be too large.
        """


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
