"""Batches of changes that are written to one table, each as one epoch and once.

Does not know: what a change is, or how rows become changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from relstate.connector.local_rows import known_rows, table_of
from relstate.connector.sink.write_plan import plan_batch
from relstate.connector.storage_options import storage_options
from relstate.connector.types import arrow_schema_of
from relstate.storage import WriteTarget, errors


@dataclass(frozen=True, slots=True)
class BatchWrite:
    """The write of one batch.

    ``application`` names the writer of writes that must happen once, ``version`` numbers the batch
    among the writer's. ``op_column``: the column of the operation of each row, if there is one.
    """

    target: WriteTarget
    application: str | None
    version: int | None
    op_column: str | None = None

    def driver_rows(self, rows: DataFrame) -> pa.Table | None:
        """Return the rows if the driver has them and may write them; else None."""
        # Only a task knows of which streaming query a write is part.
        if self.version is not None and self.application is None:
            return None
        batches = known_rows(rows)
        return None if batches is None else table_of(batches, arrow_schema_of(rows.schema))

    def by_driver(self, batches: Iterable[pa.RecordBatch], schema: StructType) -> None:
        """Write rows that the driver has, without a job."""
        options = {**self._options, "path": self.target.path}
        plan = plan_batch(options, schema, overwrite=False)
        plan.commit([plan.write(iter(batches))])

    def by_job(self, rows: DataFrame) -> None:
        """Write the rows of a frame by a job."""
        writer = rows.write.format("relstate").mode("append").options(**self._options)
        writer.save(self.target.path)

    @property
    def _options(self) -> dict[str, str]:
        options = {"table": self.target.definition.name, **storage_options(self.target.path)}
        if self.op_column is not None:
            options["opColumn"] = self.op_column
        if self.application is not None:
            options["txnAppId"] = self.application
        if self.version is not None:
            options["txnVersion"] = str(self.version)
        return options


def check_batch(*stream_arguments: Any) -> None:
    """OptionError for an argument of streams, whose source is a batch."""
    if any(argument is not None for argument in stream_arguments):
        raise errors.OptionError(
            "checkpoint, trigger and query_name are for a stream, and the source is a batch: pass "
            "a DataFrame of spark.readStream, or leave them out and pass txn_app_id and "
            "txn_version, with which a batch is applied once"
        )


def start_stream(
    source: DataFrame,
    write: Callable[[DataFrame, int], None],
    checkpoint: str | None,
    trigger: Mapping[str, Any] | None,
    name: str | None,
) -> StreamingQuery:
    """Start a query that calls ``write`` with every micro-batch and its number."""
    if checkpoint is None:
        raise errors.OptionError("a stream of changes needs checkpoint: name an empty folder")
    writer = source.writeStream.foreachBatch(write)
    writer = writer.option("checkpointLocation", checkpoint).outputMode("append")
    writer = writer if name is None else writer.queryName(name)
    return (writer if trigger is None else writer.trigger(**trigger)).start()
