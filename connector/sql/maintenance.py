"""The full compaction of a store as Spark jobs: one task per shard, one commit per group of tables.

A job is a batch write through a data source of its own, because the writer of a source lets tasks
report to the driver what they wrote, and the driver commit it once.

Promises: a task that is run again leaves an unused file and never a row; a job that fails changes
nothing.
Does not know: what is merged, or how (storage).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from relstate.connector.failure import strip_traceback, unwrap_errors
from relstate.connector.storage_options import location, storage_options
from relstate.connector.task_report import TaskReport, received_reports
from relstate.storage import CompactionJob, CompactionReport, Store, errors

_FORMAT = "relstate_maintenance"
_SPARES_YOUNG = "sparesYoung"
# A conflict means that another process compacts too; so many in a row, that it does not stop.
_ATTEMPTS = 5


def maintain(spark: SparkSession, store: Store, table: str | None) -> CompactionReport:
    """Compact a table, or all, and return a report: see `Database.maintain`."""
    spark.dataSource.register(MaintenanceSource)
    report = CompactionReport(store.epoch)
    for name in _names(store) if table is None else (store.table(table).name,):
        table_report = _compact(spark, store, name)
        sums = {
            field.name: getattr(report, field.name) + getattr(table_report, field.name)
            for field in fields(report)
        }
        report = CompactionReport(**sums | {"epoch": store.epoch})
    return report


def _names(store: Store) -> tuple[str, ...]:
    """Return the names of all tables, views and internal tables included."""
    return tuple(table.definition.name for table in store.state.tables.values())


def _compact(spark: SparkSession, store: Store, table: str) -> CompactionReport:
    for attempt in range(_ATTEMPTS):
        spares_young = attempt > 0
        try:
            job = store.jobs.compaction_job(table, spares_young=spares_young)
        except errors.TableNotFoundError:  # dropped since the state was read
            job = None
        if job is None:
            return CompactionReport(store.epoch)
        try:
            _run(spark, store, table, job.parts, spares_young)
        except (errors.ConflictError, errors.TableNotFoundError):
            continue
        return _committed(store, job)
    raise errors.ConflictError(
        f"{store.path}: other compactions replaced files of table {table!r} {_ATTEMPTS} times; "
        "it was not compacted: run one compaction at a time, or write with fewer writers"
    )


def _run(spark: SparkSession, store: Store, table: str, parts: int, spares_young: bool) -> None:
    writer = spark.range(0, parts, 1, parts).write.format(_FORMAT).mode("append")
    with unwrap_errors():
        writer.options(
            table=table, **{_SPARES_YOUNG: spares_young}, **storage_options(store.path)
        ).save(store.path)


def _committed(store: Store, job: CompactionJob) -> CompactionReport:
    """Return the report of the compaction that replaced the files of a job."""
    entry = next(entry for entry in store.history() if job.inputs.intersection(entry.removed))
    before = store.state_at(entry.epoch - 1).segments
    return CompactionReport(
        entry.epoch,
        len(entry.removed),
        sum(before[name].record.size for name in entry.removed),
        len(entry.added),
        sum(record.size for record in entry.added),
    )


class MaintenanceSource(DataSource):
    """The source whose writer compacts; its rows are the numbers of the parts to run."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return _FORMAT

    @strip_traceback
    def writer(self, schema: StructType, overwrite: bool) -> MaintenanceWriter:
        """Return the writer of a job that is planned now."""
        with Store.open(location(self.options)) as store:
            spares_young = self.options[_SPARES_YOUNG] == "true"
            return MaintenanceWriter(
                store.jobs.compaction_job(self.options["table"], spares_young=spares_young)
            )


class MaintenanceWriter(DataSourceArrowWriter):
    """Runs one compaction; without a job it does nothing. It is sent to the tasks."""

    def __init__(self, job: CompactionJob | None) -> None:
        self._job = job

    @strip_traceback
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Run the parts with the numbers that come, except numbers that no part has."""
        numbers = [number for batch in iterator for number in batch.column(0).to_pylist()]
        if self._job is None:
            return TaskReport(0, ()).message()
        parts = tuple(number for number in numbers if number < self._job.parts)
        segments = self._job.run(parts) if parts else ()
        return TaskReport(self._job.started, segments, parts=parts).message()

    @strip_traceback
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Replace the merged files by what all tasks wrote."""
        if self._job is None:
            return
        reports = received_reports(messages)
        done = sorted(part for report in reports for part in report.parts)
        if done != list(range(self._job.parts)):
            raise errors.ConflictError(
                f"the parts {done} of {self._job.parts} were compacted: files were added or "
                "removed while the job was planned; nothing was committed"
            )
        with Store.open(self._job.path) as store:
            store.jobs.commit_compaction(
                self._job, [segment for report in reports for segment in report.segments]
            )

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Leave the files: a commit that failed may have landed; vacuum removes the others."""
