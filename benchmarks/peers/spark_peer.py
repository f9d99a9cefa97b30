"""What systems that are used through Spark have in common: a session, and the same statements.

Works with Spark 3.5 to 4.3.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from relstate.vnode import cached_property

from .peer import Peer, Work, checksum, counted_groups_query
from .rows import FIRST_TIME, SQL_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CORES = 2
_CHANGES, _KEYS = "peer_changes", "peer_keys"


class SparkPeer(Peer):
    """A system that Spark reads and writes; ``table`` is its name in SQL."""

    table: ClassVar[str] = "t"
    conf: ClassVar[Mapping[str, str]] = {}
    """What the system's documents say that a session needs."""

    def versions(self) -> dict[str, str]:
        """Return the version of Spark and the names of the jars."""
        jars = [Path(jar).stem for jar in _jars()]
        return {"Spark": self.spark.version} | ({"jar": jars[0]} if jars else {})

    def close(self) -> None:
        """End the session and its Java process."""
        if "spark" in self.__dict__:
            self.spark.stop()

    @cached_property
    def spark(self) -> SparkSession:
        """A session of two cores."""
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        from pyspark.sql import SparkSession

        folder = self.folder.with_name(f"{self.folder.name}-spark")
        conf = {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "2g",
            "spark.jars": ",".join(_jars()),
            "spark.local.dir": f"{folder}/local",
            "spark.sql.execution.arrow.pyspark.enabled": "true",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": str(CORES),
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        builder = SparkSession.builder.master(f"local[{CORES}]").appName(f"peer {self.name}")
        for name, value in {**conf, **self.located_conf()}.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        return session

    def located_conf(self) -> dict[str, str]:
        """Return `conf`, with ``{folder}`` replaced."""
        return {
            name: value.replace("{folder}", str(self.folder)) for name, value in self.conf.items()
        }

    def sql(self, text: str) -> DataFrame:
        """Return what a statement gives."""
        return self.spark.sql(text)

    def frame(self, file: str) -> DataFrame:
        """Return the rows of a Parquet file as rows that the driver has in memory."""
        table = pq.read_table(file)
        if int(self.spark.version[0]) < 4:
            schema = ", ".join(
                part for part in SQL_COLUMNS.split(", ") if part.split()[0] in table.column_names
            )
            return self.spark.createDataFrame(table.to_pandas(), schema)
        return self.spark.createDataFrame(table)

    def files(self, folder: str) -> DataFrame:
        """Return the rows of a folder of Parquet files."""
        return self.spark.read.schema(SQL_COLUMNS).parquet(folder)

    # Reads

    def sums(self) -> Work:
        """Add up every column by SQL."""
        query = (
            "SELECT count(*), sum(k), sum(i), sum(d), "
            f"sum(unix_micros(ts) - {FIRST_TIME}), sum(length(s)), sum(m) FROM {self.table}"
        )
        return Work(lambda: self.sql(query).collect(), lambda rows: [str(cell) for cell in rows[0]])

    def groups(self) -> Work:
        """Add up one column by another."""
        query = f"SELECT i, count(*), sum(m) FROM {self.table} GROUP BY i"
        return Work(lambda: self.sql(query).collect(), checksum)

    def counted_groups(self, groups: int, condition: str | None = None) -> Work:
        """Add up one column by a computed value."""
        query = counted_groups_query(self.table, groups, condition)
        return Work(lambda: self.sql(query).collect(), lambda rows: [str(cell) for cell in rows[0]])

    def key_range(self, low: int, high: int) -> Work:
        """Read a range of keys into the driver, as Arrow where Spark can."""
        query = f"SELECT * FROM {self.table} WHERE k BETWEEN {low} AND {high}"
        return Work(lambda: arrow_of(self.sql(query)), count_and_sum)

    def lookup(self, keys: str) -> Work:
        """Read rows, one statement each."""
        values = pq.read_table(keys)["k"].to_pylist()

        def action() -> int:
            return sum(
                self.sql(f"SELECT * FROM {self.table} WHERE k = {key}").collect()[0].i
                for key in values
            )

        return Work(action, lambda total: total, len(values))

    # Changes

    def upsert(self, rows: str) -> Work:
        """Merge rows."""
        return self.merge(rows)

    def merge(self, rows: str) -> Work:
        """Merge rows by SQL."""
        self.frame(rows).createOrReplaceTempView(_CHANGES)
        return Work(lambda: self.merge_view(_CHANGES))

    def merge_view(self, view: str) -> None:
        """Merge the rows of a temporary view."""
        self.sql(
            f"MERGE INTO {self.table} t USING {view} s ON t.k = s.k "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def delete(self, keys: str) -> Work:
        """Delete keys by SQL."""
        self.frame(keys).createOrReplaceTempView(_KEYS)
        statement = f"DELETE FROM {self.table} WHERE k IN (SELECT k FROM {_KEYS})"
        return Work(lambda: self.sql(statement))

    def stream(self, files: str) -> Work:
        """Upsert each file of a folder as a micro-batch, each batch by `write_batch`."""
        return self.streamed(files, self.write_batch)

    def write_batch(self, batch: DataFrame, number: int) -> None:
        """Merge the rows of a micro-batch."""
        batch.createOrReplaceTempView("peer_batch")
        # The batch belongs to the stream's own copy of the session.
        batch.sparkSession.sql(
            f"MERGE INTO {self.table} t USING peer_batch s ON t.k = s.k "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def streamed(self, files: str, write: Callable[[DataFrame, int], None]) -> Work:
        """Return the work of a stream that hands each file to a function."""
        return self.query(files, lambda writer: writer.foreachBatch(write).start())

    def query(self, files: str, start: Callable[[Any], Any]) -> Work:
        """Return the work of a stream of files that ``start`` starts and that ends by itself."""
        checkpoint = self.folder.with_name(f"{self.folder.name}-{Path(files).name}-checkpoint")

        def action() -> None:
            reader = self.spark.readStream.schema(SQL_COLUMNS).option("maxFilesPerTrigger", 1)
            writer = reader.parquet(files).writeStream.trigger(availableNow=True)
            start(writer.option("checkpointLocation", str(checkpoint))).awaitTermination()

        return Work(action)

    # A view as a table that is computed anew

    def create_view(self) -> Work:
        """Compute the view."""
        return self.refresh()

    def refresh(self) -> Work:
        """Replace the view's rows by those of its query."""
        query = f"SELECT i, count(*) AS n, sum(m) AS m FROM {self.table} GROUP BY i"
        return Work(lambda: self.replace_view(self.sql(query)), self.view_checksum)

    def replace_view(self, rows: DataFrame) -> None:
        """Replace all rows of the view."""
        raise NotImplementedError

    def view_checksum(self, _: object = None) -> list[str]:
        """Return the checksum of the rows of the view."""
        return checksum(self.sql("SELECT i, n, m FROM totals").collect())


def arrow_of(frame: DataFrame) -> pa.Table:
    """Return all rows in the driver; Spark 3.5 gives them as pandas, made from Arrow."""
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    return pa.Table.from_pandas(frame.toPandas())


def new_rows(changes: pa.Table) -> list[int]:
    """Return count and sum of the new rows of a feed with the names of Delta and Spark."""
    kinds = pa.array(["insert", "update_postimage"])
    return count_and_sum(changes.filter(pc.is_in(changes["_change_type"], kinds)))


def count_and_sum(table: pa.Table) -> list[int]:
    """Return the number of rows and the sum of ``i``."""
    return [table.num_rows, int(pc.sum(table["i"]).as_py() or 0)]


def _jars() -> list[str]:
    return [jar for jar in os.environ.get("PEER_JARS", "").split(",") if jar]
