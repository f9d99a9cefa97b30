"""A subquery whose FROM is planned and that is not joined with the rows around it yet.

Does not know: what is made of its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from relstate.connector.syntax.tree import Tree, text_of, whole_number
from relstate.storage import types

from .builder import Builder, Relation
from .clauses import select_columns
from .context import Context


@dataclass(frozen=True, slots=True)
class PlannedSubquery:
    """A subquery as far as it is planned before it is joined.

    ``relation``: its rows; those of its FROM if it compares values of the outer query: then
    ``select`` has the rest of it, and ``conditions`` are those comparisons. ``branches``: the
    queries of a UNION that compares such values, each with its own plan; ``relation`` is then that
    of the first.
    """

    relation: Relation
    context: Context
    select: exp.Select | None = None
    conditions: Sequence[Tree] = ()
    branches: Sequence[tuple[Tree, PlannedSubquery]] = ()


def column_types(builder: Builder, planned: PlannedSubquery) -> list[types.DataType]:
    """Return the types of the columns of a subquery that is not a UNION."""
    node, items = planned.relation.node, planned.relation.items
    if planned.select is None:
        return [node.type_of(item.field) for item in items if not item.is_hidden]
    columns = select_columns(planned.select, planned.context.scope(items))
    texts = [text_of(select_column.value) for select_column in columns]
    return list(builder.analysis.types_of(node.fields, texts))


def without_limit(query: Tree) -> Tree:
    """Return the query of an EXISTS without a LIMIT that does not decide whether it has rows."""
    limit = query.args.get("limit")
    if not isinstance(query, exp.Select) or not isinstance(limit, exp.Limit):
        return query
    if query.args.get("offset") or not whole_number(limit.expression):
        return query
    unlimited: Tree = query.copy()
    unlimited.set("limit", None)
    unlimited.set("order", None)
    return unlimited
