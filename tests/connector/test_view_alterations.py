"""The laws of views that are renamed, commented and given properties."""

from __future__ import annotations

import pytest

from relstate.connector.sql import Database
from relstate.storage import errors
from support.stores import upsert


@pytest.fixture
def viewed(db: Database) -> Database:
    """A table of three rows, a view of groups over it, and views over the view."""
    db.store.create_table("t", "k BIGINT, g STRING, v BIGINT", primary_key=["k"])
    upsert(db.store, "t", [(1, "a", 10), (2, "a", 20), (3, "b", 30)])
    db.sql("CREATE MATERIALIZED VIEW sums AS SELECT g, sum(v) AS s FROM t GROUP BY g")
    db.sql(
        "CREATE MATERIALIZED VIEW pairs AS SELECT sums.g, sums.s, o.s AS os "
        "FROM sums JOIN `SUMS` AS o ON o.g = sums.g"
    )
    return db


def rows_of(db: Database, view: str) -> list[tuple[object, ...]]:
    """Return the rows of a view, sorted."""
    return sorted(map(tuple, db.sql(f"SELECT * FROM {view}").collect()))


def test_a_renamed_view_is_the_same_view(viewed: Database) -> None:
    """Its rows, state, feed and readers continue under the new name; earlier epochs have the old.

    Its state tables follow, so that a new view may take the old name.
    """
    db, store = viewed, viewed.store
    before, table_id = store.epoch, store.view("sums").view_id

    db.sql("ALTER MATERIALIZED VIEW sums RENAME TO totals")
    db.sql("INSERT INTO t VALUES (4, 'b', 5), (5, 'c', 1)")
    db.sql("CREATE MATERIALIZED VIEW sums AS SELECT g, min(v) AS s FROM t GROUP BY g")
    db.refresh()

    assert store.view("totals").view_id == table_id
    assert rows_of(db, "totals") == [("a", 30), ("b", 35), ("c", 1)]
    assert rows_of(db, "pairs") == [("a", 30, 30), ("b", 35, 35), ("c", 1, 1)]
    assert rows_of(db, "sums") == [("a", 10), ("b", 5), ("c", 1)]
    assert all(name.startswith("__internal_totals_") for name in store.internal_tables("totals"))
    assert len(store.at(before).table("sums").to_arrow()) == 2
    changes = list(store.changes("totals", before + 1))
    assert sum(len(batch) for batch in changes) == 3
    assert "`totals` AS `sums` JOIN `totals` AS o" in store.view("pairs").definition.query
    assert "Scan totals" in db.sql("EXPLAIN MATERIALIZED VIEW pairs").collect()[0].plan
    assert all(report.ok for report in db.check_views()), db.check_views()


def test_a_name_that_is_taken_is_refused(viewed: Database) -> None:
    """A table's, a view's, a reserved one, and one that a reader gives to something else."""
    epoch = viewed.store.epoch
    for name, error in (
        ("t", errors.TableExistsError),
        ("Pairs", errors.TableExistsError),
        ("__internal_x", errors.TableNameError),
    ):
        with pytest.raises(error):
            viewed.sql(f"ALTER MATERIALIZED VIEW sums RENAME TO {name}")
    with pytest.raises(errors.ViewNotFoundError):
        viewed.sql("ALTER MATERIALIZED VIEW t RENAME TO u")
    assert viewed.store.epoch == epoch

    viewed.sql(
        "CREATE MATERIALIZED VIEW common AS WITH w AS (SELECT k FROM t) "
        "SELECT w.k, sums.s FROM w JOIN sums ON sums.s = w.k"
    )
    with pytest.raises(errors.DependentViewsError, match="'common'"):
        viewed.sql("ALTER MATERIALIZED VIEW sums RENAME TO w")


def test_comments_and_properties_are_kept_and_shown(viewed: Database) -> None:
    """Those of CREATE, ALTER and COMMENT ON, for views and tables; a view keeps them refreshed."""
    db = viewed
    db.sql(
        "CREATE MATERIALIZED VIEW counts (g COMMENT 'group', n) COMMENT 'how many' "
        "TBLPROPERTIES ('owner.team' = 'x', 'parallelism' = '2') "
        "AS SELECT g, count(*) FROM t GROUP BY g"
    )
    assert properties(db, "counts") == {
        "parallelism": "2", "comment": "how many", "owner.team": "x",
    }  # fmt: skip

    db.sql(
        "ALTER MATERIALIZED VIEW counts "
        "SET TBLPROPERTIES ('parallelism' = '3', 'Cost.Center' = '7')"
    )
    db.sql("ALTER MATERIALIZED VIEW counts UNSET TBLPROPERTIES ('owner.team')")
    db.sql("ALTER MATERIALIZED VIEW counts ALTER COLUMN n COMMENT 'rows'")
    db.sql("COMMENT ON MATERIALIZED VIEW counts IS 'of each group'")
    db.sql("INSERT INTO t VALUES (6, 'c', 1)")
    db.refresh()

    assert properties(db, "counts") == {
        "parallelism": "3", "comment": "of each group", "Cost.Center": "7",
    }  # fmt: skip
    described = {row.col_name: row for row in db.sql("DESCRIBE EXTENDED counts").collect()}
    assert (described["g"].comment, described["n"].comment) == ("group", "rows")
    assert described["Cost.Center"].data_type == "7"
    assert rows_of(db, "counts") == [("a", 2), ("b", 1), ("c", 1)]
    assert db.sql("SHOW TBLPROPERTIES counts ('Cost.Center')").collect() == [("Cost.Center", "7")]
    with pytest.raises(errors.OptionError, match="no property"):
        db.sql("SHOW TBLPROPERTIES counts ('ttl')")

    db.sql("CREATE TABLE u (k INT PRIMARY KEY) COMMENT 'keys' TBLPROPERTIES ('a.b' = 'c')")
    assert properties(db, "u") == {"merge": "overwrite", "comment": "keys", "a.b": "c"}
    db.sql("ALTER TABLE u SET TBLPROPERTIES ('comment' = 'none', 'a.b' = 'd')")
    db.sql("ALTER TABLE u UNSET TBLPROPERTIES ('comment')")
    assert properties(db, "u") == {"merge": "overwrite", "a.b": "d"}
    with pytest.raises(errors.OptionError, match="two statements"):
        db.sql("ALTER TABLE u SET TBLPROPERTIES ('ttl' = '1 day', 'a.b' = 'd')")
    with pytest.raises(errors.InternalTableError):
        db.sql(f"COMMENT ON TABLE {db.store.internal_tables('sums')[0]} IS 'x'")


def properties(db: Database, name: str) -> dict[str, str]:
    """Return the properties that SHOW TBLPROPERTIES lists."""
    return {row.key: row.value for row in db.sql(f"SHOW TBLPROPERTIES {name}").collect()}
