"""SORT: the elements of a collection, by their values or by those of other keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .command import SYNTAX, Arguments, Command, command, parse_integer
from .database import WRONG_TYPE, Database
from .replies import CommandError, Reply
from .values import HashValue, ListValue, SetValue, SortedSetValue, StringValue

_NOT_SCORE = "ERR One or more scores can't be converted into double"


@dataclass(slots=True)
class _Order:
    """What SORT asks for. ``by``: None for the elements themselves."""

    by: bytes | None = None
    offset: int = 0
    limit: int = -1
    gets: list[bytes] = field(default_factory=list)
    is_descending: bool = False
    is_text: bool = False
    target: bytes | None = None


def _parse(args: Arguments, *, may_store: bool) -> _Order:
    """Return what the words after the key ask for. CommandError."""
    order, index = _Order(), 0
    while index < len(args):
        option, left = args[index].upper(), len(args) - index - 1
        index += 1
        if option in (b"ASC", b"DESC"):
            order.is_descending = option == b"DESC"
        elif option == b"ALPHA":
            order.is_text = True
        elif option == b"LIMIT" and left >= 2:
            order.offset, order.limit = map(parse_integer, args[index : index + 2])
            index += 2
        elif option == b"STORE" and left and may_store:
            order.target = args[index]
            index += 1
        elif option == b"BY" and left:
            order.by = args[index]
            index += 1
        elif option == b"GET" and left:
            order.gets.append(args[index])
            index += 1
        else:
            raise CommandError(SYNTAX)
    return order


def _elements(db: Database, key: bytes) -> list[bytes]:
    """Return the elements of a collection, those of a sorted set in their order. WRONGTYPE."""
    value = db.get(key)
    match value:
        case None:
            return []
        case ListValue():
            return list(value.items)
        case SortedSetValue():
            return [member for _, member in value.order]
        case SetValue():
            return list(value.items)
    raise CommandError(WRONG_TYPE)


def _looked_up(db: Database, pattern: bytes, element: bytes) -> bytes | None:
    """Return what is at the key, or the field, that a pattern names for an element."""
    if pattern == b"#":
        return element
    before, star, after = pattern.partition(b"*")
    if not star:
        return None
    key, arrow, name = after.partition(b"->")
    if arrow and name:
        db.note_misses([before + element + key])
        value = db.get(before + element + key)
        return value.items.get(name) if isinstance(value, HashValue) else None
    db.note_misses([before + element + after])
    value = db.get(before + element + after)
    return value.data if isinstance(value, StringValue) else None


def _score(data: bytes | None) -> float:
    try:
        number = 0.0 if data is None else float(data)
    except ValueError:
        raise CommandError(_NOT_SCORE) from None
    if number != number:
        raise CommandError(_NOT_SCORE)
    return number


def _sorted(db: Database, key: bytes, order: _Order) -> list[bytes]:
    """Return the elements in an order, those that LIMIT names."""
    elements = _elements(db, key)
    is_unordered = order.by is not None and b"*" not in order.by
    if is_unordered:
        if order.is_descending and isinstance(db.get(key), ListValue | SortedSetValue):
            elements.reverse()
        elif isinstance(db.get(key), SetValue) and order.target is not None:
            elements.sort()
    else:
        elements.sort(key=_sort_key(db, order), reverse=order.is_descending)
    start = max(order.offset, 0)
    stop = len(elements) if order.limit < 0 else start + order.limit
    return elements[start:stop]


def _sort_key(db: Database, order: _Order) -> Callable[[bytes], Any]:
    def weight(element: bytes) -> bytes | None:
        return element if order.by is None else _looked_up(db, order.by, element)

    if order.is_text:
        return lambda element: ((found := weight(element)) is not None, found or b"", element)
    return lambda element: (_score(weight(element)), element)


def _sort(db: Database, args: Arguments) -> Reply:
    order = _parse(args[2:], may_store=not args[0].upper().endswith(b"_RO"))
    db.note_misses(args[1:2])
    elements = _sorted(db, args[1], order)
    patterns = order.gets or [b"#"]
    found = [_looked_up(db, pattern, element) for element in elements for pattern in patterns]
    if order.target is None:
        return found
    if found:
        db.put(order.target, ListValue(data or b"" for data in found), b"sortstore")
    elif db.get(order.target) is not None:
        db.remove(order.target)
    return len(found)


COMMANDS: dict[str, Command] = {
    "sort": command(_sort, -2, "write denyoom"),
    "sort_ro": command(_sort, -2, "readonly"),
}
