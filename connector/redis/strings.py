"""The commands of strings."""

from __future__ import annotations

from .command import (
    LEAST,
    MOST_STRING_BYTES,
    NOT_FLOAT,
    SYNTAX,
    Arguments,
    Command,
    added,
    added_float,
    arity_error,
    command,
    expiry_error,
    expiry_of,
    parse_integer,
    parse_long_double,
)
from .database import Database
from .replies import OK, CommandError, Reply
from .values import StringValue, Value

_EXPIRY_OPTIONS = {
    b"EX": (1000, False),
    b"PX": (1, False),
    b"EXAT": (1000, True),
    b"PXAT": (1, True),
}


def _get(db: Database, args: Arguments) -> Reply:
    return db.string(args[1])


def _mget(db: Database, args: Arguments) -> Reply:
    values = (db.get(key) for key in args[1:])
    return [value.data if isinstance(value, StringValue) else None for value in values]


def _put(db: Database, key: bytes, data: bytes, expiry: int | None = None) -> None:
    value = StringValue(data)
    value.expiry = expiry
    db.put(key, value)


def _replace(db: Database, key: bytes, data: bytes, previous: Value | None) -> None:
    """Write a string that has the expiry of the one before."""
    if len(data) > MOST_STRING_BYTES:
        raise CommandError("ERR string exceeds maximum allowed size (proto-max-bulk-len)")
    _put(db, key, data, None if previous is None else previous.expiry)


def _expiry_option(db: Database, args: Arguments, option: bytes, amount: bytes) -> int:
    """Return the expiry that an option says. A time to live that is not positive is refused."""
    unit, is_moment = _EXPIRY_OPTIONS[option]
    if parse_integer(amount) <= 0:
        raise expiry_error(args[0])
    return expiry_of(db, args[0], amount, unit, is_moment=is_moment)


def _set(db: Database, args: Arguments) -> Reply:
    if len(args) == 3:
        _put(db, args[1], args[2])
        return OK
    options: set[bytes] = set()
    lifetime: tuple[bytes, bytes] | None = None
    index = 3
    while index < len(args):
        option = args[index].upper()
        index += 1
        if option in (b"NX", b"XX", b"GET") or (option == b"KEEPTTL" and lifetime is None):
            options.add(option)
        elif option in _EXPIRY_OPTIONS and not lifetime and b"KEEPTTL" not in options:
            if index == len(args):
                raise CommandError(SYNTAX)
            lifetime = (option, args[index])
            index += 1
        else:
            raise CommandError(SYNTAX)
    if options >= {b"NX", b"XX"}:
        raise CommandError(SYNTAX)
    expiry = None if lifetime is None else _expiry_option(db, args, *lifetime)
    previous = db.find(args[1], StringValue) if b"GET" in options else db.get(args[1])
    reply = previous.data if b"GET" in options and isinstance(previous, StringValue) else None
    if (b"NX" in options and previous is not None) or (b"XX" in options and previous is None):
        return reply
    if b"KEEPTTL" in options and previous is not None:
        expiry = previous.expiry
    _put(db, args[1], args[2], expiry)
    return reply if b"GET" in options else OK


def _setnx(db: Database, args: Arguments) -> Reply:
    if db.get(args[1]) is not None:
        return 0
    _put(db, args[1], args[2])
    return 1


def _setex(db: Database, args: Arguments) -> Reply:
    option = b"PX" if args[0].upper() == b"PSETEX" else b"EX"
    _put(db, args[1], args[3], _expiry_option(db, args, option, args[2]))
    return OK


def _getset(db: Database, args: Arguments) -> Reply:
    previous = db.string(args[1])
    _put(db, args[1], args[2])
    return previous


def _getdel(db: Database, args: Arguments) -> Reply:
    data = db.string(args[1])
    if data is not None:
        db.remove(args[1])
    return data


def _getex(db: Database, args: Arguments) -> Reply:
    option = args[2].upper() if len(args) > 2 else b""
    is_persist = option == b"PERSIST" and len(args) == 3
    if len(args) > 2 and not is_persist and (option not in _EXPIRY_OPTIONS or len(args) != 4):
        raise CommandError(SYNTAX)
    value = db.find(args[1], StringValue)
    if value is None:
        return None
    expiry = _expiry_option(db, args, option, args[3]) if len(args) == 4 else None
    if is_persist and value.expiry is not None:
        db.expire(args[1], value, None)
    elif expiry is not None and expiry <= db.now():
        db.remove(args[1])
    elif expiry is not None:
        db.expire(args[1], value, expiry)
    return value.data


def _pairs(args: Arguments) -> list[tuple[bytes, bytes]]:
    if len(args) % 2 == 0:
        raise arity_error(args[0])
    return list(zip(args[1::2], args[2::2], strict=True))


def _mset(db: Database, args: Arguments) -> Reply:
    for key, data in _pairs(args):
        _put(db, key, data)
    return OK


def _msetnx(db: Database, args: Arguments) -> Reply:
    pairs = _pairs(args)
    if any(db.get(key) is not None for key, _ in pairs):
        return 0
    for key, data in pairs:
        _put(db, key, data)
    return 1


def _append(db: Database, args: Arguments) -> Reply:
    previous = db.find(args[1], StringValue)
    data = args[2] if previous is None else previous.data + args[2]
    _replace(db, args[1], data, previous)
    return len(data)


def _strlen(db: Database, args: Arguments) -> Reply:
    return len(db.string(args[1]) or b"")


def _getrange(db: Database, args: Arguments) -> Reply:
    start, stop = parse_integer(args[2]), parse_integer(args[3])
    data = db.string(args[1]) or b""
    if start < 0 and stop < 0 and start > stop:
        return b""
    first = max(start + len(data) if start < 0 else start, 0)
    last = max(stop + len(data) if stop < 0 else stop, 0)
    return data[first : last + 1]


def _setrange(db: Database, args: Arguments) -> Reply:
    offset, patch = parse_integer(args[2]), args[3]
    if offset < 0:
        raise CommandError("ERR offset is out of range")
    previous = db.find(args[1], StringValue)
    data = b"" if previous is None else previous.data
    if not patch:
        return len(data)
    if offset + len(patch) > MOST_STRING_BYTES:
        raise CommandError("ERR string exceeds maximum allowed size (proto-max-bulk-len)")
    data = data[:offset].ljust(offset, b"\0") + patch + data[offset + len(patch) :]
    _replace(db, args[1], data, previous)
    return len(data)


def _add(db: Database, key: bytes, increment: int) -> Reply:
    previous = db.find(key, StringValue)
    total = added(0 if previous is None else parse_integer(previous.data), increment)
    _replace(db, key, b"%d" % total, previous)
    return total


def _incr(db: Database, args: Arguments) -> Reply:
    return _add(db, args[1], 1)


def _decr(db: Database, args: Arguments) -> Reply:
    return _add(db, args[1], -1)


def _incrby(db: Database, args: Arguments) -> Reply:
    return _add(db, args[1], parse_integer(args[2]))


def _decrby(db: Database, args: Arguments) -> Reply:
    decrement = parse_integer(args[2])
    if decrement == LEAST:
        raise CommandError("ERR decrement would overflow")
    return _add(db, args[1], -decrement)


def _incrbyfloat(db: Database, args: Arguments) -> Reply:
    previous = db.find(args[1], StringValue)
    number = parse_long_double(b"0" if previous is None else previous.data, NOT_FLOAT)
    data = added_float(number, parse_long_double(args[2]))
    _replace(db, args[1], data, previous)
    return data


COMMANDS: dict[str, Command] = {
    "append": command(_append, 3, "write denyoom fast"),
    "decr": command(_decr, 2, "write denyoom fast"),
    "decrby": command(_decrby, 3, "write denyoom fast"),
    "get": command(_get, 2, "readonly fast"),
    "getdel": command(_getdel, 2, "write fast"),
    "getex": command(_getex, -2, "write fast"),
    "getrange": command(_getrange, 4, "readonly"),
    "getset": command(_getset, 3, "write denyoom fast"),
    "incr": command(_incr, 2, "write denyoom fast"),
    "incrby": command(_incrby, 3, "write denyoom fast"),
    "incrbyfloat": command(_incrbyfloat, 3, "write denyoom fast"),
    "mget": command(_mget, -2, "readonly fast", 1, -1),
    "mset": command(_mset, -3, "write denyoom", 1, -1, 2),
    "msetnx": command(_msetnx, -3, "write denyoom", 1, -1, 2),
    "psetex": command(_setex, 4, "write denyoom"),
    "set": command(_set, -3, "write denyoom"),
    "setex": command(_setex, 4, "write denyoom"),
    "setnx": command(_setnx, 3, "write denyoom fast"),
    "setrange": command(_setrange, 4, "write denyoom"),
    "strlen": command(_strlen, 2, "readonly fast"),
    "substr": command(_getrange, 4, "readonly"),
}
