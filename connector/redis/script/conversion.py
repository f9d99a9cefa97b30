"""Replies of commands as values of Lua, and what a script returns as a reply.

Does not know: commands, the runtime.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lupa import lua51

from ..replies import (
    RESP2,
    RESP3,
    CommandError,
    Pairs,
    Reply,
    Simple,
    format_double,
)

_MOST_DEPTH = 200
_MOST_ITEMS = 1_000_000
_CHECKED_ITEMS = 1000
_LEAST = -(1 << 63)
Plain = Any
"""Bytes, a number, a boolean, None, or a list or dictionary of them."""


def plain_reply(reply: Reply, version: int) -> Plain:
    """Return a reply as scripts see it that ask for a version of the protocol, 2 or 3.

    Lists and dictionaries are to become tables. None becomes nil.
    """
    is_old = version == RESP2
    match reply:
        case bytes():
            return reply
        case bool():
            return int(reply) if is_old else reply
        case int():
            return reply
        case float():
            return format_double(reply) if is_old else {b"double": reply}
        case Simple(text):
            return {b"ok": text}
        case CommandError():
            return {b"err": str(reply).encode("utf-8", "surrogateescape")}
        case list() | tuple():
            return [plain_reply(item, version) for item in reply]
        case set() | frozenset():
            items = [plain_reply(item, version) for item in reply]
            return items if is_old else {b"set": dict.fromkeys(items, True)}
        case dict() if is_old:
            return [plain_reply(item, version) for pair in reply.items() for item in pair]
        case dict():
            return {
                b"map": {
                    plain_reply(key, version): plain_reply(item, version)
                    for key, item in reply.items()
                }
            }
        case Pairs(pairs) if is_old:
            return [plain_reply(item, version) for pair in pairs for item in pair]
        case Pairs(pairs):
            return [plain_reply(list(pair), version) for pair in pairs]
    return False if is_old else None


class ScriptReply:
    """Makes a reply of what a script returns. For one value."""

    def __init__(self, version: int, check_time: Callable[[], None]) -> None:
        """``version``: of the protocol that the script asked for.

        ``check_time`` raises an error if the script took too long.
        """
        self._version = version
        self._check_time = check_time
        self._items = 0

    def reply_of(self, value: Any, depth: int = 0) -> Reply:
        """Return a value of Lua as a reply. CommandError if it has too many parts."""
        self._items += 1
        if self._items % _CHECKED_ITEMS == 0:
            self._check_time()
        if depth > _MOST_DEPTH or self._items > _MOST_ITEMS:
            raise CommandError("ERR reached lua stack limit")
        match value:
            case bytes():
                return value
            case bool() if self._version == RESP3:
                return value
            case bool():
                return 1 if value else None
            case int() | float():
                return _integer_of(value)
        return self._reply_of_table(value, depth) if lua51.lua_type(value) == "table" else None

    def _reply_of_table(self, table: Any, depth: int) -> Reply:
        for name in (b"err", b"ok", b"double", b"map", b"set", b"big_number", b"verbatim_string"):
            value = table[name]
            if value is not None and (reply := self._marked(name, value, depth)) is not None:
                return reply
        items: list[Reply] = []
        while (value := table[len(items) + 1]) is not None:
            items.append(self.reply_of(value, depth + 1))
        return items

    def _marked(self, name: bytes, value: Any, depth: int) -> Reply:
        """Return the reply of a table with a field that says its type; None if it says none."""
        kind = lua51.lua_type(value)
        match name, value:
            case b"err", bytes():
                return CommandError(value.decode("utf-8", "surrogateescape"))
            case b"ok", bytes():
                return Simple(value.replace(b"\r", b" ").replace(b"\n", b" "))
            case b"double", int() | float() if not isinstance(value, bool):
                return float(value)
            case b"big_number", bytes():
                return value
            case b"map", _ if kind == "table":
                return {
                    _hashable(self.reply_of(key, depth + 1)): self.reply_of(item, depth + 1)
                    for key, item in value.items()
                }
            case b"set", _ if kind == "table":
                return {_hashable(self.reply_of(key, depth + 1)) for key in value}
            case b"verbatim_string", _ if kind == "table" and isinstance(value[b"string"], bytes):
                return value[b"string"]
        return None


def _hashable(reply: Reply) -> Reply:
    return tuple(map(_hashable, reply)) if isinstance(reply, list) else reply


def _integer_of(number: float) -> int:
    """Return a number without its fraction, as the machine cuts it."""
    if not math.isfinite(number):
        return _LEAST
    whole = int(number)
    return whole if _LEAST <= whole < -_LEAST else _LEAST
