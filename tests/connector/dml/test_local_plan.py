"""Rows of a statement that the driver computes with compiled expressions: as Spark's jobs do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from relstate.connector.local_plan import LocalRelation
from relstate.connector.sql import Database, lookup
from relstate.connector.types import arrow_schema_of
from relstate.storage import Store
from support.spark import interpreted, jobs, sorted_rows
from support.stores import upsert

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ROWS = (
    "VALUES (1, 'a', 1.50, TIMESTAMP'2024-10-27 00:30:00', 0.0D), "
    "(2, NULL, NULL, NULL, double('NaN')), (3, 'é', -7.25, TIMESTAMP'1500-01-01 00:00:00', -0.0D), "
    "(NULL, '', 0.00, NULL, NULL) t(i, s, d, m, f)"
)


@pytest.fixture
def source(spark: SparkSession) -> DataFrame:
    """Return a frame of rows with NULLs and extremes."""
    return spark.sql(f"SELECT * FROM {_ROWS}")


def _relation(frame: DataFrame) -> LocalRelation:
    rows = frame.toArrow().cast(arrow_schema_of(frame.schema))
    return LocalRelation.of(frame.sparkSession, rows, frame.schema)


def _values(rows: Any) -> list[str]:
    return sorted(repr(tuple(row.values())) for row in rows.to_pylist())


@pytest.mark.parametrize(
    ("items", "where"),
    [
        ("*", "true"),
        ("s AS x, i, s AS y", "i IS NOT NULL"),
        ("i + 1, d * i, upper(s), date(m), f / 2, 'x', NULL, CAST(d AS INT)", "true"),
        (
            "CASE WHEN i > 1 THEN 10 DIV (i - 1) END, array(i, 2), struct(s, m)",
            "coalesce(f, 1) = 1",
        ),
        ("i, d", "10 / i > 5 AND s LIKE 'a%'"),
        ("7", "d < 0"),
        ("i", "i > 5"),
        ("i + 1, upper(s), m, d * 2, array(i)", "i > 5"),
    ],
)
def test_computed_rows_are_those_of_a_job(
    spark: SparkSession, source: DataFrame, items: str, where: str
) -> None:
    """With NULLs, types and times of any kind, and no job."""
    relation = _relation(source)
    frame = relation.frame.where(where).selectExpr(f"struct({items}) AS r")
    before = jobs(spark)
    batch = relation.computed(frame.select("r.*"))

    assert jobs(spark) == before
    assert batch is not None
    expected = source.where(where).selectExpr(f"struct({items}) AS r").select("r.*").toArrow()
    assert _values(batch) == _values(expected.rename_columns(batch.schema.names))


@pytest.mark.parametrize(
    "items",
    ["10 DIV (i - 2)", "rand()", "explode(array(i, i))", "(SELECT max(i) FROM range(3) r(i))"],
)
def test_what_fails_or_needs_more_is_left_to_spark(source: DataFrame, items: str) -> None:
    """An error is Spark's to raise; so are rows that come from other rows."""
    relation = _relation(source)

    assert relation.computed(relation.frame.selectExpr(items)) is None


@pytest.mark.parametrize(
    "clauses",
    [
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *",
        "WHEN MATCHED AND s.n > 2 THEN DELETE WHEN MATCHED THEN UPDATE SET n = t.n + s.n",
        "WHEN MATCHED AND s.n = 2 THEN DELETE WHEN NOT MATCHED THEN INSERT (a, v) VALUES (s.a, 1)",
        "WHEN MATCHED AND s.n <> 0 THEN UPDATE SET n = 10 DIV s.n",
        "WHEN MATCHED THEN UPDATE SET n = 10 DIV s.n",
        "WHEN NOT MATCHED THEN INSERT (a, n, v) VALUES (s.a, s.a * 1000000000, s.v)",
        "WHEN MATCHED THEN UPDATE SET a = s.a, n = s.n WHEN NOT MATCHED THEN INSERT *",
        "WHEN MATCHED THEN UPDATE SET a = s.a + 100",
        "WHEN MATCHED THEN UPDATE SET v = (SELECT max(v) FROM VALUES ('sub') q(v))",
        "WHEN MATCHED THEN UPDATE SET v = NULL",
    ],
)
@pytest.mark.parametrize("repeated", [False, True])
def test_a_merge_of_many_rows_is_that_of_few(
    db: Database,
    store: Store,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    clauses: str,
    repeated: bool,
) -> None:
    """Rows, counts and errors, with NULLs, values that overflow, and keys that come twice."""
    rows = ["(1, 0, 'a')", "(2, 2, NULL)", "(NULL, 1, 'n')", "(7, 3, 'g')", "(4, NULL, 'd')"]
    values = ", ".join([*rows, "(2, 5, 'again')"] if repeated else rows)
    outcomes = []
    with interpreted(spark):
        for name, most in (("few", 100), ("many", -1)):
            store.create_table(name, "a BIGINT, n INT, v STRING", primary_key=["a"])
            upsert(store, name, [(a, a * 10, f"v{a}") for a in range(1, 5)])
            monkeypatch.setattr(lookup, "COMPILED_ROWS", most)
            statement = f"MERGE INTO {name} t USING (VALUES {values}) s(a, n, v) ON t.a = s.a "
            try:
                outcome: Any = db.sql(statement + clauses).first()[1:]  # type: ignore[index]
            except Exception as error:
                outcome = type(error), str(error).replace(name, "TABLE").split("\n")[0]
            outcomes.append((outcome, sorted_rows(store, name)))

    assert outcomes[0] == outcomes[1]
