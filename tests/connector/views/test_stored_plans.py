"""The catalog's plans are checked as CREATE checks a query, before Spark runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from relstate.connector.sql import Database
from relstate.connector.views.creation import ViewOptions, new_view
from relstate.connector.views.runner import JobRunner
from relstate.storage import NewView, Store, errors
from support.catalogue import CATALOGUE, OVER_VIEWS, RECOMPUTED, TIMED
from support.moving import TABLES
from support.stores import StoreMaker, stored_row, unsynced, upsert
from support.versions import skip_if_lacking

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

ROWS = "SELECT k, v + 1 AS w FROM t WHERE v > 3"
SUMS = "SELECT g, sum(v) AS s FROM t GROUP BY g"
JOINED = "SELECT a.k, b.v FROM t AS a LEFT JOIN t AS b ON a.k = b.v AND a.v < b.k"
TREE = """WITH RECURSIVE r(n) AS (SELECT k FROM t UNION ALL SELECT v FROM r JOIN t ON k = n)
    SELECT n FROM r"""
PROPERTY = "relstate.forged"
FORGED = f"java_method('java.lang.System', 'setProperty', '{PROPERTY}', 'yes') = g"


@pytest.fixture
def db(spark: SparkSession, tmp_path: Path) -> Iterator[Database]:
    """A store with a table of two rows."""
    path = str(tmp_path / "store")
    with Store.create(path, vnode_count=8, shards=1, environment=unsynced(path)) as store:
        db = Database(spark, store)
        db.sql("CREATE TABLE t (k BIGINT, g STRING, v BIGINT, PRIMARY KEY (k))")
        db.sql("CREATE TABLE u (k BIGINT, g STRING, v BIGINT, PRIMARY KEY (k))")
        upsert(store, "t", [(1, "a", 5), (2, "b", 7)])
        yield db


def forge(db: Database, query: str, change: Callable[[Any], None], **parts: Any) -> None:
    """Put a view into the catalog whose plan was changed after it was planned."""
    state = db.store.state
    view = replace(new_view(db.spark, state, "forged", query), **parts)
    change(view.plan)
    create(db.store, view)


def create(store: Store, view: NewView) -> None:
    """Commit a view without populating it."""
    state = store.state
    store.view_catalog.create(
        view, [state.tables[read.table_id].definition for read in view.inputs]
    )


def parts_of(plan: Any, operator: str) -> Iterator[Any]:
    """Yield the operators of a kind in the JSON of a plan."""
    if plan["operator"] == operator:
        yield plan
    for name in ("child", "left", "right"):
        if name in plan:
            yield from parts_of(plan[name], operator)


def changed(operator: str, **values: Any) -> Callable[[Any], None]:
    """Return a function that replaces values of the first operator of a kind."""
    return lambda plan: next(parts_of(plan, operator)).update(values)


def expression(text: str) -> Callable[[Any], None]:
    """Return a function that replaces the expression that a plan computes."""

    def change(plan: Any) -> None:
        outputs = next(parts_of(plan, "project"))["outputs"]
        next(output for output in outputs if output[2] is None)[1] = text

    return change


@pytest.mark.parametrize(
    ("query", "change", "problem"),
    [
        (ROWS, changed("filter", condition=FORGED.replace("= g", "= 'x'")), "java_method"),
        (ROWS, changed("filter", condition="reflect('a', 'b') = 'x'"), "reflect"),
        (ROWS, changed("filter", condition="rand() < 0.5"), "rand"),
        (ROWS, changed("filter", condition="v > day(current_date())"), "CURRENT_DATE"),
        (ROWS, changed("filter", condition="v > 3 OR date_add('now', 1) IS NULL"), "moment"),
        (ROWS, changed("filter", condition="EXISTS(SELECT 1)"), "EXISTS"),
        (ROWS, changed("filter", condition="no_such_function(v)"), "no_such_function"),
        (ROWS, changed("filter", condition="v >"), "cannot read"),
        (ROWS, changed("filter", condition="v > 3) OR (v < 9"), "cannot read"),
        (ROWS, changed("filter", condition="v > 3 FROM t WHERE v = 1"), "v > 3 FROM t"),
        (ROWS, changed("filter", condition="v > 3, 4"), "v > 3, 4"),
        (ROWS, changed("filter", condition="nothing > 3"), "nothing"),
        (ROWS, changed("filter", condition="v + 1"), "is BIGINT, and not BOOLEAN"),
        (ROWS, expression("CAST(v AS STRING)"), "is STRING, and not BIGINT"),
        (ROWS, expression("sum(v)"), "more than one row"),
        (ROWS, changed("filter", condition="row_number() OVER (ORDER BY k) < 3"), "more than one"),
        (ROWS, expression("uuid()"), "uuid"),
        (JOINED, changed("join", condition=FORGED.replace("= g", "= 'x'")), "java_method"),
        (TREE, changed("recursion", query=f"SELECT k FROM input_1 WHERE {FORGED}"), "java_method"),
        (TREE, changed("recursion", query="SELECT k FROM input_1, u"), "there is no table 'u'"),
        (TREE, changed("recursion", query="SELECT k FROM input_1, a.u"), "there is no table 'a.u'"),
        (TREE, changed("recursion", query="SELECT k FROM input_1, sql_keywords()"), "release"),
        (TREE, changed("recursion", query="SELECT k FROM input_1, python_worker_logs()"), "FROM"),
        (TREE, changed("recursion", query="SELECT k FROM input_1 WHERE rand() < 0.5"), "rand"),
        (TREE, changed("recursion", query="SELECT k FROM input_1 LIMIT 1"), "LIMIT"),
        (TREE, changed("recursion", query="SELECT nothing FROM input_1"), "nothing"),
        (TREE, changed("recursion", query="SELECT v = 1 FROM input_1"), "of other types"),
        (TREE, changed("recursion", query="DROP TABLE input_1"), "not a query"),
        (TREE, changed("recursion", inputs=[]), "there is no table 'input_1'"),
        (TREE, changed("recursion", number="nothing"), "nothing"),
        (TREE, changed("recursion", is_global=False), "not global"),
        (SUMS, lambda plan: plan["child"]["calls"][0]["output"].update(type="double"), "columns"),
        (SUMS, changed("scan", table_id=2, table="u"), "other tables"),
        (SUMS, changed("scan", table_id=2), "under the id of"),
        (SUMS, changed("scan", table_id=99), "missing"),
        (SUMS, changed("scan", grows_only=True), "append-only"),
        (SUMS, changed("scan", primary_key=["g"]), "primary key"),
        (SUMS, changed("aggregate", group=["nothing"]), "nothing"),
        (SUMS, changed("aggregate", group=[]), "no group"),
        (SUMS, lambda plan: plan.clear(), "operator"),
    ],
)
def test_a_forged_plan_is_refused_before_anything_runs(
    query: str, change: Callable[[Any], None], problem: str, db: Database
) -> None:
    """A refresh raises CorruptionError with the view's name, and Spark evaluates nothing."""
    skip_if_lacking(query)
    forge(db, query, change)

    with pytest.raises(errors.CorruptionError, match=problem) as raised:
        db.refresh()

    assert "the stored plan of view 'forged' is damaged" in str(raised.value)
    jvm: Any = db.spark._jvm
    assert jvm.java.lang.System.getProperty(PROPERTY) is None
    (report,) = db.check_views()
    assert not report.ok


def test_settings_that_no_view_has_are_refused(db: Database) -> None:
    """A view's session gets the settings that CREATE stores, and no others."""
    settings = {"spark.sql.ansi.enabled": "true", "spark.sql.session.timeZone": "UTC"}
    forge(db, ROWS, lambda plan: None, settings={**settings, "spark.sql.warehouse.dir": "/x"})

    with pytest.raises(errors.CorruptionError, match="settings"):
        db.refresh()


def test_another_view_is_refreshed_beside_a_forged_one(db: Database) -> None:
    """The error concerns the forged view only."""
    db.sql(f"CREATE MATERIALIZED VIEW sums AS {SUMS}")
    forge(db, ROWS, changed("filter", condition="rand() < 0.5"))
    db.sql("INSERT INTO t VALUES (3, 'a', 8)")

    with pytest.raises(errors.CorruptionError, match="'forged'"):
        db.refresh()

    assert stored_row(db.store.table("sums"), "a").s == 13


def test_every_plan_that_create_makes_is_accepted(
    spark: SparkSession, make_store: StoreMaker
) -> None:
    """The check refuses none of the catalogue's plans when another process reads them."""
    store = make_store()
    for name, table in TABLES.items():
        store.create_table(name, table.ddl, primary_key=list(table.key))
    for name, query in {**CATALOGUE, **OVER_VIEWS, **RECOMPUTED, **TIMED}.items():
        create(
            store, new_view(spark, store.state, f"v_{name}", query.format(v="v_"), ViewOptions(2))
        )

    runner, state = JobRunner(spark, store), store.state

    assert [runner.plan_of(state, view_id).root for view_id in sorted(state.views)]
