"""The commands of time series, which YugabyteDB has and Redis has not: TSADD and its like."""

from __future__ import annotations

from .command import (
    LEAST,
    MOST,
    SYNTAX,
    Arguments,
    Command,
    arity_error,
    command,
    expiry_error,
    expiry_of,
    parse_integer,
)
from .database import Database
from .replies import OK, CommandError, Reply
from .values import SeriesValue

_MOST_ENTRIES = (1 << 31) - 1
_SECOND = 1000


def _tsadd(db: Database, args: Arguments) -> Reply:
    words, expiry = args[2:], None
    option = words[-2].upper()
    if len(words) > 2 and option in (b"EXPIRE_IN", b"EXPIRE_AT"):
        if option == b"EXPIRE_IN" and parse_integer(words[-1]) <= 0:
            raise expiry_error(args[0])
        is_moment = option == b"EXPIRE_AT"
        expiry = expiry_of(db, args[0], words[-1], _SECOND, is_moment=is_moment)
        words = words[:-2]
    if len(words) % 2:
        raise arity_error(args[0])
    timestamps = [parse_integer(word) for word in words[::2]]
    value = db.find(args[1], SeriesValue) or SeriesValue()
    if expiry is not None and expiry <= db.now():
        value.remove(timestamps)
    else:
        value.put(dict(zip(timestamps, words[1::2], strict=True)), expiry)
    db.save(args[1], value, b"tsadd")
    return OK


def _tsget(db: Database, args: Arguments) -> Reply:
    timestamp = parse_integer(args[2])
    value = db.find(args[1], SeriesValue)
    return None if value is None else value.items.get(timestamp)


def _tsrem(db: Database, args: Arguments) -> Reply:
    timestamps = [parse_integer(word) for word in args[2:]]
    value = db.find(args[1], SeriesValue)
    if value is not None:
        value.remove(timestamps)
        db.save(args[1], value, b"tsrem")
    return OK


def _tscard(db: Database, args: Arguments) -> Reply:
    return len(db.find(args[1], SeriesValue) or ())


def _tslastn(db: Database, args: Arguments) -> Reply:
    count = _parse_limit(args[0], args[2])
    value = db.find(args[1], SeriesValue)
    return [] if value is None else _entries(value, value.order[-count:])


def _tsrangebytime(db: Database, args: Arguments) -> Reply:
    low, high = _parse_end(args[2], 1), _parse_end(args[3], -1)
    limit: int | None = None
    if len(args) > 4:
        if len(args) != 6 or args[4].upper() != b"LIMIT" or args[0].upper() == b"TSRANGEBYTIME":
            raise CommandError(SYNTAX)
        limit = _parse_limit(args[0], args[5])
    value = db.find(args[1], SeriesValue)
    if value is None:
        return []
    timestamps = value.between(low, high)
    if args[0].upper() == b"TSREVRANGEBYTIME":
        timestamps.reverse()
    return _entries(value, timestamps[:limit])


def _entries(value: SeriesValue, timestamps: list[int]) -> list[bytes]:
    return [
        word for timestamp in timestamps for word in (b"%d" % timestamp, value.items[timestamp])
    ]


def _parse_limit(name: bytes, word: bytes) -> int:
    number = parse_integer(word)
    if not 1 <= number <= _MOST_ENTRIES:
        shown = name.decode().lower()
        raise CommandError(f"ERR {shown}: limit field {number} is not within valid bounds")
    return number


def _parse_end(word: bytes, step: int) -> int:
    """Return an end of a range, as one that is included; ``step``: from it into the range."""
    if word.lower() in (b"-inf", b"+inf"):
        return LEAST if word[:1] == b"-" else MOST
    return parse_integer(word[1:]) + step if word[:1] == b"(" else parse_integer(word)


COMMANDS: dict[str, Command] = {
    "tsadd": command(_tsadd, -4, "write denyoom"),
    "tscard": command(_tscard, 2, "readonly"),
    "tsget": command(_tsget, 3, "readonly"),
    "tslastn": command(_tslastn, 3, "readonly"),
    "tsrangebytime": command(_tsrangebytime, -4, "readonly"),
    "tsrem": command(_tsrem, -3, "write"),
    "tsrevrangebytime": command(_tsrangebytime, -4, "readonly"),
}
