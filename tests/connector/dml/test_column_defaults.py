"""The laws of DEFAULT in SQL: a row that is written without a column has its default."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

from relstate.connector.sql import Database
from relstate.connector.sql.column_defaults import with_defaults
from relstate.connector.sql.dml import Insert
from relstate.storage import Store
from relstate.storage.errors import (
    SchemaError,
    UnsupportedExpressionError,
    UnsupportedStatementError,
)
from support.spark import configured, only_row, sorted_rows
from support.stores import stored_row

CREATE = (
    "CREATE TABLE t (id BIGINT PRIMARY KEY, n INT NOT NULL DEFAULT -1 COMMENT 'a number', "
    "name STRING DEFAULT 'it''s \\\\ \\'new\\'', at TIMESTAMP DEFAULT '2026-01-01 00:00:00', "
    "price DECIMAL(8,2) DEFAULT 9.5, plain INT)"
)


def values_of(store: Store, number: int) -> tuple[Any, ...]:
    """Return what a row has in the columns n, plain and price."""
    row = stored_row(store.table("t"), number)
    return (row.n, row.plain, str(row.price))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("VALUES (7, DEFAULT), (default, f(8))", "VALUES (7, D1), (D0, f(8))"),
        ("SELECT 7, DEFAULT", "SELECT 7, D1"),
        ("VALUES ('from', DEFAULT), (`from`, DEFAULT)", "VALUES ('from', D1), (`from`, D1)"),
        ("VALUES (extract(YEAR FROM d), DEFAULT)", "VALUES (extract(YEAR FROM d), D1)"),
        ("VALUES (f(1, 2), DEFAULT)", "VALUES (f(1, 2), D1)"),
        ("SELECT `default`, DEFAULT FROM s WHERE s.default = 'default'",
         "SELECT `default`, D1 FROM s WHERE s.default = 'default'"),
        ("SELECT `default`, 'default', x AS default", "SELECT `default`, 'default', x AS default"),
        ("SELECT 1, 2, DEFAULT", "SELECT 1, 2, NULL"),
        ("VALUES (NULL::MAP<STRING,INT>, DEFAULT)", "VALUES (NULL::MAP<STRING,INT>, D1)"),
        ("VALUES (1, (DEFAULT)), (DEFAULT, 2)", "VALUES (1, (D1)), (D0, 2)"),
        ("(SELECT 1, DEFAULT)", "(SELECT 1, D1)"),
        ("SELECT DEFAULT AS x, *", "SELECT D0 AS x, *"),
        ("SELECT stack(1, 2) AS x, DEFAULT", "SELECT stack(1, 2) AS x, D1"),
        ("SELECT count(*), DEFAULT FROM s", "SELECT count(*), D1 FROM s"),
        ("FROM s SELECT 1, DEFAULT", "FROM s SELECT 1, D1"),
        ("WITH w AS (SELECT 1) SELECT 1, DEFAULT FROM w",
         "WITH w AS (SELECT 1) SELECT 1, D1 FROM w"),
        ("SELECT DEFAULT, 1 UNION ALL (SELECT 2, DEFAULT UNION VALUES (DEFAULT, DEFAULT))",
         "SELECT D0, 1 UNION ALL (SELECT 2, D1 UNION VALUES (D0, D1))"),
    ],
)  # fmt: skip
def test_the_word_default_is_the_default_of_its_column(
    store: Store, query: str, expected: str
) -> None:
    """By its item, in each row of VALUES and in each side of a UNION; a column stays one."""
    texts = {"D0": "CAST(1 AS INT)", "D1": "CAST('x' AS STRING)"}
    for name, text in texts.items():
        expected = expected.replace(name, text)
    assert query_with_defaults(store, query) == expected


@pytest.mark.parametrize(
    ("query", "match"),
    [
        ("SELECT *, DEFAULT FROM s", r"after \*, which may be several columns"),
        ("SELECT s.*, 1, DEFAULT FROM s", r"after s\.\*, which"),
        ("SELECT * EXCEPT (x), DEFAULT FROM s", "several columns"),
        ("SELECT stack(1, 2, 3), DEFAULT", "several columns"),
        ("SELECT INLINE(x), DEFAULT FROM s", "several columns"),
        ("SELECT system.builtin.posexplode(x), DEFAULT FROM s", "several columns"),
        ("SELECT json_tuple(x, 'a', 'b') AS (a, b), DEFAULT FROM s", "several columns"),
        ("SELECT 1, 2 UNION ALL SELECT *, DEFAULT FROM s", "several columns"),
        ("SELECT 1, f(DEFAULT)", "not an item of VALUES.* at 'DEFAULT\\)'"),
        ("SELECT 1, DEFAULT + 1", "in backticks"),
        ("SELECT 1, DEFAULT FROM (SELECT 1, DEFAULT)", "not an item"),
        ("SELECT * FROM VALUES (1, DEFAULT)", "not an item"),
        ("SELECT 1, 2 UNION SELECT *, 1 FROM VALUES (DEFAULT)", "not an item"),
        ("WITH w AS (SELECT DEFAULT) SELECT * FROM w", "not an item"),
        ("SELECT 1 AS k, 2 AS a UNION BY NAME SELECT DEFAULT AS a, 2 AS k", "not an item"),
        ("VALUES (1, (SELECT DEFAULT))", "not an item"),
        ("SELECT 1, DEFAULT UNION ALL TABLE s", "cannot read .* leave this one out"),
    ],
)  # fmt: skip
def test_the_word_default_is_refused_elsewhere(store: Store, query: str, match: str) -> None:
    """Where its column is not known, with what to write."""
    with pytest.raises(UnsupportedStatementError, match=match):
        query_with_defaults(store, query)
    with pytest.raises(UnsupportedStatementError):
        query_with_defaults(store, query, by_name=True)


def query_with_defaults(store: Store, query: str, *, by_name: bool = False) -> str:
    """Return the query of an INSERT into columns with the defaults 1 and 'x'."""
    defaults = {"a": "1", "b": "'x'"}
    store.create_table(
        "t", "k INT, a INT, b STRING", primary_key=["k"], defaults=defaults, if_not_exists=True
    )
    columns = None if by_name else ("a", "b")
    given = Insert("t", query, columns, by_name=by_name)
    insert = with_defaults(given, store.jobs.write_target("t"))
    assert isinstance(insert, Insert)
    return insert.query


def test_statements_give_defaults(db: Database, store: Store) -> None:
    """To columns that an INSERT or MERGE leaves out, and to the word; NULL stays NULL."""
    db.sql(CREATE)
    db.sql("INSERT INTO t (id) VALUES (1)")
    db.sql("INSERT INTO t VALUES (2, DEFAULT, DEFAULT, DEFAULT, DEFAULT, DEFAULT)")
    db.sql("INSERT INTO t (id, price, plain) VALUES (3, NULL, 3)")
    db.sql("INSERT INTO t BY NAME SELECT 4L AS id, 5 AS plain")
    db.sql(
        "MERGE INTO t USING (SELECT 5L AS id UNION ALL SELECT 1L) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET plain = DEFAULT, n = DEFAULT "
        "WHEN NOT MATCHED THEN INSERT (id, plain) VALUES (s.id, 6)"
    )
    db.sql("UPDATE t SET n = 8 WHERE id = 3")
    db.sql("UPDATE t SET n = DEFAULT WHERE id = 3")

    rows = {row[0]: row[1:] for row in sorted_rows(store, "t")}
    text = "it's \\ 'new'"
    first = stored_row(store.table("t"), 1)
    assert (first.name, str(first.at)) == (text, "2026-01-01 00:00:00+00:00")
    assert rows[1] == rows[2]
    assert [values_of(store, number) for number in range(1, 6)] == [
        (-1, None, "9.50"),
        (-1, None, "9.50"),
        (-1, 3, "None"),
        (-1, 5, "9.50"),
        (-1, 6, "9.50"),
    ]


def test_the_word_default_keeps_to_its_column(db: Database, store: Store) -> None:
    """Whatever the columns of the query before it are; a refusal writes nothing."""
    db.sql("CREATE TABLE t (k INT PRIMARY KEY, a INT DEFAULT 1, b INT DEFAULT 99)")
    with pytest.raises(UnsupportedStatementError, match="several columns"):
        db.sql("INSERT OVERWRITE t SELECT s.*, DEFAULT FROM VALUES (1, 2) AS s(k, a)")
    db.sql("INSERT INTO t (a, k, b) SELECT DEFAULT, 1, 5 UNION ALL VALUES (DEFAULT, 2, DEFAULT)")
    db.sql("INSERT INTO t (k, b) SELECT `default`, DEFAULT AS b FROM VALUES (3) AS s(default)")
    assert sorted_rows(store, "t") == [(1, 1, 5), (2, 1, 99), (3, 1, 99)]


def test_statements_give_defaults_of_each_type(db: Database, store: Store) -> None:
    """By the word and in a MERGE; a local time is one that the zone of the session does not have.

    TIME is refused in a MERGE, of which Spark does not compute it.
    """
    db.sql(
        "CREATE TABLE t (k INT PRIMARY KEY, c STRING COLLATE UTF8_LCASE DEFAULT 'A', "
        "n TIMESTAMP_NTZ DEFAULT '2026-03-29 02:30:00', d DATE DEFAULT '2026-01-31', "
        "b BINARY DEFAULT X'00FF', f FLOAT DEFAULT 0.1, y BOOLEAN DEFAULT TRUE)"
    )
    with configured(db.spark, {"spark.sql.session.timeZone": "Europe/Berlin"}):
        db.sql("INSERT INTO t (k) VALUES (1)")
        db.sql("INSERT INTO t VALUES (2, DEFAULT, DEFAULT, DEFAULT, DEFAULT, DEFAULT, DEFAULT)")
        db.sql("INSERT INTO t (k, c) VALUES (3, DEFAULT), (4, 'A')")
        db.sql(
            "MERGE INTO t USING (SELECT 5 AS k) s ON t.k = s.k "
            "WHEN NOT MATCHED THEN INSERT (k) VALUES (s.k)"
        )
    rows = [row[1:] for row in sorted_rows(store, "t")]
    assert str(rows[0][1]) == "2026-03-29 02:30:00"
    assert rows == [rows[0]] * 5

    columns = "k INT, c TIME"
    store.create_table("u", columns, primary_key=["k"], defaults={"c": "CAST('12:30:00' AS TIME)"})
    db.sql("INSERT INTO u VALUES (1, DEFAULT)")
    db.sql("INSERT INTO u (k) VALUES (2)")
    with pytest.raises(UnsupportedStatementError, match="write the rows with INSERT"):
        db.sql(
            "MERGE INTO u USING (SELECT 3 AS k) s ON u.k = s.k "
            "WHEN NOT MATCHED THEN INSERT (k) VALUES (s.k)"
        )
    assert [str(row[1]) for row in sorted_rows(store, "u")] == ["12:30:00", "12:30:00"]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO t (k) SELECT 2 UNION ALL SELECT 3",
        "INSERT INTO t VALUES (2, DEFAULT, DEFAULT, DEFAULT), (3, DEFAULT, DEFAULT, DEFAULT)",
        "INSERT INTO t (k, at) VALUES (2, DEFAULT), (3, DEFAULT)",
        (
            "MERGE INTO t USING (SELECT 1 AS k UNION ALL SELECT 2) s ON t.k = s.k WHEN MATCHED "
            "THEN UPDATE SET at = DEFAULT, day = DEFAULT, local = DEFAULT "
            "WHEN NOT MATCHED THEN INSERT (k) VALUES (s.k)"
        ),
        "UPDATE t SET at = DEFAULT, day = DEFAULT, local = DEFAULT",
    ],
)
def test_a_statement_has_one_time(db: Database, store: Store, statement: str) -> None:
    """That of the clock in UTC, whoever gives it to a row: the writer, or the word DEFAULT."""
    db.sql(
        "CREATE TABLE t (k INT PRIMARY KEY, at TIMESTAMP NOT NULL DEFAULT current_timestamp() "
        "COMMENT 'x', day DATE DEFAULT current_date, local TIMESTAMP_NTZ DEFAULT now())"
    )
    (shown,) = only_row(db.sql("SHOW CREATE TABLE t"))
    assert "NOT NULL DEFAULT current_timestamp() COMMENT 'x'" in shown
    store.write("t", [{"k": 1}])
    before = datetime.fromtimestamp(store.environment.now() / 1_000_000, UTC)
    with configured(db.spark, {"spark.sql.session.timeZone": "Pacific/Kiritimati"}):
        db.sql(statement)
    rows = store.table("t").to_dicts()
    for row in rows:
        local = row["at"].replace(tzinfo=None)
        assert (row["day"], row["local"]) == (local.date(), local)
    assert len({row["at"] for row in rows if row["at"] >= before}) == 1


def test_dataframes_give_defaults(db: Database, store: Store, spark: SparkSession) -> None:
    """Through db.write and format("relstate"), on the driver and in tasks."""
    db.sql(CREATE)
    db.write(spark.range(3), "t")
    writer = spark.range(3, 6).write.format("relstate").option("table", "t").mode("append")
    writer.save(store.path)

    assert store.table("t").count(where="n = -1 AND price = 9.5 AND plain IS NULL") == 6
    store.create_table("u", "id BIGINT, at TIMESTAMP", primary_key=["id"], defaults={"at": "now()"})
    db.write(spark.range(0, 10, 1, 2), "u")
    writer = spark.range(10, 20, 1, 2).write.format("relstate").option("table", "u").mode("append")
    writer.save(store.path)
    times = dict(sorted_rows(store, "u"))
    assert len({times[number] for number in range(10)}) == 1
    assert len({times[number] for number in range(10, 20)}) == 1
    assert times[0] < times[10]


def test_defaults_are_shown_and_altered(db: Database, store: Store) -> None:
    """SHOW CREATE TABLE and LIKE repeat them; SET and DROP DEFAULT change later rows only."""
    db.sql(CREATE)
    (text,) = only_row(db.sql("SHOW CREATE TABLE t"))
    db.sql(text.replace("TABLE `t`", "TABLE `u`"))
    db.sql("CREATE TABLE v LIKE t")
    for name in ("u", "v"):
        columns = store.state.table(name).definition.schema.columns
        assert columns == store.state.table("t").definition.schema.columns
    details = {row.col_name: row.data_type for row in db.sql("DESCRIBE EXTENDED t").collect()[6:]}
    assert details["n"] == "-1"

    db.sql("INSERT INTO t (id) VALUES (1)")
    db.sql("ALTER TABLE t ALTER COLUMN n SET DEFAULT 5")
    db.sql("ALTER TABLE t ALTER COLUMN price DROP DEFAULT")
    db.sql("INSERT INTO t (id) VALUES (2)")
    assert values_of(store, 1) == (-1, None, "9.50")
    assert values_of(store, 2) == (5, None, "None")


def test_a_restore_gives_no_defaults(db: Database, store: Store) -> None:
    """A column that came after the epoch is NULL, through SQL and without Spark."""
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")
    before = only_row(db.sql("INSERT INTO t VALUES (1)")).epoch
    db.sql("ALTER TABLE t ADD COLUMN n INT")
    db.sql("ALTER TABLE t ALTER COLUMN n SET DEFAULT 5")
    db.sql("INSERT INTO t (id) VALUES (2)")
    db.sql(f"RESTORE t TO VERSION AS OF {before}")
    assert sorted_rows(store, "t") == [(1, None)]
    store.restore("t", before)
    assert sorted_rows(store, "t") == [(1, None)]


def test_a_view_follows_defaults(db: Database, store: Store) -> None:
    """A default is altered under a view, and its rows come with the values that were written."""
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, n INT DEFAULT 2)")
    db.sql("CREATE MATERIALIZED VIEW s AS SELECT n, count(*) AS c FROM t GROUP BY n")
    db.sql("INSERT INTO t (id) VALUES (1), (2)")
    db.sql("ALTER TABLE t ALTER COLUMN n SET DEFAULT 3")
    db.sql("INSERT INTO t (id) VALUES (3)")
    db.refresh()
    assert sorted(tuple(row) for row in db.sql("SELECT n, c FROM s").collect()) == [(2, 2), (3, 1)]


@pytest.mark.parametrize(
    ("statement", "error", "match"),
    [
        ("CREATE TABLE u (a INT PRIMARY KEY, b STRING DEFAULT current_user())",
         UnsupportedExpressionError, "'CURRENT_USER.*a DEFAULT is a constant"),
        ("CREATE TABLE u (a INT PRIMARY KEY, b STRING DEFAULT current_timestamp())",
         SchemaError, "the present time is a DATE, a TIMESTAMP"),
        ("CREATE TABLE u (a INT PRIMARY KEY, b INT DEFAULT a)",
         UnsupportedExpressionError, "reads a column"),
        ("CREATE TABLE u (a INT PRIMARY KEY, b INT DEFAULT 'x')", SchemaError, "not a INT"),
        ("CREATE TABLE u (a INT PRIMARY KEY, b TINYINT DEFAULT 300)", SchemaError, "300"),
        ("CREATE TABLE u (a INT DEFAULT 1 PRIMARY KEY, b INT)", SchemaError, "primary key"),
        ("CREATE TABLE u (a INT PRIMARY KEY, b INT DEFAULT 1) TBLPROPERTIES ('merge' = 'partial')",
         SchemaError, "keeps its value"),
        ("ALTER TABLE t ADD COLUMN c INT DEFAULT 1", UnsupportedStatementError, "SET DEFAULT"),
        ("CREATE TABLE u (a INT PRIMARY KEY, b INT DEFAULT)",
         UnsupportedStatementError, "after DEFAULT"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_default_is_refused(
    db: Database, statement: str, error: type[Exception], match: str
) -> None:
    """By its name, with what to write; nothing is committed."""
    db.sql("CREATE TABLE t (a INT PRIMARY KEY)")
    with pytest.raises(error, match=match):
        db.sql(statement)
    assert db.sql("SHOW TABLES").count() == 1
