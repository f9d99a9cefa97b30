"""The laws of the statements about materialized views."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from relstate.connector.sql import Database
from relstate.connector.sql.ddl import CommentColumn, CommentTable
from relstate.connector.sql.show import ShowProperties
from relstate.connector.sql.statement import parse_statement
from relstate.connector.sql.view_ddl import (
    CreateView,
    DropView,
    ExplainView,
    RefreshView,
    RenameView,
    SetViewProperties,
    ShowInternalTables,
    ShowViews,
)
from relstate.storage import Store, errors
from support.stores import unsynced, upsert

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        (
            "CREATE MATERIALIZED VIEW v AS SELECT 'a;b' AS c -- why\n FROM t ;",
            CreateView("v", "SELECT 'a;b' AS c -- why\n FROM t", None, False),
        ),
        (
            """create materialized view if not exists `my view`
            tblproperties ('parallelism' = '4') as with q as (select 1) select 1""",
            CreateView("my view", "with q as (select 1) select 1", 4, True),
        ),
        (
            "CREATE MATERIALIZED VIEW `having` AS SELECT 1",
            CreateView("having", "SELECT 1", None, False),
        ),
        ("CREATE MATERIALIZED VIEW date AS SELECT 1", CreateView("date", "SELECT 1", None, False)),
        ("DROP MATERIALIZED VIEW v", DropView("v", False, False)),
        ("DROP MATERIALIZED VIEW IF EXISTS v CASCADE", DropView("v", True, True)),
        ("DROP MATERIALIZED VIEW v RESTRICT;", DropView("v", False, False)),
        ("ALTER MATERIALIZED VIEW v SET PARALLELISM 3", SetViewProperties("v", 3)),
        ("ALTER MATERIALIZED VIEW v SET PARALLELISM = 3", SetViewProperties("v", 3)),
        ("ALTER MATERIALIZED VIEW v SET PARALLELISM TO 12;", SetViewProperties("v", 12)),
        ("ALTER MATERIALIZED VIEW v RENAME TO `my w`", RenameView("v", "my w")),
        (
            "ALTER MATERIALIZED VIEW v SET TBLPROPERTIES ('Parallelism' = '3', 'owner.Team' = 'x')",
            SetViewProperties("v", 3, {"owner.Team": "x"}),
        ),
        (
            "ALTER MATERIALIZED VIEW v UNSET TBLPROPERTIES IF EXISTS ('owner.Team', 'comment')",
            SetViewProperties("v", None, {"owner.Team": None, "comment": None}),
        ),
        (
            "ALTER MATERIALIZED VIEW v ALTER COLUMN c COMMENT 'a count'",
            CommentColumn("v", "c", "a count"),
        ),
        ("COMMENT ON MATERIALIZED VIEW v IS 'it''s'", CommentTable("v", "it's")),
        ("COMMENT ON TABLE v IS NULL", CommentTable("v", None)),
        ("SHOW TBLPROPERTIES v", ShowProperties("v", None)),
        ("SHOW TBLPROPERTIES v ('owner.team')", ShowProperties("v", "owner.team")),
        (
            """CREATE MATERIALIZED VIEW v (a COMMENT 'first', b) TBLPROPERTIES ('my.key' = '1')
            COMMENT 'two' AS SELECT 1, 2""",
            CreateView(
                "v",
                "SELECT 1, 2",
                None,
                False,
                ("a", "b"),
                {"my.key": "1", "comment": "two"},
                {"a": "first"},
            ),
        ),
        (
            "CREATE MATERIALIZED VIEW v CLUSTER BY (`a b`, c) COMMENT 'x' AS SELECT 1",
            CreateView(
                "v",
                "SELECT 1",
                None,
                False,
                user_properties={"comment": "x"},
                cluster_by=("a b", "c"),
            ),
        ),
        (
            "CREATE MATERIALIZED VIEW v TBLPROPERTIES ('a.b' = 'x') CLUSTER BY (c) AS SELECT 1",
            CreateView(
                "v", "SELECT 1", None, False, user_properties={"a.b": "x"}, cluster_by=("c",)
            ),
        ),
        ("REFRESH MATERIALIZED VIEW v", RefreshView("v")),
        ("SHOW MATERIALIZED VIEWS", ShowViews(None)),
        ("SHOW MATERIALIZED VIEWS LIKE 'a*|b'", ShowViews("a*|b")),
        ("SHOW INTERNAL TABLES", ShowInternalTables(None)),
        ("SHOW INTERNAL TABLES FROM v", ShowInternalTables("v")),
        ("SHOW INTERNAL TABLES IN v", ShowInternalTables("v")),
        ("EXPLAIN MATERIALIZED VIEW v", ExplainView("v")),
        (
            "EXPLAIN CREATE MATERIALIZED VIEW v AS SELECT * FROM t",
            ExplainView(CreateView("v", "SELECT * FROM t", None, False)),
        ),
    ],
)
def test_a_statement_says(text: str, statement: object) -> None:
    """Every statement about views becomes a value."""
    assert parse_statement(text) == statement


@pytest.mark.parametrize(
    "text",
    [
        "CREATE MATERIALIZED VIEW AS SELECT 1",
        "CREATE MATERIALIZED VIEW v SELECT 1",
        "CREATE MATERIALIZED VIEW v AS",
        "CREATE MATERIALIZED VIEW v TBLPROPERTIES ('size' = '4') AS SELECT 1",
        "CREATE MATERIALIZED VIEW v TBLPROPERTIES ('parallelism' = 'all') AS SELECT 1",
        "DROP MATERIALIZED VIEW",
        "DROP MATERIALIZED VIEW v NOW",
        "DROP MATERIALIZED VIEW v CASCADE RESTRICT",
        "ALTER MATERIALIZED VIEW v SET PARALLELISM",
        "ALTER MATERIALIZED VIEW v SET PARALLELISM -1",
        "ALTER MATERIALIZED VIEW v SET PARALLELISM many",
        "ALTER MATERIALIZED VIEW v SET PARALLELISM 3 4",
        "ALTER MATERIALIZED VIEW v ADD COLUMN c INT",
        "ALTER MATERIALIZED VIEW v RENAME w",
        "ALTER MATERIALIZED VIEW v RENAME TO w x",
        "ALTER MATERIALIZED VIEW v SET TBLPROPERTIES ('size' = '4')",
        "ALTER MATERIALIZED VIEW v SET TBLPROPERTIES ('parallelism' = 'all')",
        "ALTER MATERIALIZED VIEW v UNSET TBLPROPERTIES ('parallelism')",
        "ALTER MATERIALIZED VIEW v ALTER COLUMN c TYPE BIGINT",
        "CREATE MATERIALIZED VIEW v COMMENT 'a' COMMENT 'b' AS SELECT 1",
        "CREATE MATERIALIZED VIEW v COMMENT 'a' TBLPROPERTIES ('comment' = 'b') AS SELECT 1",
        "CREATE MATERIALIZED VIEW v (a COMMENT b) AS SELECT 1",
        "CREATE MATERIALIZED VIEW v CLUSTER BY a AS SELECT 1 AS a",
        "CREATE MATERIALIZED VIEW v CLUSTER BY () AS SELECT 1 AS a",
        "CREATE MATERIALIZED VIEW v CLUSTER BY (a) CLUSTER BY (a) AS SELECT 1 AS a",
        "CREATE MATERIALIZED VIEW v PARTITIONED BY (a) AS SELECT 1 AS a",
        "COMMENT ON v",
        "COMMENT ON v IS text",
        "SHOW TBLPROPERTIES",
        "REFRESH MATERIALIZED VIEW",
        "REFRESH MATERIALIZED VIEW v, w",
        "SHOW MATERIALIZED VIEWS LIKE v",
        "SHOW MATERIALIZED VIEWS LIKE 'v' w",
        "SHOW TABLES LIKE 'v' w",
        "SHOW INTERNAL TABLES FROM",
        "EXPLAIN MATERIALIZED VIEW",
    ],
)
def test_a_statement_that_is_none_is_refused(text: str) -> None:
    """A wrong statement is refused before anything is done."""
    with pytest.raises((errors.UnsupportedStatementError, errors.OptionError)):
        parse_statement(text)


def create_views(db: Database) -> None:
    """Create a table of three rows, and two views, the second over the first."""
    db.store.create_table("t", "k BIGINT, g STRING, v BIGINT", primary_key=["k"])
    upsert(db.store, "t", [(1, "a", 10), (2, "a", 20), (3, "b", 30)])
    db.sql(
        "CREATE MATERIALIZED VIEW named TBLPROPERTIES ('parallelism' = '2') "
        "AS SELECT upper(g) AS name, v FROM t"
    )
    db.sql("CREATE MATERIALIZED VIEW best AS SELECT name, max(v) AS m FROM named GROUP BY name")


@pytest.fixture
def viewed(db: Database) -> Database:
    """A table of three rows, and two views, the second over the first."""
    create_views(db)
    return db


@pytest.fixture(scope="module")
def unchanged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """The same in a store that no test changes."""
    path = str(tmp_path_factory.mktemp("unchanged") / "store")
    with Store.create(path, environment=unsynced(path)) as store:
        db = Database(spark, store)
        create_views(db)
        yield db


def test_statements_are_carried_out(viewed: Database) -> None:
    """Views are created, shown, explained, refreshed, rescaled and dropped."""
    db, store = viewed, viewed.store
    shown = {row.viewName: row for row in db.sql("SHOW MATERIALIZED VIEWS").collect()}
    assert list(shown) == ["best", "named"]
    assert (shown["named"].parallelism, shown["named"].inputs) == (2, ["t"])
    assert (shown["best"].inputs, shown["best"].backfill) == (["named"], None)
    assert shown["named"].query == "SELECT upper(g) AS name, v FROM t"
    assert not shown["best"].is_behind
    assert [row[0] for row in db.sql("SHOW MATERIALIZED VIEWS LIKE 'b*'").collect()] == ["best"]

    db.sql("INSERT INTO t VALUES (4, 'c', 40)")
    is_behind = {row.viewName: row.is_behind for row in db.sql("SHOW MATERIALIZED VIEWS").collect()}
    assert is_behind["named"]
    assert db.sql("REFRESH MATERIALIZED VIEW best").collect() == [(store.epoch,)]
    assert sorted(map(tuple, db.sql("SELECT * FROM best").collect())) == [
        ("A", 20), ("B", 30), ("C", 40),
    ]  # fmt: skip

    assert db.sql("ALTER MATERIALIZED VIEW best SET PARALLELISM 3").collect() == [(store.epoch,)]
    assert store.view("best").definition.mapping.units == 3
    assert db.sql(
        "CREATE MATERIALIZED VIEW IF NOT EXISTS best AS SELECT name FROM named"
    ).collect() == [(store.epoch,)]
    assert db.sql("SELECT * FROM best").columns == ["name", "m"]
    db.sql("DROP MATERIALIZED VIEW IF EXISTS nothing")
    db.sql("DROP MATERIALIZED VIEW named CASCADE")
    assert db.sql("SHOW MATERIALIZED VIEWS").collect() == []
    assert db.sql("SHOW INTERNAL TABLES").collect() == []


def test_explain_tells_how_a_view_is_kept(viewed: Database) -> None:
    """Plan, fragments, executors, state tables with ids and keys, and the mapping."""
    (row,) = viewed.sql("EXPLAIN MATERIALIZED VIEW best").collect()
    for part in (
        "== Plan ==", "Aggregate", "Scan named", "== Fragments ==", "Executor 1", "key (name",
        "== Vnode mapping ==", "unit 0",
    ):  # fmt: skip
        assert part in row.plan
    for table in viewed.sql("SHOW INTERNAL TABLES FROM best").collect():
        assert f"{table.tableName} [{table.table_id}]" in row.plan

    viewed.sql("ALTER MATERIALIZED VIEW named SET PARALLELISM 3")
    (row,) = viewed.sql("EXPLAIN MATERIALIZED VIEW named").collect()
    mapping = viewed.store.view("named").definition.mapping
    for unit in range(3):
        (shown,) = re.findall(rf"^unit {unit}: (\d+) vnodes: (.*)$", row.plan, re.MULTILINE)
        bounds = [list(map(int, bound.split("-"))) for bound in shown[1].split(", ")]
        ranges = tuple(range(bound[0], bound[-1] + 1) for bound in bounds)
        assert (int(shown[0]), ranges) == (sum(map(len, ranges)), mapping.ranges_of(unit))

    epoch = viewed.store.epoch
    (new,) = viewed.sql(
        "EXPLAIN CREATE MATERIALIZED VIEW top AS SELECT k, v FROM t ORDER BY v, k LIMIT 2"
    ).collect()
    assert "vnode 0 alone" in new.plan
    assert viewed.store.epoch == epoch


def test_what_a_view_needs_beside_its_columns_is_not_seen(unchanged: Database) -> None:
    """DESCRIBE and SELECT * leave hidden columns out; a query that names one reads it."""
    described = [row.col_name for row in unchanged.sql("DESCRIBE TABLE named").collect()]

    assert described == ["name", "v"]
    assert unchanged.sql("SELECT * FROM named").columns == ["name", "v"]
    hidden = [c.name for c in unchanged.store.table("named").schema.columns if c.hidden]
    assert len(hidden) == 1
    rows = unchanged.sql(f"SELECT {hidden[0]}, v FROM named ORDER BY 1").collect()
    assert list(map(tuple, rows)) == [(1, 10), (2, 20), (3, 30)]
    extended = unchanged.sql("DESCRIBE TABLE EXTENDED best").collect()
    assert "Reflects epoch" in [row.col_name for row in extended]


def test_state_is_tables(viewed: Database) -> None:
    """Internal tables are listed with their keys, and SQL reads them at any epoch."""
    listed = viewed.sql("SHOW INTERNAL TABLES FROM best").collect()
    assert {row.viewName for row in listed} == {"best"}
    values = next(row for row in listed if row.primary_key == ["name"])
    before = viewed.store.epoch
    count = f"SELECT count(*) AS c FROM {values.tableName}"
    assert viewed.sql(count).first().c == 2  # type: ignore[union-attr]

    viewed.sql("INSERT INTO t VALUES (5, 'z', 1)")
    viewed.refresh()

    assert viewed.sql(count).first().c == 3  # type: ignore[union-attr]
    assert viewed.sql(f"{count} VERSION AS OF {before}").first().c == 2  # type: ignore[union-attr]
    assert viewed.sql(f"SELECT count(*) AS c FROM best VERSION AS OF {before}").first().c == 2  # type: ignore[union-attr]
    assert [row[0] for row in viewed.sql("SHOW TABLES").collect()].count(values.tableName) == 0


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("CREATE MATERIALIZED VIEW t AS SELECT k FROM t", errors.TableExistsError),
        ("CREATE MATERIALIZED VIEW best AS SELECT k FROM t", errors.TableExistsError),
        ("CREATE MATERIALIZED VIEW `a/b` AS SELECT k FROM t", errors.TableNameError),
        (
            "CREATE MATERIALIZED VIEW v AS SELECT rand() FROM t",
            errors.UnsupportedStatementError,
        ),
        ("CREATE MATERIALIZED VIEW v AS SELECT k FROM nothing", Exception),
        ("CREATE TABLE best (k INT, PRIMARY KEY (k))", errors.TableExistsError),
        ("DROP MATERIALIZED VIEW nothing", errors.ViewNotFoundError),
        ("DROP MATERIALIZED VIEW t", errors.ViewNotFoundError),
        ("DROP MATERIALIZED VIEW named", errors.DependentViewsError),
        ("DROP TABLE t", errors.DependentViewsError),
        ("DROP TABLE best", errors.InternalTableError),
        ("ALTER MATERIALIZED VIEW t SET PARALLELISM 2", errors.ViewNotFoundError),
        ("ALTER MATERIALIZED VIEW best SET PARALLELISM 0", errors.OptionError),
        ("ALTER MATERIALIZED VIEW best SET PARALLELISM 100000", errors.OptionError),
        ("REFRESH MATERIALIZED VIEW t", errors.ViewNotFoundError),
        ("SHOW INTERNAL TABLES FROM t", errors.ViewNotFoundError),
        ("EXPLAIN MATERIALIZED VIEW t", errors.ViewNotFoundError),
        ("INSERT INTO best VALUES ('x', 1)", errors.InternalTableError),
        ("DELETE FROM best WHERE m = 1", errors.InternalTableError),
        ("UPDATE best SET m = 1", errors.InternalTableError),
        ("TRUNCATE TABLE best", errors.InternalTableError),
        ("ALTER TABLE best ADD COLUMN c INT", errors.InternalTableError),
    ],
)
def test_what_cannot_be_done_is_refused(
    statement: str, error: type[Exception], unchanged: Database
) -> None:
    """The error has the right class, and nothing is committed."""
    epoch = unchanged.store.epoch

    with pytest.raises(error):
        unchanged.sql(statement).collect()

    assert unchanged.store.epoch == epoch
