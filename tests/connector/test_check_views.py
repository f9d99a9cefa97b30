"""The laws of the check of views: it finds wrong rows and wrong state, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from relstate.connector.spark.version import session_version
from relstate.connector.sql import Database, check_views
from relstate.connector.sql.check_views import select_frame
from relstate.connector.views import creation
from relstate.storage import Kind, NewProgress, Store, errors, writing
from relstate.storage.log import rules
from support.stores import unsynced
from support.views import internal_target, refresh

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

VIEWS = {
    "sums": "SELECT g, sum(v) AS s, max(v) AS m, avg(x) AS a FROM t GROUP BY g",
    "pairs": "SELECT a.k, b.x FROM t AS a LEFT JOIN t AS b ON a.k + 1 = b.k",
}


@pytest.fixture
def db(spark: SparkSession, tmp_path: Path) -> Iterator[Database]:
    """A store with a table of 20 rows and views over it, some of them some epochs old."""
    path = str(tmp_path / "store")
    with Store.create(path, vnode_count=8, shards=1, environment=unsynced(path)) as store:
        store.create_table("t", "k BIGINT, g STRING, v BIGINT, x DOUBLE", primary_key=["k"])
        put(store, *range(20))
        db = Database(spark, store)
        for name, query in VIEWS.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        put(store, *range(5, 25), factor=3)
        db.refresh()
        yield db


def put(store: Store, *keys: int, factor: int = 1) -> None:
    """Upsert rows whose values follow from their keys."""
    values = [key * factor for key in keys]
    groups = [f"g{value % 4}" for value in values]
    store.write("t", pa.table({"k": keys, "g": groups, "v": values, "x": [v / 7 for v in values]}))


def corrupt(store: Store, view: str, table: str, kind: Kind, **changed: Any) -> None:
    """Change or delete the first row of a view or an internal table.

    It writes as a refresh does; no commit could know that the row is wrong.
    """
    row = store.table(table).to_arrow().slice(0, 1).to_pylist()[0]
    schema = store.table(table).schema.arrow_schema
    writer = internal_target(store, table).open(store.environment)
    rows = pa.RecordBatch.from_pylist([{**row, **changed}], schema=schema)
    writer.write(rows, np.array([kind], np.uint8))
    catalog_view = store.view(view)
    progress = NewProgress(
        catalog_view, catalog_view.progress.reflects, catalog_view.progress.inputs
    )
    refresh(store, progress, segments=writer.finish())


def problems(db: Database, *views: str) -> dict[str, str]:
    """Return the problems of some views, by default of all, that have problems."""
    reports = db.check_views(views or None)
    assert [report.view for report in reports] == list(views or VIEWS)
    return {report.view: "; ".join(report.problems) for report in reports if not report.ok}


def test_what_is_right_is_right_while_tables_move_on(db: Database) -> None:
    """A view is compared with its inputs at the epochs that it reflects, not at the latest."""
    put(db.store, *range(30), factor=5)

    assert problems(db, "pairs") == {}
    (report,) = db.check_views("sums")
    assert report.ok
    assert (report.view, report.reflects) == ("sums", db.store.view("sums").progress.reflects)
    with pytest.raises(errors.ViewNotFoundError, match="t"):
        db.check_views("t")


CHANGING = {
    "star": "SELECT * FROM a",
    "mine": "SELECT a.id, w FROM a JOIN b ON a.id = b.uid",
    "upper": "SELECT upper(g) AS w, count(*) AS n FROM a GROUP BY w",
    "common": "SELECT a.id, k, y FROM a NATURAL JOIN c",
    "lateral": "SELECT id, x * 2 AS w, w + 1 AS y FROM a",
    "having": "SELECT g, sum(x) AS w FROM a GROUP BY g HAVING w > 1",
    "least": "SELECT id, -x AS w FROM a ORDER BY w LIMIT 1",
    "over": "SELECT s.*, w FROM star AS s JOIN b ON s.id = b.uid",
    "unread": "SELECT id FROM (SELECT id, old, older + 1 AS o, oldest FROM d)",
    "none": "SELECT count(*) AS n FROM (SELECT old FROM d)",
}


def test_columns_that_come_go_and_change_under_a_view_do_not_matter(db: Database) -> None:
    """The SELECT is run with the columns that the inputs had when the view was created."""
    db.sql("CREATE TABLE a (id INT, g STRING, x INT, PRIMARY KEY (id))")
    db.sql("CREATE TABLE b (uid INT, w STRING, PRIMARY KEY (uid))")
    db.sql("CREATE TABLE c (id INT, k INT, y INT, PRIMARY KEY (id))")
    db.sql("CREATE TABLE d (id INT, old INT, older INT, oldest INT, PRIMARY KEY (id))")
    db.sql("ALTER TABLE a ADD COLUMNS (seen STRING)")
    db.sql("INSERT INTO a VALUES (1, 'a', 1, 's'), (2, 'b', 2, 's')")
    db.sql("INSERT INTO b VALUES (1, 'W')")
    db.sql("INSERT INTO c VALUES (1, 1, 1), (2, 2, 2)")
    db.sql("INSERT INTO d VALUES (1, 1, 1, 1)")
    for name, query in CHANGING.items():
        db.sql(f"CREATE MATERIALIZED VIEW `{name}` AS {query}")

    db.sql("ALTER TABLE a ADD COLUMNS (w STRING)")
    db.sql("ALTER TABLE a ADD COLUMNS (y INT)")
    db.sql("ALTER TABLE d DROP COLUMN old")
    db.sql("ALTER TABLE d RENAME COLUMN older TO old")
    db.sql("ALTER TABLE d ALTER COLUMN oldest TYPE BIGINT")
    db.sql("INSERT INTO a VALUES (3, 'a', -3, 's', '7', 7), (1, 'a', 4, 's', 'w', 8)")
    db.sql("INSERT INTO d VALUES (2, 1, 1)")
    for _ in range(2):
        assert [report for report in db.check_views(list(CHANGING)) if not report.ok] == []
        db.refresh()

    corrupt(db.store, "star", "star", Kind.PUT, x=-1)
    assert [report.view for report in db.check_views(list(CHANGING)) if not report.ok] == ["star"]


def test_a_view_that_cannot_be_checked_is_one_report(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its report has the reason in one sentence, and the other views are checked."""

    def failing(session: Any, store: Store, state: Any, view: Any, selections: Any) -> Any:
        if state.name_of(view.view_id) == "sums":
            raise RuntimeError("no such thing\n\tat org.apache.spark.X.y(X.scala:1)\n")
        return select_frame(session, store, state, view, selections)

    monkeypatch.setattr(check_views, "select_frame", failing)

    assert problems(db) == {"sums": "sums: it cannot be checked: RuntimeError: no such thing"}


def test_a_check_after_the_epochs_have_expired(db: Database) -> None:
    """Inputs that have not changed are read at the latest epoch; for others, refresh first."""
    db.sql("CREATE TABLE other (k INT PRIMARY KEY)")
    db.store.vacuum(0)
    assert problems(db) == {}

    put(db.store, 5)
    db.store.vacuum(0)
    reason = "it cannot be checked: EpochExpiredError: view 'sums' shows 't' as of epoch"
    assert reason in problems(db)["sums"]
    db.refresh()
    db.store.vacuum(0)
    assert problems(db) == {}

    corrupt(db.store, "sums", "sums", Kind.PUT, s=-1)
    db.store.vacuum(0)
    assert list(problems(db)) == ["sums"]


def test_a_wrong_value_is_found(db: Database) -> None:
    """A wrong row differs from the SELECT and from what the state gives."""
    corrupt(db.store, "sums", "sums", Kind.PUT, s=-1)

    reported = problems(db)

    assert list(reported) == ["sums"]
    assert "1 rows of its SELECT are missing, and 1 of its rows" in reported["sums"]
    assert "-1" in reported["sums"]


def test_a_slightly_wrong_float_is_found_and_rounding_is_not(db: Database) -> None:
    """Floats are compared at 1e-9 of the greatest magnitude."""
    right = db.store.table("sums").to_arrow().column("a")[0].as_py()
    corrupt(db.store, "sums", "sums", Kind.PUT, a=right + 1e-12)
    assert problems(db, "sums") == {}
    corrupt(db.store, "sums", "sums", Kind.PUT, a=right + 1e-3)
    assert list(problems(db, "sums")) == ["sums"]


def test_a_missing_and_a_surplus_row_are_found(db: Database) -> None:
    """A missing group and a surplus group are both reported."""
    corrupt(db.store, "sums", "sums", Kind.DELETE)
    corrupt(db.store, "pairs", "pairs", Kind.PUT, x=-1.0, k=1_000)

    reported = problems(db)

    assert "1 rows of its SELECT are missing, and 0" in reported["sums"]
    assert "0 rows of its SELECT are missing, and 1" in reported["pairs"]


@pytest.mark.parametrize(("view", "kind"), [("sums", Kind.PUT), ("pairs", Kind.DELETE)])
def test_a_wrong_state_is_found_though_the_rows_are_right(
    view: str, kind: Kind, db: Database
) -> None:
    """State is compared with the inputs, so an error in it is found before it makes wrong rows."""
    table = db.store.state.name_of(db.store.view(view).definition.internal[0])
    row = db.store.table(table).to_arrow().slice(0, 1).to_pylist()[0]
    key = {column.name for column in db.store.table(table).schema.key_columns}
    value = next((n for n, v in row.items() if n not in key and isinstance(v, int)), None)
    changed = {value: row[value] + 1} if kind is Kind.PUT and value is not None else {}
    assert changed or kind is Kind.DELETE

    corrupt(db.store, view, table, kind, **changed)
    reported = problems(db, view)

    assert list(reported) == [view]
    assert table in reported[view]
    assert "its SELECT" not in reported[view]


def test_of_open_orders_what_is_determined_is_compared(db: Database) -> None:
    """The elements of a list, not their order; the values that order rows, not those that tie."""
    put(db.store, *range(20))
    db.sql("CREATE MATERIALIZED VIEW lists AS SELECT g, collect_list(v) AS l FROM t GROUP BY g")
    db.sql("CREATE MATERIALIZED VIEW first3 AS SELECT k, v % 2 AS p FROM t ORDER BY p LIMIT 3")
    assert problems(db, "lists", "first3") == {}
    elements = db.store.table("lists").to_arrow()["l"][0].as_py()

    corrupt(db.store, "lists", "lists", Kind.PUT, l=elements[::-1])
    assert "its SELECT" not in problems(db, "lists")["lists"]
    corrupt(db.store, "lists", "lists", Kind.PUT, l=[*elements[1:], elements[-1]])
    assert "1 rows of its SELECT are missing" in problems(db, "lists")["lists"]
    corrupt(db.store, "first3", "first3", Kind.PUT, k=1_000)
    assert "1 of its rows are not in its SELECT" in problems(db, "first3")["first3"]


def test_rows_that_an_open_order_chooses_are_not_compared(db: Database) -> None:
    """Their state is."""
    query = "SELECT g FROM (SELECT g, first(v) AS f FROM t GROUP BY g) WHERE f > 0"
    db.sql(f"CREATE MATERIALIZED VIEW chosen AS {query}")
    assert problems(db, "chosen") == {}

    corrupt(db.store, "chosen", "chosen", Kind.DELETE)
    reported = problems(db, "chosen")["chosen"]
    assert "its SELECT" not in reported


def test_checking_leaves_nothing_behind(db: Database) -> None:
    """A check makes no commit and leaves no file."""
    epoch = db.store.epoch
    files = set(db.store.environment.list("segments"))

    assert problems(db, "sums") == {}

    assert db.store.epoch == epoch
    assert set(db.store.environment.list("segments")) == files
    assert db.store.check().problems == ()


def test_nan_within_other_values_is_no_difference(db: Database) -> None:
    """In an array and in a map, as in a column of its own."""
    db.store.create_table("f", "k INT, l ARRAY<DOUBLE>, m MAP<STRING, DOUBLE>", primary_key=["k"])
    rows = [{"k": 1, "l": [float("nan"), 1.5], "m": [("a", float("nan"))]}, {"k": 2}]
    db.store.write("f", pa.Table.from_pylist(rows, db.store.table("f").schema.arrow_schema))
    db.sql("CREATE MATERIALIZED VIEW nested AS SELECT k, l, m FROM f")

    assert problems(db, "nested") == {}


def test_inputs_whose_rows_expire_are_told(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows with a TTL in an input are a problem until they are written again without one."""
    row = db.store.table("t").to_arrow().slice(0, 1)
    with monkeypatch.context() as unchecked:
        for module in (rules, writing):
            unchecked.setattr(module, "check_unread", lambda *_: None)
        db.store.write("t", row, ttls=pa.array([3600]))
    with pytest.raises(errors.RelstateError, match="INSERT OVERWRITE t SELECT"):
        db.refresh()
    assert "table 't', which it reads, holds rows that were written" in problems(db)["sums"]

    db.sql("INSERT OVERWRITE t SELECT * FROM t")
    db.refresh()
    assert problems(db) == {}


def test_a_difference_names_the_version_that_created_the_view(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is another minor one: a function of the SELECT may have changed."""
    this = session_version(db.spark)
    for name, version in (("old", "4.0.1"), ("same", this)):
        with monkeypatch.context() as changed:
            changed.setattr(creation, "session_version", lambda _, version=version: version)
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS SELECT k, v FROM t")
        corrupt(db.store, name, name, Kind.PUT, v=-1)

    reported = problems(db, "old", "same")

    assert f"; Spark 4.0.1 has created it, and this is Spark {this}: if" in reported["old"]
    assert "has created it" not in reported["same"]
    explained = db.sql("EXPLAIN MATERIALIZED VIEW old").head()
    assert explained is not None
    assert explained[0].endswith("\n\nCreated by Spark 4.0.1")
    described = db.sql("DESCRIBE EXTENDED same").where("col_name = 'Created by'").head()
    assert described is not None
    assert described.data_type == f"Spark {this}"
