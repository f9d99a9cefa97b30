"""Paths: where a part of a row is, as bytes that follow the row's key.

    path      number, component, component, ...
    number    u16, its highest bit set: a column by its id, a field of a struct by its index from 1
    map key   a field of key_field.py: 0x01, then the value
    place     0x01, i64 with its sign bit flipped, u64: where an element of an array is
    liveness  0x02: says of the object above it that it is there; after all of its fields

All numbers are big endian. On disk: never change.
Promises: the order of bytes is the order of paths, component by component; a path is directly
followed by the paths below it. No component is a prefix of another one with the same parent, and
none begins with 0x00 or 0xff, so a row's key and one byte 0xff is above all paths of the row.
Does not know: rows, values, or which component comes where: that follows from a column's type.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .key_field import VALUE_TAG
from .ragged import Buffer, Bytes, Positions, concat, from_matrix, load

# On disk: never change or reuse.
_NUMBER_FLAG = 0x8000
NUMBER_BYTES, PLACE_BYTES = 2, 17
# The first byte of a larger number would be 0xff.
MAX_NUMBER = 0x7EFF
ABOVE_PATHS = b"\xff"
"""What follows a row's key in the least bytes above all of its paths."""

LIVENESS = b"\x02"
"""The component that is after those of all fields of an object."""

_PLACE = np.dtype([("tag", "u1"), ("place", ">u8"), ("writer", ">u8")])
_SIGN = np.uint64(1 << 63)


def number_component(number: int) -> bytes:
    """Return the component of a column's id, or of the index of a struct's field, from 1."""
    assert 1 <= number <= MAX_NUMBER, number
    return (_NUMBER_FLAG | number).to_bytes(NUMBER_BYTES, "big")


def load_numbers(buffer: Buffer, positions: Positions) -> NDArray[np.int64]:
    """Return the numbers whose components begin at some positions.

    ValueError or IndexError if the bytes are not those of numbers.
    """
    numbers = load(buffer, positions, ">u2").astype(np.int64)
    if len(numbers) and (numbers < _NUMBER_FLAG).any():
        raise ValueError("a path has no number where a column or a field is expected")
    return numbers & ~_NUMBER_FLAG


def read_number(path: bytes, position: int) -> int:
    """Return the number whose component begins at a position of a path.

    ValueError or IndexError if the bytes are not those of a number.
    """
    number = path[position] << 8 | path[position + 1]
    if number < _NUMBER_FLAG:
        raise ValueError("a path has no number where a column or a field is expected")
    return number & ~_NUMBER_FLAG


def place_components(places: Positions, writers: NDArray[np.uint64] | None = None) -> Bytes:
    """Return the components of the places of some elements, int64; they sort as the places do.

    ``writers``: numbers that tell elements of one place apart, 0 by default.
    """
    components = np.empty(len(places), _PLACE)
    components["tag"] = VALUE_TAG
    components["place"] = places.view(np.uint64) ^ _SIGN
    components["writer"] = 0 if writers is None else writers
    return from_matrix(components.view(np.uint8).reshape(len(places), PLACE_BYTES))


def check_places(buffer: Buffer, positions: Positions) -> None:
    """ValueError or IndexError unless the components of places begin at some positions."""
    if (load(buffer, positions, _PLACE)["tag"] != VALUE_TAG).any():
        raise ValueError("a path has no place where an element of an array is expected")


def extended(paths: Bytes, component: bytes | Bytes) -> Bytes:
    """Return each path with one more component: the same for all, or one for each."""
    if isinstance(component, bytes):
        return concat([paths, pa.scalar(component, pa.large_binary())])
    return concat([paths, component])
