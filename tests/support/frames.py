"""DataFrames as users of PySpark write them, and those that cannot be a view."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from pyspark.sql import DataFrame, Window, WindowSpec
from pyspark.sql import functions as f

MakeFrame: TypeAlias = Callable[[DataFrame, DataFrame], DataFrame]


def ranked(o: DataFrame) -> DataFrame:
    """Return orders with their rank among those of their customer."""
    window = Window.partitionBy("customer").orderBy(f.desc("amount"), "id")
    return o.withColumn("place", f.row_number().over(window))


def by_customer() -> WindowSpec:
    """Return the orders of a customer in their order."""
    return Window.partitionBy("customer").orderBy("id")


# Frames of orders and customers, by family.
FRAMES: dict[str, dict[str, MakeFrame]] = {
    "plain": {
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
            o.withColumnRenamed("id", "order")
            .withColumnRenamed("customer", "id")
            .join(c, "id", "full")
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
        "last_names": lambda o, c: (
            o.orderBy(f.desc("amount"), "id").select("id", f.upper("note").alias("n")).limit(3)
        ),
    },
    "groups": {
        "rolled_up": lambda o, c: o.rollup("customer", "note").agg(
            f.sum("amount").alias("s"), f.grouping("note").alias("g"), f.grouping_id().alias("i")
        ),
        "cubed": lambda o, c: (
            o.cube("customer", f.upper("note").alias("u")).count().where("count > 0")
        ),
        "sets": lambda o, c: o.groupingSets([["customer"], ["note"]], "customer", "note").count(),
        "pivoted": lambda o, c: (
            o.groupBy("customer").pivot("note", ["a", "ab", "zz"]).agg(f.sum("amount"))
        ),
        "pivoted_twice": lambda o, c: (
            o.groupBy("note")
            .pivot("customer", [0, 1])
            .agg(f.sum("amount").alias("s"), f.count("id").alias("n"))
        ),
        "pivoted_pairs": lambda o, c: (
            o.groupBy("note", "customer").pivot("id", [1, 20]).agg(f.sum("amount"))
        ),
        "reordered_sets": lambda o, c: (
            o.select("note", "customer", "amount")
            .where("amount > 1")
            .rollup("customer")
            .agg(f.max("note").alias("n"), f.sum("amount").alias("s"))
        ),
        "pivoted_texts": lambda o, c: (
            o.groupBy("customer").pivot("note", ["a", "c"]).agg(f.max("note"))
        ),
        "melted": lambda o, c: o.select("id", "customer", "score").melt(
            ["id"], ["score", "customer"], "what", "value"
        ),
    },
    "rows": {
        "first_notes": lambda o, c: o.select("note", "customer").dropDuplicates(
            ["customer", "note"]
        ),
        "any_of_each": lambda o, c: o.dropDuplicates(["note"]).select("note"),
        "complete": lambda o, c: o.dropna(subset=["note", "score"]),
        "reordered": lambda o, c: (
            o.select("note", "customer", "id")
            .where("id > 1")
            .join(c.select("country", "id").alias("c"), f.col("customer") == f.col("c.id"))
            .groupBy("country")
            .agg(f.max("note").alias("n"), f.sum("customer").alias("s"))
        ),
        "half_complete": lambda o, c: o.select("id", "note", "score").dropna(thresh=2),
        "lists": lambda o, c: o.select(
            "id",
            f.transform("tags", lambda tag: tag + f.col("customer")).alias("t"),
            f.transform("tags", lambda tag, place: tag * place).alias("p"),
            f.filter("tags", lambda id: id > 1).alias("f"),
            f.aggregate("tags", f.lit(0), lambda x, y: x + y, lambda x: -x).alias("a"),
            f.exists("tags", lambda tag: f.exists("tags", lambda x: x > tag)).alias("e"),
            f.map_filter(f.create_map(f.lit(1), "id", f.lit(2), "id"), lambda k, v: k > 1).alias(
                "m"
            ),
            f.array_sort("tags", lambda x, y: f.coalesce(y - x, f.lit(0))).alias("s"),
        ),
    },
    "times": {
        "hours": lambda o, c: o.groupBy(f.window("at", "2 hours"), "customer").count(),
        "reordered_hours": lambda o, c: (
            o.select("note", "customer", "at")
            .groupBy(f.window("at", "2 hours", "1 hour"))
            .agg(f.max("note").alias("n"), f.sum("customer").alias("s"))
        ),
        "hopping": lambda o, c: (
            o.groupBy(f.window("at", "1 hour", "20 minutes", "5 minutes").alias("w"))
            .agg(f.sum("amount").alias("s"))
            .select("w.start", "s")
        ),
        "sessions": lambda o, c: o.groupBy(
            f.session_window("at", "50 minutes"), "customer"
        ).count(),
        "recent": lambda o, c: o.where(f.col("at") > f.now() - f.expr("INTERVAL 9 YEARS")),
        "long_sessions": lambda o, c: o.groupBy(
            f.session_window("at", f.when(o.customer > 2, "1 hour").otherwise("2 hours"))
        ).agg(f.count("*").alias("n")),
        "first_known": lambda o, c: o.groupBy("customer").agg(
            f.expr("count(note) FILTER (WHERE id > 2)").alias("n"),
            f.approx_count_distinct("id", 0.1).alias("d"),
            f.min_by("note", "id").alias("m"),
        ),
        "known_before": lambda o, c: o.select(
            "id",
            f.lag("note", 1).over(by_customer()).alias("previous"),
            f.lead("note", 1, "-").over(by_customer()).alias("next"),
            f.nth_value("note", 2, ignoreNulls=True).over(by_customer()).alias("second"),
            f.last("note", ignorenulls=True).over(by_customer()).alias("known"),
            f.expr("lag(note) IGNORE NULLS OVER (PARTITION BY customer ORDER BY id)").alias("x"),
        ),
    },
    "subqueries": {
        "near": lambda o, c: c.alias("c").lateralJoin(
            o.where(o.customer == f.col("c.id").outer()).select(f.sum("amount").alias("s"))
        ),
        "latest_of_each": lambda o, c: c.alias("c").lateralJoin(
            o.where(o.customer == f.col("c.id").outer())
            .select(f.col("id").alias("order"), "amount")
            .orderBy(f.desc("order"))
            .limit(2),
            how="left",
        ),
        "with_earlier": lambda o, c: o.alias("x").where(
            o.alias("y")
            .where(f.col("y.customer") == f.col("x.customer").outer())
            .where(f.col("y.id") < f.col("x.id").outer())
            .exists()
        ),
        "above_all": lambda o, c: o.where(f.col("amount") > o.select(f.avg("amount")).scalar()),
        "with_orders": lambda o, c: c.alias("c").where(
            o.where(o.customer == f.col("c.id").outer()).exists()
        ),
        "without_orders": lambda o, c: c.alias("c").where(
            ~o.where((o.customer == f.col("c.id").outer()) & (o.amount > 3)).exists()
        ),
        "above_average": lambda o, c: o.alias("x").where(
            f.col("amount")
            > o.alias("y")
            .where(f.col("y.customer") == f.col("x.customer").outer())
            .select(f.avg("y.amount"))
            .scalar()
        ),
        "known_customers": lambda o, c: o.where(o.customer.isin(c.select("id"))),
    },
    "names": {
        "both_totals": lambda o, c: (
            o.groupBy("customer")
            .agg(f.sum("amount").alias("s"))
            .join(o.groupBy("customer").agg(f.max("id").alias("m")), "customer")
        ),
        "with_totals": lambda o, c: o.join(
            o.groupBy("customer").agg(f.count("*").alias("n")), "customer", "left"
        ),
        "of_busy": lambda o, c: o.join(
            o.groupBy("customer").count().where("count > 2"), "customer", "left_semi"
        ),
        "counts_and_ids": lambda o, c: (
            o.groupBy("customer").count().union(o.groupBy("customer").agg(f.max("id")))
        ),
        "numbered": lambda o, c: o.join(
            o.select("id", f.row_number().over(by_customer()).alias("n")), "id"
        ),
        "windows": lambda o, c: o.join(
            o.select(
                (f.col("id") + 1).alias("id"),
                f.sum("amount").over(by_customer()).alias("s"),
                f.lag("note").over(Window.orderBy("id")).alias("l"),
            ),
            "id",
            "left",
        ),
        "numbers": lambda o, c: o.select("id", f.row_number().over(by_customer()).alias("n")).union(
            o.select(f.col("customer").alias("x"), f.rank().over(by_customer()).alias("r"))
        ),
    },
    "columns": {
        "hinted": lambda o, c: o.repartition(3).join(f.broadcast(c), o.customer == c.id).drop(c.id),
        "columns": lambda o, c: (
            o.withColumns({"x": f.col("id") + 1, "note": f.lower("note")})
            .withColumnsRenamed({"amount": "price", "at": "when"})
            .selectExpr("id AS `the id`", "x", "note", "price", "hour(when) AS hour")
        ),
        "structs": lambda o, c: (
            o.select("id", f.struct("note", "amount").alias("s"))
            .withColumn("s", f.col("s").withField("z", f.lit(1)))
            .select("id", "s.note", "s.z", f.col("s").dropFields("z").alias("d"))
        ),
        "moments": lambda o, c: o.select(
            "id",
            f.date_part(f.lit("hour"), "at").alias("h"),
            (f.col("at") - f.expr("INTERVAL 1 HOUR")).alias("b"),
            f.struct(f.col("id").alias("a"), f.lit("it's").alias("b")).alias("s"),
            f.to_json(f.struct("id", "at"), {"timestampFormat": "yyyy"}).alias("j"),
        ),
        "casts": lambda o, c: o.select(
            "id",
            f.col("tags").cast("array<string>").alias("t"),
            f.from_json("note", "a INT, b STRING").alias("j"),
            f.lit([1, 2]).alias("l"),
            f.col("note").try_cast("int").alias("i"),
        ),
    },
}
# By what the error says.
REFUSED: dict[str, MakeFrame] = {
    "Sample": lambda o, c: o.sample(0.5),
    "not a table of the store": lambda o, c: o.join(o.sparkSession.range(3), "id"),
    "Use functions of Spark's own": lambda o, c: o.select(f.udf(len)("note").alias("n")),
    "in no grouping set": lambda o, c: o.groupingSets([["note"]], "note", "customer").count(),
    "withColumn first, and name": lambda o, c: (
        o.groupBy(f.upper("note")).pivot("customer", [1]).sum("amount")
    ),
    "copy of the column": lambda o, c: o.groupBy("customer").pivot("note", ["a"]).sum("customer"),
    "withColumn first, and unpivot": lambda o, c: o.unpivot(
        "id", [f.length("note").alias("l")], "k", "v"
    ),
    r"by row_number\(\) over a window with this order": lambda o, c: (
        o.orderBy(f.desc("at")).where("id > 1").dropDuplicates(["customer"])
    ),
    "first.* after orderBy": lambda o, c: (
        o.orderBy(f.desc("at")).groupBy("customer").agg(f.first("note").alias("n"))
    ),
    "collect_list.* after orderBy": lambda o, c: (
        o.orderBy("at").rollup("customer").agg(f.size(f.collect_list("id")).alias("n"))
    ),
    "duplicates by no columns": lambda o, c: o.dropDuplicates([]),
    "NULLs in no columns": lambda o, c: o.dropna(subset=[]),
    "two columns named 'id'": lambda o, c: o.select("id", "id"),
}
