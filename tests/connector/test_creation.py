"""The laws of tables that SQL creates from queries, describes, restores and looks after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from relstate.connector.source import read
from relstate.connector.sql.creation_text import creation_text
from relstate.storage import Store
from relstate.storage.errors import (
    CheckViolationError,
    DependentViewsError,
    InternalTableError,
    NullKeyError,
    SchemaError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedStatementError,
)
from support.stores import contents

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from relstate.connector.sql import Database


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    """Return the rows of a DataFrame, sorted."""
    return sorted(map(tuple, frame.collect()))


def test_a_table_is_created_from_a_query_in_one_epoch(db: Database, store: Store) -> None:
    """With the key that is given, or none; the result counts the rows, one for each key."""
    first = db.sql(
        "CREATE TABLE t (PRIMARY KEY (k DESC)) USING relstate COMMENT 'made' "
        "TBLPROPERTIES ('owner.team' = 'x') AS "
        "SELECT id % 3 AS k, 'x' AS v, CAST(1 AS DECIMAL(5,2)) AS `a b` FROM range(0, 9, 1, 3)"
    ).first()

    assert first is not None
    assert tuple(first) == (store.epoch, 3, 3, 0, 0)
    assert store.epoch == 2
    assert [row[0] for row in contents(store, "t")] == [2, 1, 0]
    definition = store.state.table("t").definition
    assert (definition.comment, definition.user_properties) == ("made", (("owner.team", "x"),))
    assert [str(column.type) for column in definition.schema.columns] == [
        "BIGINT", "STRING", "DECIMAL(5,2)",
    ]  # fmt: skip
    db.sql("CREATE TABLE u AS SELECT v, k FROM t UNION ALL SELECT v, k FROM t")
    assert store.table("u").count() == 6
    assert rows(db.sql("CREATE TABLE IF NOT EXISTS u AS SELECT 1")) == [(store.epoch, 0, 0, 0, 0)]
    with pytest.raises(TableExistsError, match="CREATE OR REPLACE TABLE"):
        db.sql("CREATE TABLE U AS SELECT 1 AS a")


def test_a_table_is_replaced_by_a_query_that_reads_it(db: Database, store: Store) -> None:
    """In one epoch; the epoch before has the old columns and rows."""
    db.sql("CREATE TABLE t (k INT, v STRING, PRIMARY KEY (k))")
    db.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    before = store.epoch
    db.sql("CREATE OR REPLACE TABLE t (PRIMARY KEY (v)) AS SELECT v, k + 10 AS n FROM t")

    assert store.epoch == before + 1
    assert contents(store, "t") == [("a", 11), ("b", 12)]
    assert rows(db.sql(f"SELECT * FROM t VERSION AS OF {before}")) == [(1, "a"), (2, "b")]
    db.sql("CREATE OR REPLACE TABLE t (x INT)")
    assert contents(store, "t") == []


def test_a_table_that_cannot_be_created_leaves_nothing(db: Database, store: Store) -> None:
    """Errors are relstate's, and there is neither a table nor a row afterwards."""
    db.sql("CREATE TABLE base (k INT PRIMARY KEY)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT k FROM base")
    before = store.epoch
    for text, error in {
        "CREATE TABLE t (PRIMARY KEY (k)) AS SELECT CAST(NULL AS INT) AS k": NullKeyError,
        "CREATE TABLE t AS SELECT 1 AS a, 2 AS A": SchemaError,
        "CREATE TABLE t (PRIMARY KEY (x)) AS SELECT 1 AS a": SchemaError,
        "CREATE OR REPLACE TABLE v AS SELECT 1 AS a": InternalTableError,
        "CREATE OR REPLACE TABLE base AS SELECT 1 AS k": DependentViewsError,
        "CREATE OR REPLACE TABLE base (k INT)": DependentViewsError,
        "CREATE TABLE t TBLPROPERTIES ('append_only' = 'true') AS SELECT 1 AS a": (
            UnsupportedStatementError
        ),
    }.items():
        with pytest.raises(error):
            db.sql(text)

    assert store.epoch == before
    assert store.tables() == ("base",)
    store.vacuum()


def test_a_table_is_renamed_and_views_follow(db: Database, store: Store) -> None:
    """Their queries have the new name, and they go on from where they were."""
    db.sql("CREATE TABLE t (k INT, v INT, PRIMARY KEY (k))")
    db.sql("CREATE MATERIALIZED VIEW totals AS SELECT v, count(*) AS n FROM t GROUP BY v")
    db.sql("ALTER TABLE t RENAME TO u")
    db.sql("INSERT INTO u VALUES (1, 7), (2, 7)")
    db.refresh()

    assert rows(db.sql("SELECT * FROM totals")) == [(7, 2)]
    assert "FROM `u`" in store.view("totals").definition.query
    with pytest.raises(DependentViewsError, match="rename it by SQL"):
        store.rename_table("u", "w")
    with pytest.raises(InternalTableError):
        db.sql("ALTER TABLE totals RENAME TO w")


def test_rows_of_an_epoch_are_restored(db: Database, store: Store) -> None:
    """In one epoch, under the present names; columns that were added since are NULL."""
    db.sql("CREATE TABLE t (k INT, v STRING, PRIMARY KEY (k))")
    db.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    then = store.epoch
    db.sql("DELETE FROM t WHERE k = 1")
    db.sql("ALTER TABLE t RENAME COLUMN v TO w")
    db.sql("ALTER TABLE t ADD COLUMNS (x INT)")
    db.sql("ALTER TABLE t RENAME TO u")
    before = store.epoch
    db.sql(f"RESTORE TABLE u TO VERSION AS OF {then}")

    assert store.epoch == before + 1
    assert contents(store, "u") == [(1, "a", None), (2, "b", None)]
    db.sql("ALTER TABLE u DROP COLUMN w")
    with pytest.raises(SchemaError, match="'v', which table 'u' had at epoch"):
        db.sql(f"RESTORE TABLE u TO VERSION AS OF {then}")
    with pytest.raises(TableNotFoundError, match="it was created at epoch"):
        db.sql("RESTORE TABLE u TO VERSION AS OF 1")


def test_changes_are_a_relation(db: Database, store: Store) -> None:
    """Up to the query's epoch, or one that is named; joined with tables as any relation."""
    db.sql("CREATE TABLE t (k INT, v STRING, PRIMARY KEY (k))")
    db.sql("INSERT INTO t VALUES (1, 'a')")
    first = store.epoch
    db.sql("UPDATE t SET v = 'b'")
    query = "SELECT k, v, _change_type FROM table_changes('t', {})"

    assert rows(db.sql(query.format(f"{first}, {first}"))) == [(1, "a", "insert")]
    assert rows(db.sql(query.format(first + 1))) == [
        (1, "a", "update_preimage"), (1, "b", "update_postimage"),
    ]  # fmt: skip
    joined = f"SELECT c.v, t.v FROM table_changes('t', {first}, {first}) AS c JOIN t ON c.k = t.k"
    assert rows(db.sql(joined)) == [("a", "b")]
    with pytest.raises(TableNotFoundError, match="there are: t"):
        db.sql("SELECT * FROM table_changes('s', 1)")


def test_few_changes_are_read_on_the_driver(
    db: Database, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a task; by tasks they are the same rows, of the same types."""
    db.sql("CREATE TABLE t (k INT, v STRING, ts TIMESTAMP, n DECIMAL(9,2), PRIMARY KEY (k))")
    db.sql("INSERT INTO t VALUES (1, 'a', now(), 1.5), (2, NULL, NULL, NULL)")
    query = f"SELECT * FROM table_changes('t', {store.epoch}) ORDER BY k"
    local = db.sql(query)
    monkeypatch.setattr(read, "DRIVER_BYTES", -1)
    by_tasks = db.sql(query)

    assert "LocalRelation" in optimized(local)
    assert "LocalRelation" not in optimized(by_tasks)
    assert local.schema == by_tasks.schema
    assert local.collect() == by_tasks.collect()


def optimized(frame: DataFrame) -> str:
    """Return Spark's optimized plan of a frame."""
    java: Any = frame
    return str(java._jdf.queryExecution().optimizedPlan())


def test_a_table_is_described_as_delta_does(db: Database, store: Store) -> None:
    """SHOW COLUMNS, DESCRIBE DETAIL and FORMATTED, and notes where there is nothing to do."""
    db.sql(
        "CREATE TABLE t (b INT, a INT, PRIMARY KEY ((a), b)) COMMENT 'c' "
        "TBLPROPERTIES ('ttl' = '2 days', 'x.y' = 'z')"
    )
    db.sql("INSERT INTO t VALUES (1, 2), (3, 4)")
    detail = db.sql("DESCRIBE DETAIL t").first()

    assert detail is not None
    assert detail.asDict() == {
        "format": "relstate",
        "id": 1,
        "name": "t",
        "description": "c",
        "location": store.path,
        "createdEpoch": 2,
        "lastChangedEpoch": 3,
        "primaryKey": ["a", "b"],
        "distributionKey": ["a"],
        "numFiles": detail.numFiles,
        "numStoredRows": 2,
        "sizeInBytes": detail.sizeInBytes,
        "properties": {"merge": "overwrite", "ttl": "172800 seconds", "x.y": "z"},
    }
    assert [row.col_name for row in db.sql("SHOW COLUMNS IN t").collect()] == ["b", "a"]
    db.sql("COMMENT ON COLUMN t.b IS 'the second'")
    assert dict(map(tuple, db.sql("DESCRIBE t B").collect())) == {
        "col_name": "b",
        "data_type": "INT",
        "nullable": "false",
        "comment": "the second",
        "default": None,
        "generated": None,
    }
    assert db.sql("DESCRIBE HISTORY t LIMIT 1").first() == db.history("t").first()
    assert db.sql("DESCRIBE HISTORY t LIMIT 1").count() == 1
    assert db.sql("DESCRIBE FORMATTED t").collect() == db.sql("DESCRIBE EXTENDED t").collect()
    assert "nothing was computed" in db.sql("ANALYZE TABLE t COMPUTE STATISTICS").collect()[0].note
    db.sql("INSERT INTO t VALUES (1, 2)")
    assert db.sql("OPTIMIZE t").collect()[0].files_written >= 1
    assert db.sql("VACUUM RETAIN 0 HOURS DRY RUN").collect()[0].files >= 2
    assert db.sql("VACUUM RETAIN 0 HOURS").collect()[0].files >= 2
    assert store.table("t").count() == 2


@pytest.mark.parametrize(
    "statement",
    [
        (
            "CREATE TABLE t (a INT, `b c` STRING NOT NULL COMMENT 'it''s \\\\ here', e DATE, "
            "PRIMARY KEY ((e), a DESC NULLS FIRST)) COMMENT \"a 'b'\" "
            "TBLPROPERTIES ('merge' = 'partial', 'version_column' = 'b c', 'x.y' = 'z')"
        ),
        "CREATE TABLE t (a INT, b STRUCT<x: INT NOT NULL>, c DECIMAL(5,2) NOT NULL)",
        (
            "CREATE TABLE t (a INT NOT NULL, b INT, PRIMARY KEY (a, b)) "
            "TBLPROPERTIES ('nullable_key' = 'true', 'ttl' = '1 day', 'append_only' = 'true')"
        ),
        (
            "CREATE TABLE t (a INT PRIMARY KEY, s ARRAY<STRING>, `x,y` ARRAY<INT>) "
            "TBLPROPERTIES ('encoding' = 'document', 'packed' = 'false', 'sets' = 's, `x,y`')"
        ),
    ],
)
def test_what_is_shown_creates_an_equal_table(db: Database, store: Store, statement: str) -> None:
    """SHOW CREATE TABLE returns a statement after which the definition is the same."""
    db.sql(statement)
    before = store.state.table("t").definition
    text = db.sql("SHOW CREATE TABLE t").collect()[0].createtab_stmt
    db.sql("DROP TABLE t")
    db.sql(text)
    after = store.state.table("t").definition

    assert after.schema == before.schema
    assert (after.properties, after.comment) == (before.properties, before.comment)
    assert after.user_properties == before.user_properties


def test_statements_obey_constraints(db: Database, store: Store) -> None:
    """Those of SQL, and writes of DataFrames; what is shown has the constraints too."""
    db.sql("CREATE TABLE t (k INT PRIMARY KEY, v INT CHECK (v > 0), CONSTRAINT c CHECK (v < k))")
    db.sql("INSERT INTO t VALUES (5, 4), (6, NULL)")
    epoch = store.epoch
    for text in (
        "INSERT INTO t VALUES (7, 0)",
        "UPDATE t SET v = v + 1 WHERE k = 5",
        (
            "MERGE INTO t USING (SELECT 9 AS k) s ON t.k = s.k WHEN NOT MATCHED THEN "
            "INSERT (k, v) VALUES (s.k, 9)"
        ),
    ):
        with pytest.raises(CheckViolationError):
            db.sql(text)
    with pytest.raises(CheckViolationError, match="'c', CHECK"):
        db.write(db.spark.sql("SELECT 1 AS k, 2 AS v"), "t")
    with pytest.raises(CheckViolationError):
        db.sql("ALTER TABLE t ADD CONSTRAINT d CHECK (v > 4)")
    assert store.epoch == epoch

    details = {row.col_name: row.data_type for row in db.sql("DESCRIBE EXTENDED t").collect()}
    assert (details["check_1"], details["c"]) == ("CHECK (v > 0)", "CHECK (v < k)")
    text = db.sql("SHOW CREATE TABLE t").collect()[0].createtab_stmt
    constraints = store.state.table("t").definition.constraints
    db.sql("CREATE OR REPLACE" + text.removeprefix("CREATE"))
    assert store.state.table("t").definition.constraints == constraints
    db.sql("ALTER TABLE t DROP CONSTRAINT check_1")
    db.sql("INSERT INTO t VALUES (7, 0)")


def test_what_is_shown_creates_an_equal_view(db: Database, store: Store) -> None:
    """With its comments, its properties and its units."""
    db.sql("CREATE TABLE t (k INT PRIMARY KEY)")
    db.sql(
        "CREATE MATERIALIZED VIEW v (a COMMENT 'x') COMMENT 'y' "
        "TBLPROPERTIES ('parallelism' = '3', 'x.y' = 'z') AS SELECT k FROM t"
    )
    text = creation_text(store.state, "v")
    db.sql("DROP MATERIALIZED VIEW v")
    db.sql(text)

    assert creation_text(store.state, "v") == text
    assert "'parallelism' = '3'" in text
