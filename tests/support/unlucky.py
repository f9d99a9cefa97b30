"""A data source to which accidents happen, and a driver program that uses it.

    python -m support.unlucky <store> <folder of JSON files> <folder for checkpoints and accidents>

An accident is a file in ``accidents``; it happens once, where it is named after:

    before-3    the driver is killed when it is about to commit micro-batch 3
    after-3     ... when it has committed it, and before Spark knows
    task-3-0    the first attempt of task 0 of micro-batch 3 fails when it has written everything

With ``foreach-`` before them the first two happen to the writer for foreachBatch. Killed means
SIGKILL, for the JVM and for the Python process that started it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

import relstate
from relstate.connector.source import RelstateDataSource
from support.processes import parent_of


class UnluckySource(RelstateDataSource):
    """The source of relstate under another name, with an option for the folder of accidents."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "unlucky"

    def streamWriter(  # noqa: N802 - Spark's name
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        """Return the writer of relstate, made unlucky."""
        accidents = Path(self.options.pop("accidents"))
        return UnluckyWriter(super().streamWriter(schema, overwrite), accidents)


class UnluckyWriter(DataSourceStreamArrowWriter):
    """Wraps a writer and makes the accidents happen."""

    def __init__(self, writer: Any, accidents: Path) -> None:
        self._writer = writer
        self._accidents = accidents

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task."""
        message: WriterCommitMessage = self._writer.write(iterator)
        context = TaskContext.get()
        assert context is not None
        batch = context.getLocalProperty("streaming.sql.batchId")
        if happens(self._accidents / f"task-{batch}-{context.partitionId()}"):
            raise RuntimeError("an accident")
        return message

    def commit(
        self,
        messages: Sequence[WriterCommitMessage | None],
        batchId: int,  # noqa: N803 - Spark's name
    ) -> None:
        """Commit one micro-batch."""
        if happens(self._accidents / f"before-{batchId}"):
            kill(*ancestors_of_worker())
        self._writer.commit(messages, batchId)
        if happens(self._accidents / f"after-{batchId}"):
            kill(*ancestors_of_worker())

    def abort(
        self,
        messages: Sequence[WriterCommitMessage | None],
        batchId: int,  # noqa: N803 - Spark's name
    ) -> None:
        """Abort one micro-batch."""
        self._writer.abort(messages, batchId)


def happens(accident: Path) -> bool:
    """Return whether an accident is planned, and cancel it."""
    try:
        accident.unlink()
    except FileNotFoundError:
        return False
    return True


def ancestors_of_worker() -> tuple[int, int]:
    """Return the process ids of the JVM and of the driver program of this Python worker."""
    daemon = os.getppid()
    jvm = parent_of(daemon)
    return jvm, parent_of(jvm)


def kill(*processes: int) -> None:
    """Kill processes, and this one, without a chance to do anything more."""
    for process in (*processes, os.getpid()):
        os.kill(process, signal.SIGKILL)


def main(store: str, source: str, folder: str) -> None:
    """Write all files that are there through the sink, then through foreachBatch."""
    settings: dict[str, bool | float | int | str | None] = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    spark = SparkSession.builder.master("local[2,3]").config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(UnluckySource)
    accidents = Path(folder, "accidents")
    rows = spark.readStream.schema("id BIGINT, customer STRING").option("maxFilesPerTrigger", 1)
    stream = rows.json(source).repartition(2).writeStream.trigger(availableNow=True)

    sink = stream.format("unlucky").option("table", "sunk").option("accidents", str(accidents))
    sink.option("checkpointLocation", f"{folder}/sink").start(store).awaitTermination()

    write = relstate.connect(spark, store).writer("written")

    def unlucky_write(batch: DataFrame, number: int) -> None:
        gateway = spark.sparkContext._gateway
        assert gateway is not None
        jvm = gateway.proc.pid
        if happens(accidents / f"foreach-before-{number}"):
            kill(jvm)
        write(batch, number)
        if happens(accidents / f"foreach-after-{number}"):
            kill(jvm)

    checkpoint = f"{folder}/foreach"
    query = stream.foreachBatch(unlucky_write).option("checkpointLocation", checkpoint).start()
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
