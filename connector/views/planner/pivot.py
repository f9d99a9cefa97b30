"""PIVOT and UNPIVOT: columns for the values of a column, and rows for columns.

    PIVOT       an aggregate by all columns that it does not read; each call counts the rows of one
                value alone
    UNPIVOT     a generator that makes one row of each of the columns in its list

Promises: the columns have the names and types that Spark gives them. As in Spark, a number over a
value without rows is NULL, also a count; where an aggregate returns no number, counts are 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from relstate.connector.syntax.tree import (
    Tree,
    cast_text,
    column,
    columns_of,
    comparable_text,
    conjunction,
    disjunction,
    parse_expression,
    substituted,
    text_of,
    without_parentheses,
)
from relstate.storage import types

from ..plan.aggregate import Function
from .builder import Builder, Item, Relation
from .calls import AGGREGATES, find_aggregates, function_of, name_of
from .expressions import unsupported_error
from .generators import plan_generator
from .grouping_sets import GroupBy, plan_group_by
from .outer_domain import Domain, group_over_domain
from .scope import Scope

# The types for which Spark aggregates before it pivots.
_NUMBERS = (
    types.Boolean, types.TinyInt, types.SmallInt, types.Int, types.BigInt, types.Float,
    types.Double, types.Decimal,
)  # fmt: skip
_FIRSTS = frozenset({"first", "first_value", "last", "last_value", "any_value"})


def plan_pivot(
    builder: Builder, relation: Relation, tree: exp.Pivot, domain: Domain | None = None
) -> Relation:
    """Return the rows of a relation after a PIVOT or an UNPIVOT.

    ``domain``: the outer values that the relation may be for.
    """
    if tree.unpivot:
        relation = _unpivot(builder, relation, tree)
    else:
        relation = _pivot(builder, relation, tree, domain)
    alias = tree.args.get("alias")
    return relation if alias is None else relation.with_alias(alias.name)


def _list_of(tree: exp.Pivot) -> exp.In:
    """Return ``name IN (…)``."""
    fields: list[Tree] = tree.args.get("fields") or []
    if len(fields) == 1 and isinstance(fields[0], exp.In) and fields[0].expressions:
        return fields[0]
    raise unsupported_error("this PIVOT", "write FOR column IN (value, …)", tree)


def _parts(tree: Tree) -> list[Tree]:
    """Return the members of ``(a, b)``, or an expression that is not in parentheses."""
    tree = without_parentheses(tree)
    return list(tree.expressions) if isinstance(tree, exp.Tuple) else [tree]


def _without_alias(tree: Tree) -> Tree:
    return tree.this if isinstance(tree, exp.PivotAlias | exp.Alias) else tree


def _visible_items(relation: Relation, tree: exp.Pivot) -> list[Item]:
    items = [item for item in relation.items if not item.is_hidden]
    names = [(item.name or "").lower() for item in items]
    if "" in names or len(set(names)) < len(names):
        raise unsupported_error(
            "PIVOT or UNPIVOT over two columns of one name, or over one without",
            "name the columns in a subquery in FROM",
            tree,
        )
    return items


def _columns_in_spark(
    builder: Builder, relation: Relation, items: Sequence[Item], tree: exp.Pivot
) -> tuple[types.Field, ...]:
    """Return the columns that Spark gives the result."""
    fields = [types.Field(item.name or "", relation.node.type_of(item.field)) for item in items]

    def unqualified(node: Tree) -> Tree | None:
        if not isinstance(node, exp.Column) or not node.table:
            return None
        item = Scope(relation.items).item(node.name, node.table)
        return None if item is None else exp.column(node.this.copy())

    return builder.analysis.columns_after(fields, text_of(substituted(tree, unqualified)))


# PIVOT


def _pivot(
    builder: Builder, relation: Relation, tree: exp.Pivot, domain: Domain | None
) -> Relation:
    listed, items = _list_of(tree), _visible_items(relation, tree)
    scope = Scope(relation.items)
    keys = [scope.resolve(part) for part in _parts(listed.this)]
    calls = [scope.resolve(_without_alias(call)) for call in tree.expressions]
    read = {name for part in (*keys, *calls) for name in columns_of(part)}
    group_items = [item for item in items if item.field not in read]
    pivoted_fields = _columns_in_spark(builder, relation, items, tree)[len(group_items) :]
    _check_distinct(listed)
    conditions = [_is_value(builder, relation, keys, value) for value in listed.expressions]
    is_numeric = all(isinstance(field.type, _NUMBERS) for field in pivoted_fields)
    values = [_of_value(call, condition, is_numeric) for condition in conditions for call in calls]
    assert len(values) == len(pivoted_fields)
    group = [column(name) for name in dict.fromkeys(item.field for item in group_items)]
    grouped_by, outer_values = GroupBy(tuple(group)), relation.domain
    if domain is not None and outer_values:
        node, outputs, outer_values = group_over_domain(
            domain, relation.node, outer_values, grouped_by, [*group, *values], tree
        )
    else:
        node, outputs = plan_group_by(builder, relation.node, grouped_by, [*group, *values])
    node, names = builder.compute(
        node, outputs, [*(key.name for key in group), *(field.name for field in pivoted_fields)]
    )
    by_field = dict(zip((key.name for key in group), names, strict=False))
    grouped = tuple(replace(item, field=by_field[item.field]) for item in group_items)
    pivoted = map(Item, (field.name for field in pivoted_fields), names[len(group) :])
    return Relation(node, (*grouped, *pivoted), domain=outer_values)


def _check_distinct(listed: exp.In) -> None:
    texts = [comparable_text(_without_alias(value)) for value in listed.expressions]
    if len(set(texts)) < len(texts):
        raise unsupported_error(
            "PIVOT with the same value twice", "Spark fills one of its columns", listed
        )


def _is_value(builder: Builder, relation: Relation, keys: Sequence[Tree], listed: Tree) -> Tree:
    """Return the condition that the columns after FOR have a value of the list."""
    value = _without_alias(listed)
    # A list in parentheses is a struct where one column is compared with it.
    parts = _parts(value) if len(keys) > 1 else [value]
    values = [Scope(()).resolve(part) for part in parts]
    if len(values) != len(keys):
        raise unsupported_error("this PIVOT", "each value has as many parts as there are columns")
    data_types = builder.analysis.types_of(relation.node.fields, [text_of(key) for key in keys])
    return conjunction(
        [
            parse_expression(f"{text_of(key)} <=> {cast_text(text_of(own), data_type)}")
            for key, own, data_type in zip(keys, values, data_types, strict=True)
        ]
    )


def _of_value(call: Tree, condition: Tree, is_numeric: bool) -> Tree:
    """Return an expression with aggregates over those rows alone for which a condition is true."""
    calls = find_aggregates(call)

    def replacement(node: Tree) -> Tree | None:
        if not any(node is own or node == own for own in calls):
            return None
        return _filtered(node, condition, is_numeric)

    value = substituted(call, replacement)
    function = AGGREGATES.get(type(without_parentheses(call)))
    if not is_numeric or (function is not None and function is not Function.COUNT):
        return value
    text = f"CASE WHEN count(1) FILTER (WHERE {text_of(condition)}) > 0 THEN {text_of(value)} END"
    return parse_expression(text)


def _filtered(call: Tree, condition: Tree, is_numeric: bool) -> Tree:
    conditions = [condition]
    if isinstance(call, exp.Filter):
        conditions.append(call.expression.this)
        call = call.this
    call = call.copy()
    if not is_numeric and name_of(function_of(call)) in _FIRSTS:
        if name_of(function_of(call)) == "any_value" or call is not function_of(call):
            raise unsupported_error(
                "this aggregate in PIVOT beside one that returns no number",
                "Spark takes values of other rows for it; write max()",
                call,
            )
        # Spark gives the rows of other values a NULL, and ignores NULLs.
        call.set("expressions", [call.expressions[0], exp.true()])
    return exp.Filter(this=call, expression=exp.Where(this=conjunction(conditions)))


# UNPIVOT


def _unpivot(builder: Builder, relation: Relation, tree: exp.Pivot) -> Relation:
    listed, items = _list_of(tree), _visible_items(relation, tree)
    scope = Scope(relation.items)
    rows = [
        [scope.resolve(part) for part in _parts(_without_alias(entry))]
        for entry in listed.expressions
    ]
    read = {name for row in rows for value in row for name in columns_of(value)}
    passed = [item for item in items if item.field not in read]
    name, *made = _columns_in_spark(builder, relation, items, tree)[len(passed) :]
    cells: list[Tree] = [exp.Literal.number(len(rows))]
    for entry, row in zip(listed.expressions, rows, strict=True):
        cells.append(exp.Literal.string(_row_name(entry)))
        cells += [
            parse_expression(cast_text(text_of(value), field.type))
            for value, field in zip(row, made, strict=True)
        ]
    call = exp.Anonymous(this="stack", expressions=cells)
    node, stacked = plan_generator(builder, relation.node, call)
    fields = [item.field for item in stacked]
    if not tree.args.get("include_nulls"):
        present = [parse_expression(f"{types.quoted(field)} IS NOT NULL") for field in fields[1:]]
        node = builder.filter(node, [disjunction(present)])
    new_items = map(Item, (name.name, *(field.name for field in made)), fields)
    return Relation(node, (*passed, *new_items), domain=relation.domain)


def _row_name(entry: Tree) -> str:
    """Return what the column of names has in the rows of an entry of the list."""
    if isinstance(entry, exp.PivotAlias):
        return str(entry.args["alias"].name)
    return "_".join(part.name for part in _parts(entry))
