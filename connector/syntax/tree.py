"""Trees of queries and expressions: taken apart, put together, written as text.

`relstate.storage.syntax` has the dialect; here is what the connector does with its trees.
Does not know: which names are columns, or their types.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from sqlglot import exp
from sqlglot.errors import SqlglotError

from relstate.storage import syntax, types

from .tokens import unreadable_error

Tree: TypeAlias = syntax.Tree

text_of = syntax.text_of


def parse_expression(text: str) -> Tree:
    """Return the tree of an expression over fields, in which no column has a qualifier.

    UnsupportedStatementError for any other text.
    """
    select = f"SELECT {text}"
    try:
        tree = syntax.parse_tokens(syntax.tokenize(select), select)
    except SqlglotError as error:
        raise unreadable_error(text, error) from None
    expression: Tree = tree.expressions[0]
    return substituted(expression, _as_parts)


def column(field: str) -> exp.Column:
    """Return a reference to a field of a plan."""
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", field) is not None
    return exp.Column(this=exp.Identifier(this=field, quoted=not plain))


def _as_parts(node: Tree) -> Tree | None:
    """Return ``field.part`` as a part of a field, where sqlglot takes it for a table's column."""
    if not isinstance(node, exp.Column) or not node.table:
        return None
    first, *parts = node.parts
    return with_parts(column(first.name), [part.name for part in parts])


def with_parts(tree: Tree, parts: Sequence[str]) -> Tree:
    """Return a part of a struct, or a part of a part."""
    for part in parts:
        tree = exp.Dot(this=tree, expression=exp.to_identifier(part, quoted=True))
    return tree


def cast_text(expression: str, data_type: types.DataType) -> str:
    """Return the text of an expression cast to a type; the type of NULL alone has no name."""
    return expression if data_type == types.Void() else f"CAST({expression} AS {data_type})"


def columns_of(tree: Tree) -> set[str]:
    """Return the names of the fields that an expression over fields reads."""
    return {column.name for column in tree.find_all(exp.Column)}


def is_column(tree: Tree) -> bool:
    """Return whether an expression over fields is a field and nothing else."""
    return isinstance(tree, exp.Column)


def is_star(tree: Tree) -> bool:
    """Return whether an expression is ``*`` or ``alias.*``."""
    inner = tree.this if isinstance(tree, exp.Column) else tree
    return isinstance(inner, exp.Star)


def is_row_star(tree: Tree) -> bool:
    """Return whether an expression is the star of ``count(*)``, which reads no column."""
    return (
        isinstance(tree, exp.Star)
        and not any(tree.args.values())
        and isinstance(tree.parent, exp.Count)
        and not tree.parent.expressions
    )


def without_parentheses(tree: Tree) -> Tree:
    """Return an expression without parentheses around all of it."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return tree


def whole_number(tree: Tree) -> int | None:
    """Return the number that a literal is, in parentheses or not; None if it is anything else."""
    tree = without_parentheses(tree)
    return int(tree.this) if isinstance(tree, exp.Literal) and tree.is_int else None


def number_text(tree: Tree) -> str | None:
    """Return the digits of a number, which may have a suffix, as ``1.5D``; None for other trees."""
    tree = without_parentheses(tree)
    if syntax.SUFFIX in tree.meta:
        return tree.name
    return tree.name if isinstance(tree, exp.Literal) and tree.is_number else None


def whole_constant(tree: Tree) -> int | None:
    """Return the value of a whole number, which may have a suffix, as ``5L``; None for others."""
    text = number_text(tree)
    return int(text) if text is not None and text.isdecimal() else None


def conjuncts(condition: Tree) -> Iterator[Tree]:
    """Yield the conditions all of which must hold, in their order."""
    return _operands(condition, exp.And)


def disjuncts(condition: Tree) -> Iterator[Tree]:
    """Yield the conditions one of which must hold, in their order."""
    return _operands(condition, exp.Or)


def _operands(condition: Tree, kind: type[Tree]) -> Iterator[Tree]:
    """Yield the operands of nested ANDs or ORs, in parentheses or not; there may be thousands."""
    pending = [condition]
    while pending:
        node = without_parentheses(pending.pop())
        if isinstance(node, kind):
            pending += [node.expression, node.this]
        else:
            yield node


def conjunction(conditions: Sequence[Tree]) -> Tree:
    """Return the AND of several conditions; there must be one."""
    return exp.and_(*(condition.copy() for condition in conditions), dialect=syntax.Dialect)


def disjunction(conditions: Sequence[Tree]) -> Tree:
    """Return the OR of several conditions; there must be one."""
    return exp.or_(*(condition.copy() for condition in conditions), dialect=syntax.Dialect)


def as_operand(tree: Tree) -> Tree:
    """Return a copy of an expression that can stand for a column within another expression."""
    alone = exp.Column, exp.Literal, exp.Paren, exp.Func, exp.Boolean, exp.Null
    copied = tree.copy()
    if isinstance(copied, alone) and not isinstance(copied, exp.Connector):
        return copied
    return exp.Paren(this=copied)


def substituted(tree: Tree, replacement: Callable[[Tree], Tree | None]) -> Tree:
    """Return a copy in which nodes are what ``replacement`` gives for them; None: as they are.

    ``replacement`` is not asked about what it put in.
    """

    def replace(node: Tree) -> Tree:
        replaced = replacement(node)
        return node if replaced is None else replaced

    return tree.copy().transform(replace, copy=False)


def with_fields(tree: Tree, names: Mapping[str, str]) -> Tree:
    """Return a copy in which expressions are fields; ``names``: by their `comparable_text`."""
    return substituted(tree, lambda node: field_of(node, names))


def field_of(node: Tree, names: Mapping[str, str]) -> Tree | None:
    """Return the field that replaces a part of an expression; None if there is none."""
    name = None if isinstance(node, NO_VALUES) else names.get(comparable_text(node))
    return None if name is None else column(name)


NO_VALUES = exp.Identifier, exp.Literal, exp.Ordered, exp.Var, exp.DataType, exp.Alias
"""Parts of expressions that no field replaces: names, and what has the text of its content."""


def comparable_text(tree: Tree) -> str:
    """Return a text that two expressions share if they differ in case and parentheses only."""
    plain = without_parentheses(tree).copy()
    for function in plain.find_all(exp.Anonymous):
        function.set("this", str(function.this).upper())
    return text_of(plain)
