"""What the statements of `db.sql` cost in requests, on a store in a bucket."""

from __future__ import annotations

import uuid
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from relstate.connector.sql.database import Database
from relstate.storage import Store
from support.object_stores import CountedStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_statement_looks_once(spark: SparkSession, tmp_path: Path) -> None:
    """A read of few rows is one request, a change of few rows one more than a commit."""
    environment = CountedStore(f"memory://{uuid.uuid4().hex}/shop", tmp_path)
    db = Database(spark, Store.create("", environment=environment))
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")

    def requests(statement: str) -> Counter[str]:
        environment.taken()
        db.sql(statement).collect()
        return Counter(
            kind for kind, name in environment.taken() if not name.startswith("segments/")
        )

    for key in range(2):
        assert requests(f"INSERT INTO t VALUES ({key}, 'a')") == {"get": 1, "head": 1, "put_new": 1}
    assert requests("UPDATE t SET v = 'b' WHERE id = 1") == {"get": 1, "head": 1, "put_new": 1}
    assert requests("SELECT * FROM t WHERE id = 1") == {"get": 1}


def test_views_look_once(spark: SparkSession, tmp_path: Path) -> None:
    """Creating one is a look and two commits, a refresh one of each, beside their segments."""
    environment = CountedStore(f"memory://{uuid.uuid4().hex}/shop", tmp_path)
    db = Database(spark, Store.create("", environment=environment))
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
    db.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")

    def requests(statement: str) -> Counter[str]:
        environment.taken()
        if statement == "refresh":
            db.refresh()
        else:
            db.sql(statement)
        return Counter(
            kind for kind, name in environment.taken() if not name.startswith("segments/")
        )

    create = "CREATE MATERIALIZED VIEW {} AS SELECT v, count(*) AS n FROM t GROUP BY v"
    commit = Counter({"put_new": 1, "head": 1})
    look = Counter({"get": 1})
    assert requests(create.format("counts")) == look + commit + commit
    assert requests("refresh") == look
    db.sql("INSERT INTO t VALUES (3, 'a')")
    assert requests("refresh") == look + commit
    rows = db.store.table("counts").to_arrow().to_pylist()
    assert {row["v"]: row["n"] for row in rows} == {"a": 2, "b": 1}
