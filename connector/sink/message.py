"""What a task that has written tells the driver.

Promises: it holds all that the commit needs, and pickles; the driver learns nothing in any other
way, since Spark makes the writer anew, in another process, before it commits.
Does not know: what the driver does with it.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from relstate.storage import SegmentRecord

# Spark's names for what a task of a streaming query finds among its local properties.
_QUERY = "sql.streaming.queryId"
_BATCH = "streaming.sql.batchId"
_RUN = "spark.jobGroup.id"


@dataclass(frozen=True, slots=True)
class TaskIdentity:
    """Where a task ran: its partition, and the streaming query, micro-batch and run if any."""

    partition: int
    query: str | None = None
    batch: int | None = None
    run: str | None = None

    @classmethod
    def current(cls) -> TaskIdentity:
        """Return the identity of the task that calls."""
        context = TaskContext.get()
        if context is None:
            return cls(0)
        query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
        if query is None or batch is None:
            return cls(context.partitionId())
        return cls(context.partitionId(), query, int(batch), context.getLocalProperty(_RUN))


@dataclass(frozen=True)
class TaskMessage(WriterCommitMessage):
    """The segments a task wrote, in rank order, and when it began (microseconds UTC)."""

    identity: TaskIdentity
    started: int
    segments: tuple[SegmentRecord, ...]
