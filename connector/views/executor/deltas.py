"""What an epoch changes of the values that an aggregate function reads.

Promises: NULLs, and rows that do not pass the filter, are left out; values are in group order.
Does not know: functions, state tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from .group import Groups
from .matching import firsts_of
from .state import Positions


@dataclass(frozen=True)
class Runs:
    """Items in the order of their groups.

    ``groups``: how many groups there are. ``codes``: for every item its group, ascending.
    """

    groups: int
    codes: Positions

    def totals(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Return the sum of one number per item over each group; 0 for a group without items."""
        found = np.zeros(self.groups, numbers.dtype)
        if len(numbers):
            starts = self._starts
            found[self.codes[starts]] = np.add.reduceat(numbers, starts)
        return found

    @cached_property
    def _starts(self) -> Positions:
        return firsts_of(self.codes)


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
        """For every group how many more values it has."""
        return self.totals(self.weights)

    @property
    def deleted(self) -> NDArray[np.int64]:
        """For every group how many values are deleted."""
        return -self.totals(np.minimum(self.weights, 0))


def deltas_of(
    chunk: pa.RecordBatch,
    groups: Groups,
    weights: NDArray[np.int64],
    argument: str | None,
    condition: str | None,
) -> Deltas:
    """Return what a chunk changes; ``weights``: 1 for rows that are inserted, -1 for others."""
    rows, codes = groups.order, groups.codes
    kept = passing(chunk, argument, condition)
    if kept is not None:
        mask = kept[rows]
        rows, codes = rows[mask], codes[mask]
    values = None if argument is None else chunk.column(argument).take(pa.array(rows))
    return Deltas(len(groups), codes, weights[rows], rows, values)


def passing(
    chunk: pa.RecordBatch, argument: str | None, condition: str | None
) -> NDArray[np.bool_] | None:
    """Return which rows have the argument and pass the filter; None if all do."""
    kept: NDArray[np.bool_] | None = None
    if condition is not None:
        kept = np.asarray(pc.fill_null(chunk.column(condition), False))
    if argument is not None and chunk.column(argument).null_count:
        is_there = np.asarray(chunk.column(argument).is_valid())
        kept = is_there if kept is None else kept & is_there
    return kept
