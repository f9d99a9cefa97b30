"""What a task needs to read or write a table: values that travel.

Promises: a plan names its epoch, its segments and its schema, so that all tasks of a read see the
same rows, whatever is committed meanwhile, and none reads the log.
Does not know: who sends it where.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from relstate.vnode import VnodeMapping

from .environment import Environment, LocalEnvironment
from .log.entry import TableDefinition
from .log.state import PlacedSegment
from .table.encoding import RowEncoding
from .table.storagetable import StorageTable
from .table.tablewriter import TableWriter


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """One table at one epoch. Picklable.

    ``segments``: those with rows of the table, the newest first. ``time``: microseconds since
    1970; rows that had expired by then are not seen. ``columns``: None for all.
    """

    path: str
    definition: TableDefinition
    vnode_count: int
    epoch: int
    segments: tuple[PlacedSegment, ...]
    time: int
    columns: tuple[str, ...] | None = None
    verify: str = "hash"

    @property
    def stored_bytes(self) -> int:
        """The stored bytes of the table's rows, of older versions too."""
        table_id = self.definition.table_id
        return sum(placed.record.stored_bytes(table_id) for placed in self.segments)

    def partitions(self, count: int) -> tuple[tuple[range, ...], ...]:
        """Return the vnodes of each of ``count`` parallel units (at most one a vnode)."""
        mapping = VnodeMapping.balanced(self.vnode_count, min(count, self.vnode_count))
        return tuple(mapping.ranges_of(unit) for unit in range(mapping.units))

    def open(self, environment: Environment | None = None) -> StorageTable:
        """Return the table, ready to be read in this process."""
        encoding = RowEncoding(self.definition, self.vnode_count)
        environment = environment or LocalEnvironment(self.path)
        return StorageTable(environment, encoding, self.segments, verify=self.verify)

    def read(self, vnodes: tuple[range, ...]) -> Iterator[pa.RecordBatch]:
        """Yield the visible rows of some vnodes as batches of the plan's columns."""
        return self.open().scan(self.columns, vnodes=vnodes)

    def arrow_schema(self) -> pa.Schema:
        """Return the Arrow schema of the batches that `read` yields."""
        schema = self.definition.schema
        if self.columns is None:
            return schema.arrow_schema
        fields = [schema.arrow_schema.field(schema.column(name).name) for name in self.columns]
        return pa.schema(fields)


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """One table to write to. Picklable."""

    path: str
    definition: TableDefinition
    vnode_count: int
    shards: int

    def open(self, environment: Environment | None = None) -> TableWriter:
        """Return a writer for one task of this process."""
        encoding = RowEncoding(self.definition, self.vnode_count)
        environment = environment or LocalEnvironment(self.path)
        return TableWriter(environment, encoding, self.shards)
