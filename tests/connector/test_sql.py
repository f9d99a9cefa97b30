"""The laws of ``db.sql``: statements and queries."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException

from relstate.connector.sql import Database, connect
from relstate.storage import Store
from relstate.storage.errors import (
    EpochNotFoundError,
    SchemaError,
    SchemaMismatchError,
    SessionError,
    TableExistsError,
    TableNameError,
    TableNotFoundError,
    UnsupportedStatementError,
)
from support.spark import customers, orders_of, put_orders, save

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def filled(store: Store, orders: str) -> str:
    """The table of orders with three rows."""
    return put_orders(store, (1, "ann"), (2, "bob"), (3, "ann"))


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    """Return the rows of a DataFrame, sorted."""
    return sorted(map(tuple, frame.collect()))


def test_tables_come_and_go(db: Database, store: Store) -> None:
    """Each statement is one epoch, which it returns; IF EXISTS and IF NOT EXISTS change nothing."""
    epoch = store.epoch
    made = db.sql("CREATE TABLE t (a INT, b STRING, PRIMARY KEY (a DESC))")
    assert rows(made) == [(epoch + 1,)]
    db.sql("CREATE TABLE IF NOT EXISTS t (x INT PRIMARY KEY)")
    db.sql("CREATE TABLE Two (x INT PRIMARY KEY)")

    assert store.tables() == ("Two", "t")
    assert rows(db.sql("SHOW TABLES")) == [("Two",), ("t",)]
    assert rows(db.sql("SHOW TABLES LIKE 't*'")) == [("Two",), ("t",)]
    assert rows(db.sql("SHOW TABLES LIKE 'x|tw*'")) == [("Two",)]

    db.sql("DROP TABLE T")
    db.sql("DROP TABLE IF EXISTS t")
    assert store.tables() == ("Two",)
    assert store.epoch == epoch + 3


def test_comments_of_columns_are_kept(db: Database) -> None:
    """They are in DESCRIBE and in the schema of a read, until they are altered."""
    db.sql(
        "CREATE TABLE t (k INT COMMENT 'its ''key'' here' PRIMARY KEY, "
        "v STRUCT<x: INT COMMENT 'inside'> COMMENT \"a\\tb\")"
    )
    key, value = db.sql("SELECT k, v FROM t").schema

    assert key.metadata == {"comment": "its 'key' here"}
    assert value.metadata == {"comment": "a\tb"}
    assert value.dataType["x"].metadata == {"comment": "inside"}  # type: ignore[index]
    db.sql("ALTER TABLE t ALTER COLUMN k COMMENT 'another'")
    assert [row.comment for row in db.sql("DESCRIBE t").collect()] == ["another", "a\tb"]
    assert db.sql("SELECT * FROM t").schema["k"].metadata == {"comment": "another"}


def test_a_table_is_described(db: Database) -> None:
    """Its columns in their order, with their position and order in the keys."""
    db.sql(
        "CREATE TABLE t (a INT, b STRUCT<x: INT NOT NULL>, `c d` DECIMAL(5,2) NOT NULL "
        "COMMENT 'of the day', e STRING, "
        "PRIMARY KEY ((e), a DESC NULLS FIRST))"
    )

    described = [tuple(row) for row in db.sql("DESCRIBE TABLE t").collect()]

    assert described == [
        ("a", "INT", False, 2, "DESC NULLS FIRST", False, None),
        ("b", "STRUCT<x: INT NOT NULL>", True, None, None, False, None),
        ("c d", "DECIMAL(5,2)", False, None, None, False, "of the day"),
        ("e", "STRING", False, 1, "ASC NULLS FIRST", True, None),
    ]


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("CREATE TABLE orders (a INT PRIMARY KEY)", TableExistsError),
        ("CREATE TABLE `../x` (a INT PRIMARY KEY)", TableNameError),
        ("CREATE TABLE __internal_x (a INT PRIMARY KEY)", TableNameError),
        ("CREATE TABLE t (a INT, PRIMARY KEY (b))", SchemaError),
        ("CREATE TABLE t (a MAP<INT, INT> PRIMARY KEY)", SchemaError),
        ("CREATE TABLE t (a WHATEVER PRIMARY KEY)", Exception),
        ("DROP TABLE nothing", TableNotFoundError),
        ("DESCRIBE nothing", TableNotFoundError),
        ("INSERT INTO orders VALUES (1)", SchemaMismatchError),
        ("SELECT * FROM orders VERSION AS OF 1", TableNotFoundError),
        ("SELECT * FROM orders VERSION AS OF 99", EpochNotFoundError),
        ("SELECT * FROM orders TIMESTAMP AS OF '2020-01-01'", EpochNotFoundError),
    ],
)
def test_what_cannot_be_done_raises_our_own_errors(
    db: Database, store: Store, orders: str, statement: str, error: type[Exception]
) -> None:
    """The error is not wrapped, and nothing has changed."""
    epoch = store.epoch

    with pytest.raises(error) as caught:
        db.sql(statement)

    assert type(caught.value).__module__ == "relstate.storage.errors"
    assert store.epoch == epoch


def test_a_query_joins_and_nests(db: Database, filled: str) -> None:
    """One table may occur twice, in subqueries and in common table expressions."""
    query = """
        WITH big AS (SELECT customer, count(*) AS n FROM orders GROUP BY customer)
        SELECT o.id, big.n, '{o}' AS braces
        FROM orders o JOIN big USING (customer)
        WHERE o.id IN (SELECT max(id) FROM ORDERS GROUP BY customer)
    """

    assert rows(db.sql(query)) == [(2, 1, "{o}"), (3, 2, "{o}")]


def test_other_names_are_sparks(spark: SparkSession, db: Database, filled: str) -> None:
    """Views of the session can be joined; a table hides a view of its name."""
    spark.sql("SELECT 'ann' AS customer, 'Ann Lee' AS full").createOrReplaceTempView("names")
    spark.sql("SELECT 7 AS id").createOrReplaceTempView("orders")
    try:
        joined = db.sql("SELECT id, full FROM orders JOIN names USING (customer)")
        assert rows(joined) == [(1, "Ann Lee"), (3, "Ann Lee")]
        assert rows(db.sql("SELECT full FROM names")) == [("Ann Lee",)]
        assert rows(db.sql("SELECT id + 1 FROM range(2)")) == [(1,), (2,)]
        assert rows(spark.sql("SELECT id FROM orders")) == [(7,)]
    finally:
        spark.catalog.dropTempView("names")
        spark.catalog.dropTempView("orders")


def test_nothing_stays_behind(spark: SparkSession, db: Database, filled: str) -> None:
    """A query, also one that fails, leaves no view in the session."""
    before = {table.name for table in spark.catalog.listTables()}
    db.sql("SELECT a.id FROM orders a, orders b").count()
    with pytest.raises(AnalysisException):
        db.sql("SELECT nothing FROM orders")

    assert {table.name for table in spark.catalog.listTables()} == before


@pytest.mark.parametrize(
    ("query", "condition", "sentence"),
    [
        ("SELECT id FROM nothing", "TABLE_OR_VIEW_NOT_FOUND", "`nothing`; the tables .*: orders"),
        ("SELECT * FROM order", "TABLE_OR_VIEW_NOT_FOUND", "`order`, did you mean orders"),
        (
            "SELECT o.id FROM orders o JOIN nothing USING (id)",
            "TABLE_OR_VIEW_NOT_FOUND",
            "no table or view `nothing`",
        ),
        (
            "SELECT nothing FROM orders",
            "UNRESOLVED_COLUMN",
            r"no column `nothing`; the tables .*: orders \(id, customer, amount, note\)",
        ),
        ("SELECT o.amuont FROM orders o", "UNRESOLVED_COLUMN", "`amuont`, did you mean amount"),
        (
            "SELECT a.id FROM orders a JOIN orders b USING (nothing)",
            "UNRESOLVED_USING_COLUMN_FOR_JOIN",
            "no column `nothing`",
        ),
        ("SELECT id FROM orders a JOIN orders b ON a.id = b.id", "AMBIGUOUS_REFERENCE", "`id`"),
        ("SELECT a.id FROM orders a JOIN orders b ON id = b.id", "AMBIGUOUS", r"SQLSTATE: \d+$"),
        ("SELECT\n nope(id) FROM orders", "UNRESOLVED_ROUTINE", "; line 2 pos 1$"),
        (
            "SELECT cuont(id) FROM orders",
            "UNRESOLVED_ROUTINE",
            "function `cuont`, did you mean count",
        ),
        (
            "SELECT * FROM rnage(3), orders",
            "UNRESOLVABLE_TABLE",
            "`rnage`, did you mean range",
        ),
        ("SELECT id, FROM orders", "TRAILING_COMMA_IN_SELECT", "the trailing comma"),
        ("SELECT sum(id), customer FROM orders", "MISSING_GROUP_BY|MISSING_AGGREGATION", "GROUP"),
        ("SELECT id + FROM orders WHERE", "", "cannot read"),
        (
            # Spark 4.1 says no more than the condition.
            "SELECT * FROM a.b.orders",
            "REQUIRES_SINGLE_PART",
            "`a`.`b`.`orders` .* write orders|no table .* of this name; the tables .*: orders",
        ),
        ("SELECT * FROM default.orders", "TABLE_OR_VIEW_NOT_FOUND", "of one part, write orders"),
        ("SELECT * FROM orders@2026", "", "'@2026': write t@v3 or VERSION AS OF 3"),
    ],
)
def test_what_is_wrong_with_a_query_is_told_in_its_own_names(
    db: Database, filled: str, query: str, condition: str, sentence: str
) -> None:
    """The error has Spark's condition and all tables or columns there are, pruned ones included."""
    with pytest.raises((AnalysisException, UnsupportedStatementError), match=sentence) as raised:
        db.sql(query).collect()
    text = str(raised.value)
    assert "_pyspark_" not in text
    assert "RelationV2" not in text
    if isinstance(raised.value, AnalysisException):
        assert re.match(condition, raised.value.getCondition() or "")
        assert text.count(raised.value.getCondition() or "") == 1


def test_what_is_wrong_with_a_view_is_told_in_its_own_names(db: Database, filled: str) -> None:
    """The error of a CREATE has the columns there are, and neither plans nor internal names."""
    with pytest.raises(AnalysisException, match=r"no column `z`; .*: orders \(id, ") as raised:
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT z FROM orders")
    assert "_pyspark_" not in str(raised.value)
    with pytest.raises(TableNotFoundError, match="no table 'nothing'"):
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT z FROM nothing")


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT '\ud83d'",
        "SELECT id FROM orders WHERE customer = '\ud83d'",
        "UPDATE orders SET customer = '\ud83d'",
        "ALTER TABLE orders ALTER COLUMN customer COMMENT '\ud83d'",
        "CREATE TABLE `\ud83d` (id INT PRIMARY KEY)",
        "CREATE MATERIALIZED VIEW v AS SELECT id FROM orders WHERE customer = '\ud83d'",
    ],
)
def test_half_a_character_is_in_no_statement(db: Database, filled: str, statement: str) -> None:
    """A lone surrogate, which cannot be sent to Spark, is refused wherever it is."""
    with pytest.raises(UnsupportedStatementError, match="lone surrogate"):
        db.sql(statement)


@pytest.mark.parametrize("name", ["semi", "anti", "left", "right", "natural"])
def test_a_table_named_by_a_word_of_joins_is_read_by_it(db: Database, name: str) -> None:
    """The alias that replaces the name in the query is quoted."""
    db.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
    db.sql(f"INSERT INTO {name} VALUES (1)")
    assert rows(db.sql(f"SELECT id FROM {name}")) == [(1,)]


def test_what_is_not_a_statement_or_a_session_is_refused(db: Database, store: Store) -> None:
    """The error is relstate's, and says what is needed."""
    with pytest.raises(UnsupportedStatementError, match="is not text"):
        db.sql(5)  # type: ignore[arg-type]
    with pytest.raises(SessionError, match="a SparkSession, not None"):
        connect(None, store.path)  # type: ignore[arg-type]


def test_a_query_reads_one_epoch(
    spark: SparkSession, db: Database, store: Store, filled: str
) -> None:
    """All its tables are read at the epoch that was the latest when `sql` was called."""
    query = db.sql("SELECT a.id, b.customer FROM orders a JOIN orders b USING (id)")
    table = db.table("orders")
    save(orders_of(spark, (1, "zoe"), (4, "zoe")), store, filled)

    assert rows(query) == [(1, "ann"), (2, "bob"), (3, "ann")]
    assert customers(table) == {1: "ann", 2: "bob", 3: "ann"}
    assert db.sql("SELECT * FROM orders").count() == 4


def test_only_named_columns_are_read(db: Database, filled: str) -> None:
    """Per reference; a query that names no column reads the first."""

    def read(query: str) -> str:
        """Return the analyzed plan."""
        return str(db.sql(query)._jdf.queryExecution().analyzed().toString())

    plan = read("SELECT o.id FROM orders o JOIN orders p ON o.id = p.id AND p.note IS NULL")
    assert "customer" not in plan
    assert "amount" not in plan
    assert "customer" not in read("SELECT count(*) FROM orders")
    assert rows(db.sql("SELECT count(*) FROM orders")) == [(3,)]
    assert "amount" in read("SELECT * FROM orders")


def test_a_table_may_be_read_at_an_epoch(
    spark: SparkSession, db: Database, store: Store, filled: str
) -> None:
    """Also a table that was dropped since."""
    epoch = store.epoch
    db.sql("DROP TABLE orders")

    assert customers(db.table("orders", version=epoch)) == {1: "ann", 2: "bob", 3: "ann"}
    with pytest.raises(TableNotFoundError):
        db.table("orders")
    with pytest.raises(EpochNotFoundError):
        db.table("orders", version=epoch + 99)


def test_tables_of_any_name_are_found(db: Database) -> None:
    """Also a name that is a word of SQL, or in capitals."""
    db.sql("CREATE TABLE `Order` (`select` INT PRIMARY KEY)")

    assert db.sql("SELECT `select` FROM `order`").columns == ["select"]
    assert db.table("ORDER").count() == 0


def test_the_store_is_at_hand(db: Database, store: Store, spark: SparkSession) -> None:
    """``db.store`` is for what needs no Spark."""
    assert db.store.path == store.path
    assert db.spark is spark
