"""Rows by groups, and what an epoch changes of the values that an aggregate function reads.

Promises: groups come in the order of their keys; NULL is a value, as in GROUP BY. Values come in
the order of their groups, without NULLs and rows that do not pass the filter.
Does not know: functions, state tables, what is computed over a group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from relstate.storage import ragged
from relstate.vnode import cached_property

from .rowkeys import Codes, RowKeys, first_positions, number_sorted_keys
from .state import Positions


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups of rows.

    ``keys``: the key columns, one row per group. ``order``: the rows' positions, group after group.
    ``codes``: the group of every row in that order, ascending.
    """

    keys: pa.RecordBatch
    order: Positions
    codes: Codes

    def __len__(self) -> int:
        return int(self.keys.num_rows)

    @property
    def firsts(self) -> Positions:
        """The first row of each group."""
        return self.order[first_positions(self.codes)]

    @property
    def code_of_rows(self) -> Codes:
        """The group of every row, in the rows' own order."""
        codes = np.empty_like(self.codes)
        codes[self.order] = self.codes
        return codes


def group_rows(rows: pa.RecordBatch, row_keys: RowKeys) -> Groups:
    """Return rows grouped by the values of the key's columns."""
    encoded = row_keys.encode(rows)
    order = ragged.sort_order(encoded)
    codes = number_sorted_keys(encoded.take(pa.array(order)))
    firsts = pa.array(order[first_positions(codes)])
    keys = row_keys.normalize(rows.select(list(row_keys.names)).take(firsts))
    return Groups(keys, order, codes)


@dataclass(frozen=True)
class Runs:
    """Items in the order of their groups.

    ``groups``: how many groups there are. ``codes``: for every item its group, ascending.
    """

    groups: int
    codes: Positions

    def totals(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Return the sum of one number per item over each group; 0 for a group without items."""
        sums = np.zeros(self.groups, numbers.dtype)
        if len(numbers):
            starts = self._starts
            sums[self.codes[starts]] = np.add.reduceat(numbers, starts)
        return sums

    @cached_property
    def _starts(self) -> Positions:
        return first_positions(self.codes)


@dataclass(frozen=True)
class Deltas(Runs):
    """Values that are inserted and deleted.

    For every value: ``weights``: 1 if it is inserted, -1 if it is deleted; ``rows``: its row of the
    chunk. ``values`` is None if only rows are counted.
    """

    weights: NDArray[np.int64]
    rows: Positions
    values: pa.Array

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """For every group the number of inserted values minus that of deleted ones."""
        return self.totals(self.weights)

    @property
    def deleted(self) -> NDArray[np.int64]:
        """For every group how many values are deleted."""
        return -self.totals(np.minimum(self.weights, 0))


def group_deltas(
    chunk: pa.RecordBatch,
    groups: Groups,
    weights: NDArray[np.int64],
    argument: str | None,
    condition: str | None,
) -> Deltas:
    """Return the changes in a chunk; ``weights``: 1 for inserted rows, -1 for deleted ones."""
    rows, codes = groups.order, groups.codes
    is_passing = passing_rows(chunk, argument, condition)
    if is_passing is not None:
        mask = is_passing[rows]
        rows, codes = rows[mask], codes[mask]
    values = None if argument is None else chunk.column(argument).take(pa.array(rows))
    return Deltas(len(groups), codes, weights[rows], rows, values)


def passing_rows(
    chunk: pa.RecordBatch, argument: str | None, condition: str | None
) -> NDArray[np.bool_] | None:
    """Return which rows pass the filter and have a non-NULL argument; None if all do."""
    is_passing: NDArray[np.bool_] | None = None
    if condition is not None:
        is_passing = np.asarray(pc.fill_null(chunk.column(condition), False))
    if argument is not None and chunk.column(argument).null_count:
        is_valid = np.asarray(chunk.column(argument).is_valid())
        is_passing = is_valid if is_passing is None else is_passing & is_valid
    return is_passing
