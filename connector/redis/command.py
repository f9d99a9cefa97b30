"""A command: what computes its reply, how many arguments it takes, and where keys are in them.

Also how arguments are read. Errors are `CommandError` with Redis's messages.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

import numpy as np

from relstate.storage import errors

from .database import Database
from .replies import CommandError, Reply

_logger = logging.getLogger(__name__)

Arguments = list[bytes]
Run = Callable[[Database, Arguments], Reply]

SYNTAX = "ERR syntax error"
NOT_INTEGER = "ERR value is not an integer or out of range"
NOT_FLOAT = "ERR value is not a valid float"
# Of long doubles: the largest, the least that is not rounded, and what is rounded to zero.
_LARGEST = Decimal("1.189731495357231765e4932")
_LEAST_EXACT = Decimal("3.3621031431120935063e-4932")
_LEAST = Decimal("1.8225997659412373013e-4951")
LEAST, MOST = -(1 << 63), (1 << 63) - 1
LAST_MOMENT = 253_402_300_799_999
"""The last millisecond of the year 9999: later expiries are refused."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command that reads or changes a database.

    ``run`` takes the arguments with the command's name as the first. ``arity``: their number, or
    if negative the least. ``flags``: as Redis names them; ``keys``: the index of the first key, of
    the last (-1: the last argument), and the step; ``count_at``: the index of the number of further
    keys, which follow it, 0 for none.
    """

    run: Run
    arity: int
    flags: frozenset[str]
    keys: tuple[int, int, int]
    count_at: int = 0

    @property
    def writes(self) -> bool:
        """Whether it may change the database."""
        return "write" in self.flags


@dataclass(frozen=True, slots=True)
class Wait:
    """The reply of a command that waits until there is something at one of some keys.

    ``database_keys``: numbers of databases, with keys. ``seconds``: how long it waits at most, 0
    for no end.
    ``attempt`` returns the reply once there is something at one of the keys, None before;
    ``empty``: the reply if there never was.
    """

    database_keys: tuple[tuple[int, bytes], ...]
    seconds: float
    attempt: Callable[[bytes], Reply]
    empty: Reply


def command(
    run: Run,
    arity: int,
    flags: str,
    first: int = 1,
    last: int = 1,
    step: int = 1,
    *,
    count_at: int = 0,
) -> Command:
    """Return a command; ``flags``: with blanks between them."""
    return Command(run, arity, frozenset(flags.split()), (first, last, step), count_at)


def keys_of(command: Command, args: Arguments) -> list[bytes]:
    """Return the keys among the arguments of a command, which are right."""
    first, last, step = command.keys
    keys = args[first : len(args) + last + 1 if last < 0 else last + 1 : step] if first else []
    if command.count_at:
        start = command.count_at + 1
        keys += args[start : start + int(args[command.count_at])]
    return keys


def arity_error(name: bytes) -> CommandError:
    """Return the error of a wrong number of arguments; ``name``: of the command, as it was sent."""
    shown = name.decode(errors="replace").lower()
    return CommandError(f"ERR wrong number of arguments for '{shown}' command")


def store_error(error: errors.RelstateError) -> CommandError:
    """Return the reply of a command that could not read the store, and log why."""
    _logger.warning("a command could not read the store: %s", error)
    return CommandError(f"ERR {type(error).__name__}: {error}")


def fits_arity(arity: int, count: int) -> bool:
    """Return whether a number of arguments, the name among them, is right."""
    return count == arity if arity >= 0 else count >= -arity


def parse_integer(data: bytes, message: str = NOT_INTEGER) -> int:
    """Return the 64-bit integer that is written without anything superfluous."""
    try:
        number = int(data)
    except ValueError:
        raise CommandError(message) from None
    if len(data) > 20 or b"%d" % number != data or not LEAST <= number <= MOST:
        raise CommandError(message)
    return number


def parse_random_count(data: bytes) -> int:
    """Return a number of random elements; if negative, they may repeat."""
    number = parse_integer(data)
    if number == LEAST:
        raise CommandError(f"ERR value is out of range, must be between {-MOST} and {MOST}")
    return number


def parse_count(data: bytes) -> int:
    """Return a number of elements, which is not negative."""
    message = "ERR value is out of range, must be positive"
    number = parse_integer(data, message)
    if number < 0:
        raise CommandError(message)
    return number


def parse_float(data: bytes, message: str = NOT_FLOAT, *, may_overflow: bool = False) -> float:
    """Return a number that is not NaN, decimal or hexadecimal.

    ``may_overflow``: one beyond the largest or below the least is infinite or zero, and no error.
    """
    if data[:1].isspace() or data[-1:].isspace() or b"_" in data:
        raise CommandError(message)
    try:
        is_hexadecimal = b"x" in data or b"X" in data
        number = float.fromhex(data.decode("ascii")) if is_hexadecimal else float(data)
    except OverflowError:
        number = -math.inf if data[:1] == b"-" else math.inf
    except ValueError:
        raise CommandError(message) from None
    is_beyond = number == 0 or math.isinf(number)
    if math.isnan(number) or (is_beyond and not may_overflow and _is_rounded(data, number)):
        raise CommandError(message)
    return number


def _is_rounded(data: bytes, number: float) -> bool:
    """Return whether a number that is zero or infinite was written as another one."""
    if number:
        return b"n" not in data.lower()
    digits = re.split(rb"[eEpP]", data)[0] if b"x" not in data.lower() else data[2:].split(b"p")[0]
    return re.search(rb"[1-9a-fA-F]", digits) is not None


def parse_long_double(data: bytes, message: str = NOT_FLOAT) -> np.longdouble:
    """Return a number with the precision that Redis adds with."""
    number = parse_float(data, message, may_overflow=True)
    if b"x" in data.lower():
        return np.longdouble(number)
    text = data.decode()
    if number and math.isfinite(number):
        return np.longdouble(text)
    if not _is_rounded(data, number):
        return np.longdouble(number)
    try:
        size = abs(Decimal(text))
    except InvalidOperation:
        raise CommandError(message) from None
    if not _LEAST < size <= _LARGEST:
        raise CommandError(message)
    # What is less changes no sum, of which 17 digits after the point are written.
    return np.longdouble(text if size >= _LEAST_EXACT else 0)


def format_long_double(number: np.longdouble) -> bytes:
    """Return a sum as Redis writes it: up to 17 digits after the point."""
    text = np.format_float_positional(number, precision=17, unique=False, trim="-")
    return b"0" if text == "-0" else text.encode()


def added_float(previous: np.longdouble, increment: np.longdouble) -> bytes:
    """Return the sum of two numbers, written. CommandError if it is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = previous + increment
    if not np.isfinite(total):
        raise CommandError("ERR increment would produce NaN or Infinity")
    return format_long_double(total)


def added(previous: int, increment: int) -> int:
    """Return a sum of 64-bit integers. CommandError if it is none."""
    total = previous + increment
    if not LEAST <= total <= MOST:
        raise CommandError("ERR increment or decrement would overflow")
    return total


def expiry_of(db: Database, name: bytes, amount: bytes, unit: int, *, is_moment: bool) -> int:
    """Return a time to live, or a moment, as milliseconds since 1970.

    ``unit``: milliseconds; ``name``: of the command, for the message if it is out of range.
    """
    number = parse_integer(amount) * unit
    moment = number if is_moment else number + db.now()
    if not LEAST <= number <= MOST or moment > LAST_MOMENT:
        raise expiry_error(name)
    return moment


def expiry_error(name: bytes) -> CommandError:
    """Return the error of a time to live that is out of range."""
    return CommandError(f"ERR invalid expire time in '{name.decode().lower()}' command")


def range_of(start: int, stop: int, length: int) -> range:
    """Return the indices from one to another, both included; negative ones count from the end.

    Both ends of the range are from 0 to ``length``, so that they slice, also if it is empty.
    """
    first = min(max(start + length if start < 0 else start, 0), length)
    last = min(stop + length if stop < 0 else stop, length - 1)
    return range(first, max(first, last + 1))
