"""What a write does with the rows that its table does not take: it sets them aside.

Promises: of every row of a task, either the table or its quarantine gets it, in one commit. The id
of a row in the quarantine is made of the write, the batch, the task and the number among the
refused rows of the task, so that a repeated task or batch has the same ids. A batch without such
rows costs nothing.
Does not know: which rules there are, or how a write is committed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from relstate.connector.row_json import json_rows
from relstate.connector.task_report import TaskIdentity
from relstate.storage import (
    Misfit,
    SegmentRecord,
    WriteTarget,
    arrow,
    moment_of,
)

if TYPE_CHECKING:
    from relstate.storage import RefusedRows, TableWriter

_BATCH_DIGITS, _TASK_DIGITS, _ROW_DIGITS = 19, 6, 12


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Where the rows go that a write sets aside. It is sent to the tasks.

    ``write_id`` names the write unless it is of a streaming query, which has an id; ``version`` is
    that of the write. ``write_options``: the options that say what the rows do, as JSON.
    """

    target: WriteTarget
    write_id: str
    application: str | None
    version: int | None
    write_options: str

    def open(self, identity: TaskIdentity) -> QuarantineWriter:
        """Return a writer for one task."""
        if self.application is not None:
            write = self.application
        else:
            write = self.write_id if identity.query is None else identity.query
        batch = identity.batch if self.version is None else self.version
        if batch is None:
            batch = self.target.planned if identity.query is not None else 0
        prefix = f"{write}/{batch or 0:0{_BATCH_DIGITS}}/{identity.partition:0{_TASK_DIGITS}}/"
        return QuarantineWriter(self, prefix)


class QuarantineWriter:
    """Writes the rows that one task sets aside. For one thread; a context manager as a writer is.

    Nothing is opened before the first row.
    """

    def __init__(self, quarantine: Quarantine, prefix: str) -> None:
        """``prefix``: of the ids of the rows."""
        self._quarantine = quarantine
        self._prefix = prefix
        self._rows = 0
        self._writer: TableWriter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._writer is not None:
            self._writer.__exit__(kind, error, traceback)

    def add(self, batch: pa.RecordBatch, refused: RefusedRows) -> None:
        """Set rows of a batch aside; ``batch``: as Spark delivered it, with all its columns."""
        if not len(refused):
            return
        rows = batch.take(pa.array(refused.positions))
        types = [field.type for field in arrow.fields_of(rows.schema)]
        texts = [json.dumps(row, ensure_ascii=False) for row in json_rows(rows, types)]
        numbers = np.arange(self._rows, self._rows + len(refused))
        digits = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), _ROW_DIGITS, "0")
        planned = self._quarantine.target.planned
        assert planned is not None
        columns = {
            "id": pc.binary_join_element_wise(self._prefix, digits, ""),
            "row_json": pa.array(texts, pa.string()),
            "rule": refused.rules,
            "reason": refused.reasons,
            "write_options": pa.repeat(
                pa.scalar(self._quarantine.write_options, pa.string()), len(refused)
            ),
            "written_at": pa.repeat(
                pa.scalar(moment_of(planned), pa.timestamp("us", "UTC")), len(refused)
            ),
        }
        if self._writer is None:
            self._writer = self._quarantine.target.open()
        self._writer.write(pa.record_batch(columns))
        self._rows += len(refused)

    def finish(self) -> tuple[SegmentRecord, ...]:
        """Return the durable segments that hold the rows."""
        return () if self._writer is None else self._writer.finish()


def write_options_json(
    operation_column: str | None, ttl: int | None, ttl_column: str | None
) -> str:
    """Return the options that say what the rows of a write do, as JSON."""
    options = {"opColumn": operation_column, "ttl": ttl, "ttlColumn": ttl_column}
    return json.dumps({name: value for name, value in options.items() if value is not None})


def refused_where(misfits: Sequence[Misfit]) -> RefusedRows:
    """Return the rows that have a flag of rules; no row has two."""
    from relstate.storage import RefusedRows

    positions = np.concatenate([np.flatnonzero(misfit.flags) for misfit in misfits])
    counts = [int(np.count_nonzero(misfit.flags)) for misfit in misfits]
    order = np.argsort(positions, kind="stable")
    numbers = pa.array(np.repeat(np.arange(len(misfits)), counts)[order])
    rules = pa.array([misfit.rule for misfit in misfits], pa.string())
    reasons = pa.array([misfit.reason for misfit in misfits], pa.string())
    return RefusedRows(positions[order], rules.take(numbers), reasons.take(numbers))
