"""Apache Iceberg through Spark: format 3, changes by deletion vectors, rows ordered by the key."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ..peer import MissingError, Work
from ..rows import SQL_COLUMNS
from ..spark_peer import SparkPeer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MERGE_ON_READ = ", ".join(
    f"'write.{change}.mode' = 'merge-on-read'" for change in ("merge", "update", "delete")
)


class IcebergPeer(SparkPeer):
    """A table of a Hadoop catalog in a folder."""

    name = "iceberg"
    table = "peers.db.t"
    settings = (
        "format-version = 3 and merge-on-read: changes write deletion vectors",
        "WRITE ORDERED BY k: files and row groups have narrow ranges of keys",
    )
    conf: ClassVar = {
        "spark.sql.extensions": (
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        ),
        "spark.sql.catalog.peers": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.peers.type": "hadoop",
        "spark.sql.catalog.peers.warehouse": "{folder}",
    }

    def load(self, files: str) -> Work:
        """Write files to a new table."""
        self.sql(f"DROP TABLE IF EXISTS {self.table} PURGE")
        self.sql(
            f"CREATE TABLE {self.table} ({SQL_COLUMNS}) USING iceberg "
            f"TBLPROPERTIES ('format-version' = '3', {_MERGE_ON_READ})"
        )
        self.sql(f"ALTER TABLE {self.table} WRITE ORDERED BY k")
        rows = self.files(files)
        return Work(lambda: rows.writeTo(self.table).append())

    def feed(self) -> Work:
        """Refuse."""
        raise MissingError("create_changelog_view refuses tables with merge-on-read changes")

    def create_view(self) -> Work:
        """Compute the view into a table."""
        self.sql("CREATE TABLE peers.db.totals (i INT, n BIGINT, m DECIMAL(22,2)) USING iceberg")
        return self.refresh()

    def replace_view(self, rows: DataFrame) -> None:
        """Overwrite the table of the view."""
        from pyspark.sql.functions import lit

        rows.writeTo("peers.db.totals").overwrite(lit(True))

    def view_checksum(self, _: object = None) -> list[str]:
        """Return the checksum of the rows of the view."""
        from ..peer import checksum

        return checksum(self.sql("SELECT i, n, m FROM peers.db.totals").collect())

    def compact(self) -> Work:
        """Rewrite all files in the order of the key."""
        statement = (
            "CALL peers.system.rewrite_data_files(table => 'db.t', strategy => 'sort', "
            "options => map('rewrite-all', 'true'))"
        )
        return Work(lambda: self.sql(statement).collect())

    def stored(self) -> Work:
        """Find the bytes after files of older snapshots are removed."""
        self.sql(
            "CALL peers.system.expire_snapshots(table => 'db.t', "
            "older_than => TIMESTAMP '2999-01-01', retain_last => 1)"
        ).collect()
        return super().stored()


PEER = IcebergPeer
