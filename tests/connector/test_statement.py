"""The laws of the statements of the SQL interface."""

from __future__ import annotations

import pytest

from relstate.connector.sql.create_table import CreateTable, CreateTableAs, CreateTableLike
from relstate.connector.sql.ddl import (
    AddColumns,
    AddConstraint,
    AllowNull,
    CommentColumn,
    DropConstraint,
    DropTable,
    RenameTable,
)
from relstate.connector.sql.maintenance_statements import Analyze, Optimize, Restore, Vacuum
from relstate.connector.sql.show import (
    DescribeColumn,
    DescribeDetail,
    DescribeHistory,
    DescribeTable,
    ShowColumns,
    ShowCreate,
    ShowTables,
)
from relstate.connector.sql.statement import Query, Statement, parse_statement
from relstate.connector.sql.view_ddl import ShowViews
from relstate.connector.syntax.parsed_query import AsOf
from relstate.storage.errors import UnsupportedStatementError


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        (
            "CREATE TABLE t (id BIGINT, v STRING, PRIMARY KEY (id))",
            CreateTable("t", "id BIGINT, v STRING", ("id",), None, False),
        ),
        (
            (
                "create table if not exists `t` (a INT NOT NULL, b DECIMAL(12,2) COMMENT 'x, y', "
                "primary key (a, `b` desc nulls last));"
            ),
            CreateTable(
                "t",
                "a INT NOT NULL, b DECIMAL(12,2) COMMENT 'x, y'",
                ("a", "`b` desc nulls last"),
                None,
                True,
            ),
        ),
        (
            "CREATE TABLE t (c INT, n INT, s STRUCT<a: INT, b: ARRAY<INT>>, PRIMARY KEY ((c), n))",
            CreateTable(
                "t", "c INT, n INT, s STRUCT<a: INT, b: ARRAY<INT>>", ("c", "n"), ("c",), False
            ),
        ),
        (
            "CREATE TABLE t (id BIGINT PRIMARY KEY, date DATE)",
            CreateTable("t", "id BIGINT, date DATE", ("id",), None, False),
        ),
        (
            "CREATE TABLE t (a INT, b INT, PRIMARY KEY ((`a`), `b` DESC)) USING relstate",
            CreateTable("t", "a INT, b INT", ("`a`", "`b` DESC"), ("a",), False),
        ),
        (
            "CREATE OR REPLACE TABLE t (a INT) USING RelState COMMENT 'c'",
            CreateTable("t", "a INT", None, None, False, {"comment": "c"}, or_replace=True),
        ),
        (
            "CREATE TABLE t USING relstate AS SELECT 1 AS a",
            CreateTableAs("t", "SELECT 1 AS a", None, None, False),
        ),
        (
            "CREATE OR REPLACE TABLE t (PRIMARY KEY (a)) TBLPROPERTIES ('ttl' = '1 day') FROM s",
            CreateTableAs("t", "FROM s", ("a",), None, False, {"ttl": "1 day"}, or_replace=True),
        ),
        (
            (
                "CREATE TABLE t (a INT CHECK (a > 0) , b INT, PRIMARY KEY (a), "
                "CONSTRAINT c CHECK (a < b AND (b < 9)), CHECK (b <> 3))"
            ),
            CreateTable(
                "t",
                "a INT, b INT",
                ("a",),
                None,
                False,
                constraints={"check_1": "a > 0", "c": "a < b AND (b < 9)", "check_3": "b <> 3"},
            ),
        ),
        (
            (
                "CREATE TABLE t (a INT, b INT NOT NULL GENERATED ALWAYS AS (greatest(a, 1) * 2) "
                "COMMENT 'x' CHECK (b > 0))"
            ),
            CreateTable(
                "t",
                "a INT, b INT NOT NULL COMMENT 'x'",
                None,
                None,
                if_not_exists=False,
                constraints={"check_1": "b > 0"},
                generated={"b": "greatest(a, 1) * 2"},
            ),
        ),
        ("CREATE TABLE t (check INT, constraint STRING)", CreateTable),
        (
            "ALTER TABLE t ADD CONSTRAINT c CHECK (a IN (1, 2))",
            AddConstraint("t", "c", "a IN (1, 2)"),
        ),
        ("ALTER TABLE t DROP CONSTRAINT IF EXISTS c", DropConstraint("t", "c", True)),
        ("CREATE TABLE IF NOT EXISTS t LIKE s", CreateTableLike("t", "s", True)),
        ("CREATE TABLE generated (generated INT)", CreateTable),
        ("ALTER TABLE t RENAME TO u", RenameTable("t", "u")),
        ("DROP TABLE t", DropTable("t", False)),
        ("drop table if exists t -- gone", DropTable("t", True)),
        ("DROP TABLE t RESTRICT", DropTable("t", False)),
        ("DESCRIBE detail", DescribeTable("detail")),
        ("SHOW TABLES", ShowTables(None)),
        ("show tables like 'o*'", ShowTables("o*")),
        ("SHOW COLUMNS IN t", ShowColumns("t")),
        ("show columns from `t`", ShowColumns("t")),
        ("SHOW CREATE TABLE t", ShowCreate("t")),
        ("DESCRIBE DETAIL t", DescribeDetail("t")),
        ("DESCRIBE TABLE t `a b`", DescribeColumn("t", "a b")),
        ("DESC HISTORY t LIMIT 3", DescribeHistory("t", 3)),
        ("SHOW VIEWS LIKE 'a*'", ShowViews("a*")),
        ("COMMENT ON COLUMN t.`a b` IS 'x'", CommentColumn("t", "a b", "x")),
        ("COMMENT ON COLUMN t.a IS NULL", CommentColumn("t", "a", None)),
        ("ALTER TABLE t ALTER COLUMN a DROP NOT NULL", AllowNull("t", "a")),
        ("DESCRIBE FORMATTED t", DescribeTable("t", extended=True)),
        ("DESCRIBE EXTENDED detail", DescribeTable("detail", extended=True)),
        ("OPTIMIZE t", Optimize("t")),
        ("VACUUM", Vacuum(None, False)),
        ("vacuum dry run;", Vacuum(None, True)),
        ("VACUUM RETAIN 24 HOURS DRY RUN", Vacuum(86_400, True)),
        ("ANALYZE TABLE t COMPUTE STATISTICS FOR ALL COLUMNS", Analyze("t")),
        ("RESTORE TABLE t TO VERSION AS OF 3", Restore("t", AsOf(version=3))),
        (
            "RESTORE t TO TIMESTAMP AS OF '2026-01-01'",
            Restore("t", AsOf(timestamp="'2026-01-01'")),
        ),
        ("DESCRIBE t", DescribeTable("t")),
        ("desc table t", DescribeTable("t")),
        ("SELECT 1;", Query("SELECT 1")),
        ("/* hint */ WITH a AS (SELECT 1) SELECT * FROM a", Query),
        ("(SELECT 1) UNION ALL SELECT 2", Query("(SELECT 1) UNION ALL SELECT 2")),
        ("FROM t SELECT a", Query("FROM t SELECT a")),
        ("VALUES (1)", Query("VALUES (1)")),
        ("TABLE u ORDER BY k LIMIT 1", Query("TABLE u ORDER BY k LIMIT 1")),
    ],
)
def test_a_statement_says_what_it_asks_for(
    text: str, statement: Statement | type[Statement]
) -> None:
    """Words match in any case; columns and keys stay as written."""
    parsed = parse_statement(text)

    assert isinstance(parsed, statement) if isinstance(statement, type) else parsed == statement


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        (";", "empty"),
        ("SELECT 1; SELECT 2", "one statement at a time"),
        ("SELECT 'open", "cannot read"),
        ("OPTIMIZE t ZORDER BY (a)", "stay sorted by the primary key"),
        ("VACUUM t", "tables share their files"),
        ("VACUUM RETAIN a HOURS", "a number of hours"),
        ("RESTORE t TO 3", "write VERSION AS OF"),
        ("ANALYZE t", "relstate runs queries"),
        ("DROP VIEW v", "dropped by DROP MATERIALIZED VIEW"),
        ("CREATE VIEW v AS SELECT 1", "is a CREATE MATERIALIZED VIEW"),
        ("REFRESH v", "REFRESH MATERIALIZED VIEW"),
        ("DESCRIBE DETAIL a b", "the end of the statement"),
        ("CREATE TABLE t (a BIGINT GENERATED ALWAYS AS IDENTITY)", "IDENTITY is not offered"),
        ("CREATE TABLE t (a BIGINT GENERATED BY DEFAULT AS IDENTITY (START WITH 9))", "_row_id"),
        ("CREATE TABLE t (a INT, b INT GENERATED BY DEFAULT AS (a))", r"ALWAYS AS \(expression\)"),
        ("CREATE TABLE t (a INT, b INT GENERATED ALWAYS AS (a) DEFAULT 1)", "not both"),
        ("CREATE TABLE t (a INT, b INT DEFAULT 1 GENERATED ALWAYS AS (a))", "not both"),
        ("CREATE TABLE t (a INT, b INT GENERATED ALWAYS AS ())", "missing expression"),
        ("CREATE TABLE t (a INT, b INT GENERATED ALWAYS a)", "expected AS but found 'a"),
        ("ALTER TABLE t ADD COLUMN b INT GENERATED ALWAYS AS (a)", "column is not added"),
        ("CREATE TABLE t (a INT CHECK (a > 0), CONSTRAINT check_1 CHECK (a < 9))", "'check_1'"),
        ("CREATE TABLE t (CHECK (a > 0)) AS SELECT 1 AS a", "leave out 'a > 0'"),
        ("ALTER TABLE t ADD CONSTRAINT c UNIQUE (a)", "UNIQUE: write CREATE UNIQUE INDEX"),
        ("CREATE TABLE t (a INT) PARTITIONED BY (a)", "PARTITIONED BY: a table's rows are"),
        ("CREATE TABLE t (a INT) CLUSTER BY (a)", r"PRIMARY KEY \(\(region\), id\)"),
        ("CREATE TABLE t CLUSTER BY (a) AS SELECT 1", "CLUSTER BY: "),
        ("CREATE TABLE t (a INT) LOCATION '/x'", "LOCATION: the rows of a table are in its store"),
        ("CREATE TABLE t SHALLOW CLONE s", "SHALLOW CLONE: a clone is not offered"),
        ("CREATE TABLE t (a INT) AS SELECT 1", "leave out 'a INT'"),
        ("CREATE TABLE t (PRIMARY KEY (a))", "the columns in parentheses"),
        ("CREATE TABLE t AS", "expected a query"),
        ("CREATE OR REPLACE TABLE IF NOT EXISTS t (a INT)", "exclude each other"),
        ("CREATE TEMPORARY TABLE t (a INT)", "goes to spark.sql"),
        ("CREATE TABLE t (a INT, CONSTRAINT k PRIMARY KEY (a))", "without a name"),
        ("CREATE TABLE t (a INT, b INT, UNIQUE (b), PRIMARY KEY (a))", "CREATE UNIQUE INDEX"),
        ("CREATE TABLE t (a INT, FOREIGN KEY (a) REFERENCES u (b), PRIMARY KEY (a))", "offered"),
        ("SET spark.sql.ansi.enabled = true", "spark.conf.set"),
        ("CREATE TABLE t (a INT PRIMARY KEY, PRIMARY KEY (a))", "has 2 primary keys"),
        ("CREATE TABLE t (a INT PRIMARY KEY NOT NULL)", "at the end of a column's definition"),
        ("CREATE TABLE shop.t (a INT PRIMARY KEY)", "one part"),
        ("CREATE TABLE t (a INT PRIMARY KEY) USING parquet", "USING parquet: the tables"),
        ("CREATE TABLE t (a INT,, PRIMARY KEY (a))", "missing expression"),
        ("CREATE TABLE t (a INT, PRIMARY KEY (a)", "end of the statement"),
        ("CREATE TABLE t (a INT, PRIMARY KEY a)", r"expected \("),
        ("CREATE OR REPLACE VIEW t AS SELECT 1", "only a TABLE or a MATERIALIZED VIEW"),
        ("DROP TABLE", "the table's name"),
        ("DROP TABLE 't'", "the table's name"),
        ("DROP TABLE t RESTRICTED", "'RESTRICTED'"),
        ("SHOW LOGS", "MATERIALIZED VIEWS, INDEXES and INTERNAL TABLES, not 'LOGS'"),
        ("SHOW", "empty"),
        ("CREATE TABLE having (a INT PRIMARY KEY)", "write `having`"),
        ("CREATE MATERIALIZED VIEW having AS SELECT 1", "the view's name 'having' .* `having`"),
        ("CREATE MATERIALIZED VIEW IF NOT EXISTS Select AS SELECT 1", "write `Select`"),
        ("CREATE MATERIALIZED VIEW IF NOT EXIST v AS SELECT 1", "expected IF NOT EXISTS but"),
        ("CREATE TABLE IF NOT EXSITS t (a INT)", "expected IF NOT EXISTS but"),
        ("DROP TABLE IF EXIST t", "expected IF EXISTS but"),
        ("CREATE MATERIALIZED VIEW v AS", "expected a query but found the end"),
        ("SHOW TABLES shop", "a pattern in quotes"),
        ("DESCRIBE EXTENDED t x", "end of the statement"),
    ],
)
def test_what_is_not_understood_is_refused_with_the_place(text: str, reason: str) -> None:
    """The error has what was expected and what is there instead."""
    with pytest.raises(UnsupportedStatementError, match=reason):
        parse_statement(text)


@pytest.mark.parametrize("word", ["INSERT", "update", "DELETE", "Merge"])
def test_a_common_table_before_a_query_may_have_any_names(word: str) -> None:
    """The word of another statement is an alias anywhere after the query's own first word."""
    text = f"WITH q(k) AS (SELECT (1) {word}) SELECT count(*) {word} FROM q"

    assert parse_statement(text) == Query(text)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("COPY INTO t FROM '/x' FILEFORMAT = PARQUET", "^COPY: .* relstate load STORE t FILES"),
        ("CONVERT TO DELTA parquet.`/x`", "^CONVERT: .* CREATE TABLE t .* FROM parquet"),
        ("REORG TABLE t APPLY (PURGE)", "^REORG: OPTIMIZE t"),
        ("DESCRIBE DATABASE shop", "^DESCRIBE DATABASE: a store is one database"),
        ("DESC SCHEMA EXTENDED shop", "^DESCRIBE SCHEMA: a store is one database"),
        ("DESCRIBE FUNCTION abs", "^DESCRIBE FUNCTION: functions are Spark's"),
        ("SHOW FUNCTIONS", "^SHOW FUNCTIONS: functions are Spark's"),
        ("SHOW TABLES IN shop", "^SHOW TABLES IN: a store is one database .* SHOW TABLES"),
        ("SHOW CURRENT SCHEMA", "^SHOW CURRENT: a store is one database"),
        ("CLEAR CACHE", r"^CLEAR: write db.table\(name\).cache"),
        ("DROP DATABASE shop CASCADE", "^DROP DATABASE: a store is one database"),
        ("BEGIN", "^BEGIN: each statement is one commit"),
        ("APPLY CHANGES INTO t FROM s KEYS (id)", "^APPLY CHANGES: write db.apply_changes"),
        ("CREATE STREAMING TABLE t AS SELECT 1", "^CREATE STREAMING: .* MATERIALIZED VIEW"),
        (
            "WITH q AS (SELECT (1) AS k) INSERT INTO t SELECT k FROM q",
            "^WITH … INSERT: write INSERT INTO t WITH … SELECT …",
        ),
        ("WITH q(k) AS (SELECT 1) UPDATE t SET n = 1", "^WITH … UPDATE: write WITH in the sub"),
        ("WITH a AS (SELECT 1), b AS (FROM a) DELETE FROM t", "^WITH … DELETE: write WITH in the"),
        (
            "WITH q AS (SELECT 1 AS k) MERGE INTO t USING q ON t.id = q.k WHEN MATCHED THEN DELETE",
            "^WITH … MERGE: write WITH in the source: MERGE INTO t USING",
        ),
        (
            "FROM s INSERT INTO t SELECT * INSERT INTO u SELECT 1",
            "^FROM … INSERT INTO: ",
        ),
        ("SELECT * FROM t CHANGES FROM VERSION 1", "^CHANGES FROM: write FROM table_changes"),
        (
            "DELETE t WHERE a = 1",
            "^DELETE 't WHERE a = 1': FROM is missing; write DELETE FROM",
        ),
        ("CREATE TABLE t (a INT, b INT UNIQUE)", "^'b INT UNIQUE': UNIQUE is .* UNIQUE INDEX"),
        ("CREATE TABLE t (a INT REFERENCES u (b))", "REFERENCES is not offered: references"),
        ("CREATE TABLE t (a INT AUTO_INCREMENT)", "AUTO_INCREMENT is not offered: .* _row_id"),
        ("CREATE TABLE t (a INT PRIMARY KEY RELY)", "a INT PRIMARY KEY RELY': .* leave out RELY"),
        ("INSERT IGNORE INTO t VALUES (1)", "^INSERT IGNORE: .* WHEN NOT MATCHED"),
        ("INSERT INTO t PARTITION (a = 1) SELECT 1", "^INSERT INTO t PARTITION: leave it out"),
        ("INSERT INTO t REPLACE USING (id) SELECT 1", "^INSERT INTO t REPLACE USING: .* keys"),
        ("MERGE WITH SCHEMA EVOLUTION INTO t USING s", "^MERGE WITH SCHEMA EVOLUTION: .* ADD COL"),
        ("DELETE FROM t USING s WHERE t.id = s.id", "^DELETE FROM t USING: .* IN"),
        ("ALTER TABLE t DROP COLUMN IF EXISTS c", "^ALTER TABLE t DROP COLUMN IF EXISTS: leave"),
        (
            "ALTER TABLE t ADD CONSTRAINT c PRIMARY KEY (a)",
            "PRIMARY KEY: the key is given",
        ),
        ("ALTER TABLE IF EXISTS t RENAME TO u", "^ALTER TABLE IF EXISTS: leave IF EXISTS out"),
        ("COMMENT ON DATABASE shop IS 'x'", "^COMMENT ON DATABASE: a store is one database"),
        ("UNDROP TABLE t", "^UNDROP: .* VERSION AS OF the epoch before"),
        ("MSCK REPAIR TABLE t", "^MSCK REPAIR: .* relstate check STORE"),
        ("FSCK REPAIR TABLE t", "^FSCK: .* relstate check STORE"),
        ("GRANT SELECT ON t TO someone", "^GRANT: a store has no users"),
        ("REVOKE SELECT ON t FROM someone", "^REVOKE: a store has no users"),
        ("USE shop", "^USE: a store is one database"),
        ("USE CATALOG shop", "^USE: a store is one database"),
        ("CREATE SCHEMA shop", "^CREATE SCHEMA: a store is one database"),
        ("SET a.b = 1", "^SET: settings of Spark .* spark.conf.set"),
        ("RESET a.b", "^RESET: settings of Spark"),
        ("CACHE TABLE t", r"^CACHE: write db.table\(name\).cache\(\)"),
        ("UNCACHE TABLE t", "^UNCACHE: "),
        ("SHOW PARTITIONS t", "^SHOW PARTITIONS: a table has vnodes"),
        ("SHOW DATABASES", "^SHOW DATABASES: .* SHOW TABLES"),
        ("SHOW SCHEMAS LIKE 'a'", "^SHOW SCHEMAS: "),
        ("SHOW CATALOGS", "^SHOW CATALOGS: "),
        ("SHOW GRANTS ON t", "^SHOW GRANTS: "),
        ("ALTER TABLE t CLUSTER BY (a)", "^ALTER TABLE t CLUSTER BY: rows are distributed"),
        ("ALTER TABLE t ADD PARTITION (a = 1)", "^ALTER TABLE t ADD PARTITION: rows are"),
        ("ALTER TABLE t DROP IF EXISTS PARTITION (a = 1)", "PARTITION: rows are"),
        ("ALTER TABLE t RECOVER PARTITIONS", "RECOVER PARTITIONS: the log"),
        ("ALTER TABLE t SET LOCATION '/x'", "SET LOCATION: "),
        ("ALTER TABLE t REPLACE COLUMNS (a INT)", "REPLACE COLUMNS: write ADD COLUMNS"),
        ("ALTER TABLE t ALTER COLUMN a SET NOT NULL", r"a SET NOT NULL: .* \(column IS NOT NULL\)"),
        ("ALTER TABLE t ALTER COLUMN a FIRST", "ALTER COLUMN a FIRST: the order"),
        ("ALTER TABLE t ALTER COLUMN a AFTER b", "ALTER COLUMN a AFTER: the order"),
        ("INSERT INTO t REPLACE WHERE a > 1 SELECT 1", "^INSERT INTO t REPLACE WHERE: write MERGE"),
        ("DESCRIBE QUERY SELECT 1", r"^DESCRIBE QUERY 'SELECT 1': db.sql\(query\).schema"),
        ("DESC HISTORY t LIMIT x", "a number of commits"),
        ("UPDATE t SET *", r"^UPDATE t SET \*: name the columns"),
        ("UPDATE t SET * FROM s WHERE t.a = s.a", r"^UPDATE t SET \*: .* UPDATE SET \* sets all"),
        (
            "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN UPDATE SET * EXCEPT (b)",
            r"^UPDATE SET \* EXCEPT: name the columns",
        ),
        (
            "MERGE INTO t USING s ON t.a = s.a WHEN NOT MATCHED THEN INSERT * EXCEPT (b)",
            r"^INSERT \* EXCEPT: name the columns",
        ),
        ("DESCRIBE EXTENDED t AS JSON", "^DESCRIBE t AS JSON: .* relstate describe STORE t --json"),
        ("DESC TABLE t AS JSON", "^DESCRIBE t AS JSON: "),
        ("DESCRIBE VOLUME v", "^DESCRIBE VOLUME: a store has tables and views only"),
        ("EXPLAIN ANALYZE SELECT 1", "^EXPLAIN ANALYZE: leave ANALYZE out"),
        ("SHOW LOCKS t", "^SHOW LOCKS: tables are not locked"),
        ("SHOW VOLUMES", "^SHOW VOLUMES: "),
        ("CREATE VOLUME v", "^CREATE VOLUME: "),
        ("ADD JAR 'x'", "^ADD JAR: spark.addArtifacts"),
        ("LIST JARS", "^LIST: spark.addArtifacts"),
        ("KILL QUERY 1", "^KILL: a statement ends"),
        ("DROP TABLE t PURGE", "^DROP TABLE t PURGE: leave it out: .* VACUUM removes"),
        ("TRUNCATE TABLE t PARTITION (a = 1)", "^TRUNCATE TABLE t PARTITION: .* DELETE FROM"),
        ("ALTER TABLE t ALTER COLUMN a SET MASK f", "^ALTER COLUMN a SET MASK: a store has no"),
        ("ALTER TABLE t ALTER COLUMN a DROP MASK", "^ALTER COLUMN a DROP MASK: a store has no"),
        ("ALTER TABLE t DROP ROW FILTER", "^ALTER TABLE t DROP ROW FILTER: a store has no"),
        ("ALTER TABLE t CHANGE a b INT", "^ALTER TABLE t CHANGE: write RENAME COLUMN"),
        ("ALTER TABLE t ADD COLUMN c INT AFTER a", "^'c INT AFTER a': .* leave AFTER a out"),
        ("ALTER TABLE t ADD COLUMNS (b INT, c INT FIRST)", "^'c INT FIRST': .* the last one"),
        ("ALTER TABLE t ADD COLUMN IF NOT EXISTS c INT", "ADD COLUMN IF NOT EXISTS: leave"),
        ("COMMENT ON COLUMN k IS 'x'", r"expected \."),
    ],
)
def test_what_stays_refused_is_refused_by_its_name(text: str, sentence: str) -> None:
    """The error names the statement as it was written, then what to write instead."""
    with pytest.raises(UnsupportedStatementError, match=sentence):
        parse_statement(text)


def test_a_table_may_be_called_as_what_is_described_elsewhere() -> None:
    """DESCRIBE of a single word names a table, and DESCRIBE TABLE also one with a column."""
    assert parse_statement("DESCRIBE database") == DescribeTable("database")
    assert parse_statement("DESCRIBE TABLE schema id") == DescribeColumn("schema", "id")


def test_columns_may_be_called_as_what_is_not_offered() -> None:
    """UNIQUE, MASK and CHANGES are refused only where they are words of SQL."""
    columns = "references_ INT, `mask` INT COMMENT 'UNIQUE', s STRUCT<unique: INT>"
    expected = CreateTable("t", columns, None, None, False)
    assert parse_statement(f"CREATE TABLE t ({columns})") == expected
    assert parse_statement("SELECT 1 AS changes FROM t") == Query("SELECT 1 AS changes FROM t")


def test_columns_may_be_called_as_positions() -> None:
    """FIRST and AFTER are positions only after a type."""
    names = ("first INT", "after INT", "`after` INT COMMENT 'FIRST'", "s STRUCT<first: INT>")
    for column in names:
        text = f"ALTER TABLE t ADD COLUMN {column}"
        assert parse_statement(text) == AddColumns("t", column)


def test_what_follows_the_name_of_a_dropped_column_is_not_ignored() -> None:
    """A name is one word: nothing is dropped by a statement that is read in part."""
    with pytest.raises(UnsupportedStatementError, match="expected the end of the statement"):
        parse_statement("ALTER TABLE t DROP COLUMN a b")
