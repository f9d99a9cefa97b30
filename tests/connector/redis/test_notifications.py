"""Messages of changes of keys: those of Redis, in its order, for every command that writes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import hiredis
import pytest

from relstate.connector.redis.commands import COMMANDS
from relstate.connector.redis.settings import Settings
from relstate.storage import Store
from support.clock import ManualClock
from support.redis_servers import Connection, Request, Served, another, served

_SEQUENCES: dict[str, str] = {
    "append": "APPEND a x | APPEND a y | APPEND a ''",
    "bitfield": """
        BITFIELD a SET u8 0 1 | BITFIELD a SET u8 0 1 | BITFIELD a GET u8 0
        BITFIELD a OVERFLOW FAIL INCRBY u2 0 5 | BITFIELD none GET u8 0""",
    "bitop": "SET a x | BITOP NOT b a | BITOP AND b c d | BITOP OR b c d",
    "blmove": "RPUSH a 1 2 | BLMOVE a b LEFT RIGHT 0 | BLMOVE a b RIGHT LEFT 0",
    "blmpop": "RPUSH a 1 2 3 | BLMPOP 0 2 none a LEFT | BLMPOP 0 1 a RIGHT COUNT 5",
    "blpop": "RPUSH a 1 | BLPOP none a 0",
    "brpop": "RPUSH a 1 2 | BRPOP a 0",
    "brpoplpush": "RPUSH a 1 | BRPOPLPUSH a b 0",
    "bzmpop": "ZADD a 1 x 2 y | BZMPOP 0 1 a MAX | BZMPOP 0 1 a MIN",
    "bzpopmax": "ZADD a 1 x 2 y | BZPOPMAX a 0 | BZPOPMAX a 0",
    "bzpopmin": "ZADD a 1 x | BZPOPMIN a 0",
    "copy": "SET a x | COPY a b | COPY a b | COPY a b REPLACE | COPY a b DB 1 | COPY none b",
    "decr": "DECR a | SET a x | DECR a",
    "decrby": "DECRBY a 3",
    "del": "SET a x | SET b x | DEL a none b",
    "expire": "SET a x | EXPIRE a 100 | EXPIRE a 100 NX | EXPIRE a -1 | EXPIRE none 1",
    "expireat": "SET a x | EXPIREAT a 99999999999 | EXPIREAT a 1",
    "flushall": "SET a x | FLUSHALL",
    "flushdb": "SET a x | FLUSHDB",
    "getdel": "SET a x | GETDEL a | GETDEL a",
    "getex": """
        SET a x | GETEX a | GETEX a EX 10 | GETEX a PERSIST | GETEX a PERSIST | GETEX none
        GETEX a EXAT 1""",
    "getset": "GETSET a x | GETSET a y",
    "hdel": "HSET a x 1 y 2 z 3 | HDEL a x none | HDEL a none | HDEL a y z",
    "hincrby": "HINCRBY a x 1 | HINCRBY a x no",
    "hincrbyfloat": "HINCRBYFLOAT a x 1.5",
    "hmset": "HMSET a x 1 y 2",
    "hset": "HSET a x 1 | HSET a x 1",
    "hsetnx": "HSETNX a x 1 | HSETNX a x 2",
    "incr": "INCR a | INCR a",
    "incrby": "INCRBY a 2 | INCRBY a 0",
    "incrbyfloat": "INCRBYFLOAT a 1.5",
    "linsert": "RPUSH a x | LINSERT a BEFORE x y | LINSERT a BEFORE no y | LINSERT none BEFORE x y",
    "lmove": """
        RPUSH a x y z | LMOVE a b LEFT LEFT | LMOVE a a LEFT RIGHT | LMOVE a b LEFT RIGHT
        LMOVE a a LEFT RIGHT | LMOVE a a RIGHT RIGHT | LMOVE a b RIGHT LEFT
        LMOVE none b LEFT LEFT""",
    "lmpop": "RPUSH a x y z | LMPOP 2 none a LEFT COUNT 2 | LMPOP 1 a RIGHT | LMPOP 1 a LEFT",
    "lpop": "RPUSH a x y z | LPOP a | LPOP a 0 | LPOP a 5 | LPOP a",
    "lpush": "LPUSH a x y | LPUSH a z",
    "lpushx": "LPUSHX a x | RPUSH a x | LPUSHX a y",
    "lrem": "RPUSH a x y x | LREM a 0 none | LREM a 1 x | LREM a 0 x | LREM a 0 y",
    "lset": "RPUSH a x | LSET a 0 y | LSET a 0 y | LSET a 5 y",
    "ltrim": "RPUSH a x y z | LTRIM a 0 -1 | LTRIM a 1 1 | LTRIM a 5 6 | LTRIM a 0 1",
    "move": "SET a x | MOVE a 1 | SET a y | MOVE a 1 | MOVE none 1",
    "mset": "SET a x | MSET a 1 b 2 a 3",
    "msetnx": "MSETNX a 1 b 2 | MSETNX b 1 c 2",
    "persist": "SET a x EX 10 | PERSIST a | PERSIST a | PERSIST none",
    "pexpire": "SET a x | PEXPIRE a 10000 | PEXPIRE a 0",
    "pexpireat": "SET a x | PEXPIREAT a 99999999999999 | PEXPIREAT a 1",
    "psetex": "PSETEX a 10000 x",
    "rename": "SET a x | RENAME a b | SET a y | RENAME a b | RENAME b b | RENAME none b",
    "renamenx": "SET a x | RENAMENX a b | SET a y | RENAMENX a b",
    "rpop": "RPUSH a x y | RPOP a | RPOP a",
    "rpoplpush": "RPUSH a x y | RPOPLPUSH a b | RPOPLPUSH a a | RPOPLPUSH a b",
    "rpush": "RPUSH a x | RPUSH a y z",
    "rpushx": "RPUSHX a x | RPUSH a x | RPUSHX a y",
    "sadd": "SADD a x y | SADD a x | SADD a x z",
    "sdiffstore": "SADD a x y | SADD b y | SDIFFSTORE c a b | SDIFFSTORE c b a | SDIFFSTORE c d a",
    "set": """
        SET a x | SET a y EX 10 | SET a z KEEPTTL | SET a z NX | SET b z XX | SET b z NX PX 10000
        SET none x GET | SET a x GET | SET a x EXAT 99999999999""",
    "setbit": "SETBIT a 3 1 | SETBIT a 3 1 | SETBIT a 50 0",
    "setex": "SETEX a 10 x",
    "setnx": "SETNX a x | SETNX a y",
    "setrange": "SETRANGE a 2 x | SETRANGE a 0 '' | SETRANGE a 0 y",
    "sinterstore": "SADD a x y | SADD b y | SINTERSTORE c a b | SINTERSTORE c a none",
    "smove": "SADD a x y | SADD b y | SMOVE a b x | SMOVE a b y | SMOVE b b x | SMOVE b a none",
    "sort": """
        RPUSH a 2 1 | SORT a STORE b | SORT a STORE b | SORT none STORE b | SORT a
        SORT a BY w_* GET v_* STORE b | SORT none""",
    "spop": "SADD a x y z | SPOP a 0 | SPOP a 2 | SPOP a | SPOP a",
    "srem": "SADD a x y | SREM a x none | SREM a none | SREM a y",
    "sunionstore": "SADD a x | SUNIONSTORE c a none | SUNIONSTORE c none | SUNIONSTORE c none",
    "swapdb": "SET a x | SWAPDB 0 1",
    "unlink": "SET a x | UNLINK a none",
    "zadd": """
        ZADD a 1 x | ZADD a 1 x | ZADD a 2 x | ZADD a XX 1 y | ZADD a INCR 1 x | ZADD b XX 1 x""",
    "zdiffstore": "ZADD a 1 x | ZDIFFSTORE c 2 a none | ZDIFFSTORE c 1 none",
    "zincrby": "ZINCRBY a 1 x | ZINCRBY a 0 x | ZINCRBY a 2 x",
    "zinterstore": "ZADD a 1 x | ZINTERSTORE c 1 a | ZINTERSTORE c 2 a none | ZINTERSTORE c 1 none",
    "zmpop": "ZADD a 1 x 2 y | ZMPOP 1 a MIN | ZMPOP 1 a MAX | ZMPOP 1 a MAX",
    "zpopmax": "ZADD a 1 x 2 y | ZPOPMAX a 0 | ZPOPMAX a | ZPOPMAX a 5",
    "zpopmin": "ZADD a 1 x | ZPOPMIN a | ZPOPMIN a",
    "zrangestore": "ZADD a 1 x | ZRANGESTORE b a 0 -1 | ZRANGESTORE b a 5 6 | ZRANGESTORE b c 0 1",
    "zrem": "ZADD a 1 x 2 y | ZREM a x none | ZREM a none | ZREM a y",
    "zremrangebylex": "ZADD a 1 x 1 y | ZREMRANGEBYLEX a [y + | ZREMRANGEBYLEX a - +",
    "zremrangebyrank": "ZADD a 1 x 1 y | ZREMRANGEBYRANK a 0 0 | ZREMRANGEBYRANK a 0 0",
    "zremrangebyscore": "ZADD a 1 x | ZREMRANGEBYSCORE a 5 6 | ZREMRANGEBYSCORE a 0 6",
    "zunionstore": "ZADD a 1 x | ZUNIONSTORE c 2 a none | ZUNIONSTORE c 1 none",
    "what reads": """
        GET a | MGET a b a | EXISTS a b | TYPE a | TTL a | PTTL a | STRLEN a | HGET a x | HGETALL a
        LLEN a | LRANGE a 0 1 | SMEMBERS a | SINTER a b | SUNION a b | ZSCORE a x | ZUNION 2 a b
        ZRANGE a 0 1 | OBJECT ENCODING a | MEMORY USAGE a | DUMP a | LCS a b | BITCOUNT a
        TOUCH a | GETRANGE a 0 1 | SCAN 0 | KEYS * | SINTERCARD 1 a | HRANDFIELD a | EXPIRETIME a
        SORT_RO a | SET a x | GET a | SETBIT a 1 1 | HSCAN h 0 | BITFIELD_RO b GET u1 0""",
    "transactions and scripts": """
        MULTI | SET a x | LPUSH a y | DEL a | EXEC | MULTI | SET a x | DISCARD
        EVAL redis.call('set',KEYS[1],1)return(redis.call('del',KEYS[1])) 1 a
        EVAL redis.call('set',KEYS[1],1)error('x') 1 a""",
}  # fmt: skip
_OTHERS = {"createdb", "deletedb", "restore", "tsadd", "tsrem"}
"""What Redis does not have, or has with other bytes."""
_END = (b"end", b"of the messages")


def _shown(reply: Any) -> Any:
    return f"error: {reply}" if isinstance(reply, hiredis.ReplyError) else reply


class Listener:
    """A client of a server that gets all its messages of changes, and one that makes them."""

    def __init__(self, client: Connection, flags: str) -> None:
        self.client = client
        self._subscriber = another(client)
        assert client("CONFIG", "SET", "notify-keyspace-events", flags) == b"OK"
        self._subscriber("PSUBSCRIBE", "__key*")
        self._subscriber("SUBSCRIBE", _END[0])

    def messages_of(self, *request: bytes | str | int | float) -> list[tuple[bytes, bytes]]:
        """Send a request, and return the channels and messages that it leads to."""
        self.client(*request)
        return self.messages()

    def messages(self) -> list[tuple[bytes, bytes]]:
        """Return the messages that were sent until now."""
        end = another(self.client)
        end("PUBLISH", *_END)
        end.close()
        result = []
        while (message := self._subscriber.reply())[1:] != list(_END):
            result.append((message[-2], message[-1]))
        return result

    def close(self) -> None:
        """End the subscriptions."""
        self._subscriber.close()


Listen = Callable[[Connection, str], Listener]


@pytest.fixture
def listen() -> Iterator[Listen]:
    """Makes listeners, which end with the test."""
    with ExitStack() as stack:
        yield lambda client, flags: stack.enter_context(closing(Listener(client, flags)))


def _requests(name: str) -> list[list[str]]:
    lines = _SEQUENCES[name].strip().splitlines()
    texts = [text.split() for line in lines for text in line.split(" | ")]
    return [["" if word == "''" else word for word in words] for words in texts]


def test_every_command_that_writes_is_compared() -> None:
    """But those that Redis does not have, which have tests of their own."""
    writing = {name for name, command in COMMANDS.items() if command.writes}
    assert writing - _OTHERS <= set(_SEQUENCES)


@pytest.mark.parametrize("name", _SEQUENCES)
def test_messages_are_those_of_redis(
    client: Connection, theirs: Connection, listen: Listen, name: str
) -> None:
    """Of every class, in the same order, request by request."""
    listeners = [listen(connection, "KEAnm") for connection in (client, theirs)]
    for request in _requests(name):
        ours, others = (listener.messages_of(*request) for listener in listeners)
        assert ours == others, request


@pytest.mark.parametrize(
    "flags",
    [
        "", "KEA", "A", "K", "E", "KA", "EA", "Kg", "E$", "Kl$sh", "KEx", "KEe", "KEz", "Km", "En",
        "KEAn", "KEAm", "KEmn", "Kt", "Kd", "g$lshzxetd", "g$lshzxetdnKEm", "KKEE", "q", "KEAq",
        " ", "ke", "mn",
    ],
)  # fmt: skip
def test_flags_are_those_of_redis(
    client: Connection, theirs: Connection, listen: Listen, flags: str
) -> None:
    """Set, shown, and followed; letters that are not known are refused."""
    replies = []
    for connection in (client, theirs):
        reply = _shown(connection("CONFIG", "SET", "notify-keyspace-events", flags))
        shown = connection("CONFIG", "GET", "notify-keyspace-events")
        listener = listen(connection, shown[1].decode())
        filling: list[Request] = [
            ["SET", "a", 1], ["LPUSH", "l", "x"], ["HSET", "h", "f", 1], ["ZADD", "z", 1, "a"],
            ["SADD", "s", "x"], ["DEL", "a"], ["GET", "a"],
        ]  # fmt: skip
        replies.append((reply, shown, [listener.messages_of(*request) for request in filling]))
    assert replies[0] == replies[1]


def test_expiry_is_told(
    server: Served, client: Connection, theirs: Connection, clock: ManualClock, listen: Listen
) -> None:
    """When a client looks at the key, or nobody does."""
    listener = listen(client, "KEx")
    expected = [(b"__keyspace@0__:a", b"expired"), (b"__keyevent@0__:expired", b"a")]
    client("SET", "a", 1, "PX", 10)
    clock.advance(1)
    assert listener.messages_of("GET", "a") == expected
    client("SET", "a", 1, "PX", 10)
    clock.advance(1)
    server.run(server.server.expire_due)
    assert listener.messages() == expected

    other = listen(theirs, "KEx")
    theirs("SET", "a", 1, "PX", 1)
    time.sleep(0.01)
    assert other.messages_of("GET", "a") == expected


def test_who_waited_is_told_of_after_who_brought_it(
    client: Connection, theirs: Connection, listen: Listen
) -> None:
    """The element comes, and is taken."""
    messages = []
    for connection in (client, theirs):
        listener = listen(connection, "KEA")
        waiter = another(connection)
        waiter.send(["BLMOVE", "a", "b", "LEFT", "RIGHT", 0])
        while b"flags=b" not in connection("CLIENT", "LIST"):
            time.sleep(0.001)
        messages.append(listener.messages_of("RPUSH", "a", "x"))
        assert waiter.reply() == b"x"
        waiter.close()
    assert messages[0] == messages[1]


def test_restored_values_and_time_series_are_told_of(client: Connection, listen: Listen) -> None:
    """A value that is replaced is new, as in Redis; entries are of the class of modules."""
    client("SET", "a", 1)
    data = client("DUMP", "a")
    listener = listen(client, "Egdn")
    new, restored = (b"__keyevent@0__:new", b"b"), (b"__keyevent@0__:restore", b"b")
    assert listener.messages_of("RESTORE", "b", 0, data) == [new, restored]
    assert listener.messages_of("RESTORE", "b", 0, data, "REPLACE") == [new, restored]
    assert listener.messages_of("RESTORE", "b", 1, data, "REPLACE", "ABSTTL") == [
        (b"__keyevent@0__:del", b"b")
    ]
    assert listener.messages_of("TSADD", "t", 1, "x") == [
        (b"__keyevent@0__:new", b"t"),
        (b"__keyevent@0__:tsadd", b"t"),
    ]
    assert listener.messages_of("TSREM", "t", 1) == [
        (b"__keyevent@0__:tsrem", b"t"),
        (b"__keyevent@0__:del", b"t"),
    ]


def test_what_leaves_memory_is_not_told(store: Store, listen: Listen) -> None:
    """It stays in the table: no key is evicted."""
    with served(store, Settings(maxmemory=20_000)) as server:
        client = server.connect()
        listener = listen(client, "KEe")
        for number in range(50):
            client("SET", number, "x" * 1000)
        assert server.server.service.keyspace.memory < 30_000
        assert listener.messages() == []
        assert client("EXISTS", *range(50)) == 50
