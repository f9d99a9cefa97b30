"""How the rows of one task reach those of the next fragment: as rows of Spark, or in packets.

Spark distributes rows one by one, and turns each from Arrow into a row of its own and back. Where
a task of ours has the rows, it distributes them itself: the changes for each unit become one
*packet*, the Arrow message of a batch, in a control row for that unit. Spark then moves a few large
rows in place of many small ones.

Promises: a row is in the packet of the unit that owns its vnode, as Spark would compute it.
Does not know: what the rows are, or which tasks exchange them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from relstate.storage import types
from relstate.vnode import VnodeMapping, vnodes_of

from .plan.node import Names
from .wire import change_batches, control_rows, wire_fields, wire_schema

# A task that has its rows in pieces makes packets of so many at once.
_PACKED_ROWS = 1 << 17
# About, and of wide rows at least one: a row of Spark has at most 2 GiB.
_PACKET_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class RowOutput:
    """Changes with some fields as rows of the wire. Travels to tasks."""

    fields: tuple[types.Field, ...]

    @property
    def wire_fields(self) -> tuple[types.Field, ...]:
        """The columns of the rows that Spark gets."""
        return wire_fields(self.fields)

    @property
    def schema(self) -> pa.Schema:
        """The schema of these rows."""
        return wire_schema(self.fields)

    def batches(self, chunks: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the changes of chunks."""
        for chunk in chunks:
            yield from change_batches(chunk, self.schema)


@dataclass(frozen=True, slots=True)
class PacketOutput:
    """Changes with some fields in packets, each for a unit of the next fragment. Travels to tasks.

    ``distribution``: the fields by which the units own them; without one, all are for unit 0.
    """

    fields: tuple[types.Field, ...]
    distribution: Names
    mapping: VnodeMapping

    @property
    def wire_fields(self) -> tuple[types.Field, ...]:
        """The columns of the rows that Spark gets."""
        return wire_fields(())

    @property
    def schema(self) -> pa.Schema:
        """The schema of these rows."""
        return wire_schema(())

    def batches(self, chunks: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the packets of chunks, as control rows."""
        for chunk in _gathered(chunks):
            for unit, rows in self._by_unit(chunk):
                for part in _small_parts(rows):
                    yield control_rows([unit], part.serialize().to_pybytes(), self.schema)

    def _by_unit(self, chunk: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        if not self.distribution:
            yield 0, chunk
            return
        columns = [chunk.column(name) for name in self.distribution]
        owners = np.array(self.mapping.owners, np.uint16)
        units = owners[vnodes_of(columns, self.mapping.vnode_count)]
        order = np.argsort(units, kind="stable")
        rows = chunk.take(pa.array(order))
        bounds = np.searchsorted(units[order], np.arange(self.mapping.units + 1))
        for unit in np.flatnonzero(np.diff(bounds)).tolist():
            yield unit, rows.slice(bounds[unit], bounds[unit + 1] - bounds[unit])


TaskOutput: TypeAlias = RowOutput | PacketOutput
"""How a task hands the rows that it has over."""


def _small_parts(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield rows in parts of about `_PACKET_BYTES` bytes."""
    count = min(-(-rows.nbytes // _PACKET_BYTES), rows.num_rows)
    size = -(-rows.num_rows // max(count, 1))
    for start in range(0, rows.num_rows, size):
        yield rows.slice(start, size)


def _gathered(chunks: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield chunks of at least `_PACKED_ROWS` rows, but for the last."""
    pieces: list[pa.RecordBatch] = []
    rows = 0
    for chunk in chunks:
        pieces.append(chunk)
        rows += chunk.num_rows
        if rows >= _PACKED_ROWS:
            yield pa.concat_batches(pieces)
            pieces, rows = [], 0
    if rows:
        yield pa.concat_batches(pieces)
