"""What databases that are called in the process or over a socket have in common: the statements.

A subclass gives a cursor, and says how it writes what the dialects write differently.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from .peer import Peer, Work, checksum, counted_groups_query


class SqlPeer(Peer):
    """A database with the table ``t``."""

    parameter: ClassVar[str] = "?"
    micros: ClassVar[str]
    """An expression for the microseconds of ``ts`` since the first time of the rows."""

    amount: ClassVar[str] = "sum(m)"

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a statement, committed."""
        raise NotImplementedError

    def write(self, rows: pa.Table) -> None:
        """Insert or replace rows in one durable transaction."""
        raise NotImplementedError

    # Reads

    def sums(self) -> Work:
        """Add up every column."""
        query = f"SELECT count(*), sum(k), sum(i), sum(d), sum({self.micros}), sum(length(s)), "
        return Work(
            lambda: self.execute(query + f"{self.amount} FROM t"),
            lambda rows: [str(cell) for cell in rows[0]],
        )

    def groups(self) -> Work:
        """Add up one column by another."""
        query = f"SELECT i, count(*), {self.amount} FROM t GROUP BY i"
        return Work(lambda: self.execute(query), checksum)

    def counted_groups(self, groups: int, condition: str | None = None) -> Work:
        """Add up one column by a computed value."""
        query = counted_groups_query("t", groups, condition)
        return Work(lambda: self.execute(query), lambda rows: [str(cell) for cell in rows[0]])

    def key_range(self, low: int, high: int) -> Work:
        """Fetch a range of keys."""
        query = f"SELECT * FROM t WHERE k BETWEEN {low} AND {high}"
        return Work(lambda: self.execute(query), lambda rows: [len(rows), sum(r[1] for r in rows)])

    def lookup(self, keys: str) -> Work:
        """Fetch rows, one statement each, its key in the text."""
        values = pq.read_table(keys)["k"].to_pylist()

        def action() -> int:
            return sum(self.execute(f"SELECT * FROM t WHERE k = {key}")[0][1] for key in values)

        return Work(action, lambda total: total, len(values))

    def get(self, keys: str) -> Work:
        """Fetch rows, one statement each, prepared, its key as a parameter."""
        values = pq.read_table(keys)["k"].to_pylist()
        query = f"SELECT * FROM t WHERE k = {self.parameter}"

        def action() -> int:
            return sum(self.execute(query, (key,))[0][1] for key in values)

        return Work(action, lambda total: total, len(values))

    # Changes

    def upsert(self, rows: str) -> Work:
        """Insert or replace rows."""
        table = pq.read_table(rows)
        return Work(lambda: self.write(table))

    def stream(self, files: str) -> Work:
        """Insert or replace the rows of each file in a transaction."""
        tables = [pq.read_table(file) for file in sorted(Path(files).glob("*.parquet"))]

        def action() -> None:
            for table in tables:
                self.write(table)

        return Work(action)

    # A view that is computed anew

    def create_view(self) -> Work:
        """Compute a table."""
        query = f"SELECT i, count(*) AS n, {self.amount} AS m FROM t GROUP BY i"
        return Work(lambda: self.execute(f"CREATE TABLE totals AS {query}"))

    def refresh(self) -> Work:
        """Compute the table again."""
        query = f"SELECT i, count(*) AS n, {self.amount} AS m FROM t GROUP BY i"

        def action() -> None:
            self.execute("DELETE FROM totals")
            self.execute(f"INSERT INTO totals {query}")

        return Work(action, lambda _: checksum(self.execute("SELECT i, n, m FROM totals")))
