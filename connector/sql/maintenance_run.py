"""Runs the statements that look after tables and their files.

Does not know: how statements are written, or how files are compacted.
"""

from __future__ import annotations

from dataclasses import astuple

from pyspark.sql import SparkSession

from relstate.connector.syntax.tokens import quoted
from relstate.storage import Store, restored_columns

from . import dml_run
from .dml import Insert
from .dml_run import DmlRunner
from .maintenance import maintain
from .maintenance_statements import Analyze, MaintenanceStatement, Optimize, Restore, Vacuum
from .query_reader import QueryReader
from .result import Result

_COMPACTION = (
    "epoch BIGINT NOT NULL, files_read BIGINT NOT NULL, bytes_read BIGINT NOT NULL, "
    "files_written BIGINT NOT NULL, bytes_written BIGINT NOT NULL"
)
_VACUUM = "files BIGINT NOT NULL, bytes BIGINT NOT NULL, oldest_epoch BIGINT NOT NULL"
_NOTE = (
    "nothing was computed: relstate counts rows and bytes in every commit, and Spark is told the "
    "rows of a table when it plans a query"
)


class MaintenanceRunner:
    """The statements of maintenance, over one store in one session."""

    def __init__(self, spark: SparkSession, store: Store, dml: DmlRunner) -> None:
        self._spark = spark
        self._store = store
        self._dml = dml

    def run(self, statement: MaintenanceStatement) -> Result:
        """Run a statement and return its rows. The errors of the store, and of an INSERT."""
        match statement:
            case Optimize(table):
                report = maintain(self._spark, self._store, table)
                return Result([astuple(report)], _COMPACTION)
            case Vacuum(retention, dry_run):
                removed = self._store.vacuum(retention, dry_run=dry_run)
                return Result([(removed.files, removed.bytes, removed.oldest_epoch)], _VACUUM)
            case Analyze(table):
                self._store.state.table(table)
                return Result([(_NOTE,)], "note STRING NOT NULL")
            case Restore():
                restored = self._dml.run(self._restoring_insert(statement))
                return Result([restored.row()], dml_run.SCHEMA)

    def _restoring_insert(self, statement: Restore) -> Insert:
        """Return the INSERT OVERWRITE that brings back the rows of an epoch.

        The columns are those of the table now, whatever they were called then. TableNotFoundError
        if the table did not exist at the epoch, SchemaError if it had a column that was dropped.
        """
        epoch = QueryReader(self._spark, self._store).epoch_of(statement.as_of)
        now = self._store.state.table(statement.table).definition
        then = restored_columns(now, self._store.state_at(epoch))
        names = tuple(column.name for column in now.schema.visible_columns)
        items = [
            quoted(then.old_names[name]) if name in then.old_names else "NULL" for name in names
        ]
        query = f"SELECT {', '.join(items)} FROM {quoted(then.old_table)} VERSION AS OF {epoch}"
        return Insert(now.name, query, names, overwrite=True)
