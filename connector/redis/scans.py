"""SCAN and its like: the commands that list keys, or the parts of a collection, step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .command import SYNTAX, Arguments, Command, command, parse_integer
from .database import Database
from .listing import TableRead
from .patterns import glob
from .replies import CommandError, Reply, format_double
from .values import HashValue, MappedValue, SetValue, SortedSetValue

_COUNT = b"10"


def _scan(db: Database, args: Arguments) -> Reply:
    """Return the keys of some vnodes: the cursor is the number of the next one."""
    cursor = _parse_cursor(args[1])
    options = _parse_options(args[2:], (b"MATCH", b"COUNT", b"TYPE"))
    pattern = glob(options.get(b"MATCH", b"*"))
    count = parse_integer(options.get(b"COUNT", _COUNT))
    vnodes, listing = db.keyspace.tables.vnode_count, db.keyspace.listing(db.number)
    kind = options[b"TYPE"].lower() if b"TYPE" in options else None

    def read() -> tuple[int, list[bytes]]:
        following, keys = cursor, list[bytes]()
        while following < vnodes and len(keys) < count:
            keys += listing.keys(following)
            following += 1
        return following if following < vnodes else 0, pattern.filter(keys)

    def reply(result: tuple[int, list[bytes]]) -> Reply:
        following, keys = result
        if kind is not None:
            keys = [
                key
                for key in keys
                if (value := db.look_at(key)) is not None and value.kind.encode() == kind
            ]
        return [b"%d" % following, keys]

    return TableRead(read, reply)


def _scan_parts(
    db: Database,
    args: Arguments,
    kind: type[MappedValue],
    show: Callable[[bytes, Any], Sequence[bytes]],
) -> Reply:
    """Return all parts of a collection whose names match; ``show`` returns the words of a part."""
    _parse_cursor(args[2])
    value = db.find(args[1], kind)
    if value is None:
        return [b"0", []]
    options = _parse_options(args[3:], (b"MATCH", b"COUNT"))
    names = glob(options.get(b"MATCH", b"*")).filter(value.items)
    parts = [show(name, value.items[name]) for name in names]
    return [b"0", [word for words in parts for word in words]]


def _hscan(db: Database, args: Arguments) -> Reply:
    return _scan_parts(db, args, HashValue, lambda field, data: (field, data))


def _sscan(db: Database, args: Arguments) -> Reply:
    return _scan_parts(db, args, SetValue, lambda member, _: (member,))


def _zscan(db: Database, args: Arguments) -> Reply:
    return _scan_parts(
        db, args, SortedSetValue, lambda member, score: (member, format_double(score))
    )


def _parse_options(arguments: Sequence[bytes], names: Sequence[bytes]) -> dict[bytes, bytes]:
    """Return the options by their names in capitals, of those that are there."""
    if len(arguments) % 2:
        raise CommandError(SYNTAX)
    options = {}
    for name, value in zip(arguments[::2], arguments[1::2], strict=True):
        if name.upper() not in names:
            raise CommandError(SYNTAX)
        if name.upper() == b"COUNT" and parse_integer(value) < 1:
            raise CommandError(SYNTAX)
        options[name.upper()] = value
    return options


def _parse_cursor(data: bytes) -> int:
    if len(data) > 20 or not data.isdigit() or int(data) >= 1 << 64:
        raise CommandError("ERR invalid cursor")
    return int(data)


COMMANDS: dict[str, Command] = {
    "hscan": command(_hscan, -3, "readonly"),
    "scan": command(_scan, -2, "readonly", 0, 0, 0),
    "sscan": command(_sscan, -3, "readonly"),
    "zscan": command(_zscan, -3, "readonly"),
}
