"""GROUPING SETS, CUBE and ROLLUP: an aggregate for each set, and their union.

Promises: a set has the rows that its GROUP BY alone has; what a row is not grouped by is NULL, but
the arguments of aggregates are as they came. As in Spark, no set has a row if there is no input.
Does not know: which executor maintains an aggregate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, product
from math import prod
from typing import TypeAlias

from sqlglot import exp

from relstate.connector.syntax.tree import (
    Tree,
    cast_text,
    comparable_text,
    parse_expression,
    text_of,
    with_fields,
    without_parentheses,
)
from relstate.storage import errors, types

from ..plan.node import Node
from .builder import Builder, Item, Relation, field_title
from .calls import find_aggregates
from .expressions import unsupported_error
from .group_by import check_grouped, plan_aggregate
from .set_operations import plan_union

Resolve: TypeAlias = Callable[[Tree], Tree]
"""Returns a grouping expression over fields."""
_Sets: TypeAlias = list[list[Tree]]

_ANALYTICS = exp.Cube, exp.Rollup, exp.GroupingSets
_MOST_SETS = 64
_FUNCTIONS = frozenset({"grouping", "grouping_id"})


@dataclass(frozen=True, slots=True)
class GroupBy:
    """The expressions of a GROUP BY over fields, each once.

    ``sets``: for each grouping set the positions of its expressions; None for a plain GROUP BY.
    """

    expressions: tuple[Tree, ...]
    sets: tuple[tuple[int, ...], ...] | None = None

    @classmethod
    def of_sets(cls, sets: _Sets, listed: Sequence[Tree] = ()) -> GroupBy:
        """Return the GROUP BY of grouping sets; ``listed``: the expressions in their order.

        One empty set alone is the global aggregate, which has a row even if the input has none.
        """
        if sets == [[]]:
            return cls(())
        expressions = {comparable_text(tree): tree for tree in chain(listed, *sets)}
        positions = {text: position for position, text in enumerate(expressions)}
        numbers = [sorted({positions[comparable_text(tree)] for tree in trees}) for trees in sets]
        return cls(tuple(expressions.values()), tuple(map(tuple, numbers)))


def has_grouping_sets(clause: Tree) -> bool:
    """Return whether a GROUP BY has GROUPING SETS, CUBE or ROLLUP."""
    if any(clause.args.get(name) for name in ("rollup", "cube", "grouping_sets")):
        return True
    return any(isinstance(tree, _ANALYTICS) for tree in clause.expressions)


def grouping_sets(clause: Tree, resolve: Resolve) -> GroupBy:
    """Return the grouping sets of a GROUP BY that has some."""
    if clause.args.get("totals"):
        raise unsupported_error("WITH TOTALS", "Spark has none", clause)
    if any(clause.args.get(name) for name in ("rollup", "cube", "grouping_sets")):
        listed = [resolve(tree) for tree in clause.expressions]
        return GroupBy.of_sets(_sets_over(clause, listed, resolve), listed)
    elements = [_sets_of(tree, resolve) for tree in clause.expressions]
    if prod(map(len, elements)) > _MOST_SETS:
        raise _too_many_error(clause)
    sets = [list(chain.from_iterable(combination)) for combination in product(*elements)]
    # grouping_id() depends on the order of the expressions: it is that of the text.
    written = chain.from_iterable(chain.from_iterable(element) for element in elements)
    return GroupBy.of_sets(sets, list(written))


def _sets_over(clause: Tree, listed: Sequence[Tree], resolve: Resolve) -> _Sets:
    """Return the sets of WITH ROLLUP, WITH CUBE or GROUPING SETS after a list of expressions."""
    if clause.args.get("rollup"):
        return _prefixes([[tree] for tree in listed])
    if clause.args.get("cube"):
        return _subsets([[tree] for tree in listed], clause)
    (sets,) = clause.args["grouping_sets"]
    return _sets_of(sets, resolve)


def _too_many_error(clause: Tree) -> errors.UnsupportedStatementError:
    return unsupported_error(
        f"more than {_MOST_SETS} grouping sets", "list those that are needed", clause
    )


def _sets_of(tree: Tree, resolve: Resolve) -> _Sets:
    """Return the grouping sets of an element of a GROUP BY."""
    match tree:
        case exp.Rollup():
            return _prefixes([_members(item, resolve) for item in tree.expressions])
        case exp.Cube():
            return _subsets([_members(item, resolve) for item in tree.expressions], tree)
        case exp.GroupingSets():
            return list(chain.from_iterable(_sets_of(item, resolve) for item in tree.expressions))
    return [_members(tree, resolve)]


def _members(tree: Tree, resolve: Resolve) -> list[Tree]:
    trees = tree.expressions if isinstance(tree, exp.Tuple) else [without_parentheses(tree)]
    return [resolve(member) for member in trees]


def _prefixes(items: _Sets) -> _Sets:
    return [list(chain.from_iterable(items[:count])) for count in range(len(items), -1, -1)]


def _subsets(items: _Sets, tree: Tree) -> _Sets:
    if 1 << len(items) > _MOST_SETS:
        raise _too_many_error(tree)
    choices = product((True, False), repeat=len(items))
    return [
        list(chain.from_iterable(item for item, taken in zip(items, choice, strict=True) if taken))
        for choice in choices
    ]


def plan_group_by(
    builder: Builder, node: Node, group: GroupBy, expressions: Sequence[Tree]
) -> tuple[Node, list[Tree]]:
    """Return the aggregates for expressions, and the expressions over their fields."""
    if group.sets is None:
        return plan_aggregate(builder, node, group.expressions, expressions)
    calls = {comparable_text(call): call for tree in expressions for call in find_aggregates(tree)}
    functions = {
        comparable_text(function): function
        for tree in expressions
        for function in tree.find_all(exp.Anonymous)
        if str(function.this).lower() in _FUNCTIONS
    }
    inputs = [
        _plan_set(builder, node, group, members, list(calls.values()), list(functions.values()))
        for members in group.sets
    ]
    relation = plan_union(builder, inputs)
    texts = [*map(comparable_text, group.expressions), *calls, *functions]
    names = {text: item.field for text, item in zip(texts, relation.items, strict=True)}
    outputs = [with_fields(tree, names) for tree in expressions]
    check_grouped(outputs, relation.node)
    return relation.node, outputs


def _plan_set(
    builder: Builder,
    node: Node,
    group: GroupBy,
    members: Sequence[int],
    calls: Sequence[Tree],
    functions: Sequence[Tree],
) -> Relation:
    """Return the rows of one set: the grouping expressions, the calls, the functions."""
    data_types = builder.analysis.types_of(node.fields, [text_of(t) for t in group.expressions])
    grouped = [group.expressions[member] for member in members]
    # A set without expressions has no row if there is no input, unlike a SELECT without GROUP BY.
    own = grouped or [exp.Literal.number(0)]
    node, outputs = plan_aggregate(builder, node, own, [*grouped, *calls])
    fields = dict(zip(members, outputs, strict=False))
    values = [
        fields[position] if position in fields else parse_expression(cast_text("NULL", data_type))
        for position, data_type in enumerate(data_types)
    ]
    values += outputs[len(grouped) :]
    values += [_grouping(function, group, members) for function in functions]
    titles = [field_title(tree) for tree in (*group.expressions, *calls, *functions)]
    node, names = builder.compute(node, values, titles)
    return Relation(node, tuple(map(Item, titles, names)))


def _grouping(function: Tree, group: GroupBy, members: Sequence[int]) -> Tree:
    """Return the value of grouping() or grouping_id() in a set."""
    positions = {comparable_text(tree): number for number, tree in enumerate(group.expressions)}
    arguments = list(_positions(function, positions))
    is_one = str(function.this).lower() == "grouping"
    if None in arguments or (is_one and len(arguments) != 1):
        raise unsupported_error(
            f"{text_of(function)}", "its arguments are not those of the GROUP BY", function
        )
    read = arguments or range(len(group.expressions))
    value = 0
    for position in read:
        value = value * 2 + int(position not in members)
    data_type = types.TinyInt() if is_one else types.BigInt()
    return parse_expression(cast_text(str(value), data_type))


def _positions(function: Tree, positions: dict[str, int]) -> Iterator[int | None]:
    for argument in function.expressions:
        yield positions.get(comparable_text(argument))
