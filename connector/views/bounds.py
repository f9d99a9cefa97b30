"""How much state a run may read before another way takes less time: it is given up then.

Promises: `StateBoundError` after the lookup that exceeds the bound, and before its rows are used.
Does not know: executors, or what happens to the run then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .executor.state import Positions, State, StoredRows


class GivenUpError(Exception):
    """A run cannot go on: another way does the work, for one in the driver's process a job."""


class FailedExpressionError(GivenUpError):
    """Spark could not evaluate an expression; the cause is what it raised."""


class StateBoundError(GivenUpError):
    """Executors have read as many rows of their state as they may."""


class RowBudget:
    """How many more rows a run may read."""

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def spend(self, rows: int) -> None:
        """Count rows that were read. StateBoundError if they are more than allowed."""
        self._rows -= rows
        if self._rows < 0:
            raise StateBoundError("executors read too many rows of their state")


class BoundedState:
    """A state table from which few rows are read."""

    def __init__(self, state: State, budget: RowBudget) -> None:
        self._state = state
        self._budget = budget

    @property
    def is_empty(self) -> bool:
        """As of `State`."""
        return self._state.is_empty

    def get_rows(
        self, keys: pa.RecordBatch, columns: Sequence[str] | None = None
    ) -> tuple[Positions, pa.RecordBatch]:
        """As of `State`."""
        return self._counted(self._state.get_rows(keys, columns))

    def prefix_scan(
        self, prefixes: pa.RecordBatch, columns: Sequence[str] | None = None
    ) -> tuple[Positions, pa.RecordBatch]:
        """As of `State`."""
        return self._counted(self._state.prefix_scan(prefixes, columns))

    def first_per_prefix(
        self, prefixes: pa.RecordBatch, counts: Positions, columns: Sequence[str] | None = None
    ) -> tuple[Positions, pa.RecordBatch]:
        """As of `State`."""
        return self._counted(self._state.first_per_prefix(prefixes, counts, columns))

    def last_per_prefix(
        self, prefixes: pa.RecordBatch, counts: Positions, columns: Sequence[str] | None = None
    ) -> tuple[Positions, pa.RecordBatch]:
        """As of `State`."""
        return self._counted(self._state.last_per_prefix(prefixes, counts, columns))

    def first_encoded_per_prefix(
        self, prefixes: pa.RecordBatch, counts: Positions
    ) -> tuple[Positions, StoredRows]:
        """As of `State`."""
        indices, rows = self._state.first_encoded_per_prefix(prefixes, counts)
        self._budget.spend(len(rows))
        return indices, rows

    def rows_from(
        self,
        starts: pa.RecordBatch,
        group: int,
        counts: Positions,
        columns: Sequence[str] | None = None,
    ) -> tuple[Positions, pa.RecordBatch]:
        """As of `State`."""
        return self._counted(self._state.rows_from(starts, group, counts, columns))

    def rows_before(
        self,
        ends: pa.RecordBatch,
        group: int,
        counts: Positions,
        columns: Sequence[str] | None = None,
    ) -> tuple[Positions, pa.RecordBatch]:
        """As of `State`."""
        return self._counted(self._state.rows_before(ends, group, counts, columns))

    def range_scan(
        self,
        lows: pa.Array,
        highs: pa.Array,
        columns: Sequence[str] | None = None,
        *,
        most: int | None = None,
        everywhere: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """As of `State`."""
        for rows in self._state.range_scan(lows, highs, columns, most=most, everywhere=everywhere):
            self._budget.spend(rows.num_rows)
            yield rows

    def owns(self, rows: pa.RecordBatch) -> NDArray[np.bool_]:
        """As of `State`."""
        return self._state.owns(rows)

    def write(self, rows: pa.RecordBatch, deleted: NDArray[np.bool_] | None = None) -> None:
        """As of `State`."""
        self._state.write(rows, deleted)

    def replace_rows(self, rows: pa.RecordBatch) -> None:
        """As of `State`."""
        self._state.replace_rows(rows)

    def _counted(
        self, result: tuple[Positions, pa.RecordBatch]
    ) -> tuple[Positions, pa.RecordBatch]:
        self._budget.spend(result[1].num_rows)
        return result
