"""Rows of no table in FROM: VALUES, range(), and the one row of a SELECT without FROM.

They are rows of generators over the one row of a `OneRow`, which is inserted when the view is
created and never changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from relstate.connector.syntax.tree import (
    Tree,
    cast_text,
    column,
    parse_expression,
    text_of,
    whole_number,
    with_parts,
    without_parentheses,
)
from relstate.storage import types

from ..plan.generate import OneRow
from ..plan.node import Node
from .builder import Builder, Item, Relation
from .expressions import unsupported_error
from .generators import plan_elements
from .scope import Scope

_MOST_RANGE_ARGUMENTS = 4
_MOST_RANGE_ROWS = 1 << 20


def one_row(builder: Builder) -> Relation:
    """Return one row without columns."""
    return Relation(OneRow(types.Field(builder.namer.unique_name("one_row"), types.TinyInt())), ())


def plan_values(builder: Builder, tree: exp.Values) -> Relation:
    """Return the rows of a VALUES, with columns col1, col2 and so on."""
    inner = tree.copy()
    inner.set("alias", None)
    data_types = builder.analysis.types_of_query(text_of(inner))
    names = [_column_name(number) for number in range(len(data_types))]
    rows = [_cell_texts(row.expressions, data_types) for row in tree.expressions]
    if len(rows) == 1:
        node, values = one_row(builder).node, list(map(parse_expression, rows[0]))
    else:
        array = ", ".join(_row_text(names, row) for row in rows)
        node, element = _elements(builder, f"array({array})", "row")
        values = [with_parts(column(element), [name]) for name in names]
    node, fields = builder.compute(node, values, names)
    return Relation(node, tuple(map(Item, names, fields)))


def _cell_texts(cells: Sequence[Tree], data_types: Sequence[types.DataType]) -> list[str]:
    texts = []
    for cell, data_type in zip(cells, data_types, strict=True):
        value = Scope(()).resolve(cell.this if isinstance(cell, exp.Alias) else cell)
        texts.append(cast_text(text_of(value), data_type))
    return texts


def _row_text(names: Sequence[str], values: Sequence[str]) -> str:
    parts = (f"'{name}', {value}" for name, value in zip(names, values, strict=True))
    return f"named_struct({', '.join(parts)})"


def _column_name(number: int) -> str:
    return f"col{number + 1}"


def plan_range(builder: Builder, tree: Tree) -> Relation:
    """Return the rows of ``range([start,] end [, step [, partitions]])``, with a column id."""
    numbers = [_integer(argument) for argument in tree.expressions]
    if not 1 <= len(numbers) <= _MOST_RANGE_ARGUMENTS:
        raise unsupported_error("this range()", "write range(start, end, step)", tree)
    start, end = numbers[:2] if len(numbers) > 1 else (0, numbers[0])
    step = numbers[2] if len(numbers) > 2 else 1
    values = range(start, end, step)
    if _is_longer(values, _MOST_RANGE_ROWS):
        raise unsupported_error(
            f"range() of more than {_MOST_RANGE_ROWS:,} rows",
            "they are rows of the view; write the numbers into a table and read that",
            tree,
        )
    bounds = (
        (f"CAST({number} AS BIGINT)" for number in (values[0], values[-1], step)) if values else ()
    )
    text = f"sequence({', '.join(bounds)})" if values else "CAST(array() AS ARRAY<BIGINT>)"
    node, field = _elements(builder, text, "id")
    return Relation(node, (Item("id", field),))


def _is_longer(values: range, count: int) -> bool:
    """Return whether a range has more than so many values; its ``len`` is limited to 64 bits."""
    return bool(values[count : count + 1])


def _integer(tree: Tree) -> int:
    """Return the number that a sum, a difference or a product of whole numbers is."""
    tree = without_parentheses(tree)
    match tree:
        case exp.Neg():
            return -_integer(tree.this)
        case exp.Cast() if tree.is_type(exp.DType.INT, exp.DType.BIGINT):
            return _integer(tree.this)
        case exp.Add():
            return _integer(tree.this) + _integer(tree.expression)
        case exp.Sub():
            return _integer(tree.this) - _integer(tree.expression)
        case exp.Mul():
            return _integer(tree.this) * _integer(tree.expression)
    whole = whole_number(tree)
    if whole is None:
        raise unsupported_error("range() of this expression", "write whole numbers", tree)
    return whole


def _elements(builder: Builder, array: str, title: str) -> tuple[Node, str]:
    """Return a row for each element of a constant array, and the field that holds the element."""
    child = one_row(builder).node
    node, (_, element) = plan_elements(builder, child, array, ("position", title))
    return node, element
