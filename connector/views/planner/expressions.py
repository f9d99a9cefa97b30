"""What an expression of a view may not contain, and why.

A view always equals its query, so everything in it must follow from the rows.

Promises: every function of Spark's whose result depends on when or where it runs, that gives rows
or aggregates them, is found by its name, besides what Spark itself says of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from relstate.connector.syntax.tokens import shown
from relstate.connector.syntax.tree import Tree, parse_expression, substituted, text_of
from relstate.storage import errors, types

from ..plan.node import Node, walk
from ..plan.stateful import Function
from .analysis import Analysis

AGGREGATES: dict[type[Tree], Function] = {
    exp.Count: Function.COUNT,
    exp.Sum: Function.SUM,
    exp.Avg: Function.AVG,
    exp.Min: Function.MIN,
    exp.Max: Function.MAX,
    exp.Stddev: Function.STDDEV_SAMP,
    exp.StddevSamp: Function.STDDEV_SAMP,
    exp.StddevPop: Function.STDDEV_POP,
    exp.Variance: Function.VAR_SAMP,
    exp.VariancePop: Function.VAR_POP,
}
OF_VARIANCE = (
    Function.STDDEV_POP, Function.STDDEV_SAMP, Function.VAR_POP, Function.VAR_SAMP,
)  # fmt: skip


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TIMELY = _words("""
    now curdate current_date current_time current_timestamp localtimestamp localtime
    current_timezone current_user user session_user current_catalog current_database
    current_schema current_path version
""")
_RANDOM = _words("""
    aes_encrypt rand randn random randstr uniform uuid shuffle monotonically_increasing_id
    spark_partition_id input_file_name input_file_block_start input_file_block_length sample
""")
_FOREIGN = _words("java_method reflect try_reflect")
_WINDOWS = _words("window session_window window_time")
_GENERATORS = _words("""
    explode explode_outer posexplode posexplode_outer inline inline_outer stack json_tuple
    variant_explode variant_explode_outer sql_keywords collations
""")
_UNKEPT = _words("""
    any any_value approx_count_distinct approx_percentile approx_top_k collect_union counter_diff
    array_agg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg bitmap_or_agg bool_and
    bool_or collect_list collect_set corr count_if count_min_sketch covar_pop covar_samp every
    first first_value grouping grouping_id histogram_numeric kurtosis last last_value listagg
    max_by measure median min_by mode percentile percentile_approx percentile_cont percentile_disc
    product regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy
    regr_syy schema_of_variant_agg skewness some string_agg try_avg try_sum lag lead ntile
    cume_dist percent_rank nth_value
""")
_NOW_WITHOUT_ARGUMENTS = _words("unix_timestamp to_unix_timestamp")
UNTIMELY = "what it gives depends on when it runs, and a view must follow from its rows"
_SYNTAX = _words("timestampadd timestampdiff")
_AGGREGATING = ("_agg", "_accumulate", "_combine", "_agg_bigint", "_agg_double", "_agg_float",
                "_agg_string", "_agg_integer")  # fmt: skip
_PARTS: dict[type[Tree], str] = {
    exp.Subquery: "a subquery within an expression",
    exp.Exists: "EXISTS",
    exp.Select: "a subquery within an expression",
    exp.Explode: "a function that gives rows",
    exp.WithinGroup: "WITHIN GROUP",
    exp.IgnoreNulls: "IGNORE NULLS",
    exp.RespectNulls: "RESPECT NULLS",
    exp.Placeholder: "a parameter",
    exp.Parameter: "a parameter",
}


def check_expressions(tree: Tree, builtin: frozenset[str]) -> None:
    """UnsupportedStatementError if a query contains what a view cannot be maintained for.

    ``builtin``: the names of Spark's own functions, in lower case.
    """
    spark = _SYNTAX | builtin
    for node in tree.walk():
        _check_syntax(node)
        name = function_name(node)
        if name is None:
            continue
        reason = _reason(name)
        if name in _NOW_WITHOUT_ARGUMENTS and not node.expressions:
            reason = UNTIMELY
        if reason is None and isinstance(node, exp.Anonymous) and name not in spark:
            reason = "it is not one of Spark's own functions, and what it gives may change"
        if reason is None and isinstance(node, exp.AggFunc) and type(node) not in _KNOWN:
            reason = _NOT_KEPT
        if reason is not None:
            raise refused(f"{name}()", reason, node)


def _check_syntax(node: Tree) -> None:
    """Refuse syntax of Spark that no view can have, and syntax that only sqlglot has."""
    match node:
        case exp.TableSample():
            raise refused("TABLESAMPLE", "it takes other rows each time", node)
        case exp.QueryTransform():
            raise refused("TRANSFORM … USING", "it runs a script, which may give anything", node)
        case exp.With() if node.args.get("recursive"):
            raise refused("WITH RECURSIVE", "recursion is not maintained incrementally yet", node)
        case exp.Pivot():
            what = "UNPIVOT" if node.args.get("unpivot") else "PIVOT"
            raise refused(what, "it is not maintained incrementally yet", node)
        case exp.Join() if node.method == "NATURAL" and node.kind in ("SEMI", "ANTI"):
            raise refused(
                f"a NATURAL {node.kind} JOIN", "Spark has none; write USING (…) instead", node
            )


def check_resolved(tree: Tree) -> None:
    """UnsupportedStatementError if an expression contains what no view can have."""
    for node in tree.walk():
        what = _PARTS.get(type(node))
        if what is not None:
            raise refused(what, "it is not maintained incrementally yet; write it as a join", node)


def refused(what: str, reason: str, node: Tree | None = None) -> errors.UnsupportedStatementError:
    """Return the error that says what a view cannot have, where, and why."""
    place = "" if node is None else f" at {shown(text_of(node))}"
    return errors.UnsupportedStatementError(f"a view cannot have {what}{place}: {reason}")


def is_aggregate(node: Tree) -> bool:
    """Return whether a node is an aggregate call, with its FILTER if it has one."""
    call = node.this if isinstance(node, exp.Filter) else node
    return isinstance(call, exp.AggFunc) and not isinstance(call, exp.RowNumber)


def is_aggregated(node: Tree) -> bool:
    """Return whether a node is inside of an aggregate call."""
    around = node.parent
    while around is not None and not is_aggregate(around):
        around = around.parent
    return around is not None


def function_name(node: Tree) -> str | None:
    """Return the name of a function that is called, in lower case; None for anything else."""
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower()
    if isinstance(node, exp.Func) and not isinstance(node, exp.Connector | exp.Cast):
        return text_of(node).split("(")[0].lower()
    return None


_KNOWN = (*AGGREGATES, exp.RowNumber)
_NOT_KEPT = (
    "of the functions over many rows count, sum, avg, min, max, stddev and variance are kept, and "
    "ROW_NUMBER below a bound; the others are not maintained incrementally yet"
)


def _reason(name: str) -> str | None:
    if name in _TIMELY:
        return UNTIMELY
    if name in _RANDOM or name.startswith("random"):
        return "it gives another value each time, and a view must follow from its rows"
    if name in _FOREIGN:
        return "it runs code of others, which may give anything"
    if name == "identifier":
        return "write the name itself"
    if name in _WINDOWS:
        return "Spark leaves rows out for it; group by date_trunc() or time_bucket() instead"
    if name in _GENERATORS:
        return "functions that give rows are not maintained incrementally yet"
    if name in _UNKEPT or name.endswith(_AGGREGATING):
        return _NOT_KEPT
    return None


_MOMENTS = frozenset({"now", "today", "tomorrow", "yesterday"})
_TIMES = (
    exp.DType.DATE, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPLTZ, exp.DType.TIMESTAMPNTZ,
    exp.DType.TIMESTAMPTZ,
)  # fmt: skip


def check_moments(tree: Tree) -> None:
    """UnsupportedStatementError for a literal such as ``timestamp'now'`` or ``date'today'``.

    Spark evaluates them while parsing, so no plan shows them.
    """
    for cast in tree.find_all(exp.Cast):
        if cast.is_type(*_TIMES) and _word(cast.this) in _MOMENTS:
            raise refused(_WHAT, UNTIMELY, cast)


def check_timeless(root: Node, analysis: Analysis) -> None:
    """UnsupportedStatementError if Spark takes a string in a plan for the present time."""
    for node in walk(root):
        trees = [_without_epochs(expression.text) for expression in node.expressions]
        trees = [tree for tree in trees if any(_strings(tree))]
        fields = node.input_fields if trees else ()
        if trees and _is_timely(analysis, fields, trees):
            culprit = next(tree for tree in trees if _is_timely(analysis, fields, [tree]))
            raise refused(_WHAT, UNTIMELY, culprit)


def _is_timely(analysis: Analysis, fields: Sequence[types.Field], trees: Sequence[Tree]) -> bool:
    found = analysis.means_now(fields, [text_of(one) for one in trees])
    if found is None:
        return any(_word(one) in _MOMENTS for tree in trees for one in _strings(tree))
    return found


_WHAT = "a string that is read as the present moment"


def _strings(tree: Tree) -> Iterator[Tree]:
    return (one for one in tree.find_all(exp.Literal) if one.is_string)


def _without_epochs(text: str) -> Tree:
    def replacement(node: Tree) -> Tree | None:
        return exp.Literal.string("1970-01-01") if _word(node) == "epoch" else None

    return substituted(parse_expression(text), replacement)


def _word(tree: Tree) -> str | None:
    """Return the word that a literal string is; None for anything else."""
    is_text = isinstance(tree, exp.Literal) and tree.is_string
    return str(tree.this).strip().lower() if is_text else None
