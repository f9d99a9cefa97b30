"""The text of a DataFrame is compared with it, whatever ids Spark gives to the columns of both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as f

from relstate.connector.sql import Database
from relstate.connector.sql.frame_query import FrameQueries
from relstate.storage import Store
from support.stores import unsynced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from support.frames import MakeFrame

# Spark's optimizer orders the DISTINCT arguments, and the OR, by hashes of ids.
HASHED: dict[str, MakeFrame] = {
    "computed": lambda o, c: (
        o.withColumn("u", f.upper("note"))
        .withColumn("v", f.col("amount") * 2)
        .groupBy("u")
        .agg(f.countDistinct("v").alias("n"), f.countDistinct("id").alias("m"))
    ),
    "exists": lambda o, c: (
        o.where(
            c.alias("x").where(f.col("x.id") == f.col("o.customer").outer()).exists()
            | (f.col("note") == "a")
        )
        .groupBy("note")
        .agg(f.countDistinct("amount").alias("n"), f.countDistinct("customer").alias("m"))
    ),
}


@pytest.fixture(scope="module")
def db(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A store with orders and customers."""
    path = str(tmp_path_factory.mktemp("ids") / "store")
    with Store.create(path, vnode_count=4, shards=1, environment=unsynced(path)) as store:
        columns = "id BIGINT, customer INT, amount INT, note STRING"
        store.create_table("o", columns, primary_key=["id"])
        store.create_table("c", "id INT, country STRING", primary_key=["id"])
        yield Database(spark, store)


@pytest.mark.parametrize("name", HASHED)
def test_all_readings_of_a_frame_are_the_same_text(name: str, db: Database) -> None:
    """Each reading gives new ids to the columns; none of them is refused."""
    queries = FrameQueries(db.spark, db.store.path)
    texts = {
        queries.query_of(HASHED[name](db.table("o").alias("o"), db.table("c"))) for _ in range(10)
    }

    assert len(texts) == 1
