"""A view gets another SELECT: readers see its old rows up to one commit, then the new ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Thread
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from relstate.connector.sink import numbered_parts
from relstate.connector.sql import Database
from relstate.connector.views import backfill, row_copy, runner
from relstate.connector.views.refresh import Round
from relstate.connector.views.runner import JobRunner
from relstate.storage import CommitResult, Proposal, Store, errors
from relstate.storage.jobs import Jobs
from relstate.storage.view_catalog import ViewCatalog
from support.multisets import difference, rows_of_table
from support.spark import properties_of
from support.stores import unsynced

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

ROWS = 64
OLD = "SELECT g, sum(v) AS s, count(*) AS c FROM t GROUP BY g"
# The same key; s is as before for some groups, c is gone, n and the order of columns are new.
NEW = "SELECT g, max(v) AS n, sum(CASE WHEN g < 'g2' THEN v ELSE -v END) AS s FROM t GROUP BY g"
OTHER_KEY = "SELECT k, v FROM t WHERE v % 2 = 0"
READER = "SELECT sums.g, sums.s + 1 AS more FROM sums JOIN d ON d.g = sums.g"


class Interrupted(BaseException):
    """Like a KeyboardInterrupt, which pytest would take for its own."""


@pytest.fixture
def db(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """A store of 16 vnodes with a view of groups, populated in parts of few rows, and a reader."""
    for module in (backfill, runner):
        monkeypatch.setattr(module, "PART_ROWS", ROWS // 2)
    path = str(tmp_path / "store")
    with Store.create(path, vnode_count=16, shards=1, environment=unsynced(path)) as store:
        store.create_table("t", "k BIGINT, g STRING, v BIGINT", primary_key=["k"])
        store.create_table("d", "g STRING", primary_key=["g"])
        put(store, *range(ROWS))
        store.write("d", pa.table({"g": [f"g{n}" for n in range(5)]}))
        database = Database(spark, store)
        database.sql(f"CREATE MATERIALIZED VIEW sums TBLPROPERTIES ('a.b' = 'c') AS {OLD}")
        yield database
        assert store.check().problems == ()


@pytest.fixture
def read(db: Database) -> Database:
    """The same, with a view that reads the view."""
    db.sql(f"CREATE MATERIALIZED VIEW readers AS {READER}")
    return db


def put(store: Store, *keys: int, factor: int = 1) -> None:
    """Upsert rows whose values follow from their keys."""
    values = [key * factor for key in keys]
    groups = [f"g{value % 5}" for value in values]
    store.write("t", pa.table({"k": list(keys), "g": groups, "v": values}))


def hold(db: Database, **queries: str) -> None:
    """Fail unless views equal their SELECTs over the latest rows, and their state is theirs."""
    for name, query in queries.items():
        expected = db.sql(query).toArrow()
        rows = db.store.table(name).to_arrow().select(expected.column_names)
        assert difference(rows_of_table(rows), rows_of_table(expected)) == ([], []), name
    for report in db.check_views():
        assert report.ok, report


def hidden_tables(store: Store) -> list[str]:
    """Return the names of tables that belong to a replacement."""
    return [name for name in store.state.table_ids if name.startswith("__internal_") and
            name.removeprefix("__internal_")[0].isdigit()]  # fmt: skip


def test_a_view_with_the_same_key_stays_the_same_table(read: Database) -> None:
    """Its readers take in the difference, its feed has it, earlier epochs have the old SELECT."""
    db, store = read, read.store
    view_id, before = store.view("sums").view_id, store.epoch
    (plan,) = db.sql(f"EXPLAIN CREATE OR REPLACE MATERIALIZED VIEW sums AS {NEW}").collect()
    assert "sums stays the same table" in plan.plan
    assert plan.plan.endswith("; views that take it in: readers")
    assert "__internal_sums_" in plan.plan
    assert store.epoch == before

    db.sql("ALTER TABLE t ADD COLUMN late BIGINT")
    new = NEW.replace("max(v)", "max(coalesce(late, v))")
    db.sql(f"CREATE OR REPLACE MATERIALIZED VIEW sums COMMENT 'new' AS {new}")

    assert store.view("sums").view_id == view_id
    assert db.sql("SELECT * FROM sums").columns == ["g", "n", "s"]
    assert store.at(before).table("sums").to_arrow().column_names == ["g", "s", "c"]
    assert properties_of(db, "sums")["comment"] == "new"
    assert hidden_tables(store) == []
    assert all(name.startswith("__internal_sums_") for name in store.internal_tables("sums"))
    changed = {row["g"] for batch in store.changes("sums", before + 1, columns=["g", "s"])
               for row in batch.to_pylist()}  # fmt: skip
    assert changed == {f"g{n}" for n in range(5)}
    moved = db.refresh()
    assert moved.views == ("readers",)
    hold(db, sums=new, readers=READER)
    put(store, 1, 2, 70, factor=3)
    store.delete("t", pa.table({"k": [5, 10]}))
    db.refresh()
    hold(db, sums=new, readers=READER)

    db.sql(f"ALTER MATERIALIZED VIEW sums AS {OLD} HAVING count(*) > 3")
    assert properties_of(db, "sums")["comment"] == "new"
    db.refresh()
    hold(db, sums=f"{OLD} HAVING count(*) > 3", readers=READER)


def test_a_view_with_another_key_is_a_new_table(db: Database) -> None:
    """It has the name from one commit on; the old table is there at earlier epochs."""
    store, before = db.store, db.store.epoch
    view_id = store.view("sums").view_id
    (plan,) = db.sql(f"EXPLAIN ALTER MATERIALIZED VIEW sums AS {OTHER_KEY}").collect()
    assert "a new table takes the name sums" in plan.plan

    db.sql(f"ALTER MATERIALIZED VIEW sums AS {OTHER_KEY}")

    assert store.view("sums").view_id != view_id
    assert properties_of(db, "sums")["a.b"] == "c"
    assert store.at(before).table("sums").to_arrow().column_names == ["g", "s", "c"]
    assert hidden_tables(store) == []
    hold(db, sums=OTHER_KEY)
    put(store, 1, 2, factor=4)
    db.refresh()
    hold(db, sums=OTHER_KEY)
    db.sql("CREATE OR REPLACE MATERIALIZED VIEW fresh AS SELECT count(*) AS c FROM sums")
    hold(db, fresh="SELECT count(*) AS c FROM sums")


@pytest.mark.parametrize(
    ("query", "error", "match"),
    [
        (OTHER_KEY, errors.DependentViewsError, "another primary key.*readers"),
        ("SELECT g, count(*) AS c FROM t GROUP BY g", errors.DependentViewsError, "'s'.*readers"),
        (
            "SELECT g, CAST(sum(v) AS STRING) AS s FROM t GROUP BY g",
            errors.DependentViewsError,
            "'s'.*readers",
        ),
        ("SELECT g, 1L AS s FROM readers GROUP BY g", errors.UnsupportedStatementError, "itself"),
        ("SELECT g, max(s) AS s FROM sums GROUP BY g", errors.UnsupportedStatementError, "itself"),
        ("SELECT g, sum(1 DIV (v - 3)) AS s FROM t GROUP BY g", errors.ViewFailedError, "sums"),
        ("SELECT rand() AS s FROM t", errors.UnsupportedStatementError, "rand"),
    ],
)  # fmt: skip
def test_what_cannot_replace_it_leaves_the_view_as_it_is(
    query: str, error: type[Exception], match: str, read: Database
) -> None:
    """What views read must remain, and what a SELECT cannot compute is no replacement."""
    put(read.store, 100)
    with pytest.raises(error, match=match):
        read.sql(f"CREATE OR REPLACE MATERIALIZED VIEW sums AS {query}")

    assert hidden_tables(read.store) == []
    assert read.store.view("sums").definition.query == OLD
    read.refresh()
    hold(read, sums=OLD, readers=READER)


def test_an_append_only_view_with_readers_is_not_replaced(db: Database) -> None:
    """Its readers rely on rows that are never changed; without readers it is a new table."""
    db.sql("CREATE TABLE a (k INT PRIMARY KEY) TBLPROPERTIES ('append_only' = 'true')")
    db.sql("INSERT INTO a VALUES (1), (2)")
    db.sql("CREATE MATERIALIZED VIEW odd AS SELECT k FROM a WHERE k % 2 = 1")
    db.sql("CREATE MATERIALIZED VIEW most AS SELECT max(k) AS k FROM odd")
    with pytest.raises(errors.DependentViewsError, match="append-only"):
        db.sql("ALTER MATERIALIZED VIEW odd AS SELECT k FROM a WHERE k % 2 = 0")
    db.sql("DROP MATERIALIZED VIEW most")
    db.sql("ALTER MATERIALIZED VIEW odd AS SELECT k FROM a WHERE k % 2 = 0")
    hold(db, odd="SELECT k FROM a WHERE k % 2 = 0")


@pytest.mark.parametrize("query", [NEW, OTHER_KEY])
def test_a_replacement_may_be_interrupted_before_every_commit(query: str, db: Database) -> None:
    """The view has its old rows until the last commit; the next refresh continues."""
    commits = 1
    while interrupted(db, commits + 1, query):
        commits += 1
        assert db.store.view("sums").definition.query == OLD
        assert db.store.table("sums").to_arrow().column_names == ["g", "s", "c"]
        put(db.store, 2, 3, factor=commits)
        db.refresh("sums")
        assert hidden_tables(db.store) == []
        hold(db, sums=query)
        db.sql(f"CREATE OR REPLACE MATERIALIZED VIEW sums AS {OLD}")

    assert commits >= 4  # created, populated in two parts, exchanged
    hold(db, sums=query)


def test_what_is_committed_remains_when_the_process_is_interrupted_right_after(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of the last commit are not removed, though nobody learns of its success."""
    real = Jobs.commit

    def exchanged(self: Jobs, proposal: Proposal) -> CommitResult:
        result = real(self, proposal)
        if proposal.operation == "replace view":
            raise Interrupted
        return result

    monkeypatch.setattr(Jobs, "commit", exchanged)
    with pytest.raises(Interrupted):
        db.sql(f"CREATE OR REPLACE MATERIALIZED VIEW sums AS {NEW}")
    monkeypatch.undo()

    assert hidden_tables(db.store) == []
    hold(db, sums=NEW)


def interrupted(db: Database, at: int, query: str) -> bool:
    """Replace the view; return whether that was interrupted before its commit number ``at``."""
    count = 0

    def counted(commit: Callable[..., Any]) -> Callable[..., Any]:
        def failing(self: Any, *args: Any) -> Any:
            nonlocal count
            count += 1
            if count == at:
                raise Interrupted
            return commit(self, *args)

        return failing

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Jobs, "commit", counted(Jobs.commit))
        create = counted(ViewCatalog.create_replacement)
        patch.setattr(ViewCatalog, "create_replacement", create)
        try:
            db.sql(f"CREATE OR REPLACE MATERIALIZED VIEW sums AS {query}")
        except Interrupted:
            return True
    return False


def test_a_replacement_under_way_is_replaced_dropped_and_shown(read: Database) -> None:
    """A second one takes its place, DROP takes it along, and its inputs cannot be dropped."""
    db, store = read, read.store
    store.create_table("u", "k BIGINT, g STRING, v BIGINT", primary_key=["k"])
    store.write("u", pa.table({"k": range(64), "g": ["x"] * 64, "v": range(64)}))
    assert interrupted(db, 3, NEW.replace("FROM t", "FROM u"))

    (row,) = db.sql("SHOW MATERIALIZED VIEWS LIKE 'sums'").collect()
    assert row.backfill is not None
    assert db.sql("SELECT * FROM sums").columns == ["g", "s", "c"]
    assert [row.viewName for row in db.sql("SHOW MATERIALIZED VIEWS").collect()] == [
        "readers",
        "sums",
    ]
    assert store.views() == ("readers", "sums")
    with pytest.raises(errors.DependentViewsError, match=r"sums \(its replacement\)"):
        db.sql("DROP TABLE u")
    assert interrupted(db, 3, NEW)
    db.sql("DROP TABLE u")
    db.sql("ALTER MATERIALIZED VIEW sums RENAME TO totals")
    db.refresh()
    hold(db, totals=NEW)
    assert store.view("totals").definition.query == NEW

    assert db.sql("SHOW MATERIALIZED VIEWS LIKE 'totals'").collect()[0].backfill is None
    db.sql("ALTER MATERIALIZED VIEW totals RENAME TO sums")
    assert interrupted(db, 3, f"{OLD} HAVING sum(v) > 0")
    db.sql("DROP MATERIALIZED VIEW sums CASCADE")
    assert store.views() == ()
    assert hidden_tables(store) == []


def test_changes_while_the_rows_are_copied_are_not_lost(
    read: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is committed between the copy and the exchange is copied after it; it is one commit."""
    db, real = read, Jobs.commit
    view_id, conflicts = db.store.view("sums").view_id, 0

    def contested(self: Jobs, proposal: Proposal) -> CommitResult:
        nonlocal conflicts
        if proposal.operation == "replace view" and conflicts < 3:
            conflicts += 1
            put(db.store, conflicts, 20 + conflicts, 200 + conflicts, factor=5 + conflicts)
            db.store.delete("t", pa.table({"k": [30 + conflicts]}))
            # Somebody refreshes the old view alone, so that the exchange conflicts.
            Round(JobRunner(db.spark, db.store), db.store.state, {view_id}).run()
        return real(self, proposal)

    monkeypatch.setattr(Jobs, "commit", contested)
    db.sql(f"CREATE OR REPLACE MATERIALIZED VIEW sums AS {NEW}")
    monkeypatch.undo()

    assert conflicts == 3
    assert [e.operation for e in db.store.history()].count("replace view") == 1
    db.refresh()
    hold(db, sums=NEW, readers=READER)


def test_a_stream_and_writers_go_on(read: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream of another database refreshes the old view, the replacement, and the new view."""
    db = read
    monkeypatch.setattr(numbered_parts, "_DRIVER_BYTES", 0)
    monkeypatch.setattr(row_copy, "_PART_BYTES", 256)
    with Store.open(db.store.path) as store, Store.open(db.store.path) as written:
        following = Database(db.spark, store).stream()

        def write() -> None:
            for key in range(80, 110):
                put(written, key, factor=2)

        writer = Thread(target=write)
        writer.start()
        db.sql(f"CREATE OR REPLACE MATERIALIZED VIEW sums AS {NEW}")
        writer.join()
        following.processAllAvailable()
        following.stop()
        assert following.exception() is None
    hold(db, sums=NEW, readers=READER)
