"""The full compaction of a store: one job and one commit per group of tables that share files.

A job is Spark tasks of one or more shards each, or the driver's work where it reads little.

Promises: a job that fails changes nothing.
Does not know: what is merged, or how (storage); how tasks report (sink/numbered_parts.py).
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from relstate.connector.sink.numbered_parts import write_parts
from relstate.storage import CompactionReport, Store, errors

# A conflict means that another process compacts too; so many in a row, that it does not stop.
_ATTEMPTS = 5


def maintain(spark: SparkSession, store: Store, table: str | None) -> CompactionReport:
    """Compact a table, or all, and return a report: see `Database.maintain`."""
    report = CompactionReport(store.epoch)
    for name in _names(store) if table is None else (store.table(table).name,):
        report = report.plus(_compact(spark, store, name))
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
        segments = write_parts(spark, job.part, job.parts, job.merge.size)
        try:
            return store.jobs.commit_compaction(job, segments)
        except (errors.ConflictError, errors.TableNotFoundError):
            continue
    raise errors.ConflictError(
        f"{store.path}: other compactions replaced files of table {table!r} {_ATTEMPTS} times; "
        "it was not compacted: run one compaction at a time, or write with fewer writers"
    )
