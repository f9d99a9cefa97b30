"""A command: what computes its reply, how many arguments it takes, and where keys are in them.

Also how arguments are read. Errors are `CommandError` with Redis's messages.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

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
LEAST, MOST = -(1 << 63), (1 << 63) - 1
MOST_STRING_BYTES = 512 << 20
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
    ``attempt`` returns the reply once there is something, None before; ``empty``: the reply if
    there never was.
    """

    database_keys: tuple[tuple[int, bytes], ...]
    seconds: float
    attempt: Callable[[], Reply]
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


def parse_float(data: bytes, message: str = NOT_FLOAT) -> float:
    """Return a number that is not NaN."""
    try:
        number = float(data)
    except ValueError:
        raise CommandError(message) from None
    if number != number or data[:1].isspace() or data[-1:].isspace() or b"_" in data:
        raise CommandError(message)
    return number


def parse_long_double(data: bytes, message: str = NOT_FLOAT) -> np.longdouble:
    """Return a number with the precision that Redis adds with."""
    parse_float(data, message)
    return np.longdouble(data.decode())


def format_long_double(number: np.longdouble) -> bytes:
    """Return a sum as Redis writes it: up to 17 digits after the point."""
    text = np.format_float_positional(number, precision=17, unique=False, trim="-")
    return b"0" if text == "-0" else text.encode()


def added_float(previous: np.longdouble, increment: np.longdouble) -> bytes:
    """Return the sum of two numbers, written. CommandError if it is not finite."""
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
    if not -LAST_MOMENT <= number <= LAST_MOMENT or moment > LAST_MOMENT:
        raise expiry_error(name)
    return moment


def expiry_error(name: bytes) -> CommandError:
    """Return the error of a time to live that is out of range."""
    return CommandError(f"ERR invalid expire time in '{name.decode().lower()}' command")


def range_of(start: int, stop: int, length: int) -> range:
    """Return the indices from one to another, both included; negative ones count from the end."""
    first = max(start + length if start < 0 else start, 0)
    last = min(stop + length if stop < 0 else stop, length - 1)
    return range(first, last + 1)


@lru_cache(maxsize=256)
def glob(pattern: bytes) -> Callable[[bytes], object]:
    r"""Return what says whether bytes match a pattern with ``*``, ``?``, ``[a-z]`` and ``\``."""
    return re.compile(_regex_of(pattern), re.DOTALL).fullmatch


def _regex_of(pattern: bytes) -> bytes:
    """Return a regular expression that takes no more than the product of both lengths.

    What is between two stars is matched where it first occurs, and not again elsewhere.
    """
    first, *rest = [b"".join(pieces) for pieces in _between_stars(pattern)]
    if not rest:
        return first
    *middle, last = rest
    return first + b"".join(b"(?>.*?%b)" % piece for piece in middle if piece) + b".*" + last


def _between_stars(pattern: bytes) -> list[list[bytes]]:
    """Return the regular expressions of the characters before, between and after the stars."""
    pieces: list[bytes] = []
    all_pieces = [pieces]
    index = 0
    while index < len(pattern):
        character = pattern[index : index + 1]
        index += 1
        if character == b"*":
            pieces = []
            all_pieces.append(pieces)
        elif character == b"?":
            pieces.append(b".")
        elif character == b"[":
            piece, index = _class_at(pattern, index)
            pieces.append(piece)
        else:
            if character == b"\\" and index < len(pattern):
                character = pattern[index : index + 1]
                index += 1
            pieces.append(re.escape(character))
    return all_pieces


def _class_at(pattern: bytes, index: int) -> tuple[bytes, int]:
    """Return the regular expression of a class of characters, and the index after it."""
    negation = b"^" if pattern[index : index + 1] == b"^" else b""
    index += len(negation)
    members: list[bytes] = []
    while index < len(pattern) and pattern[index : index + 1] != b"]":
        if pattern[index : index + 1] == b"\\" and index + 1 < len(pattern):
            members.append(re.escape(pattern[index + 1 : index + 2]))
            index += 2
        elif pattern[index + 1 : index + 2] == b"-" and index + 2 < len(pattern):
            low, high = sorted((pattern[index : index + 1], pattern[index + 2 : index + 3]))
            members.append(b"%b-%b" % (re.escape(low), re.escape(high)))
            index += 3
        else:
            members.append(re.escape(pattern[index : index + 1]))
            index += 1
    if not members:
        return (b"." if negation else b"(?!)"), index + 1
    return b"[%b%b]" % (negation, b"".join(members)), index + 1
