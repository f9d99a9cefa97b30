"""Arguments of aggregate functions as values that tasks compute.

Known are columns, numbers, ``+``, ``-`` and ``*``, ``CASE WHEN`` and ``if`` over conditions that
a read can evaluate.

Promises: everything else is refused.
Does not know: which functions there are over a value.
"""

from __future__ import annotations

from sqlglot import exp

from relstate.connector.syntax.tree import Tree
from relstate.storage import TableSchema, measured

from .single_table import NotPushedError, bound, check_qualifier

_OPERATORS: dict[type[Tree], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}


def measured_value(node: Tree, alias: str, schema: TableSchema, time_zone: str) -> measured.Value:
    """Return the value of an expression over a table with an alias.

    NotPushedError, SchemaError, UnsupportedTypeError or UnsupportedExpressionError if tasks do not
    compute it.
    """
    return _Reader(alias, schema, time_zone).value(node)


class _Reader:
    def __init__(self, alias: str, schema: TableSchema, time_zone: str) -> None:
        self._alias, self._schema, self._time_zone = alias, schema, time_zone

    def value(self, node: Tree) -> measured.Value:
        """Return the value of an expression."""
        match node:
            case exp.Paren():
                return self.value(node.this)
            case exp.Column():
                check_qualifier(node, self._alias)
                column = self._schema.column(node.name)
                return measured.ColumnValue(column.name, column.type)
            case exp.Literal() if not node.is_string:
                return measured.number_of(node.name)
            case exp.Neg(this=exp.Literal() as literal) if not literal.is_string:
                return measured.number_of(f"-{literal.name}")
            case exp.Add() | exp.Sub() | exp.Mul():
                left, right = self.value(node.this), self.value(node.expression)
                return measured.arithmetic(_OPERATORS[type(node)], left, right)
            case exp.Case() if node.this is None:
                return self._choice(node.args["ifs"], node.args.get("default"))
            case exp.If():
                return self._choice([node], node.args.get("false"))
        raise NotPushedError

    def _choice(self, branches: list[Tree], otherwise: Tree | None) -> measured.Value:
        chosen = []
        for branch in branches:
            where = bound(branch.this, self._alias, self._schema, self._time_zone)
            chosen.append((where.condition, self.value(branch.args["true"])))
        if otherwise is None or isinstance(otherwise, exp.Null):
            return measured.choice(tuple(chosen), None)
        return measured.choice(tuple(chosen), self.value(otherwise))
