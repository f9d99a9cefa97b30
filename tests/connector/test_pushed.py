"""The law of aggregates and limits near the data: a query has what Spark gives it."""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, ArithmeticException

import relstate
from relstate.connector.sql import planned_query
from relstate.connector.sql.query_reader import QueryReader
from relstate.storage import Store
from relstate.storage.table import conditional
from support.examples import Seeds
from support.spark import interpreted
from support.stores import unsynced, upsert

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from relstate.connector.sql import Database

COLUMNS = (
    "k BIGINT, r INT, g INT, t STRING, ti TINYINT, l BIGINT, f FLOAT, d DOUBLE, n DECIMAL(12,2), "
    "w DECIMAL(24,4), dt DATE, ts TIMESTAMP, z TIMESTAMP_NTZ, b BINARY, bo BOOLEAN, x DOUBLE"
)
MOMENTS = [datetime.datetime(1970, 1, 1), datetime.datetime(2026, 2, 28, 23, 59, 59, 999_999)]
# Sums of these floats are exact in any order; x has what breaks sums.
POOLS: dict[str, list[Any]] = {
    "r": list(range(6)),
    "g": [1, 2, 3],
    "t": ["", "a", "A", "b ", "é", "😀"],
    "ti": [-128, 0, 1, 127],
    "l": [-(2**40), -1, 0, 3, 2**40],
    "f": [0.25, -1.5, 1024.0],
    "d": [0.25, -1.5, 0.0, 4096.0],
    "n": [Decimal("-9999999999.99"), Decimal("0.01"), Decimal("0.00"), Decimal("12.35")],
    "w": [Decimal("-0.0001"), Decimal("99999999999999999999.9999"), Decimal("7")],
    "dt": [moment.date() for moment in MOMENTS],
    "ts": MOMENTS,
    "z": MOMENTS,
    "b": [b"", b"\x00", b"\xff", b"a"],
    "bo": [True, False],
    "x": [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0],
}
TABLES = ("plain", "merged", "documents", "keyless")
GROUPS = ["g", "t", "ti", "d", "x", "n", "dt", "ts", "z", "b", "bo", "r"]
ARGUMENTS = {
    "count": [*POOLS, "k"],
    "sum": ["k", "r", "ti", "l", "f", "d", "n", "w", "x"],
    "avg": ["k", "r", "ti", "l", "f", "d", "n", "w", "x"],
    "min": [*POOLS, "k"],
    "max": [*POOLS, "k"],
}
CONDITIONS = [
    "r < 3", "t LIKE 'a%'", "g IN (1, 3) OR t IS NULL", "NOT (d > 0)", "ts >= '2000-01-01'",
    "k BETWEEN 20 AND 200", "n > 0 AND bo", "l <=> NULL", "x = CAST('NaN' AS DOUBLE)", "r = 77",
]  # fmt: skip


def random_row(chance: random.Random, key: int) -> tuple[Any, ...]:
    """Return a row of few values, some NULL."""
    values = (None if chance.random() < 0.15 else chance.choice(pool) for pool in POOLS.values())
    return (key, *values)


@pytest.fixture(scope="module")
def filled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Tables of each kind, changed in several epochs; Spark has views of the same names."""
    path = str(tmp_path_factory.mktemp("pushed") / "store")
    chance = random.Random(5)
    with Store.create(path, environment=unsynced(path)) as store:
        options: dict[str, dict[str, Any]] = {
            "plain": {"primary_key": ["k"]},
            "merged": {"primary_key": ["k"], "merge": "partial"},
            "documents": {"primary_key": ["k"], "encoding": "document"},
            "keyless": {},
        }
        db = relstate.connect(spark, path)
        for table in TABLES:
            store.create_table(table, COLUMNS, **options[table])
        # Without a primary key, rows are stored by a row id, which a store writes itself.
        for start in (0, 100, 50):
            rows = [random_row(chance, key) for key in range(start, start + 150)]
            for table in TABLES[:3]:
                upsert(store, table, rows)
            frame = spark.createDataFrame(rows, COLUMNS)
            db.write(frame, "keyless")
        db.sql("DELETE FROM plain WHERE k % 7 = 0")
        for table in TABLES:
            whole = spark.createDataFrame(db.table(table).toArrow(), db.table(table).schema)
            whole.createOrReplaceTempView(table)
        yield db
    for table in TABLES:
        spark.catalog.dropTempView(table)


class Queries:
    """Makes random queries with aggregates."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def query(self) -> str:
        """Return a random query of any shape."""
        shapes = [self._select, self._select, self._nested, self._common, self._union, self._join]
        return self._chance.choice(shapes)()

    def _call(self, alias: str) -> str:
        function = self._chance.choice([*ARGUMENTS, "count", "sum"])
        if function == "count" and self._chance.random() < 0.4:
            return self._chance.choice(["count(*)", "count(1)", "COUNT( * )"])
        column = self._chance.choice(ARGUMENTS[function])
        if self._chance.random() < 0.15:
            return f"{function}(DISTINCT {alias}{column})"
        if self._chance.random() < 0.1:
            condition = self._chance.choice(CONDITIONS)
            return self._chance.choice(
                [f"count_if({condition})", f"bool_and({alias}bo)", f"some({alias}bo)"]
            )
        is_filtered = self._chance.random() < 0.2
        where = f" FILTER (WHERE {self._chance.choice(CONDITIONS)})" if is_filtered else ""
        return f"{function}({alias}{column}){where}"

    def _item(self, alias: str) -> str:
        call = self._call(alias)
        shapes = [call] * 5 + [
            f"coalesce({call}, 0) - count(*)" if call.startswith("sum") else call
        ]
        shapes += [f"CASE WHEN count(*) > 3 THEN {call} END", f"{call} IS NULL"]
        return self._chance.choice(shapes)

    def _select(self, *, is_named: bool = False) -> str:
        table = self._chance.choice(TABLES)
        alias = self._chance.choice(["", "", "o."])
        group = self._chance.sample(GROUPS, self._chance.choice([0, 0, 1, 1, 2]))
        items = [f"{alias}{name} AS {name}" if alias else name for name in group]
        calls = [self._item(alias) for _ in range(self._chance.choice([1, 1, 2, 4]))]
        names = is_named or self._chance.random() < 0.5
        items += [f"{call} AS c{i}" if names else call for i, call in enumerate(calls)]
        where = " AND ".join(self._chance.sample(CONDITIONS, self._chance.choice([0, 0, 1, 2])))
        text = f"SELECT {', '.join(items)} FROM {table}{' o' if alias else ''}"
        text += f" WHERE {where}" if where else ""
        if group:
            by = ", ".join(f"{alias}{name}" for name in group)
            kinds = [by, by, by, f"ROLLUP({by})", "ALL"] + (["1"] if len(group) == 1 else [])
            text += f" GROUP BY {self._chance.choice(kinds)}"
            if self._chance.random() < 0.3:
                text += f" HAVING {self._chance.choice(['count(*) > 2', 'sum(r) > 4'])}"
        return text

    def _nested(self) -> str:
        inner = self._select(is_named=True)
        outside = self._chance.choice(["*", "count(*) AS n", "max(c0) AS m"])
        return f"SELECT {outside} FROM ({inner}) AS q /* c */"

    def _common(self) -> str:
        return f"WITH q AS ({self._select(is_named=True)}) SELECT * FROM q a WHERE c0 IS NOT NULL"

    def _union(self) -> str:
        where = self._chance.choice(CONDITIONS)
        return (
            f"SELECT g, sum(l) FROM plain WHERE {where} GROUP BY g UNION ALL "
            f"SELECT g, max(l) FROM merged WHERE {where} GROUP BY g"
        )

    def _join(self) -> str:
        return (
            "SELECT a.g, a.s, b.n FROM (SELECT g, sum(r) AS s FROM plain GROUP BY g) a JOIN "
            f"(SELECT g, count(*) AS n FROM merged WHERE {self._chance.choice(CONDITIONS)} "
            "GROUP BY g) b ON a.g = b.g WHERE a.s > (SELECT min(r) FROM documents)"
        )


def answer(rows: Any) -> list[str]:
    """Return the rows of a DataFrame in a fixed order; zeros have no sign."""
    return sorted(
        str([value + 0.0 if isinstance(value, float) else value for value in row])
        for row in rows.collect()
    )


@pytest.fixture
def in_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no table be small."""
    monkeypatch.setattr(planned_query, "DRIVER_BYTES", -1)
    monkeypatch.setattr(conditional, "_FIRST_SHARE", 1e6)


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("in_tasks")
def test_a_query_has_what_spark_gives_it(
    spark: SparkSession, filled: Database, seeds: Seeds
) -> None:
    """Random aggregates over tables of every kind: rows, names, types and nullability."""
    pushed = 0
    with interpreted(spark):
        for seed in seeds(60):
            query = Queries(seed).query()
            reader = QueryReader(spark, filled.store)
            planned, frame = reader.settled_frame(reader.plan(query))
            pushed += any(relation.aggregate for relation in planned.relations)
            expected = spark.sql(query)

            assert frame.dtypes == expected.dtypes, query
            assert answer(frame) == answer(expected), query
    assert pushed > len(seeds(60)) * 0.6


def limited_query(chance: random.Random) -> tuple[str, bool]:
    """Return a query with a LIMIT, and whether it has an order."""
    name = chance.choice(["", "o."])
    items = chance.choice(["*", "k, t, d", f"{name}k AS key, abs({name}r) AS r2, {name}t"])
    where = chance.choice(["", *(f"WHERE {condition} " for condition in CONDITIONS)])
    direction = chance.choice(["", " DESC", " NULLS LAST", " DESC NULLS FIRST"])
    order = f"ORDER BY {name}{chance.choice(list(POOLS))}{direction}, {name}k"
    is_ordered = chance.random() < 0.7
    limit = chance.choice(["LIMIT 3", "LIMIT 40", "LIMIT 0", "LIMIT 5 OFFSET 4", "LIMIT 1000"])
    table = chance.choice(TABLES[:3])
    text = f"SELECT {items} FROM {table} o {where}{order if is_ordered else ''} {limit}"
    return text, is_ordered


VARIANCES = (
    "stddev", "std", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp",
)  # fmt: skip


@pytest.mark.usefixtures("in_tasks")
@pytest.mark.parametrize(
    ("group", "having"),
    [("''", ""), ("g, t", "WITH ROLLUP"), ("r, g, ti", "HAVING stddev(l) > 3")],
)
def test_variances_are_spark_s(
    spark: SparkSession, filled: Database, group: str, having: str
) -> None:
    """Of every type, with NULL, NaN and infinities, of groups of one value and of none."""
    columns = ["k", "r", "ti", "l", "f", "d", "n", "w", "x"]
    calls = [f"{VARIANCES[i % 7]}({column})" for i, column in enumerate(columns)]
    calls += [f"{function}(d)" for function in VARIANCES]
    few = "FILTER (WHERE r = 1 AND t = 'a' AND bo)"
    calls += ["var_pop(d) " + few, "std(d) " + few, "std(DISTINCT d)", "sum(r)", "count(*)"]
    query = f"SELECT {group}, {', '.join(calls)} FROM {{}} GROUP BY {group} {having} "
    query += f"ORDER BY {group}, count(*), sum(r)"
    with interpreted(spark):
        for table in TABLES[:2]:
            rows, expected = filled.sql(query.format(table)), spark.sql(query.format(table))

            assert pushed_texts(filled, query.format(table)) != [None]
            assert rows.dtypes == expected.dtypes
            assert_near(rows.collect(), expected.collect())


EXPRESSIONS = [
    "sum(r * g)", "sum(r + 1)", "sum(n * (1 - n))", "avg(r + 1)", "sum(ti + r)", "sum(-1 * r - g)",
    "sum(CASE WHEN t LIKE 'a%' THEN n ELSE 0 END)", "sum(if(bo, r, g))", "sum(d * 1.5 + r)",
    "count(CASE WHEN d > 0 THEN 1 END)", "sum(CASE WHEN r = 1 THEN 1 WHEN r > 3 THEN l END)",
    "min(l * 2)", "max(n * 2)", "min(x + d)", "max(d - x)", "avg(n * 1.25)", "sum(d * d - 0.5)",
    "stddev_pop(d * 2)", "sum(r * 2) FILTER (WHERE bo)", "sum(CASE WHEN bo THEN 3 END)",
    "sum(1)", "max(CASE WHEN bo THEN ti ELSE r END)", "sum(CASE WHEN bo THEN d ELSE 0.0 END)",
    "sum(CASE WHEN bo THEN n ELSE 10 END)", "sum(n - 100)", "sum((r + 2) * 1.5)", "sum(n + r)",
    "min(CASE WHEN bo THEN 1.5 ELSE ti END)", "sum(n * 3000000000)", "sum(ti + 1)",
]  # fmt: skip


@pytest.mark.usefixtures("in_tasks")
@pytest.mark.parametrize(
    "group", ["", "GROUP BY g", "WHERE r < 3 GROUP BY t HAVING sum(r + 1) > 3"]
)
def test_expressions_are_computed_in_tasks(
    spark: SparkSession, filled: Database, group: str
) -> None:
    """Values and types are Spark's, of every family of numbers."""
    items = ", ".join(f"{call} AS c{i}" for i, call in enumerate(EXPRESSIONS))
    query = f"SELECT {items} FROM plain {group}"
    with interpreted(spark):
        rows, expected = filled.sql(query), spark.sql(query)

        assert pushed_texts(filled, query) != [None]
        assert rows.dtypes == expected.dtypes
        order = "c0, c1, c2"
        assert_near(
            rows.orderBy(*order.split(", ")).collect(),
            expected.orderBy(*order.split(", ")).collect(),
        )


@pytest.mark.usefixtures("in_tasks")
@pytest.mark.parametrize(
    ("call", "is_error"),
    [
        ("sum(i * i)", True),
        ("max(l + 1)", True),
        ("avg(l * l)", True),
        ("sum(s * s)", True),
        ("sum(CASE WHEN k > 2 THEN i * i END)", False),
        ("sum(i * i) FILTER (WHERE k > 2)", False),
        ("sum(z * (i * i))", False),
        ("sum((i * i) * z)", True),
        ("sum(i + z)", False),
    ],
)
def test_an_expression_that_overflows_is_spark_s_error(
    spark: SparkSession, db: Database, store: Store, call: str, is_error: bool
) -> None:
    """Where Spark computes it: not in another branch, nor to the right of NULL; HAVING is later."""
    store.create_table("o", "k INT, i INT, l BIGINT, s TINYINT, z INT", primary_key=["k"])
    values = [(1, 2**20, 2**63 - 1, 100, None), (2, 2**20, 2**62, 100, None), (3, 2, 1, 1, None)]
    upsert(store, "o", values)
    source = spark.createDataFrame(values, "k INT, i INT, l BIGINT, s TINYINT, z INT")
    query = f"SELECT {call} AS c FROM {{}} HAVING count(*) > {'9' if is_error else '1'}"

    assert pushed_texts(db, query.format("o")) != [None]
    for rows in (db.sql(query.format("o")), spark.sql(query.format("{o}"), o=source)):
        if is_error:
            with pytest.raises(ArithmeticException, match="OVERFLOW"):
                rows.collect()
        else:
            assert [row.c for row in rows.collect()] in ([4], [None])


@pytest.mark.usefixtures("in_tasks")
def test_a_deviation_as_of_old_is_spark_s(spark: SparkSession, filled: Database) -> None:
    """By a setting, that of one value is NaN."""
    query = "SELECT stddev_samp(d), stddev_pop(d) FROM plain WHERE k = 1 OR k = 1000"
    spark.conf.set("spark.sql.legacy.statisticalAggregate", "true")
    try:
        assert pushed_texts(filled, query) == [None]
        assert answer(filled.sql(query)) == answer(spark.sql(query))
    finally:
        spark.conf.unset("spark.sql.legacy.statisticalAggregate")


def assert_near(rows: list[Any], expected: list[Any]) -> None:
    """Assert that rows are equal, but for the last digits of floats."""
    assert len(rows) == len(expected)
    for row, other in zip(rows, expected, strict=True):
        for value, expected_value in zip(row, other, strict=True):
            is_number = isinstance(value, float) and isinstance(expected_value, float)
            if is_number and not (math.isnan(value) and math.isnan(expected_value)):
                assert value == pytest.approx(expected_value, rel=1e-9, abs=1e-12)
            else:
                assert str(value) == str(expected_value)


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("in_tasks")
def test_a_limit_gives_the_first_rows(spark: SparkSession, filled: Database, seeds: Seeds) -> None:
    """The same rows in the same order; without an order as many, of those that match."""
    with interpreted(spark):
        for seed in seeds(40):
            query, is_ordered = limited_query(random.Random(seed))
            rows, expected = filled.sql(query).collect(), spark.sql(query).collect()

            assert len(rows) == len(expected), query
            if is_ordered:
                assert list(map(str, rows)) == list(map(str, expected)), query
            else:
                matching = spark.sql(query[: query.index("LIMIT")]).collect()
                assert set(map(str, rows)) <= set(map(str, matching)), query


@pytest.mark.usefixtures("in_tasks")
@pytest.mark.parametrize(
    ("query", "pushed", "partitions"),
    [
        ("SELECT * FROM plain LIMIT 7", "LIMIT 7", 0),
        ("SELECT k FROM plain WHERE r = 1 LIMIT 7 OFFSET 2", "LIMIT 9", 1),
        ("SELECT k FROM plain ORDER BY t DESC, d LIMIT 7", "ORDER BY t DESC, d LIMIT 7", 1),
        ("SELECT k FROM plain ORDER BY t NULLS LAST LIMIT 7", "ORDER BY t NULLS LAST LIMIT 7", 1),
        ("SELECT k, t FROM plain ORDER BY k DESC LIMIT 7", "ORDER BY k DESC LIMIT 7", 0),
        ("SELECT k FROM plain WHERE k > 9 ORDER BY k LIMIT 7", "ORDER BY k LIMIT 7", 0),
        ("SELECT k FROM plain WHERE r = 77 ORDER BY k LIMIT 7", "ORDER BY k LIMIT 7", 0),
        ("SELECT k, r + 1 AS t FROM plain ORDER BY t LIMIT 7", None, 1),
        ("SELECT k FROM plain ORDER BY r + 1 LIMIT 7", None, 1),
        ("SELECT explode(array(k, k)) FROM plain LIMIT 7", None, 1),
        ("SELECT row_number() OVER (ORDER BY k) FROM plain LIMIT 7", None, 1),
        ("SELECT k FROM plain WHERE upper(t) = 'A' LIMIT 7", None, 1),
        ("SELECT k FROM plain ORDER BY t LIMIT 100000", None, 1),
        ("SELECT * FROM plain TABLESAMPLE (10 ROWS) s LIMIT 7", None, 1),
        ("SELECT k FROM plain UNION ALL SELECT k FROM plain LIMIT 7", None, 1),
    ],
)
def test_explain_says_how_many_rows_are_read(
    filled: Database, query: str, pushed: str | None, partitions: int
) -> None:
    """Only where each row of the table is a row of the result."""
    row = filled.sql(f"EXPLAIN {query}").first()

    assert row is not None
    assert (row.pushed, row.partitions) == (pushed, partitions)


GROUPED = [
    "SELECT r % 2, count(*), sum(length(t)) FROM {} GROUP BY r % 2",
    "SELECT year(dt) AS y, max(abs(r)), avg(r + 0D) FROM {} GROUP BY y ORDER BY y DESC",
    "SELECT date_trunc('hour', ts), hour(ts), count(*) FROM {} GROUP BY 1, 2",
    "SELECT g + 1 AS c, count(DISTINCT r % 3, t) FROM {} GROUP BY g + 1",
    "SELECT max(l / r), sum(r div 2), max(x / 2) FROM {} WHERE r <> 0 AND length(t) > 0",
    "SELECT DISTINCT length(t), g FROM {} WHERE length(t) + 0D < 3 OR g % 2 = 1",
    "SELECT substring(t, 1, 1) || '.', count(*) FROM {} GROUP BY ALL HAVING count(*) > 2",
    "SELECT count_if(length(t) = 1), count(*) FILTER (WHERE month(dt) = 2) FROM {}",
    (
        "SELECT q, sum(c) FROM (SELECT year(z) * 1L AS q, count(*) AS c FROM {} "
        "GROUP BY year(z), bo) GROUP BY q"
    ),
    (
        "SELECT CASE WHEN length(t) > 1 THEN 'long' ELSE 'short' END AS kind, min(trim(t)) FROM {} "
        "GROUP BY kind"
    ),
    "SELECT g, year(dt) % 10 AS y, count(*) FROM {} GROUP BY g, y ORDER BY g + year(dt) % 10",
    (
        "SELECT datediff(dt, DATE '1970-01-01') AS d, count(*) FROM {} p GROUP BY "
        "DateDiff(p.dt, DATE '1970-01-01')"
    ),
    "SELECT r % 3, g, count(*), avg(l) FROM {} GROUP BY ROLLUP(r % 3, g) ORDER BY count(*), 1, 2",
    "SELECT r % 3 AS c, max(d) FROM {} GROUP BY ROLLUP(r % 3) HAVING r % 3 > 0 ORDER BY count(*)",
    (
        "SELECT length(t) AS size, bo, sum(r + g) FROM {} GROUP BY size, bo WITH CUBE "
        "HAVING sum(r + g) > 9"
    ),
    "SELECT coalesce(g, 0), if(bo, 1, 2), sum(r * 2) FROM {} GROUP BY 1, 2 ORDER BY 1 DESC LIMIT 9",
    "SELECT k % 7 AS a, k % 7 + 1 AS c, sum(k % 7) FROM {} GROUP BY k % 7 HAVING c > 2",
]


@pytest.mark.usefixtures("in_tasks")
@pytest.mark.parametrize("query", GROUPED)
def test_groups_and_conditions_are_computed_in_tasks(
    spark: SparkSession, filled: Database, query: str
) -> None:
    """Of rows with NULL, NaN, other characters than ASCII and times of every kind."""
    with interpreted(spark):
        text = query.format("merged")
        rows, expected = filled.sql(text), spark.sql(text)

        assert None not in pushed_texts(filled, text)
        assert rows.schema == expected.schema
        assert sorted(map(repr, rows.collect())) == sorted(map(repr, expected.collect()))


@pytest.mark.usefixtures("in_tasks")
@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("SELECT sum(r / (g - g)) FROM plain", "DIVIDE_BY_ZERO"),
        ("SELECT sum(r % (g - g)) FROM plain", "REMAINDER_BY_ZERO"),
        ("SELECT max(CAST(l AS INT)) FROM plain", "CAST_OVERFLOW"),
        ("SELECT max(CAST(n AS DECIMAL(4,2))) FROM plain", "NUMERIC_VALUE_OUT_OF_RANGE"),
        ("SELECT -ti AS c, count(*) FROM plain GROUP BY -ti", "ARITHMETIC_OVERFLOW"),
        ("SELECT count(DISTINCT abs(ti)) FROM plain", "ARITHMETIC_OVERFLOW"),
    ],
)
def test_what_fails_is_an_error_of_spark(
    spark: SparkSession, filled: Database, query: str, error: str
) -> None:
    """Of the class that Spark raises itself, also where rows are grouped by it."""
    assert pushed_texts(filled, query) != [None]
    with interpreted(spark):
        for frame in (filled.sql(query), spark.sql(query)):
            with pytest.raises(ArithmeticException, match=error):
                frame.collect()


def pushed_texts(db: Database, query: str) -> list[str | None]:
    """Return what EXPLAIN says that tasks add up, for each reference."""
    return [row.pushed for row in db.sql(f"EXPLAIN {query}").collect()[:-1]]


@pytest.mark.usefixtures("in_tasks")
def test_explain_says_what_tasks_add_up(filled: Database) -> None:
    """The calls and the columns of the groups; only what is added up is read."""
    query = "SELECT g, sum(r), avg(n) FROM plain WHERE t = 'a' GROUP BY g HAVING count(*) > 1"
    row = filled.sql(f"EXPLAIN {query}").first()

    assert row is not None
    assert row.pushed == "SUM(r), AVG(n), COUNT(*) BY g"
    assert row.columns == ["g", "r", "n", "t"]
    assert row.partitions == 1


@pytest.mark.usefixtures("in_tasks")
@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, count(*) FROM plain GROUP BY k",
        "SELECT k, t, sum(r) FROM plain GROUP BY k, t",
        "SELECT sum(n / 2) FROM plain",
        "SELECT sum(f + 1) FROM plain",
        "SELECT sum(n * n * n) FROM plain",
        "SELECT count(r + 1) FROM plain",
        "SELECT sum(CASE r WHEN 1 THEN 2 END) FROM plain",
        "SELECT collect_list(g) FROM plain GROUP BY g",
        "SELECT g, sum(sum(r)) OVER () FROM plain GROUP BY g",
        "SELECT sum(DISTINCT r) FILTER (WHERE g = 1) FROM plain",
        "SELECT count(*) FROM plain WHERE upper(t) = 'A'",
        "SELECT count(*) FROM plain WHERE r + 1 = 2",
        "SELECT year(dt) FROM plain GROUP BY year(dt), k",
        "SELECT sum(r) FROM plain GROUP BY upper(t), k",
        "SELECT to_json(struct(*)) FROM (SELECT r % 2, count(*) AS n FROM plain GROUP BY r % 2)",
        "SELECT count(r, g) FROM plain",
        "SELECT count(*) FROM plain p JOIN merged m ON p.k = m.k",
        "SELECT (SELECT count(*) FROM plain p WHERE p.k = m.k) FROM merged m",
        "SELECT sum(r) AS g, g + 1 FROM plain GROUP BY g HAVING g > 1",
        "SELECT rand() < 2, count(*) FROM plain",
        "SELECT count(* EXCEPT (k)) FROM plain",
        "SELECT count(g, *) FROM plain",
        "SELECT to_json(struct(*)) FROM (SELECT g, count(*) FROM plain GROUP BY g)",
        (
            "SELECT * FROM (SELECT g, sum(r) FROM plain GROUP BY g) NATURAL JOIN "
            "(SELECT g, sum(l) FROM merged GROUP BY g)"
        ),
        "SELECT DISTINCT 1 AS one FROM plain WHERE g = 1",
        "SELECT 1 FROM plain GROUP BY 1",
        "SELECT 1 AS one FROM plain GROUP BY ALL",
        "SELECT DISTINCT NULL AS a, 1 AS b FROM plain",
        "SELECT * FROM plain",
        "SELECT g FROM plain",
    ],
)
def test_other_queries_are_read_row_by_row(
    spark: SparkSession, filled: Database, query: str
) -> None:
    """Where tasks cannot add up, or it would not pay, nothing changes."""
    assert set(pushed_texts(filled, query)) == {None}
    assert answer(filled.sql(query)) == answer(spark.sql(query))


@pytest.mark.usefixtures("in_tasks")
def test_an_order_by_a_field_of_a_struct_is_spark_s(
    spark: SparkSession, db: Database, store: Store
) -> None:
    """A field in the star of a struct is an item, which ORDER BY sees before the table's column."""
    columns = "k INT, s STRUCT<k: INT, q: INT>"
    store.create_table("nested", columns, primary_key=["k"])
    rows = [(key, {"k": -key, "q": key}) for key in range(20)]
    upsert(store, "nested", rows)
    values = spark.createDataFrame(rows, columns)
    for items, order in (("s.*", "k"), ("nested.s.*", "k"), ("s AS nested", "nested.k")):
        query = f"SELECT {items} FROM {{}} ORDER BY {order} LIMIT 3"
        expected = spark.sql(query.format("{nested} AS nested"), nested=values).collect()

        assert pushed_texts(db, query.format("nested")) == [None]
        assert db.sql(query.format("nested")).collect() == expected


def outcome(rows: Callable[[], Any]) -> list[str] | None:
    """Return the rows of a DataFrame; None if Spark refuses the query."""
    try:
        return answer(rows())
    except AnalysisException:
        return None


@pytest.mark.usefixtures("in_tasks")
@pytest.mark.parametrize(
    "query",
    [
        # 'n' is false, and greater than '1'.
        "SELECT CASE WHEN bool_and(v) THEN 1 ELSE 2 END AS c FROM flags",
        "SELECT g AS r, count(*) AS n FROM flags GROUP BY g ORDER BY sum(r) LIMIT 1",
        "SELECT -g AS r, count(*) AS n FROM flags GROUP BY g HAVING sum(r) > 5",
    ],
)
def test_what_spark_may_refuse_is_read_row_by_row(
    spark: SparkSession, db: Database, store: Store, query: str
) -> None:
    """Then it means the same, or is refused too."""
    store.create_table("flags", "k INT, g INT, r INT, v STRING", primary_key=["k"])
    rows = [(1, 1, 30, "1"), (2, 2, 2, "n"), (3, 2, 9, "n")]
    upsert(store, "flags", rows)
    planned = QueryReader(spark, store).plan(query)
    values = f"VALUES {', '.join(map(str, rows))} AS flags(k, g, r, v)"

    assert [relation.aggregate for relation in planned.relations] == [None]
    expected = outcome(lambda: spark.sql(query.replace("flags", values)))
    assert outcome(lambda: db.sql(query)) == expected


def test_small_tables_are_not_added_up_in_tasks(filled: Database) -> None:
    """The driver reads them, which takes less time than a task."""
    assert pushed_texts(filled, "SELECT count(*) FROM plain") == [None]


@pytest.mark.usefixtures("in_tasks")
def test_any_value_is_a_value_of_its_group(filled: Database) -> None:
    """NULL only if all are; Spark gives the first that comes."""
    items = "any_value(t) AS t, any_value(r) FILTER (WHERE r > 2) AS r"
    query = f"SELECT g, {items} FROM plain GROUP BY g"
    pairs = {(row.g, row.t) for row in filled.table("plain").collect()}

    assert pushed_texts(filled, query) == ["ANY_VALUE(t), ANY_VALUE(r) FILTER(WHERE r > 2) BY g"]
    rows = filled.sql(query).collect()
    assert len(rows) == 4
    assert all((row.g, row.t) in pairs and row.t is not None and row.r > 2 for row in rows)


@pytest.mark.usefixtures("in_tasks")
def test_aggregates_are_of_the_epoch_that_is_named(filled: Database) -> None:
    """Of an earlier one before the rows were deleted."""
    (counts,) = filled.sql(
        "SELECT (SELECT count(*) FROM plain VERSION AS OF "
        f"{filled.store.epoch - 1}) AS before, (SELECT count(*) FROM plain) AS now"
    ).collect()

    assert (counts.before, counts.now) == (250, 214)


@pytest.mark.usefixtures("in_tasks")
def test_columns_may_have_the_names_of_results(db: Database, store: Store) -> None:
    """Of aggregates of Arrow; with those of measures, rows are sent."""
    store.create_table("named", "k INT, count_all INT", primary_key=["k"])
    store.create_table("measures", "k INT, __relstate_measure_0 INT", primary_key=["k"])
    for table in ("named", "measures"):
        upsert(store, table, [(key, key % 2) for key in range(10)])
    query = "SELECT count_all, count(*) FROM named GROUP BY count_all"
    other = "SELECT __relstate_measure_0, count(*) FROM measures GROUP BY __relstate_measure_0"

    assert pushed_texts(db, query) == ["COUNT(*) BY count_all"]
    assert pushed_texts(db, other) == [None]
    for text in (query, other):
        assert answer(db.sql(text)) == ["[0, 5]", "[1, 5]"]


@pytest.mark.usefixtures("in_tasks")
def test_a_sum_that_overflows_is_spark_s_error(
    spark: SparkSession, db: Database, store: Store
) -> None:
    """It is not wrapped around, and an average of the same numbers is right."""
    store.create_table("big", "k INT, g INT, l BIGINT", primary_key=["k"])
    upsert(store, "big", [(1, 1, 2**62), (2, 1, 2**62), (3, 2, -(2**63)), (4, 2, 1)])

    assert pushed_texts(db, "SELECT sum(l) FROM big WHERE g = 1") == ["SUM(l)"]
    with pytest.raises(ArithmeticException, match="ARITHMETIC_OVERFLOW"):
        db.sql("SELECT sum(l) FROM big WHERE g = 1").collect()
    rows = db.sql("SELECT g, avg(l) AS a, min(l) AS m FROM big GROUP BY g ORDER BY g").collect()
    assert [tuple(row) for row in rows] == [(1, 2.0**62, 2**62), (2, -(2.0**62), -(2**63))]
    (total,) = db.sql("SELECT sum(l) FROM big WHERE g = 2").collect()
    assert total[0] == -(2**63) + 1


@pytest.mark.usefixtures("in_tasks")
def test_a_session_that_reads_conditions_otherwise_adds_up_by_itself(
    spark: SparkSession, filled: Database
) -> None:
    """Without ANSI mode a sum wraps around, which no task promises."""
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        assert pushed_texts(filled, "SELECT sum(r) FROM plain") == [None]
    finally:
        spark.conf.set("spark.sql.ansi.enabled", "true")
