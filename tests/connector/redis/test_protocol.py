"""Requests are read as Redis reads them, in pieces of any size; replies are its bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relstate.connector.redis.protocol import ProtocolError, RequestReader, split_words
from relstate.connector.redis.replies import (
    NO_ARRAY,
    RESP2,
    RESP3,
    CommandError,
    Push,
    Simple,
    encode_reply,
)
from support.redis_servers import request_bytes

_REQUESTS = st.lists(st.lists(st.binary(max_size=8), min_size=1, max_size=4), max_size=5)


def read(
    *pieces: bytes, most_bytes: int = 1000, is_authenticated: bool = True
) -> list[list[bytes]]:
    """Return the requests in some pieces of bytes."""
    reader = RequestReader(most_bytes, is_authenticated=is_authenticated)
    return [request for piece in pieces for request in reader.read(piece)]


@given(requests=_REQUESTS, size=st.integers(1, 20), is_authenticated=st.booleans())
def test_a_request_may_come_in_pieces(
    requests: list[list[bytes]], size: int, is_authenticated: bool
) -> None:
    """Wherever they end; several may come at once, and lines between them."""
    lines = b"".join(b"".join((request_bytes(request), b"PING a\r\n")) for request in requests)
    mixed = [words for request in requests for words in (request, [b"PING", b"a"])]

    for data, expected in ((b"".join(map(request_bytes, requests)), requests), (lines, mixed)):
        pieces = [data[start : start + size] for start in range(0, len(data), size)]
        assert read(data, is_authenticated=is_authenticated) == expected
        assert read(*pieces, is_authenticated=is_authenticated) == expected


def test_people_may_type() -> None:
    """A line is a request, its words quoted as in Redis; empty ones are none."""
    assert read(b"PING\r\nSET a 'b c'\n\r\n*1\r\n$1\r\nx\r\n", b"GE", b"T a\r\n") == [
        [b"PING"],
        [b"SET", b"a", b"b c"],
        [b"x"],
        [b"GET", b"a"],
    ]
    assert split_words(rb'a "\x00\n\"" ' + rb"'it\'s'") == [b"a", b'\0\n"', b"it's"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"*1\r\n:1\r\n", "expected '$', got ':'"),
        (b"*1\r\n*1\r\n$1\r\na\r\n", "expected '$', got '*'"),
        (b"*2\r\n$1\r\na\r\n*99999\r\n", "expected '$', got '*'"),
        (b"*1\r\nx", "expected '$', got 'x'"),
        (b"*1\r\n\r\n", "expected '$', got ' '"),
        (b"*1\r\n$x\r\n", "invalid bulk length"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*x\r\n", "invalid multibulk length"),
        (b"*99999999\r\n", "invalid multibulk length"),
        (b"*1\r\n$4\r\nPING\r\n*2147483647\r\n", "invalid multibulk length"),
        (b"*1\r\n$5000\r\n" + b"x" * 2000, "invalid bulk length"),
        (b"SET 'a\r\n", "unbalanced quotes in request"),
        (b"x" * 70_000, "too big inline request"),
    ],
)
def test_garbage_is_an_error(data: bytes, message: str) -> None:
    """It says what is wrong, wherever it is cut, and memory stays bounded."""
    for size in (len(data), 7, 1):
        pieces = [data[start : start + size] for start in range(0, len(data), size)]
        with pytest.raises(ProtocolError) as raised:
            read(*pieces)
        assert str(raised.value) == message


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"*11\r\n", "unauthenticated multibulk length"),
        (b"PING\r\n*1\r\n$4\r\nPING\r\n*11\r\n", "unauthenticated multibulk length"),
        (b"*10\r\n" * 2, "expected '$', got '*'"),
        (b"*2\r\n$999999\r\n" + b"x" * 170_000, "unauthenticated bulk length"),
    ],
)
def test_little_is_read_before_the_password(data: bytes, message: str) -> None:
    """Ten words, and no arrays in arrays, which would take memory; more afterwards."""
    for size in (len(data), 1000, 1):
        pieces = [data[start : start + size] for start in range(0, len(data), size)]
        with pytest.raises(ProtocolError) as raised:
            read(*pieces, most_bytes=1 << 20, is_authenticated=False)
        assert str(raised.value) == message


def test_a_count_may_come_in_pieces() -> None:
    """It is checked as a whole."""
    with pytest.raises(ProtocolError, match="invalid multibulk length"):
        read(b"*1\r\n$4\r\nPING\r\n*9", b"99", b"99999\r\n")
    assert read(b"*2\r\n$1\r\n*\r", b"\n$2\r\n*9", b"\r\n") == [[b"*", b"*9"]]


def test_text_that_looks_like_a_request_is_a_value() -> None:
    """What is within a bulk string is not looked at."""
    value = b"*99999999\r\n" * 3
    data = request_bytes(["SET", "a", value])

    for is_authenticated in (True, False):
        for size in (len(data), 1):
            pieces = [data[start : start + size] for start in range(0, len(data), size)]
            requests = read(*pieces, is_authenticated=is_authenticated)
            assert requests == [[b"SET", b"a", value]]


@pytest.mark.parametrize(
    ("reply", "resp2", "resp3"),
    [
        (b"a\r\n", b"$3\r\na\r\n\r\n", None),
        (None, b"$-1\r\n", b"_\r\n"),
        (NO_ARRAY, b"*-1\r\n", b"_\r\n"),
        (-7, b":-7\r\n", None),
        (True, b":1\r\n", b"#t\r\n"),
        (0.1, b"$19\r\n0.10000000000000001\r\n", b",0.10000000000000001\r\n"),
        (float("-inf"), b"$4\r\n-inf\r\n", b",-inf\r\n"),
        (Simple(b"OK"), b"+OK\r\n", None),
        (CommandError("ERR a\nb"), b"-ERR a b\r\n", None),
        ([b"a", [1]], b"*2\r\n$1\r\na\r\n*1\r\n:1\r\n", None),
        ({b"a": 1}, b"*2\r\n$1\r\na\r\n:1\r\n", b"%1\r\n$1\r\na\r\n:1\r\n"),
        ({b"a"}, b"*1\r\n$1\r\na\r\n", b"~1\r\n$1\r\na\r\n"),
        (Push([b"a"]), b"*1\r\n$1\r\na\r\n", b">1\r\n$1\r\na\r\n"),
    ],
)
def test_replies_have_the_bytes_of_the_protocol(
    reply: Any, resp2: bytes, resp3: bytes | None
) -> None:
    """Of the version that the client asked for."""
    assert encode_reply(reply, RESP2) == resp2
    assert encode_reply(reply, RESP3) == (resp3 or resp2)
