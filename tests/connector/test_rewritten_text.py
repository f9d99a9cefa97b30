"""Laws of the text that Spark quotes where a query fails: the one that was written."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from relstate.connector.sql.database import Database
from relstate.connector.sql.rewritten_text import changed_text
from relstate.connector.syntax.parsed_query import Edit


@pytest.fixture
def filled(db: Database) -> Database:
    """A database with a row by which one divides by zero."""
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, x INT, s STRING)")
    db.sql("INSERT INTO t VALUES (1, 0, 'a'), (2, 3, 'b')")
    return db


def _error(act: Callable[[], object]) -> str:
    with pytest.raises((PySparkException, Py4JJavaError)) as raised:
        act()
    return str(raised.value)


def _marked(error: str) -> str:
    """Return what an error marks of the line that it quotes."""
    quoted = error.partition("== SQL")[2].splitlines()
    line, marks = quoted[1], quoted[2]
    return line[marks.index("^") : marks.rindex("^") + 1]


@pytest.mark.parametrize(
    ("query", "line", "marked"),
    [
        ("SELECT id FROM t WHERE 1/x > 0", "SELECT id FROM t WHERE 1/x > 0", "1/x"),
        ("SELECT\n  id\nFROM t\nWHERE 1/x > 0", "WHERE 1/x > 0", "1/x"),
        ("SELECT a.id FROM t a, t AS b WHERE a.x/b.x > 1", "t a, t AS b WHERE a.x/b.x > 1", None),
        (
            "SELECT id FROM t VERSION AS OF 3 WHERE 1/x > 0",
            "t VERSION AS OF 3 WHERE 1/x > 0",
            "1/x",
        ),
        ("SELECT '{🙂}' AS v FROM t WHERE 1/x > 0", "'{🙂}' AS v FROM t WHERE 1/x > 0", "1/x"),
        ("WITH c AS (SELECT x FROM t) SELECT 1/x FROM c", "AS (SELECT x FROM t) SELECT 1/x", "1/x"),
        ("SELECT (SELECT x FROM t) FROM t", "SELECT (SELECT x FROM t) FROM t", "(SELECT x FROM t)"),
        ("SELECT CAST(max(s) AS INT) FROM t", "SELECT CAST(max(s) AS INT) FROM t", None),
        ("SELECT x FROM t GROUP BY x HAVING 1/x > 0", "FROM t GROUP BY x HAVING 1/x > 0", "1/x"),
    ],
)
def test_an_error_quotes_the_query_as_it_was_written(
    filled: Database, query: str, line: str, marked: str | None
) -> None:
    """Names of tables are the user's, on both sides of what is marked."""
    error = _error(filled.sql(query).collect)
    assert line in error
    assert "_relstate_" not in error.partition("== SQL")[2]
    if marked is not None:
        assert _marked(error) == marked


_USES: dict[str, Callable[[DataFrame, Path], object]] = {
    "toPandas": lambda frame, path: frame.toPandas(),
    "toArrow": lambda frame, path: frame.toArrow(),
    "show": lambda frame, path: frame.show(),
    "write": lambda frame, path: frame.write.parquet(str(path / "rows")),
    "derived": lambda frame, path: frame.filter("id > 0").groupBy("id").count().collect(),
}


@pytest.mark.filterwarnings("ignore:toPandas attempted")
@pytest.mark.parametrize("use", _USES)
def test_an_error_quotes_the_query_however_it_is_used(
    filled: Database, tmp_path: Path, use: str
) -> None:
    """Also where another frame is made of it, and where it is written."""
    frame = filled.sql("SELECT id, 1/x AS y FROM t AS r WHERE 1/r.x > 0")
    assert "AS y FROM t AS r WHERE 1/r.x > 0" in _error(lambda: _USES[use](frame, tmp_path))


def test_added_up_rows_are_quoted_as_aggregates(
    filled: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where tasks add up rows, the text that Spark has reads the sums."""
    monkeypatch.setattr("relstate.connector.sql.planned_query.DRIVER_BYTES", -1)
    frame = filled.sql("SELECT s, sum(x) / (count(*) - 1) AS y FROM t GROUP BY s")
    error = _error(frame.collect)
    assert "SELECT s, sum(x) / (count(*) - 1) AS y FROM t" in error


def test_the_session_quotes_other_queries_as_they_are(
    filled: Database, spark: SparkSession
) -> None:
    """What was parsed for a query has no effect on what is parsed after it; no view is left."""
    before = [table.name for table in spark.catalog.listTables()]
    for query in ("SELECT id FROM t WHERE 1/x > 0", "SELECT nothing FROM t"):
        with suppress(PySparkException):
            filled.sql(query)
        error = _error(spark.sql("SELECT 1 AS longer_than_it, 1/0 AS y").collect)
        assert "SELECT 1 AS longer_than_it, 1/0 AS y" in error
        assert _marked(error) == "1/0"
    assert [table.name for table in spark.catalog.listTables()] == before


def test_changes_of_a_text_are_made_where_they_are() -> None:
    """What is between them stays, and one at the end is made."""
    changes = [Edit(1, 2, "xyz"), Edit(2, 2, "-"), Edit(4, 5, "")]
    assert changed_text("abcde", changes) == "axyz-cd"
    assert changed_text("abcde", []) == "abcde"
