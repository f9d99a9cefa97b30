"""relstate through Spark, and its lookups without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pyarrow.parquet as pq

from relstate.vnode import cached_property

from ..peer import Work
from ..rows import SQL_COLUMNS
from ..spark_peer import SparkPeer, arrow_of, new_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from relstate import Database, Store

_VIEW = "SELECT i, count(*) AS n, sum(m) AS m FROM t GROUP BY i"


class RelstatePeer(SparkPeer):
    """A table with a primary key; every write is synced to the disk."""

    name = "relstate"

    def versions(self) -> dict[str, str]:
        """Return the versions of Spark and of relstate."""
        import relstate

        return super().versions() | {"relstate": relstate.__version__}

    @cached_property
    def store(self) -> Store:
        """The store."""
        import relstate

        self.folder.mkdir(parents=True, exist_ok=True)
        return relstate.create(str(self.folder))

    @cached_property
    def database(self) -> Database:
        """The store, for this session."""
        import relstate

        return relstate.connect(self.spark, self.store.path)

    def sql(self, text: str) -> DataFrame:
        """Return what a statement of relstate's SQL gives."""
        return self.database.sql(text)

    def load(self, files: str) -> Work:
        """Write files to a new table."""
        self.store.drop_table("t", if_exists=True)
        self.store.vacuum(retention=0)
        columns = SQL_COLUMNS.replace("k BIGINT", "k BIGINT NOT NULL")
        self.store.create_table("t", columns, primary_key=["k"])
        return Work(lambda: self.database.write(self.files(files), "t", mode="append"))

    def upsert(self, rows: str) -> Work:
        """Write rows, which replaces those of the same keys."""
        frame = self.frame(rows)
        return Work(lambda: self.database.write(frame, "t", mode="append"))

    def stream(self, files: str) -> Work:
        """Write by the streaming sink."""
        return self.query(
            files,
            lambda writer: writer.format("relstate").option("table", "t").start(str(self.folder)),
        )

    def get(self, keys: str) -> Work:
        """Get rows from the store."""
        table, values = self.store.table("t"), pq.read_table(keys)["k"].to_pylist()

        def action() -> int:
            total = 0
            for key in values:
                row = table.get(key)
                assert row is not None
                total += row.i
            return total

        return Work(action, lambda total: total, len(values))

    def get_many(self, keys: str) -> Work:
        """Get rows as Arrow."""
        table, wanted = self.store.table("t"), pq.read_table(keys).combine_chunks().to_batches()[0]
        return Work(lambda: table.get_rows(wanted), lambda rows: int(pc.sum(rows["i"]).as_py()))

    def mark(self) -> Work:
        """Remember the epoch."""
        return Work(self._mark)

    def _mark(self) -> None:
        self._marked = self.store.epoch

    def feed(self) -> Work:
        """Read old and new rows of the epochs since `mark`."""
        reader = self.spark.read.format("relstate").options(
            table="t", readChangeFeed="true", startingVersion=self._marked + 1
        )
        return Work(lambda: arrow_of(reader.load(str(self.folder))), new_rows)

    def create_view(self) -> Work:
        """Create a materialized view."""
        return Work(lambda: self.sql(f"CREATE MATERIALIZED VIEW totals AS {_VIEW}"))

    def refresh(self) -> Work:
        """Refresh the view by what has changed."""
        return Work(self.database.refresh, self.view_checksum)

    def compact(self) -> Work:
        """Compact by Spark tasks."""
        return Work(lambda: self.database.maintain("t"))

    def stored(self) -> Work:
        """Find the bytes after those of older epochs are removed."""
        self.store.vacuum(retention=0)
        return super().stored()


PEER = RelstatePeer
