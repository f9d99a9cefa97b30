"""The laws of queries over a store's tables: their rows, and what EXPLAIN reports."""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException

from relstate.connector.sql import Database, planned_query
from relstate.connector.sql.query_reader import QueryReader
from relstate.storage import Store
from relstate.storage.errors import EpochNotFoundError, UnsupportedStatementError

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

SCHEMAS = {
    "a": "id BIGINT NOT NULL, k INT, s STRING, v DOUBLE",
    "b": "k INT NOT NULL, id BIGINT NOT NULL, s STRING, d DATE",
}


@pytest.fixture(scope="module")
def random_rows() -> dict[str, list[tuple[Any, ...]]]:
    """Rows of both tables, with NULLs, and so few values that joins match."""
    chance = random.Random(7)

    def maybe(value: Any) -> Any:
        return None if chance.random() < 0.2 else value

    def text() -> str:
        return chance.choice(["x", "y", "x y", "", "%", "'"])

    first = [
        (key, maybe(chance.randrange(6)), maybe(text()), maybe(chance.choice([0.5, -1.0, 3.0])))
        for key in range(25)
    ]
    day = datetime.date(2026, 1, 1)
    second = [
        (k, key, maybe(text()), maybe(day + datetime.timedelta(chance.randrange(4))))
        for k in range(5)
        for key in chance.sample(range(25), 6)
    ]
    return {"a": first, "b": second}


@pytest.fixture
def both(
    spark: SparkSession, db: Database, random_rows: dict[str, list[tuple[Any, ...]]]
) -> Iterator[Database]:
    """A store with the tables, and Spark's own views of the same names and rows."""
    db.sql(f"CREATE TABLE a ({SCHEMAS['a']}, PRIMARY KEY (id))")
    db.sql(f"CREATE TABLE b ({SCHEMAS['b']}, PRIMARY KEY (k, id DESC))")
    for name, rows in random_rows.items():
        frame = spark.createDataFrame(rows, SCHEMAS[name])
        frame.createOrReplaceTempView(name)
        writer = frame.write.format("relstate").option("table", name).mode("append")
        writer.save(db.store.path)
    yield db
    for name in random_rows:
        spark.catalog.dropTempView(name)


class Queries:
    """Makes random queries over both tables."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def query(self) -> str:
        """Return a random query of any shape."""
        shapes = [self._join, self._join, self._nested, self._common, self._union, self._grouped]
        return self._chance.choice(shapes)()

    def _test(self, alias: str, table: str) -> str:
        at = f"{alias}." if alias else ""
        number = self._chance.randrange(6)
        tests = [
            f"{at}id = {number}",
            f"{at}id IN ({number}, {number + 3}, NULL)",
            f"{at}k = {number} AND {at}id < 10",
            f"({at}k = 1 AND {at}id = {number} OR {at}k = 2 AND {at}s = 'x')",
            f"{at}id BETWEEN {number} AND 12",
            f"NOT {at}k > {number}",
            f"{at}s LIKE 'x%'",
            f"coalesce({at}s, 'x') = 'x'",
            f"{at}k IS NULL",
            f"{at}k <=> NULL",
        ]
        own = [f"{at}v > 0"] if table == "a" else [f"{at}d >= DATE '2026-01-02'", f"{at}k >= 3"]
        return self._chance.choice(tests + own)

    def _tests(self, *sources: tuple[str, str]) -> str:
        tests = [self._test(*self._chance.choice(sources)) for _ in range(2)]
        return self._chance.choice([" AND ", " AND ", " OR "]).join(tests)

    def _join(self) -> str:
        kind = self._chance.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN"])
        right = self._chance.choice(["a", "b"])
        on = self._chance.choice(["x.id = y.id", "x.k = y.k AND x.id = y.id", "x.id = y.k"])
        more = f" AND {self._test('x', 'a')} AND {self._test('y', right)}"
        on = f"ON {on}{more if self._chance.random() < 0.5 else ''}" if kind != "CROSS JOIN" else ""
        where = self._tests(("x", "a"), ("y", right))
        return f"SELECT x.id, x.s, y.k, y.id AS o FROM a x {kind} {right} y {on} WHERE {where}"

    def _nested(self) -> str:
        kind = self._chance.choice(["IN", "NOT IN"])
        inner = f"SELECT y.id FROM b y WHERE {self._tests(('y', 'b'))}"
        semi = self._chance.choice(["SEMI", "ANTI"])
        on = f"x.id = y.id AND {self._test('y', 'b')}"
        most = f"SELECT max(y.id) FROM b y WHERE {self._test('y', 'b')}"
        return self._chance.choice(
            [
                f"SELECT * FROM a x WHERE id {kind} ({inner}) AND {self._test('x', 'a')}",
                f"SELECT * FROM a x WHERE EXISTS ({inner} AND y.k = x.k) AND {self._test('', 'a')}",
                f"SELECT x.* FROM a x LEFT {semi} JOIN b y ON {on} WHERE {self._test('x', 'a')}",
                f"SELECT id, ({most}) AS m FROM a WHERE {self._test('', 'a')}",
            ]
        )

    def _common(self) -> str:
        return (
            f"WITH q AS (SELECT * FROM a WHERE {self._test('', 'a')}), a AS (SELECT * FROM b "
            f"WHERE {self._test('', 'b')}) SELECT q.id, a.k FROM q JOIN a USING (id) "
            f"WHERE {self._test('q', 'a')}"
        )

    def _union(self) -> str:
        kind = self._chance.choice(["UNION ALL", "UNION", "EXCEPT", "INTERSECT"])
        return (
            f"SELECT id, k FROM a WHERE {self._test('', 'a')} {kind} "
            f"SELECT id, k FROM b WHERE {self._test('', 'b')}"
        )

    def _grouped(self) -> str:
        return (
            f"SELECT k, count(*) AS n, max(r) AS r FROM (SELECT *, row_number() OVER (ORDER BY id, "
            f"k) AS r FROM b WHERE {self._test('', 'b')}) WHERE {self._test('', 'b')} GROUP BY k "
            f"HAVING {self._chance.choice(['k > 1', 'count(*) > 1'])}"
        )


def answer(rows: list[Row]) -> list[str]:
    """Return the rows of a DataFrame in a fixed order."""
    return sorted(map(str, rows))


@pytest.mark.timeout(240)
def test_a_pruned_query_answers_as_spark_does(
    spark: SparkSession, both: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random queries have the rows of Spark's own views, read on the driver and in tasks."""
    pruned = 0
    for seed in range(40):
        monkeypatch.setattr(planned_query, "DRIVER_BYTES", seed % 2 * 8192)
        query = Queries(seed).query()
        reader = QueryReader(spark, both.store)
        planned = reader.plan(query)
        pruned += sum(relation.where is not None for relation in planned.relations)

        assert answer(reader.frame(planned).collect()) == answer(spark.sql(query).collect()), query

    assert pruned > 25


def explained(db: Database, query: str) -> list[tuple[Any, ...]]:
    """Return the EXPLAIN of each reference: epoch, points, ranges, columns, condition."""
    rows = db.sql(f"EXPLAIN {query}").collect()
    assert "== Physical Plan ==" in rows[-1].plan
    assert all(row.plan is None for row in rows[:-1])
    return [
        (row.relation, row.epoch, row.vnodes, row.points, row.ranges, row.columns, row["where"])
        for row in rows[:-1]
    ]


def test_explain_reports_what_is_read(both: Database) -> None:
    """One row per reference, in the order of the text, then Spark's plan."""
    epoch = both.store.epoch
    everything = both.store.settings.vnode_count
    query = "SELECT x.s FROM a x JOIN b ON x.id = b.id AND b.k IN (1, 2) WHERE x.id = 3 AND x.v > 0"

    assert explained(both, query) == [
        ("a", epoch, 1, 1, 0, ["id", "k", "s", "v"], "id = 3 AND v > 0"),
        ("b", epoch, 2, 2, 0, ["k", "id", "s"], "k IN (1, 2) AND id = 3"),
    ]
    assert explained(both, "SELECT count(*) FROM a WHERE length(s) = 3") == [
        ("a", epoch, everything, None, None, ["s"], "LENGTH(s) = 3")
    ]
    assert explained(both, "SELECT count(*) FROM a WHERE upper(s) = 'X'") == [
        ("a", epoch, everything, None, None, ["s"], None)
    ]
    assert explained(both, "SELECT id FROM a WHERE id BETWEEN 3 AND 1000")[0][2:5] == (
        everything,
        0,
        1,
    )


def test_a_small_table_is_read_without_a_task(
    both: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver reads it when the query is planned; a larger one is read in Spark's tasks."""
    query = "SELECT k, s FROM b WHERE s <> 'x' ORDER BY k"
    small_table, spark_plan = both.sql(f"EXPLAIN {query}").collect()
    rows = both.sql(query).collect()
    monkeypatch.setattr(planned_query, "DRIVER_BYTES", small_table_bytes(both) - 1)
    large_table, tasks_plan = both.sql(f"EXPLAIN {query}").collect()

    assert (small_table.partitions, large_table.partitions) == (0, 1)
    assert "BatchScan" not in spark_plan.plan
    assert "BatchScan" in tasks_plan.plan
    assert both.sql(query).collect() == rows


def small_table_bytes(db: Database) -> int:
    """Return the stored bytes of the table b."""
    return db.store.read_plan("b").stored_bytes


def counted(db: Database, query: str) -> int:
    """Return the single number that a query gives."""
    ((number,),) = db.sql(query).collect()
    return int(number)


def test_a_reference_may_be_of_another_epoch(both: Database, store: Store) -> None:
    """It names the epoch by number or by time; other references are of the query's epoch."""
    before = store.epoch
    moment = store.state.time
    both.sql("DELETE FROM a")
    both.sql("INSERT INTO a VALUES (1, 1, 'now', 1.0)")
    text = datetime.datetime.fromtimestamp(moment / 1e6 + 1e-5, datetime.UTC).isoformat()
    query = "SELECT count(*) FROM a {} o JOIN a n ON true"

    assert counted(both, query.format(f"VERSION AS OF {before}")) == 25
    assert counted(both, query.format(f"FOR VERSION AS OF {before} AS")) == 25
    assert counted(both, query.format(f"TIMESTAMP AS OF '{text}'")) == 25
    assert counted(both, query.format("")) == 1


@pytest.mark.parametrize(
    "value",
    [
        "TIMESTAMP'{0}'", "timestamp_ltz '{0}'", "(TIMESTAMP'{0}' + INTERVAL '0' DAY)",
        "to_timestamp('{0}')",
    ],
)  # fmt: skip
def test_a_time_is_an_expression_of_constants(both: Database, store: Store, value: str) -> None:
    """As in Spark; also as the source of a MERGE, and of RESTORE."""
    moment = store.state.time
    both.sql("INSERT INTO a VALUES (1000, 1, 'now', 1.0)")
    text = datetime.datetime.fromtimestamp(moment / 1e6 + 1e-5, datetime.UTC).isoformat()
    as_of = f"TIMESTAMP AS OF {value.format(text)}"
    assert counted(both, f"SELECT count(*) FROM a {as_of} AS o") == 25
    merge = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED BY SOURCE THEN DELETE"
    both.sql(f"MERGE INTO a USING a {as_of} AS s ON a.id = s.id {merge}")
    assert counted(both, "SELECT count(*) FROM a") == 25
    both.sql(f"RESTORE a TO {as_of}")


@pytest.mark.parametrize("statement", ["SELECT * FROM a {}", "RESTORE TABLE a TO {}"])
def test_a_time_that_is_none_is_refused(both: Database, statement: str) -> None:
    """The error shows the text, not the query by which Spark reads it; with and without ANSI."""
    text = statement.format("TIMESTAMP AS OF 'noon or so'")
    for ansi in ("true", "false"):
        both.spark.conf.set("spark.sql.ansi.enabled", ansi)
        try:
            with pytest.raises(UnsupportedStatementError, match=r"AS OF 'noon or so': .* not a t"):
                both.sql(text)
        finally:
            both.spark.conf.unset("spark.sql.ansi.enabled")


@pytest.mark.parametrize(
    ("marker", "advice"),
    [("?", r"as a list, db.sql\(text, \["), (":k", r"parameter :k has no value")],
)
def test_a_parameter_without_args_is_refused(both: Database, marker: str, advice: str) -> None:
    """The error says how values are passed; Spark's names a place in the text."""
    with pytest.raises(AnalysisException, match=advice):
        both.sql(f"SELECT * FROM a WHERE k = {marker}")


def test_changes_after_the_latest_epoch_are_refused(both: Database, store: Store) -> None:
    """The error names the epoch that does not exist, not options that nobody set."""
    with pytest.raises(EpochNotFoundError, match=f"no epoch {store.epoch + 1}: .* at epoch"):
        both.sql(f"SELECT * FROM table_changes('a', {store.epoch + 1})")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("spark.sql.ansi.enabled", "false"),
        ("spark.sql.parser.escapedStringLiterals", "true"),
        ("spark.sql.ansi.doubleQuotedIdentifiers", "true"),
        ("spark.sql.timestampType", "TIMESTAMP_NTZ"),
    ],
)
def test_a_session_that_reads_conditions_otherwise_prunes_nothing(
    spark: SparkSession, both: Database, setting: str, value: str
) -> None:
    """Only a condition that means the same to the read and to Spark may prune."""
    before = spark.conf.get(setting)
    spark.conf.set(setting, value)
    try:
        assert explained(both, "SELECT id FROM a WHERE id = 3")[0][-1] is None
        assert both.sql("SELECT id FROM a WHERE id = 3").count() == 1
    finally:
        spark.conf.set(setting, before or "false")


def test_a_row_that_is_looked_up_is_as_one_that_is_scanned(
    spark: SparkSession, db: Database, store: Store
) -> None:
    """Of every type, with NULLs; the schema is the same, and a missing key has no row."""
    db.sql(
        "CREATE TABLE w (id INT PRIMARY KEY, a BOOLEAN, b TINYINT, c SMALLINT, d BIGINT NOT NULL, "
        "e FLOAT, f DOUBLE, g DECIMAL(30,4), h STRING, i BINARY, j DATE, k TIMESTAMP, "
        "l TIMESTAMP_NTZ)"
    )
    values = (
        "true, 1Y, 2S, 3L, 1.5F, double('NaN'), 12345678901234567890.1234BD, 'ü', X'00FF', "
        "DATE '1582-10-15', TIMESTAMP '2026-07-01 00:00:00.000001Z', "
        "TIMESTAMP_NTZ '0001-01-01 00:00:00'"
    )
    nothing = ", ".join(["NULL"] * 8)
    db.sql(f"INSERT INTO w VALUES (1, {values}), (2, NULL, NULL, NULL, 0, {nothing})")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        for key in (1, 2, 3):
            looked_up = db.sql(f"SELECT * FROM w WHERE id = {key}")
            scanned = db.table("w").where(f"id = {key}")
            assert looked_up.schema == scanned.schema
            assert str(looked_up.collect()) == str(scanned.collect())
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_local_times_are_the_session_s(spark: SparkSession, db: Database, store: Store) -> None:
    """A timestamp without a zone is a local time of the session, in the read and in Spark."""
    db.sql("CREATE TABLE e (at TIMESTAMP PRIMARY KEY)")
    db.sql("INSERT INTO e SELECT TIMESTAMP '2026-07-01 00:00:00Z'")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Rome")
    try:
        query = "SELECT * FROM e WHERE at = '2026-07-01 02:00:00'"
        assert explained(db, query)[0][3:5] == (1, 0)
        assert db.sql(query).count() == 1
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
