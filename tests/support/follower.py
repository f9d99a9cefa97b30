"""A driver that follows a table of orders, one epoch per micro-batch, and may be killed in any.

    python -m support.follower STORE FOLDER

Each micro-batch is written to ``FOLDER/batches``; if there is a file ``FOLDER/kill-N``, the process
kills itself right after it has written micro-batch N, before Spark knows that it is done.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def main(path: str, folder: Path) -> None:
    """Follow the table until there is nothing new."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    reader = spark.readStream.format("relstate")
    reader = reader.options(table="orders", readChangeFeed="true", maxEpochsPerTrigger=1)

    def write(rows: DataFrame, batch: int) -> None:
        changes = rows.select("_change_type", "_commit_version", "id", "customer").collect()
        (folder / "batches" / f"{batch}.json").write_text(json.dumps(sorted(map(list, changes))))
        kill_file = folder / f"kill-{batch}"
        if kill_file.exists():
            kill_file.unlink()
            os.kill(os.getpid(), signal.SIGKILL)

    writer = reader.load(path).writeStream.foreachBatch(write).trigger(availableNow=True)
    writer.option("checkpointLocation", str(folder / "checkpoint")).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
