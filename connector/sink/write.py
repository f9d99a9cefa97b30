"""A write through Spark: what its tasks do, and how the driver commits what they wrote.

Promises: all that the tasks wrote becomes visible at one epoch, or nothing does; a task that is run
again leaves an unused file and never a row; a task that does not report fails the write; a write
that is known to have been committed before is left out. Of several rows of one key the last by
(partition, position in it) wins.
Does not know: how a write is planned, or how a commit wins its race.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from relstate.connector import catalog_table
from relstate.connector.failure import strip_traceback
from relstate.connector.spark.received import received
from relstate.connector.task_report import TaskIdentity, TaskReport, received_reports
from relstate.storage import (
    Proposal,
    SegmentRecord,
    Store,
    TableDefinition,
    Transaction,
    Violations,
    WriteTarget,
    environment_of,
    errors,
    types,
)

from .metadata_columns import OperationColumn, RowExpiry
from .quarantine import Quarantine, refused_where

if TYPE_CHECKING:
    from relstate.storage import RefusedRows, TableWriter


@dataclass(frozen=True, slots=True)
class WriteJob:
    """What is written where. It is sent to the tasks.

    ``overwrite``: the rows replace all others. ``is_patch``: they change parts of rows.
    ``is_done``: the write was committed before, so nothing is written. ``merged``: the columns of
    the rows, if the table gets those that it lacks: the target has them already. ``quarantine``:
    where the rows go that the table does not take; None if one of them fails the write.
    """

    target: WriteTarget
    operations: OperationColumn | None
    overwrite: bool
    application: str | None
    version: int | None
    is_done: bool = False
    expiry: RowExpiry | None = None
    is_patch: bool = False
    merged: tuple[types.Field, ...] | None = None
    quarantine: Quarantine | None = None

    def run(self, batches: Iterator[pa.RecordBatch]) -> TaskReport:
        """Write the rows of one task, and return what the driver needs to commit them.

        OptionError where the write is part of a statement that creates a table of Spark's catalog.
        """
        started = environment_of(self.target.path).now()
        identity = TaskIdentity.current()
        if identity.is_nested:
            catalog_table.refuse_creation()
        digest = None
        if self.merged is not None:
            from relstate.storage import schema_digest

            digest = schema_digest(self.target.definition.schema)
        segments, violations = self._written(batches, identity)
        return TaskReport(started, segments, identity, schema=digest, violations=violations)

    def _written(
        self, batches: Iterator[pa.RecordBatch], identity: TaskIdentity
    ) -> tuple[tuple[SegmentRecord, ...], tuple[Violations, ...]]:
        if self.quarantine is None:
            with self.target.open() as writer:
                for batch in self._to_write(batches):
                    self._write(writer, batch)
                return writer.finish(), writer.violations
        with self.target.open() as writer, self.quarantine.open(identity) as refused:
            for batch in self._to_write(batches):
                refused.add(batch, self.write_fitting(writer, batch))
            return (*writer.finish(), *refused.finish()), writer.violations

    def _to_write(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches that have rows to write, and read all of them."""
        for batch in batches:
            if batch.num_rows and not self.is_done:
                yield batch

    def _write(self, writer: TableWriter, batch: pa.RecordBatch) -> None:
        rows, kinds, ttls = self._split(batch)
        if self.is_patch:
            writer.patch(rows, ttls)
        else:
            writer.write(rows, kinds, ttls)

    def write_fitting(self, writer: TableWriter, batch: pa.RecordBatch) -> RefusedRows:
        """Write the rows of a batch that the table takes, and return the others.

        Errors as of `TableWriter.write_fitting`.
        """
        from relstate.storage import NO_REFUSED_ROWS, RefusedRows

        unknown = NO_REFUSED_ROWS
        positions = np.arange(batch.num_rows)
        try:
            rows, kinds, ttls = self._split(batch)
        except (errors.UnknownOperationError, errors.AppendOnlyError):
            assert self.operations is not None
            unknown = refused_where(self.operations.misfits(batch))
            positions = np.delete(positions, unknown.positions)
            batch = batch.take(pa.array(positions))
            rows, kinds, ttls = self._split(batch)
        refused = writer.write_fitting(rows, kinds, ttls)
        if len(refused) and self.operations is not None:
            positions = positions[self.operations.changing(batch)]
        refused = replace(refused, positions=positions[refused.positions])
        return RefusedRows.joined([unknown, refused])

    def _split(
        self, batch: pa.RecordBatch
    ) -> tuple[pa.RecordBatch, NDArray[np.uint8] | None, pa.Array | None]:
        """Return the rows of a batch, their kinds and their TTLs, without the columns of these."""
        kinds = ttls = None
        if self.expiry is not None:
            batch, ttls = self.expiry.split(batch)
        if self.operations is not None and ttls is None:
            batch, kinds = self.operations.split(batch)
        elif self.operations is not None:
            # Rows may be removed: the TTLs go through as a column.
            batch, kinds = self.operations.split(batch.append_column(_TTL, ttls))
            ttls = batch.column(_TTL)
            batch = batch.drop_columns([_TTL])
        return batch, kinds, ttls


# No column of a table has this name: it is not an identifier of SQL.
_TTL = "\0ttl"


# --- The commit -----------------------------------------------------------------------------------


def commit_batch(job: WriteJob, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Commit what the tasks of a batch write wrote."""
    reports = sorted_reports(messages)
    if not job.is_done:
        _commit(job, reports, _batch_transaction(job, reports))


def commit_microbatch(
    job: WriteJob, messages: Sequence[WriterCommitMessage | None], batch: int
) -> None:
    """Commit what the tasks of a micro-batch wrote, unless it or a later one was committed."""
    reports = sorted_reports(messages)
    writer = job.application or _query_of(reports)
    _commit(job, reports, _transaction(job, reports, writer, batch))


def sorted_reports(messages: Sequence[WriterCommitMessage | None]) -> list[TaskReport]:
    """Return the tasks' reports, at least one, by partition.

    LostMessageError if one is missing, or two are of one partition.
    """
    reports = sorted(received_reports(messages), key=lambda report: report.identity.partition)
    if len({report.identity.partition for report in reports}) < len(reports):
        raise errors.LostMessageError("two tasks wrote one partition; nothing was committed")
    return reports


def make_proposal(
    job: WriteJob, reports: Sequence[TaskReport], transaction: Transaction | None
) -> Proposal | None:
    """Return what to commit; None for an upsert without rows, which changes nothing."""
    segments = tuple(segment for report in reports for segment in report.segments)
    violations = tuple(item for report in reports for item in report.violations)
    if not (segments or violations or job.overwrite or job.merged is not None):
        return None
    return Proposal(
        operation=_operation(job),
        started=min(report.started for report in reports),
        data_change=bool(segments or violations) or job.overwrite,
        segments=segments,
        written_under=(job.target.definition,),
        violations=violations,
        based_tables=_replaced_tables(job),
        transactions=() if transaction is None else (transaction,),
    )


def _replaced_tables(job: WriteJob) -> tuple[int, ...]:
    """Return the ids of the tables whose rows a write replaces: those set aside, too."""
    if not job.overwrite:
        return ()
    table_id = job.target.definition.table_id
    if job.quarantine is None:
        return (table_id,)
    return (table_id, job.quarantine.target.definition.table_id)


def _operation(job: WriteJob) -> str:
    if job.is_patch:
        return "patch"
    return "overwrite" if job.overwrite else "write"


def _commit(job: WriteJob, reports: Sequence[TaskReport], transaction: Transaction | None) -> None:
    proposed = make_proposal(job, reports, transaction)
    if proposed is None:
        return
    definition = job.target.definition
    with Store.open(job.target.path) as store, store.jobs.discarding(proposed.segments):
        if definition.table_id not in store.state.tables:
            raise errors.TableNotFoundError(
                f"the table {definition.name!r} was dropped during the write; nothing was committed"
            )
        if job.merged is None:
            store.jobs.commit(proposed)
            return
        _check_written_under(definition, reports)
        store.jobs.commit_merging(proposed, definition, job.merged)


def _check_written_under(definition: TableDefinition, reports: Sequence[TaskReport]) -> None:
    """ConflictError if the tasks of a stream wrote under another schema than is to be committed.

    Spark plans the commit of a micro-batch after its tasks.
    """
    from relstate.storage import altered_meanwhile_error, schema_digest

    schemas = (definition.schema, *definition.older_schemas)
    digests = {schema_digest(schema) for schema in schemas}
    if any(report.schema not in digests for report in reports):
        raise altered_meanwhile_error(definition.name)


def _batch_transaction(job: WriteJob, reports: Sequence[TaskReport]) -> Transaction | None:
    if job.version is None:
        return None
    return _transaction(job, reports, job.application or _query_of(reports), job.version)


def _transaction(
    job: WriteJob, reports: Sequence[TaskReport], writer: str, batch: int
) -> Transaction:
    return Transaction(writer, job.target.definition.table_id, batch, reports[0].identity.run)


def _query_of(reports: Sequence[TaskReport]) -> str:
    """Return the id of the streaming query of the tasks.

    SessionError if they ran outside of a query, or if their run is unknown: the second write of a
    batch could not be distinguished from a repetition.
    """
    identity = reports[0].identity
    if identity.query is None:
        raise errors.SessionError(
            "cannot identify the streaming query of this write; set option 'txnAppId' when writing "
            "outside a query, or in foreachBatch of Spark Connect"
        )
    if identity.run is None:
        raise errors.SessionError(
            "cannot identify the run of the streaming query of this write, because its job group "
            "was changed: set no job group in foreachBatch before the write, or set option "
            "'txnAppId'"
        )
    return identity.query


# --- What Spark calls -----------------------------------------------------------------------------


class _TaskWriter:
    """Writes the rows of one task, as a writer of Spark's."""

    def __init__(self, job: WriteJob) -> None:
        self._job = job

    @strip_traceback
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task."""
        return self._job.run(received(iterator)).message()


class BatchWriter(_TaskWriter, DataSourceArrowWriter):
    """Writes one batch. Spark calls `write` in tasks, then `commit` or `abort` on the driver."""

    @strip_traceback
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Make all rows visible at once."""
        commit_batch(self._job, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Leave the files of a commit that failed: it may have landed, or has removed them."""


class StreamWriter(_TaskWriter, DataSourceStreamArrowWriter):
    """Writes one micro-batch. Spark creates one writer to plan and another one to commit."""

    @strip_traceback
    def commit(
        self,
        messages: Sequence[WriterCommitMessage | None],
        batchId: int,  # noqa: N803 - Spark's name
    ) -> None:
        """Make the rows of the micro-batch visible at once, unless they are already."""
        commit_microbatch(self._job, messages, batchId)

    def abort(
        self,
        messages: Sequence[WriterCommitMessage | None],
        batchId: int,  # noqa: N803 - Spark's name
    ) -> None:
        """Leave the files of a commit that failed: it may have landed, or has removed them."""
