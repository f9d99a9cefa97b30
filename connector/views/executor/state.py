"""The protocol of a state table for executors; a streaming `storage.StateTable` implements it.

Promises: reads return what was committed before the epoch, never what this epoch writes: an
executor reads a row before it changes it. Only the requested rows are read, in batches.
Does not know: what the rows mean, or who commits them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from relstate.storage import ragged

Positions = NDArray[np.int64]


class StoredRows(Protocol):
    """Rows of a state table that are decoded when they are asked for."""

    def __len__(self) -> int: ...

    @property
    def keys(self) -> ragged.Bytes:
        """The primary keys, as `RowKeys` encodes them."""

    def take(self, rows: Positions, columns: Sequence[str]) -> pa.RecordBatch:
        """Return some columns of the rows at some positions, in that order."""


class State(Protocol):
    """A state table in one epoch. For one thread.

    `storage.StorageTable` documents the reads in full, `storage.StateTable` the writes. Reads by
    keys or prefixes return (indices, rows): rows, and the number of the key or prefix of each.
    """

    @property
    def is_empty(self) -> bool:
        """Whether there are no committed rows, so that lookups can be skipped."""

    def get_rows(
        self, keys: pa.RecordBatch, columns: Sequence[str] | None = None
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return the rows of the ``keys`` that exist, in the order of ``keys``."""

    def prefix_scan(
        self, prefixes: pa.RecordBatch, columns: Sequence[str] | None = None
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return all rows whose keys begin with one of ``prefixes``, prefix by prefix."""

    def first_per_prefix(
        self, prefixes: pa.RecordBatch, counts: Positions, columns: Sequence[str] | None = None
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return what `prefix_scan` does, but at most the first ``counts[i]`` rows of prefix i."""

    def last_per_prefix(
        self, prefixes: pa.RecordBatch, counts: Positions, columns: Sequence[str] | None = None
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return what `prefix_scan` does, but at most the last ``counts[i]`` rows of prefix i."""

    def first_encoded_per_prefix(
        self, prefixes: pa.RecordBatch, counts: Positions
    ) -> tuple[Positions, StoredRows]:
        """Return what `first_per_prefix` does, of which nothing is decoded yet."""

    def rows_from(
        self,
        starts: pa.RecordBatch,
        group: int,
        counts: Positions,
        columns: Sequence[str] | None = None,
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return the first ``counts[i]`` rows at or after start i, up to the next start."""

    def rows_before(
        self,
        ends: pa.RecordBatch,
        group: int,
        counts: Positions,
        columns: Sequence[str] | None = None,
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return the last ``counts[i]`` rows before end i, down to the end before it."""

    def range_scan(
        self,
        lows: pa.Array,
        highs: pa.Array,
        columns: Sequence[str] | None = None,
        *,
        most: int | None = None,
        everywhere: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of this unit, and perhaps others, in ranges of the first key column.

        ``most``: rows after the first so many of each range in a vnode may be missing.
        ``everywhere``: the rows of all units.
        """

    def owns(self, rows: pa.RecordBatch) -> NDArray[np.bool_]:
        """Return which rows, with the columns of the distribution key, belong to this unit."""

    def write(self, rows: pa.RecordBatch, deleted: NDArray[np.bool_] | None = None) -> None:
        """Put rows; delete those that ``deleted`` marks. The later change of a key wins."""

    def replace_rows(self, rows: pa.RecordBatch) -> None:
        """Make these all rows of this unit, each key once: write what differs."""
