"""The law of aggregates near the data: a query has what Spark gives it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, ArithmeticException

from relstate.connector import rows_frame
from relstate.connector.sql import driver_aggregate
from relstate.connector.sql.query_reader import QueryReader
from relstate.storage import ReadPlan, Store, threaded_aggregate
from support.examples import Seeds
from support.pushed import CONDITIONS, POOLS, TABLES, answer, assert_near, pushed_texts
from support.spark import interpreted
from support.stores import upsert

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from relstate.connector.sql import Database


GROUPS = ["g", "t", "ti", "d", "x", "n", "dt", "ts", "z", "b", "bo", "r"]


ARGUMENTS = {
    "count": [*POOLS, "k"],
    "sum": ["k", "r", "ti", "l", "f", "d", "n", "w", "x"],
    "avg": ["k", "r", "ti", "l", "f", "d", "n", "w", "x"],
    "min": [*POOLS, "k"],
    "max": [*POOLS, "k"],
}


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


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("in_tasks")
def test_a_query_has_what_spark_gives_it(
    spark: SparkSession, filled: Database, seeds: Seeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random aggregates over tables of every kind: rows, names, types and nullability.

    Every other one is added up by the driver, half of these handed over in Arrow.
    """
    pushed = final = 0
    with interpreted(spark):
        for seed in seeds(60):
            query = Queries(seed).query()
            monkeypatch.setattr(driver_aggregate, "THREAD_BYTES", -1 if seed % 2 else 1 << 40)
            monkeypatch.setattr(rows_frame, "MOST_ROWS_OF_SPARK", -1 if seed % 4 else 8192)
            reader = QueryReader(spark, filled.store)
            planned, frame = reader.settled_frame(reader.plan(query))
            pushed += any(relation.aggregate for relation in planned.relations)
            final += any(relation.has_final_rows for relation in planned.relations)
            expected = spark.sql(query)

            assert frame.dtypes == expected.dtypes, query
            assert answer(frame) == answer(expected), query
    assert pushed > len(seeds(60)) * 0.6
    assert final > len(seeds(60)) * 0.1


FINAL = [
    *(
        f"SELECT {group}, count(*), count({{0}}), sum({{0}}), avg({{0}}), min({{0}}), max({{0}}), "
        f"sum({{0}}) FILTER (WHERE r < 3), std({{0}}), var_pop({{0}}) FROM plain GROUP BY {group}"
        for group in ("g", "t", "n, g", "r % 4", "10 div r")
    ),
    "SELECT t, {0}, min(x) AS m, max(x) AS o, sum(x) FROM plain WHERE r <> 0 GROUP BY 1, 2",
    "SELECT max({0}) FROM plain WHERE t = 'a' GROUP BY g HAVING sum(r) > 4 AND g < 3 OR max(g) = 3",
    "SELECT sum(s) + 1 AS s, count(*) FROM (SELECT r, sum({0}) AS s FROM plain GROUP BY r)",
    "SELECT g, sum({0}) AS s FROM plain GROUP BY g ORDER BY count(*) DESC, s LIMIT 2",
    "SELECT DISTINCT {0}, bo FROM plain",
    "SELECT count(*), count({0}), sum({0}), avg({0}), min(t), std({0}) FROM plain",
    "SELECT sum({0}) AS s FROM plain WHERE r > 2 HAVING count(*) > 1 AND max({0}) > 1 ORDER BY 1",
    "SELECT max({0}) FROM plain HAVING count(*) > 1000000",
    (
        "SELECT a.g, b.{0} FROM (SELECT g, max({0}) AS {0} FROM plain GROUP BY g) a JOIN "
        "(SELECT {0}, count(*) AS c FROM plain GROUP BY {0}) b ON a.{0} = b.{0}"
    ),
]


@pytest.mark.usefixtures("on_driver")
@pytest.mark.parametrize("most_rows_of_spark", [-1, 8192])
def test_groups_of_the_driver_are_not_grouped_again(
    spark: SparkSession,
    filled: Database,
    monkeypatch: pytest.MonkeyPatch,
    most_rows_of_spark: int,
) -> None:
    """They have what Spark gives, with NULL, NaN, and without rows; or its error."""
    monkeypatch.setattr(rows_frame, "MOST_ROWS_OF_SPARK", most_rows_of_spark)
    final = 0
    with interpreted(spark):
        for number, query in enumerate(FINAL):
            text = query.format(["l", "n", "w", "ti", "r"][number % 5])
            reader = QueryReader(spark, filled.store)
            planned, frame = reader.settled_frame(reader.plan(text))
            final += any(relation.has_final_rows for relation in planned.relations)
            try:
                expected = spark.sql(text).collect()
            except ArithmeticException:
                with pytest.raises(ArithmeticException, match="DIVIDE_BY_ZERO"):
                    frame.collect()
                continue
            assert frame.schema == spark.sql(text).schema, text
            by_text = [sorted(rows, key=str) for rows in (frame.collect(), expected)]
            assert_near(*by_text)
    assert final == len(FINAL) - 1


@pytest.mark.usefixtures("on_driver")
@pytest.mark.parametrize(
    ("text", "is_local"),
    [
        ("SELECT count(*), sum(r) FROM plain WHERE r > 1 HAVING max(r) > 0", True),
        ("SELECT g, max(t) AS m FROM plain GROUP BY g HAVING count(*) > 1 LIMIT 2", True),
        ("SELECT g, max(t) AS m FROM plain GROUP BY g ORDER BY m", False),
        ("SELECT sum(m) FROM (SELECT max(r) AS m FROM plain GROUP BY g)", False),
        ("SELECT g, count(*) FROM plain GROUP BY g UNION ALL SELECT 1, 2", False),
    ],
)
def test_spark_has_no_job_for_few_groups_as_they_are(
    filled: Database, text: str, is_local: bool
) -> None:
    """Where it brings several together, they are one partition, which needs no shuffle."""
    plan = filled.sql(text)._jdf.queryExecution().executedPlan().toString()
    assert plan.startswith("LocalTableScan") == is_local, plan
    assert "Exchange" not in plan


VARIANCES = (
    "stddev", "std", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp",
)  # fmt: skip


@pytest.mark.usefixtures("in_tasks")
@pytest.mark.parametrize(
    ("group", "having", "thread_bytes"),
    [
        ("''", "", -1),
        ("g, t", "WITH ROLLUP", 1 << 40),
        ("r, g, ti", "HAVING stddev(l) > 3", 1 << 40),
    ],
)
def test_variances_are_spark_s(
    spark: SparkSession,
    filled: Database,
    monkeypatch: pytest.MonkeyPatch,
    group: str,
    having: str,
    thread_bytes: int,
) -> None:
    """Of every type, with NULL, NaN and infinities, of groups of one value and of none."""
    monkeypatch.setattr(driver_aggregate, "THREAD_BYTES", thread_bytes)
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

            shown = filled.sql(f"EXPLAIN {query.format(table)}").first()
            assert shown is not None
            assert shown.pushed is not None
            assert shown.partitions == (1 if thread_bytes < 0 else 0)
            assert rows.dtypes == expected.dtypes
            assert_near(rows.collect(), expected.collect())


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


@pytest.mark.usefixtures("on_driver")
def test_the_driver_adds_up_few_rows(
    spark: SparkSession, filled: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EXPLAIN says where: no task if the driver does; tasks where groups are too many for it."""
    query = "SELECT g, sum(r) AS s FROM plain GROUP BY g"
    explain = f"EXPLAIN {query}"
    row, plan = filled.sql(explain).collect()
    assert (row.pushed, row.partitions) == ("SUM(r) BY g", 0)
    assert "LocalTableScan" in plan.plan
    assert "BatchScan" not in plan.plan
    expected = answer(spark.sql(query))
    assert answer(filled.sql(query)) == expected

    monkeypatch.setattr(threaded_aggregate, "_MOST_ROWS", 1)
    row, _ = filled.sql(explain).collect()
    assert (row.pushed, row.partitions) == ("SUM(r) BY g", 1)
    assert answer(filled.sql(query)) == expected


@pytest.mark.usefixtures("in_tasks")
def test_the_driver_adds_up_few_rows_of_all_references_together(
    filled: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query of many aggregates takes no longer to plan than one."""
    size = filled.store.read_plan("plain").stored_bytes
    monkeypatch.setattr(driver_aggregate, "driver_threads", lambda _: 2)
    monkeypatch.setattr(driver_aggregate, "THREAD_BYTES", size)
    query = " UNION ALL ".join(["SELECT sum(r) FROM plain"] * 3)
    *rows, _ = filled.sql(f"EXPLAIN {query}").collect()
    assert [row.partitions for row in rows] == [0, 0, 1]


@pytest.mark.usefixtures("on_driver")
def test_files_on_a_server_are_not_fetched_by_the_driver(
    filled: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks on several machines fetch them at the same time."""
    monkeypatch.setattr(ReadPlan, "is_on_this_machine", lambda _: False)
    row = filled.sql("EXPLAIN SELECT g, sum(r) FROM plain GROUP BY g").first()
    assert row is not None
    assert (row.pushed, row.partitions) == ("SUM(r) BY g", 1)


@pytest.mark.usefixtures("on_driver")
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
@pytest.mark.parametrize("thread_bytes", [-1, 1 << 40])
def test_a_sum_that_overflows_is_spark_s_error(
    db: Database, store: Store, monkeypatch: pytest.MonkeyPatch, thread_bytes: int
) -> None:
    """It is not wrapped around, and an average of the same numbers is right."""
    monkeypatch.setattr(driver_aggregate, "THREAD_BYTES", thread_bytes)
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
