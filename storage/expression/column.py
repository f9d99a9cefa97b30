"""A column of the table, as a value.

Does not know: other expressions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from ..schema import types as t
from ..schema.schema import TableSchema
from .value import Failures, Value, no_failures


@dataclass(frozen=True, slots=True)
class ColumnValue(Value):
    """A column of the table."""

    name: str
    type: t.DataType
    is_nullable: bool = True

    @classmethod
    def named(cls, name: str, schema: TableSchema) -> ColumnValue:
        """Return a column of a table. SchemaError if there is none of the name."""
        column = schema.column(name)
        return cls(column.name, column.type, column.nullable)

    @property
    def nullable(self) -> bool:
        """Whether the column may be NULL."""
        return self.is_nullable

    def computed(self, rows: pa.RecordBatch) -> tuple[pa.Array, Failures]:
        """Return the column; nothing fails."""
        return rows.column(self.name), no_failures(rows)

    def columns(self) -> Iterator[str]:
        """Yield its name."""
        yield self.name
