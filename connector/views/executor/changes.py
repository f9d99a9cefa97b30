"""Chunks, which are the changes of an epoch: made, transformed by steps, and sorted by key.

A *chunk* is an Arrow record batch of changes: `OP_COLUMN` (int8, see `Op`; odd codes insert, even
ones delete) and the columns of the rows. A chunk is *net*: for one key of the input operator it has
at most one delete, of the row before the epoch, and one insert, of the row after it. Rows come in
any order; an update is its delete and its insert.

Promises: the same changes in another order give equal `Changes`; these are checked to be net. The
result of a step depends on the chunk alone.
Does not know: which operator the changes are for; tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from relstate.storage import OP_COLUMN, Op, RowCodec, arrow, errors, ragged, types

from .rowkeys import RowKeys, Rows, first_positions, number_sorted_keys
from .state import State

Mask = NDArray[np.bool_]

# Rows that are encoded at once: what is made of them takes several times their memory.
_WRITTEN_ROWS = 1 << 17


@dataclass(frozen=True, slots=True)
class Changes:
    """Changed rows sorted by ``keys``; for one key the delete comes before the insert."""

    rows: pa.RecordBatch
    keys: ragged.Bytes
    inserts: Mask

    @classmethod
    def of(cls, rows: pa.RecordBatch, inserts: Mask, row_keys: RowKeys, where: str) -> Changes:
        """Return the changes of a chunk.

        ConsistencyError, which names ``where``, if a key is inserted or deleted twice.
        """
        keys = row_keys.encode(rows)
        # The sort below is stable: deletes stay first.
        by_op = np.concatenate([np.flatnonzero(~inserts), np.flatnonzero(inserts)])
        order = by_op[ragged.sort_order(keys.take(pa.array(by_op)))]
        if len(order) and (order[1:] < order[:-1]).any():
            positions = pa.array(order)
            rows, keys, inserts = rows.take(positions), keys.take(positions), inserts[order]
        _check_net(rows, keys, inserts, row_keys, where)
        return cls(rows, keys, inserts)

    def __len__(self) -> int:
        return len(self.inserts)

    def slice(self, start: int, stop: int) -> Changes:
        """Return a run of the changes."""
        length = stop - start
        return Changes(
            self.rows.slice(start, length),
            self.keys.slice(start, length),
            self.inserts[start:stop],
        )

    def filtered(self, mask: Mask) -> Changes:
        """Return the changes that ``mask`` marks."""
        if mask.all():
            return self
        arrow_mask = pa.array(mask)
        return Changes(
            self.rows.filter(arrow_mask), self.keys.filter(arrow_mask), self.inserts[mask]
        )

    def write_to(self, state: State, names: Sequence[str]) -> None:
        """Put inserted rows, delete keys without an insert; ``names``: the state's columns."""
        if not len(self):
            return
        starts = first_positions(number_sorted_keys(self.keys))
        lasts = np.append(starts[1:], len(self)) - 1
        rows = self.rows.select(list(names))
        for start in range(0, len(lasts), _WRITTEN_ROWS):
            written = lasts[start : start + _WRITTEN_ROWS]
            deleted = ~self.inserts[written]
            state.write(rows.take(pa.array(written)), deleted if deleted.any() else None)


def _check_net(
    rows: pa.RecordBatch, keys: ragged.Bytes, inserts: Mask, row_keys: RowKeys, where: str
) -> None:
    if len(keys) < 2:
        return
    is_repeated = ragged.equal_neighbours(keys) & (inserts[1:] == inserts[:-1])
    if is_repeated.any():
        row = int(np.flatnonzero(is_repeated)[0]) + 1
        verb = "inserted" if inserts[row] else "deleted"
        raise errors.ConsistencyError(
            f"{where}: the row with {row_keys.describe(rows, row)} is {verb} twice in one epoch; "
            "the key of the operator's input does not identify its rows: "
            "drop the view and create it again"
        )


def chunk_schema(fields: Sequence[types.Field]) -> pa.Schema:
    """Return the schema of chunks of rows with these fields."""
    return pa.schema([pa.field(OP_COLUMN, pa.int8(), nullable=False), *arrow.arrow_schema(fields)])


def make_chunk(schema: pa.Schema, rows: pa.RecordBatch, inserts: Mask) -> pa.RecordBatch:
    """Return the chunk of ``rows``, which have the columns of ``schema`` except the op.

    A column that is missing in ``rows`` is NULL.
    """
    ops = pa.array(np.where(inserts, Op.INSERT, Op.DELETE).astype(np.int8))
    names = set(rows.schema.names)
    columns = [
        rows.column(field.name) if field.name in names else pa.nulls(len(inserts), field.type)
        for field in list(schema)[1:]
    ]
    return pa.RecordBatch.from_arrays([ops, *columns], schema=schema)


def with_schema(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of a schema, in its order and types, of rows read from a state."""
    return pa.RecordBatch.from_arrays(rows.select(schema.names).columns, schema=schema)


def empty_chunk(schema: pa.Schema) -> pa.RecordBatch:
    """Return a chunk without rows."""
    return pa.RecordBatch.from_pylist([], schema)


def replacement_chunk(
    schema: pa.Schema, rows: pa.RecordBatch, deletes: Rows, inserts: Rows
) -> pa.RecordBatch:
    """Return the chunk that deletes some of ``rows`` and inserts others, by their positions."""
    changed_rows = rows.take(pa.array(np.concatenate([deletes, inserts])))
    return make_chunk(schema, changed_rows, np.arange(changed_rows.num_rows) >= len(deletes))


def equal_rows(
    fields: Sequence[types.Field],
    left: pa.RecordBatch,
    left_rows: Rows,
    right: pa.RecordBatch,
    right_rows: Rows,
) -> Mask:
    """Return for each pair of rows, by their positions, whether they are equal, bit for bit.

    ``fields``: those that are compared.
    """
    if not fields or not len(left_rows):
        return np.ones(len(left_rows), np.bool_)
    codec = RowCodec([field.type for field in fields])
    names = [field.name for field in fields]
    encoded = [
        codec.encode(batch.select(names).take(pa.array(rows)).columns, b"")
        for batch, rows in ((left, left_rows), (right, right_rows))
    ]
    equal: Mask = np.asarray(pc.equal(*encoded))
    return equal


def insert_mask(chunk: pa.RecordBatch) -> NDArray[np.bool_]:
    """Return for every row of a chunk whether it is inserted; the others are deleted."""
    inserts: NDArray[np.bool_] = (np.asarray(chunk.column(OP_COLUMN)) & 1).astype(bool)
    return inserts


class Step(Protocol):
    """A function from chunk to chunk."""

    @property
    def fields(self) -> tuple[types.Field, ...]:
        """The fields of the chunks that it returns."""

    def run(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Return the resulting chunk."""


def run_steps(steps: Sequence[Step], chunk: pa.RecordBatch) -> pa.RecordBatch:
    """Return the chunk after all steps, applied in order."""
    for step in steps:
        chunk = step.run(chunk)
    return chunk


@dataclass(frozen=True, slots=True)
class SelectStep:
    """Selects, orders and renames columns: for each the source field and the new field."""

    sources: tuple[str, ...]
    fields: tuple[types.Field, ...]

    def run(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Return the chunk with these columns."""
        columns = [chunk.column(source) for source in self.sources]
        return pa.RecordBatch.from_arrays(
            [chunk.column(0), *columns], schema=chunk_schema(self.fields)
        )
