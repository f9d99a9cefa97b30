"""Views over the databases of a server: hashes as typed rows, which follow what clients write."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

import relstate
from relstate.connector.sql import Database
from relstate.connector.sql.statement import parse_statement
from relstate.connector.sql.view_ddl import CreateView
from relstate.storage import Store, errors
from support.redis_servers import Served, served

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATIENCE = 90
_USERS = """
    CREATE MATERIALIZED VIEW users (id STRING, name STRING COMMENT 'full', age INT, raw BINARY,
        balance DECIMAL(10, 2), born DATE, active BOOLEAN) COMMENT 'users' USING REDIS HASH 'user:*'
"""


def query_of(text: str) -> str:
    """Return the SELECT of the view that a statement creates."""
    statement = parse_statement(text)
    assert isinstance(statement, CreateView)
    return statement.query


@pytest.mark.parametrize(
    ("clause", "query"),
    [
        (
            "(id STRING, n INT) USING REDIS HASH 'u:*'",
            (
                "SELECT CAST(substring(key, 3) AS STRING) AS `id`, "
                "TRY_CAST(CAST(fields[CAST('n' AS BINARY)] AS STRING) AS INT) AS `n` FROM redis_0 "
                "WHERE type = 'hash' AND startswith(key, CAST('u:' AS BINARY))"
            ),
        ),
        (
            "(id BIGINT COMMENT 'x', `ö` BINARY) USING REDIS HASH 'ö*\\'' DATABASE 3",
            (
                "SELECT TRY_CAST(CAST(substring(key, 3, octet_length(key) - 3) AS STRING) AS "
                "BIGINT) AS `id`, fields[X'c3b6'] AS `ö` FROM redis_3 WHERE type = 'hash' AND "
                "startswith(key, X'c3b6') AND endswith(key, X'27') AND octet_length(key) >= 3"
            ),
        ),
        (
            "(id STRING) USING REDIS HASH '*'",
            "SELECT CAST(substring(key, 1) AS STRING) AS `id` FROM redis_0 WHERE type = 'hash'",
        ),
    ],
)
def test_a_mapping_is_the_select_of_a_view(clause: str, query: str) -> None:
    """The first column is of the key, the others are of the fields of their names."""
    assert query_of(f"CREATE MATERIALIZED VIEW v {clause}") == query
    assert query_of(f"CREATE OR REPLACE MATERIALIZED VIEW v {clause}") == query


@pytest.mark.parametrize(
    ("clause", "message"),
    [
        ("USING REDIS HASH 'u:*'", "columns of the hashes are missing"),
        ("(id) USING REDIS HASH 'u:*'", "column 'id' has no type"),
        ("(id COMMENT 'x') USING REDIS HASH 'u:*'", "column 'id' has no type"),
        ("(id STRING) USING REDIS HASH 'u:'", "has 0 stars"),
        ("(id STRING) USING REDIS HASH '*:*'", "has 2 stars"),
        ("(id STRING, tags ARRAY<STRING>) USING REDIS HASH '*'", "column 'tags' cannot be ARRAY"),
        ("(id STRING) USING REDIS SET 'u:*'", "expected REDIS HASH"),
        ("(id STRING) USING REDIS HASH", "expected the pattern of the keys"),
        ("(id STRING) USING REDIS HASH '*' DATABASE x", "expected a number"),
        ("(id STRING) USING REDIS HASH '*' AS SELECT 1", "expected the end of the statement"),
    ],
)
def test_what_is_wrong_with_a_mapping_is_said(clause: str, message: str) -> None:
    """With an example where that helps."""
    with pytest.raises(errors.UnsupportedStatementError, match=message):
        parse_statement(f"CREATE MATERIALIZED VIEW v {clause}")
    with pytest.raises(errors.UnsupportedStatementError, match="CREATE MATERIALIZED VIEW users"):
        parse_statement("CREATE TABLE users (id STRING) USING REDIS HASH 'user:*'")


@pytest.fixture
def live_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store of the real clock, as Spark's tasks have it."""
    with relstate.create(str(tmp_path_factory.mktemp("live") / "store")) as store:
        yield store
        assert store.check().problems == ()


@pytest.fixture
def live_server(live_store: Store) -> Iterator[Served]:
    """A server over that store."""
    with served(live_store) as server:
        yield server


def rows_of(db: Database, view: str) -> list[tuple[Any, ...]]:
    """Return the rows of a view, sorted by the first column."""
    return sorted(tuple(row) for row in db.sql(f"SELECT * FROM {view}").collect())


def test_a_view_of_hashes_follows_clients_within_a_second(
    spark: SparkSession, live_store: Store, live_server: Served
) -> None:
    """With the types that were declared; what is of another type, or not there, is NULL."""
    client, db = live_server.connect(), relstate.connect(spark, live_store.path)
    client("HSET", "user:1", "name", "Ann", "age", "41", "raw", b"\xff", "balance", "1.5")
    client("HSET", "user:2", "name", "Bob", "age", "old", "born", "2001-02-03", "active", "true")
    client("SET", "user:3", "no hash")
    client("HSET", "other:4", "name", "Eve")
    db.sql(_USERS)
    ann = ("1", "Ann", 41, bytearray(b"\xff"), Decimal("1.50"), None, None)
    bob = ("2", "Bob", None, None, None, date(2001, 2, 3), True)
    assert rows_of(db, "users") == [ann, bob]
    db.sql("CREATE MATERIALIZED VIEW ages AS SELECT count(*) AS n, sum(age) AS total FROM users")
    db.sql(
        "CREATE MATERIALIZED VIEW board AS SELECT CAST(m AS STRING) AS member, s AS score "
        "FROM redis_0 LATERAL VIEW explode(scores) AS m, s WHERE type = 'zset'"
    )

    stream = db.stream()
    try:
        client("HSET", "user:5", "name", "warm", "age", "1")
        _wait_for(live_store, "ages", [{"n": 3, "total": 42}])
        idle_seconds: list[float] = []
        # What else the machine does may hold up a few of the refreshes.
        while min(idle_seconds, default=1) >= 1:
            assert len(idle_seconds) < 10, idle_seconds
            age = 10 + len(idle_seconds)
            client("HSET", "user:2", "age", age)
            waited = _wait_for(live_store, "ages", [{"n": 3, "total": 42 + age}])
            stream.processAllAvailable()
            assert stream.lastProgress is not None
            idle_seconds.append(waited - stream.lastProgress["batchDuration"] / 1000)
        client("HSET", "user:2", "age", 30)
        _wait_for(live_store, "ages", [{"n": 3, "total": 72}])
        client("ZADD", "scores", 1, "ann")
        _wait_for(live_store, "board", [{"member": "ann", "score": 1.0}])
        client("DEL", "user:1", "user:5")
        _wait_for(live_store, "ages", [{"n": 1, "total": 30}])
        assert rows_of(db, "users") == [(*bob[:2], 30, *bob[3:])]
    finally:
        stream.stop()
    text = db.sql("SHOW CREATE TABLE users").collect()[0].createtab_stmt
    db.sql("DROP MATERIALIZED VIEW users CASCADE")
    db.sql(text)
    assert rows_of(db, "users") == [(*bob[:2], 30, *bob[3:])]


def _wait_for(store: Store, view: str, rows: list[dict[str, Any]]) -> float:
    """Return after how many seconds a view has some rows."""
    start = time.monotonic()
    while store.table(view).to_dicts() != rows:
        assert time.monotonic() < start + _PATIENCE, store.table(view).to_dicts()
        time.sleep(0.01)
    return time.monotonic() - start
