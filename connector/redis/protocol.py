"""Requests of clients, read from the bytes that they send.

A request is an array of bulk strings, which hiredis parses, or a line of words, as people type it.

Promises: a request comes when its last byte has; bytes that are no request are a ProtocolError with
Redis's message; of an unfinished request at most a given number of bytes is held.
Does not know: sockets, commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import hiredis

MOST_ARGUMENTS = 1024 * 1024
_MOST_LINE_BYTES = 64 * 1024
# Arrays of so many elements are refused before hiredis makes room for them.
_HUGE_COUNT = re.compile(rb"\*\d{7,}")
_INCOMPLETE = object()

_WORD = re.compile(
    rb"""\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\')*)'|([^\s"']+))(?=\s|$)""", re.DOTALL
)
_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"a": b"\a"}


class ProtocolError(Exception):
    """Bytes that are no request; the connection is closed after a reply that says so."""


class RequestReader:
    """Reads the requests of one client."""

    def __init__(self, most_bytes: int) -> None:
        """``most_bytes``: of one request."""
        self._most_bytes = most_bytes
        self._reader = hiredis.Reader(notEnoughData=_INCOMPLETE)
        self._is_within = False  # a request, of which hiredis may have read a part
        self._line = b""
        self._held_bytes = 0

    def read(self, data: bytes) -> Iterator[list[bytes]]:
        """Yield the requests that end in some more bytes. ProtocolError."""
        while data:
            if self._line or (data[:1] != b"*" and not self._is_within):
                line, newline, data = (self._line + data).partition(b"\n")
                if len(line) > _MOST_LINE_BYTES:
                    raise ProtocolError("too big inline request")
                if not newline:
                    self._line = line
                    return
                self._line = b""
                words = split_words(line)
                if words:
                    yield words
                continue
            yield from self._arrays(data)
            return

    def _arrays(self, data: bytes) -> Iterator[list[bytes]]:
        start = 0
        for match in _HUGE_COUNT.finditer(data):
            yield from self._fed(data[start : match.start()])
            start = match.start()
            if not self._is_within and int(match[0][1:]) > MOST_ARGUMENTS:
                raise ProtocolError("invalid multibulk length")
        yield from self._fed(data[start:])

    def _fed(self, data: bytes) -> Iterator[list[bytes]]:
        if not data:
            return
        self._held_bytes += len(data)
        self._is_within = True
        self._reader.feed(data)
        while True:
            try:
                request = self._reader.gets()
            except (hiredis.ProtocolError, MemoryError):
                raise ProtocolError("expected an array of bulk strings") from None
            if request is _INCOMPLETE:
                break
            self._held_bytes = len(data)
            self._is_within = self._reader.has_data()
            if request:
                yield _checked(request)
        if not self._is_within:
            self._held_bytes = 0
        elif self._held_bytes > self._most_bytes:
            raise ProtocolError("invalid bulk length")


def _checked(request: object) -> list[bytes]:
    """Return a request. ProtocolError if it is not an array of bulk strings."""
    if type(request) is not list or any(type(word) is not bytes for word in request):
        raise ProtocolError("expected '$'")
    return request


def split_words(line: bytes) -> list[bytes]:
    """Return the words of a line, some of them quoted. ProtocolError for unbalanced quotes."""
    words = []
    position, end = 0, len(line.rstrip())
    while position < end:
        match = _WORD.match(line, position)
        if match is None:
            raise ProtocolError("unbalanced quotes in request")
        double, single, plain = match.groups()
        if double is not None:
            words.append(_ESCAPE.sub(_unescape, double))
        else:
            words.append(plain if single is None else single.replace(b"\\'", b"'"))
        position = match.end()
    return words


def _unescape(match: re.Match[bytes]) -> bytes:
    escaped: bytes = match[1]
    if len(escaped) == 3:
        return bytes.fromhex(escaped[1:].decode())
    return _ESCAPED.get(escaped, escaped)
