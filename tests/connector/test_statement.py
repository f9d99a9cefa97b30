"""The laws of the statements of the SQL interface."""

from __future__ import annotations

import pytest

from relstate.connector.sql.statement import (
    CreateTable,
    DescribeTable,
    DropTable,
    Query,
    ShowTables,
    Statement,
    parse_statement,
)
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
        ("DROP TABLE t", DropTable("t", False)),
        ("drop table if exists t -- gone", DropTable("t", True)),
        ("DROP TABLE t RESTRICT", DropTable("t", False)),
        ("DESCRIBE detail", DescribeTable("detail")),
        ("SHOW TABLES", ShowTables(None)),
        ("show tables like 'o*'", ShowTables("o*")),
        ("DESCRIBE t", DescribeTable("t")),
        ("desc table t", DescribeTable("t")),
        ("SELECT 1;", Query("SELECT 1")),
        ("/* hint */ WITH a AS (SELECT 1) SELECT * FROM a", Query),
        ("(SELECT 1) UNION ALL SELECT 2", Query("(SELECT 1) UNION ALL SELECT 2")),
        ("FROM t SELECT a", Query("FROM t SELECT a")),
        ("VALUES (1)", Query("VALUES (1)")),
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
        ("OPTIMIZE t", r"db.maintain\(\) compacts"),
        ("ANALYZE t", "relstate runs queries"),
        ("DROP VIEW v", "dropped by DROP MATERIALIZED VIEW"),
        ("CREATE VIEW v AS SELECT 1", "is a CREATE MATERIALIZED VIEW"),
        ("REFRESH v", "REFRESH MATERIALIZED VIEW"),
        ("DESCRIBE DETAIL a", "DESCRIBE EXTENDED a lists"),
        ("CREATE TABLE t (a INT, PRIMARY KEY (a), CONSTRAINT c CHECK (a > 0))", "not offered"),
        ("CREATE TABLE t (a INT, CONSTRAINT k PRIMARY KEY (a))", "without a name"),
        ("CREATE TABLE t (a INT, b INT, UNIQUE (b), PRIMARY KEY (a))", "CREATE UNIQUE INDEX"),
        ("CREATE TABLE t (a INT, FOREIGN KEY (a) REFERENCES u (b), PRIMARY KEY (a))", "offered"),
        ("SET spark.sql.ansi.enabled = true", "spark.sql"),
        ("CREATE TABLE t (a INT PRIMARY KEY, PRIMARY KEY (a))", "has 2 primary keys"),
        ("CREATE TABLE t (a INT PRIMARY KEY NOT NULL)", "end a column's definition"),
        ("CREATE TABLE t AS SELECT 1", "expected the columns"),
        ("CREATE TABLE shop.t (a INT PRIMARY KEY)", "one part"),
        ("CREATE TABLE t (a INT PRIMARY KEY) USING parquet", "'USING parquet'"),
        ("CREATE TABLE t (a INT,, PRIMARY KEY (a))", "missing expression"),
        ("CREATE TABLE t (a INT, PRIMARY KEY (a)", "end of the statement"),
        ("CREATE TABLE t (a INT, PRIMARY KEY a)", r"expected \("),
        ("CREATE OR REPLACE TABLE t (a INT PRIMARY KEY)", "nothing is replaced"),
        ("DROP TABLE", "the table's name"),
        ("DROP TABLE 't'", "the table's name"),
        ("DROP TABLE t RESTRICTED", "'RESTRICTED'"),
        ("SHOW VIEWS", "MATERIALIZED VIEWS, INDEXES and INTERNAL TABLES, not 'VIEWS'"),
        ("SHOW CREATE TABLE t", "not 'CREATE TABLE t'; DESCRIBE EXTENDED describes"),
        ("SHOW", "empty"),
        ("CREATE TABLE having (a INT PRIMARY KEY)", "write `having`"),
        ("CREATE MATERIALIZED VIEW having AS SELECT 1", "the view's name 'having' .* `having`"),
        ("CREATE MATERIALIZED VIEW IF NOT EXISTS Select AS SELECT 1", "write `Select`"),
        ("CREATE MATERIALIZED VIEW v AS", "expected a query but found the end"),
        ("SHOW TABLES IN shop", "a pattern in quotes"),
        ("DESCRIBE EXTENDED t x", "end of the statement"),
    ],
)
def test_what_is_not_understood_is_refused_with_the_place(text: str, reason: str) -> None:
    """The error has what was expected and what is there instead."""
    with pytest.raises(UnsupportedStatementError, match=reason):
        parse_statement(text)
