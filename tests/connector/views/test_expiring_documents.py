"""Views over document tables: each part of a row leaves them when it expires."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from relstate.connector.sql import Database
from relstate.connector.views import backfill, runner
from relstate.connector.views.runner import JobRunner
from relstate.storage import Store, errors
from relstate.storage.feed import expiries
from support.clock import ManualClock
from support.commits import quick_environment
from support.multisets import difference, rows_of_table
from support.spark import only_row
from support.stores import rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "k BIGINT, g STRING, v BIGINT, props MAP<STRING, BIGINT>, tags ARRAY<STRING>"
PROPS = pa.map_(pa.string(), pa.int64())
VIEWS = {
    "copy": "SELECT k, g, v, props['a'] AS a FROM t WHERE v > 0 OR g = 'x'",
    "sums": "SELECT g, count(*) AS n, count(v) AS c, sum(v) AS s, max(v) AS m FROM t GROUP BY g",
    "pairs": "SELECT t.k, p.g, props['b'] AS b FROM p LEFT JOIN t ON p.g = t.g",
    "entries": "SELECT k, name, value FROM t LATERAL VIEW explode(props) AS name, value",
    "tagged": "SELECT tag, count(*) AS n FROM t LATERAL VIEW explode(tags) AS tag GROUP BY tag",
    "over": "SELECT c, count(*) AS n FROM {v}sums GROUP BY c",
}


@pytest.fixture
def clock() -> ManualClock:
    """The clock of the store."""
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[Store]:
    """A store with a document table, and one whose rows do not expire."""
    environment = quick_environment(tmp_path / "store", clock)
    with Store.create(environment.root, vnode_count=8, shards=1, environment=environment) as store:
        store.create_table("t", COLUMNS, primary_key=["k"], encoding="document", sets=["tags"])
        store.create_table("p", "g STRING", primary_key=["g"])
        store.write("p", pa.table({"g": ["x", "y"]}))
        yield store
        assert store.check().problems == ()


@pytest.fixture
def db(spark: SparkSession, store: Store) -> Database:
    """The door of SQL to the store."""
    return Database(spark, store)


def create(db: Database, prefix: str, units: int = 2) -> None:
    """Create all views."""
    for name, query in VIEWS.items():
        db.sql(
            f"CREATE MATERIALIZED VIEW {prefix}{name} TBLPROPERTIES ('parallelism' = '{units}') "
            f"AS {query.format(v=prefix)}"
        )


def check(db: Database, prefix: str) -> None:
    """Fail unless every view is its SELECT now."""
    for name, query in VIEWS.items():
        view = rows_of_table(db.store.table(prefix + name).to_arrow())
        expected = rows_of_table(db.sql(query.format(v=prefix)).toArrow())
        assert difference(view, expected) == ([], []), prefix + name


def problems(db: Database) -> list[str]:
    """Return what is wrong with all views."""
    return [problem for report in db.check_views() for problem in report.problems]


def change(store: Store, chance: Random) -> None:
    """Commit a random change of rows, or of parts of them, each with a life of its own."""
    kind = chance.randrange(8)
    keys = chance.sample(range(8), 3)
    ttls = pa.array([chance.choice([None, 5, 30, 10**9]) for _ in keys], pa.int64())
    numbers = pa.array([chance.choice([None, 0, 1, 2]) for _ in keys], pa.int64())
    groups = pa.array([chance.choice([None, "x", "y"]) for _ in keys], pa.string())
    if kind == 0:
        store.delete("t", pa.table({"k": keys}))
    elif kind == 1:
        props = pa.array([None, {"a": 1}, {"b": 2, "c": 3}], PROPS)
        tags = pa.array([["q"], None, ["p", "q"]], pa.list_(pa.string()))
        rows = pa.table({"k": keys, "g": groups, "v": numbers, "props": props, "tags": tags})
        store.write("t", rows, ttls=chance.choice([None, ttls]))
    elif kind == 2:
        store.patch("t", pa.table({"k": keys, "g": groups, "v": numbers}), ttls=ttls)
    else:
        change_parts(store, keys, chance)


def change_parts(store: Store, keys: list[int], chance: Random) -> None:
    """Set, add and remove columns, entries of maps and elements of sets."""
    with store.document_writer("t") as writer:
        for key in keys:
            ttl = chance.choice([None, 5, 20, 90])
            name, number = chance.choice("abc"), chance.randint(0, 3)
            match chance.randrange(5):
                case 0:
                    writer.set(key, {"v": number, ("props", name): number}, ttl=ttl)
                case 1:
                    writer.add(key, "props", {name: number, "z": 1}, ttl=ttl)
                case 2:
                    writer.add(key, "tags", chance.sample("pqr", 2), ttl=ttl)
                case 3:
                    writer.set(key, {"g": chance.choice("xy")}, ttl=ttl)
                case _:
                    path: Any = chance.choice(["v", ("props", name), ("tags", "p"), "props"])
                    writer.remove(key, path)


class StoppedError(Exception):
    """What ends a refresh between its work and its commit."""


def refresh(db: Database, chance: Random, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refresh all views, perhaps after a refresh that did not come to its commit."""

    def stop(*_: Any) -> None:
        raise StoppedError

    if chance.random() < 0.25:
        with monkeypatch.context() as patch:
            patch.setattr(JobRunner, "commit", stop)
            with contextlib.suppress(StoppedError):
                db.refresh()
    db.refresh()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_view_is_its_select_as_parts_expire(
    seed: int, db: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows, columns, entries and elements come, expire, stay for ever, and are compacted away.

    Views are created before the rows and after them, refreshed after one step or many, some of
    them by parts; refreshes end before their commit, and in one of the cases epochs expire.
    """
    if seed == 2:
        for module in (runner, backfill):
            monkeypatch.setattr(module, "PART_ROWS", 5)
    if seed == 1:
        monkeypatch.setattr(expiries, "_MOST_TIMES", 2)
    chance, store = Random(seed), db.store
    create(db, "v_")
    for _ in range(4):
        for _ in range(chance.randint(0, 3)):
            change(store, chance)
            clock.advance(chance.choice([0, 2, 7]))
        clock.advance(chance.choice([0, 7, 25, 61]))
        maintain(store, clock, chance, expires=seed == 1)
        refresh(db, chance, monkeypatch)
        check(db, "v_")
    create(db, "w_", 1)
    check(db, "w_")
    clock.advance(20)
    maintain(store, clock, chance, expires=seed == 1)
    db.refresh()
    check(db, "v_")
    check(db, "w_")
    clock.advance(1000)
    db.refresh()
    check(db, "v_")
    if seed != 1:  # the check reads the epochs that views reflect
        assert problems(db) == []


def maintain(store: Store, clock: ManualClock, chance: Random, *, expires: bool) -> None:
    """Compact the table or not, after a commit that lets it remove what has expired.

    ``expires``: epochs may expire.
    """
    if chance.random() < 0.4:
        store.write("p", pa.table({"g": ["x"]}))
        store.compact()
    if expires and chance.random() < 0.6:
        clock.advance(2)
        store.vacuum(retention=1)


def test_what_compaction_removed_leaves_a_view_that_was_not_refreshed(
    db: Database, clock: ManualClock
) -> None:
    """The epoch that the view has is kept until it has taken in what expired since."""
    store = db.store
    store.write("t", pa.table({"k": [1, 2], "v": [1, 2]}))
    store.patch("t", pa.table({"k": [1], "g": ["x"]}), ttls=pa.array([10]))
    db.sql("CREATE MATERIALIZED VIEW groups AS SELECT g, count(*) AS n FROM t GROUP BY g")
    clock.advance(11)
    store.write("p", pa.table({"g": ["z"]}))
    store.compact()
    clock.advance(1000)
    store.write("p", pa.table({"g": ["u"]}))
    store.vacuum(retention=1)
    assert sorted(rows_of(store.table("groups").to_arrow()), key=str) == [("x", 1), (None, 1)]
    db.refresh()
    assert rows_of(store.table("groups").to_arrow()) == [(None, 2)]
    assert problems(db) == []
    store.vacuum(retention=1)
    assert store.state.oldest_epoch > 3


def test_a_view_is_due_when_the_next_part_expires(db: Database, clock: ManualClock) -> None:
    """It is behind from then on, without a commit; a refresh before does nothing."""
    store = db.store
    with store.document_writer("t") as writer:
        writer.set(1, {"v": 1, ("props", "a"): 1})
        writer.set(1, {("props", "b"): 2}, ttl=30)
        writer.set(1, {("props", "c"): 3}, ttl=20)
    db.sql("CREATE MATERIALIZED VIEW names AS SELECT k, map_keys(props) AS names FROM t")
    assert rows_of(store.table("names").to_arrow()) == [(1, ["a", "b", "c"])]
    epoch = store.epoch
    clock.advance(19)
    assert not only_row(db.sql("SHOW MATERIALIZED VIEWS")).is_behind
    assert db.refresh().views == ()
    assert store.epoch == epoch
    clock.advance(1)
    assert only_row(db.sql("SHOW MATERIALIZED VIEWS")).is_behind
    assert db.refresh().views == ("names",)
    assert rows_of(store.table("names").to_arrow()) == [(1, ["a", "b"])]
    clock.advance(10)
    db.refresh()
    assert rows_of(store.table("names").to_arrow()) == [(1, ["a"])]
    epoch = store.epoch
    clock.advance(10**6)
    assert not only_row(db.sql("SHOW MATERIALIZED VIEWS")).is_behind
    assert db.refresh().epoch == epoch


def test_a_refresh_reads_the_files_in_which_something_expired(
    db: Database, clock: ManualClock
) -> None:
    """Not the files of rows that expire later, or never."""
    store = db.store
    store.write("t", pa.table({"k": range(1000), "v": range(1000)}), ttls=pa.array([1000] * 1000))
    store.write("t", pa.table({"k": [2000], "v": [5]}), ttls=pa.array([10]))
    db.sql("CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n FROM t")
    first = store.epoch
    times = clock.now(), clock.now() + 11_000_000
    plan = store.jobs.feed_plan("t", first + 1, deduplication="netChanges", times=times)
    assert plan.stored_rows == 1
    clock.advance(11)
    assert db.refresh().rows == 1
    assert rows_of(store.table("total").to_arrow()) == [(1000,)]


def test_the_plan_says_that_a_table_is_read_by_the_time(db: Database) -> None:
    """EXPLAIN marks the scan."""
    plan = only_row(db.sql("EXPLAIN CREATE MATERIALIZED VIEW v AS SELECT k FROM t")).plan
    assert "Scan t [k] key [k] by the present time" in plan


def test_a_table_of_rows_under_views_that_follow_them_stays_one(db: Database) -> None:
    """Views of rows that expire whole do not follow parts; others may follow."""
    store = db.store
    store.create_table("r", "k BIGINT, v BIGINT", primary_key=["k"], ttl=60)
    db.sql("CREATE MATERIALIZED VIEW whole AS SELECT k FROM r")
    with pytest.raises(errors.DependentViewsError, match="whole"):
        store.set_encoding("r", "document")
    store.create_table("d", "k BIGINT, v BIGINT", primary_key=["k"], encoding="document")
    db.sql("CREATE MATERIALIZED VIEW parts AS SELECT k FROM d")
    store.set_encoding("d", "row")
    store.set_encoding("d", "document")
