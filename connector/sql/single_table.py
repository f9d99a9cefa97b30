"""SELECTs over one table of the store, of which more than rows and conditions concerns the read.

Does not know: what is done for such a SELECT.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from relstate.connector.syntax.parsed_query import TableReference
from relstate.connector.syntax.tree import Tree, substituted
from relstate.storage import Predicate, TableSchema

# What gives one value per row, from the row alone, whatever it contains.
_PLAIN = (
    exp.Abs, exp.Add, exp.Alias, exp.And, exp.Between, exp.Boolean, exp.Case, exp.Cast,
    exp.Coalesce, exp.Column, exp.Cube, exp.DataType, exp.DataTypeParam, exp.Div,
    exp.EQ, exp.GT, exp.GTE, exp.Group, exp.GroupingSets, exp.Having, exp.Identifier,
    exp.If, exp.In, exp.IntDiv, exp.Is, exp.LT, exp.LTE, exp.Like, exp.Limit, exp.Literal, exp.Mod,
    exp.Mul, exp.NEQ, exp.Neg, exp.Not, exp.Null, exp.NullSafeEQ, exp.Offset, exp.Or, exp.Order,
    exp.Ordered, exp.Paren, exp.Rollup, exp.Sub, exp.Tuple,
)  # fmt: skip
_FUNCTIONS = frozenset(
    {
        "abs", "ceil", "coalesce", "concat", "floor", "greatest", "if", "ifnull", "least", "length",
        "lower", "nullif", "nvl", "round", "substring", "upper", "year", "month", "day", "hour",
        "date_trunc", "trunc", "to_date",
    }
)  # fmt: skip


class NotPushedError(Exception):
    """Some part of a SELECT is not one that the read of its table can stand for."""


def select_over(reference: TableReference, clauses: Collection[str]) -> exp.Select | None:
    """Return the SELECT whose FROM is a reference and nothing else; None if there is none.

    ``clauses``: which it may have.
    """
    node = reference.node
    if node is None or not isinstance(node.parent, exp.From):
        return None
    select = node.parent.parent
    alias = node.args.get("alias")
    has_columns = isinstance(alias, exp.TableAlias) and bool(alias.columns)
    parts = {name for name, value in node.args.items() if value} - {"this", "alias", "version"}
    if not isinstance(select, exp.Select) or has_columns or parts:
        return None
    present = {name for name, value in select.args.items() if value}
    return select if present <= set(clauses) else None


def shows_names(select: exp.Select) -> bool:
    """Return whether another part of the query may see the names of the columns of a SELECT.

    It may in FROM, in a common table and in UNION BY NAME; not at the outermost level, nor where
    the SELECT is a value, as in a comparison.
    """
    query: Tree = select
    while isinstance(query.parent, exp.Subquery | exp.SetOperation):
        query = query.parent
        if query.args.get("by_name"):
            return True
    if query.parent is None or (
        isinstance(query.parent, exp.Select) and query.arg_key == "expressions"
    ):
        return False
    return not isinstance(query.parent, exp.Alias | exp.Binary | exp.Exists | exp.In)


def whole_condition(
    select: exp.Select, alias: str, schema: TableSchema, time_zone: str
) -> Predicate | None:
    """Return the WHERE of a SELECT over a table; None if it has none.

    UnsupportedExpressionError, SchemaMismatchError or NotPushedError if a read cannot evaluate it.
    """
    where = select.args.get("where")
    return None if where is None else bound(where.this, alias, schema, time_zone)


def bound(condition: Tree, alias: str, schema: TableSchema, time_zone: str) -> Predicate:
    """Return a condition over a table with an alias, bound to it. Errors as `whole_condition`."""

    def plain_column(node: Tree) -> Tree | None:
        if not isinstance(node, exp.Column):
            return None
        check_qualifier(node, alias)
        return exp.Column(this=node.this.copy())

    return Predicate.bind(substituted(condition, plain_column), schema, time_zone)


def is_plain(node: Tree) -> bool:
    """Return whether a node, without what it contains, gives one value per row, from the row."""
    if isinstance(node, exp.Anonymous):
        return isinstance(node.this, str) and node.this.lower() in _FUNCTIONS
    return isinstance(node, _PLAIN)


def check_qualifier(node: exp.Column, alias: str) -> None:
    """NotPushedError for the column of another relation, a star, or a part of a column."""
    is_own = not node.table or node.table.lower() == alias
    is_name = isinstance(node.this, exp.Identifier) and not node.args.get("db")
    if not is_own or not is_name or isinstance(node.parent, exp.Dot):
        raise NotPushedError
