"""PostgreSQL: a server of Debian's package, which this peer starts and stops."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from relstate.vnode import cached_property

from ..peer import Work, checksum
from ..rows import FIRST_TIME
from ..sql_peer import SqlPeer

_COLUMNS = "k bigint, i integer, d double precision, ts timestamptz, s text, m numeric(12,2)"
_NAMES = ("i", "d", "ts", "s", "m")
_SET = ", ".join(f"{name} = excluded.{name}" for name in _NAMES)
_MERGE = (
    "MERGE INTO t USING changes s ON t.k = s.k "
    f"WHEN MATCHED THEN UPDATE SET {', '.join(f'{name} = s.{name}' for name in _NAMES)} "
    "WHEN NOT MATCHED THEN INSERT VALUES (s.k, s.i, s.d, s.ts, s.s, s.m)"
)
# Debian keeps the programs of each version in a folder of its own.
_PROGRAMS = "/usr/lib/postgresql"


class PostgresqlPeer(SqlPeer):
    """A table with a primary key, over a Unix socket."""

    name = "postgresql"
    settings = (
        (
            "shared_buffers 1 GB, effective_cache_size 4 GB, work_mem 64 MB, "
            "maintenance_work_mem 512 MB, max_wal_size 4 GB, checkpoint_completion_target 0.9, "
            "random_page_cost 1.1: its documents' advice for an SSD and this memory"
        ),
        "commits are durable (fsync, synchronous_commit)",
        (
            "writes by COPY into a temporary table and INSERT … ON CONFLICT; statements of gets "
            "are prepared; the load is COPY, then the primary key, then VACUUM ANALYZE"
        ),
        "micro-batches are transactions of a Python process, without Spark",
    )
    parameter = "%s"
    micros = f"(extract(epoch FROM ts) * 1000000)::bigint - {FIRST_TIME}"
    _conf: ClassVar = {
        "checkpoint_completion_target": "0.9",
        "effective_cache_size": "4GB",
        "listen_addresses": "",
        "maintenance_work_mem": "512MB",
        "max_wal_size": "4GB",
        "random_page_cost": "1.1",
        "shared_buffers": "1GB",
        "timezone": "UTC",
        "work_mem": "64MB",
    }

    def versions(self) -> dict[str, str]:
        """Return the version of the server."""
        return {"PostgreSQL": self.execute("SHOW server_version")[0][0].split()[0]}

    def close(self) -> None:
        """Stop the server."""
        if "connection" in self.__dict__:
            self.connection.close()
        if "_server" in self.__dict__:
            self._server.terminate()
            self._server.wait(60)

    @cached_property
    def _server(self) -> subprocess.Popen[bytes]:
        """The server's process, ready for connections."""
        programs = _programs()
        self.folder.mkdir(parents=True, exist_ok=True)
        as_user: dict[str, Any] = {}
        if os.geteuid() == 0:
            # The server refuses to run as root.
            account = pwd.getpwnam("postgres")
            shutil.chown(self.folder, account.pw_uid, account.pw_gid)
            as_user = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        data = self.folder / "data"
        subprocess.run(
            [programs / "initdb", "-D", data, "-U", "peer", "-A", "trust", "-E", "UTF8"],
            check=True,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            **as_user,
        )
        settings = [part for item in self._conf.items() for part in ("-c", "=".join(item))]
        server = subprocess.Popen(
            [programs / "postgres", "-D", data, "-k", self._socket_folder(), *settings],
            cwd=self.folder,
            **as_user,
        )
        return server

    def _socket_folder(self) -> str:
        return str(self.folder)

    @cached_property
    def connection(self) -> Any:
        """A connection that commits each statement."""
        import time

        import psycopg

        server = self._server
        for _ in range(300):
            try:
                connection = psycopg.connect(
                    host=self._socket_folder(), user="peer", dbname="postgres", autocommit=True
                )
                break
            except psycopg.OperationalError:
                if server.poll() is not None:
                    raise
                time.sleep(0.1)
        # Binary results, and prepared statements from their first use.
        connection.prepare_threshold = 1
        return connection

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a statement."""
        with self.connection.cursor(binary=bool(values)) as cursor:
            cursor.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []

    def load(self, files: str) -> Work:
        """Copy the files into a new table."""
        for table in ("totals", "t"):
            self.execute(
                f"DROP {'TABLE' if table == 't' else 'MATERIALIZED VIEW'} IF EXISTS {table}"
            )
        self.execute(f"CREATE TABLE t ({_COLUMNS})")

        def action() -> None:
            for file in sorted(Path(files).glob("*.parquet")):
                self._copy("t", pq.read_table(file))
            self.execute("ALTER TABLE t ADD PRIMARY KEY (k)")
            self.execute("VACUUM ANALYZE t")

        return Work(action)

    def _copy(self, table: str, rows: pa.Table) -> None:
        """Copy rows into a table, as CSV that Arrow writes."""
        import pyarrow.csv as csv

        sink = pa.BufferOutputStream()
        csv.write_csv(rows, sink, csv.WriteOptions(include_header=False))
        with (
            self.connection.cursor() as cursor,
            cursor.copy(f"COPY {table} FROM STDIN WITH (FORMAT csv)") as copy,
        ):
            copy.write(memoryview(sink.getvalue()))

    def _staged(self, rows: pa.Table, statement: str, columns: str = _COLUMNS) -> None:
        """Execute a statement over rows in a temporary table ``changes``, in one transaction."""
        with self.connection.transaction():
            self.execute(f"CREATE TEMP TABLE changes ({columns}) ON COMMIT DROP")
            self._copy("changes", rows)
            self.execute(statement)

    def get_many(self, keys: str) -> Work:
        """Fetch the rows of an array of keys."""
        values = pq.read_table(keys)["k"].to_pylist()
        query = "SELECT t.* FROM unnest(%s::bigint[]) AS wanted (k) JOIN t USING (k)"
        return Work(lambda: self.execute(query, (values,)), lambda rows: sum(r[1] for r in rows))

    def write(self, rows: pa.Table) -> None:
        """Insert or replace rows."""
        self._staged(
            rows, f"INSERT INTO t SELECT * FROM changes ON CONFLICT (k) DO UPDATE SET {_SET}"
        )

    def merge(self, rows: str) -> Work:
        """Merge rows."""
        table = pq.read_table(rows)
        return Work(lambda: self._staged(table, _MERGE))

    def delete(self, keys: str) -> Work:
        """Delete keys."""
        table = pq.read_table(keys)
        statement = "DELETE FROM t USING changes WHERE t.k = changes.k"
        return Work(lambda: self._staged(table, statement, "k bigint"))

    def create_view(self) -> Work:
        """Create a materialized view."""
        return self._view(
            "CREATE MATERIALIZED VIEW totals AS "
            "SELECT i, count(*) AS n, sum(m) AS m FROM t GROUP BY i"
        )

    def refresh(self) -> Work:
        """Compute the view again."""
        return self._view("REFRESH MATERIALIZED VIEW totals")

    def _view(self, statement: str) -> Work:
        def answer(_: Any) -> Any:
            return checksum(self.execute("SELECT i, n, m FROM totals"))

        return Work(lambda: self.execute(statement), answer)

    def compact(self) -> Work:
        """Write the table anew."""
        return Work(lambda: self.execute("VACUUM FULL t"))

    def stored(self) -> Work:
        """Find the bytes of the table and its index, without the server's log."""
        query = "SELECT pg_total_relation_size('t')"
        return Work(lambda: self.execute(query)[0][0] / 1e6)


def _programs() -> Path:
    found = sorted(Path(_PROGRAMS).glob("*/bin/postgres"), key=lambda path: float(path.parts[-3]))
    if not found:
        raise FileNotFoundError(f"no PostgreSQL below {_PROGRAMS}: apt-get install postgresql")
    return found[-1].parent


PEER = PostgresqlPeer
