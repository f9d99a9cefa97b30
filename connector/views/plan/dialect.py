"""Reading Spark's SQL so that it can be written again as it was.

sqlglot knows functions of many dialects and translates between them: what it translates it may
change. So the parser here knows the aggregates that executors keep, the ranks, and what syntax
forces on it; any other function stays a name and its arguments.

Promises: what is parsed and written means to Spark what it meant before, but for what `analysis`
finds out. Does not know: which names are columns, or what they are of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parsers.spark import SparkParser

from relstate.connector.syntax.tokens import parsed, shown, unreadable
from relstate.storage import errors, types

Tree: TypeAlias = exp.Expr

_PARSED = (
    "ARRAY", "AVG", "COUNT", "DENSE_RANK", "MAX", "MIN", "RANK", "ROW_NUMBER", "STDDEV",
    "STDDEV_POP", "STDDEV_SAMP", "SUM", "VARIANCE", "VAR_POP", "VAR_SAMP",
)  # fmt: skip

_OF_UNITS = ("timestampadd", "timestampdiff", "dateadd", "datediff", "date_add", "date_diff")


class _Parser(SparkParser):
    """Spark's, with few functions, and a comma in FROM that is no CROSS JOIN."""

    JOINS_HAVE_EQUAL_PRECEDENCE = False
    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {
        **{name: SparkParser.FUNCTIONS[name] for name in _PARSED},
        "MEAN": exp.Avg.from_arg_list,
        "STD": exp.Stddev.from_arg_list,
    }


class _Generator(SparkGenerator):
    """Spark's, which writes a query as it was read."""

    EXPRESSIONS_WITHOUT_NESTED_CTES: ClassVar[set[type[Tree]]] = set()
    SUPPORTS_TEMPORAL_PRECISION = True
    TYPE_MAPPING: ClassVar[dict[exp.DType, str]] = {
        kind: name for kind, name in SparkGenerator.TYPE_MAPPING.items() if kind != exp.DType.TIME
    }
    TRANSFORMS: ClassVar[dict[type[Tree], Callable[..., str]]] = {
        kind: write for kind, write in SparkGenerator.TRANSFORMS.items() if kind != exp.Select
    }


class Dialect(Spark):
    """Spark's, with no function known that need not be."""

    Parser = _Parser
    Generator = _Generator


def parse(text: str) -> Tree:
    """Return the tree of a query. UnsupportedStatementError where it is none, or not readable."""
    try:
        tree = parsed(text, Dialect)
    except SqlglotError as error:
        raise unreadable(text, error) from None
    if not isinstance(tree, exp.Query | exp.Values):
        raise errors.UnsupportedStatementError(f"{shown(text)} is not a query")
    return substituted(tree, _as_unit)


def parse_expression(text: str) -> Tree:
    """Return the tree of an expression that `text_of` has written."""
    tree: Tree = parsed(f"SELECT {text}", Dialect).expressions[0]
    return substituted(substituted(tree, _as_unit), _as_parts)


def text_of(tree: Tree) -> str:
    """Return the SQL of a tree."""
    return tree.sql(dialect=Dialect, comments=False)


def column(field: str) -> exp.Column:
    """Return a reference to a field of a plan."""
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", field) is not None
    return exp.Column(this=exp.Identifier(this=field, quoted=not plain))


def _as_unit(node: Tree) -> Tree | None:
    """Return the unit of time in ``timestampadd(DAY, 1, t)``, which sqlglot takes for a column."""
    call = node.parent
    if not isinstance(node, exp.Column) or not isinstance(call, exp.Anonymous):
        return None
    is_unit = str(call.this).lower() in _OF_UNITS and len(call.expressions) == 3
    return exp.Var(this=node.name) if is_unit and call.expressions[0] is node else None


def _as_parts(node: Tree) -> Tree | None:
    """Return ``field.part`` as a part of a field, where sqlglot takes it for a table's column."""
    if not isinstance(node, exp.Column) or not node.table:
        return None
    first, *parts = node.parts
    return with_parts(column(first.name), [one.name for one in parts])


def with_parts(tree: Tree, parts: Sequence[str]) -> Tree:
    """Return a part of a struct, or a part of a part."""
    for part in parts:
        tree = exp.Dot(this=tree, expression=exp.to_identifier(part, quoted=True))
    return tree


def cast_text(expression: str, wanted: types.DataType) -> str:
    """Return the text of an expression cast to a type; that of NULL alone has no name."""
    return expression if wanted == types.Void() else f"CAST({expression} AS {wanted})"


def columns_of(tree: Tree) -> set[str]:
    """Return the names of the fields that an expression over fields reads."""
    return {one.name for one in tree.find_all(exp.Column)}


def is_column(tree: Tree) -> bool:
    """Tell whether an expression over fields is a field and nothing else."""
    return isinstance(tree, exp.Column)


def is_star(tree: Tree) -> bool:
    """Tell whether an expression is ``*`` or ``alias.*``."""
    inner = tree.this if isinstance(tree, exp.Column) else tree
    return isinstance(inner, exp.Star)


def bare(tree: Tree) -> Tree:
    """Return an expression without parentheses around all of it."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return tree


def whole_number(tree: Tree) -> int | None:
    """Return the number that a literal is, in parentheses or not; None if it is anything else."""
    tree = bare(tree)
    return int(tree.this) if isinstance(tree, exp.Literal) and tree.is_int else None


def conjuncts(condition: Tree) -> Iterator[Tree]:
    """Yield the conditions all of which must hold, in their order."""
    condition = bare(condition)
    if isinstance(condition, exp.And):
        yield from conjuncts(condition.this)
        yield from conjuncts(condition.expression)
    else:
        yield condition


def conjunction(conditions: Sequence[Tree]) -> Tree:
    """Return one condition that says all of several; there must be one."""
    return exp.and_(*(one.copy() for one in conditions), dialect=Dialect)


def enclosed(tree: Tree) -> Tree:
    """Return a copy of an expression that can stand for a column within another expression."""
    alone = exp.Column, exp.Literal, exp.Paren, exp.Func, exp.Boolean, exp.Null
    copied = tree.copy()
    if isinstance(copied, alone) and not isinstance(copied, exp.Connector):
        return copied
    return exp.Paren(this=copied)


def substituted(tree: Tree, replacement: Callable[[Tree], Tree | None]) -> Tree:
    """Return a copy in which nodes are what ``replacement`` gives for them; None: as they are.

    What is put in is not looked into.
    """

    def replace(node: Tree) -> Tree:
        found = replacement(node)
        return node if found is None else found

    return tree.copy().transform(replace, copy=False)


def with_fields(tree: Tree, names: Mapping[str, str]) -> Tree:
    """Return a copy in which expressions are fields; they are known by their `meaning`."""

    def replacement(node: Tree) -> Tree | None:
        name = None if isinstance(node, _NO_VALUES) else names.get(meaning(node))
        return None if name is None else column(name)

    return substituted(tree, replacement)


# They are written as what is in them, and stand for something else, or for nothing.
_NO_VALUES = exp.Identifier, exp.Literal, exp.Ordered, exp.Var, exp.DataType, exp.Alias


def meaning(tree: Tree) -> str:
    """Return a text that is equal for two expressions that are, but for how they are written."""
    plain = bare(tree).copy()
    for function in plain.find_all(exp.Anonymous):
        function.set("this", str(function.this).upper())
    return text_of(plain)
