"""The sign of zero in views: -0 equals 0 in keys, and is read back as the -0 that it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from relstate.connector.sql import Database
from relstate.storage import NewProgress, Store
from support.views import internal_target, refresh

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from support.stores import StoreMaker

# What the rows have in their keys: an order, a partition, a join key, a compared value, an extreme.
VIEWS = {
    "ordered": "SELECT id, d, x, arr FROM f ORDER BY d, arr, x",
    "numbered": "SELECT id, d, row_number() OVER (PARTITION BY d ORDER BY id) AS n, "
    "lag(id) OVER (PARTITION BY x ORDER BY arr, id) AS l FROM f",
    "extremes_over": "SELECT id, max(d) OVER (PARTITION BY g ORDER BY id) AS m, "
    "min(d) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS i FROM f",
    "joined": "SELECT f.id, f.d, u.id AS i, u.d AS e FROM f LEFT JOIN u ON f.d = u.d",
    "both_sides": "SELECT d, f.id, u.id AS i FROM f FULL JOIN u USING (d)",
    "less": "SELECT f.id, f.d, u.d AS e FROM f LEFT JOIN u ON f.d < u.d",
    "members": "SELECT id, d FROM f WHERE d IN (SELECT d FROM u)",
    "extremes": "SELECT id, min(d) AS a, max(x) AS b, min(struct(d, 1)) AS s, max(arr) AS r, "
    "first(d) AS c, max_by(d, g) AS e FROM f GROUP BY id",
    "groups": "SELECT d, count(*) AS c, min(id) AS m FROM f GROUP BY d",
    "sets": "SELECT DISTINCT d, arr FROM f UNION SELECT d, array(d) FROM u",
    "lists": "SELECT g, sort_array(collect_list(DISTINCT d)) AS l FROM f GROUP BY g",
    "top": "SELECT id, d FROM f ORDER BY d, id LIMIT 2",
}
_F = "id BIGINT, g BIGINT, d DOUBLE, x FLOAT, arr ARRAY<DOUBLE>"
_NAN = float("nan")


@pytest.fixture
def store(make_store: StoreMaker) -> Store:
    """A store of two tables whose floats are zeros of both signs, NaN, NULL and few others."""
    store = make_store(vnode_count=4, shards=1)
    store.create_table("f", _F, primary_key=["id"])
    store.create_table("u", "id BIGINT, d DOUBLE", primary_key=["id"])
    put(
        store,
        "f",
        (1, 1, -0.0, -0.0, [-0.0]),
        (2, 1, 0.0, 0.0, [0.0, -0.0]),
        (3, 2, -0.0, 1.0, [1.0]),
        (4, 2, _NAN, _NAN, [_NAN]),
        (5, 2, -1.5, -1.5, None),
        (6, 1, None, None, [-0.0]),
    )
    put(store, "u", (1, 0.0), (2, -0.0), (3, 1.0), (4, _NAN))
    return store


def put(store: Store, table: str, *rows: tuple[Any, ...]) -> None:
    """Upsert rows of a table."""
    schema = store.table(table).schema.arrow_schema
    columns = [pa.array([row[n] for row in rows], field.type) for n, field in enumerate(schema)]
    store.write(table, pa.table(columns, schema=schema))


def shown(frame: DataFrame) -> list[str]:
    """Return rows as text, in which -0 is not 0."""
    return sorted(str(tuple(row)) for row in frame.collect())


@pytest.mark.timeout(900)
def test_a_view_has_the_zeros_of_its_select(spark: SparkSession, store: Store) -> None:
    """Also after updates that change a sign alone, in whatever key the value is.

    Rows of keys keep the sign; groups and distinct values have none, as in Spark.
    """
    db = Database(spark, store)
    for name, query in VIEWS.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    for turn in range(2):
        for name, query in VIEWS.items():
            assert shown(db.sql(f"SELECT * FROM {name}")) == shown(db.sql(query)), (name, turn)
        put(
            store,
            "f",
            (1, 1, 0.0, 0.0, [0.0]),
            (2, 1, -0.0, -0.0, [-0.0, 0.0]),
            (3, 2, 0.0, 1.0, [1.0]),
            (5, 2, -0.0, -0.0, [-0.0]),
        )
        put(store, "u", (1, -0.0), (2, 0.0))
        db.refresh()
    assert [report for report in db.check_views() if not report.ok] == []


def test_the_check_of_views_compares_signs(spark: SparkSession, store: Store) -> None:
    """A row whose zero has the other sign is reported, and one with the right sign is not."""
    db = Database(spark, store)
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT id, d FROM f ORDER BY d")
    assert db.check_views("v")[0].ok

    writer = internal_target(store, "v").open(store.environment)
    schema = store.table("v").schema.arrow_schema
    writer.write(pa.RecordBatch.from_pylist([{"id": 1, "d": 0.0}], schema=schema))
    view = store.view("v")
    progress = NewProgress(view, view.progress.reflects, view.progress.inputs)
    refresh(store, progress, segments=writer.finish())

    (report,) = db.check_views("v")
    assert "1 rows of its SELECT are missing" in "; ".join(report.problems)
