"""The commands of strings."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from .command import (
    LEAST,
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


def _put(
    db: Database, key: bytes, data: bytes, expiry: int | None = None, event: bytes = b"set"
) -> None:
    value = StringValue(data)
    value.expiry = expiry
    db.put(key, value, event)


def check_size(db: Database, size: int) -> None:
    """Raise CommandError if a string of so many bytes is too long."""
    if size > db.keyspace.most_string_bytes:
        raise CommandError("ERR string exceeds maximum allowed size (proto-max-bulk-len)")


def replace_string(
    db: Database, key: bytes, data: bytes, previous: Value | None, event: bytes
) -> None:
    """Write a string that has the expiry of the one before."""
    check_size(db, len(data))
    _put(db, key, data, None if previous is None else previous.expiry, event)


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
    if b"GET" in options:
        db.note_misses(args[1:2])
    if (b"NX" in options and previous is not None) or (b"XX" in options and previous is None):
        return reply
    if b"KEEPTTL" in options and previous is not None:
        expiry = previous.expiry
    _put(db, args[1], args[2], expiry)
    if lifetime is not None:
        db.notify("g", b"expire", args[1])
    return reply if b"GET" in options else OK


def _setnx(db: Database, args: Arguments) -> Reply:
    if db.get(args[1]) is not None:
        return 0
    _put(db, args[1], args[2])
    return 1


def _setex(db: Database, args: Arguments) -> Reply:
    option = b"PX" if args[0].upper() == b"PSETEX" else b"EX"
    _put(db, args[1], args[3], _expiry_option(db, args, option, args[2]))
    db.notify("g", b"expire", args[1])
    return OK


def _getset(db: Database, args: Arguments) -> Reply:
    previous = db.string(args[1])
    db.note_misses(args[1:2])
    _put(db, args[1], args[2])
    return previous


def _getdel(db: Database, args: Arguments) -> Reply:
    data = db.string(args[1])
    db.note_misses(args[1:2])
    if data is not None:
        db.remove(args[1])
    return data


def _getex(db: Database, args: Arguments) -> Reply:
    option = args[2].upper() if len(args) > 2 else b""
    is_persist = option == b"PERSIST" and len(args) == 3
    if len(args) > 2 and not is_persist and (option not in _EXPIRY_OPTIONS or len(args) != 4):
        raise CommandError(SYNTAX)
    value = db.find(args[1], StringValue)
    db.note_misses(args[1:2])
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
    data = b"" if previous is None else previous.data
    check_size(db, len(data) + len(args[2]))
    data += args[2]
    replace_string(db, args[1], data, previous, b"append")
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
    check_size(db, offset + len(patch))
    data = data[:offset].ljust(offset, b"\0") + patch + data[offset + len(patch) :]
    replace_string(db, args[1], data, previous, b"setrange")
    return len(data)


def _add(db: Database, key: bytes, increment: int) -> Reply:
    previous = db.find(key, StringValue)
    total = added(0 if previous is None else parse_integer(previous.data), increment)
    replace_string(db, key, b"%d" % total, previous, b"incrby")
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
    replace_string(db, args[1], data, previous, b"incrbyfloat")
    return data


_MOST_LCS_CELLS = 25_000_000


def _lcs(db: Database, args: Arguments) -> Reply:
    options = [arg.upper() for arg in args[3:]]
    least, index = 0, 0
    while index < len(options):
        if options[index] == b"MINMATCHLEN" and index + 1 < len(options):
            least = max(parse_integer(args[4 + index]), 0)
            index += 1
        elif options[index] not in (b"IDX", b"LEN", b"WITHMATCHLEN"):
            raise CommandError(SYNTAX)
        index += 1
    has_ranges, is_length = b"IDX" in options, b"LEN" in options
    if has_ranges and is_length:
        raise CommandError("ERR If you want both the length and indexes, please just use IDX.")
    values = [db.get(key) for key in args[1:3]]
    if any(value is not None and not isinstance(value, StringValue) for value in values):
        raise CommandError("ERR The specified keys must contain string values")
    left, right = (value.data if isinstance(value, StringValue) else b"" for value in values)
    if len(left) * len(right) > _MOST_LCS_CELLS:
        raise CommandError(
            f"ERR Insufficient memory, failed allocating transient memory for LCS: strings of "
            f"{len(left)} and {len(right)} bytes"
        )
    pairs = _common_pairs(left, right)
    if is_length:
        return len(pairs)
    if not has_ranges:
        return bytes(left[index] for index, _ in pairs)
    matches: list[Reply] = []
    for (start, end), (other_start, other_end) in _runs(pairs):
        length = end - start + 1
        if length >= least:
            match: list[Reply] = [[start, end], [other_start, other_end]]
            matches.append([*match, length] if b"WITHMATCHLEN" in options else match)
    return {b"matches": matches, b"len": len(pairs)}


def _common_pairs(left: bytes, right: bytes) -> list[tuple[int, int]]:
    """Return the positions of a longest common subsequence, from the last to the first."""
    rows = [array("I", bytes(4 * (len(right) + 1)))]
    for byte in left:
        above, row = rows[-1], array("I", [0])
        last = 0
        for index, other in enumerate(right):
            last = above[index] + 1 if byte == other else max(above[index + 1], last)
            row.append(last)
        rows.append(row)
    pairs, i, j = [], len(left), len(right)
    while i and j:
        if left[i - 1] == right[j - 1]:
            i, j = i - 1, j - 1
            pairs.append((i, j))
        elif rows[i - 1][j] > rows[i][j - 1]:
            i -= 1
        else:
            j -= 1
    return pairs[::-1]


def _runs(pairs: list[tuple[int, int]]) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield where both strings have common bytes one after another, the last ones first."""
    end = len(pairs)
    while end:
        start = end - 1
        while start and pairs[start - 1] == (pairs[start][0] - 1, pairs[start][1] - 1):
            start -= 1
        (first, other_first), (last, other_last) = pairs[start], pairs[end - 1]
        yield (first, last), (other_first, other_last)
        end = start


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
    "lcs": command(_lcs, -3, "readonly", 1, 2),
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
