"""Random sequences of Redis commands: few keys, so that types meet, and odd arguments."""

from __future__ import annotations

from hypothesis import strategies as st

Words = tuple[bytes, ...]

KEYS = (b"a", b"b", b"c", b"\x00\xff")
_FIELDS = (b"f", b"g", b"h", b"", b"10")
_VALUES = (
    b"", b"x", b"yy", b"10", b"-3", b"3.5", b" 1", b"01", b"9223372036854775807", b"\x00\xff\r\n",
    b"1e400", b"inf",
)  # fmt: skip
_INTEGERS = (b"0", b"1", b"-1", b"2", b"-2", b"5", b"-100", b"9223372036854775807", b"x", b"1.5")
_FLOATS = (b"0", b"0.1", b"-2.5", b"3", b"1e3", b"inf", b"nan", b"x", b"1e-5")
_TIMES = (b"100", b"1000", b"0", b"-1", b"x", b"9223372036854775807")
_PATTERNS = (b"*", b"?", b"[a-b]", b"[^a]*", b"\\a", b"f*", b"")
_WORDS = {
    "key": KEYS,
    "field": _FIELDS,
    "value": _VALUES,
    "integer": _INTEGERS,
    "float": _FLOATS,
    "time": _TIMES,
    "pattern": _PATTERNS,
    "condition": (b"NX", b"XX", b"GT", b"LT", b"nx", b"zz"),
    "lifetime": (b"EX", b"ex"),
}

STRINGS = """
    SET key value | SET key value | SET key value NX | SET key value XX GET | SET key value GET
    SET key value lifetime time | SET key value KEEPTTL | SET key value EX 100 KEEPTTL
    SET key value PX 100000 | GETEX key PX 100000 | PSETEX key 0 value
    SET key value NX XX | SET key value EX | SET key value lifetime time NX GET
    SETNX key value | SETEX key time value | PSETEX key 100000 value | GETSET key value
    GET key | GET key | MGET key key key | MSET key value key value | MSET key value key
    MSETNX key value key value | GETDEL key | GETEX key | GETEX key lifetime time
    GETEX key PERSIST | APPEND key value | STRLEN key | GETRANGE key integer integer
    SUBSTR key integer integer | SETRANGE key 3 value | SETRANGE key -1 value | INCR key
    DECR key | INCRBY key integer | DECRBY key integer | INCRBYFLOAT key float | GET
"""
HASHES = """
    HSET key field value | HSET key field value field value | HSET key field value field
    HMSET key field value | HSETNX key field value | HGET key field | HMGET key field field
    HGETALL key | HKEYS key | HVALS key | HLEN key | HEXISTS key field | HSTRLEN key field
    HDEL key field | HDEL key field field field field | HINCRBY key field integer
    HINCRBYFLOAT key field float | HSCAN key 0 | HSCAN key 0 MATCH pattern COUNT 3
    HSCAN key x | HSCAN key 0 COUNT 0
"""
GENERAL = """
    DEL key | DEL key key | UNLINK key | EXISTS key key | TOUCH key | TYPE key | KEYS pattern
    SCAN 0 COUNT 1000 | SCAN 0 COUNT 1000 MATCH pattern | SCAN 0 COUNT 1000 TYPE hash
    RENAME key key | RENAMENX key key | COPY key key | COPY key key REPLACE
    EXPIRE key time | EXPIRE key time condition | PEXPIRE key 100000 condition
    EXPIRE key 200 condition condition | EXPIREAT key time | PEXPIREAT key 1000 | TTL key
    PERSIST key | EXPIRETIME c | PING | PING value | ECHO value | SELECT 0 | NOSUCH key value
    FLUSHDB | FLUSHDB SYNC | OBJECT | MOVE key 1 | MOVE key 0 | MOVE key 99
"""


def commands(*texts: str) -> st.SearchStrategy[Words]:
    """Return commands made of templates: names of kinds of words in small letters are replaced."""
    templates = [
        line.split()
        for text in texts
        for group in text.strip().splitlines()
        for line in group.split("|")
    ]
    return st.one_of([st.tuples(*map(_word, template)) for template in templates])


def _word(word: str) -> st.SearchStrategy[bytes]:
    return st.sampled_from(_WORDS[word]) if word in _WORDS else st.just(word.encode())
