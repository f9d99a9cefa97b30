"""An index as a read of its table uses it.

Promises: it is read at the table's own epoch and time, so what it finds are the table's rows.
Does not know: which of several indexes is the best.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from relstate.vnode import cached_property

from ..codec.ragged import Bytes, Positions, expand, first_of_equal, sort_order
from ..environment import Environment
from ..errors import CorruptionError, SchemaMismatchError
from ..log.sequenced_segment import SequencedSegment
from ..log.state import StoreState
from ..log.table_definition import TableDefinition
from ..paths import SEGMENTS
from ..schema.index import IndexDefinition
from ..table.encoding import Encoding
from ..table.pointget import RowFinder
from ..table.prefixget import EntryReader, PrefixGet
from ..table.record import Row, row_type
from ..table.secondary import IndexMatches
from ..table.storagetable import StorageTable
from .layout import IndexLayout

if TYPE_CHECKING:
    from ..predicate.predicate import Predicate

_Shape: TypeAlias = tuple[type[Row], list[int]]


@dataclass(frozen=True, slots=True)
class IndexSource:
    """An index and where its entries are, at one epoch. Picklable.

    ``definition``: that of the internal table; ``segments``: those with its rows, the newest first.
    """

    index: IndexDefinition
    definition: TableDefinition
    segments: Sequence[SequencedSegment]

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
        self._width = len(source.index.columns)
        self._environment = environment
        self._table = table
        self._source = source
        self._time = time
        self._verify = verify
        self._epoch = epoch
        self._shapes: dict[tuple[str, ...] | None, _Shape | None] = {}

    @cached_property
    def _layout(self) -> IndexLayout:
        return IndexLayout(self._table, self._source.index, self._source.definition)

    @cached_property
    def _entries(self) -> StorageTable:
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

    @cached_property
    def _ends_with_key(self) -> bool:
        """Whether the keys of entries end with the primary keys of their rows, byte by byte."""
        stop = self._width + len(self._key_positions)
        return self._key_positions == [*range(self._width, stop)]

    def matches(self, where: Predicate, most: int) -> IndexMatches | None:
        """Return the rows that can match: see `SecondaryIndex.matches`."""
        from ..predicate.keyspace import key_ranges

        ranges = key_ranges(where.condition, self._layout.encoding.schema)
        if ranges is None:
            return None
        names = [column.name for column in self._layout.encoding.schema.columns]
        batches: list[pa.RecordBatch] = []
        count = 0
        for batch in self._entries.scan_ranges(names, ranges):
            count += batch.num_rows
            if count > most:
                return None
            batches.append(batch)
        schema = self._layout.encoding.schema.arrow_schema
        rows = pa.concat_batches([pa.RecordBatch.from_pylist([], schema), *batches])
        keys = self._table.encode_keys(self._table.conform_keys(rows.select(self._table.key_names)))
        order = pa.array(sort_order(keys))
        return IndexMatches(self._table.prefix, self.name, keys.take(order), rows.take(order))

    def keys(self, values: Sequence[Any]) -> list[tuple[Sequence[Any], bytes]]:
        """Return the primary and full keys of rows: see `SecondaryIndex.keys`."""
        prefix = self._prefix(values)
        entries = self._entries.prefix_entries(prefix)
        try:
            if self._ends_with_key and len(values) == self._width:
                start, locate = len(prefix), self._table.locate
                return [locate(key[start:]) for key, _ in entries]
            decode = self._layout.encoding.decode_key
            entry_keys = [decode(key) for key, _ in entries]
        except (ValueError, IndexError, struct.error) as error:
            raise self._damaged_entry_error(error) from error
        positions = self._key_positions
        keys = [[key[position] for position in positions] for key in entry_keys]
        return [(key, self._table.encode_key(key)) for key in keys]

    def find(self, values: pa.RecordBatch) -> tuple[Positions, Bytes]:
        """Return (indices, full keys) of rows: see `SecondaryIndex.find`."""
        if not values.num_rows:
            return np.empty(0, np.int64), pa.array([], pa.large_binary())
        self._check_width(values.num_columns)
        prefixes = self._layout.encoding.encode_prefixes(values)
        distinct = pa.array(first_of_equal(prefixes))
        matches, entries = self._entries.prefix_scan(values.take(distinct), self._table.key_names)
        keys = self._table.encode_keys(self._table.conform_keys(entries))
        counts = np.bincount(matches, minlength=len(distinct))
        owners = np.asarray(pc.index_in(prefixes, value_set=prefixes.take(distinct)))
        positions = expand((np.cumsum(counts) - counts)[owners], counts[owners])
        return np.repeat(np.arange(len(owners)), counts[owners]), keys.take(pa.array(positions))

    def rows(self, values: Sequence[Any], names: tuple[str, ...] | None) -> list[Row] | None:
        """Return columns of rows if the index holds them: see `SecondaryIndex.rows`."""
        shape = self._shape(names)
        if shape is None:
            return None
        encoding = self._layout.encoding
        entries = self._entries.prefix_entries(self._prefix(values))
        try:
            rows = [encoding.decode_row(encoding.decode_key(key), value) for key, value in entries]
        except (ValueError, IndexError, struct.error) as error:
            raise self._damaged_entry_error(error) from error
        make, positions = shape
        plain = [tuple(row) for row in rows if row is not None]
        return [make(row[position] for position in positions) for row in plain]

    def prefix_get(self, names: tuple[str, ...] | None, find: RowFinder | None) -> PrefixGet | None:
        """Return the quickest lookup of all columns' values: see `SecondaryIndex.prefix_get`."""
        if not self._ends_with_key:
            return None
        shape = self._shape(names)
        if shape is None:
            read_key: Callable[[bytes], tuple[Any, ...]] | None = self._table.key_locator
            row_of: Callable[..., Row | None] | None = find
        else:
            read_key = self._table.key_reader
            row_of = self._layout.encoding.plain_rows_of(shape[0].columns)[1]
        if read_key is None or row_of is None:
            return None
        return self._entries.prefix_get(
            self._width, EntryReader(shape is not None, read_key, row_of)
        )

    def _prefix(self, values: Sequence[Any]) -> bytes:
        """Return what the keys of the entries begin with whose first columns have some values."""
        self._check_width(len(values))
        return self._layout.encoding.encode_key_prefix(values)

    def _check_width(self, count: int) -> None:
        """SchemaMismatchError unless the index has this many columns, at least one."""
        if not 1 <= count <= self._width:
            names = ", ".join(self._layout.encoding.key_names[: self._width])
            raise SchemaMismatchError(
                f"the index {self.name!r} of table {self._table.name!r} is on ({names}); "
                f"{count} values were given: give those of the first columns, or of all"
            )

    def _shape(self, names: tuple[str, ...] | None) -> _Shape | None:
        """Return the class of rows with some columns, and where the values are in an entry's row.

        None if an entry does not hold all of them. ``names``: None for the visible columns.
        """
        if names not in self._shapes:
            visible = [column.name for column in self._table.schema.visible_columns]
            returned = visible if names is None else names
            held = [column.name for column in self._layout.encoding.schema.visible_columns]
            is_held = set(returned) <= set(held)
            self._shapes[names] = (
                (row_type(returned), [held.index(name) for name in returned]) if is_held else None
            )
        return self._shapes[names]

    def _damaged_entry_error(self, error: Exception) -> CorruptionError:
        return CorruptionError(
            f"{self._environment.local_path(SEGMENTS)}: an entry of the index {self.name!r} of "
            f"table {self._table.name!r} cannot be decoded ({error}); run check to find the file"
        )
