"""Time series: the commands that YugabyteDB has, with its own examples."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from relstate.connector.redis.values import SeriesValue
from relstate.storage import Store
from support.clock import ManualClock
from support.redis_servers import Connection, Served, served


def words(text: str) -> list[bytes]:
    """Return the words of a text."""
    return text.encode().split()


@pytest.mark.parametrize(
    ("request_text", "reply"),
    [
        ("TSGET ts 2", b"two"),
        ("TSGET ts 7", None),
        ("TSCARD ts", 6),
        ("TSCARD none", 0),
        ("TSLASTN ts 2", "5 five 6 six"),
        ("TSLASTN ts 100", "1 one 2 two 3 three 4 four 5 five 6 six"),
        ("TSRANGEBYTIME ts 2 4", "2 two 3 three 4 four"),
        ("TSRANGEBYTIME ts (2 4", "3 three 4 four"),
        ("TSRANGEBYTIME ts (2 (4", "3 three"),
        ("TSRANGEBYTIME ts -inf 3", "1 one 2 two 3 three"),
        ("TSRANGEBYTIME ts 4 +inf", "4 four 5 five 6 six"),
        ("TSRANGEBYTIME ts 4 2", ""),
        ("TSRANGEBYTIME none 1 2", ""),
        ("TSREVRANGEBYTIME ts 2 4", "4 four 3 three 2 two"),
        ("TSREVRANGEBYTIME ts -inf +inf LIMIT 2", "6 six 5 five"),
        ("TSADD ts 1 uno -5 five", "OK"),
        ("TSREM ts 2 3 100", "OK"),
        ("TSREM none 1", "OK"),
        ("TYPE ts", "timeseries"),
        ("TTL ts", -1),
        ("COPY ts copied", 1),
    ],
)
def test_replies_are_those_of_yugabytedb(
    client: Connection, server: Served, request_text: str, reply: Any
) -> None:
    """From memory and from the table."""
    client(
        "TSADD", "ts", *["1", "one", "2", "two", "3", "three", "4", "four", "5", "five", "6", "six"]
    )
    for _ in range(2):
        expected: Any = reply
        if isinstance(reply, str):
            is_list = request_text.split()[0] in ("TSLASTN", "TSRANGEBYTIME", "TSREVRANGEBYTIME")
            expected = words(reply) if is_list else reply.encode()
        assert client(*request_text.split()) == expected
        if request_text.startswith("COPY"):
            break
        server.forget()


@pytest.mark.parametrize(
    ("request_text", "error"),
    [
        ("TSADD ts 1", "ERR wrong number of arguments for 'tsadd' command"),
        ("TSADD ts 1 a 2", "ERR wrong number of arguments for 'tsadd' command"),
        ("TSADD ts x a", "ERR value is not an integer or out of range"),
        ("TSADD ts 9223372036854775808 a", "ERR value is not an integer or out of range"),
        ("TSADD ts 1 a EXPIRE_IN 0", "ERR invalid expire time in 'tsadd' command"),
        ("TSADD text 1 a", "WRONGTYPE Operation"),
        ("TSGET text 1", "WRONGTYPE Operation"),
        ("TSREM text 1", "WRONGTYPE Operation"),
        ("GET ts", "WRONGTYPE Operation"),
        ("EXPIRE ts 100", "WRONGTYPE Operation"),
        ("PERSIST ts", "WRONGTYPE Operation"),
        ("TSLASTN ts 0", "ERR tslastn: limit field 0 is not within valid bounds"),
        ("TSLASTN ts 9999999999", "ERR tslastn: limit field 9999999999 is not within valid bounds"),
        ("TSRANGEBYTIME ts 1 x", "ERR value is not an integer or out of range"),
        ("TSRANGEBYTIME ts 1 2 LIMIT 1", "ERR syntax error"),
        ("TSREVRANGEBYTIME ts 1 2 LIMIT", "ERR syntax error"),
    ],
)
def test_what_is_wrong_changes_nothing(client: Connection, request_text: str, error: str) -> None:
    """The error says what."""
    client("TSADD", "ts", 1, "one")
    client("SET", "text", "x")

    assert str(client(*request_text.split())).startswith(error)
    assert client("TSRANGEBYTIME", "ts", "-inf", "+inf") == [b"1", b"one"]


def test_entries_expire_each_at_its_time(
    client: Connection, server: Served, store: Store, clock: ManualClock
) -> None:
    """Also those that nobody asks for; the series goes with its last entry."""
    now = clock.now() // 1_000_000
    client("TSADD", "ts", 1, "a", "EXPIRE_IN", 10)
    client("TSADD", "ts", 2, "b", 3, "c", "EXPIRE_AT", now + 20)
    client("TSADD", "ts", 4, "d", "EXPIRE_AT", now - 5)
    assert client("TSCARD", "ts") == 3
    server.forget()

    clock.advance(11)
    assert client("TSGET", "ts", 1) is None
    server.forget()
    assert client("TSRANGEBYTIME", "ts", "-inf", "+inf") == [b"2", b"b", b"3", b"c"]
    client("TSADD", "ts", 2, "stays")
    clock.advance(10)
    server.run(server.server.expire_due)
    server.settle()
    (row,) = store.table("redis_0").to_dicts()
    assert [timestamp for timestamp, _ in row["series"]] == [2]
    assert row["expiry"] is None
    client("TSADD", "ts", 2, "goes", "EXPIRE_IN", 10)
    clock.advance(10)
    server.run(server.server.expire_due)
    server.settle()
    assert store.table("redis_0").to_dicts() == []


def entry_words(timestamps: range) -> list[bytes | str | int | float]:
    """Return the words of entries at some timestamps."""
    return [word for timestamp in timestamps for word in (timestamp, "x")]


@pytest.mark.parametrize("seed", range(5))
def test_a_series_expires_with_its_next_entry(seed: int) -> None:
    """After any entries were set, removed or dropped, it equals one made of what is left."""
    chance = Random(seed)
    series = SeriesValue()
    expected: dict[int, tuple[bytes, int | None]] = {}
    for now in range(300):
        timestamps = chance.sample(range(30), chance.randrange(5))
        expiry = chance.choice([None, now + 1 + chance.randrange(40), now + 20])
        if chance.random() < 0.2:
            series.remove(timestamps)
            for timestamp in timestamps:
                expected.pop(timestamp, None)
        else:
            series.put(dict.fromkeys(timestamps, b"%d" % now), expiry)
            expected |= dict.fromkeys(timestamps, (b"%d" % now, expiry))
        if series.expiry is not None and series.expiry <= now:
            assert series.drop_expired(now) == bool(len(series))
            expected = {
                timestamp: entry
                for timestamp, entry in expected.items()
                if entry[1] is None or entry[1] > now
            }
        made = SeriesValue(expected)
        assert series.content() == made.content()
        assert (series.expiry, series.size, series.order) == (made.expiry, made.size, made.order)


class CountedExpiries(dict[int, int]):
    """Expiries of entries that count how often all of them are looked at."""

    looks = 0

    def values(self) -> Any:
        """Return all of them."""
        self.looks += 1
        return super().values()


def test_many_entries_expire_and_are_replaced_in_one_pass(
    server: Served, client: Connection, clock: ManualClock
) -> None:
    """All expiries are looked at a few times, not once for each entry."""
    half = range(3000)
    client("TSADD", "ts", *entry_words(half), "EXPIRE_IN", 10)
    client("TSADD", "ts", *entry_words(range(3000, 6000)), "EXPIRE_IN", 20)

    def count_looks() -> CountedExpiries:
        series = server.server.service.keyspace.value((0, b"ts"))
        assert isinstance(series, SeriesValue)
        series.expiries = CountedExpiries(series.expiries)
        return series.expiries

    expiries = server.run(count_looks)
    client("TSADD", "ts", *entry_words(half), "EXPIRE_IN", 10)
    clock.advance(11)
    assert client("TSCARD", "ts") == 3000
    clock.advance(10)
    assert client("TSCARD", "ts") == 0

    assert 0 < expiries.looks < 10


def test_an_entry_writes_itself_alone(client: Connection, store: Store) -> None:
    """However long the series is."""
    client("TSADD", "ts", *[word for n in range(1000) for word in (n, "x" * 100)])
    client("TSADD", "ts", 7, "y")

    commit = next(entry for entry in store.history() if entry.operation == "redis")
    assert sum(record.size for record in commit.added) < 20_000


def test_a_table_without_series_gets_them(store: Store) -> None:
    """When a server starts; its keys stay."""
    with served(store) as server:
        server.connect()("SET", "a", "x")
    store.drop_columns("redis_0", "series")

    with served(store) as server:
        client = server.connect()
        assert client("TSADD", "ts", 1, "one") == b"OK"
        assert client("GET", "a") == b"x"
        server.forget()
        assert client("TSGET", "ts", 1) == b"one"
