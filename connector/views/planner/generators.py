"""Functions that return rows, in SELECT, LATERAL VIEW and FROM.

Promises: the columns have the names, types and order that Spark gives them. The position of a row
among those of its input row is in the key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from relstate.connector.syntax.tree import (
    Tree,
    cast_text,
    column,
    parse_expression,
    text_of,
    whole_number,
    with_parts,
)
from relstate.storage import types

from ..plan.generate import Generate, Generator, output_types
from ..plan.node import Expression, Names, Node
from .builder import Builder, Item
from .expressions import function_name, unsupported_error

_NAMES = frozenset({"explode", "posexplode", "inline", "stack", "json_tuple", "variant_explode"})
_OUTER = "_outer"
_VARIANT_COLUMNS = ("pos", "key", "value")
# The rows of variant_explode as structs: the elements of an array, the fields of an object.
_VARIANT_ROWS = """coalesce(
    transform(try_variant_get({0}, '$', 'array<variant>'), (__part, __pos) ->
        named_struct('pos', __pos, 'key', CAST(NULL AS STRING), 'value', __part)),
    transform(map_entries(try_variant_get({0}, '$', 'map<string, variant>')), (__part, __pos) ->
        named_struct('pos', __pos, 'key', __part.key, 'value', __part.value)))"""


def is_generator(tree: Tree) -> bool:
    """Return whether an expression is a call of a function that returns rows."""
    if not isinstance(tree, exp.Anonymous):
        return False
    return str(function_name(tree)).removesuffix(_OUTER) in _NAMES


def is_outer_generator(call: Tree) -> bool:
    """Return whether a call returns one row where it has none, as ``explode_outer`` does."""
    return str(function_name(call)).endswith(_OUTER)


def usual_names(call: Tree) -> tuple[str, ...] | None:
    """Return the names that the columns of a call may have; None if its argument decides."""
    name = str(function_name(call)).removesuffix(_OUTER)
    if name in ("explode", "posexplode"):
        return ("pos", "col", "key", "value")
    if name == "json_tuple":
        return tuple(f"c{number}" for number in range(len(call.expressions) - 1))
    return _VARIANT_COLUMNS if name == "variant_explode" else None


@dataclass(frozen=True, slots=True)
class _Call:
    """A call as an operator has it.

    ``names``: of the columns that the query sees; None for a position that it does not see.
    ``is_struct``: the columns are the parts of the struct that is the element.
    """

    function: Generator
    arguments: tuple[Expression, ...]
    names: tuple[str | None, ...]
    is_struct: bool = False


def plan_generator(
    builder: Builder, node: Node, call: Tree, *, is_outer: bool = False
) -> tuple[Node, tuple[Item, ...]]:
    """Return the rows that a call makes of each row, and the columns of the call.

    ``call``: over the fields of the node. ``is_outer``: as OUTER after LATERAL VIEW says.
    """
    name = str(function_name(call))
    parsed = _parse_call(builder, node, name.removesuffix(_OUTER), call)
    data_types = output_types(parsed.function, [argument.type for argument in parsed.arguments])
    titles = [title or "position" for title in parsed.names]
    outputs = tuple(
        types.Field(builder.namer.unique_name(title), data_type)
        for title, data_type in zip(titles, data_types, strict=True)
    )
    keeps_empty = is_outer or is_outer_generator(call)
    generated: Node = Generate(
        node, parsed.function, parsed.arguments, node.names, outputs, keeps_empty
    )
    if parsed.is_struct:
        return _compute_parts(builder, generated, outputs[-1])
    return generated, tuple(
        Item(title, output.name)
        for title, output in zip(parsed.names, outputs, strict=True)
        if title is not None
    )


def _parse_call(builder: Builder, node: Node, name: str, call: Tree) -> _Call:
    texts = [text_of(argument) for argument in call.expressions]
    if name == "stack":
        texts = [_stacked(builder, node, call)]
    if name == "variant_explode":
        texts = [text_of(parse_expression(_VARIANT_ROWS.format(texts[0])))]
    data_types = builder.analysis.types_of(node.fields, texts)
    arguments = tuple(map(Expression, texts, data_types))
    match name:
        case "json_tuple":
            names = tuple(f"c{number}" for number in range(len(texts) - 1))
            return _Call(Generator.JSON, arguments, names)
        case "inline" | "stack" | "variant_explode":
            return _Call(Generator.ELEMENTS, arguments, (None, "row"), is_struct=True)
    position = "pos" if name == "posexplode" else None
    elements = ("key", "value") if isinstance(data_types[0], types.Map) else ("col",)
    return _Call(Generator.ELEMENTS, arguments, (position, *elements))


def _stacked(builder: Builder, node: Node, call: Tree) -> str:
    """Return the array of structs that has the rows of a ``stack(n, …)``."""
    rows = whole_number(call.expressions[0])
    if not rows:
        raise unsupported_error("stack() without a number of rows", "write stack(2, …)", call)
    cells = [text_of(cell) for cell in call.expressions[1:]]
    columns = builder.analysis.columns_of(node.fields, text_of(call))
    structs = []
    for start in range(0, rows * len(columns), len(columns)):
        parts = []
        for number, output in enumerate(columns):
            text = cells[start + number] if start + number < len(cells) else "NULL"
            parts.append(f"'{output.name}', {cast_text(text, output.type)}")
        structs.append(f"named_struct({', '.join(parts)})")
    return f"array({', '.join(structs)})"


def _compute_parts(
    builder: Builder, node: Node, element: types.Field
) -> tuple[Node, tuple[Item, ...]]:
    """Return an operator with the parts of a struct as fields, and these as columns."""
    if not isinstance(element.type, types.Struct):
        raise unsupported_error(f"inline() of {element.type}", "it takes an array of structs")
    names = [part.name for part in element.type.fields]
    values = [with_parts(column(element.name), [name]) for name in names]
    node, fields = builder.compute(node, values, names)
    return node, tuple(map(Item, names, fields))


def plan_elements(
    builder: Builder, node: Node, array: str, titles: tuple[str, str], passed: Names | None = None
) -> tuple[Node, tuple[str, str]]:
    """Return a row for each row and element of an array, and the fields of position and element.

    ``array``: in Spark's SQL over the fields of the node. ``titles``: names for the two fields.
    ``passed``: the fields of the node that the rows have too, by default all.
    """
    (data_type,) = builder.analysis.types_of(node.fields, [array])
    assert isinstance(data_type, types.Array)
    position, element = (
        types.Field(builder.namer.unique_name(title), field_type)
        for title, field_type in zip(titles, (types.Int(), data_type.element), strict=True)
    )
    names = node.names if passed is None else passed
    arguments = (Expression(array, data_type),)
    elements = Generate(node, Generator.ELEMENTS, arguments, names, (position, element))
    return elements, (position.name, element.name)


def named_columns(items: Sequence[Item], names: Sequence[str], call: Tree) -> tuple[Item, ...]:
    """Return the columns of a call under the names that the query gives them, if it gives any."""
    if not names:
        return tuple(items)
    if len(names) != len(items):
        raise unsupported_error(f"{len(names)} names for {len(items)} columns", "count them", call)
    return tuple(Item(name, item.field) for name, item in zip(names, items, strict=True))
