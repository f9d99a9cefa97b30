"""What a task reports to the driver: one form for writes, statements, compactions and refreshes.

Promises: a report is JSON on its way to the driver, whatever carries it: a message of a Spark
writer, a column of text or binary. The driver learns nothing from a task in any other way, because
Spark creates the writer again, in another process, before it commits.
Does not know: what the driver does with a report.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from relstate.storage import SegmentRecord, Violations, errors

# Spark's names for what a task of a streaming query finds among its local properties. The job group
# is the run's id, a UUID, unless foreachBatch sets another one.
_QUERY = "sql.streaming.queryId"
_RUN = "spark.jobGroup.id"
_BATCH = "streaming.sql.batchId"
# A statement that runs another one, as CREATE TABLE AS SELECT runs a write, is its root.
_STATEMENT = "spark.sql.execution.id"
_ROOT_STATEMENT = "spark.sql.execution.root.id"
_RUN_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class TaskIdentity:
    """Where a task ran: its partition, and the streaming query and its run if there are any.

    ``is_nested``: the write is part of another statement, outside of a streaming query. ``batch``:
    the number of the micro-batch.
    """

    partition: int
    query: str | None = None
    run: str | None = None
    is_nested: bool = False
    batch: int | None = None

    @classmethod
    def current(cls) -> TaskIdentity:
        """Return the identity of the calling task."""
        context = TaskContext.get()
        if context is None:
            return cls(0)
        query, run = context.getLocalProperty(_QUERY), context.getLocalProperty(_RUN)
        if query is None or run is None or not _RUN_ID.fullmatch(run):
            run = None
        root = context.getLocalProperty(_ROOT_STATEMENT)
        is_nested = query is None and root not in (None, context.getLocalProperty(_STATEMENT))
        batch = None if query is None else context.getLocalProperty(_BATCH)
        number = None if batch is None else int(batch)
        return cls(context.partitionId(), query, run, is_nested, number)


@dataclass(frozen=True, slots=True)
class RowCounts:
    """How many rows a task inserted, updated and deleted; None where it did not count them."""

    inserted: int | None = 0
    updated: int | None = 0
    deleted: int | None = 0

    @classmethod
    def total(cls, counts: Iterable[RowCounts]) -> RowCounts:
        """Return the sums; a sum with an unknown term is unknown."""
        terms = list(counts)
        return cls(
            _sum([term.inserted for term in terms]),
            _sum([term.updated for term in terms]),
            _sum([term.deleted for term in terms]),
        )


REPORT_SCHEMA = "report STRING NOT NULL"
NO_ROWS = RowCounts()
_ANYWHERE = TaskIdentity(0)


@dataclass(frozen=True, slots=True)
class TaskReport:
    """What one task did.

    ``started``: when it began, microseconds since 1970; ``segments``: what it wrote, in rank order.
    ``parts``: the numbers of the parts of the job that it ran: of a compaction its parts, of a
    refresh its executors. ``view_id``, ``unit`` and ``rows``: of a refresh the view, the parallel
    unit and how many changes came in. ``counts``: of a statement, what became of the rows.
    ``moments``: of the temporal filters of a refresh, by the numbers of their executors, the next
    moments. ``schema``: of a write that may alter its table, the digest of the schema of its rows.
    ``violations``: of the expectations of the table that it wrote. ``given_up``: of a refresh,
    whether the task has not done its part, because it would have read too much state.
    """

    started: int
    segments: tuple[SegmentRecord, ...]
    identity: TaskIdentity = _ANYWHERE
    parts: tuple[int, ...] = ()
    view_id: int | None = None
    unit: int = 0
    rows: int = 0
    counts: RowCounts = NO_ROWS
    moments: tuple[tuple[int, tuple[int | None, ...]], ...] = ()
    schema: str | None = None
    violations: tuple[Violations, ...] = ()
    given_up: bool = False

    def to_json(self) -> str:
        """Return the report as text."""
        value = {name: getattr(self, name) for name in ("started", "parts", "view_id", "unit")}
        value["rows"], value["moments"] = self.rows, self.moments
        value["schema"], value["given_up"] = self.schema, self.given_up
        value["violations"] = [item.to_json() for item in self.violations]
        value["segments"] = [segment.to_json() for segment in self.segments]
        value["identity"], value["counts"] = asdict(self.identity), asdict(self.counts)
        return json.dumps(value)

    @classmethod
    def from_json(cls, text: str | bytes) -> TaskReport:
        """Return the report that `to_json` made text of."""
        value: dict[str, Any] = json.loads(text)
        return cls(
            value["started"],
            tuple(map(SegmentRecord.from_json, value["segments"])),
            TaskIdentity(**value["identity"]),
            tuple(value["parts"]),
            value["view_id"],
            value["unit"],
            value["rows"],
            RowCounts(**value["counts"]),
            tuple((number, tuple(moments)) for number, moments in value["moments"]),
            value["schema"],
            tuple(map(Violations.from_json, value["violations"])),
            value["given_up"],
        )

    def batch(self) -> pa.RecordBatch:
        """Return the report as the one row of a task, of `REPORT_SCHEMA`."""
        return pa.record_batch({"report": pa.array([self.to_json()])})

    def message(self) -> ReportMessage:
        """Return the report as a writer hands it to Spark."""
        return ReportMessage(self.to_json())


@dataclass(frozen=True)
class ReportMessage(WriterCommitMessage):
    """A report in the form in which Spark takes it from a writer: Spark pickles the text."""

    text: str


def received_reports(messages: Sequence[WriterCommitMessage | None]) -> tuple[TaskReport, ...]:
    """Return the reports of a writer's tasks. LostMessageError if one is missing, or all are."""
    texts = [message.text for message in messages if isinstance(message, ReportMessage)]
    if len(texts) < max(len(messages), 1):
        raise errors.LostMessageError(
            f"{len(messages) - len(texts)} of {len(messages)} tasks did not report what they "
            "wrote; nothing was committed. Run the write again; Spark's continuous trigger never "
            "delivers reports: use a processing-time or available-now trigger"
        )
    return tuple(map(TaskReport.from_json, texts))


def _sum(terms: Sequence[int | None]) -> int | None:
    counts = [term for term in terms if term is not None]
    return sum(counts) if len(counts) == len(terms) else None
