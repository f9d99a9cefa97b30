"""The state table of an executor, for one epoch: what is committed is read, changes are written.

Promises: reads see what was committed before the epoch, never what this epoch writes: an executor
that has read a row knows what it made of it. It reads only what it is asked for, in batches.
Does not know: what the rows mean, or who commits them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from relstate.storage import (
    Kind,
    SegmentWriter,
    StorageTable,
    errors,
    ragged,
    vnodes_in,
)

Positions = NDArray[np.int64]


class State(Protocol):
    """A state table in one epoch. For one thread."""

    @property
    def is_empty(self) -> bool:
        """Whether there are no committed rows at all, so that nothing need be looked up."""

    def get(
        self, keys: pa.RecordBatch, columns: Sequence[str] | None = None
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return (indices, rows): the rows with those of ``keys`` that exist, in the order asked.

        ``keys`` has the primary key's columns, by name; ``indices`` (int64) name the keys found.
        """

    def under(
        self, prefixes: pa.RecordBatch, columns: Sequence[str] | None = None
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return (indices, rows): all rows whose keys begin with one of ``prefixes``.

        ``prefixes`` has the first columns of the primary key, those of the distribution among
        them, and no row twice; ``indices`` (int64, ascending) name the prefix of each row. Rows of
        one prefix come in key order.
        """

    def heads(
        self, prefixes: pa.RecordBatch, counts: Positions, columns: Sequence[str] | None = None
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return what `under` does, but at most the first ``counts[i]`` rows of prefix i."""

    def write(self, rows: pa.RecordBatch, deleted: NDArray[np.bool_] | None = None) -> None:
        """Put rows, or delete those (of which only the key is looked at) that ``deleted`` marks.

        Of two changes of one key the later one stays.
        """


class StoredState:
    """A `State` over a store's table; what it writes goes to segments.

    The writer may be shared with other states of the task, so that one file holds what all of them
    wrote; who made it finishes it.
    """

    def __init__(
        self,
        table: StorageTable,
        writer: SegmentWriter,
        owned: NDArray[np.bool_] | None = None,
    ) -> None:
        """``owned``: of every vnode whether it is this state's to write; None for all."""
        self._table = table
        self._writer = writer
        self._owned = owned

    @property
    def is_empty(self) -> bool:
        """Whether there are no committed rows at all, so that nothing need be looked up."""
        return self._table.is_empty

    def get(
        self, keys: pa.RecordBatch, columns: Sequence[str] | None = None
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return (indices, rows) of the keys that exist: see `State.get`."""
        return self._table.get_rows(keys, columns)

    def under(
        self, prefixes: pa.RecordBatch, columns: Sequence[str] | None = None
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return (indices, rows) of all rows beneath some prefixes: see `State.under`."""
        return self._table.under(prefixes, columns)

    def heads(
        self, prefixes: pa.RecordBatch, counts: Positions, columns: Sequence[str] | None = None
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return (indices, rows) of the first rows beneath each prefix: see `State.heads`."""
        return self._table.heads(prefixes, counts, columns)

    def write(self, rows: pa.RecordBatch, deleted: NDArray[np.bool_] | None = None) -> None:
        """Put rows or delete them: see `State.write`.

        ConsistencyError for a row of a vnode that another unit owns, SchemaMismatchError,
        NullKeyError, NullValueError or ValueRangeError if a row does not fit the table;
        StorageFullError if a segment does not fit on the disk.
        """
        kinds = None
        if deleted is not None and deleted.any():
            kinds = np.where(deleted, Kind.DELETE, Kind.PUT).astype(np.uint8)
        keys, values = self._table.encoding.encode(rows, kinds)
        if self._owned is not None:
            self._check_owned(keys, self._owned)
        self._writer.add(keys, values)

    def _check_owned(self, keys: ragged.Bytes, owned: NDArray[np.bool_]) -> None:
        strays = ~owned[vnodes_in(keys)]
        if strays.any():
            key = keys[int(np.flatnonzero(strays)[0])].as_py()
            raise errors.ConsistencyError(
                f"{self._table.encoding.describe(key)}: its vnode belongs to another unit; the "
                "rows were not shuffled by the view's vnode mapping, and nothing was committed"
            )
