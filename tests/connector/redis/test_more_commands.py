"""Commands of bits, sorting, databases, dumps and clients, against Redis itself."""

from __future__ import annotations

import re
from typing import Any

import hiredis
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.clock import ManualClock
from support.examples import examples
from support.redis_servers import Connection, Request, Served, another

_SEQUENCES = {
    "bits": """
        SETBIT a 7 1 | SETBIT a 7 0 | SETBIT a 100 1 | GETBIT a 100 | GETBIT a 1000
        GETBIT none 1 | SETBIT a -1 1 | SETBIT a x 1 | SETBIT a 1 2 | SETBIT a 1 x
        SETBIT a 99999999999 1 | GETBIT a -1 | STRLEN a | BITCOUNT a | BITCOUNT a 0 0
        BITCOUNT a 1 -1 | BITCOUNT a 0 | BITCOUNT a 5 2 | BITCOUNT a 0 -1 BIT
        BITCOUNT a 7 100 BIT | BITCOUNT a 0 1 NO | BITCOUNT a x 1 | BITCOUNT none
        BITCOUNT a 0 1 BIT x | SET b foobar | BITCOUNT b 1 1 | BITCOUNT b 5 30 BIT
        BITCOUNT b -100 100 BIT | BITPOS b 1 | BITPOS b 0 | BITPOS b 1 2 | BITPOS b 0 2 -1
        BITPOS b 1 7 15 BIT | BITPOS b 0 10 10 BIT | BITPOS none 1 | BITPOS none 0
        BITPOS b 2 | BITPOS b x | BITPOS b 1 0 1 NO | BITPOS b 1 5 2 | BITPOS none 0 0 -1
        SETRANGE ones 0 \\xff\\xff | BITPOS ones 0 | BITPOS ones 0 0 -1 | BITPOS ones 0 0
        BITPOS ones 0 5 | BITOP AND c a b | GET c | BITOP OR c a b | GET c
        BITOP XOR c a b none | GET c | BITOP NOT c b | GET c | BITOP NOT c a b | BITOP NO c a
        BITOP AND c none none2 | EXISTS c | LPUSH list x | SETBIT list 1 1 | BITCOUNT list
        BITOP OR c list | BITPOS list 1""",
    "fields": """
        BITFIELD f SET u8 0 255 GET u8 0 | BITFIELD f INCRBY u8 0 10
        BITFIELD f GET i8 0 GET u4 4 | BITFIELD f OVERFLOW SAT INCRBY u8 0 250 INCRBY u8 0 250
        BITFIELD f OVERFLOW FAIL INCRBY u8 0 9
        BITFIELD f SET i64 #2 -1 GET i64 #2 GET u63 65 | BITFIELD f GET u64 0
        BITFIELD f GET i0 0 | BITFIELD f GET i65 0 | BITFIELD f GET x8 0
        BITFIELD f SET u8 -1 1 | BITFIELD f SET u8 x 1 | BITFIELD f OVERFLOW NO
        BITFIELD f NO | BITFIELD f GET u8 | BITFIELD f SET i5 3 100 GET i5 3
        BITFIELD f INCRBY i5 3 100 | BITFIELD f OVERFLOW SAT SET i5 3 -100 GET i5 3 | GET f
        BITFIELD f | BITFIELD_RO f GET u8 0 | BITFIELD_RO f SET u8 0 1
        BITFIELD none GET u8 5 | EXISTS none | BITFIELD f OVERFLOW WRAP SET u8 8 300 GET u8 8
        BITFIELD f OVERFLOW FAIL SET u8 8 300
        BITFIELD f INCRBY i64 0 9223372036854775807 INCRBY i64 0 1 | LPUSH list x
        BITFIELD list GET u8 0""",
    "common subsequences": """
        MSET x ohmytext y mynewtext | LCS x y | LCS x y LEN | LCS x y IDX
        LCS x y IDX MINMATCHLEN 4 | LCS x y IDX MINMATCHLEN 4 WITHMATCHLEN | LCS x y IDX LEN
        LCS x none | LCS x y NO | LCS x y IDX WITHMATCHLEN | LPUSH list a | LCS x list
        LCS x y MINMATCHLEN | LCS none none IDX""",
    "sorting": """
        RPUSH l 3 1 2 10 | SORT l | SORT l DESC | SORT l ALPHA | SORT l LIMIT 1 2
        SORT l LIMIT -1 2 | SORT l LIMIT 1 -1 | MSET w_1 30 w_2 20 w_3 10 | SORT l BY w_*
        SORT l BY w_* GET w_* GET # | SORT l BY none | SORT l BY none DESC
        HSET h_1 a 5 n one | HSET h_2 a 4 n two | SORT l BY h_*->a GET h_*->n GET #
        SORT l STORE t | LRANGE t 0 -1 | SORT none STORE t | EXISTS t | SORT l GET w_* STORE t
        LRANGE t 0 -1 | SORT_RO l DESC | SORT_RO l STORE t | SADD s c a b | SORT s
        SORT s ALPHA | SORT s ALPHA DESC LIMIT 0 1 | ZADD z 3 1 2 2 1 3 | SORT z | SORT z DESC
        SORT z BY x DESC | SORT z BY x LIMIT 0 2 | SET str x | SORT str | SORT l NO
        SORT l LIMIT 1 | RPUSH words banana apple | SORT words
        SORT words ALPHA BY none GET # | SORT l BY w_* ALPHA | SORT none
        SORT l BY x*y GET nope""",
    "keys": """
        SET a 1 | OBJECT FREQ a | OBJECT IDLETIME none | OBJECT NO a | OBJECT HELP
        OBJECT ENCODING | OBJECT REFCOUNT a b | MEMORY USAGE none | MEMORY USAGE a SAMPLES x
        MEMORY USAGE a NO 1 | MEMORY NO | MEMORY USAGE | SELECT 1 | SET b 2 | SWAPDB 0 1
        GET a | DBSIZE | SELECT 0 | GET b | GET a | SWAPDB 0 0 | SWAPDB x 0 | SWAPDB 0 y
        SWAPDB 0 99 | SWAPDB -1 0 | WAIT 0 0 | WAIT x 0 | WAIT 1 x | WAIT 1 -1
        COMMAND LIST FILTERBY MODULE x | COMMAND LIST NO | COMMAND LIST FILTERBY PATTERN hset*
        COMMAND LIST FILTERBY NO x | CLIENT LIST TYPE no | CLIENT LIST ID x | CLIENT LIST NO
        CLIENT UNBLOCK x | CLIENT UNBLOCK 99999 | CLIENT UNBLOCK 1 NO | CLIENT LIST ID 99999
        CLIENT NO-EVICT ON | CLIENT NO-EVICT off | CLIENT NO-EVICT no | CLIENT NO-EVICT
        CLIENT LIST ID 0 | CLIENT LIST ID -5 | CLIENT UNBLOCK 1 TIMEOUT x | COMMAND COUNT x
        CONFIG SET a b c""",
    "restores": """
        SET a 1 | RESTORE a 0 x | RESTORE b 0 x | RESTORE b -1 x | RESTORE b x x
        RESTORE b 0 x NO | DUMP none | RESTORE b 0 x IDLETIME -1 | RESTORE b 0 x FREQ
        RESTORE b 0 x FREQ 256 | RESTORE b 0 x FREQ -1 | RESTORE b 0 x IDLETIME 1 FREQ 1
        RESTORE b 0 x FREQ 1 IDLETIME 1 | RESTORE b 0 x IDLETIME 1 IDLETIME -2""",
}


@pytest.mark.parametrize("name", _SEQUENCES)
def test_replies_are_those_of_redis(client: Connection, theirs: Connection, name: str) -> None:
    """Each of a sequence."""
    for line in _SEQUENCES[name].strip().splitlines():
        for text in line.split(" | "):
            words = text.encode().decode("unicode_escape").encode("latin-1").split()
            assert _shown(client(*words)) == _shown(theirs(*words)), text


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["SET", "INCRBY", "GET"]),
            st.sampled_from(["u1", "i2", "u5", "i8", "u13", "i32", "u63", "i64"]),
            st.integers(0, 40),
            st.sampled_from([0, 1, -1, 7, -200, 1 << 40, (1 << 63) - 1, -(1 << 63)]),
            st.sampled_from(["WRAP", "SAT", "FAIL"]),
        ),
        max_size=12,
    )
)
@settings(max_examples=examples(30), suppress_health_check=list(HealthCheck), deadline=None)
def test_fields_of_bits_overflow_as_in_redis(
    client: Connection, theirs: Connection, steps: list[tuple[str, str, int, int, str]]
) -> None:
    """Of every width, at every offset."""
    words: list[Any] = ["BITFIELD", "key"]
    for name, kind, offset, value, overflow in steps:
        words += ["OVERFLOW", overflow, name, kind, offset, *([] if name == "GET" else [value])]
    requests: list[Request] = [["DEL", "key"], words, ["GET", "key"]]
    assert client.pipeline(requests)[1:] == theirs.pipeline(requests)[1:]


def test_a_dump_is_restored(client: Connection, server: Served) -> None:
    """Values of all types, with their expiry, in memory and from the table."""
    filling: list[Request] = [
        ["SET", "string", b"\0x"],
        ["HSET", "hash", "a", "1", "", ""],
        ["SADD", "set", "a", "b"],
        ["ZADD", "sorted", 1.5, "a", "inf", "b"],
        ["RPUSH", "list", "a", "b"],
        ["LPUSH", "list", "c"],
        ["TSADD", "series", 1, "x", 2, "y"],
    ]
    client.pipeline(filling)
    looks: dict[str, list[Any]] = {
        "string": ["GET"],
        "hash": ["HGETALL"],
        "set": ["SMEMBERS"],
        "sorted": ["ZRANGE", 0, -1, "WITHSCORES"],
        "list": ["LRANGE", 0, -1],
        "series": ["TSRANGEBYTIME", "-inf", "+inf"],
    }
    for key, (look, *rest) in looks.items():
        data = client("DUMP", key)
        assert client("RESTORE", f"{key}2", 0 if key == "series" else 5000, data) == b"OK"
        assert "BUSYKEY" in str(client("RESTORE", f"{key}2", 0, data))
        assert client("RESTORE", f"{key}2", 0, data, "REPLACE") == b"OK"
        server.forget()
        assert client(look, f"{key}2", *rest) == client(look, key, *rest)
        for wrong in (data[:-1] + b"\0", data[:20], b"", data[:9] + b"x" + data[10:]):
            assert "wrong" in str(client("RESTORE", "other", 0, wrong))
    assert client("RESTORE", "gone", 1, client("DUMP", "list"), "ABSTTL") == b"OK"
    assert client("EXISTS", "gone", "other") == 0


def test_idle_time_is_that_since_the_last_use(
    server: Served, client: Connection, clock: ManualClock
) -> None:
    """In seconds; OBJECT is no use, TOUCH is."""
    client("SET", "a", 1)
    clock.advance(20)
    server.run(server.server.expire_due)
    assert client("OBJECT", "IDLETIME", "a") == 20
    assert client("OBJECT", "IDLETIME", "a") == 20
    client("TOUCH", "a")
    assert client("OBJECT", "IDLETIME", "a") == 0


_NO_USES = """
    OBJECT ENCODING a | OBJECT IDLETIME a | TYPE a | EXISTS a | TTL a | PTTL a | EXPIRETIME a
    PEXPIRETIME a | MEMORY USAGE a | WATCH a | KEYS a | SCAN 0 COUNT 100 TYPE string | RANDOMKEY
    DBSIZE"""
_USES = """
    GET a | TOUCH a | STRLEN a | EXPIRE a 1000 | DUMP a | SETNX a 1 | APPEND a x | SET a x
    COPY a b REPLACE | GETEX a | SORT none BY a GET a"""


def test_what_counts_as_a_use_is_as_in_redis(client: Connection, theirs: Connection) -> None:
    """Since a value was restored that was idle before; what only looks at it is no use."""
    idle_times: list[list[int]] = []
    for connection in (client, theirs):
        connection("SET", "value", 1)
        data = connection("DUMP", "value")
        idle_times.append([])
        for text in f"{_NO_USES} | {_USES}".replace("\n", "|").split("|"):
            connection("RESTORE", "a", 0, data, "REPLACE", "IDLETIME", 1000)
            if text.strip():
                connection(*text.split())
            idle_times[-1].append(connection("OBJECT", "IDLETIME", "a") // 100)
    assert idle_times[0] == idle_times[1]
    assert set(idle_times[0]) == {0, 10}


def test_a_client_is_unblocked(client: Connection, theirs: Connection) -> None:
    """As if its time was over, or with an error; not one that does not wait."""
    replies: list[list[str]] = []
    for connection in (client, theirs):
        waiter = another(connection)
        number = waiter("CLIENT", "ID")
        replies.append([])
        for reason in ([], ["TIMEOUT"], ["ERROR"], ["error"]):
            replies[-1].append(repr(connection("CLIENT", "UNBLOCK", number, *reason)))
            waiter.send(["BLPOP", "none", 0])
            while b"flags=b" not in connection("CLIENT", "LIST", "ID", number):
                pass
            replies[-1].append(repr(connection("CLIENT", "UNBLOCK", number, *reason)))
            replies[-1].append(repr(waiter.reply()))
        waiter.close()
    assert replies[0] == replies[1]


def test_clients_are_listed_with_the_fields_of_redis(
    client: Connection, theirs: Connection
) -> None:
    """In its order, but sizes of buffers; the command that was run last among them."""
    names = []
    for connection in (client, theirs):
        line = connection("CLIENT", "LIST").splitlines()[0]
        names.append(re.findall(rb"([\w-]+)=", line))
        assert b"cmd=client" in line
    missing = [name for name in names[1] if name not in names[0]]
    assert missing == [b"rbs", b"rbp"]


def test_what_is_refused_is_refused_by_name(client: Connection) -> None:
    """With a reason."""
    for name in ("PAUSE", "UNPAUSE", "TRACKING", "TRACKINGINFO", "CACHING", "GETREDIR"):
        assert f"CLIENT {name} is not supported" in str(client("CLIENT", name, "ON"))


def _shown(reply: Any) -> Any:
    if isinstance(reply, hiredis.ReplyError):
        return f"error: {reply}"
    if isinstance(reply, list) and reply and reply[0] in (b"hset", b"hsetnx"):
        return sorted(reply)
    return repr(reply)
