"""Views made of DataFrames: the view has the rows of the frame, or the frame is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, TypeAlias

import pytest
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from relstate.connector.sql import Database
from relstate.connector.sql.frame_query import query_of
from relstate.storage import Store, errors
from support.multisets import difference, rows_of_table
from support.stores import unsynced, upsert

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MakeFrame: TypeAlias = Callable[[DataFrame, DataFrame], DataFrame]


def ranked(o: DataFrame) -> DataFrame:
    """Return orders with their rank among those of their customer."""
    window = Window.partitionBy("customer").orderBy(f.desc("amount"), "id")
    return o.withColumn("place", f.row_number().over(window))


# Frames of orders and customers.
FRAMES: dict[str, MakeFrame] = {
    "filtered": lambda o, c: o.where("amount > 5").where(f.col("note").like("a%")),
    "selected": lambda o, c: o.select(
        "id", (f.col("amount") * 2).alias("double"), f.upper("note").alias("upper note")
    ),
    "changed": lambda o, c: o.withColumn("amount", f.col("amount") + 1).withColumn(
        "x", f.nvl("note", f.lit("-"))
    ),
    "nothing_null": lambda o, c: o.fillna({"note": "x"}).replace("a", "b"),
    "joined": lambda o, c: o.join(c, o.customer == c.id, "left").select(
        o.id, c.country, f.coalesce(c.country, o.note).alias("z")
    ),
    "by_name": lambda o, c: (
        o.withColumnRenamed("id", "order").withColumnRenamed("customer", "id").join(c, "id", "full")
    ),
    "pairs": lambda o, c: (
        o.alias("a")
        .join(o.alias("b"), f.col("a.customer") == f.col("b.customer"))
        .where(f.nvl(f.col("b.note"), f.lit("")) != "c")
        .select("a.id", f.col("b.id").alias("other"))
    ),
    "absent": lambda o, c: c.join(o, o.customer == c.id, "left_anti"),
    "sums": lambda o, c: (
        o.join(c, o.customer == c.id)
        .groupBy("country")
        .agg(f.sum("amount").alias("s"), f.countDistinct("customer").alias("n"), f.max("note"))
        .where("n > 1")
    ),
    "all": lambda o, c: o.agg(f.min("id"), f.count("*").alias("n")),
    "notes": lambda o, c: o.select("note").distinct(),
    "ids": lambda o, c: o.select("id", "note").unionByName(
        c.select(f.col("country").alias("note"), "id")
    ),
    "both": lambda o, c: o.select("customer").intersect(c.select("id")),
    "running": lambda o, c: o.select(
        "id",
        f.sum("amount")
        .over(Window.partitionBy("customer").orderBy("id").rowsBetween(-1, 0))
        .alias("w"),
    ),
    "first_of_each": lambda o, c: ranked(o).where("place <= 2").drop("note"),
    "largest": lambda o, c: o.orderBy(f.desc("amount"), "id").limit(3),
}
REFUSED: dict[str, MakeFrame] = {
    "Sample": lambda o, c: o.sample(0.5),
    "dropDuplicates": lambda o, c: o.dropDuplicates(["note"]),
    "not a table of the store": lambda o, c: o.join(o.sparkSession.range(3), "id"),
    "lambdafunction": lambda o, c: o.select(f.transform(f.array("id"), lambda x: x + 1).alias("t")),
    "means something else": lambda o, c: o.groupBy("customer").agg(
        f.first("note", ignorenulls=True).alias("n")
    ),
    "Expand": lambda o, c: o.rollup("customer").count(),
}


@pytest.fixture(scope="module")
def db(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A store with orders and customers."""
    path = str(tmp_path_factory.mktemp("frames") / "store")
    with Store.create(path, vnode_count=8, shards=1, environment=unsynced(path)) as store:
        store.create_table(
            "o", "id BIGINT, customer INT, amount DECIMAL(12,2), note STRING", primary_key=["id"]
        )
        store.create_table("c", "id INT, country STRING", primary_key=["id"])
        upsert(store, "c", [(1, "AT"), (2, "AT"), (3, "IT"), (4, None)])
        put(store, *range(12))
        yield Database(spark, store)


def put(store: Store, *ids: int, factor: int = 1) -> None:
    """Upsert orders that follow from their ids."""
    notes = ["a", "ab", None, "c"]
    rows = [(i, i * factor % 5, Decimal(i * factor % 7), notes[i * factor % 4]) for i in ids]
    upsert(store, "o", rows)


def frame_of(db: Database, make: MakeFrame) -> DataFrame:
    """Return a frame over the latest rows."""
    return make(db.table("o"), db.table("c"))


def test_a_view_has_the_rows_of_its_frame(db: Database) -> None:
    """Those of its columns, too, before and after changes; its SELECT is text like any other."""
    for name, make in FRAMES.items():
        db.create_view(name, frame_of(db, make), parallelism=1)
    put(db.store, 3, 4, 20, 21, factor=3)
    db.sql("DELETE FROM o WHERE id IN (1, 8)")
    db.sql("UPDATE c SET country = 'DE' WHERE id = 2")
    db.refresh()

    for name, make in FRAMES.items():
        expected = frame_of(db, make).toArrow()
        rows = db.table(name).toArrow()
        assert rows.column_names == expected.column_names, name
        assert difference(rows_of_table(rows), rows_of_table(expected)) == ([], []), name
    assert all(report.ok for report in db.check_views(["sums", "pairs"]))


@pytest.mark.parametrize("reason", REFUSED)
def test_a_frame_that_is_no_select_is_refused(reason: str, db: Database) -> None:
    """The error says what it is in the frame; what Spark does not write rightly is found out."""
    frame = frame_of(db, REFUSED[reason])
    with pytest.raises(errors.UnsupportedStatementError, match=reason):
        query_of(frame, db.store.path)


def test_a_view_follows_its_tables(db: Database, spark: SparkSession) -> None:
    """So a table at a fixed epoch, with an option or of another store is refused; views are not."""
    db.create_view("source", db.table("o").select("id"), comment="ids")
    db.create_view("reader", db.table("source").where("id > 3"))
    assert dict(db.sql("SHOW TBLPROPERTIES source").collect())["comment"] == "ids"  # type: ignore[arg-type]
    assert db.store.view("reader").definition.reads(db.store.view("source").view_id)
    db.create_view("source", db.table("o").where("id > 1").select("id"), or_replace=True)
    assert "id > " in db.store.view("source").definition.query
    with pytest.raises(errors.TableExistsError):
        db.create_view("source", db.table("o"))

    def load(**options: object) -> DataFrame:
        reader = spark.read.format("relstate").options(table="o", **options)  # type: ignore[arg-type]
        return reader.load(db.store.path)

    for frame, reason in (
        (db.table("o", version=db.store.epoch), "fixed epoch"),
        (load(versionAsOf=db.store.epoch), "fixed epoch"),
        (load(where="id > 3"), "option where"),
    ):
        with pytest.raises(errors.UnsupportedStatementError, match=reason):
            db.create_view("refused", frame)
    with pytest.raises(errors.UnsupportedStatementError, match="of the store at"):
        query_of(db.table("o"), "/elsewhere")
    with pytest.raises(errors.UsageError, match="str"):
        db.create_view("refused", "SELECT 1")  # type: ignore[arg-type]
    db.create_view("latest", load())
