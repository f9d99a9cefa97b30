"""GROUPING SETS, CUBE and ROLLUP: one aggregate over rows that come once per set.

Promises: a set has the rows that its GROUP BY alone has; what a row is not grouped by is NULL, but
the arguments of aggregates are as they came. As in Spark, no set has a row if there is no input.
Does not know: which executor maintains an aggregate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from math import prod
from typing import TypeAlias

from sqlglot import exp

from relstate.connector.syntax.tree import (
    NO_VALUES,
    Tree,
    cast_text,
    column,
    columns_of,
    comparable_text,
    is_column,
    parse_expression,
    substituted,
    text_of,
    with_parts,
    without_parentheses,
)
from relstate.storage import errors, types

from ..plan.node import Names, Node
from .builder import Builder, check_keyable, field_title
from .calls import is_aggregate_of_group
from .collations import collation_key
from .expressions import unsupported_error
from .generators import plan_elements
from .group_by import IN_OTHER_WORDS, plan_aggregate

Resolve: TypeAlias = Callable[[Tree], Tree]
"""Returns a grouping expression over fields."""
_Sets: TypeAlias = list[list[Tree]]

_ANALYTICS = exp.Cube, exp.Rollup, exp.GroupingSets
# Those of a CUBE of nine columns. The plan has a cell for each set and column, and a part of a
# refresh has the fewer rows the more sets there are (`ViewPlan.rows_of_part`).
_MOST_SETS = 512
_FUNCTIONS = frozenset({"grouping", "grouping_id"})


@dataclass(frozen=True, slots=True)
class ExpandedSets:
    """The fields of rows that come once per set.

    ``set_number``: the number of the set. ``fields``: for each expression of the GROUP BY its value
    in the set.
    """

    set_number: str
    fields: Names


@dataclass(frozen=True, slots=True)
class GroupBy:
    """The expressions of a GROUP BY over fields, each once.

    ``sets``: for each grouping set the positions of its expressions; None for a plain GROUP BY.
    ``expanded``: the fields of the sets if the rows come once per set already.
    """

    expressions: tuple[Tree, ...]
    sets: tuple[tuple[int, ...], ...] | None = None
    expanded: ExpandedSets | None = None

    @classmethod
    def of_sets(cls, sets: _Sets, listed: Sequence[Tree] = ()) -> GroupBy:
        """Return the GROUP BY of grouping sets; ``listed``: the expressions in their order.

        One empty set alone is the global aggregate, which has a row even if the input has none.
        With expressions before it, it is a set like others, in which they are NULL.
        """
        if sets == [[]] and not listed:
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
        raise unsupported_error("WITH TOTALS", "Spark does not support it", clause)
    if any(clause.args.get(name) for name in ("rollup", "cube", "grouping_sets")):
        listed = [resolve(tree) for tree in clause.expressions]
        return GroupBy.of_sets(_sets_over(clause, listed, resolve), listed)
    elements = [
        # Beside grouping sets a list in parentheses is a struct; within them it is columns.
        [[resolve(tree)]] if isinstance(tree, exp.Tuple) else _sets_of(tree, resolve)
        for tree in map(without_parentheses, clause.expressions)
    ]
    sets = [list(chain.from_iterable(combination)) for combination in product(*elements)]
    # grouping_id() depends on the order of the expressions: it is that of the text.
    written = chain.from_iterable(chain.from_iterable(element) for element in elements)
    return GroupBy.of_sets(sets, list(written))


def _sets_over(clause: Tree, listed: Sequence[Tree], resolve: Resolve) -> _Sets:
    """Return the sets of WITH ROLLUP, WITH CUBE or GROUPING SETS after a list of expressions."""
    if clause.args.get("rollup"):
        return _prefixes([[tree] for tree in listed])
    if clause.args.get("cube"):
        return _subsets([[tree] for tree in listed])
    (sets,) = clause.args["grouping_sets"]
    return _sets_of(sets, resolve)


def check_grouping_sets(query: Tree) -> None:
    """Refuse a query with more grouping sets than a view can have, which Spark expands for long."""
    for group in query.find_all(exp.Group):
        if group.args.get("cube"):
            _check_count(1 << len(group.expressions), group)
        elements = [*group.expressions, *(group.args.get("grouping_sets") or ())]
        _check_count(prod(map(_count_sets, elements)), group)


def _count_sets(tree: Tree) -> int:
    """Return the number of grouping sets of an element of a GROUP BY."""
    match tree:
        case exp.Rollup():
            return len(tree.expressions) + 1
        case exp.Cube():
            return 1 << len(tree.expressions)
        case exp.GroupingSets():
            return sum(map(_count_sets, tree.expressions))
    return 1


def _check_count(count: int, clause: Tree) -> None:
    if count > _MOST_SETS:
        raise _too_many_error(count, clause)


def _too_many_error(count: int, clause: Tree) -> errors.UnsupportedStatementError:
    return unsupported_error(
        f"{count} grouping sets",
        f"{_MOST_SETS} are allowed, because each changed row is as many rows; list the sets that "
        "are needed, as in GROUPING SETS ((a, b), (a), ())",
        clause,
    )


def _sets_of(tree: Tree, resolve: Resolve) -> _Sets:
    """Return the grouping sets of an element of a GROUP BY."""
    match tree:
        case exp.Rollup():
            return _prefixes([_members(item, resolve) for item in tree.expressions])
        case exp.Cube():
            return _subsets([_members(item, resolve) for item in tree.expressions])
        case exp.GroupingSets():
            return list(chain.from_iterable(_sets_of(item, resolve) for item in tree.expressions))
    return [_members(tree, resolve)]


def _members(tree: Tree, resolve: Resolve) -> list[Tree]:
    trees = tree.expressions if isinstance(tree, exp.Tuple) else [without_parentheses(tree)]
    return [resolve(member) for member in trees]


def _prefixes(items: _Sets) -> _Sets:
    return [list(chain.from_iterable(items[:count])) for count in range(len(items), -1, -1)]


def _subsets(items: _Sets) -> _Sets:
    choices = product((True, False), repeat=len(items))
    return [
        list(
            chain.from_iterable(
                item for item, is_chosen in zip(items, choice, strict=True) if is_chosen
            )
        )
        for choice in choices
    ]


def plan_group_by(
    builder: Builder, node: Node, group: GroupBy, expressions: Sequence[Tree]
) -> tuple[Node, list[Tree]]:
    """Return the aggregate for expressions, and the expressions over its fields."""
    if group.sets is None:
        if not group.expressions:
            expressions = [substituted(tree, _grouping_of_all) for tree in expressions]
        return plan_aggregate(builder, node, group.expressions, expressions)
    if group.expanded is None:
        group = with_equal_merged(builder, node, group)
        node, expanded = expand_sets(builder, node, group.expressions, group.sets or ())
    else:
        expanded = group.expanded
    set_number, fields = expanded.set_number, expanded.fields

    def replacement(part: Tree) -> Tree | None:
        if is_aggregate_of_group(part):
            # Its arguments are as they came. A copy is not asked about its parts.
            return part.copy()
        if isinstance(part, exp.Anonymous) and str(part.this).lower() in _FUNCTIONS:
            positions = [
                _position(builder, node, argument, group.expressions)
                for argument in part.expressions
            ]
            return _grouping(part, group, positions, set_number)
        position = _position(builder, node, part, group.expressions)
        return None if position is None else column(fields[position])

    over_sets = [substituted(tree, replacement) for tree in expressions]
    return plan_aggregate(builder, node, [column(set_number), *map(column, fields)], over_sets)


def with_equal_merged(builder: Builder, node: Node, group: GroupBy) -> GroupBy:
    """Return grouping sets in which expressions that Spark takes for the same are one."""
    expressions: list[Tree] = []
    positions: list[int] = []
    for tree in group.expressions:
        position = _position(builder, node, tree, expressions)
        if position is None:
            position = len(expressions)
            expressions.append(tree)
        positions.append(position)
    sets = [sorted({positions[member] for member in members}) for members in group.sets or ()]
    return replace(group, expressions=tuple(expressions), sets=tuple(map(tuple, sets)))


def _position(builder: Builder, node: Node, part: Tree, expressions: Sequence[Tree]) -> int | None:
    """Return which of the expressions of a GROUP BY Spark takes a part for; None for none."""
    if isinstance(part, NO_VALUES):
        return None
    text = comparable_text(part)
    for position, tree in enumerate(expressions):
        if comparable_text(tree) == text:
            return position
    read = columns_of(part)
    if not isinstance(part, IN_OTHER_WORDS) or not read:
        return None
    return next(
        (
            position
            for position, tree in enumerate(expressions)
            if not is_column(tree)
            and columns_of(tree) == read
            and builder.is_same(node, tree, part)
        ),
        None,
    )


def expand_sets(
    builder: Builder, node: Node, expressions: Sequence[Tree], sets: Sequence[Sequence[int]]
) -> tuple[Node, ExpandedSets]:
    """Return each row once per set, and the fields of the sets; ``sets``: as those of `GroupBy`."""
    node, names = builder.compute(node, expressions, [field_title(tree) for tree in expressions])
    data_types = [node.type_of(name) for name in names]
    # A NULL without a type is NULL in every set: rows do not carry it.
    is_void = [data_type == types.Void() for data_type in data_types]
    for name, data_type in zip(names, data_types, strict=True):
        if data_type != types.Void() and collation_key(name, data_type) is None:
            check_keyable(data_type, "GROUP BY")
    rows = []
    for members in sets:
        cells = (
            types.quoted(name) if number in members else cast_text("NULL", data_type)
            for number, (name, data_type) in enumerate(zip(names, data_types, strict=True))
        )
        parts = ", ".join(
            f"'c{number}', {cell}" for number, cell in enumerate(cells) if not is_void[number]
        )
        rows.append(f"named_struct({parts})")
    titles = "set_number", "grouped"
    node, (set_number, row) = plan_elements(builder, node, f"array({', '.join(rows)})", titles)
    values = [
        parse_expression("NULL") if is_void[number] else with_parts(column(row), [f"c{number}"])
        for number in range(len(names))
    ]
    node, fields = builder.compute(node, values, names)
    return node, ExpandedSets(set_number, fields)


def _grouping_of_all(part: Tree) -> Tree | None:
    """Return the value of grouping_id() if the only set is empty, as in GROUPING SETS (())."""
    if isinstance(part, exp.Anonymous) and str(part.this).lower() == "grouping_id":
        return parse_expression(cast_text("0", types.BigInt()))
    return None


def _grouping(
    function: Tree, group: GroupBy, arguments: Sequence[int | None], set_number: str
) -> Tree:
    """Return the value of grouping() or grouping_id(), which follows from the number of the set.

    ``arguments``: the positions of its arguments in the GROUP BY.
    """
    is_one = str(function.this).lower() == "grouping"
    if None in arguments or (is_one and len(arguments) != 1):
        raise unsupported_error(
            f"{text_of(function)}", "its arguments are not those of the GROUP BY", function
        )
    read = arguments or range(len(group.expressions))
    cases = []
    for number, members in enumerate(group.sets or ()):
        value = 0
        for argument in read:
            value = value * 2 + int(argument not in members)
        cases.append(f"WHEN {number} THEN {value}")
    data_type = types.TinyInt() if is_one else types.BigInt()
    text = f"CASE {types.quoted(set_number)} {' '.join(cases)} END"
    return parse_expression(cast_text(text, data_type))
