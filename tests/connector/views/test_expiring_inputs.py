"""Views over tables whose rows expire: a row leaves its views when it expires."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from relstate.connector.sql import Database
from relstate.connector.views import backfill, runner
from relstate.storage import Store, errors
from support.clock import ManualClock
from support.commits import quick_environment
from support.spark import only_row
from support.stores import rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VIEWS = {
    "copy": "SELECT k, g, v FROM t",
    "sums": "SELECT g, count(*) AS c, sum(v) AS s, max(v) AS m FROM t GROUP BY g",
    "pairs": "SELECT a.k, b.k AS l FROM t a JOIN t b ON a.g = b.g AND a.k < b.k",
    "outer": "SELECT p.g, t.k FROM p LEFT JOIN t ON p.g = t.g",
    "over": "SELECT c, count(*) AS n FROM {v}sums GROUP BY c",
}


@pytest.fixture
def clock() -> ManualClock:
    """The clock of the store."""
    return ManualClock()


@pytest.fixture
def db(spark: SparkSession, tmp_path: Path, clock: ManualClock) -> Iterator[Database]:
    """A store with a table whose rows live for a minute, and one whose rows do not expire."""
    environment = quick_environment(tmp_path / "store", clock)
    with Store.create(environment.root, vnode_count=8, shards=1, environment=environment) as store:
        store.create_table("t", "k BIGINT, g STRING, v BIGINT", primary_key=["k"], ttl=60)
        store.create_table("p", "g STRING", primary_key=["g"])
        store.write("p", pa.table({"g": ["g0", "g1", "g2"]}))
        yield Database(spark, store)
        assert store.check().problems == ()


def create(db: Database, prefix: str, units: int = 2) -> None:
    """Create all views."""
    for name, query in VIEWS.items():
        db.sql(
            f"CREATE MATERIALIZED VIEW {prefix}{name} TBLPROPERTIES ('parallelism' = '{units}') "
            f"AS {query.format(v=prefix)}"
        )


def put(db: Database, *keys: int, factor: int = 1, ttls: pa.Array | None = None) -> int:
    """Upsert rows whose values follow from their keys, in one epoch."""
    values = [key * factor for key in keys]
    groups = [f"g{value % 4}" for value in values]
    return db.store.write("t", pa.table({"k": keys, "g": groups, "v": values}), ttls=ttls)


def live(db: Database) -> list[tuple[object, ...]]:
    """Return the rows of the table that have not expired."""
    return sorted(rows_of(db.store.table("t").to_arrow()))


def content(db: Database, view: str) -> list[tuple[object, ...]]:
    """Return the rows of a view."""
    return sorted(rows_of(db.store.table(view).to_arrow()))


def problems(db: Database) -> list[str]:
    """Return what is wrong with all views."""
    return [problem for report in db.check_views() for problem in report.problems]


@pytest.mark.parametrize("seed", range(3))
def test_a_view_has_the_rows_that_have_not_expired(
    seed: int, db: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether rows are written again, get another expiry or none, are deleted, or compacted away.

    Views are created before the rows and after them, and one of the cases takes rows in by parts.
    """
    if seed == 2:
        for module in (runner, backfill):
            monkeypatch.setattr(module, "PART_ROWS", 5)
    random = Random(seed)
    create(db, "v_")
    for _ in range(7):
        change(db, random)
        clock.advance(random.choice([0, 7, 25, 61]))
        if random.random() < 0.3:
            db.store.compact()
        db.refresh()
        assert content(db, "v_copy") == live(db)
    assert problems(db) == []
    create(db, "w_", 1)
    clock.advance(20)
    db.refresh()
    for name in VIEWS:
        assert content(db, f"w_{name}") == content(db, f"v_{name}"), name
    clock.advance(1000)
    db.refresh()
    assert content(db, "v_copy") == live(db)
    assert problems(db) == []


def change(db: Database, random: Random) -> None:
    """Commit some random changes of the table."""
    for _ in range(random.randint(0, 3)):
        keys = random.sample(range(20), random.randint(1, 8))
        if random.random() < 0.25:
            db.store.delete("t", pa.table({"k": keys}))
            continue
        ttls = pa.array([random.choice([None, 5, 30, 10**9]) for _ in keys], pa.int64())
        put(db, *keys, factor=random.choice([1, 1, 3]), ttls=random.choice([None, ttls]))


def test_an_expired_row_is_a_delete_in_the_feed_of_the_view(
    db: Database, clock: ManualClock
) -> None:
    """In the epoch of the refresh, which is also the first one after the row's expiry."""
    db.sql("CREATE MATERIALIZED VIEW copy AS SELECT k FROM t")
    put(db, 1, 2)
    db.refresh()
    clock.advance(60)
    assert only_row(db.sql("SHOW MATERIALIZED VIEWS")).is_behind
    epoch = db.refresh().epoch

    changes = rows_of(db.store.changes("copy", epoch, columns=["k", "_change_type"]))
    assert sorted(changes) == [(1, "delete"), (2, "delete")]
    columns = ["k", "_change_type", "_commit_version"]
    of_table = rows_of(db.store.changes("t", epoch, columns=columns))
    assert sorted(of_table) == [(1, "delete", epoch), (2, "delete", epoch)]


def test_rows_that_never_expire_are_not_kept_in_the_state(db: Database) -> None:
    """The state of the filter has those that will leave."""
    db.store.set_ttl("t", None)
    put(db, *range(50))
    put(db, 1, 2, 3, ttls=pa.array([30, None, 40]))
    db.sql("CREATE MATERIALIZED VIEW copy AS SELECT k, v FROM t")

    (table,) = db.sql("SHOW INTERNAL TABLES FROM copy").collect()
    assert db.store.table(table.tableName).count() == 2
    assert len(content(db, "copy")) == 50


def test_what_did_not_expire_when_a_view_was_created_must_not_later(db: Database) -> None:
    """A view over a table without a TTL refuses one; a view that follows expiry takes any."""
    db.sql("CREATE MATERIALIZED VIEW plain AS SELECT g FROM p")
    with pytest.raises(errors.DependentViewsError, match=r"plain.*create them again"):
        db.store.set_ttl("p", 60)
    with pytest.raises(errors.DependentViewsError, match="plain"):
        db.store.write("p", pa.table({"g": ["x"]}), ttls=pa.array([5]))
    db.sql("CREATE MATERIALIZED VIEW copy AS SELECT k FROM t")
    db.store.set_ttl("t", 7)
    db.store.set_ttl("t", None)
    put(db, 1)
    db.store.set_ttl("t", 60)
    put(db, 2)
    db.refresh()
    assert content(db, "copy") == [(1,), (2,)]


def test_the_plan_shows_when_rows_leave(db: Database) -> None:
    """EXPLAIN names the expiry and the filter."""
    plan = only_row(db.sql("EXPLAIN CREATE MATERIALIZED VIEW v AS SELECT k FROM t")).plan
    assert "expiry [expiry]" in plan
    assert "TemporalFilter expiry >= UNIX_MICROS(now) + 1" in plan
