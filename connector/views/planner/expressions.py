"""What an expression of a view must not contain, and why.

A view always equals its query, so all values in it must depend on the rows only.

Promises: a function of Spark whose result depends on when or where it runs, which returns rows or
which aggregates rows, is found by its name, in addition to Spark's own analysis.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from relstate.connector.analysis_error import suggestion
from relstate.connector.syntax.parsed_query import ParsedQuery
from relstate.connector.syntax.present_time import CLOCK_FUNCTIONS
from relstate.connector.syntax.tokens import excerpt
from relstate.connector.syntax.tree import Tree, parse_expression, substituted, text_of
from relstate.storage import errors, types

from ..plan.aggregate import Function
from ..plan.node import Node, walk
from ..plan.recursion import Recursion
from .analysis import PRESENT_TIME_STRING, TIME_DEPENDENT_REASON, Analysis
from .calls import AGGREGATES, RECOMPUTED_AGGREGATES, WINDOW_FUNCTIONS

VARIANCE_FUNCTIONS = (
    Function.STDDEV_POP, Function.STDDEV_SAMP, Function.VAR_POP, Function.VAR_SAMP,
)  # fmt: skip


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


CLOCK_HINT = "compare an expression of the row with it, as in ts > now() - INTERVAL 1 HOUR"
_TIME_FUNCTIONS = _words("""
    current_time localtime current_timezone current_user user session_user current_catalog
    current_database current_schema current_path version
""")
_RANDOM_FUNCTIONS = _words("""
    aes_encrypt rand randn random randstr uniform uuid shuffle monotonically_increasing_id
    spark_partition_id input_file_name input_file_block_start input_file_block_length sample
""")
_NEW_VALUES = "write a value into a column of the table when the row is inserted, or "
_RANDOM_ADVICE = {
    "rand": f"{_NEW_VALUES}hash the key, as in pmod(xxhash64(id), 1000) / 1000",
    "uuid": f"{_NEW_VALUES}hash the key, as in sha2(CAST(id AS STRING), 256)",
    "shuffle": "write array_sort(…), or order the elements by their hashes",
    "monotonically_increasing_id": "write row_number() OVER (ORDER BY the key)",
    "spark_partition_id": "write pmod(xxhash64(the key), n)",
    "input_file": "write the name of the file into a column when its rows are inserted",
    "aes_encrypt": "write the encrypted value into a column of the table",
}
"""What to write instead of a function, by the first letters of its name; as `rand` by default."""
_TIME_ADVICE = {
    "current_time": "CAST now() to TIME in the query over the view",
    "localtime": "CAST now() to TIME in the query over the view",
    "version": "call it in the query over the view",
}
_PLACE_ADVICE = (
    "call it in the query over the view, or write its value into a column of the table when the "
    "row is inserted"
)
_EXTERNAL_FUNCTIONS = _words("java_method reflect try_reflect")
SUBQUERY_CALL = "__subquery_"
"""How the names of the calls begin that stand for subqueries."""
TIME_WINDOW = "window"
SESSION_WINDOW = "session_window"
_RELEASE_FUNCTIONS = _words("collations sql_keywords")
_UNSUPPORTED_AGGREGATES = _words("product")
_SYNTAX_FUNCTIONS = _words("timestampadd timestampdiff")
_AGGREGATE_SUFFIXES = (
    "_agg", "_accumulate", "_combine", "_agg_bigint", "_agg_double", "_agg_float", "_agg_string",
    "_agg_integer",
)  # fmt: skip
_UNSUPPORTED_PARTS: dict[type[Tree], str] = {
    exp.Subquery: "a subquery within an expression",
    exp.Exists: "EXISTS",
    exp.Select: "a subquery within an expression",
    exp.Explode: "a function that gives rows",
    exp.Placeholder: "a parameter",
    exp.Parameter: "a parameter",
}


def check_expressions(tree: Tree, builtin: frozenset[str]) -> None:
    """Raise UnsupportedStatementError if a query contains what cannot be maintained.

    ``builtin``: the names of Spark's own functions, in lower case.
    """
    known_names = _SYNTAX_FUNCTIONS | builtin
    for node in tree.walk():
        _check_syntax(node)
        name = function_name(node)
        if name is None:
            continue
        if is_clock(node) and not _is_in_condition(node):
            raise present_time_error(node)
        reason = _unsupported_reason(name)
        if reason is None and isinstance(node, exp.Anonymous) and name not in known_names:
            near = suggestion(name, sorted(builtin)).removeprefix(", ")
            reason = (
                "it is not one of Spark's own functions, and what it gives may change; write its "
                "expression in their terms, or its value into a column of the table"
                + (f"; {near}" if near else "")
            )
        if (
            reason is None
            and isinstance(node, exp.AggFunc)
            and type(node) not in _SUPPORTED_AGGREGATES
        ):
            reason = _UNSUPPORTED_AGGREGATE_REASON
        if reason is not None:
            raise unsupported_error(f"{name}()", reason, node)


def _check_syntax(node: Tree) -> None:
    """Refuse syntax that Spark has but a view cannot have, and syntax that only sqlglot has."""
    match node:
        case exp.TableSample():
            raise unsupported_error(
                "TABLESAMPLE",
                "it returns other rows each time; write a condition on the key, as in "
                "pmod(xxhash64(id), 100) < 10",
                node,
            )
        case exp.QueryTransform():
            raise unsupported_error(
                "TRANSFORM … USING",
                "it runs a script, whose results may change; write Spark's own functions",
                node,
            )
        case exp.Join() if node.method == "NATURAL" and node.kind in ("SEMI", "ANTI"):
            raise unsupported_error(
                f"a NATURAL {node.kind} JOIN",
                "Spark does not support it; write USING (…) instead",
                node,
            )


def check_resolved(tree: Tree) -> None:
    """Raise UnsupportedStatementError if an expression contains what a view cannot have."""
    for node in tree.walk():
        construct = _UNSUPPORTED_PARTS.get(type(node))
        if construct is not None:
            raise unsupported_error(construct, "it is not maintained incrementally yet", node)
        if isinstance(node, exp.Anonymous) and function_name(node) in (TIME_WINDOW, SESSION_WINDOW):
            raise unsupported_error(
                f"{function_name(node)}() here",
                "compute it in the SELECT of a subquery in FROM, and read its column here",
                node,
            )


def is_clock(node: Tree) -> bool:
    """Return whether a node is a call that gives the present time."""
    return function_name(node) in CLOCK_FUNCTIONS and not node.expressions


COMPARISONS = (
    exp.GT, exp.GTE, exp.LT, exp.LTE, exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.Between, exp.In,
)  # fmt: skip
"""What compares an expression of the row with the present time."""
_CONDITIONS = (*COMPARISONS, exp.Where, exp.Having, exp.Qualify, exp.Join)


def _is_in_condition(node: Tree) -> bool:
    """Return whether a node is compared with values, or in a clause of conditions."""
    part = node.find_ancestor(*_CONDITIONS, exp.Query)
    return isinstance(part, _CONDITIONS) and not _is_membership(part)


def _is_membership(part: Tree | None) -> bool:
    """Return whether a node is the IN of a subquery."""
    return isinstance(part, exp.In) and part.args.get("query") is not None


def present_time_error(node: Tree) -> errors.UnsupportedStatementError:
    """Return the error about a call that gives the present time, and is not compared."""
    advice = CLOCK_HINT
    select = node.find_ancestor(exp.Select)
    if _is_membership(node.find_ancestor(exp.In, exp.Query)):
        advice = "write EXISTS (SELECT … WHERE …) with the comparison in its WHERE, in place of IN"
    elif select is not None and select.parent is not None and not select.args.get("from_"):
        advice = f"write it in place of the subquery, as in d = {text_of(node).lower()}"
    return unsupported_error("the present time here", f"{TIME_DEPENDENT_REASON}; {advice}", node)


def unsupported_error(
    construct: str, reason: str, node: Tree | None = None
) -> errors.UnsupportedStatementError:
    """Return the error that says what a view cannot have, where, and why."""
    location = "" if node is None else f" at {excerpt(_shown_text(node))}"
    return errors.UnsupportedStatementError(f"a view cannot have {construct}{location}: {reason}")


def _shown_text(tree: Tree) -> str:
    """Return the text of a tree in which a subquery is one again."""

    def replacement(node: Tree) -> Tree | None:
        is_call = isinstance(node, exp.Anonymous) and str(node.this).startswith(SUBQUERY_CALL)
        return exp.Var(this="(SELECT …)") if is_call else None

    return text_of(substituted(tree, replacement))


def function_name(node: Tree) -> str | None:
    """Return the name of a function that is called, in lower case; None for anything else."""
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower()
    if isinstance(node, exp.Func) and not isinstance(node, exp.Connector | exp.Cast):
        return text_of(node).split("(")[0].lower()
    return None


_SUPPORTED_AGGREGATES = (*AGGREGATES, exp.RowNumber, exp.Rank, exp.DenseRank)
_UNSUPPORTED_AGGREGATE_REASON = "this aggregate is not maintained incrementally yet"


def _unsupported_reason(name: str) -> str | None:
    if name in RECOMPUTED_AGGREGATES or name in WINDOW_FUNCTIONS:
        return None
    if name in _TIME_FUNCTIONS:
        return f"{TIME_DEPENDENT_REASON}; {_TIME_ADVICE.get(name, _PLACE_ADVICE)}"
    if name in _RANDOM_FUNCTIONS or name.startswith("random"):
        advice = next(
            (text for prefix, text in _RANDOM_ADVICE.items() if name.startswith(prefix)),
            _RANDOM_ADVICE["rand"],
        )
        return f"it gives another value each time, and a view must follow from its rows; {advice}"
    if name in _EXTERNAL_FUNCTIONS:
        return "it runs code of others, which may give anything; write functions of Spark's own"
    if name == "identifier":
        return "write the name itself"
    if name in _RELEASE_FUNCTIONS:
        return "what it returns depends on the release of Spark; write its rows to a table"
    if name == "measure":
        return "it is defined over metric views alone; write the aggregate itself"
    if name.startswith(("kll_sketch_agg", "kll_merge_agg", "kll_sketch_merge")):
        return "it draws random numbers; approx_percentile() is maintained"
    if name in _UNSUPPORTED_AGGREGATES or name.endswith(_AGGREGATE_SUFFIXES):
        return _UNSUPPORTED_AGGREGATE_REASON
    return None


_MOMENTS = frozenset({"now", "today", "tomorrow", "yesterday"})
_TIMES = (
    exp.DType.DATE, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPLTZ, exp.DType.TIMESTAMPNTZ,
    exp.DType.TIMESTAMPTZ,
)  # fmt: skip


def check_moments(tree: Tree) -> None:
    """Raise UnsupportedStatementError for a literal such as ``timestamp'now'`` or ``date'today'``.

    Spark evaluates them while parsing, so no plan shows them.
    """
    for cast in tree.find_all(exp.Cast):
        if cast.is_type(*_TIMES) and _literal_word(cast.this) in _MOMENTS:
            raise unsupported_error(PRESENT_TIME_STRING, TIME_DEPENDENT_REASON, cast)


def check_time_independent(root: Node, analysis: Analysis) -> None:
    """Raise UnsupportedStatementError if an expression of a plan gives the present time.

    Spark also reads strings such as 'now' as that.
    """
    for node in walk(root):
        if isinstance(node, Recursion):
            _check_query(node, analysis)
        _check_clocks(node)
        trees = [_replace_epoch_words(expression.text) for expression in node.expressions]
        trees = [tree for tree in trees if any(_string_literals(tree))]
        fields = node.input_fields if trees else ()
        if trees and _reads_present_time(analysis, fields, trees):
            culprit = next(tree for tree in trees if _reads_present_time(analysis, fields, [tree]))
            raise unsupported_error(PRESENT_TIME_STRING, TIME_DEPENDENT_REASON, culprit)


def _check_query(node: Recursion, analysis: Analysis) -> None:
    tree = substituted(ParsedQuery.parse(node.query).tree, _date_for_epoch)
    words = list(map(_literal_word, _string_literals(tree)))
    if words:
        is_present_time = analysis.query_reads_present_time(text_of(tree), node.relations)
        if is_present_time is None:
            is_present_time = not _MOMENTS.isdisjoint(words)
        if is_present_time:
            raise unsupported_error(PRESENT_TIME_STRING, TIME_DEPENDENT_REASON, tree)


def _check_clocks(node: Node) -> None:
    for expression in node.expressions:
        for part in parse_expression(expression.text).walk():
            if is_clock(part):
                raise present_time_error(part)


def _reads_present_time(
    analysis: Analysis, fields: Sequence[types.Field], trees: Sequence[Tree]
) -> bool:
    is_present_time = analysis.reads_present_time(fields, [text_of(tree) for tree in trees])
    if is_present_time is None:
        return any(
            _literal_word(literal) in _MOMENTS
            for tree in trees
            for literal in _string_literals(tree)
        )
    return is_present_time


def _string_literals(tree: Tree) -> Iterator[Tree]:
    return (literal for literal in tree.find_all(exp.Literal) if literal.is_string)


def _replace_epoch_words(text: str) -> Tree:
    return substituted(parse_expression(text), _date_for_epoch)


def _date_for_epoch(node: Tree) -> Tree | None:
    return exp.Literal.string("1970-01-01") if _literal_word(node) == "epoch" else None


def _literal_word(tree: Tree) -> str | None:
    """Return the text of a string literal, in lower case; None for anything else."""
    is_text = isinstance(tree, exp.Literal) and tree.is_string
    return str(tree.this).strip().lower() if is_text else None
