"""The full compaction of a store as Spark jobs: one job and one commit per table.

Promises: a job that fails changes nothing.
Does not know: what tasks of such a job do (sink/compaction.py), what is merged, or how (storage).
"""

from __future__ import annotations

from dataclasses import fields

from pyspark.sql import SparkSession

from relstate.connector.failure import unwrap_errors
from relstate.connector.sink.compaction import (
    COMPACTION_FORMAT,
    SPARES_YOUNG,
    CompactionSource,
)
from relstate.connector.storage_options import storage_options
from relstate.storage import CompactionJob, CompactionReport, Store, errors

# A conflict means that another process compacts too; so many in a row, that it does not stop.
_ATTEMPTS = 5


def maintain(spark: SparkSession, store: Store, table: str | None) -> CompactionReport:
    """Compact a table, or all, and return a report: see `Database.maintain`."""
    spark.dataSource.register(CompactionSource)
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
    writer = spark.range(0, parts, 1, parts).write.format(COMPACTION_FORMAT).mode("append")
    with unwrap_errors():
        writer.options(
            table=table, **{SPARES_YOUNG: spares_young}, **storage_options(store.path)
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
