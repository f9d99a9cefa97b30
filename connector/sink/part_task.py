"""The task of a statement that changes parts of rows: it writes what was computed elsewhere.

Promises: what is written is in proportion to what changes; nothing is read.
Does not know: statements, or who commits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from relstate.connector.failure import strip_tracebacks
from relstate.connector.spark.received import received
from relstate.connector.task_report import RowCounts, TaskReport
from relstate.storage import (
    Change,
    ChangeAction,
    DocumentEncoding,
    WriteTarget,
    document_encoding,
    encoding_of,
    environment_of,
)


@dataclass(frozen=True, slots=True)
class PartColumns:
    """The columns of rows that say what is done at one path.

    ``path``: a column of the table and the steps below it, None for a key. ``keys``: the columns
    with the keys; ``value``: that with the value, None to remove.
    """

    path: tuple[str | None, ...]
    action: ChangeAction
    keys: tuple[str, ...]
    value: str | None


@dataclass(frozen=True, slots=True)
class PartTask:
    """Writes changes of parts of rows of one table. It is sent to the tasks.

    ``names``: of the columns of the rows, those of the primary key first. ``ttl``: seconds after
    which what is written expires, None for what the table says.
    """

    target: WriteTarget
    names: tuple[str, ...]
    changes: tuple[PartColumns, ...]
    ttl: int | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the changes of one task, and yield its report for the driver."""
        return strip_tracebacks(self._reports(received(batches)))

    def run(self, batches: Iterator[pa.RecordBatch]) -> TaskReport:
        """Write changes and return the report of it."""
        started = environment_of(self.target.path).now()
        definition = self.target.definition
        encoding = document_encoding(encoding_of(definition, self.target.vnode_count))
        rows = 0
        with self.target.open() as writer:
            for batch in batches:
                if batch.num_rows:
                    renamed = batch.rename_columns(list(self.names))
                    row_keys, changes = self._changes(encoding, renamed)
                    ttls = None
                    if self.ttl is not None:
                        ttls = pa.repeat(pa.scalar(self.ttl, pa.int64()), batch.num_rows)
                    writer.change(row_keys, changes, ttls)
                    rows += batch.num_rows
            segments = writer.finish()
        return TaskReport(started, segments, counts=RowCounts(0, rows, 0))

    def _reports(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield self.run(batches).batch()

    def _changes(
        self, encoding: DocumentEncoding, batch: pa.RecordBatch
    ) -> tuple[pa.Array, list[Change]]:
        """Return the full keys of rows, and what changes of them."""
        keys = batch.select(encoding.key_names)
        numbers = np.arange(batch.num_rows)
        changes = []
        for columns in self.changes:
            target, _ = encoding.locate_part(columns.path)
            values = None if columns.value is None else batch.column(columns.value)
            item_keys = [batch.column(name) for name in columns.keys]
            changes.append(Change.of(target, columns.action, numbers, item_keys, values))
        return encoding.encode_keys(encoding.conform_keys(keys)), changes
