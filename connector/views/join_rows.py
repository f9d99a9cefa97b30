"""The rows between the executors of a join: those of both inputs in one chunk, and candidates.

Does not know: where the executors run (frame, local_run).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from relstate.storage import types

from .executor.broadcast_join import candidate_fields as broadcast_candidate_fields
from .executor.changes import chunk_schema
from .executor.executor import LEFT_ROW, PART_COLUMN, RIGHT_ROW, SIDE_COLUMN
from .plan.asof_join import AsofJoin
from .plan.broadcast_join import BroadcastJoin
from .plan.join import Join, JoinKey, JoinKind
from .plan.node import Names

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


def side_step(node: AnyJoin, side: int) -> SideStep:
    """Return the step for the rows of an input of a join; ``side``: 0 for the left one."""
    keys = tuple((key.left, key.right)[side] for key in join_keys(node))
    return SideStep(side, keys, side_fields(node))


@dataclass(frozen=True, slots=True)
class SideStep:
    """Makes rows of both inputs of a join from those of one: NULL for the fields of the other.

    ``side``: 0 for the left input; ``keys``: the names of the join's keys in it.
    """

    side: int
    keys: Names
    fields: tuple[types.Field, ...]

    def run(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Return the chunk with these fields."""
        schema, rows = chunk_schema(self.fields), chunk.num_rows
        own = set(chunk.schema.names)
        sides = pa.array(np.full(rows, self.side, np.int8))
        named = schema.names[2 + len(self.keys) :]
        columns = [chunk.column(0), sides, *map(chunk.column, self.keys)]
        columns += [
            chunk.column(name) if name in own else pa.nulls(rows, schema.field(name).type)
            for name in named
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)


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
