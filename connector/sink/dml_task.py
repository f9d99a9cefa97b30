"""Changes that were computed from rows already read: what a task checks and writes of them.

A row of changes has an operation and the table's columns. Where a key may be touched twice, all
changes of it meet in one task, which holds the rows of its partition in memory.

Promises: no row is changed twice, and no two rows end up with one key, or the task fails; what the
driver gets to know is the result of the task that counts, however often it was tried.
Does not know: statements, or who commits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from relstate.connector.failure import strip_tracebacks
from relstate.connector.task_report import RowCounts, TaskReport
from relstate.storage import (
    UPSERTS,
    Kind,
    ReadPlan,
    WriteTarget,
    encoding_of,
    environment_of,
    errors,
)

OPERATION = "__relstate_operation"
OLD_VERSION = "__relstate_version"
REPORT_SCHEMA = "report STRING NOT NULL"


class Operation(IntEnum):
    """What a change does: two of them are one update that moves a row to another key."""

    UPSERT = 1
    CREATE = 2
    UPDATE = 3
    DELETE = 4
    MOVE_FROM = 5
    MOVE_TO = 6


# Of a row that is there: no key may be touched by two of these.
_TAKING = (Operation.UPDATE, Operation.DELETE, Operation.MOVE_FROM)
# Of a row that will be there: no key may get two of them.
_GIVING = (Operation.CREATE, Operation.UPDATE, Operation.MOVE_TO)
# Of a key at which there must be no row, unless another change takes it away.
_NEW = (Operation.CREATE, Operation.MOVE_TO)
_LEAVING = (Operation.DELETE, Operation.MOVE_FROM)


@dataclass(frozen=True, slots=True)
class DmlTask:
    """Writes changes of one table. Travels to the tasks, where it is called with their rows.

    ``names``: of the columns that come, in their order, whatever Spark calls them. ``existing``:
    the table as it was read, where keys are to be checked.
    """

    target: WriteTarget
    names: tuple[str, ...]
    existing: ReadPlan | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the changes of one task, and yield what the driver needs to commit them."""
        named = (batch.rename_columns(list(self.names)) for batch in batches)
        return strip_tracebacks(self._reports(named))

    def _reports(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        report = self._report(batches if self.existing is None else self._checked(batches))
        yield pa.record_batch({"report": pa.array([report.to_json()])})

    def _report(self, batches: Iterator[pa.RecordBatch]) -> TaskReport:
        """Write the changes, and return the report of this task."""
        started = environment_of(self.target.path).now()
        counts = np.zeros(len(Operation) + 1, np.int64)
        with self.target.open() as writer:
            for batch in batches:
                if not batch.num_rows:
                    continue
                operations = _operations(batch)
                counts += np.bincount(operations, minlength=len(counts))
                self._check_versions(batch, operations)
                writer.write(_rows(batch), self._kinds(operations))
            segments = writer.finish()
        return TaskReport(started, segments, counts=_row_counts(counts))

    def _kinds(self, operations: NDArray[np.uint8]) -> NDArray[np.uint8]:
        upsert = UPSERTS[self.target.definition.properties.merge]
        kinds = np.full(len(operations), Kind.PUT, np.uint8)
        kinds[np.isin(operations, _LEAVING)] = Kind.DELETE
        kinds[np.isin(operations, (Operation.UPSERT, Operation.CREATE))] = upsert
        return kinds

    def _check_versions(self, batch: pa.RecordBatch, operations: NDArray[np.uint8]) -> None:
        """ValueRangeError where an update would get a lower version than the row has."""
        if OLD_VERSION not in batch.schema.names:
            return
        definition = self.target.definition
        version = definition.properties.version_column
        name = next(one.name for one in definition.schema.columns if one.id == version)
        old, new = batch.column(OLD_VERSION), batch.column(name)
        lower = pc.fill_null(pc.less(new, old), False)
        lost = pc.and_(pc.is_null(new), pc.is_valid(old))
        is_older = np.asarray(pc.or_(lower, lost)) & (operations == Operation.UPDATE)
        if is_older.any():
            row = int(np.argmax(is_older))
            raise errors.ValueRangeError(
                f"table {definition.name}: an update sets the version column {name!r} from "
                f"{old[row].as_py()!r} to {new[row].as_py()!r}; a row with a lower version than "
                "the one there is would not be seen: leave such rows out"
            )

    # Keys that may be touched twice

    def _checked(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows to be written, once all have been checked."""
        held = [batch for batch in batches if batch.num_rows]
        if not held:
            return
        rows = pa.concat_batches(held)
        operations = _operations(rows)
        encoding = encoding_of(self.target.definition, self.target.vnode_count)
        keys = encoding.encode_keys(encoding.conform_keys(_rows(rows)))
        codes = np.asarray(keys.dictionary_encode().indices)
        self._check_once(rows, codes, np.isin(operations, _TAKING), "would be changed twice")
        giving = np.isin(operations, _GIVING)
        self._check_once(rows, codes, giving, "would be the key of two rows")
        leaving = np.isin(operations, _LEAVING)
        self._check_free(rows, np.isin(operations, _NEW) & ~np.isin(codes, codes[leaving]))
        # Of a key's entries the last one counts: rows that leave go before those that come.
        yield rows.take(pa.array(np.argsort(~leaving, kind="stable")))

    def _check_once(
        self,
        rows: pa.RecordBatch,
        codes: NDArray[np.int32],
        concerned: NDArray[np.bool_],
        trouble: str,
    ) -> None:
        counts = np.bincount(codes[concerned]) if concerned.any() else np.zeros(0, np.int64)
        if (counts > 1).any():
            twice = int(np.argmax(concerned & (codes == np.argmax(counts > 1))))
            self._fail(rows, twice, trouble)

    def _check_free(self, rows: pa.RecordBatch, new: NDArray[np.bool_]) -> None:
        """DuplicateKeyError if there is a row under a new key."""
        assert self.existing is not None
        places = np.flatnonzero(new)
        if not len(places):
            return
        self._check_unversioned(rows, places)
        names = [column.name for column in self.target.definition.schema.key_columns]
        wanted = rows.select(names).take(pa.array(places))
        found, _ = self.existing.open().get_rows(wanted, names[:1])
        if len(found):
            self._fail(rows, int(places[found[0]]), "is that of a row that is there")

    def _check_unversioned(self, rows: pa.RecordBatch, places: NDArray[np.int64]) -> None:
        definition = self.target.definition
        moved = _operations(rows)[places] == Operation.MOVE_TO
        if definition.properties.version_column is not None and moved.any():
            raise errors.UnsupportedStatementError(
                f"table {definition.name}: rows of a table with a version column cannot get "
                "another key, where a later delete may lie hidden; delete and insert them"
            )

    def _fail(self, rows: pa.RecordBatch, row: int, trouble: str) -> None:
        definition = self.target.definition
        names = [column.name for column in definition.schema.key_columns]
        key = ", ".join(f"{name} = {rows.column(name)[row].as_py()!r}" for name in names)
        raise errors.DuplicateKeyError(
            f"table {definition.name}: the key ({key}) {trouble}; nothing was changed"
        )


def _row_counts(counts: NDArray[np.int64]) -> RowCounts:
    """Return what became of rows; what upserts did, a task does not know."""
    if counts[Operation.UPSERT]:
        return RowCounts(None, None, 0)
    return RowCounts(
        int(counts[Operation.CREATE]),
        int(counts[Operation.UPDATE] + counts[Operation.MOVE_TO]),
        int(counts[Operation.DELETE]),
    )


def _operations(batch: pa.RecordBatch) -> NDArray[np.uint8]:
    return np.asarray(batch.column(OPERATION)).astype(np.uint8)


def _rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    names = [name for name in batch.schema.names if name not in (OPERATION, OLD_VERSION)]
    return batch.select(names)
