"""The library ``bit`` of scripts: operations on integers of 32 bits, as LuaBitOp has them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from operator import and_, or_, xor
from typing import Any

from .arguments import Results, checked, wrong_argument

_MASK = 0xFFFFFFFF


def _integer(args: tuple[Any, ...], index: int) -> int:
    """Return an argument as an unsigned integer of 32 bits; others wrap around."""
    number = args[index] if index < len(args) else None
    if isinstance(number, bytes):
        try:
            number = float(number)
        except ValueError:
            number = b"string"
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise wrong_argument(args, index, "number", missing="no value")
    if isinstance(number, float) and not math.isfinite(number):
        return 0
    return round(number) & _MASK


def _signed(number: int) -> int:
    number &= _MASK
    return number - (1 << 32) if number >> 31 else number


def _combination(combine: Callable[[int, int], int]) -> Callable[..., int]:
    def run(*args: Any) -> int:
        numbers = [_integer(args, index) for index in range(max(len(args), 1))]
        return _signed(reduce(combine, numbers))

    return run


def _shift(shift: Callable[[int, int], int]) -> Callable[..., int]:
    return lambda *args: _signed(shift(_integer(args, 0), _integer(args, 1) & 31))


def _rotated(number: int, places: int) -> int:
    return number << places | number >> (32 - places)


def _swapped(*args: Any) -> int:
    return _signed(int.from_bytes(_integer(args, 0).to_bytes(4, "big"), "little"))


def _hexadecimal(*args: Any) -> bytes:
    digits = _signed(_integer(args, 1)) if len(args) > 1 else 8
    text = f"{_integer(args, 0):08x}"[8 - min(abs(digits), 8) :]
    return (text.upper() if digits < 0 else text).encode()


def _single(run: Callable[..., Any]) -> Callable[..., Results]:
    """Return a function with one result as one with several."""
    return lambda *args: (run(*args),)


FUNCTIONS: dict[bytes, Callable[..., Results]] = {
    name: checked(name, _single(run))
    for name, run in {
        b"tobit": lambda *args: _signed(_integer(args, 0)),
        b"bnot": lambda *args: _signed(~_integer(args, 0)),
        b"band": _combination(and_),
        b"bor": _combination(or_),
        b"bxor": _combination(xor),
        b"lshift": _shift(lambda number, places: number << places),
        b"rshift": _shift(lambda number, places: number >> places),
        b"arshift": _shift(lambda number, places: _signed(number) >> places),
        b"rol": _shift(_rotated),
        b"ror": _shift(lambda number, places: _rotated(number, (32 - places) & 31)),
        b"bswap": _swapped,
        b"tohex": _hexadecimal,
    }.items()
}
"""By name what returns True and the result, or False and the error."""
