"""The rows between the executors of a join: those of both inputs in one chunk, and candidates.

Does not know: where the executors run (frame, local_run).
"""

from __future__ import annotations

from typing import TypeAlias

from relstate.storage import types

from .executor.broadcast_join import candidate_fields as broadcast_candidate_fields
from .executor.executor import LEFT_ROW, PART_COLUMN, RIGHT_ROW, SIDE_COLUMN
from .plan.asof_join import AsofJoin
from .plan.broadcast_join import BroadcastJoin
from .plan.join import Join, JoinKey, JoinKind

AnyJoin: TypeAlias = Join | AsofJoin | BroadcastJoin
KeyedJoin: TypeAlias = Join | AsofJoin
"""A join by equalities."""

_SIDE = types.Field(SIDE_COLUMN, types.TinyInt())
_PART = types.Field(PART_COLUMN, types.TinyInt())


def join_keys(node: AnyJoin) -> tuple[JoinKey, ...]:
    """Return the equalities of a join; a broadcast join has none."""
    return () if isinstance(node, BroadcastJoin) else node.keys


def side_fields(node: AnyJoin) -> tuple[types.Field, ...]:
    """Return the fields of the rows of both inputs: the side, the keys, the left and right ones."""
    keys = (key.field for key in join_keys(node))
    return (_SIDE, *keys, *node.left.fields, *node.right.fields)


def candidate_fields(node: AnyJoin) -> tuple[types.Field, ...]:
    """Return the fields of what the first executor of a join returns.

    They are those of its rows if no other executor follows, as for an inner join.
    """
    if isinstance(node, BroadcastJoin):
        return broadcast_candidate_fields(node)
    if isinstance(node, AsofJoin) or node.kind is JoinKind.INNER:
        return node.fields
    return (_PART, *(key.field for key in node.keys), *node.left.fields, *node.right.fields)


def match_condition(condition: str) -> str:
    """Return what candidates have to meet: rows of kept sides pass, and pairs if they match."""
    return f"{PART_COLUMN} IN ({LEFT_ROW}, {RIGHT_ROW}) OR ({condition})"
