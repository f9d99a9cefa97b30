"""Replies of commands, as Python values, and the bytes of them in RESP2 and RESP3.

    bytes          a bulk string        int     an integer
    Simple         a simple string      float   a double; in RESP2 a bulk string
    None           null                 bool    a boolean; in RESP2 an integer
    list           an array             dict    a map; in RESP2 an array
    set            a set; in RESP2 an array
    Pairs          an array of arrays of two; in RESP2 one array
    CommandError   an error             NO_ARRAY   null where RESP2 has an array without elements
    Several        replies one after another
    Push           what the server sends unasked; in RESP2 an array

Does not know: commands.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

Reply: TypeAlias = Any
RESP2, RESP3 = 2, 3


class CommandError(Exception):
    """An error that is the reply of a command: a code in capitals, and a message."""


@dataclass(frozen=True, slots=True)
class Simple:
    """A simple string."""

    text: bytes


@dataclass(frozen=True, slots=True)
class Push:
    """A message that is no reply."""

    items: list[Any]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs, such as members with their scores."""

    items: list[tuple[bytes, Any]]


@dataclass(frozen=True, slots=True)
class Several:
    """Replies to one request."""

    replies: list[Any]


class _NoArray:
    """Null, as RESP2 writes it in place of an array."""


OK = Simple(b"OK")
QUEUED = Simple(b"QUEUED")
NO_ARRAY = _NoArray()


def encode_reply(reply: Reply, version: int) -> bytes:
    """Return the bytes of a reply in a version of the protocol: RESP2 or RESP3."""
    if type(reply) is bytes:
        return b"$%d\r\n%b\r\n" % (len(reply), reply)
    if reply is None:
        return b"_\r\n" if version == RESP3 else b"$-1\r\n"
    if type(reply) is int:
        return b":%d\r\n" % reply
    pieces: list[bytes] = []
    _encode(reply, version, pieces)
    return b"".join(pieces)


def _encode(reply: Reply, version: int, pieces: list[bytes]) -> None:
    """Append the bytes of a reply."""
    match reply:
        case bytes():
            pieces.append(b"$%d\r\n%b\r\n" % (len(reply), reply))
        case None:
            pieces.append(b"_\r\n" if version == RESP3 else b"$-1\r\n")
        case bool():
            if version == RESP3:
                pieces.append(b"#t\r\n" if reply else b"#f\r\n")
            else:
                pieces.append(b":%d\r\n" % reply)
        case int():
            pieces.append(b":%d\r\n" % reply)
        case float():
            text = format_double(reply)
            bulk = b"$%d\r\n%b\r\n" % (len(text), text)
            pieces.append(b",%b\r\n" % text if version == RESP3 else bulk)
        case Simple(text):
            pieces.append(b"+%b\r\n" % text)
        case CommandError():
            pieces.append(_error_bytes(str(reply)))
        case list() | tuple():
            _encode_items(b"*", len(reply), reply, version, pieces)
        case set() | frozenset():
            mark = b"~" if version == RESP3 else b"*"
            _encode_items(mark, len(reply), reply, version, pieces)
        case dict():
            flat = [item for pair in reply.items() for item in pair]
            is_map = version == RESP3
            _encode_items(
                b"%" if is_map else b"*", len(reply) * (1 if is_map else 2), flat, version, pieces
            )
        case Pairs(pairs) if version == RESP3:
            _encode_items(b"*", len(pairs), pairs, version, pieces)
        case Pairs(pairs):
            flat = [item for pair in pairs for item in pair]
            _encode_items(b"*", len(flat), flat, version, pieces)
        case Several(replies):
            for item in replies:
                _encode(item, version, pieces)
        case Push(items):
            _encode_items(b">" if version == RESP3 else b"*", len(items), items, version, pieces)
        case _NoArray():
            pieces.append(b"_\r\n" if version == RESP3 else b"*-1\r\n")
        case _:
            raise TypeError(f"a reply of type {type(reply).__name__}")


def _encode_items(
    mark: bytes, count: int, items: Iterable[Any], version: int, pieces: list[bytes]
) -> None:
    pieces.append(b"%b%d\r\n" % (mark, count))
    for item in items:
        _encode(item, version, pieces)


def _error_bytes(message: str) -> bytes:
    line = message.replace("\r", " ").replace("\n", " ")
    return b"-%b\r\n" % line.encode("utf-8", "surrogateescape")


_SHOWN = {byte: f"\\x{byte:02x}" for byte in range(256) if not 32 <= byte < 127} | {
    ord("\\"): "\\\\",
    ord('"'): '\\"',
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
    ord("\a"): "\\a",
    ord("\b"): "\\b",
}


def quote(data: bytes) -> str:
    """Return bytes in quotes, in ASCII, as Redis shows them."""
    return f'"{data.decode("latin-1").translate(_SHOWN)}"'


def format_double(number: float) -> bytes:
    """Return a number as Redis writes scores: at most 17 digits, ``inf`` and ``-inf``."""
    if math.isinf(number):
        return b"inf" if number > 0 else b"-inf"
    return b"%.17g" % number
