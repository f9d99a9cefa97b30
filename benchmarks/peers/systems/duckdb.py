"""DuckDB in the process, on a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from relstate.vnode import cached_property

from ..peer import Work
from ..rows import FIRST_TIME
from ..sql_peer import SqlPeer

_TABLE = (
    "CREATE OR REPLACE TABLE t (k BIGINT PRIMARY KEY, i INTEGER, d DOUBLE, ts TIMESTAMPTZ, "
    "s VARCHAR, m DECIMAL(12,2))"
)


class DuckdbPeer(SqlPeer):
    """A table with a primary key, which is an index."""

    name = "duckdb"
    settings = (
        "2 threads",
        "rows to write and rows that are read as Arrow",
        "micro-batches are transactions of the process, without Spark",
    )
    micros = f"epoch_us(ts) - {FIRST_TIME}"

    def versions(self) -> dict[str, str]:
        """Return the version of DuckDB."""
        import duckdb

        return {"DuckDB": duckdb.__version__}

    def close(self) -> None:
        """Close the file."""
        if "connection" in self.__dict__:
            self.connection.close()

    @cached_property
    def connection(self) -> Any:
        """A connection to a file."""
        import duckdb

        self.folder.mkdir(parents=True, exist_ok=True)
        connection = duckdb.connect(str(self.folder / "peer.duckdb"))
        connection.execute("SET threads = 2")
        return connection

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a statement."""
        rows: list[tuple[Any, ...]] = self.connection.execute(statement, values).fetchall()
        return rows

    def load(self, files: str) -> Work:
        """Insert from the files."""
        self.execute("DROP TABLE IF EXISTS totals")
        self.execute(_TABLE)
        return Work(lambda: self.execute(f"INSERT INTO t SELECT * FROM '{files}/*.parquet'"))

    def key_range(self, low: int, high: int) -> Work:
        """Read a range of keys as Arrow."""
        query = f"SELECT * FROM t WHERE k BETWEEN {low} AND {high}"

        def action() -> pa.Table:
            return self.connection.sql(query).to_arrow_table()

        return Work(action, lambda rows: [rows.num_rows, sum(rows["i"].to_pylist())])

    def get_many(self, keys: str) -> Work:
        """Join the keys."""
        wanted = pq.read_table(keys)
        self.connection.register("wanted", wanted)
        query = "SELECT t.* FROM wanted JOIN t USING (k)"

        def action() -> pa.Table:
            return self.connection.sql(query).to_arrow_table()

        return Work(action, lambda rows: sum(rows["i"].to_pylist()))

    def write(self, rows: pa.Table) -> None:
        """Insert or replace rows."""
        self.connection.register("changes", rows)
        self.execute("INSERT OR REPLACE INTO t SELECT * FROM changes")

    def merge(self, rows: str) -> Work:
        """Merge rows."""
        self.connection.register("changes", pq.read_table(rows))
        return Work(
            lambda: self.execute(
                "MERGE INTO t USING changes s ON t.k = s.k WHEN MATCHED THEN UPDATE SET i = s.i, "
                "d = s.d, ts = s.ts, s = s.s, m = s.m WHEN NOT MATCHED THEN INSERT"
            )
        )

    def delete(self, keys: str) -> Work:
        """Delete keys."""
        self.connection.register("gone", pq.read_table(keys))
        return Work(lambda: self.execute("DELETE FROM t WHERE k IN (SELECT k FROM gone)"))

    def compact(self) -> Work:
        """Write the log into the file."""
        return Work(lambda: self.execute("CHECKPOINT"))

    def stored(self) -> Work:
        """Find the bytes after a checkpoint."""
        self.execute("CHECKPOINT")
        return super().stored()


PEER = DuckdbPeer
