"""The frame around what the log writes: a checksum in front of everything that follows it.

    {"checksum":"<16 hexadecimal digits>","<label>":<JSON>}
    <more lines of JSON, in a checkpoint>

The checksum is xxh3_64 of every byte behind its comma, to the end of the file. The frame itself
is fixed, byte by byte: so any changed, missing or added byte is found.
Does not know: what is inside.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import xxhash

from ..errors import CorruptionError

# On disk: never change.
_OPENING = b'{"checksum":"'
_DIGITS = 16
_COMMA = b'",'
_CONTENT = len(_OPENING) + _DIGITS + len(_COMMA)


def canonical(value: Any) -> bytes:
    """Return the one way that a JSON value is written: keys sorted, no spaces, ASCII, no NaN."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def seal(label: str, value: Any, lines: Sequence[bytes] = ()) -> bytes:
    """Return the content of a file that holds a JSON value and more lines, each without its end."""
    content = b"\n".join((b'"%s":%s}' % (label.encode(), canonical(value)), *lines, b""))
    digest = xxhash.xxh3_64_hexdigest(content).encode()
    return b"".join((_OPENING, digest, _COMMA, content))


def unseal(label: str, data: bytes, location: str) -> tuple[Any, list[bytes]]:
    """Return the JSON value and the lines that `seal` put into a file.

    CorruptionError, naming ``location``, if a single byte is not as it was written.
    """
    content = memoryview(data)[_CONTENT:]
    digest = xxhash.xxh3_64_hexdigest(content).encode()
    if data[:_CONTENT] != _OPENING + digest + _COMMA:
        raise CorruptionError(
            f"{location}: its {len(data)} bytes do not agree with its checksum; the file was "
            "changed or cut short after it was written: restore it from a backup"
        )
    first, *lines = bytes(content).split(b"\n")
    opening = b'"%s":' % label.encode()
    if not first.startswith(opening) or not lines or lines.pop():
        raise CorruptionError(
            f"{location}: it holds no {label}; another file was put in its place: restore it"
        )
    try:
        return json.loads(first[len(opening) : -1], parse_constant=_refuse_constant), lines
    except (ValueError, RecursionError) as error:
        raise CorruptionError(f"{location}: its content is not JSON ({error!r:.200})") from error


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
