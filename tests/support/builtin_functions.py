"""Spark's own aggregate and window functions, and those that return rows: each with an example.

The tables here say what a view does with every one of them; Spark's registry says which there are.
An example has one result, whatever the order of rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"
# A function belongs to a family by its group, or by the class that evaluates it.
_GROUPS = {"agg_funcs": "aggregate", "window_funcs": "window", "generator_funcs": "rows"}
_CLASSES = {
    f"{_EXPRESSIONS}.aggregate.AggregateFunction": "aggregate",
    f"{_EXPRESSIONS}.WindowFunction": "window",
    f"{_EXPRESSIONS}.Generator": "rows",
}


def builtin_functions(spark: SparkSession) -> dict[str, set[str]]:
    """Return the names in Spark's registry by family: ``aggregate``, ``window``, ``rows``."""
    session: Any = spark
    state, load = session._jsparkSession.sessionState(), session._jvm.java.lang.Class.forName
    bases = [(load(name), family) for name, family in _CLASSES.items()]
    families: dict[str, set[str]] = {"aggregate": set(), "window": set(), "rows": set()}
    scalars, tables = state.functionRegistry(), state.tableFunctionRegistry()
    for registry in (scalars, tables):
        for identifier in session._jvm.scala.jdk.javaapi.CollectionConverters.asJava(
            registry.listFunction()
        ):
            info = registry.lookupFunction(identifier).get()
            family = "rows" if registry is tables else _GROUPS.get(info.getGroup())
            if family is None:
                own = load(info.getClassName())
                family = next((name for base, name in bases if base.isAssignableFrom(own)), None)
            if family is not None:
                families[family].add(info.getName())
    return families


COLUMNS = (
    ("k", "INT"), ("g", "STRING"), ("n", "INT"), ("v", "BIGINT"), ("x", "DOUBLE"),
    ("ok", "BOOLEAN"), ("list", "ARRAY<INT>"), ("j", "STRING"),
)  # fmt: skip
"""The columns of the table ``t`` of the examples; ``k`` is its key."""
_VECTOR = "array(CAST(k AS FLOAT), 1.5F)"

BY_AGGREGATE: Mapping[str, str] = {
    "any": "any(ok)",
    "any_value": "any_value(g)",
    "avg": "avg(v)",
    "bit_and": "bit_and(n)",
    "bit_or": "bit_or(n)",
    "bit_xor": "bit_xor(n)",
    "bool_and": "bool_and(ok)",
    "bool_or": "bool_or(ok)",
    "corr": "corr(x, v)",
    "count": "count(DISTINCT n)",
    "count_if": "count_if(ok)",
    "covar_pop": "covar_pop(x, v)",
    "covar_samp": "covar_samp(x, v)",
    "every": "every(ok)",
    "first": "first(g)",
    "first_value": "first_value(g)",
    "last": "last(g)",
    "last_value": "last_value(g)",
    "max": "max(v)",
    "max_by": "max_by(v, k)",
    "mean": "mean(n)",
    "min": "min(j)",
    "min_by": "min_by(j, k)",
    "mode": "mode(n, true)",
    "regr_avgx": "regr_avgx(x, v)",
    "regr_avgy": "regr_avgy(x, v)",
    "regr_count": "regr_count(x, v)",
    "regr_intercept": "regr_intercept(x, v)",
    "regr_r2": "regr_r2(x, v)",
    "regr_slope": "regr_slope(x, v)",
    "regr_sxx": "regr_sxx(x, v)",
    "regr_sxy": "regr_sxy(x, v)",
    "regr_syy": "regr_syy(x, v)",
    "some": "some(ok)",
    "std": "std(v)",
    "stddev": "stddev(x)",
    "stddev_pop": "stddev_pop(x)",
    "stddev_samp": "stddev_samp(n)",
    "sum": "sum(v)",
    "var_pop": "var_pop(x)",
    "var_samp": "var_samp(x)",
    "variance": "variance(v)",
}
"""Aggregates with an executor of their own."""

BY_GROUPING_SETS: Mapping[str, str] = {
    "grouping": "grouping(g)",
    "grouping_id": "grouping_id()",
}
"""Functions of `GROUPING SETS`, which the aggregate over the expanded rows knows."""

BY_BOTH: Mapping[str, str] = {"approx_count_distinct": "approx_count_distinct(n)"}
"""Aggregates of an aggregate by keyed recompute."""

BY_RECOMPUTE: Mapping[str, str] = {
    "approx_percentile": "approx_percentile(n, 0.5)",
    "approx_top_k": "sort_array(approx_top_k(n))",
    "approx_top_k_accumulate": "sort_array(approx_top_k_estimate(approx_top_k_accumulate(n)))",
    "array_agg": "sort_array(array_agg(v))",
    "bitmap_construct_agg": "bitmap_count(bitmap_construct_agg(bitmap_bit_position(abs(k))))",
    "collect_list": "sort_array(collect_list(n))",
    "collect_set": "sort_array(collect_set(n))",
    "collect_union": "sort_array(collect_union(list))",
    "count_min_sketch": "hex(count_min_sketch(n, 0.5D, 0.5D, 1))",
    "histogram_numeric": "aggregate(histogram_numeric(n, 20), 0D, (s, bin) -> s + bin.x * bin.y)",
    "hll_sketch_agg": "hll_sketch_estimate(hll_sketch_agg(n))",
    "kurtosis": "kurtosis(v)",
    "listagg": "listagg(j, ',') WITHIN GROUP (ORDER BY j)",
    "median": "median(v)",
    "percentile": "percentile(n, 0.25)",
    "percentile_approx": "percentile_approx(v, 0.9)",
    "percentile_cont": "percentile_cont(0.25) WITHIN GROUP (ORDER BY v)",
    "percentile_disc": "percentile_disc(0.5) WITHIN GROUP (ORDER BY n DESC)",
    "schema_of_variant_agg": "schema_of_variant_agg(parse_json(j))",
    "skewness": "skewness(v)",
    "string_agg": "string_agg(DISTINCT j) WITHIN GROUP (ORDER BY j)",
    "theta_sketch_agg": "theta_sketch_estimate(theta_sketch_agg(n))",
    "try_avg": "try_avg(n)",
    "try_sum": "try_sum(v)",
    "tuple_sketch_agg_double": "tuple_sketch_summary_double(tuple_sketch_agg_double(n, 0.5D))",
    "tuple_sketch_agg_integer": "tuple_sketch_summary_integer(tuple_sketch_agg_integer(n, 2))",
    "vector_avg": f"round(vector_avg({_VECTOR})[0], 2)",
    "vector_sum": f"to_json(vector_sum({_VECTOR}))",
}
"""Aggregates that Spark evaluates over the rows of the groups that changed."""

SKETCHES = """(SELECT g, n, hll_sketch_agg(v) AS hll, theta_sketch_agg(v) AS theta,
    tuple_sketch_agg_double(v, 0.5D) AS doubles, tuple_sketch_agg_integer(v, 2) AS integers,
    approx_top_k_accumulate(n) AS top, bitmap_construct_agg(bitmap_bit_position(abs(k))) AS bits
    FROM t GROUP BY g, n)"""
"""Rows with sketches and bitmaps, which the aggregates below put together."""

BY_RECOMPUTE_OF_SKETCHES: Mapping[str, str] = {
    "approx_top_k_combine": "sort_array(approx_top_k_estimate(approx_top_k_combine(top)))",
    "bitmap_and_agg": "bitmap_count(bitmap_and_agg(bits))",
    "bitmap_or_agg": "bitmap_count(bitmap_or_agg(bits))",
    "hll_union_agg": "hll_sketch_estimate(hll_union_agg(hll))",
    "theta_intersection_agg": "theta_sketch_estimate(theta_intersection_agg(theta))",
    "theta_union_agg": "theta_sketch_estimate(theta_union_agg(theta))",
    "tuple_intersection_agg_double": (
        "tuple_sketch_estimate_double(tuple_intersection_agg_double(doubles))"
    ),
    "tuple_intersection_agg_integer": (
        "tuple_sketch_estimate_integer(tuple_intersection_agg_integer(integers))"
    ),
    "tuple_union_agg_double": "tuple_sketch_estimate_double(tuple_union_agg_double(doubles))",
    "tuple_union_agg_integer": "tuple_sketch_estimate_integer(tuple_union_agg_integer(integers))",
}
"""Aggregates of sketches and bitmaps, by keyed recompute."""

_KLL = "draws random numbers"
REFUSED_AGGREGATES: Mapping[str, tuple[str, str]] = {
    "kll_merge_agg_bigint": ("kll_merge_agg_bigint(unhex(j))", _KLL),
    "kll_merge_agg_double": ("kll_merge_agg_double(unhex(j))", _KLL),
    "kll_merge_agg_float": ("kll_merge_agg_float(unhex(j))", _KLL),
    "kll_sketch_agg_bigint": ("kll_sketch_agg_bigint(v)", _KLL),
    "kll_sketch_agg_double": ("kll_sketch_agg_double(x)", _KLL),
    "kll_sketch_agg_float": ("kll_sketch_agg_float(CAST(x AS FLOAT))", _KLL),
    "measure": ("measure(n)", "defined over metric views alone"),
}
"""Aggregates that no view has, each with a part of the reason."""

_ORDER = "OVER (PARTITION BY g ORDER BY k)"
BY_WINDOW: Mapping[str, str] = {
    "dense_rank": "dense_rank() OVER (PARTITION BY g ORDER BY n)",
    "lag": f"lag(v) {_ORDER}",
    "lead": f"lead(v, 2) {_ORDER}",
    "nth_value": f"nth_value(v, 2) {_ORDER}",
    "rank": "rank() OVER (PARTITION BY g ORDER BY n)",
    "row_number": f"row_number() {_ORDER}",
}
"""Window functions with an executor of their own."""

BY_WINDOW_RECOMPUTE: Mapping[str, str] = {
    "counter_diff": f"counter_diff(abs(v)) {_ORDER}",
    "cume_dist": "cume_dist() OVER (PARTITION BY g ORDER BY n)",
    "ntile": f"ntile(3) {_ORDER}",
    "percent_rank": "percent_rank() OVER (PARTITION BY g ORDER BY n)",
}
"""Window functions that Spark evaluates over the rows of the partitions that changed."""

_PAIRS = "transform(list, e -> struct(e AS p, e + 1 AS q))"
_VARIANT = "parse_json('[1, {\"a\": 2}]')"
BY_GENERATE: Mapping[str, str] = {
    "explode": "SELECT k, a.* FROM t LATERAL VIEW explode(list) a AS c",
    "explode_outer": "SELECT k, a.* FROM t LATERAL VIEW explode_outer(list) a AS c",
    "inline": f"SELECT k, p FROM t LATERAL VIEW inline({_PAIRS}) a AS p, q",
    "inline_outer": f"SELECT k, p + q FROM t LATERAL VIEW inline_outer({_PAIRS}) a AS p, q",
    "json_tuple": "SELECT k, length(p) FROM t LATERAL VIEW json_tuple(j, 'a', 'b') a AS p, q",
    "posexplode": "SELECT k, p * 10 + c FROM t LATERAL VIEW posexplode(list) a AS p, c",
    "posexplode_outer": "SELECT k, p * 10 + c FROM t LATERAL VIEW posexplode_outer(list) a AS p, c",
    "range": "SELECT CAST(id AS INT), 1 FROM range(4)",
    "stack": "SELECT k, p FROM t LATERAL VIEW stack(2, n, k) a AS p",
    "variant_explode": f"SELECT k, pos FROM t, LATERAL variant_explode({_VARIANT})",
    "variant_explode_outer": f"SELECT k, pos FROM t, LATERAL variant_explode_outer({_VARIANT})",
}
"""Functions that return rows: SELECTs of two whole numbers each."""

_RELEASE = "depends on the release of Spark"
REFUSED_ROWS: Mapping[str, tuple[str, str]] = {
    "collations": ("SELECT name FROM collations()", _RELEASE),
    "python_worker_logs": ("SELECT level FROM python_worker_logs()", "read tables and subqueries"),
    "sql_keywords": ("SELECT keyword FROM sql_keywords()", _RELEASE),
}
"""Functions that return rows, of which no view is made."""

DOCUMENTED: Mapping[str, Mapping[str, object]] = {
    "aggregates by the aggregate executor": {**BY_AGGREGATE, **BY_GROUPING_SETS},
    "aggregates by both": BY_BOTH,
    "aggregates by keyed recompute": {**BY_RECOMPUTE, **BY_RECOMPUTE_OF_SKETCHES},
    "aggregates that are refused": REFUSED_AGGREGATES,
    "window functions by the window executor": BY_WINDOW,
    "window functions by keyed recompute": BY_WINDOW_RECOMPUTE,
    "functions that return rows, without state": BY_GENERATE,
    "functions that return rows and are refused": REFUSED_ROWS,
}
"""The lists of docs/views.md."""


def _listed(calls: Mapping[str, str]) -> str:
    """Return calls as a SELECT list, each with the name of its function."""
    return ", ".join(f"{call} AS {name}_value" for name, call in calls.items())


QUERIES: Mapping[str, str] = {
    "by_aggregate": f"SELECT g, {_listed(BY_AGGREGATE)} FROM t GROUP BY g",
    "by_grouping_sets": f"SELECT g, ok, {_listed(BY_GROUPING_SETS)} FROM t GROUP BY CUBE (g, ok)",
    "by_both": f"SELECT g, {_listed(BY_BOTH)} FROM t GROUP BY g",
    "by_recompute": f"SELECT g, {_listed(BY_RECOMPUTE)} FROM t GROUP BY g",
    "of_sketches": f"SELECT g, {_listed(BY_RECOMPUTE_OF_SKETCHES)} FROM {SKETCHES} GROUP BY g",
    "by_window": f"SELECT k, {_listed(BY_WINDOW)} FROM t",
    "by_window_recompute": f"SELECT k, {_listed(BY_WINDOW_RECOMPUTE)} FROM t",
    "of_rows": " UNION ALL ".join(
        f"SELECT '{name}' AS f, * FROM ({query}) AS u (a, b)" for name, query in BY_GENERATE.items()
    ),
}
"""SELECTs of all functions of one kind together."""
