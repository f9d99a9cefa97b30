"""The frame of the log's files: a checksum of everything that follows it.

    {"checksum":"<16 hexadecimal digits>","<label>":<JSON>}
    <more lines of JSON, in a checkpoint>

The checksum is xxh3_64 of every byte after its comma, to the end of the file. The bytes of the
frame itself are fixed: so any changed, missing or added byte is detected. Does not know: what the
JSON means.
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
    """Return the canonical bytes of a JSON value: keys sorted, no spaces, ASCII, no NaN."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def seal(label: str, value: Any, lines: Sequence[bytes] = ()) -> bytes:
    """Return the content of a file with a JSON value and more lines, given without their ends."""
    content = b"\n".join((b'"%s":%s}' % (label.encode(), canonical(value)), *lines, b""))
    digest = xxhash.xxh3_64_hexdigest(content).encode()
    return b"".join((_OPENING, digest, _COMMA, content))


def unseal(label: str, data: bytes, location: str) -> tuple[Any, list[bytes]]:
    """Return the JSON value and the lines of a file that `seal` made.

    CorruptionError, naming ``location``, if any byte was changed.
    """
    content = memoryview(data)[_CONTENT:]
    digest = xxhash.xxh3_64_hexdigest(content).encode()
    if data[:_CONTENT] != _OPENING + digest + _COMMA:
        raise CorruptionError(
            f"{location}: its {len(data)} bytes do not match its checksum; the file was changed or "
            "truncated after it was written: restore it from a backup"
        )
    first, *lines = bytes(content).split(b"\n")
    opening = b'"%s":' % label.encode()
    if not first.startswith(opening) or not lines or lines.pop():
        raise CorruptionError(
            f"{location}: this file is not of kind {label!r}: another file has replaced it; "
            "restore it from a backup"
        )
    try:
        return parse(first[len(opening) : -1]), lines
    except (ValueError, RecursionError) as error:
        raise CorruptionError(f"{location}: its content is not JSON ({error!r:.200})") from error


def parse(data: bytes) -> Any:
    """Return the JSON value of canonical bytes. ValueError, RecursionError."""
    return _DECODER.decode(data.decode("ascii"))


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
