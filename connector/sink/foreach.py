"""The writer for ``foreachBatch``, which update mode needs: Spark keeps it from Python sinks.

Promises: a micro-batch becomes visible at one epoch and once, over retries, restarts and a driver
that is killed, as with the streaming sink; a second write of one micro-batch to one table is an
error, never left out in silence.
Does not know: the query whose batches it writes. The tasks learn it from Spark.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from relstate.connector.failure import unwrapped
from relstate.storage import WriteTarget

from .shuffle import shuffled, units_worth


@dataclass(frozen=True, slots=True)
class ForeachBatchWriter:
    """Upserts each micro-batch into one table. Holds no session, so that it travels.

    ``application`` stands for the query's own id, as Spark Connect needs; ``partitions``: how
    many tasks write, None to let the writer choose.
    """

    target: WriteTarget
    application: str | None = None
    operation_column: str | None = None
    partitions: int | None = None

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write one micro-batch. Errors are relstate's own where it has one."""
        with unwrapped():
            writer = self._gathered(batch).write.format("relstate").mode("append")
            writer.options(**self._options(batch_id)).save(self.target.path)

    def _gathered(self, batch: DataFrame) -> DataFrame:
        if self.operation_column is not None:
            # A shuffle would lose the order of a key's changes.
            return batch
        units = self.partitions or units_worth(batch)
        if units is None:
            return batch
        target = self.target
        return shuffled(batch, target.definition.schema, target.vnode_count, units)

    def _options(self, batch_id: int) -> dict[str, str]:
        options = {"table": self.target.definition.name, "txnVersion": str(batch_id)}
        if self.application is not None:
            options["txnAppId"] = self.application
        if self.operation_column is not None:
            options |= {"opColumn": self.operation_column, "clustered": "true"}
        return options
