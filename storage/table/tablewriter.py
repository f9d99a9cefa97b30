"""Rows of one table to segments: what one task writes.

Promises: rows that do not fit the table are refused and nothing of them is added; memory is
bounded, whatever is written.
Does not know: epochs, or where an entry's segment ends.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..environment import Environment
from ..log.entry import SegmentRecord
from ..segment.writer import SegmentWriter
from .encoding import RowEncoding

# About so much of a batch is encoded at once: that takes several times as much memory.
_BATCH_BYTES = 8 << 20


class TableWriter:
    """Writes rows of one table as one task. For one thread."""

    def __init__(self, environment: Environment, encoding: RowEncoding, shards: int) -> None:
        self._encoding = encoding
        self._segments = SegmentWriter(environment, encoding.vnode_count, shards)
        self._rows = 0

    def write(self, batch: pa.RecordBatch, kinds: NDArray[np.uint8] | None = None) -> None:
        """Add rows: puts, or what ``kinds`` (a `Kind` a row, uint8) says of each.

        Columns are matched by name and cast exactly; of a deleted row only the key is used. Of
        two rows of one key the later wins. SchemaMismatchError, NullKeyError, NullValueError or
        ValueRangeError if a row does not fit the table.
        """
        step = max(_BATCH_BYTES * batch.num_rows // max(batch.nbytes, 1), 1)
        for start in range(0, batch.num_rows, step):
            part = batch.slice(start, step)
            part_kinds = None if kinds is None else kinds[start : start + step]
            self._segments.add(*self._encoding.encode(part, part_kinds))
            self._rows += part.num_rows

    @property
    def rows(self) -> int:
        """How many rows were written so far."""
        return self._rows

    def finish(self) -> tuple[SegmentRecord, ...]:
        """Return the durable segments that hold all rows, in rank order."""
        return self._segments.finish()

    def abort(self) -> None:
        """Remove what was written; only where no commit was asked to name it."""
        self._segments.abort()
