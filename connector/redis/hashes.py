"""The commands of hashes."""

from __future__ import annotations

import numpy as np

from .command import (
    SYNTAX,
    Arguments,
    Command,
    added,
    added_float,
    arity_error,
    command,
    parse_integer,
    parse_long_double,
    parse_random_count,
)
from .database import Database, check_name
from .replies import OK, CommandError, Pairs, Reply
from .values import HashValue


def _fields(db: Database, key: bytes) -> dict[bytes, bytes]:
    """Return the fields of a hash; none if there is no hash."""
    value = db.find(key, HashValue)
    return {} if value is None else value.items


def _set_fields(
    db: Database, key: bytes, pairs: list[tuple[bytes, bytes]], event: bytes = b"hset"
) -> int:
    """Set fields of a hash and return how many are new."""
    for field, _ in pairs:
        check_name(field)
    value = db.find(key, HashValue) or HashValue()
    new = sum(value.put(field, data) for field, data in pairs)
    db.save(key, value, event)
    return new


def _hset(db: Database, args: Arguments) -> Reply:
    if len(args) % 2:
        raise arity_error(args[0])
    new = _set_fields(db, args[1], list(zip(args[2::2], args[3::2], strict=True)))
    return OK if args[0].upper() == b"HMSET" else new


def _hsetnx(db: Database, args: Arguments) -> Reply:
    if args[2] in _fields(db, args[1]):
        return 0
    return _set_fields(db, args[1], [(args[2], args[3])])


def _hget(db: Database, args: Arguments) -> Reply:
    return _fields(db, args[1]).get(args[2])


def _hmget(db: Database, args: Arguments) -> Reply:
    fields = _fields(db, args[1])
    return [fields.get(field) for field in args[2:]]


def _hgetall(db: Database, args: Arguments) -> Reply:
    return dict(_fields(db, args[1]))


def _hkeys(db: Database, args: Arguments) -> Reply:
    return list(_fields(db, args[1]))


def _hvals(db: Database, args: Arguments) -> Reply:
    return list(_fields(db, args[1]).values())


def _hlen(db: Database, args: Arguments) -> Reply:
    return len(_fields(db, args[1]))


def _hexists(db: Database, args: Arguments) -> Reply:
    return int(args[2] in _fields(db, args[1]))


def _hstrlen(db: Database, args: Arguments) -> Reply:
    return len(_fields(db, args[1]).get(args[2], b""))


def _hdel(db: Database, args: Arguments) -> Reply:
    return db.remove_items(args[1], db.find(args[1], HashValue), args[2:], b"hdel")


def _hincrby(db: Database, args: Arguments) -> Reply:
    increment = parse_integer(args[3])
    data = _fields(db, args[1]).get(args[2], b"0")
    total = added(parse_integer(data, "ERR hash value is not an integer"), increment)
    _set_fields(db, args[1], [(args[2], b"%d" % total)], b"hincrby")
    return total


def _hincrbyfloat(db: Database, args: Arguments) -> Reply:
    increment = parse_long_double(args[3])
    if not np.isfinite(increment):
        raise CommandError("ERR value is NaN or Infinity")
    data = _fields(db, args[1]).get(args[2], b"0")
    total = added_float(parse_long_double(data, "ERR hash value is not a float"), increment)
    _set_fields(db, args[1], [(args[2], total)], b"hincrbyfloat")
    return total


def _hrandfield(db: Database, args: Arguments) -> Reply:
    count = parse_random_count(args[2]) if len(args) > 2 else None
    with_values = len(args) == 4 and args[3].upper() == b"WITHVALUES"
    if len(args) > 4 or (len(args) == 4 and not with_values):
        raise CommandError(SYNTAX)
    fields = _fields(db, args[1])
    if count is None:
        return db.choose(list(fields), 1)[0] if fields else None
    chosen = db.choose(list(fields), count)
    if not with_values:
        return chosen
    return Pairs([(field, fields[field]) for field in chosen])


COMMANDS: dict[str, Command] = {
    "hdel": command(_hdel, -3, "write fast"),
    "hexists": command(_hexists, 3, "readonly fast"),
    "hget": command(_hget, 3, "readonly fast"),
    "hgetall": command(_hgetall, 2, "readonly"),
    "hincrby": command(_hincrby, 4, "write denyoom fast"),
    "hincrbyfloat": command(_hincrbyfloat, 4, "write denyoom fast"),
    "hkeys": command(_hkeys, 2, "readonly"),
    "hlen": command(_hlen, 2, "readonly fast"),
    "hmget": command(_hmget, -3, "readonly fast"),
    "hmset": command(_hset, -4, "write denyoom fast"),
    "hrandfield": command(_hrandfield, -2, "readonly"),
    "hset": command(_hset, -4, "write denyoom fast"),
    "hsetnx": command(_hsetnx, 4, "write denyoom fast"),
    "hstrlen": command(_hstrlen, 3, "readonly fast"),
    "hvals": command(_hvals, 2, "readonly"),
}
