"""From the tasks' messages to one commit.

Promises: all that the tasks wrote becomes visible at one epoch, or nothing does; a write that is
known to have been committed before is left out; a task that says nothing fails the write. Rows of
one key are decided by the order of (partition, position in it).
Does not know: how a commit wins its race.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.datasource import WriterCommitMessage

from relstate.storage import Proposal, Store, Transaction, errors

from .message import TaskMessage
from .write_job import WriteJob


def commit_batch(job: WriteJob, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Commit what the tasks of a batch write wrote."""
    received = checked(messages)
    if not job.is_done:
        _commit(job, received, _batch_transaction(job, received))


def commit_microbatch(
    job: WriteJob, messages: Sequence[WriterCommitMessage | None], batch: int
) -> None:
    """Commit what the tasks of a micro-batch wrote, unless that, or a later one, is committed."""
    received = checked(messages)
    writer = job.application or _query_of(received)
    _commit(job, received, _transaction(job, received, writer, batch))


def checked(messages: Sequence[WriterCommitMessage | None]) -> list[TaskMessage]:
    """Return the tasks' messages, at least one, by partition.

    LostMessageError if one is missing, or two tell of one partition.
    """
    received = [message for message in messages if isinstance(message, TaskMessage)]
    if len(received) < max(len(messages), 1):
        raise errors.LostMessageError(
            f"{len(messages) - len(received)} of {len(messages)} tasks did not say what they "
            "wrote, so that nothing is committed. Spark's continuous trigger does so always: use "
            "a processing-time or available-now trigger"
        )
    received.sort(key=lambda message: message.identity.partition)
    if len({message.identity.partition for message in received}) < len(received):
        raise errors.LostMessageError("two tasks wrote one partition; nothing is committed")
    return received


def proposal(
    job: WriteJob, messages: Sequence[TaskMessage], transaction: Transaction | None
) -> Proposal | None:
    """Return what to commit; None for an upsert of no rows, which changes nothing."""
    segments = tuple(segment for message in messages for segment in message.segments)
    if not segments and not job.overwrite:
        return None
    table_id = job.target.definition.table_id
    return Proposal(
        operation="overwrite" if job.overwrite else "write",
        started=min(message.started for message in messages),
        segments=segments,
        based_tables=(table_id,) if job.overwrite else (),
        transactions=() if transaction is None else (transaction,),
    )


def _commit(
    job: WriteJob, messages: Sequence[TaskMessage], transaction: Transaction | None
) -> None:
    proposed = proposal(job, messages, transaction)
    if proposed is None:
        return
    definition = job.target.definition
    with Store.open(job.target.path) as store:
        if definition.table_id not in store.state.tables:
            raise errors.TableNotFoundError(
                f"the table {definition.name!r} was dropped meanwhile; nothing was committed"
            )
        store.commit(proposed)


def _batch_transaction(job: WriteJob, messages: Sequence[TaskMessage]) -> Transaction | None:
    if job.version is None:
        return None
    return _transaction(job, messages, job.application or _query_of(messages), job.version)


def _transaction(
    job: WriteJob, messages: Sequence[TaskMessage], writer: str, batch: int
) -> Transaction:
    return Transaction(writer, job.target.definition.table_id, batch, messages[0].identity.run)


def _query_of(messages: Sequence[TaskMessage]) -> str:
    """Return the id of the streaming query whose tasks these were.

    SessionError if they were not one's, or if their run is not known: a second write of a batch
    could not be told from a repetition.
    """
    identity = messages[0].identity
    if identity.query is None:
        raise errors.SessionError(
            "the tasks know of no streaming query that would make this write happen once: outside "
            "of one, and in foreachBatch of Spark Connect, give 'txnAppId' a name of your own"
        )
    if identity.run is None:
        raise errors.SessionError(
            "the tasks do not know their run, for the job group is not Spark's: set no job group "
            "in foreachBatch before this write, or give 'txnAppId' a name of your own"
        )
    return identity.query
