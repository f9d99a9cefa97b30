"""WITH RECURSIVE in views: the rows are those of the SELECT, whatever changes in its inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import relstate
from relstate.connector.spark.capabilities import RECURSIVE_VIEWS
from relstate.connector.sql import Database
from relstate.connector.views import backfill
from relstate.storage import errors
from support.stores import upsert
from support.versions import needs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from support.stores import StoreMaker

pytestmark = needs(RECURSIVE_VIEWS)

PATHS = """WITH RECURSIVE r(id, level, path) AS (
    SELECT id, 0, name FROM nodes WHERE parent IS NULL UNION ALL
    SELECT n.id, level + 1, concat(path, '/', n.name) FROM r JOIN nodes n ON n.parent = r.id
) SELECT id, level, path FROM r"""
# Equal rows, a table that is read twice, a view, and a start that no table has.
REACHED = """WITH RECURSIVE r(id) MAX RECURSION LEVEL 9 AS (
    SELECT 1 UNION ALL
    SELECT n.id FROM r JOIN nodes n ON n.parent = r.id LEFT JOIN nodes a ON a.parent = n.id
        LEFT ANTI JOIN roots ON roots.id = n.id
) SELECT id FROM r"""


@pytest.fixture
def db(spark: SparkSession, make_store: StoreMaker) -> Database:
    """A store with a table of nodes, each with its parent, and a view of those without one."""
    store = make_store(vnode_count=16, shards=1)
    store.create_table("nodes", "id INT, parent INT, name STRING", primary_key=["id"])
    db = Database(spark, store)
    db.sql("CREATE MATERIALIZED VIEW roots AS SELECT id FROM nodes WHERE parent IS NULL")
    return db


def rows_of(db: Database, view: str) -> list[tuple[Any, ...]]:
    """Return the rows of a view, sorted."""
    return sorted(map(tuple, db.sql(f"SELECT * FROM {view}").collect()))


def test_a_recursive_view_follows_its_inputs(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows come in parts; another process reads its plan; constants remain without any rows."""
    rows = [(1, None, "a"), (2, 1, "b"), (3, 1, None), (4, 2, "c"), (5, 2, "d")]
    upsert(db.store, "nodes", rows)
    with monkeypatch.context() as patch:
        patch.setattr(backfill, "PART_ROWS", 4)
        db.sql(f"CREATE MATERIALIZED VIEW reached AS {REACHED}")
    assert [row[0] for row in rows_of(db, "reached")] == [1, 2, 2, 3, 4, 4, 5, 5]
    db.sql("DELETE FROM nodes WHERE id = 4")
    upsert(db.store, "nodes", [(3, 2, "a")])
    other = relstate.connect(db.spark, db.store.path)
    assert other.refresh().views == ("reached", "roots")
    assert [row[0] for row in rows_of(other, "reached")] == [1, 2, 2, 3, 3, 5, 5]
    assert [report.problems for report in other.check_views("reached")] == [()]
    db.sql("DELETE FROM nodes WHERE id > 0")
    db.refresh()
    assert rows_of(db, "reached") == db.sql(REACHED).collect() == [(1,)]


def test_an_unchanged_recursion_is_not_run(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of another input of the view costs a look at its inputs alone."""
    upsert(db.store, "nodes", [(1, None, "a"), (2, 1, "b")])
    db.sql("CREATE TABLE marks (id INT, mark INT, PRIMARY KEY (id))")
    query = f"SELECT m.mark, v.path FROM ({PATHS}) v JOIN marks m USING (id)"
    db.sql(f"CREATE MATERIALIZED VIEW marked AS {query}")
    db.sql("INSERT INTO marks VALUES (1, 7), (2, 8)")

    def fail(*arguments: object) -> None:
        raise AssertionError("the query is run")

    monkeypatch.setattr("relstate.connector.views.recursion.query_over", fail)
    db.refresh()
    assert rows_of(db, "marked") == [(7, "a"), (8, "a/b")]
    upsert(db.store, "nodes", [(3, 2, "c")])
    with pytest.raises(errors.JobFailedError, match="the query is run"):
        db.refresh()


def test_a_recursion_without_an_end_fails_until_the_rows_are_corrected(db: Database) -> None:
    """CREATE and refresh raise the error of Spark with advice; other views are refreshed."""
    query = PATHS.replace("r(id, level, path)", "r(id, level, path) MAX RECURSION LEVEL 4")
    upsert(db.store, "nodes", [(1, None, "a"), (2, 1, "b")])
    db.sql(f"CREATE MATERIALIZED VIEW paths AS {query}")
    upsert(db.store, "nodes", [(n, n - 1, "c") for n in range(3, 9)])
    upsert(db.store, "nodes", [(9, None, "d")])
    with pytest.raises(errors.ViewFailedError, match="RECURSION_LEVEL_LIMIT_EXCEEDED") as failure:
        db.refresh()
    assert "view 'paths' could not be computed; its recursion reached a limit" in str(failure.value)
    assert db.sql("SELECT count(*) FROM roots").first() == (2,)
    assert db.sql("SELECT count(*) FROM paths").first() == (2,)
    with pytest.raises(errors.ViewFailedError, match="greater MAX RECURSION LEVEL"):
        db.sql(f"CREATE MATERIALIZED VIEW late AS {query}")
    db.sql("DELETE FROM nodes WHERE id = 4")
    db.refresh()
    paths = [(1, 0, "a"), (2, 1, "a/b"), (3, 2, "a/b/c"), (9, 0, "d")]
    assert rows_of(db, "paths") == paths
    db.sql("DELETE FROM nodes WHERE id > 0")
    db.refresh()
    assert rows_of(db, "paths") == []


def test_a_recursive_view_is_replaced_and_rescaled(db: Database) -> None:
    """ALTER … AS SELECT compares the rows of both; what reads the view takes the difference in."""
    upsert(db.store, "nodes", [(1, None, "a"), (2, 1, "b"), (3, 1, "b")])
    query = "SELECT name, count(*) AS n FROM r JOIN nodes USING (id) GROUP BY name"
    first, second = (
        f"WITH RECURSIVE r(id) AS (SELECT {start} UNION ALL SELECT n.id FROM r JOIN nodes n "
        f"ON n.parent = r.id) {query}"
        for start in (1, 2)
    )
    db.sql(f"CREATE MATERIALIZED VIEW names TBLPROPERTIES ('parallelism' = '1') AS {first}")
    db.sql("ALTER MATERIALIZED VIEW names SET PARALLELISM 3")
    upsert(db.store, "nodes", [(4, 3, "c")])
    db.refresh()
    assert rows_of(db, "names") == [("a", 1), ("b", 2), ("c", 1)]
    db.sql(f"ALTER MATERIALIZED VIEW names AS {second}")
    assert rows_of(db, "names") == [("b", 1)]
    plan = db.sql("EXPLAIN MATERIALIZED VIEW names").first()
    assert plan is not None
    assert "recomputed by Spark, a change costs the whole recursion" in plan.plan
