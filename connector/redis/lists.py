"""The commands of lists."""

from __future__ import annotations

from .command import (
    SYNTAX,
    Arguments,
    Command,
    arity_error,
    command,
    parse_count,
    parse_integer,
    range_of,
)
from .database import Database
from .replies import NO_ARRAY, OK, CommandError, Reply
from .values import ListValue

_ENDS = {b"LEFT": True, b"RIGHT": False}
_PUSHED = {True: b"lpush", False: b"rpush"}
_POPPED = {True: b"lpop", False: b"rpop"}
"""Events of changes at the head, and at the other end."""


def _push(db: Database, args: Arguments) -> Reply:
    name = args[0].upper()
    value = db.find(args[1], ListValue)
    if value is None and name.endswith(b"X"):
        return 0
    value = value or ListValue()
    for item in args[2:]:
        value.push(item, at_head=name.startswith(b"L"))
    db.save(args[1], value, _PUSHED[name.startswith(b"L")])
    return len(value)


def _pop(db: Database, args: Arguments) -> Reply:
    if len(args) > 3:
        raise arity_error(args[0])
    count = parse_count(args[2]) if len(args) == 3 else None
    value = db.find(args[1], ListValue)
    if value is None:
        return None if count is None else NO_ARRAY
    at_head = args[0].upper() == b"LPOP"
    items = pop_items(db, args[1], value, 1 if count is None else count, at_head=at_head)
    return items[0] if count is None else items


def pop_items(
    db: Database, key: bytes, value: ListValue, count: int, *, at_head: bool
) -> list[bytes]:
    """Remove items from one end of a list and return them."""
    items = [value.pop(at_head=at_head) for _ in range(min(count, len(value)))]
    if items:
        db.save(key, value, _POPPED[at_head])
    return items


def _llen(db: Database, args: Arguments) -> Reply:
    return len(db.find(args[1], ListValue) or ())


def _lrange(db: Database, args: Arguments) -> Reply:
    start, stop = parse_integer(args[2]), parse_integer(args[3])
    value = db.find(args[1], ListValue)
    if value is None:
        return []
    indices = range_of(start, stop, len(value))
    return list(value.slice(indices.start, indices.stop)) if indices else []


def _lindex(db: Database, args: Arguments) -> Reply:
    value = db.find(args[1], ListValue)
    if value is None:
        return None
    index = parse_integer(args[2])
    return value.items[index] if -len(value) <= index < len(value) else None


def _lset(db: Database, args: Arguments) -> Reply:
    value = db.find(args[1], ListValue)
    if value is None:
        raise CommandError("ERR no such key")
    index = parse_integer(args[2])
    if not -len(value) <= index < len(value):
        raise CommandError("ERR index out of range")
    value.set_item(index % len(value), args[3])
    db.save(args[1], value, b"lset")
    return OK


def _ltrim(db: Database, args: Arguments) -> Reply:
    start, stop = parse_integer(args[2]), parse_integer(args[3])
    value = db.find(args[1], ListValue)
    if value is None:
        return OK
    length = len(value)
    indices = range_of(start, stop, length)
    from_end = length - indices.stop if indices else 0
    from_head = indices.start if indices else length
    if from_head or from_end:
        for _ in range(from_end):
            value.pop(at_head=False)
        for _ in range(from_head):
            value.pop(at_head=True)
        db.save(args[1], value, b"ltrim")
    else:
        db.notify("l", b"ltrim", args[1])
    return OK


def _lrem(db: Database, args: Arguments) -> Reply:
    count = parse_integer(args[2])
    value = db.find(args[1], ListValue)
    if value is None:
        return 0
    items = list(value.items)
    matches = [index for index, item in enumerate(items) if item == args[3]]
    if count:
        matches = matches[:count] if count > 0 else matches[count:]
    if matches:
        removed = set(matches)
        value.replace(item for index, item in enumerate(items) if index not in removed)
        db.save(args[1], value, b"lrem")
    return len(matches)


def _linsert(db: Database, args: Arguments) -> Reply:
    if args[2].upper() not in (b"BEFORE", b"AFTER"):
        raise CommandError(SYNTAX)
    value = db.find(args[1], ListValue)
    if value is None:
        return 0
    items = list(value.items)
    if args[3] not in items:
        return -1
    items.insert(items.index(args[3]) + (args[2].upper() == b"AFTER"), args[4])
    value.replace(items)
    db.save(args[1], value, b"linsert")
    return len(value)


def parse_end(data: bytes) -> bool:
    """Return whether LEFT is named, and not RIGHT. CommandError."""
    if data.upper() not in _ENDS:
        raise CommandError(SYNTAX)
    return _ENDS[data.upper()]


def _lmove(db: Database, args: Arguments) -> Reply:
    return move_item(db, args[1], args[2], parse_end(args[3]), parse_end(args[4]))


def _rpoplpush(db: Database, args: Arguments) -> Reply:
    return move_item(db, args[1], args[2], False, True)


def move_item(
    db: Database, source: bytes, target: bytes, from_head: bool, to_head: bool
) -> bytes | None:
    """Move an item from an end of a list to one of another; return it, None if there is none."""
    value = db.find(source, ListValue)
    if value is None:
        return None
    destination = db.find(target, ListValue)
    item = value.pop(at_head=from_head)
    # A list of one item is not removed when it goes to its other end.
    destination = ListValue() if destination is None else destination
    destination.push(item, at_head=to_head)
    db.save(target, destination, _PUSHED[to_head])
    if destination is value:
        db.notify("l", _POPPED[from_head], source)
    else:
        db.save(source, value, _POPPED[from_head])
    return item


def _lpos(db: Database, args: Arguments) -> Reply:
    rank, count, most = 1, None, 0
    if len(args) % 2 == 0:
        raise CommandError(SYNTAX)
    for name, data in zip(args[3::2], args[4::2], strict=True):
        match name.upper():
            case b"RANK":
                rank = parse_integer(data)
                if not rank:
                    raise CommandError(
                        "ERR RANK can't be zero: use 1 to start from the first match, 2 from the "
                        "second ... or use negative to start from the end of the list"
                    )
            case b"COUNT":
                count = _not_negative(data, "ERR COUNT can't be negative")
            case b"MAXLEN":
                most = _not_negative(data, "ERR MAXLEN can't be negative")
            case _:
                raise CommandError(SYNTAX)
    value = db.find(args[1], ListValue)
    positions = [] if value is None else _positions(value, args[2], rank, most)
    if count is None:
        return positions[0] if positions else None
    return positions[: count or None]


def _not_negative(data: bytes, message: str) -> int:
    number = parse_integer(data, message)
    if number < 0:
        raise CommandError(message)
    return number


def _positions(value: ListValue, item: bytes, rank: int, most: int) -> list[int]:
    """Return where an item is, from the match of a rank on, among the first ``most`` items."""
    pairs = list(enumerate(value.items))
    if rank < 0:
        pairs.reverse()
    positions = [index for index, candidate in pairs[: most or None] if candidate == item]
    return positions[abs(rank) - 1 :]


COMMANDS: dict[str, Command] = {
    "lindex": command(_lindex, 3, "readonly"),
    "linsert": command(_linsert, 5, "write denyoom"),
    "llen": command(_llen, 2, "readonly fast"),
    "lmove": command(_lmove, 5, "write denyoom", 1, 2),
    "lpop": command(_pop, -2, "write fast"),
    "lpos": command(_lpos, -3, "readonly"),
    "lpush": command(_push, -3, "write denyoom fast"),
    "lpushx": command(_push, -3, "write denyoom fast"),
    "lrange": command(_lrange, 4, "readonly"),
    "lrem": command(_lrem, 4, "write"),
    "lset": command(_lset, 4, "write denyoom"),
    "ltrim": command(_ltrim, 4, "write"),
    "rpop": command(_pop, -2, "write fast"),
    "rpoplpush": command(_rpoplpush, 3, "write denyoom", 1, 2),
    "rpush": command(_push, -3, "write denyoom fast"),
    "rpushx": command(_push, -3, "write denyoom fast"),
}
