"""The statements about views with a quarantine: created, described, renamed, replaced, dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from relstate.connector.spark.capabilities import QUALIFY
from relstate.connector.sql import planned_query
from relstate.storage import errors
from support.versions import needs

if TYPE_CHECKING:
    from relstate.connector.sql import Database

SHARES = "SELECT k, 100 / n AS share FROM t"


@pytest.fixture
def db(db: Database) -> Database:
    """A table with a row that fails, and a view that leaves it out."""
    db.sql("CREATE TABLE t (k INT PRIMARY KEY, n INT)")
    db.sql("INSERT INTO t VALUES (1, 10), (2, 0)")
    db.sql(f"CREATE MATERIALIZED VIEW v TBLPROPERTIES ('on_error' = 'QUARANTINE') AS {SHARES}")
    return db


def quarantined(db: Database, view: str) -> list[str]:
    """Return the keys of the rows in a view's quarantine."""
    return [key for (key,) in db.sql(f"SELECT key FROM {view}__quarantine ORDER BY key").collect()]


def test_the_property_is_shown(db: Database) -> None:
    """By SHOW TBLPROPERTIES, DESCRIBE EXTENDED, and the statement of SHOW CREATE TABLE."""
    properties = {row.key: row.value for row in db.sql("SHOW TBLPROPERTIES v").collect()}
    assert properties["on_error"] == "quarantine"
    details = {row.col_name: row.data_type for row in db.sql("DESCRIBE EXTENDED v").collect()}
    assert (details["Quarantine"], details["Rows in quarantine"]) == ("v__quarantine", "1")
    ((text,),) = db.sql("SHOW CREATE TABLE v").collect()
    assert "'on_error' = 'quarantine'" in text
    db.sql("DROP MATERIALIZED VIEW v")
    db.sql(text)
    assert quarantined(db, "v") == ['{"k": 2}']


def test_values_that_are_refused(db: Database) -> None:
    """Other values, ALTER, and views for which time lets a row fail; nothing is created."""
    epoch = db.store.epoch
    with pytest.raises(errors.OptionError, match="'on_error' is 'fail' or 'quarantine'"):
        db.sql(f"CREATE MATERIALIZED VIEW w TBLPROPERTIES ('on_error' = 'skip') AS {SHARES}")
    for change in ("SET TBLPROPERTIES ('on_error' = 'fail')", "UNSET TBLPROPERTIES ('on_error')"):
        with pytest.raises(errors.OptionError, match="CREATE OR REPLACE"):
            db.sql(f"ALTER MATERIALIZED VIEW v {change}")
    db.sql("CREATE TABLE events (k INT PRIMARY KEY, at TIMESTAMP)")
    with pytest.raises(errors.UnsupportedStatementError, match="the present time"):
        db.sql(
            "CREATE MATERIALIZED VIEW w TBLPROPERTIES ('on_error' = 'quarantine') AS "
            "SELECT k, at FROM events WHERE at > now() - INTERVAL 1 DAY"
        )
    assert db.store.epoch == epoch + 1


def test_only_the_refresh_writes_the_quarantine(db: Database) -> None:
    """It is read as a table, and neither written, altered nor dropped as one."""
    for statement in (
        "DELETE FROM v__quarantine",
        "DROP TABLE v__quarantine",
        "ALTER TABLE v__quarantine ADD COLUMN x INT",
    ):
        with pytest.raises(errors.InternalTableError, match="view 'v'"):
            db.sql(statement)
    assert "v__quarantine" not in db.store.tables()


def test_the_quarantine_follows_its_view(db: Database) -> None:
    """Through a rename, another parallelism and a DROP; a row that fails is tried again then."""
    db.sql("ALTER MATERIALIZED VIEW v RENAME TO w")
    assert quarantined(db, "w") == ['{"k": 2}']
    db.sql("ALTER MATERIALIZED VIEW w SET PARALLELISM 3")
    db.sql("INSERT INTO t VALUES (3, 0)")
    db.sql("UPDATE t SET n = 1 WHERE k = 2")
    db.refresh()
    assert quarantined(db, "w") == ['{"k": 3}']
    assert [report.problems for report in db.check_views()] == [()]
    db.sql("DROP MATERIALIZED VIEW w")
    assert "w__quarantine" not in db.store.state.table_ids


@pytest.mark.parametrize("key", ["k", "k + 1"], ids=["same key", "other key"])
def test_a_replacement_has_a_quarantine_of_its_own(db: Database, key: str) -> None:
    """ALTER … AS keeps the property; the rows that fail are those of the new SELECT."""
    order = "" if key == "k" else " ORDER BY share"
    db.sql(f"ALTER MATERIALIZED VIEW v AS SELECT {key} AS k, 100 / (n - 10) AS share FROM t{order}")
    assert quarantined(db, "v") == ['{"k": 1}']
    db.sql("INSERT INTO t VALUES (3, 10)")
    db.refresh()
    assert quarantined(db, "v") == ['{"k": 1}', '{"k": 3}']
    assert [report.problems for report in db.check_views()] == [()]
    with pytest.raises(errors.ViewFailedError):
        db.sql(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {SHARES} WHERE k < 3")
    db.sql("DELETE FROM t WHERE k = 2")
    db.sql(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {SHARES}")
    assert "v__quarantine" not in db.store.state.table_ids
    assert [report.problems for report in db.check_views()] == [()]


def test_views_over_views(db: Database) -> None:
    """A row of a view is left out of a view over it, by the view's whole key."""
    db.sql(
        "CREATE MATERIALIZED VIEW over TBLPROPERTIES ('on_error' = 'quarantine') AS "
        "SELECT share, 1 / (share - 5) AS x FROM v"
    )
    db.sql("INSERT INTO t VALUES (3, 20), (4, 0)")
    db.refresh()
    assert quarantined(db, "v") == ['{"k": 2}', '{"k": 4}']
    assert quarantined(db, "over") == ['{"k": 3}']
    db.sql("UPDATE t SET n = 25 WHERE k IN (3, 4)")
    db.refresh()
    assert quarantined(db, "over") == []
    assert [report.problems for report in db.check_views()] == [(), ()]


def test_a_delete_that_fails_is_a_failure_of_the_view(db: Database) -> None:
    """It cannot be left out: the row is gone. The view keeps its rows."""
    db.sql(
        "CREATE MATERIALIZED VIEW ratio TBLPROPERTIES ('on_error' = 'quarantine') AS "
        "SELECT 100 / sum(n) AS ratio FROM t"
    )
    db.sql("DELETE FROM t WHERE k = 1")
    with pytest.raises(errors.ViewFailedError, match="ratio"):
        db.refresh()
    db.sql("INSERT INTO t VALUES (1, 4)")
    db.refresh()
    assert [row.ratio for row in db.sql("SELECT ratio FROM ratio").collect()] == [25]
    assert quarantined(db, "ratio") == []


def test_a_filter_keeps_a_row_from_failing(db: Database) -> None:
    """It is no bad row, wherever the filter is, and the check does not evaluate it."""
    db.sql(
        "CREATE MATERIALIZED VIEW chosen TBLPROPERTIES ('on_error' = 'quarantine') AS "
        "SELECT k, share FROM (SELECT k, n, 100 / n AS share FROM t) WHERE n <> 0"
    )
    db.sql("INSERT INTO t VALUES (3, 0), (4, 1)")
    db.refresh()
    assert quarantined(db, "chosen") == []
    assert [report.problems for report in db.check_views()] == [(), ()]


# In each, Spark may evaluate an expression before it leaves out the rows in quarantine.
EARLY = {
    "condition": "SELECT k FROM t WHERE 100 / n > 5",
    "nested": "SELECT k, share FROM (SELECT k, 100 / n AS share FROM t) WHERE share > 5",
    "joined": "SELECT a.k, b.k AS other FROM t a JOIN t b ON 100 / a.n = b.n",
    "contained": "SELECT k FROM t WHERE 100 / n IN (SELECT n FROM t)",
    "grouped": "SELECT 100 / n AS share, count(*) AS c FROM t GROUP BY 100 / n HAVING 100 / n > 5",
    "ranked": "SELECT k, 100 / n AS share FROM t QUALIFY "
    "row_number() OVER (PARTITION BY 100 / n ORDER BY k) = 1",
}


@needs(QUALIFY)
@pytest.mark.parametrize("driver_bytes", [0, 1 << 20], ids=["tasks", "driver"])
def test_the_check_evaluates_no_row_in_quarantine(
    db: Database, driver_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither by a condition that Spark moves towards the table, nor by a key of a join."""
    monkeypatch.setattr(planned_query, "DRIVER_BYTES", driver_bytes)
    for name, query in EARLY.items():
        db.sql(
            f"CREATE MATERIALIZED VIEW {name} TBLPROPERTIES ('on_error' = 'quarantine') AS {query}"
        )
    db.sql("INSERT INTO t VALUES (3, 0), (4, 10)")
    db.refresh()
    assert quarantined(db, "condition") == ['{"k": 2}', '{"k": 3}']
    assert [report.problems for report in db.check_views() if not report.ok] == []


def test_figures(db: Database) -> None:
    """A metric, and the progress of a stream, count the rows in quarantine."""
    assert db.metrics()['relstate_view_quarantined_rows{view="v"}'] == 1
    following = db.stream()
    db.sql("INSERT INTO t VALUES (3, 0)")
    following.processAllAvailable()
    following.stop()
    progress = following.lastProgress or {}
    assert (progress["quarantined"], progress["failed"]) == ({"v": 2}, {})
