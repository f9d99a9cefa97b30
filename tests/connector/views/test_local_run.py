"""Small refreshes run in the driver's process, and do what a job of Spark does."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from relstate.connector.sql import Database
from relstate.connector.views import local_run, runner
from relstate.connector.views.bounds import GivenUpError, StateBoundError
from relstate.connector.views.executor.changes import chunk_schema
from relstate.connector.views.job import JobOutput
from relstate.connector.views.local_expressions import LocalEvaluator
from relstate.connector.views.plan.node import Expression
from relstate.connector.views.sessions import Sessions
from relstate.connector.views.stored_plans import StoredPlans
from relstate.storage import Store, errors, types
from relstate.storage.paths import SEGMENTS
from support.examples import examples
from support.faulty_environment import failing
from support.local import IN_DRIVER, IN_JOB, local_rows
from support.multisets import difference, rows_of_table
from support.spark import jobs
from support.stores import StoreMaker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What the driver computes: every operator without a task of Spark, with and without expressions.
LOCAL = {
    "plain": "SELECT k, v FROM t",
    "computed": "SELECT k, upper(g) AS g, v + 1 AS w FROM t WHERE v % 3 > 0 AND g IS NOT NULL",
    "sums": "SELECT g, date_trunc('HOUR', at) AS h, count(*) AS c, sum(v), avg(v), max(v) "
    "FROM t GROUP BY 1, 2 HAVING count(*) > 1",
    "all": "SELECT count(*) AS c, min(v) AS m, count(DISTINCT g) AS d FROM t",
    "pairs": "SELECT a.k, b.v FROM t a LEFT JOIN t b ON a.k + 1 = b.k AND a.v < b.v",
    "full": "SELECT t.k, u.g, u.n FROM t FULL JOIN u ON t.g = u.g AND t.v > u.n",
    "bands": "SELECT t.k, u.n FROM t JOIN u ON t.v BETWEEN u.n AND u.n + 5",
    "missing": "SELECT k FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.n > t.v)",
    "both": "SELECT k, g FROM t UNION ALL SELECT n, upper(g) FROM u",
    "tops": "SELECT g, k, v FROM t QUALIFY row_number() OVER (PARTITION BY g ORDER BY v, k) <= 2",
    "steps": "SELECT k, v - lag(v) OVER (PARTITION BY g ORDER BY k) AS step FROM t",
    "recent": "SELECT k, v FROM t WHERE at > now() - INTERVAL 1 HOUR",
    "shared": "WITH a AS (SELECT g, sum(v) AS s FROM t GROUP BY g) "
    "SELECT g, s FROM a WHERE s >= (SELECT avg(s) FROM a)",
    "nearest": "SELECT t.k, u.n FROM t LEFT ASOF JOIN u MATCH_CONDITION (t.v >= u.n) ON t.g = u.g",
    "letters": "SELECT k, p, e FROM t LATERAL VIEW posexplode(split(g || '1', '1')) AS p, e",
    "padded": "SELECT k, e FROM t LATERAL VIEW OUTER explode(array_repeat(v, int(k % 3))) AS e",
    "hops": "SELECT window.start AS start, count(*) AS c FROM t "
    "GROUP BY window(at, '2 hours', '1 hour')",
    "over": "SELECT c, count(*) AS n FROM sums GROUP BY c",
}
# What only a task of Spark evaluates.
IN_TASKS = {
    "words": "SELECT k, a FROM t LATERAL VIEW json_tuple(to_json(struct(g AS a)), 'a') AS a",
    "lists": "SELECT g, sort_array(collect_list(v)) AS l FROM t GROUP BY g",
}


@pytest.fixture
def db(spark: SparkSession, make_store: StoreMaker) -> Database:
    """A store with tables of few rows."""
    store = make_store(vnode_count=16, shards=2)
    store.create_table("t", "k BIGINT, g STRING, v BIGINT, at TIMESTAMP", primary_key=["k"])
    store.create_table("u", "n BIGINT, g STRING")
    put(store, *range(30))
    store.write("u", pa.table({"n": [3, 3, 17, None], "g": ["g0", "g1", "g0", None]}))
    return Database(spark, store)


def put(store: Store, *keys: int, factor: int = 1) -> None:
    """Upsert rows that follow from their keys."""
    values = [key * factor for key in keys]
    groups = [None if value % 7 == 0 else f"g{value % 3}" for value in values]
    times = pa.array([value * 1_800_000_000 for value in values], pa.timestamp("us", tz="UTC"))
    store.write("t", pa.table({"k": keys, "g": groups, "v": values, "at": times}))


def change(store: Store, factor: int) -> None:
    """Insert, update and delete rows of both tables."""
    put(store, *range(20, 40), factor=factor)
    store.delete("t", pa.table({"k": [factor, factor + 1]}))
    store.write("u", pa.table({"n": [factor], "g": ["g1"]}))


def create(db: Database, views: Mapping[str, str], parallelism: int = 2) -> None:
    """Create views."""
    properties = f"TBLPROPERTIES ('parallelism' = '{parallelism}')"
    for name, query in views.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} {properties} AS {query}")


def tables_of(db: Database, name: str) -> dict[int, list[tuple[Any, ...]]]:
    """Return the rows of a view's own table and of its state tables, by position."""
    state = db.store.state
    view = state.view(name)
    names = [state.name_of(table_id) for table_id in (*view.definition.internal, view.view_id)]
    return {n: rows_of_table(db.store.table(name).to_arrow()) for n, name in enumerate(names)}


def test_a_small_refresh_runs_no_job(db: Database, spark: SparkSession) -> None:
    """And it does what a job does: the same rows, state and counts, whoever wrote them before.

    The report of a refresh says which views were computed in the driver.
    """
    create(db, LOCAL)
    create(db, {f"{name}_2": q.replace("FROM sums", "FROM sums_2") for name, q in LOCAL.items()}, 3)
    copies = list(LOCAL), [f"{name}_2" for name in LOCAL]
    for epoch in (2, 3):
        change(db.store, epoch)
        with local_rows(IN_JOB):
            in_jobs = db.refresh(copies[epoch % 2])
        before = jobs(spark)
        in_driver = db.refresh(copies[1 - epoch % 2])
        assert jobs(spark) == before
        assert (in_jobs.local, in_driver.local) == ((), tuple(sorted(in_driver.views)))
        assert in_driver.rows == in_jobs.rows
        assert {"sums", "all"} <= {name.removesuffix("_2") for name in in_driver.views}
        for name in LOCAL:
            ours, theirs = tables_of(db, name), tables_of(db, f"{name}_2")
            for table, rows in ours.items():
                assert difference(rows, theirs[table]) == ([], []), (epoch, name, table)
    for report in db.check_views():
        assert report.ok, report


def test_what_changes_nothing_runs_no_job(db: Database, spark: SparkSession) -> None:
    """Not even where refreshes are jobs: to parse, to check and to plan a view needs none.

    But Spark computes how long an interval is.
    """
    intervals = ("now()", "window(")
    queries = {**LOCAL, **IN_TASKS}.items()
    views = {name: q for name, q in queries if not any(text in q for text in intervals)}
    create(db, views)
    before, state = jobs(spark), db.store.state
    with local_rows(IN_JOB):
        assert Database(spark, db.store).refresh().views == ()
        plans = StoredPlans(Sessions(spark))
        for name, query in views.items():
            assert plans.plan_of(state, state.view(name).view_id).fragments
            db.sql(f"EXPLAIN CREATE MATERIALIZED VIEW other AS {query}")
    assert jobs(spark) == before


def test_what_tasks_evaluate_stays_in_a_job(db: Database, spark: SparkSession) -> None:
    """Generators of JSON and keyed recomputes, however few changes there are."""
    create(db, IN_TASKS)
    change(db.store, 2)

    done = db.refresh()

    assert (done.views, done.local) == (("lists", "words"), ())
    for name, query in IN_TASKS.items():
        expected = rows_of_table(db.sql(query).toArrow())
        assert difference(rows_of_table(db.store.table(name).to_arrow()), expected) == ([], [])


def test_too_many_rows_go_to_a_job(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes of a source, rows that an operator returns, rows that it reads of its state.

    Nothing is left of the first try.
    """
    squares = {"squares": "SELECT a.k, b.k AS other FROM t AS a JOIN t AS b ON a.g = b.g"}
    create(db, squares)
    given_up: list[bool] = []

    def watched(*args: Any) -> JobOutput | None:
        files = db.store.environment.list(SEGMENTS)
        try:
            output = local_run.run_locally(*args)
        except StateBoundError:
            given_up.append(True)
            assert db.store.environment.list(SEGMENTS) == files
            raise
        given_up.append(output is None)
        assert output is not None or db.store.environment.list(SEGMENTS) == files
        return output

    monkeypatch.setattr(runner, "run_locally", watched)

    def refreshed_locally(
        most_rows: int = IN_DRIVER,
        most_returned: int = local_run.OUTPUT_ROWS,
        most_bytes: int = local_run.LOCAL_BYTES,
        most_read: int = local_run.STATE_ROWS,
    ) -> bool:
        put(db.store, *range(6), factor=next(factors))
        monkeypatch.setattr(local_run, "LOCAL_ROWS", most_rows)
        monkeypatch.setattr(local_run, "OUTPUT_ROWS", most_returned)
        monkeypatch.setattr(local_run, "LOCAL_BYTES", most_bytes)
        monkeypatch.setattr(local_run, "STATE_ROWS", most_read)
        # So that a job goes on, not a full refresh.
        monkeypatch.setattr(runner, "STATE_ROWS", most_read)
        done = db.refresh()
        expected = rows_of_table(db.sql(squares["squares"]).toArrow())
        rows = rows_of_table(db.store.table("squares").to_arrow())
        assert difference(rows, expected) == ([], [])
        return done.local == ("squares",)

    factors = count(2)
    assert refreshed_locally(most_rows=6)
    assert not refreshed_locally(most_rows=5)
    assert not refreshed_locally(most_returned=20)
    assert not refreshed_locally(most_bytes=100)
    assert not refreshed_locally(most_bytes=1500)
    assert not refreshed_locally(most_read=10)
    assert refreshed_locally()
    assert given_up == [False, True, True, True, False]


def test_of_a_window_a_quarter_of_the_changes_goes_to_a_job(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them has more rows of the partition read."""
    create(db, {"ranks": "SELECT k, g, rank() OVER (PARTITION BY g ORDER BY v) AS r FROM t"})
    for most, local in ((24, ("ranks",)), (23, ())):
        put(db.store, *range(6), factor=most)
        monkeypatch.setattr(local_run, "LOCAL_ROWS", most)
        assert db.refresh().local == local


@pytest.mark.parametrize("fault", ["crash_at", "error_at", "lost_at"])
def test_a_run_that_fails_anywhere_commits_all_or_nothing(
    fault: str, db: Database, spark: SparkSession
) -> None:
    """At each touch of a file: afterwards a view is as it was, or reflects the last commit."""
    create(db, {"sums": "SELECT g, count(*) AS c, sum(v) AS s FROM t GROUP BY g"})
    store = db.store
    stride = max(1, 24 // examples(8))

    def expected() -> list[tuple[Any, ...]]:
        sums: dict[str | None, tuple[int, int]] = {}
        for row in store.table("t").to_arrow().to_pylist():
            c, s = sums.get(row["g"], (0, 0))
            sums[row["g"]] = c + 1, s + row["v"]
        return [(group, *values) for group, values in sums.items()]

    before = expected()
    for step in count(1, stride):
        put(store, *range(step % 7, 20), factor=step + 1)
        environment = failing(store.path, fault, step)
        with environment.crashing():
            try:
                Database(spark, Store.open(store.path, environment=environment)).refresh()
            except (errors.RelstateError, OSError):
                assert fault != "crash_at"
        rows = rows_of_table(store.table("sums").to_arrow())
        assert difference(rows, expected()) == ([], []) or difference(rows, before) == ([], [])
        assert db.refresh().local in ((), ("sums",))
        before = expected()
        assert difference(rows_of_table(store.table("sums").to_arrow()), before) == ([], [])
        if not environment.struck:
            break


TYPES = {
    "BOOLEAN": "true",
    "TINYINT": "-3Y",
    "SMALLINT": "300S",
    "INT": "-70000",
    "BIGINT": "9223372036854775807",
    "FLOAT": "CAST('NaN' AS FLOAT)",
    "DOUBLE": "-0.0D",
    "DECIMAL(38,10)": "CAST('1234567890123456789012345678.0123456789' AS DECIMAL(38,10))",
    "DECIMAL(5,2)": "CAST(-1.25 AS DECIMAL(5,2))",
    "STRING": "'größe\\u0000 😀'",
    "STRING COLLATE UTF8_LCASE": "'Straße' COLLATE UTF8_LCASE",
    "BINARY": "X'00FF'",
    "DATE": "DATE'-0044-03-15'",
    "TIMESTAMP": "TIMESTAMP'9999-12-31 23:59:59.999999'",
    "TIMESTAMP_NTZ": "TIMESTAMP_NTZ'0001-01-01 00:00:00.000001'",
    "INTERVAL DAY TO SECOND": "INTERVAL '-3 04:05:06.789' DAY TO SECOND",
    "ARRAY<INT>": "array(1, NULL, 3)",
    "MAP<STRING,DOUBLE>": "map('a', 1.5D, 'b', NULL)",
    "STRUCT<a: INT, b: ARRAY<TIMESTAMP>>": (
        "named_struct('a', 1, 'b', array(TIMESTAMP'2024-02-29 01:02:03'))"
    ),
    "VARIANT": "parse_json('{\"a\": [1, null]}')",
}


def test_values_of_all_types_pass_expressions_unchanged(db: Database) -> None:
    """Values reach Spark's expressions and come back as they do in a job, NULL too."""
    columns = [f"c{number}" for number in range(len(TYPES))]
    typed = ", ".join(f"{column} {kind}" for column, kind in zip(columns, TYPES, strict=True))
    db.sql(f"CREATE TABLE typed (k INT, {typed}, PRIMARY KEY (k))")
    chosen = ", ".join(f"coalesce({column}, NULL) AS {column}" for column in columns)
    views = dict.fromkeys(("local", "task"), f"SELECT k, {chosen} FROM typed WHERE k <> 7")
    create(db, views)
    db.sql(f"INSERT INTO typed SELECT 1, {', '.join(TYPES.values())}")
    db.sql(f"INSERT INTO typed SELECT 2, {', '.join(['NULL'] * len(TYPES))}")
    db.sql(f"INSERT INTO typed SELECT 7, {', '.join(['NULL'] * len(TYPES))}")

    assert db.refresh("local").local == ("local",)
    with local_rows(IN_JOB):
        assert db.refresh("task").local == ()

    local, task = (db.store.table(name).to_arrow().sort_by("k") for name in views)
    assert local.schema.equals(task.schema)
    assert local.num_rows == 2
    for column in ["k", *columns]:
        ours, theirs = (table.column(column).combine_chunks() for table in (local, task))
        assert str(ours) == str(theirs)
    source = db.store.table("typed").to_arrow().sort_by("k")
    assert str(source.column("c7").slice(0, 2)) == str(local.column("c7"))


FIELDS = (types.Field("n", types.Int()), types.Field("s", types.String()))


def chunk_of(*numbers: int) -> pa.RecordBatch:
    """Return a chunk of inserts."""
    rows = [{"_op": 1, "n": number, "s": str(number)} for number in numbers]
    return pa.RecordBatch.from_pylist(rows, chunk_schema(FIELDS))


def test_expressions_are_evaluated_without_a_job(spark: SparkSession) -> None:
    """Of all columns, some, or none; as often as there are rows."""
    evaluator = LocalEvaluator(spark)
    texts = ("n * 2 + n", "7", "n BETWEEN 2 AND 3", "NULLIF(n, 3)", "length(s || s)", "n")
    expressions = tuple(Expression(text, types.Int()) for text in texts)
    expressions = (*expressions[:2], Expression(texts[2], types.Boolean()), *expressions[3:])
    before = jobs(spark)
    for _ in range(2):
        values = evaluator.evaluate(chunk_of(1, 3, 20), FIELDS, expressions)
        assert [column.to_pylist() for column in values] == [
            [3, 9, 60],
            [7, 7, 7],
            [False, True, False],
            [1, None, 20],
            [2, 2, 4],
            [1, 3, 20],
        ]
        (constant,) = evaluator.evaluate(chunk_of(5, 6), FIELDS, expressions[1:2])
        assert constant.to_pylist() == [7, 7]
    assert jobs(spark) == before


@pytest.mark.parametrize("text", ["10 DIV (n - 3)", "explode(array(n))", "missing + 1"])
def test_a_run_is_given_up_where_spark_cannot_evaluate(text: str, spark: SparkSession) -> None:
    """Values of some of the rows are not returned; the JVM keeps none of the memory.

    The next evaluation is not disturbed.
    """
    evaluator, jvm = LocalEvaluator(spark), spark._jvm
    assert jvm is not None
    allocator = jvm.org.apache.spark.sql.util.ArrowUtils.rootAllocator()
    before = allocator.getAllocatedMemory()
    with pytest.raises(GivenUpError):
        evaluator.evaluate(chunk_of(1, 3, 20), FIELDS, (Expression(text, types.BigInt()),))
    assert allocator.getAllocatedMemory() == before

    (values,) = evaluator.evaluate(chunk_of(1), FIELDS, (Expression("10L DIV n", types.BigInt()),))
    assert values.to_pylist() == [10]


def test_a_view_keeps_its_settings_and_the_session_its_own(
    spark: SparkSession, db: Database
) -> None:
    """Expressions are evaluated under the settings of the view's creation, in either path."""
    elsewhere = spark.newSession()
    elsewhere.conf.set("spark.sql.session.timeZone", "America/New_York")
    elsewhere.conf.set("spark.sql.ansi.enabled", "false")
    query = "SELECT k, CAST(at AS STRING) AS local_time, CAST(g AS INT) AS n FROM t"
    create(Database(elsewhere, db.store), {"a": query, "b": query})
    put(db.store, 3, 4, factor=5)

    assert db.refresh("a").local == ("a",)
    with local_rows(IN_JOB):
        assert db.refresh("b").local == ()

    rows = rows_of_table(db.store.table("a").to_arrow())
    assert difference(rows, rows_of_table(db.store.table("b").to_arrow())) == ([], [])
    assert (3, "1970-01-01 02:30:00", None) in rows
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_an_expression_that_fails_is_the_same_error(db: Database) -> None:
    """In the driver and in a job: the view's failure with the sentence of Spark."""
    create(db, {"q": "SELECT k, 10 DIV (v - 99) AS d FROM t WHERE k < 99"})
    db.sql("INSERT INTO t VALUES (50, 'g', 99, NULL)")
    raised = []
    for most in (IN_DRIVER, IN_JOB):
        with local_rows(most), pytest.raises(errors.ViewFailedError) as error:
            db.refresh()
        raised.append(str(error.value))

    problems = [text.split("What was raised: ")[1].split(": ", 1)[1] for text in raised]
    assert problems[0] == problems[1]
    assert "DIVIDE_BY_ZERO" in problems[0]


def test_a_job_decides_whether_an_expression_fails(db: Database) -> None:
    """In a job Spark drops a row by a filter before it computes the columns below the filter."""
    query = "SELECT k, d FROM (SELECT k, v, 10 DIV (v - 99) AS d FROM t) WHERE v <> 99"
    create(db, {"q": query})
    db.sql("INSERT INTO t VALUES (50, 'g', 99, NULL)")

    db.refresh()

    expected = [(key, int(10 / (key - 99))) for key in range(30)]
    assert difference(rows_of_table(db.store.table("q").to_arrow()), expected) == ([], [])


def test_a_stream_refreshes_in_the_driver(db: Database) -> None:
    """It reports which views were computed there."""
    create(db, {"sums": LOCAL["sums"], **IN_TASKS})
    stream = db.stream()
    change(db.store, 3)
    stream.processAllAvailable()
    stream.stop()

    assert stream.lastProgress is not None
    assert stream.lastProgress["views"] == ["lists", "sums", "words"]
    assert stream.lastProgress["local"] == ["sums"]
