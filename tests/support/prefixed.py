"""Tables of random rows that are read by prefixes of their keys, and the expected results."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from relstate.storage import Kind, Proposal, SegmentRecord, Store, TableSchema, types
from relstate.storage.log.proposal import NewTable
from relstate.storage.schema.ddl import parse_columns
from relstate.storage.segment import segment as segment_module
from relstate.storage.segment.page import LayoutError, Pages
from relstate.storage.table.encoding import Encoding
from support.stores import committed

Values = tuple[Any, ...]
Rows = dict[Values, Values]
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
        size = encoding.prefix.size
        return [rows[key] for key in sorted(rows, key=lambda key: encoding.encode_key(key)[size:])]

    def change(self, store: Store, rows: Rows, draw: random.Random) -> None:
        """Commit random changes as one epoch, in several segments of which the last wins."""
        segments: list[SegmentRecord] = []
        for _ in range(draw.choice([1, 1, 2, 3])):
            keys = {self.key(draw) for _ in range(draw.choice([1, 20, 150]))}
            deleted = {key for key in [*rows, *keys] if draw.random() < 0.3}
            put = {key: (*key, draw.choice([None, "", "v", "w" * 300])) for key in keys - deleted}
            writer = store.jobs.write_target(self.name).open(store.environment)
            if put:
                writer.write(self.batch(list(put.values())))
            if deleted:
                kinds = np.full(len(deleted), Kind.DELETE, np.uint8)
                writer.write(self.batch(list(deleted), len(self.draws)), kinds)
            segments += writer.finish()
            rows |= put
            for key in deleted:
                rows.pop(key, None)
        committed(store, segments)


def without_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no file have the layout of pages that is read in bulk."""

    def fail(_buffer: Any) -> Pages:
        raise LayoutError("another layout")

    monkeypatch.setattr(segment_module, "Pages", fail)
