"""A view means what its SELECT meant in the session that created it, whichever refreshes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from relstate.connector.sql import Database
from relstate.connector.views import runner
from relstate.connector.views.view_settings import is_stored, stored_settings
from relstate.storage import Store, errors
from support.stores import unsynced
from support.versions import EQUAL_VALUES, skip_without

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES: list[tuple[Mapping[str, str], tuple[str, ...]]] = [
    (
        {"decimalOperations.allowPrecisionLoss": "false"},
        (
            "SELECT id, d * d AS p, d / 3 AS q FROM t",
            "SELECT id % 2 AS g, avg(d) AS a, sum(d) AS s FROM t GROUP BY id % 2",
            "SELECT id, avg(d) OVER (PARTITION BY id % 2 ORDER BY id) AS a FROM t",
        ),
    ),
    (
        {"mapKeyDedupPolicy": "LAST_WIN", "legacy.timeParserPolicy": "LEGACY"},
        (
            "SELECT id, map('a', id, lower('A'), n) AS m FROM t",
            "SELECT id, to_timestamp(s, 'yyyy-MM-dd HH:mm:ss.SSS') AS at FROM t",
        ),
    ),
    (
        {"caseSensitive": "true", "groupByAliases": "false"},
        (
            "SELECT id, Big FROM t WHERE Big > 0",
            "SELECT Big AS Sum, count(*) AS C FROM (SELECT Big FROM t) AS X GROUP BY Big",
        ),
    ),
    (
        {"ansi.enabled": "false", "session.timeZone": "Asia/Kolkata", "legacy.sizeOfNull": "true"},
        (
            "SELECT id, n + 2147483647 AS over, n / (n - 2) AS q, size(NULL) AS z FROM t",
            "SELECT id, hour(ts) AS h, CAST(ts AS STRING) AS text FROM t",
        ),
    ),
    (
        {"legacy.statisticalAggregate": "true", "timestampType": "TIMESTAMP_NTZ"},
        ("SELECT n, stddev(id) AS s, corr(id, n) AS c, count(*) AS k FROM t GROUP BY n",),
    ),
]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store with a table of four rows."""
    path = str(tmp_path / "store")
    with Store.create(path, vnode_count=8, shards=1, environment=unsynced(path)) as store:
        store.create_table(
            "t",
            "id INT, n INT, Big BIGINT, d DECIMAL(38, 18), s STRING, ts TIMESTAMP",
            primary_key=["id"],
        )
        yield store


VALUES = (
    "{id}, {id} % 3 + 2, {id} * 10, CAST('1.234567890123456789' AS DECIMAL(38, 18)) + {id}, "
    "'2024-1-{id} 1:2:3.5', timestamp_seconds(1700000000 + {id})"
)


def put(spark: SparkSession, store: Store, *keys: int) -> None:
    """Insert rows that follow from their keys."""
    rows = ", ".join(f"({VALUES.format(id=key)})" for key in keys)
    Database(spark, store).sql(f"INSERT INTO t VALUES {rows}")


def session_with(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """Return a session of its own with some settings, without the beginning of their names."""
    session = spark.newSession()
    for name, value in settings.items():
        session.conf.set(f"spark.sql.{name}", value)
    return session


def rows_of(frame: Any) -> list[str]:
    """Return the rows of a frame, as text and sorted."""
    return sorted(map(str, frame.toDF(*(f"c{n}" for n in range(len(frame.columns)))).collect()))


def plain_rows(session: SparkSession, store: Store, query: str) -> list[str]:
    """Return what Spark gives in a session, without relstate's reading of the query."""
    session.read.format("relstate").option("table", "t").load(store.path).createOrReplaceTempView(
        "t"
    )
    return rows_of(session.sql(query))


@pytest.mark.parametrize(
    ("settings", "queries"), CASES, ids=["+".join(settings) for settings, _ in CASES]
)
def test_a_view_has_the_rows_of_its_select_in_the_session_that_created_it(
    spark: SparkSession,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    settings: Mapping[str, str],
    queries: Sequence[str],
) -> None:
    """When created, after refreshes in the driver and by jobs, and in a session with others."""
    if "legacy.statisticalAggregate" in settings:
        skip_without(EQUAL_VALUES)
    put(spark, store, 1, 2, 3)
    own = session_with(spark, settings)
    others = {"mapKeyDedupPolicy": "EXCEPTION", "ansi.enabled": "true", "session.timeZone": "UTC"}
    other = session_with(spark, {**others, "decimalOperations.allowPrecisionLoss": "true"})
    for number, query in enumerate(queries):
        Database(own, store).sql(f"CREATE MATERIALIZED VIEW v{number} AS {query}")

    def check_rows() -> None:
        for number, query in enumerate(queries):
            reader = own.read.format("relstate").option("table", f"v{number}")
            assert rows_of(reader.load(store.path)) == plain_rows(own, store, query)

    check_rows()
    put(spark, store, 1, 4, 5)
    Database(other, store).refresh()
    monkeypatch.setattr(runner, "is_small", lambda job: False)
    put(spark, store, 2, 6)
    Database(other, store).refresh()
    check_rows()
    assert [
        problem for report in Database(other, store).check_views() for problem in report.problems
    ] == []
    described = Database(other, store).sql("DESCRIBE EXTENDED v0").collect()
    details = {row.col_name: row.data_type for row in described}
    for name, value in settings.items():
        assert details[f"spark.sql.{name}"] == value


@pytest.mark.parametrize(
    ("settings", "query"),
    [
        ({"groupByOrdinal": "false"}, "SELECT max(n) AS n, count(*) AS c FROM t GROUP BY 'x', 1"),
        (
            {"legacy.setopsPrecedence.enabled": "true"},
            "SELECT 1 AS a UNION SELECT 2 INTERSECT SELECT 2",
        ),
        ({"timestampType": "TIMESTAMP_NTZ"}, "SELECT id, CAST(s AS TIMESTAMP) AS at FROM t"),
    ],
)
def test_a_query_that_means_something_else_is_refused(
    spark: SparkSession, store: Store, settings: Mapping[str, str], query: str
) -> None:
    """The error names the setting; without it the view is created."""
    (name,) = settings
    with pytest.raises(errors.UnsupportedStatementError, match=f"{name} than by default"):
        Database(session_with(spark, settings), store).sql(f"CREATE MATERIALIZED VIEW v AS {query}")


def test_names_that_differ_in_case_only_are_refused(spark: SparkSession, store: Store) -> None:
    """Where they are different names; a name that is none is Spark's error."""
    from pyspark.errors import AnalysisException

    db = Database(session_with(spark, {"caseSensitive": "true"}), store)
    query = "SELECT x FROM (SELECT n AS x, id AS X FROM t) WHERE X > 1"
    with pytest.raises(errors.UnsupportedStatementError, match=r"case only \(x, X\)"):
        db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    with pytest.raises(AnalysisException, match="big"):
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT big FROM t")


def test_statements_run_under_the_settings_of_their_session(
    spark: SparkSession, store: Store
) -> None:
    """INSERT, UPDATE and MERGE; a DEFAULT and a CHECK mean the same in every session."""
    settings = {
        "mapKeyDedupPolicy": "LAST_WIN",
        "decimalOperations.allowPrecisionLoss": "false",
        "legacy.timeParserPolicy": "LEGACY",
        "caseSensitive": "true",
        "session.timeZone": "Asia/Kolkata",
    }
    own = session_with(spark, settings)
    db = Database(own, store)
    db.sql(
        "CREATE TABLE w (id INT PRIMARY KEY, m MAP<STRING, INT>, d DECIMAL(38, 37), at TIMESTAMP, "
        "x DECIMAL(9, 4) DEFAULT 1.5, CONSTRAINT positive CHECK (x > 0.5))"
    )
    third = "CAST(1 AS DECIMAL(38, 18)) / CAST(3 AS DECIMAL(38, 18))"
    parse = "to_timestamp('2024-1-2 1:2', 'yyyy-MM-dd HH:mm')"
    db.sql(f"INSERT INTO w (id, m, d, at) SELECT 1, map('a', 1, 'a', 2), {third}, {parse}")
    db.sql("INSERT INTO w (id) VALUES (2), (3)")
    db.sql(f"UPDATE w SET m = map('a', 1, 'a', 2), d = {third}, at = {parse} WHERE id = 2")
    db.sql(
        f"MERGE INTO w USING (SELECT 3 AS id) AS s ON w.id = s.id WHEN MATCHED THEN UPDATE SET "
        f"m = map('a', 1, 'a', 2), d = {third}, at = {parse}"
    )

    first = own.sql(f"SELECT map('a', 1, 'a', 2), CAST({third} AS DECIMAL(38, 37)), {parse}")
    expected = str(first.collect()[0].asDict(recursive=True).values())
    rows = db.sql("SELECT m, d, at FROM w").collect()
    assert [str(row.asDict(recursive=True).values()) for row in rows] == [expected] * 3
    assert {str(row.x) for row in db.sql("SELECT x FROM w").collect()} == {"1.5000"}


def test_settings_of_how_spark_works_are_not_stored(spark: SparkSession) -> None:
    """Those of the deny list, static ones and ones that Spark does not know."""
    changed = {
        "shuffle.partitions": "7", "adaptive.enabled": "false", "codegen.wholeStage": "true",
        "catalog.mine.password": "secret", "unknown": "1",
    }  # fmt: skip
    session = session_with(spark, {**changed, "mapKeyDedupPolicy": "LAST_WIN"})

    assert stored_settings(session) == {
        "spark.sql.ansi.enabled": "true",
        "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
        "spark.sql.session.timeZone": "UTC",
    }
    assert is_stored("spark.sql.legacy.charVarcharAsString")
    assert not is_stored("spark.driver.memory")
