"""Refusals: which part of an expression is not evaluated here, and why.

Promises: the smallest part that is not understood is the one named.
Does not know: columns, types.
"""

from __future__ import annotations

from sqlglot import exp

from ..errors import UnsupportedExpressionError
from .syntax import DIALECT, Tree, shown

KNOWN = (
    "there are comparisons, IN, BETWEEN, LIKE, IS, AND, OR, NOT, and the functions startswith, "
    "endswith, contains, isnull, isnotnull and isnan"
)
_SUBQUERIES = (exp.Query, exp.Exists, exp.Subquery)
_CHANGING = (
    exp.Rand, exp.Randn, exp.Uuid, exp.CurrentDate, exp.CurrentTimestamp, exp.CurrentTime,
    exp.CurrentUser,
)  # fmt: skip
_CHANGING_NAMES = frozenset(
    {
        "current_timezone",
        "input_file_name",
        "localtimestamp",
        "monotonically_increasing_id",
        "now",
        "random",
        "randstr",
        "session_user",
        "shuffle",
        "spark_partition_id",
        "uniform",
        "user",
    }
)


class RefusalError(UnsupportedExpressionError):
    """A refusal that says which part of the expression it is about."""


def refused(node: Tree, why: str) -> RefusalError:
    """Return the refusal of a part; ``why`` goes on after "is"."""
    return RefusalError(f"{shown(node.sql(dialect=DIALECT))} is {why}")


def about(node: Tree, error: UnsupportedExpressionError) -> RefusalError:
    """Return a refusal with the part it is about, unless it names a smaller one already."""
    if isinstance(error, RefusalError):
        return error
    return RefusalError(f"{shown(node.sql(dialect=DIALECT))} is refused: {error}")


def reason(node: Tree) -> str:
    """Return why a part is no value that can be compared."""
    if isinstance(node, exp.Predicate | exp.Connector | exp.Not):
        return "a condition where a value belongs"
    if isinstance(node, exp.Binary):
        return "computed; only constants and columns as they are can be compared"
    if isinstance(node, exp.Func):
        return f"a function that is not known here; {KNOWN}"
    return "an expression that is not known here"


def check_parts(tree: Tree) -> None:
    """UnsupportedExpressionError for what no read of one table can evaluate."""
    for node in tree.walk():
        if isinstance(node, _SUBQUERIES) or (isinstance(node, exp.In) and node.args.get("query")):
            raise refused(node, "a subquery; ask Spark for its rows first")
        if isinstance(node, exp.Window):
            raise refused(node, "a window function; it looks at other rows")
        if isinstance(node, exp.AggFunc):
            raise refused(node, "an aggregate function; it looks at other rows")
        if isinstance(node, _CHANGING) or (
            isinstance(node, exp.Anonymous) and node.name.lower() in _CHANGING_NAMES
        ):
            raise refused(node, "not deterministic: it may differ from read to read")
        if isinstance(node, exp.Placeholder | exp.Parameter):
            raise refused(node, "a parameter; write its value")
