"""Plain Parquet files through Spark: a bound for reads, which cannot be changed."""

from __future__ import annotations

import shutil

from ..peer import MissingError, Work
from ..spark_peer import SparkPeer


class ParquetPeer(SparkPeer):
    """A folder of Parquet files."""

    name = "parquet"
    settings = ("zstd level 3, as the lakehouse formats write by default",)

    def load(self, files: str) -> Work:
        """Write files again, in their order."""
        shutil.rmtree(self.folder, ignore_errors=True)
        rows = self.files(files)

        def action() -> None:
            rows.write.option("compression", "zstd").parquet(str(self.folder))
            self.spark.read.parquet(str(self.folder)).createOrReplaceTempView("t")

        return Work(action)

    def merge(self, rows: str) -> Work:
        """Refuse."""
        raise MissingError("files cannot be changed by key")

    def delete(self, keys: str) -> Work:
        """Refuse."""
        raise MissingError("files cannot be changed by key")

    def stream(self, files: str) -> Work:
        """Refuse."""
        raise MissingError("files cannot be changed by key")

    def create_view(self) -> Work:
        """Refuse."""
        raise MissingError("its rows cannot change")

    def refresh(self) -> Work:
        """Refuse."""
        raise MissingError("its rows cannot change")


PEER = ParquetPeer
