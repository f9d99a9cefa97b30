"""Where Spark applies a LIMIT in a subquery to the rows for each row of the query around it.

It does if columns of one type are compared by ``=``, and only one of the subquery with each of the
query around it. Where it casts one of them, or compares expressions, it limits all rows together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

from relstate.connector.syntax.tree import Tree, is_column, without_parentheses
from relstate.storage import types

from ..plan.node import Node

FieldTypes = Mapping[str, types.DataType]


def compared_columns(
    condition: Tree, own_types: FieldTypes, outer_types: FieldTypes
) -> tuple[str, str] | None:
    """Return (outer, own), the columns of one type that ``=`` compares; None if it does not.

    ``own_types``: of the fields of the subquery. ``outer_types``: of those fields that are columns
    of the query around it.
    """
    if not isinstance(condition, exp.EQ):
        return None
    sides = [without_parentheses(side) for side in (condition.this, condition.expression)]
    if not all(map(is_column, sides)):
        return None
    for outer, own in (sides, reversed(sides)):
        if outer.name in outer_types and own.name in own_types:
            is_same_type = outer_types[outer.name] == own_types[own.name]
            return (outer.name, own.name) if is_same_type else None
    return None


def is_limited_per_row(conditions: Iterable[Tree], subquery: Node, outer_types: FieldTypes) -> bool:
    """Return whether a LIMIT is applied to the rows that meet the conditions of one outer row.

    ``subquery``: the rows of its FROM.
    """
    own_types = {field.name: field.type for field in subquery.fields}
    pairs = [compared_columns(condition, own_types, outer_types) for condition in conditions]
    return None not in pairs and compares_each_once(pair for pair in pairs if pair is not None)


def compares_each_once(pairs: Iterable[tuple[object, str]]) -> bool:
    """Return whether no outer column is compared with several of the subquery."""
    pairs = set(pairs)
    return len(pairs) == len({outer for outer, _ in pairs})
