"""The data source of ``format("relstate")``.

Spark imports this module in every session, when it looks for installed sources. So the module
imports nothing of the storage; each call imports what it needs.
Does not know: options, stores, rows.
"""

from __future__ import annotations

from collections.abc import MutableMapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType


class RelstateDataSource(DataSource):
    """Tables of a relstate store: read and written, in batches and as streams."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """SessionError in a version of Spark that relstate does not work with.

        Only now: what failed in an import would hide every other Python data source from Spark.
        """
        from relstate.connector.spark.version import check_version, pyspark_version

        check_version(pyspark_version())
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "relstate"

    def schema(self) -> StructType:
        """Return the schema that a read with these options has."""
        from .read import plan_schema

        return plan_schema(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of one epoch, chosen now: the latest unless an option names one.

        With ``readChangeFeed``, the reader of the changes in a range of epochs.
        """
        from .read import plan_reader

        return plan_reader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return the stream of a table's changes, or one that raises why there is none."""
        from .stream import RefusedStream, plan_stream

        try:
            return plan_stream(self.options, schema)
        except Exception as error:
            # What is raised here is lost: Spark's runner then stops a reader that it does not have.
            return RefusedStream(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a batch: an upsert, or the replacement of all rows."""
        from relstate.connector.sink.write_plan import plan_batch

        return plan_batch(self.options, schema, overwrite=overwrite)

    def streamWriter(  # noqa: N802 - Spark's name
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        """Return the writer of micro-batches: upserts, or in complete mode replacements."""
        from relstate.connector.sink.write_plan import plan_stream

        return plan_stream(self.options, schema, overwrite=overwrite)
