"""An index as a read of its table uses it.

Promises: it is read at the table's own epoch and time, so what it finds are the table's rows.
Does not know: which of several indexes is the best.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from ..codec.ragged import sort_order
from ..environment import Environment
from ..errors import CorruptionError, SchemaMismatchError
from ..log.sequenced_segment import SequencedSegment
from ..log.state import StoreState
from ..log.table_definition import TableDefinition
from ..paths import SEGMENTS
from ..predicate.keyspace import key_ranges
from ..predicate.predicate import Predicate
from ..schema.index import IndexDefinition
from ..table.encoding import Encoding
from ..table.secondary import IndexMatches
from ..table.storagetable import StorageTable
from .layout import IndexLayout


@dataclass(frozen=True, slots=True)
class IndexSource:
    """An index and where its entries are, at one epoch. Picklable.

    ``definition``: that of the internal table; ``segments``: those with its rows, the newest first.
    """

    index: IndexDefinition
    definition: TableDefinition
    segments: tuple[SequencedSegment, ...]

    @classmethod
    def all_of(cls, state: StoreState, table: TableDefinition) -> tuple[IndexSource, ...]:
        """Return the indexes of a table in a state."""
        return tuple(
            cls(index, state.tables[index.table_id].definition, state.segments_of(index.table_id))
            for index in table.indexes
        )


class TableIndex:
    """One index of a table at an epoch: see `SecondaryIndex`. Safe between threads."""

    def __init__(
        self,
        environment: Environment,
        table: Encoding,
        source: IndexSource,
        time: Callable[[], int],
        verify: str = "hash",
        epoch: int | None = None,
    ) -> None:
        """``table``: the encoding of the indexed table; the others as `StorageTable` has them."""
        self.name = source.index.name
        self.segments: Sequence[SequencedSegment] = source.segments
        self._environment = environment
        self._table = table
        self._source = source
        self._time = time
        self._verify = verify
        self._epoch = epoch

    @cached_property
    def _layout(self) -> IndexLayout:
        return IndexLayout(self._table, self._source.index, self._source.definition)

    @cached_property
    def rows(self) -> StorageTable:
        """The internal table with the entries."""
        return StorageTable(
            self._environment,
            self._layout.encoding,
            self.segments,
            self._time,
            verify=self._verify,
            epoch=self._epoch,
        )

    @cached_property
    def _key_positions(self) -> list[int]:
        """Where the columns of the table's primary key are in the key of an entry."""
        return [self._layout.encoding.key_names.index(name) for name in self._table.key_names]

    def matches(self, where: Predicate, most: int) -> IndexMatches | None:
        """Return the rows that can match: see `SecondaryIndex.matches`."""
        ranges = key_ranges(where.condition, self._layout.encoding.schema)
        if ranges is None:
            return None
        names = [column.name for column in self._layout.encoding.schema.columns]
        batches: list[pa.RecordBatch] = []
        count = 0
        for batch in self.rows.scan_ranges(names, ranges):
            count += batch.num_rows
            if count > most:
                return None
            batches.append(batch)
        schema = self._layout.encoding.schema.arrow_schema
        rows = pa.concat_batches([pa.RecordBatch.from_pylist([], schema), *batches])
        keys = self._table.encode_keys(self._table.conform_keys(rows.select(self._table.key_names)))
        order = pa.array(sort_order(keys))
        return IndexMatches(self.name, keys.take(order), rows.take(order))

    def primary_keys(self, values: Sequence[Any]) -> list[list[Any]]:
        """Return the primary keys of rows: see `SecondaryIndex.primary_keys`."""
        encoding, most = self._layout.encoding, len(self._source.index.columns)
        if not 1 <= len(values) <= most:
            names = ", ".join(encoding.key_names[:most])
            raise SchemaMismatchError(
                f"the index {self.name!r} of table {self._table.name!r} is on ({names}); "
                f"{len(values)} values were given: give those of the first columns, or of all"
            )
        entries = self.rows.prefix_entries(encoding.encode_key_prefix(values))
        try:
            keys = [encoding.decode_key(key) for key, _ in entries]
        except (ValueError, IndexError, struct.error) as error:
            raise CorruptionError(
                f"{self._environment.local_path(SEGMENTS)}: an entry of the index {self.name!r} of "
                f"table {self._table.name!r} cannot be decoded ({error}); run check to find the "
                "file"
            ) from error
        positions = self._key_positions
        return [[key[position] for position in positions] for key in keys]
