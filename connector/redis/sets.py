"""The commands of sets."""

from __future__ import annotations

from collections.abc import Iterable

from .command import (
    SYNTAX,
    Arguments,
    Command,
    command,
    parse_count,
    parse_integer,
    parse_random_count,
)
from .database import Database, check_name
from .replies import CommandError, Reply
from .values import SetValue

NUMBER_OF_KEYS = "ERR numkeys should be greater than 0"


def _members(db: Database, key: bytes) -> dict[bytes, bool]:
    """Return the members of a set; none if there is no set."""
    value = db.find(key, SetValue)
    return {} if value is None else value.items


def _sadd(db: Database, args: Arguments) -> Reply:
    value = db.find(args[1], SetValue) or SetValue()
    new = [member for member in dict.fromkeys(args[2:]) if member not in value]
    for member in new:
        check_name(member)
    for member in new:
        value.put(member, True)
    if new:
        db.save(args[1], value, b"sadd")
    return len(new)


def _srem(db: Database, args: Arguments) -> Reply:
    return db.remove_items(args[1], db.find(args[1], SetValue), args[2:], b"srem")


def _smembers(db: Database, args: Arguments) -> Reply:
    return set(_members(db, args[1]))


def _sismember(db: Database, args: Arguments) -> Reply:
    return int(args[2] in _members(db, args[1]))


def _smismember(db: Database, args: Arguments) -> Reply:
    members = _members(db, args[1])
    return [int(member in members) for member in args[2:]]


def _scard(db: Database, args: Arguments) -> Reply:
    return len(_members(db, args[1]))


def _smove(db: Database, args: Arguments) -> Reply:
    source, target = db.find(args[1], SetValue), None
    if source is None:
        return 0
    target = db.find(args[2], SetValue)
    if args[3] not in source:
        return 0
    if source is target:
        return 1
    source.remove(args[3])
    db.save(args[1], source, b"srem")
    target = target or SetValue()
    if target.put(args[3], True):
        db.save(args[2], target, b"sadd")
    return 1


def _spop(db: Database, args: Arguments) -> Reply:
    if len(args) > 3:
        raise CommandError(SYNTAX)
    count = parse_count(args[2]) if len(args) == 3 else 1
    value = db.find(args[1], SetValue)
    chosen = [] if value is None else db.choose(list(value.items), count)
    if value is not None and chosen:
        for member in chosen:
            value.remove(member)
        db.save(args[1], value, b"spop")
    if len(args) == 3:
        return set(chosen)
    return chosen[0] if chosen else None


def _srandmember(db: Database, args: Arguments) -> Reply:
    if len(args) > 3:
        raise CommandError(SYNTAX)
    count = parse_random_count(args[2]) if len(args) == 3 else None
    members = list(_members(db, args[1]))
    if count is None:
        return db.choose(members, 1)[0] if members else None
    return db.choose(members, count)


def _intersection(db: Database, keys: Iterable[bytes]) -> set[bytes]:
    first, *others = [_members(db, key) for key in keys]
    return set(first).intersection(*others)


def _union(db: Database, keys: Iterable[bytes]) -> set[bytes]:
    return set[bytes]().union(*[_members(db, key) for key in keys])


def _difference(db: Database, keys: Iterable[bytes]) -> set[bytes]:
    first, *others = [_members(db, key) for key in keys]
    return set(first).difference(*others)


_COMBINATIONS = {b"SINTER": _intersection, b"SUNION": _union, b"SDIFF": _difference}


def _combine(db: Database, args: Arguments) -> Reply:
    return _COMBINATIONS[args[0].upper()](db, args[1:])


def _combine_and_store(db: Database, args: Arguments) -> Reply:
    members = _COMBINATIONS[args[0].upper().removesuffix(b"STORE")](db, args[2:])
    db.note_misses(args[2:])
    if members:
        db.put(args[1], SetValue.of(members), args[0].lower())
    elif db.get(args[1]) is not None:
        db.remove(args[1])
    return len(members)


def parse_limit(options: Arguments) -> int | None:
    """Return the LIMIT of SINTERCARD or ZINTERCARD; None for none. CommandError."""
    limit = None
    for index in range(0, len(options), 2):
        if options[index].upper() != b"LIMIT" or index + 1 == len(options):
            raise CommandError(SYNTAX)
        negative = "ERR LIMIT can't be negative"
        limit = parse_integer(options[index + 1], negative)
        if limit < 0:
            raise CommandError(negative)
    return limit or None


def _sintercard(db: Database, args: Arguments) -> Reply:
    count = parse_integer(args[1], NUMBER_OF_KEYS)
    if count < 1:
        raise CommandError(NUMBER_OF_KEYS)
    if count > len(args) - 2:
        raise CommandError("ERR Number of keys can't be greater than number of args")
    limit = parse_limit(args[2 + count :])
    size = len(_intersection(db, args[2 : 2 + count]))
    return size if limit is None else min(size, limit)


COMMANDS: dict[str, Command] = {
    "sadd": command(_sadd, -3, "write denyoom fast"),
    "scard": command(_scard, 2, "readonly fast"),
    "sdiff": command(_combine, -2, "readonly", 1, -1),
    "sdiffstore": command(_combine_and_store, -3, "write denyoom", 1, -1),
    "sinter": command(_combine, -2, "readonly", 1, -1),
    "sintercard": command(_sintercard, -3, "readonly movablekeys", 0, 0, 0, count_at=1),
    "sinterstore": command(_combine_and_store, -3, "write denyoom", 1, -1),
    "sismember": command(_sismember, 3, "readonly fast"),
    "smembers": command(_smembers, 2, "readonly"),
    "smismember": command(_smismember, -3, "readonly fast"),
    "smove": command(_smove, 4, "write fast", 1, 2),
    "spop": command(_spop, -2, "write fast"),
    "srandmember": command(_srandmember, -2, "readonly"),
    "srem": command(_srem, -3, "write fast"),
    "sunion": command(_combine, -2, "readonly", 1, -1),
    "sunionstore": command(_combine_and_store, -3, "write denyoom", 1, -1),
}
