"""The writer for ``foreachBatch``: update mode needs it, which Spark refuses to Python sinks.

Promises: a micro-batch becomes visible at one epoch and once, over retries, restarts and a killed
driver, as with the streaming sink; a second write of one micro-batch to one table is an error, and
never skipped in silence.
Does not know: the query whose batches it writes. The tasks get it from Spark.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from relstate.connector.failure import unwrap_errors
from relstate.connector.storage_options import storage_options
from relstate.storage import WriteTarget, errors

from .metadata_columns import check_order
from .shuffle import shuffle_by_vnode, writing_tasks


@dataclass(frozen=True, slots=True)
class ForeachBatchWriter:
    """Upserts each micro-batch into one table. It holds no session, so it can be pickled.

    ``application`` replaces the query's own id, as Spark Connect needs; ``partitions``: how many
    tasks write, None to let the writer choose; ``clustered``: all changes of a key are in one
    partition, in order. ``ttl``, ``ttl_column``, ``patch`` and ``bad_rows`` are
    the options of a write.
    """

    target: WriteTarget
    application: str | None = None
    operation_column: str | None = None
    partitions: int | None = None
    clustered: bool = False
    ttl: str | None = None
    ttl_column: str | None = None
    patch: bool = False
    bad_rows: str | None = None

    def __post_init__(self) -> None:
        """OptionError for arguments that do not fit each other, or the table."""
        if self.partitions is not None and self.partitions < 1:
            raise errors.OptionError(f"partitions must be 1 or more, not {self.partitions}")
        if self.operation_column is not None:
            check_order(self.target.definition, self.clustered, "op_column", "clustered=True")
        if self._keeps_order and self.partitions is not None:
            raise errors.OptionError(
                "clustered=True keeps rows in their partitions; leave out partitions"
            )

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write one micro-batch. Errors are relstate's own, unwrapped."""
        with unwrap_errors():
            self.write(self._shuffled(batch), batch_id)

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Write one micro-batch without a shuffle. Errors are those of Spark that wrap our own."""
        writer = batch.write.format("relstate").mode("append")
        writer.options(**self._options(batch_id), **storage_options(self.target.path))
        writer.save(self.target.path)

    @property
    def _keeps_order(self) -> bool:
        """Whether a shuffle would lose the order of a key's changes."""
        return self.operation_column is not None and self.clustered

    def _shuffled(self, batch: DataFrame) -> DataFrame:
        if self._keeps_order:
            return batch
        units = self.partitions or writing_tasks(batch)
        if units is None:
            return batch
        target = self.target
        return shuffle_by_vnode(batch, target.definition.schema, target.vnode_count, units)

    def _options(self, batch_id: int) -> dict[str, str]:
        options = {"table": self.target.definition.name, "txnVersion": str(batch_id)}
        if self.application is not None:
            options["txnAppId"] = self.application
        if self.operation_column is not None:
            options["opColumn"] = self.operation_column
        if self._keeps_order:
            options["clustered"] = "true"
        if self.ttl is not None:
            options["ttl"] = self.ttl
        if self.ttl_column is not None:
            options["ttlColumn"] = self.ttl_column
        if self.patch:
            options["patch"] = "true"
        if self.bad_rows is not None:
            options["badRows"] = self.bad_rows
        return options
