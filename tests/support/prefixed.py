"""Tables of random rows that are read by prefixes of their keys, and the expected results."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from relstate.storage import Proposal, Store, TableSchema, types
from relstate.storage.log.proposal import NewTable
from relstate.storage.schema.ddl import parse_columns
from relstate.storage.table.encoding import Encoding

Values = tuple[Any, ...]
Draw = Callable[[random.Random], Any]


@dataclass(frozen=True)
class Prefixed:
    """A table whose rows begin with the values of its key, in the key's order."""

    name: str
    columns: str
    primary_key: tuple[str, ...]
    distribution_key: tuple[str, ...]
    draws: tuple[Draw, ...]
    least: int = 1

    @property
    def schema(self) -> TableSchema:
        """The table's schema; key columns may be NULL unless they are declared NOT NULL."""
        fields: Sequence[types.Field] = parse_columns(self.columns)
        return TableSchema.build(fields, self.primary_key, self.distribution_key, nullable_key=True)

    def create(self, store: Store) -> None:
        """Create the table."""
        proposal = Proposal(
            operation="create",
            started=store.environment.now(),
            created_tables=(NewTable(self.name, self.schema),),
        )
        store.jobs.commit(proposal)

    def key(self, draw: random.Random) -> Values:
        """Return a random key."""
        return tuple(draw_value(draw) for draw_value in self.draws)

    def batch(self, rows: Sequence[Values], columns: int | None = None) -> pa.RecordBatch:
        """Return the first columns, all by default, of rows as a batch."""
        schema = self.schema.arrow_schema
        count = len(schema) if columns is None else columns
        return pa.RecordBatch.from_arrays(
            [
                pa.array([row[index] for row in rows], schema.field(index).type)
                for index in range(count)
            ],
            names=schema.names[:count],
        )

    def sorted(self, encoding: Encoding, rows: dict[Values, Values]) -> list[Values]:
        """Return rows in key order."""
        return [rows[key] for key in sorted(rows, key=lambda key: encoding.encode_key(key)[6:])]
