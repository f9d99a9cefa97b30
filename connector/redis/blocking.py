"""The commands that wait for an element, and those that take from the first key that has one."""

from __future__ import annotations

import math
from collections.abc import Callable

from relstate.storage import errors

from .command import (
    MOST,
    SYNTAX,
    Arguments,
    Command,
    Wait,
    command,
    parse_float,
    parse_integer,
    store_error,
)
from .database import Database
from .lists import move_item, parse_end, pop_items
from .replies import NO_ARRAY, CommandError, Reply
from .sets import NUMBER_OF_KEYS
from .sorted_sets import pop_elements
from .values import ListValue, SortedSetValue, Value

_NOT_TIMEOUT = "ERR timeout is not a float or out of range"
Take = Callable[[Database, bytes], Reply]


def _timeout(data: bytes) -> float:
    """Return after how many seconds a client waits no longer, 0 for never. CommandError."""
    seconds = parse_float(data, _NOT_TIMEOUT)
    if seconds < 0:
        raise CommandError("ERR timeout is negative")
    if math.isinf(seconds) or seconds * 1000 > MOST:
        raise CommandError("ERR timeout is out of range")
    return seconds


def _first_of(db: Database, keys: list[bytes], kind: type[Value], take: Take) -> Reply:
    """Return what is taken from the first key that has a value of a type; None for none."""
    for key in keys:
        if db.find(key, kind) is not None:
            return take(db, key)
    return None


def _take_or_wait(
    db: Database, keys: list[bytes], kind: type[Value], take: Take, seconds: float, empty: Reply
) -> Reply:
    """Return what is taken from the first key that has something, or the wait for it."""
    reply = _first_of(db, keys, kind, take)
    if reply is not None:
        return reply

    def attempt(key: bytes) -> Reply:
        try:
            return take(db, key) if isinstance(db.get(key), kind) else None
        except CommandError as error:
            return error
        except errors.RelstateError as error:
            return store_error(error)

    return Wait(tuple((db.number, key) for key in keys), seconds, attempt, empty)


def _pop_one(at_head: bool) -> Take:
    def take(db: Database, key: bytes) -> Reply:
        value = db.find(key, ListValue)
        assert value is not None
        return [key, *pop_items(db, key, value, 1, at_head=at_head)]

    return take


def _bpop(db: Database, args: Arguments) -> Reply:
    seconds = _timeout(args[-1])
    take = _pop_one(args[0].upper() == b"BLPOP")
    return _take_or_wait(db, args[1:-1], ListValue, take, seconds, NO_ARRAY)


def _bzpop(db: Database, args: Arguments) -> Reply:
    seconds = _timeout(args[-1])
    from_end = args[0].upper() == b"BZPOPMAX"

    def take(db: Database, key: bytes) -> Reply:
        value = db.find(key, SortedSetValue)
        ((score, member),) = pop_elements(db, key, value, 1, from_end=from_end)
        return [key, member, score]

    return _take_or_wait(db, args[1:-1], SortedSetValue, take, seconds, NO_ARRAY)


def _blmove(db: Database, args: Arguments) -> Reply:
    from_head, to_head = parse_end(args[3]), parse_end(args[4])
    return _move_or_wait(db, args[1], args[2], from_head, to_head, _timeout(args[5]))


def _brpoplpush(db: Database, args: Arguments) -> Reply:
    return _move_or_wait(db, args[1], args[2], False, True, _timeout(args[3]))


def _move_or_wait(
    db: Database, source: bytes, target: bytes, from_head: bool, to_head: bool, seconds: float
) -> Reply:
    def take(db: Database, key: bytes) -> Reply:
        return move_item(db, key, target, from_head, to_head)

    return _take_or_wait(db, [source], ListValue, take, seconds, None)


# Several elements


def _counted(args: Arguments) -> tuple[list[bytes], bytes, int]:
    """Return the keys, the end and the number of elements of LMPOP or ZMPOP. CommandError."""
    number = parse_integer(args[0], NUMBER_OF_KEYS)
    if number < 1:
        raise CommandError(NUMBER_OF_KEYS)
    if number + 1 >= len(args):
        raise CommandError(SYNTAX)
    keys, end, options = args[1 : number + 1], args[number + 1].upper(), args[number + 2 :]
    if not options:
        return keys, end, 1
    if len(options) != 2 or options[0].upper() != b"COUNT":
        raise CommandError(SYNTAX)
    message = "ERR count should be greater than 0"
    count = parse_integer(options[1], message)
    if count < 1:
        raise CommandError(message)
    return keys, end, count


def _pop_items(count: int, at_head: bool) -> Take:
    def take(db: Database, key: bytes) -> Reply:
        value = db.find(key, ListValue)
        assert value is not None
        return [key, pop_items(db, key, value, count, at_head=at_head)]

    return take


def _pop_elements(count: int, from_end: bool) -> Take:
    def take(db: Database, key: bytes) -> Reply:
        value = db.find(key, SortedSetValue)
        elements = pop_elements(db, key, value, count, from_end=from_end)
        return [key, [[member, score] for score, member in elements]]

    return take


def _mpop(db: Database, args: Arguments) -> Reply:
    name = args[0].upper()
    waits = name.startswith(b"B")
    seconds = _timeout(args[1]) if waits else 0.0
    keys, end, count = _counted(args[2:] if waits else args[1:])
    kind: type[Value] = ListValue
    if name.endswith(b"LMPOP"):
        take = _pop_items(count, parse_end(end))
    elif end in (b"MIN", b"MAX"):
        kind, take = SortedSetValue, _pop_elements(count, end == b"MAX")
    else:
        raise CommandError(SYNTAX)
    if waits:
        return _take_or_wait(db, keys, kind, take, seconds, NO_ARRAY)
    reply = _first_of(db, keys, kind, take)
    return NO_ARRAY if reply is None else reply


COMMANDS: dict[str, Command] = {
    "blmove": command(_blmove, 6, "write denyoom noscript blocking", 1, 2),
    "blmpop": command(_mpop, -5, "write blocking movablekeys", 0, 0, 0, count_at=2),
    "blpop": command(_bpop, -3, "write noscript blocking", 1, -2),
    "brpop": command(_bpop, -3, "write noscript blocking", 1, -2),
    "brpoplpush": command(_brpoplpush, 4, "write denyoom noscript blocking", 1, 2),
    "bzmpop": command(_mpop, -5, "write blocking movablekeys", 0, 0, 0, count_at=2),
    "bzpopmax": command(_bzpop, -3, "write fast noscript blocking", 1, -2),
    "bzpopmin": command(_bzpop, -3, "write fast noscript blocking", 1, -2),
    "lmpop": command(_mpop, -4, "write movablekeys", 0, 0, 0, count_at=1),
    "zmpop": command(_mpop, -4, "write movablekeys", 0, 0, 0, count_at=1),
}
