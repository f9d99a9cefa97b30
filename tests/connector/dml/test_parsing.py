"""The laws of parsing statements that change rows or tables."""

from __future__ import annotations

import pytest

from relstate.connector.sql.ddl import (
    AddColumns,
    CommentColumn,
    DropColumns,
    RenameColumn,
    SetProperties,
    WidenColumn,
)
from relstate.connector.sql.dml import (
    Action,
    Assignment,
    Clause,
    Delete,
    Insert,
    Merge,
    Place,
    Truncate,
    Update,
    When,
)
from relstate.connector.sql.statement import Explain, parse_statement
from relstate.storage.errors import UnsupportedStatementError

MERGE = """
    MERGE INTO t AS x USING (SELECT 1) y (a) ON x.a = y.a
    WHEN NOT MATCHED BY TARGET AND CASE WHEN y.a THEN y.a END > 1 THEN INSERT (a) VALUES (1)
    WHEN NOT MATCHED BY SOURCE THEN DELETE
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("INSERT INTO t VALUES (1, 'a;b')", Insert("t", "VALUES (1, 'a;b')")),
        (
            "insert into table t (a, `b c`) (SELECT 1, 2);",
            Insert("t", "(SELECT 1, 2)", ("a", "b c")),
        ),
        ("INSERT INTO t BY NAME FROM s", Insert("t", "FROM s", by_name=True)),
        (
            "INSERT OVERWRITE t WITH x AS (SELECT 1) SELECT * FROM x",
            Insert("t", "WITH x AS (SELECT 1) SELECT * FROM x", overwrite=True),
        ),
        ("INSERT INTO t SELECT 7, DEFAULT", Insert("t", "SELECT 7, DEFAULT")),
        ("UPDATE t SET a = DEFAULT", Update("t", "t", (Assignment(Place("a"), "DEFAULT"),), None)),
        ("UPDATE t SET a = 1", Update("t", "t", (Assignment(Place("a"), "1"),), None)),
        (
            "UPDATE `t` AS x SET x.a = f(1, 2), `b` = CASE WHEN a THEN 1 END WHERE a IN (SELECT 1)",
            Update(
                "t",
                "x",
                (
                    Assignment(Place("a"), "f(1, 2)"),
                    Assignment(Place("b"), "CASE WHEN a THEN 1 END"),
                ),
                "a IN (SELECT 1)",
            ),
        ),
        (
            "UPDATE t x SET a = s.a IS DISTINCT FROM x.a FROM db.s WHERE x.k = s.k",
            Merge(
                "t",
                "x",
                "db.s AS `s`",
                "s",
                "x.k = s.k",
                (
                    Clause(
                        When.MATCHED,
                        None,
                        Action.UPDATE,
                        (Assignment(Place("a"), "s.a IS DISTINCT FROM x.a"),),
                    ),
                ),
            ),
        ),
        (
            "UPDATE t USING TTL (- 5) SET a = 1",
            Update("t", "t", (Assignment(Place("a"), "1"),), None, -5),
        ),
        (
            "INSERT INTO t SELECT 1 USING TTL 5000000000L",
            Insert("t", "SELECT 1", ttl=5_000_000_000),
        ),
        ("DELETE FROM t", Delete("t", "t", None)),
        ("DELETE FROM t x WHERE x.a = 1", Delete("t", "x", "x.a = 1")),
        ("TRUNCATE TABLE t", Truncate("t")),
        (
            "MERGE INTO t USING db.s ON t.a = s.a WHEN MATCHED THEN UPDATE SET *",
            Merge(
                "t",
                "t",
                "db.s AS `s`",
                "s",
                "t.a = s.a",
                (Clause(When.MATCHED, None, Action.UPDATE, None),),
            ),
        ),
        (
            MERGE,
            Merge(
                "t",
                "x",
                "(SELECT 1) y (a)",
                "y",
                "x.a = y.a",
                (
                    Clause(
                        When.NOT_MATCHED,
                        "CASE WHEN y.a THEN y.a END > 1",
                        Action.INSERT,
                        (Assignment(Place("a"), "1"),),
                    ),
                    Clause(When.NOT_MATCHED_BY_SOURCE, None, Action.DELETE),
                ),
            ),
        ),
        (
            "ALTER TABLE t ADD COLUMNS (a INT, b DECIMAL(3,1))",
            AddColumns("t", "a INT, b DECIMAL(3,1)"),
        ),
        ("ALTER TABLE t ADD COLUMN a INT", AddColumns("t", "a INT")),
        ("ALTER TABLE t DROP COLUMNS (a, `b c`)", DropColumns("t", ("a", "b c"))),
        ("ALTER TABLE t RENAME COLUMN a TO b", RenameColumn("t", "a", "b")),
        ("ALTER TABLE t ALTER COLUMN a TYPE DECIMAL(9, 2)", WidenColumn("t", "a", "DECIMAL(9, 2)")),
        ("ALTER TABLE t ALTER a COMMENT 'it''s'", CommentColumn("t", "a", "it's")),
        ("ALTER TABLE t SET TBLPROPERTIES ('ttl' = '1 day')", SetProperties("t", {"ttl": "1 day"})),
        ("ALTER TABLE t UNSET TBLPROPERTIES IF EXISTS (ttl)", SetProperties("t", {"ttl": None})),
        ("EXPLAIN SELECT 1;", Explain("SELECT 1", "simple")),
        (
            "EXPLAIN FORMATTED WITH a AS (SELECT 1) SELECT * FROM a",
            Explain("WITH a AS (SELECT 1) SELECT * FROM a", "formatted"),
        ),
    ],
)
def test_a_statement_is_read(text: str, expected: object) -> None:
    """Names lose their quotes; expressions and queries stay as written."""
    assert parse_statement(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("INSERT t VALUES (1)", "INTO"),
        ("INSERT INTO t", "a query"),
        ("INSERT INTO a.t VALUES (1)", "one part"),
        ("INSERT INTO t USING TTL 5 VALUES (1)", r"VALUES \(…\) USING TTL"),
        (
            "MERGE INTO t USING s ON a WHEN MATCHED THEN UPDATE SET t.props['x'] = 'y'",
            "MERGE writes whole rows; set the whole column",
        ),
        ("UPDATE t WHERE a = 1", "SET"),
        ("UPDATE t SET a", "="),
        ("UPDATE t SET a = ", "missing expression"),
        ("UPDATE t SET a = 1 FROM s", "WHERE is missing"),
        ("UPDATE t SET a = 1 FROM s, u WHERE s.k = u.k", "an alias|unexpected|found"),
        ("UPDATE t SET a.b = 1 FROM s WHERE s.k = t.k", "set the whole column"),
        ("UPDATE t USING TTL 5 SET a = 1 FROM s WHERE s.k = t.k", "TTL"),
        (f"UPDATE t USING TTL {'9' * 5000} SET a = 1", "a whole number of seconds"),
        ("DELETE t", "FROM is missing; write DELETE FROM table"),
        ("DELETE FROM t WHERE", "missing expression"),
        ("TRUNCATE t", "TABLE"),
        ("MERGE INTO t USING s ON a", "WHEN MATCHED"),
        ("MERGE INTO t USING s ON a WHEN MATCHED THEN INSERT *", "UPDATE SET"),
        ("MERGE INTO t USING s ON a WHEN NOT MATCHED THEN DELETE", "INSERT"),
        ("MERGE INTO t USING s ON a WHEN NOT MATCHED THEN INSERT (a, b) VALUES (1)", "1 values"),
        ("ALTER TABLE t CONVERT", "RENAME COLUMN a TO b, RENAME TO u"),
        ("ALTER TABLE t SET TBLPROPERTIES ('ttl')", "'key' = 'value'"),
        ("EXPLAIN DROP TABLE t", "a query"),
    ],
)
def test_what_is_not_understood_is_refused(text: str, reason: str) -> None:
    """The error says what was expected instead."""
    with pytest.raises(UnsupportedStatementError, match=reason):
        parse_statement(text)


@pytest.mark.parametrize(
    ("update", "merge"),
    [
        (
            "UPDATE t SET v = s.v, n = n + 1 FROM src AS s WHERE t.a = s.i AND t.b = s.b",
            (
                "MERGE INTO t USING src AS s ON t.a = s.i AND t.b = s.b "
                "WHEN MATCHED THEN UPDATE SET v = s.v, n = n + 1"
            ),
        ),
        (
            "UPDATE t x SET v = DEFAULT FROM (SELECT 1 AS k WHERE 1 = 1) s WHERE x.k = s.k",
            (
                "MERGE INTO t x USING (SELECT 1 AS k WHERE 1 = 1) s ON x.k = s.k "
                "WHEN MATCHED THEN UPDATE SET v = DEFAULT"
            ),
        ),
    ],
)
def test_an_update_from_a_relation_is_a_merge(update: str, merge: str) -> None:
    """They are one value, so rows are found, computed and refused alike."""
    assert parse_statement(update) == parse_statement(merge)
