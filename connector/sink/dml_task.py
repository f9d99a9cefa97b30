"""The task of a statement that changes rows: it checks and writes what Spark computed.

A row of changes has an operation and the table's columns. Where several changes may have one key,
all changes of that key are in one task, which holds the rows of its partition in memory.

Promises: a task in which a row is changed twice, or two rows get one key, fails; a row that is only
deleted, by however many changes, is deleted once; the driver receives the report of one attempt of
each task.
Does not know: statements, or who commits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from relstate.connector.failure import strip_tracebacks
from relstate.connector.spark.received import received
from relstate.connector.task_report import RowCounts, TaskIdentity, TaskReport
from relstate.storage import (
    UPSERTS,
    KeyCodec,
    KeyColumn,
    Kind,
    ReadPlan,
    WriteTarget,
    arrow,
    encoding_of,
    environment_of,
    errors,
    generation_of,
)

from .quarantine import Quarantine

OPERATION = "__relstate_operation"
OLD_VERSION = "__relstate_version_"
"""How the names of the columns begin with the values of version columns that a row has."""
COMPUTED = "__relstate_computed_"
"""How the names of the columns begin, before the id of a generated column, with whether a row lacks
its value, which the task computes then."""


class Operation(IntEnum):
    """What a change does; MOVE_FROM and MOVE_TO are an update that gives a row another key."""

    UPSERT = 1
    CREATE = 2
    UPDATE = 3
    DELETE = 4
    MOVE_FROM = 5
    MOVE_TO = 6


# Changes of an existing row: a key may have at most one of these.
_OF_EXISTING_ROW = (Operation.UPDATE, Operation.DELETE, Operation.MOVE_FROM)
# Changes after which the key has a row: a key may have at most one of these.
_WITH_ROW_AFTERWARDS = (Operation.CREATE, Operation.UPDATE, Operation.MOVE_TO)
# Changes that need a key without a row, unless another change removes the row.
_OF_FREE_KEY = (Operation.CREATE, Operation.MOVE_TO)
# Changes that remove the row of the key.
_REMOVING = (Operation.DELETE, Operation.MOVE_FROM)


@dataclass(frozen=True, slots=True)
class DmlTask:
    """Writes changes of one table. It is sent to the tasks and called there with their rows.

    ``names``: of the columns of the rows, in their order, whatever Spark calls them.
    ``is_checked``: several changes may have one key. ``existing``: the table as the statement read
    it, if new rows may have the keys of others. ``ttl``: seconds after which the rows expire.
    ``quarantine``: where upserts go that the table does not take; without it they fail the task.
    """

    target: WriteTarget
    names: tuple[str, ...]
    is_checked: bool = False
    existing: ReadPlan | None = None
    ttl: int | None = None
    quarantine: Quarantine | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the changes of one task, and yield its report for the driver."""
        return strip_tracebacks(self._reports(received(batches)))

    def run(self, batches: Iterator[pa.RecordBatch]) -> TaskReport:
        """Write the changes of one task, and return its report."""
        batches = (batch.rename_columns(list(self.names)) for batch in batches)
        if self.existing is not None:
            batches = self._checked(batches)
        elif self.is_checked:
            batches = self._checked_row_ids(batches)
        return self._report(batches)

    def _reports(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield self.run(batches).batch()

    def _report(self, batches: Iterator[pa.RecordBatch]) -> TaskReport:
        """Write the changes, and return the report of this task."""
        started = environment_of(self.target.path).now()
        counts = np.zeros(len(Operation) + 1, np.int64)
        with ExitStack() as stack:
            writer = stack.enter_context(self.target.open())
            refused = None
            if self.quarantine is not None:
                identity = TaskIdentity(TaskIdentity.current().partition)
                refused = stack.enter_context(self.quarantine.open(identity))
            for batch in batches:
                if not batch.num_rows:
                    continue
                operations = _operations(batch)
                counts += np.bincount(operations, minlength=len(counts))
                self._check_versions(batch, operations)
                ttls = None
                if self.ttl is not None:
                    ttls = pa.repeat(pa.scalar(self.ttl, pa.int64()), batch.num_rows)
                rows = self._with_computed(batch, _rows(batch), operations)
                if refused is not None:
                    kinds = self._kinds(operations)
                    refused.add(rows, writer.write_fitting(rows, kinds, ttls))
                    continue
                dropped = operations[writer.write(rows, self._kinds(operations), ttls)]
                self._check_dropped(dropped)
                counts -= np.bincount(dropped, minlength=len(counts))
            segments = (*writer.finish(), *(() if refused is None else refused.finish()))
            violations = writer.violations
        return TaskReport(started, segments, counts=_row_counts(counts), violations=violations)

    def _check_dropped(self, operations: NDArray[np.uint8]) -> None:
        """CheckViolationError if a row would be dropped under its new key, and gone under its old.

        ``operations``: of the rows that an expectation drops.
        """
        if (operations == Operation.MOVE_TO).any():
            raise errors.CheckViolationError(
                f"table {self.target.definition.name!r}: a row that gets another key violates an "
                "expectation ON VIOLATION DROP ROW, so it would be lost; nothing was committed: "
                "leave it out, or INSERT and DELETE"
            )

    def _with_computed(
        self, batch: pa.RecordBatch, rows: pa.RecordBatch, operations: NDArray[np.uint8]
    ) -> pa.RecordBatch:
        """Return rows with the generated values that only some of them lack."""
        definition = self.target.definition
        names = {f"{COMPUTED}{column.id}": column.name for column in definition.schema.columns}
        flagged = [name for name in batch.schema.names if name in names]
        generation = generation_of(definition) if flagged else None
        if generation is None:
            return rows
        has_row = ~np.isin(operations, _REMOVING)
        for name in flagged:
            flags = has_row & batch.column(name).to_numpy(zero_copy_only=False)
            rows = generation.with_computed(rows, names[name], flags)
        return rows

    def _kinds(self, operations: NDArray[np.uint8]) -> NDArray[np.uint8]:
        upsert = UPSERTS[self.target.definition.properties.merge]
        kinds = np.full(len(operations), Kind.PUT, np.uint8)
        kinds[np.isin(operations, _REMOVING)] = Kind.DELETE
        kinds[np.isin(operations, (Operation.UPSERT, Operation.CREATE))] = upsert
        return kinds

    def _check_versions(self, batch: pa.RecordBatch, operations: NDArray[np.uint8]) -> None:
        """ValueRangeError where an update would get a lower version than the row has."""
        old_names = [name for name in batch.schema.names if name.startswith(OLD_VERSION)]
        if not old_names:
            return
        definition = self.target.definition
        columns = definition.schema.version_columns(definition.properties.version_columns)
        codec = KeyCodec([column.type for column in columns], [KeyColumn(c.id) for c in columns])
        old = [batch.column(name) for name in old_names]
        new = [batch.column(column.name) for column in columns]
        is_lower = np.asarray(pc.less(codec.encode(new), codec.encode(old)))
        is_older = is_lower & (operations == Operation.UPDATE)
        if is_older.any():
            row = int(np.argmax(is_older))
            old_text, new_text = (
                ", ".join(repr(array[row].as_py()) for array in arrays) for arrays in (old, new)
            )
            names = ", ".join(repr(column.name) for column in columns)
            raise errors.ValueRangeError(
                f"table {definition.name}: an update sets the version column {names} from "
                f"{old_text} to {new_text}; a row with a lower version than "
                "the existing one would not be seen: leave such rows out"
            )

    # Keys that several changes may have

    def _checked(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Check all rows, then yield them in the order in which they are written."""
        filled = [batch for batch in batches if batch.num_rows]
        if not filled:
            return
        rows = pa.concat_batches(filled)
        operations = _operations(rows)
        encoding = encoding_of(self.target.definition, self.target.vnode_count)
        keys = encoding.encode_keys(encoding.conform_keys(_rows(rows)))
        codes = np.asarray(keys.dictionary_encode().indices)
        is_repeated = _repeated_deletes(operations, codes)
        if is_repeated.any():
            rows = rows.filter(pa.array(~is_repeated))
            operations, codes = operations[~is_repeated], codes[~is_repeated]
        is_of_existing = np.isin(operations, _OF_EXISTING_ROW)
        self._check_once(rows, codes, is_of_existing, "would be changed twice")
        has_row = np.isin(operations, _WITH_ROW_AFTERWARDS)
        self._check_once(rows, codes, has_row, "would be the key of two rows")
        is_removal = np.isin(operations, _REMOVING)
        is_new = np.isin(operations, _OF_FREE_KEY) & ~np.isin(codes, codes[is_removal])
        self._check_free(rows, is_new)
        if is_removal.any():
            # The last entry of a key wins, so the removal of a row has to precede the new row.
            rows = rows.take(pa.array(np.argsort(~is_removal, kind="stable")))
        yield rows

    def _checked_row_ids(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the changes of a table without a primary key as they are, but deletes last.

        DuplicateKeyError, after the last, if two of them change one row. New rows have no row ids
        yet.
        """
        row_id = self.target.definition.schema.row_id
        assert row_id is not None
        arrow_type = arrow.arrow_type(row_id.type)
        row_ids, deletes = [], []
        for batch in batches:
            is_delete = _operations(batch) == Operation.DELETE
            if is_delete.any():
                deletes.append(batch.filter(pa.array(is_delete)))
                batch = batch.filter(pa.array(~is_delete))
            row_ids.append(batch.column(row_id.name).drop_null().cast(arrow_type))
            yield batch
        if deletes:
            rows = pa.concat_batches(deletes)
            codes = np.asarray(rows.column(row_id.name).dictionary_encode().indices)
            rows = rows.filter(pa.array(~_repeated_deletes(_operations(rows), codes)))
            row_ids.append(rows.column(row_id.name).cast(arrow_type))
            yield rows
        changed_rows = pa.chunked_array(row_ids, arrow_type)
        if pc.count_distinct(changed_rows).as_py() < len(changed_rows):
            raise errors.DuplicateKeyError(
                f"table {self.target.definition.name}: a row would be changed twice, by two rows "
                "of the source; nothing was changed"
            )

    def _check_once(
        self,
        rows: pa.RecordBatch,
        codes: NDArray[np.int32],
        mask: NDArray[np.bool_],
        problem: str,
    ) -> None:
        """DuplicateKeyError if two rows of a mask have one key, given as a code for each row."""
        counts = np.bincount(codes[mask]) if mask.any() else np.zeros(0, np.int64)
        if (counts > 1).any():
            row = int(np.argmax(mask & (codes == np.argmax(counts > 1))))
            self._fail(rows, row, problem)

    def _check_free(self, rows: pa.RecordBatch, is_new: NDArray[np.bool_]) -> None:
        """DuplicateKeyError if the table has a row with a new key."""
        assert self.existing is not None
        indices = np.flatnonzero(is_new)
        if not len(indices):
            return
        self._check_unversioned(rows, indices)
        names = [column.name for column in self.target.definition.schema.key_columns]
        keys = rows.select(names).take(pa.array(indices))
        matches, _ = self.existing.open().get_rows(keys, names[:1])
        if len(matches):
            self._fail(rows, int(indices[matches[0]]), "is the key of an existing row")

    def _check_unversioned(self, rows: pa.RecordBatch, indices: NDArray[np.int64]) -> None:
        """UnsupportedStatementError if a row of a table with a version column gets another key."""
        definition = self.target.definition
        is_moved = _operations(rows)[indices] == Operation.MOVE_TO
        if definition.properties.is_versioned and is_moved.any():
            raise errors.UnsupportedStatementError(
                f"table {definition.name}: rows of a table with a version column cannot get "
                "another key, because a later delete of that key would hide them; delete and "
                "insert them"
            )

    def _fail(self, rows: pa.RecordBatch, row: int, problem: str) -> None:
        definition = self.target.definition
        names = [column.name for column in definition.schema.key_columns]
        key = ", ".join(f"{name} = {rows.column(name)[row].as_py()!r}" for name in names)
        raise errors.DuplicateKeyError(
            f"table {definition.name}: the key ({key}) {problem}; nothing was changed"
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


def _repeated_deletes(operations: NDArray[np.uint8], codes: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return which changes delete a row that an earlier one deletes; ``codes``: of their keys."""
    deletes = np.flatnonzero(operations == Operation.DELETE)
    _, first = np.unique(codes[deletes], return_index=True)
    is_repeated = np.zeros(len(operations), np.bool_)
    is_repeated[deletes] = True
    is_repeated[deletes[first]] = False
    return is_repeated


def _operations(batch: pa.RecordBatch) -> NDArray[np.uint8]:
    return np.asarray(batch.column(OPERATION)).astype(np.uint8)


def _rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    names = [
        name
        for name in batch.schema.names
        if name != OPERATION and not name.startswith((OLD_VERSION, COMPUTED))
    ]
    return batch.select(names)
