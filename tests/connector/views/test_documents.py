"""Views over a document table: they follow patches as they follow rows."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from relstate.connector.sql import Database
from relstate.storage import Store
from support.multisets import difference, rows_of_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from support.stores import StoreMaker

VIEWS = {
    "copy": "SELECT k, g, v, props['a'] AS a FROM t",
    "sums": "SELECT g, count(*) AS n, count(v) AS c, sum(v) AS s FROM t GROUP BY g",
    "pairs": "SELECT l.k, r.k AS other FROM t l JOIN t r ON l.g = r.g AND l.k < r.k",
}
PROPS = pa.map_(pa.string(), pa.int64())


def patch(store: Store, chance: random.Random) -> None:
    """Change some columns of some rows, or delete or write rows whole."""
    keys = pa.array(chance.sample(range(8), 3), pa.int64())
    numbers = pa.array([chance.choice([None, 1, 2]) for _ in keys], pa.int64())
    groups = pa.array([chance.choice([None, "x", "y"]) for _ in keys], pa.string())
    props = pa.array([chance.choice([None, {"a": 1}, {"a": None}, {}]) for _ in keys], PROPS)
    match chance.randrange(6):
        case 0:
            store.delete("t", pa.table({"k": keys}))
        case 1:
            props = pa.array([None, {"a": 1}, {"b": 2}], PROPS)
            store.write("t", pa.table({"k": keys, "g": groups, "v": numbers, "props": props}))
        case 2:
            store.patch("t", pa.table({"k": keys, "props": props}))
        case 3:
            store.patch("t", pa.table({"k": keys, "g": groups, "v": numbers}))
        case _:
            store.patch("t", pa.table({"k": keys, "v": numbers}))


@pytest.mark.slow
def test_views_follow_patches(spark: SparkSession, make_store: StoreMaker) -> None:
    """After every refresh a view is its SELECT; rows come and go with their columns."""
    chance = random.Random(3)
    store = make_store(vnode_count=8, shards=2)
    store.create_table(
        "t",
        "k BIGINT, g STRING, v BIGINT, props MAP<STRING, BIGINT>",
        primary_key=["k"],
        encoding="document",
    )
    db = Database(spark, store)
    for name, query in VIEWS.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} TBLPROPERTIES ('parallelism' = '2') AS {query}")
    for number in range(3):
        for _ in range(chance.randrange(1, 5)):
            patch(store, chance)
        if number == 1:
            store.compact("t")
        db.refresh()
        for name, query in VIEWS.items():
            view = rows_of_table(store.table(name).to_arrow())
            assert difference(view, rows_of_table(db.sql(query).toArrow())) == ([], [])
    assert [problem for report in db.check_views() for problem in report.problems] == []
