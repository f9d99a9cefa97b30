"""The sessions of rows: the step between the two executors of a session's keyed recompute.

Promises: rows of a group whose intervals touch, directly or by others, have one session; a marker
of a group without rows has none.
Does not know: which groups changed, and what their rows had before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from relstate.storage import OP_COLUMN, types

from ..plan.session import SessionRecompute
from .changes import chunk_schema
from .keyed_rows import GROUP_COLUMN, ROW_COLUMN
from .rowkeys import Codes, Rows


@dataclass(frozen=True, slots=True)
class SessionStep:
    """Makes the node's rows of those that `KeyedRowsExecutor` returns."""

    node: SessionRecompute

    @property
    def fields(self) -> tuple[types.Field, ...]:
        """Those of the node."""
        return self.node.fields

    def run(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Return the child's columns of all rows, each with its session."""
        is_row = np.asarray(chunk.column(ROW_COLUMN).is_valid())
        rows = np.flatnonzero(is_row)
        groups = np.asarray(chunk.column(GROUP_COLUMN))[rows]
        bounds = [chunk.column(name) for name in (self.node.start, self.node.end)]
        starts, ends = (_numbers(column.take(pa.array(rows))) for column in bounds)
        # A marker is at no place of the rows.
        places = pa.array(np.cumsum(is_row) - 1, mask=~is_row)
        columns = [
            pa.array(numbers).cast(bounds[0].type).take(places)
            for numbers in sessions_of(groups, starts, ends)
        ]
        schema = chunk_schema(self.fields)
        session_type = schema.field(self.node.session.name).type
        session = pa.StructArray.from_arrays(columns, fields=[*session_type])
        passed = [chunk.column(name) for name in (OP_COLUMN, *self.node.child.names)]
        return pa.RecordBatch.from_arrays([*passed, session], schema=schema)


def sessions_of(groups: Codes, starts: Rows, ends: Rows) -> tuple[Rows, Rows]:
    """Return the (first start, last end) of the session of each row.

    ``groups``: int64; ``starts``, ``ends``: int64, of the interval of each row.
    """
    order = np.lexsort((starts, groups))
    starts_in_order, ends_in_order = starts[order], ends[order]
    begins = _are_first(groups[order], starts_in_order, ends_in_order)
    sessions = np.empty(len(order), np.int64)
    sessions[order] = np.cumsum(begins) - 1
    firsts = np.flatnonzero(begins)
    last_ends = np.maximum.reduceat(ends_in_order, firsts) if len(firsts) else ends_in_order
    return starts_in_order[firsts][sessions], last_ends[sessions]


def _are_first(groups: Codes, starts: Rows, ends: Rows) -> NDArray[np.bool_]:
    """Return which rows, in the order of groups and starts, start after all ends before them.

    Of those in their group: so moments are compared by their ranks, which are greater in a later
    group.
    """
    start_ranks, end_ranks = np.split(_ranks(np.tile(groups, 2), np.append(starts, ends)), 2)
    reached = np.maximum.accumulate(end_ranks)
    is_first = np.ones(len(starts), np.bool_)
    is_first[1:] = start_ranks[1:] > reached[:-1]
    return is_first


def _ranks(groups: Codes, moments: Rows) -> Rows:
    """Return the rank of each moment, by group and moment; those of equal ones are equal."""
    order = np.lexsort((moments, groups))
    groups, moments = groups[order], moments[order]
    is_greater = np.zeros(len(order), np.int64)
    is_greater[1:] = (groups[1:] != groups[:-1]) | (moments[1:] != moments[:-1])
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.cumsum(is_greater)
    return ranks


def _numbers(moments: pa.Array) -> Rows:
    """Return moments as int64, in microseconds."""
    return np.asarray(moments.cast(pa.int64()))
