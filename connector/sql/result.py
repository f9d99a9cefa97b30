"""The result of a statement that is not a query: a few rows.

Does not know: statements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from relstate.storage import arrow, ddl


@dataclass(frozen=True, slots=True)
class Result:
    """Rows, and their schema in Spark's DDL."""

    rows: list[tuple[Any, ...]]
    schema: str

    def table(self) -> pa.Table:
        """Return the rows as Arrow, which a session takes over without a task of Spark's."""
        columns = arrow.arrow_schema(ddl.parse_columns(self.schema))
        rows = [dict(zip(columns.names, row, strict=True)) for row in self.rows]
        return pa.Table.from_pylist(rows, columns)


def epoch_result(epoch: int) -> Result:
    """Return the result of a statement that makes an epoch."""
    return Result([(epoch,)], "epoch BIGINT NOT NULL")
