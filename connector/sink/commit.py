"""From the reports of a write's tasks to one commit.

Promises: all that the tasks wrote becomes visible at one epoch, or nothing does; a write that is
known to have been committed before is left out; a task that does not report fails the write. Of
several rows of one key the last by (partition, position in it) wins.
Does not know: how a commit wins its race.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.datasource import WriterCommitMessage

from relstate.connector.task_report import TaskReport, received_reports
from relstate.storage import Proposal, Store, Transaction, errors

from .write_job import WriteJob


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
    if not segments and not job.overwrite:
        return None
    table_id = job.target.definition.table_id
    return Proposal(
        operation="overwrite" if job.overwrite else "write",
        started=min(report.started for report in reports),
        segments=segments,
        based_tables=(table_id,) if job.overwrite else (),
        transactions=() if transaction is None else (transaction,),
    )


def _commit(job: WriteJob, reports: Sequence[TaskReport], transaction: Transaction | None) -> None:
    proposed = make_proposal(job, reports, transaction)
    if proposed is None:
        return
    definition = job.target.definition
    with Store.open(job.target.path) as store:
        if definition.table_id not in store.state.tables:
            raise errors.TableNotFoundError(
                f"the table {definition.name!r} was dropped during the write; nothing was committed"
            )
        store.commit(proposed)


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
