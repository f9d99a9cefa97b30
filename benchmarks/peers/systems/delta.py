"""Delta Lake through Spark: deletion vectors, liquid clustering by the key, a change data feed."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, ClassVar

from ..peer import Work
from ..rows import SQL_COLUMNS
from ..spark_peer import SparkPeer, arrow_of, new_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PROPERTIES = (
    "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.enableChangeDataFeed' = 'true')"
)


class DeltaPeer(SparkPeer):
    """A table in a folder that Spark's session catalog names."""

    name = "delta"
    settings = (
        "CLUSTER BY (k): liquid clustering, for lookups, ranges and MERGE by key",
        "delta.enableDeletionVectors = true: changes rewrite no file",
        "delta.enableChangeDataFeed = true: for the change feed",
    )
    conf: ClassVar = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    }

    def load(self, files: str) -> Work:
        """Write files to a new table."""
        self.sql("DROP TABLE IF EXISTS t")
        shutil.rmtree(self.folder, ignore_errors=True)
        self.sql(
            f"CREATE TABLE t ({SQL_COLUMNS}) USING delta CLUSTER BY (k) {_PROPERTIES} "
            f"LOCATION '{self.folder}/t'"
        )
        rows = self.files(files)
        return Work(lambda: rows.write.format("delta").mode("append").saveAsTable("t"))

    def delete(self, keys: str) -> Work:
        """Delete keys by MERGE: Delta's DELETE takes no subquery."""
        self.frame(keys).createOrReplaceTempView("peer_keys")
        return Work(
            lambda: self.sql("MERGE INTO t USING peer_keys s ON t.k = s.k WHEN MATCHED THEN DELETE")
        )

    def mark(self) -> Work:
        """Remember the version."""
        return Work(self._mark)

    def _mark(self) -> None:
        self._marked = self._version()

    def _version(self) -> int:
        version: int = self.sql("DESCRIBE HISTORY t LIMIT 1").collect()[0].version
        return version

    def feed(self) -> Work:
        """Read old and new rows of the versions since `mark`."""
        reader = self.spark.read.option("readChangeFeed", "true")
        reader = reader.option("startingVersion", self._marked + 1)
        return Work(lambda: arrow_of(reader.table("t")), new_rows)

    def replace_view(self, rows: DataFrame) -> None:
        """Overwrite the table of the view."""
        writer = rows.write.format("delta").mode("overwrite")
        writer.option("path", f"{self.folder}/totals").saveAsTable("totals")

    def compact(self) -> Work:
        """Rewrite files as OPTIMIZE decides for the clustering."""
        return Work(lambda: self.sql("OPTIMIZE t").collect())

    def stored(self) -> Work:
        """Find the bytes after files of older versions are removed."""
        self.sql("VACUUM t RETAIN 0 HOURS").collect()
        return super().stored()


PEER = DeltaPeer
