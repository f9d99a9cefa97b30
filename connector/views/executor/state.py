"""The protocol of a state table for executors; a streaming `storage.StateTable` implements it.

Promises: reads return what was committed before the epoch, never what this epoch writes: an
executor reads a row before it changes it. Only the requested rows are read, in batches.
Does not know: what the rows mean, or who commits them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Positions = NDArray[np.int64]


class State(Protocol):
    """A state table in one epoch. For one thread."""

    @property
    def is_empty(self) -> bool:
        """Whether there are no committed rows, so that lookups can be skipped."""

    def get_rows(
        self, keys: pa.RecordBatch, columns: Sequence[str] | None = None
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return (indices, rows): the rows of the ``keys`` that exist, in the order of ``keys``.

        ``keys`` has the primary key's columns, by name; ``indices`` (int64) name the keys found.
        """

    def prefix_scan(
        self, prefixes: pa.RecordBatch, columns: Sequence[str] | None = None
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return (indices, rows): all rows whose keys begin with one of ``prefixes``.

        ``prefixes`` has the first columns of the primary key, those of the distribution key among
        them, and no row twice; ``indices`` (int64, ascending) name the prefix of each row. Rows of
        one prefix come in key order.
        """

    def first_per_prefix(
        self, prefixes: pa.RecordBatch, counts: Positions, columns: Sequence[str] | None = None
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return what `prefix_scan` does, but at most the first ``counts[i]`` rows of prefix i."""

    def rows_from(
        self,
        starts: pa.RecordBatch,
        group: int,
        counts: Positions,
        columns: Sequence[str] | None = None,
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return (indices, rows): the first ``counts[i]`` rows whose keys are at or after start i.

        ``starts`` are as the prefixes of `prefix_scan`. The rows of start i have its first
        ``group`` values, the distribution key among them, and are before every greater start;
        they come start by start, in key order.
        """

    def rows_before(
        self,
        ends: pa.RecordBatch,
        group: int,
        counts: Positions,
        columns: Sequence[str] | None = None,
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return (indices, rows): the last ``counts[i]`` rows whose keys are before end i.

        Otherwise as `rows_from`: they have the first ``group`` values of end i, and are not before
        any lesser end.
        """

    def range_scan(
        self,
        lows: pa.Array,
        highs: pa.Array,
        columns: Sequence[str] | None = None,
        *,
        everywhere: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows whose first key column is from ``lows[i]`` to ``highs[i]``, both included.

        The bounds have the type of that column; NULL is no bound. Ranges ascend and do not overlap.
        Rows come in batches of bounded size, in no order; there may be other rows among them.
        Only those of this unit, ``everywhere``: of all units.
        """

    def owns(self, rows: pa.RecordBatch) -> NDArray[np.bool_]:
        """Return which rows, with the columns of the distribution key, belong to this unit."""

    def read_range(
        self,
        start: Any,
        stop: Any = None,
        columns: Sequence[str] | None = None,
        *,
        most: int | None = None,
    ) -> pa.RecordBatch:
        """Return the rows with ``start <= value < stop`` in the first column of the primary key.

        ``stop``: None for no end. ``most``: of each vnode at most that many, the first; what comes
        after them is not read.
        """

    def write(self, rows: pa.RecordBatch, deleted: NDArray[np.bool_] | None = None) -> None:
        """Put rows; delete those that ``deleted`` marks, of which only the key is used.

        The later change of a key wins.
        """
