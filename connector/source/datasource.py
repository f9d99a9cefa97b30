"""The data source: what Spark makes of ``format("relstate")``.

Promises: a set of options that cannot work fails here, on the driver, before a task runs.
Does not know: how rows are read or written.

Spark imports this module in every session, and makes an object of the class in processes that
have no SparkSession; so what a call needs is imported by the call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from relstate.connector.failure import reported

if TYPE_CHECKING:
    from relstate.connector.options import ReadOptions


class RelstateDataSource(DataSource):
    """Tables of a relstate store: batch read, batch write, and a streaming sink."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "relstate"

    @reported
    def schema(self) -> StructType:
        """Return the schema of the table, or of the columns asked for, at the epoch asked for."""
        from relstate.connector import catalog
        from relstate.connector.options import read_options

        if not catalog.is_definition(self.options):
            return _schema_of(read_options(self.options))
        options = catalog.definition_options(self.options)
        return catalog.with_options(_schema_of(read_options(options)), options)

    @reported
    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of one epoch, chosen now: the latest unless an option names one."""
        from relstate.connector import catalog
        from relstate.connector.options import read_options

        from .reader import plan_reader

        return plan_reader(read_options(catalog.recalled(schema, self.options)), schema)

    @reported
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a batch: an upsert, or the replacement of all rows."""
        from relstate.connector import catalog
        from relstate.connector.options import write_options
        from relstate.connector.sink.batch import BatchWriter
        from relstate.connector.sink.job import plan_write

        catalog.check_destination(self.options)
        return BatchWriter(plan_write(write_options(self.options), schema, overwrite=overwrite))

    @reported
    def streamWriter(  # noqa: N802 - Spark's name
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        """Return the writer of micro-batches: upserts, or in complete mode replacements."""
        from relstate.connector import catalog
        from relstate.connector.options import stream_options
        from relstate.connector.sink.job import plan_write
        from relstate.connector.sink.stream import StreamWriter

        catalog.check_destination(self.options)
        return StreamWriter(plan_write(stream_options(self.options), schema, overwrite=overwrite))


def _schema_of(options: ReadOptions) -> StructType:
    from .reader import plan_schema

    return plan_schema(options)
