"""Expressions of a query over one table, as values that tasks compute.

Does not know: which functions there are over a value.
"""

from __future__ import annotations

from sqlglot import exp

from relstate.connector.syntax.tree import Tree, substituted
from relstate.storage import TableSchema, Value, bind_value

from .single_table import check_qualifier


def row_value(node: Tree, alias: str, schema: TableSchema, time_zone: str) -> Value:
    """Return the value of an expression over a table with an alias.

    NotPushedError, SchemaError, SchemaMismatchError or UnsupportedExpressionError if tasks do not
    compute it.
    """

    def plain_column(part: Tree) -> Tree | None:
        if not isinstance(part, exp.Column):
            return None
        check_qualifier(part, alias)
        return exp.Column(this=part.this.copy())

    return bind_value(substituted(node, plain_column), schema, time_zone)
