"""Apache Hudi through Spark: a table of kind merge-on-read with the bucket index."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from ..peer import Work
from ..spark_peer import CORES, SparkPeer, arrow_of, count_and_sum

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BUCKETS = 8


class HudiPeer(SparkPeer):
    """A table in a folder that Spark's session catalog names."""

    name = "hudi"
    settings = (
        "type = mor with hoodie.index.type = BUCKET: upserts look up no key",
        f"{_BUCKETS} buckets, {CORES} tasks per shuffle: the tables are small",
        "hoodie.record.merge.mode = COMMIT_TIME_ORDERING: the later write wins, as elsewhere",
    )
    conf: ClassVar = {
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    }

    @property
    def _options(self) -> dict[str, Any]:
        return {
            "hoodie.table.name": "t",
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.datasource.write.recordkey.field": "k",
            "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
            "hoodie.datasource.write.partitionpath.field": "",
            "hoodie.datasource.write.keygenerator.class": (
                "org.apache.hudi.keygen.NonpartitionedKeyGenerator"
            ),
            "hoodie.index.type": "BUCKET",
            "hoodie.bucket.index.num.buckets": str(_BUCKETS),
            "hoodie.upsert.shuffle.parallelism": str(CORES),
            "hoodie.delete.shuffle.parallelism": str(CORES),
            "hoodie.bulkinsert.shuffle.parallelism": str(CORES),
        }

    def _write(self, rows: DataFrame, operation: str, mode: str = "append") -> None:
        options = {**self._options, "hoodie.datasource.write.operation": operation}
        rows.write.format("hudi").options(**options).mode(mode).save(f"{self.folder}/t")

    def load(self, files: str) -> Work:
        """Insert files in bulk into a new table."""
        self.sql("DROP TABLE IF EXISTS t")
        shutil.rmtree(self.folder, ignore_errors=True)
        rows = self.files(files)

        def action() -> None:
            self._write(rows, "bulk_insert", "overwrite")
            self.sql(f"CREATE TABLE t USING hudi LOCATION '{self.folder}/t'")
            for name, value in self._options.items():
                self.spark.conf.set(name, value)

        return Work(action)

    def sql(self, text: str) -> DataFrame:
        """Return what a statement gives; ``*`` has no columns of Hudi's own."""
        return super().sql(text.replace("SELECT *", "SELECT k, i, d, ts, s, m"))

    def upsert(self, rows: str) -> Work:
        """Upsert rows by the data source."""
        frame = self.frame(rows)
        return Work(lambda: self._upsert(frame))

    def _upsert(self, rows: DataFrame) -> None:
        self._write(rows, "upsert")
        self.sql("REFRESH TABLE t")

    def write_batch(self, batch: DataFrame, number: int) -> None:
        """Upsert the rows of a micro-batch."""
        self._write(batch, "upsert")

    def stream(self, files: str) -> Work:
        """Upsert each file of a folder as a micro-batch."""
        work = super().stream(files)

        def action() -> None:
            work.action()
            self.sql("REFRESH TABLE t")

        return Work(action)

    def mark(self) -> Work:
        """Remember the last commit."""
        return Work(self._mark)

    def _mark(self) -> None:
        self._marked = self._last_commit()

    def _last_commit(self) -> str:
        rows = self.sql("SELECT max(_hoodie_commit_time) AS last FROM t").collect()
        return str(rows[0].last)

    def feed(self) -> Work:
        """Read the new rows of the commits since `mark`; Hudi gives no old rows here."""
        reader = self.spark.read.format("hudi").options(
            **{
                "hoodie.datasource.query.type": "incremental",
                "hoodie.datasource.read.begin.instanttime": self._completed_after(),
            }
        )

        def action() -> pa.Table:
            return arrow_of(reader.load(f"{self.folder}/t").select("k", "i", "d", "ts", "s", "m"))

        return Work(action, count_and_sum)

    def _completed_after(self) -> str:
        commits = self.sql("CALL show_commits(table => 't', limit => 100)").collect()
        return str(
            max(row.state_transition_time for row in commits if row.commit_time <= self._marked)
        )

    def replace_view(self, rows: DataFrame) -> None:
        """Overwrite a Parquet table: a table format has nothing to add to a whole replacement."""
        rows.write.mode("overwrite").option("path", f"{self.folder}/totals").saveAsTable("totals")

    def compact(self) -> Work:
        """Schedule and run the compaction of all log files."""

        def action() -> None:
            self.sql("CALL run_compaction(op => 'schedule', table => 't')").collect()
            self.sql("CALL run_compaction(op => 'run', table => 't')").collect()
            self.sql("REFRESH TABLE t")

        return Work(action)

    def stored(self) -> Work:
        """Find the bytes after files of older commits are removed."""
        self.sql("CALL run_clean(table => 't', retain_commits => 1)").collect()
        return super().stored()


PEER = HudiPeer
