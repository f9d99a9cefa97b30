"""Numbers of scripts: those of MessagePack, and random ones."""

from __future__ import annotations

import math
import struct

_BITS = (1 << 48) - 1
_LARGEST = (1 << 31) - 1
_FORMATS = {0xCA: ">f", 0xCB: ">d", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}
"""By mark of MessagePack how the bytes after it are read."""
_INTEGERS = (
    (0, 0x7F, b"", ">B"),
    (0, 0xFF, b"\xcc", ">B"),
    (0, 0xFFFF, b"\xcd", ">H"),
    (0, 0xFFFFFFFF, b"\xce", ">I"),
    (0, (1 << 64) - 1, b"\xcf", ">Q"),
    (-32, -1, b"", ">b"),
    (-(1 << 7), -1, b"\xd0", ">b"),
    (-(1 << 15), -1, b"\xd1", ">h"),
    (-(1 << 31), -1, b"\xd2", ">i"),
    (-(1 << 63), -1, b"\xd3", ">q"),
)


def pack_number(number: float) -> bytes:
    """Return a number as MessagePack: an integer if it is one of 64 bits, the shortest way."""
    if math.isfinite(number) and number == int(number):
        for least, most, mark, layout in _INTEGERS:
            if least <= number <= most:
                return mark + struct.pack(layout, int(number))
    try:
        single = struct.pack(">f", number)
    except OverflowError:
        return b"\xcb" + struct.pack(">d", number)
    if struct.unpack(">f", single)[0] == number:
        return b"\xca" + single
    return b"\xcb" + struct.pack(">d", number)


def unpack_number(mark: float, data: bytes) -> float:
    """Return the number in the bytes after a mark of MessagePack."""
    return float(struct.unpack(_FORMATS[int(mark)], data)[0])


class Random48:
    """The generator of ``math.random``: that of ``lrand48``, as Redis has it."""

    def __init__(self, seed: int) -> None:
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Begin the sequence of a seed."""
        self._state = (seed & 0xFFFFFFFF) << 16 | 0x330E

    def fraction(self) -> float:
        """Return a number from 0 to below 1."""
        self._state = (self._state * 0x5DEECE66D + 0xB) & _BITS
        return ((self._state >> 17) % _LARGEST) / _LARGEST
