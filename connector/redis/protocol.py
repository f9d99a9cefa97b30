"""Requests of clients, read from the bytes that they send.

A request is an array of bulk strings, which hiredis parses, or a line of words, as people type it.

hiredis makes room for an array as soon as it has read the number of its elements, and it parses
arrays within arrays. So bytes that look like such a number are fed to it apart: if hiredis holds no
unfinished string at that point, they are one, and are checked before. Every such number is checked
of a client that may still have to say its password, later only large ones.

Promises: a request comes when its last byte has; bytes that are no request are a ProtocolError with
Redis's message; of an unfinished request at most a given number of bytes is held, and of a client
that is not authenticated at most 160 KiB.
Does not know: sockets, commands.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator

import hiredis

MOST_ARGUMENTS = 1024 * 1024
_MOST_LINE_BYTES = 64 * 1024
# Of a client that is not authenticated; as in Redis.
_MOST_FIRST_ARGUMENTS = 10
_MOST_FIRST_STRING_BYTES = 16 * 1024
_MOST_FIRST_BYTES = _MOST_FIRST_ARGUMENTS * _MOST_FIRST_STRING_BYTES
# So much of what hiredis has not finished is held twice, to find out where a line begins in it.
_MOST_TRACED_BYTES = 64 * 1024
_COUNT = re.compile(rb"[*$]\d+")
_LARGE_COUNT = re.compile(rb"[*$]\d{5,}")
_UNFINISHED_COUNT = re.compile(rb"[*$]\d{0,18}\Z")
_NEGATIVE_COUNT = re.compile(rb"\*-\d{1,19}\r\n")
_MOST_COUNT_BYTES = 19
_LENGTH = re.compile(rb"-?\d{1,19}")
_INCOMPLETE = object()
_NOT_REQUEST = "expected an array of bulk strings"

_WORD = re.compile(
    rb"""\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\')*)'|([^\s"']+))(?=\s|$)""", re.DOTALL
)
_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"a": b"\a"}


class ProtocolError(Exception):
    """Bytes that are no request; the connection is closed after a reply that says so."""


class RequestReader:
    """Reads the requests of one client.

    ``is_authenticated``: whether the client may send large requests; it may change between two
    requests that `read` yields.
    """

    def __init__(self, most_bytes: int, *, is_authenticated: bool = True) -> None:
        """``most_bytes``: of one request."""
        self.is_authenticated = is_authenticated
        self._most_bytes = most_bytes
        self._line = b""
        self._count = b""
        self._start_array()

    def _start_array(self) -> None:
        self._reader = hiredis.Reader(notEnoughData=_INCOMPLETE)
        self._is_within = False  # a request, of which hiredis may have read a part
        self._held_bytes = 0
        # What hiredis was fed since it held nothing, unless that is much, and the requests in it.
        self._traced: list[bytes] = []
        self._traced_bytes = self._traced_requests = 0

    def read(self, data: bytes) -> Iterator[list[bytes]]:
        """Yield the requests that end in some more bytes. ProtocolError."""
        data, self._count = self._count + data, b""
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
            else:
                data = yield from self._read_arrays(data)

    def _read_arrays(self, data: bytes) -> Generator[list[bytes], None, bytes]:
        """Yield the requests that end in some bytes, of which the first is in or begins an array.

        Return the bytes from the first line on that is not in an array. Digits at the end that may
        go on are held back.
        """
        unfinished = _UNFINISHED_COUNT.search(data, max(0, len(data) - _MOST_COUNT_BYTES))
        if unfinished is not None:
            data, self._count = data[: unfinished.start()], unfinished[0]
        start, rest = 0, b""
        for match in (_LARGE_COUNT if self.is_authenticated else _COUNT).finditer(data):
            rest = yield from self._feed(data[start : match.start()])
            start = match.start()
            if rest:
                break
            if not self._reader.has_data():
                self._check_number(match[0][:1], int(match[0][1:]))
        else:
            rest = yield from self._feed(data[start:])
            start = len(data)
        if rest:
            rest += data[start:] + self._count
            self._count = b""
        return rest

    def _check_number(self, mark: bytes, count: int) -> None:
        """Raise ProtocolError unless an array of so many elements, or a string, may come now."""
        if mark == b"$":
            if not self._is_within:
                return
            if count > self._most_bytes:
                raise ProtocolError("invalid bulk length")
            if count > _MOST_FIRST_STRING_BYTES and not self.is_authenticated:
                raise ProtocolError("unauthenticated bulk length")
            return
        if self._is_within:
            raise ProtocolError("expected '$', got '*'")
        if count > MOST_ARGUMENTS:
            raise ProtocolError("invalid multibulk length")
        if count > _MOST_FIRST_ARGUMENTS and not self.is_authenticated:
            raise ProtocolError("unauthenticated multibulk length")

    def _feed(self, data: bytes) -> Generator[list[bytes], None, bytes]:
        """Yield the requests that end in some bytes, which hiredis gets.

        Return the bytes from the first line on that is not in an array.
        """
        if not data:
            return b""
        self._trace(data)
        self._held_bytes += len(data)
        self._is_within = True
        self._reader.feed(data)
        while True:
            try:
                request = self._reader.gets()
            except (hiredis.ProtocolError, MemoryError):
                return self._take_rest()
            if request is _INCOMPLETE:
                break
            if request is not None and type(request) is not list:
                return self._take_rest()
            self._traced_requests += 1
            self._held_bytes = len(data)
            self._is_within = self._reader.has_data()
            if request:
                yield _checked(request)
        if not self._is_within:
            self._traced = []
            self._held_bytes = self._traced_bytes = self._traced_requests = 0
        elif self._held_bytes > self._most_bytes:
            raise ProtocolError("invalid bulk length")
        elif self._held_bytes > _MOST_FIRST_BYTES and not self.is_authenticated:
            raise ProtocolError("unauthenticated bulk length")
        return b""

    def _trace(self, data: bytes) -> None:
        """Hold what hiredis is fed, unless that is too much."""
        self._traced_bytes += len(data)
        if self._traced_bytes > _MOST_TRACED_BYTES and self._is_within:
            self._traced = []
        else:
            self._traced.append(data)

    def _take_rest(self) -> bytes:
        """Return what hiredis could not read, if it begins with a line; ProtocolError otherwise."""
        data, position = b"".join(self._traced), 0
        if not data:
            raise ProtocolError(_NOT_REQUEST)
        for _ in range(self._traced_requests):
            position = _end_of_request(data, position)
        negative = _NEGATIVE_COUNT.match(data, position)
        if negative is not None:
            self._start_array()
            return data[negative.end() :]
        if data[position : position + 1] == b"*":
            _end_of_request(data, position)
            raise ProtocolError(_NOT_REQUEST)
        self._start_array()
        return data[position:]


def _end_of_request(data: bytes, position: int) -> int:
    """Return where the request ends that begins at a position. ProtocolError if it is none."""
    count, position = _number_at(data, position, "invalid multibulk length")
    for _ in range(count):
        mark = data[position : position + 1]
        if mark != b"$":
            shown = mark.decode("latin-1")
            raise ProtocolError(f"expected '$', got '{shown if shown.isprintable() else ' '}'")
        length, position = _number_at(data, position, "invalid bulk length")
        if length < 0:
            raise ProtocolError("invalid bulk length")
        position += length + 2
    return position


def _number_at(data: bytes, position: int, message: str) -> tuple[int, int]:
    """Return the number in the line at a position, after its mark, and where the line ends."""
    digits, newline, _ = data[position + 1 : position + 1 + _MOST_COUNT_BYTES + 3].partition(b"\n")
    if not newline or not _LENGTH.fullmatch(digits.rstrip(b"\r")):
        raise ProtocolError(message)
    return int(digits), position + len(digits) + 2


def _checked(request: list[object]) -> list[bytes]:
    """Return a request. ProtocolError if it is not an array of bulk strings."""
    for word in request:
        if type(word) is not bytes:
            if word is None:
                raise ProtocolError("invalid bulk length")
            mark = "*" if isinstance(word, list) else ":"
            raise ProtocolError(f"expected '$', got '{mark}'")
    return request  # type: ignore[return-value]


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
