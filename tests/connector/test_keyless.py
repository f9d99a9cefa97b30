"""Tables without a primary key through Spark: bags of rows, as Spark's own tables are."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, PySparkException

from relstate.connector.sql import Database, dml_run, lookup
from relstate.storage import Store
from relstate.storage.errors import (
    AppendOnlyError,
    DuplicateKeyError,
    NullValueError,
    OptionError,
    RelstateError,
    SchemaError,
    SchemaMismatchError,
    UnsupportedStatementError,
    UsageError,
)
from support.commands import run
from support.spark import load, save

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Bag = Counter[tuple[Any, ...]]

ROWS = "(1, 'x', 10), (1, 'x', 10), (1, 'x', 11), (2, NULL, 20), (2, NULL, 20), (NULL, 'y', NULL)"
SOURCE = "(SELECT * FROM VALUES (1, 'm', 0), (7, 'm', 1), (7, 'm', 1), (2, NULL, 2) AS s(a, b, n))"
MERGE = f"""
    MERGE INTO events e
    USING (SELECT * FROM {SOURCE} UNION ALL SELECT 3, 'm', count(*) FROM events) s ON e.a = s.a
    WHEN MATCHED AND s.b IS NULL THEN DELETE
    WHEN MATCHED THEN UPDATE SET *
    WHEN NOT MATCHED AND s.n > 0 THEN INSERT *
    WHEN NOT MATCHED BY SOURCE AND e.b = 'y' THEN UPDATE SET n = 99
    WHEN NOT MATCHED BY SOURCE THEN DELETE
"""
MERGED = f"""
    SELECT CASE WHEN s.m THEN s.a ELSE e.a END AS a, CASE WHEN s.m THEN s.b ELSE e.b END AS b,
           CASE WHEN s.m THEN s.n ELSE 99 END AS n
    FROM (SELECT *, true AS m FROM events) e FULL JOIN (SELECT *, true AS m FROM (
        SELECT * FROM {SOURCE} UNION ALL SELECT 3, 'm', count(*) FROM events)) s ON e.a = s.a
    WHERE CASE WHEN e.m AND s.m THEN s.b IS NOT NULL WHEN s.m THEN s.n > 0 ELSE e.b = 'y' END
"""
# Statements, and the SELECT over the rows before that gives the rows after.
STATEMENTS = [
    (f"INSERT INTO events VALUES {ROWS}", f"TABLE events UNION ALL VALUES {ROWS}"),
    ("INSERT INTO events SELECT * FROM events", "TABLE events UNION ALL TABLE events"),
    (
        "INSERT INTO events (b) SELECT b FROM events WHERE n > 10",
        "TABLE events UNION ALL SELECT NULL, b, NULL FROM events WHERE n > 10",
    ),
    (
        "UPDATE events SET n = n + (SELECT max(n) FROM (SELECT * FROM events)) WHERE b = 'x'",
        "SELECT a, b, if(b = 'x', n + (SELECT max(n) FROM events), n) FROM events",
    ),
    ("UPDATE events e SET b = upper(e.b)", "SELECT a, upper(b), n FROM events"),
    (
        "DELETE FROM events WHERE n = (SELECT max(n) FROM events) OR b = 'Y'",
        "SELECT * FROM events WHERE (n = (SELECT max(n) FROM events) OR b = 'Y') IS NOT TRUE",
    ),
    (MERGE, MERGED),
    (
        "MERGE INTO events USING events s ON false WHEN NOT MATCHED THEN INSERT (a) VALUES (s.a)",
        "TABLE events UNION ALL SELECT a, NULL, NULL FROM events",
    ),
    (
        "INSERT OVERWRITE events SELECT * FROM events UNION ALL SELECT * FROM events",
        "TABLE events UNION ALL TABLE events",
    ),
    ("DELETE FROM events WHERE a IS NULL", "SELECT * FROM events WHERE a IS NOT NULL"),
]


@pytest.fixture
def events(db: Database) -> str:
    """The name of an empty table without a primary key."""
    db.sql("CREATE TABLE events (a INT, b STRING, n BIGINT)")
    return "events"


def bag_in(store: Store, table: str) -> Bag:
    """Return the rows of a table, each as often as it is there."""
    return Counter(tuple(row.values()) for row in store.table(table).to_arrow().to_pylist())


def bag_of(rows: DataFrame) -> Bag:
    """Return the rows of a DataFrame, each as often as it is there."""
    return Counter(map(tuple, rows.collect()))


def test_statements_change_rows_as_in_spark(
    spark: SparkSession, db: Database, store: Store, events: str
) -> None:
    """Equal rows are rows of their own; what a statement counts is what became of them."""
    batch = spark.newSession()
    rows: list[tuple[Any, ...]] = []
    for statement, after in STATEMENTS:
        batch.createDataFrame(rows, "a INT, b STRING, n BIGINT").createOrReplaceTempView(events)
        expected = bag_of(batch.sql(after))
        (counts,) = db.sql(statement).collect()

        assert bag_in(store, events) == expected, statement
        assert bag_of(db.sql(f"SELECT * FROM {events}")) == expected
        assert counts.num_inserted_rows - counts.num_deleted_rows == expected.total() - len(rows)
        rows = list(expected.elements())
    assert rows


def test_a_statement_counts_its_rows(db: Database, store: Store, events: str) -> None:
    """Every row that is inserted, whatever is equal to it; updated rows keep their ids."""

    def touched(statement: str) -> tuple[int, ...]:
        return tuple(db.sql(statement).first())[2:]  # type: ignore[arg-type]

    ids = "SELECT _row_id FROM events"
    assert touched(f"INSERT INTO events VALUES {ROWS}") == (6, 0, 0)
    assert touched("INSERT INTO events SELECT id % 2, 'x', id FROM range(20000)") == (20_000, 0, 0)
    before = bag_of(db.sql(f"{ids} WHERE b = 'x'"))
    assert touched("UPDATE events SET n = 0 WHERE b = 'x'") == (0, 20_003, 0)
    assert bag_of(db.sql(f"{ids} WHERE n = 0")) == before
    assert touched("DELETE FROM events WHERE n = 0") == (0, 0, 20_003)
    db.sql("TRUNCATE TABLE events")
    db.sql(f"INSERT INTO events VALUES {ROWS}")
    assert touched("INSERT OVERWRITE events VALUES (1, 'x', 1), (1, 'x', 1)") == (2, 0, 6)
    source = "(SELECT 1 AS a, 5L AS n UNION ALL SELECT 2, 6L UNION ALL SELECT 2, 6L)"
    merge = f"MERGE INTO events e USING {source} s ON e.a = s.a WHEN MATCHED THEN UPDATE SET n = 5"
    assert touched(f"{merge} WHEN NOT MATCHED THEN INSERT (a, n) VALUES (2, 6)") == (2, 2, 0)
    assert bag_in(store, events) == {(1, "x", 5): 2, (2, None, 6): 2}
    db.sql("TRUNCATE TABLE events")
    assert bag_in(store, events) == {}


def test_a_merge_changes_no_row_twice(db: Database, store: Store, events: str) -> None:
    """Two rows of the source for one row; two equal rows of the target are two."""
    db.sql("INSERT INTO events VALUES (1, 'x', 1), (1, 'x', 1)")
    source = "(SELECT 1 AS a UNION ALL SELECT 1)"
    merge = f"MERGE INTO events e USING {source} s ON e.a = s.a WHEN MATCHED THEN"
    with pytest.raises(DuplicateKeyError, match="a row would be changed twice"):
        db.sql(f"{merge} UPDATE SET n = 2")
    source = "(SELECT 1 AS a, 1 AS v UNION ALL SELECT 1, 2)"
    merge = f"MERGE INTO events e USING {source} s ON e.a = s.a WHEN MATCHED"
    with pytest.raises(DuplicateKeyError, match="a row would be changed twice"):
        db.sql(f"{merge} AND v = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET n = 2")
    assert store.table(events).count() == 2


def test_a_merge_deletes_a_row_once_for_several_rows_of_its_source(
    db: Database, store: Store, events: str
) -> None:
    """A row without a key that several rows of the source match is deleted once, and counted so."""
    db.sql("INSERT INTO events VALUES (1, 'x', 1), (1, 'x', 1), (2, 'y', 1)")
    source = "(SELECT 1 AS a UNION ALL SELECT 1 UNION ALL SELECT 3)"
    merge = f"MERGE INTO events e USING {source} s ON e.a = s.a WHEN MATCHED THEN DELETE"
    counts = db.sql(f"{merge} WHEN NOT MATCHED THEN INSERT (a, n) VALUES (3, 6)").collect()
    assert [counts[0].num_inserted_rows, counts[0].num_deleted_rows] == [1, 2]
    assert bag_in(store, events) == {(2, "y", 1): 1, (3, None, 6): 1}


def test_a_merge_of_many_new_rows_runs_several_tasks(
    spark: SparkSession,
    db: Database,
    store: Store,
    events: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They have no key yet that would spread them; the driver writes them if it has them."""
    for module in (lookup, dml_run):
        monkeypatch.setattr(module, "known_rows", lambda _: None)
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        db.sql(
            "MERGE INTO events e USING (SELECT * FROM range(0, 9, 1, 4)) s ON e.n = s.id "
            "WHEN NOT MATCHED THEN INSERT (n) VALUES (s.id)"
        )
    finally:
        spark.conf.set("spark.sql.adaptive.enabled", "true")
    added = next(store.history()).added
    assert len(added) == 2
    assert store.table(events).count() == 9


def test_duplicates_are_removed_by_row_id(db: Database, store: Store, events: str) -> None:
    """The first of equal rows stays: ids ascend."""
    db.sql(f"INSERT INTO events VALUES {ROWS}")
    first = db.sql("SELECT min(_row_id) FROM events WHERE n = 10").first()
    db.sql(
        "DELETE FROM events WHERE _row_id IN (SELECT _row_id FROM (SELECT _row_id, row_number() "
        "OVER (PARTITION BY a, b, n ORDER BY _row_id) AS place FROM events) WHERE place > 1)"
    )
    assert set(bag_in(store, events).values()) == {1}
    assert db.sql("SELECT _row_id FROM events WHERE n = 10").first() == first


@pytest.mark.parametrize(
    "condition",
    [
        "_row_id IN (SELECT _row_id FROM (SELECT *, count(*) OVER () c FROM events) WHERE c > 1)",
        "_row_id IN (SELECT _row_id FROM events, (SELECT * FROM range(1)) WHERE a = 2)",
        "EXISTS (SELECT * FROM events f WHERE f.a = events.a AND events._row_id > _row_id)",
    ],
)
def test_a_row_id_beside_a_star_is_not_that_of_another_row(
    condition: str, db: Database, store: Store, events: str
) -> None:
    """A star leaves it out, and the name must not become that of the row to change."""
    db.sql(f"INSERT INTO events VALUES {ROWS}")
    for statement in ("DELETE FROM events", "UPDATE events SET n = 0"):
        with pytest.raises(UnsupportedStatementError, match="'_row_id', which '\\*' leaves out"):
            db.sql(f"{statement} WHERE {condition}")
    with pytest.raises(UnsupportedStatementError, match="write the names of the columns instead"):
        db.sql("SELECT *, _row_id FROM events")
    assert store.table(events).count() == 6
    assert store.table(events).count(where="n = 0") == 0


@pytest.mark.parametrize(
    "query",
    [
        "SELECT _row_id AS r, n FROM events",
        "SELECT n FROM events WHERE EXISTS (SELECT 1 FROM more m WHERE m.n = events._row_id)",
        "SELECT n FROM events WHERE n IN (SELECT n FROM more WHERE _row_id IS NOT NULL)",
    ],
)
def test_a_view_that_names_a_row_id_is_refused(query: str, db: Database, events: str) -> None:
    """In a subquery, too, where the name could be that of another table's row."""
    db.sql("CREATE TABLE more (n INT PRIMARY KEY)")
    with pytest.raises(RelstateError, match="_row_id"):
        db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert db.store.views() == ()


def test_a_statement_about_row_ids_may_have_a_star_elsewhere(
    db: Database, store: Store, events: str
) -> None:
    """Outside of subqueries the name is that of the row to change."""
    db.sql(f"INSERT INTO events VALUES {ROWS}")
    db.sql("CREATE TABLE more (a INT)")
    db.sql("INSERT INTO more VALUES (2)")
    db.sql("DELETE FROM events WHERE _row_id IS NOT NULL AND a IN (SELECT * FROM more)")
    assert store.table(events).count() == 4
    db.sql(
        "MERGE INTO events e USING more m ON e.a = m.a AND e._row_id IS NOT NULL "
        "WHEN NOT MATCHED BY SOURCE AND e.b = 'y' THEN DELETE"
    )
    assert store.table(events).count() == 3


def test_row_ids_come_with_wide_offsets(
    spark: SparkSession, db: Database, store: Store, events: str
) -> None:
    """If the session asks for them."""
    spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
    try:
        db.sql(f"INSERT INTO events VALUES {ROWS}")
        db.sql(
            "MERGE INTO events e USING (SELECT 2 AS k UNION ALL SELECT 9) s ON e.a = s.k "
            "WHEN MATCHED THEN UPDATE SET n = 0 WHEN NOT MATCHED THEN INSERT (a) VALUES (s.k)"
        )
    finally:
        spark.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")
    assert store.table(events).count(where="n = 0") == 2
    assert store.table(events).count() == 7


def test_rows_are_appended(spark: SparkSession, db: Database, store: Store, events: str) -> None:
    """By a batch, by foreachBatch, in as many tasks as are wanted; overwrite replaces them."""
    rows = spark.createDataFrame([(1, "x", 1), (1, "x", 1)], "a INT, b STRING, n BIGINT")
    save(rows, store, events)
    save(rows.select("b", "a").repartition(3), store, events)
    assert bag_in(store, events) == {(1, "x", 1): 2, (1, "x", None): 2}
    db.writer(events, txn_app_id="a")(rows.repartition(5), 1)
    db.writer(events, txn_app_id="a")(rows, 1)
    db.writer(events, txn_app_id="a", partitions=3)(rows, 2)
    assert bag_in(store, events) == {(1, "x", 1): 6, (1, "x", None): 2}
    assert load(spark, store, events).schema == rows.schema

    save(rows.selectExpr("*", "1.5 AS extra"), store, events, "overwrite", mergeSchema="true")
    assert [row.extra for row in load(spark, store, events).collect()] == [1.5, 1.5]
    assert db.table(events).columns == ["a", "b", "n", "extra"]


def test_a_stream_appends_every_row_once(
    spark: SparkSession, store: Store, events: str, tmp_path: Path
) -> None:
    """A micro-batch that was committed before Spark knew is not written again."""
    source, checkpoint = tmp_path / "source", tmp_path / "checkpoint"
    source.mkdir()

    def append() -> None:
        stream = spark.readStream.schema("a INT, b STRING").json(str(source))
        sink = stream.writeStream.format("relstate").option("table", events)
        sink = sink.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        sink.start(store.path).awaitTermination()

    for number in range(2):
        (source / f"{number}.json").write_text(json.dumps({"a": 1, "b": "x"}))
        append()
    assert bag_in(store, events) == {(1, "x", None): 2}
    epoch = store.epoch

    for name in ("1", ".1.crc"):
        (checkpoint / "commits" / name).unlink()
    append()
    assert store.epoch == epoch
    assert bag_in(store, events) == {(1, "x", None): 2}


def test_a_follower_keeps_a_copy(
    spark: SparkSession, db: Database, store: Store, events: str, tmp_path: Path
) -> None:
    """By the row id, which a feed has if it is named, and which stays the same."""
    db.sql("CREATE TABLE copy (_row_id BINARY, a INT, b STRING, n BIGINT, PRIMARY KEY (_row_id))")

    def follow() -> None:
        feed = load_feed(spark, store, columns="_row_id, a, b, n, _change_type")
        write = db.writer("copy", op_column="_change_type", clustered=True)
        query = feed.writeStream.foreachBatch(write).trigger(availableNow=True)
        query.option("checkpointLocation", str(tmp_path / "copy")).start().awaitTermination()

    for statement, _ in STATEMENTS[:4]:
        db.sql(statement)
    follow()
    for statement, _ in STATEMENTS[4:8]:
        db.sql(statement)
    follow()
    copy = db.sql("SELECT a, b, n FROM copy")
    assert bag_of(copy) == bag_in(store, events)
    assert load_feed(spark, store).columns[:3] == ["a", "b", "n"]


def load_feed(spark: SparkSession, store: Store, **options: str) -> DataFrame:
    """Return the net changes of the events as a stream."""
    reader = spark.readStream.format("relstate").options(table="events", **options)
    return reader.options(readChangeFeed="true", deduplicationMode="netChanges").load(store.path)


def test_the_row_id_is_shown_to_nobody_who_does_not_ask(
    spark: SparkSession, db: Database, store: Store, events: str
) -> None:
    """In no description, plan, schema or error; a query that names it gets it."""
    db.sql(f"INSERT INTO events VALUES {ROWS}")
    db.sql("ALTER TABLE events ADD COLUMN c INT")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT * FROM events")
    shown = [
        db.sql("DESCRIBE events").collect(),
        db.sql("DESCRIBE EXTENDED events").collect(),
        db.sql("EXPLAIN SELECT * FROM events").collect(),
        db.sql("EXPLAIN SELECT count(*) FROM events WHERE a = 1").collect(),
        db.sql("SELECT * FROM v").columns,
        load(spark, store, events).columns,
        [run(command, store.path, events).output for command in ("describe", "scan")],
        run("changes", store.path, events, "--from", "3").output,
    ]
    for text in (
        "SELECT x FROM events",
        "INSERT INTO events (x) VALUES (1)",
        "UPDATE events SET x = 1",
        "ALTER TABLE events DROP COLUMN x",
    ):
        with pytest.raises((RelstateError, AnalysisException)) as info:
            db.sql(text).collect()
        shown.append([str(info.value)])
    assert "row_id" not in str(shown)
    assert db.sql("SELECT _row_id, a FROM events WHERE a = 2").columns == ["_row_id", "a"]
    rows = run("scan", store.path, events, "--columns", "_row_id", "--json").lines
    assert len({row["_row_id"] for row in rows}) == 6


def test_what_needs_a_key_is_refused_in_words(
    spark: SparkSession, db: Database, store: Store, events: str
) -> None:
    """By every door, with what to do instead, and nothing is written."""
    rows = spark.sql("SELECT 1 AS a, 'x' AS b, 1L AS n, 'delete' AS op")
    epoch = store.epoch
    with pytest.raises(UsageError, match="no primary key, so changes cannot name its rows"):
        db.apply_changes(target=events, source=rows, keys=["a"], sequence_by="n")
    with pytest.raises(UsageError, match="op_column cannot say which of its rows change"):
        db.writer(events, op_column="op", clustered=True)
    for options in ({}, {"clustered": "true"}):
        with pytest.raises(PySparkException, match="option 'opColumn' cannot say which"):
            save(rows, store, events, opColumn="op", **options)
    with pytest.raises(PySparkException, match="unknown column '_row_id'"):
        save(db.sql("SELECT _row_id, a FROM events"), store, events)
    for text, error in (
        ("UPDATE events SET _row_id = X'00'", SchemaMismatchError),
        ("INSERT INTO events (_row_id) VALUES (X'00')", SchemaMismatchError),
        ("INSERT INTO events BY NAME SELECT _row_id FROM events", SchemaMismatchError),
        ("ALTER TABLE events RENAME COLUMN _row_id TO i", SchemaError),
        ("CREATE TABLE t (_row_id INT)", SchemaError),
        ("CREATE TABLE t (a INT) TBLPROPERTIES ('merge' = 'partial')", SchemaError),
        ("CREATE TABLE t (a INT) TBLPROPERTIES ('version_column' = 'a')", SchemaError),
        ("CREATE TABLE t (a INT) TBLPROPERTIES ('append' = 'a')", OptionError),
    ):
        with pytest.raises(error):
            db.sql(text)
    got = run("get", store.path, events, "1")
    assert (got.code, "use the command scan" in got.errors) == (2, True)
    assert store.epoch == epoch


def test_an_append_only_table_takes_inserts_only(db: Database, store: Store) -> None:
    """Declared so, a table without a primary key is one: equal rows are new rows."""
    db.sql("CREATE TABLE log (a INT NOT NULL) TBLPROPERTIES ('append_only' = 'true')")
    db.sql("INSERT INTO log VALUES (1), (1)")
    db.sql("MERGE INTO log USING log s ON false WHEN NOT MATCHED THEN INSERT *")
    for text in (
        "DELETE FROM log",
        "UPDATE log SET a = 2",
        "INSERT OVERWRITE log VALUES (1)",
        "TRUNCATE TABLE log",
    ):
        with pytest.raises(AppendOnlyError):
            db.sql(text)
    with pytest.raises(NullValueError, match="'a' is NULL in row 0 of the batch"):
        db.sql("INSERT INTO log VALUES (NULL)")
    assert bag_in(store, "log") == {(1,): 4}
