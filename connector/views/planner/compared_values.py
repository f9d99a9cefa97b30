"""Subqueries that compare rows by other conditions than equality, as ones that compare by it alone.

The *domain* is each distinct combination of the outer values that the conditions read. It is joined
with the rows of the subquery by all conditions; then an outer row has the joined rows whose values
of the domain are its own. So aggregates of the subquery can be grouped by these values.

Promises: NULLs of the outer query are values of the domain like others.
Does not know: what is made of the rows of a subquery.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from relstate.connector.syntax.tree import (
    Tree,
    cast_text,
    column,
    columns_of,
    parse_expression,
    substituted,
)
from relstate.storage import types

from ..plan.join import JoinKind
from ..plan.node import Node
from ..plan.stateless import Project
from .builder import Builder, pass_through_output
from .collations import bytes_text, is_collated
from .group_by import plan_distinct
from .join_conditions import plan_join


def join_compared_values(
    builder: Builder, outer: Node, inner: Node, conditions: Sequence[Tree]
) -> tuple[Node, list[tuple[Tree, str]]]:
    """Return the rows of a subquery for each value of the domain, and the fields to be compared.

    ``conditions``: over the fields of both; they read some of ``outer``. The pairs are
    values of ``outer`` and fields of the result; the rows of an outer row are those with equal
    ones, or NULLs.
    """
    read = set().union(*map(columns_of, conditions))
    names = [name for name in outer.names if name in read]
    data_types = {name: outer.type_of(name) for name in names}
    # Strings that are equal by a collation are different values.
    outer, stored = builder.as_bytes(outer, names)
    distinct = plan_distinct(builder, outer, stored)
    fields = {field.name: field for field in distinct.fields}
    renamed = {name: builder.namer.unique_name(name) for name in names}
    outputs = tuple(
        pass_through_output(fields[field], renamed[name])
        for name, field in zip(names, stored, strict=True)
    )
    domain = Project(distinct, outputs)

    def replacement(node: Tree) -> Tree | None:
        name = renamed.get(node.name) if isinstance(node, exp.Column) else None
        if name is None:
            return None
        data_type = data_types[node.name]
        if is_collated(data_type):
            return parse_expression(cast_text(types.quoted(name), data_type))
        return column(name)

    over_domain = [substituted(condition, replacement) for condition in conditions]
    joined, remaining = plan_join(builder, domain, inner, JoinKind.INNER, over_domain)
    values = [
        parse_expression(bytes_text(types.quoted(name)))
        if is_collated(data_types[name])
        else column(name)
        for name in names
    ]
    pairs = zip(values, renamed.values(), strict=True)
    return builder.filter(joined, remaining), list(pairs)
