"""What a task that has written tells the driver.

Promises: it holds all that the commit needs, and pickles; the driver learns nothing in any other
way, since Spark makes the writer anew, in another process, before it commits.
Does not know: what the driver does with it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from relstate.storage import SegmentRecord

# Spark's names for what a task of a streaming query finds among its local properties. The job group
# is the run's id, a UUID, unless somebody sets another one in foreachBatch.
_QUERY = "sql.streaming.queryId"
_RUN = "spark.jobGroup.id"
_RUN_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class TaskIdentity:
    """Where a task ran: its partition, and the streaming query and its run if there are any."""

    partition: int
    query: str | None = None
    run: str | None = None

    @classmethod
    def current(cls) -> TaskIdentity:
        """Return the identity of the task that calls."""
        context = TaskContext.get()
        if context is None:
            return cls(0)
        query, run = context.getLocalProperty(_QUERY), context.getLocalProperty(_RUN)
        if query is None or run is None or not _RUN_ID.fullmatch(run):
            run = None
        return cls(context.partitionId(), query, run)


@dataclass(frozen=True)
class TaskMessage(WriterCommitMessage):
    """The segments a task wrote, in rank order, and when it began (microseconds UTC)."""

    identity: TaskIdentity
    started: int
    segments: tuple[SegmentRecord, ...]
