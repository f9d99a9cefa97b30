"""The storage table: one table at one epoch, read only.

Promises: every read sees the newest version of each row at or below the epoch and nothing else;
scans and multi-gets return Arrow batches of bounded size, decoded from the segments' maps.
Does not know: the log. What it reads was chosen when it was made.

The split of state table, mem table and storage table is RisingWave's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ..codec.ragged import Bytes, Positions
from ..environment import Environment
from ..log.sequenced_segment import SequencedSegment
from ..log.table_definition import TableDefinition
from ..schema.schema import EVERY_KEY, Column, KeyRange
from ..segment.block import Block
from ..segment.search import KeyRanges
from . import conditional, keyorder
from .columnnames import readable_columns, visible_names
from .conditional import Reading
from .encoded_rows import EncodedRows
from .encoding import Encoding
from .first_rows import seek_first_rows
from .header import EXPIRY
from .indexgets import IndexGets
from .pointget import ColumnGets, point_get
from .pointreader import PointReader
from .prefixes import PrefixReader
from .prefixget import EntryReader, PrefixGet, prefix_get
from .pruning import (
    check_vnodes,
    ranges_in,
)
from .record import Row
from .resolve import Window
from .run import key_ranges_of
from .scan import Bounds, Limits, Piece, pieces
from .secondary import IndexMatches, SecondaryIndex, TableIndexes
from .table_entries import TableEntries

if TYPE_CHECKING:
    from ..predicate.predicate import Predicate

# Ranges that are searched at once, and about the most rows that are then in memory.
_RANGES_AT_ONCE = _ROWS_AT_ONCE = 262_144
# What a batch of them may hold: of large rows fewer.
_BATCH_OF_RANGES = Limits(rows=_ROWS_AT_ONCE, size=64 << 20)


class StorageTable(TableEntries):
    """One table at one epoch. Safe between threads; holds its segments open while it lives.

    ``point_get``: what `get` calls. ``key_length``: how many values it takes; -1 if the table has
    no primary key.
    """

    def __init__(
        self,
        environment: Environment,
        encoding: Encoding,
        segments: Sequence[SequencedSegment],
        time: Callable[[], int],
        *,
        verify: str = "hash",
        epoch: int | None = None,
        indexes: Sequence[SecondaryIndex] = (),
    ) -> None:
        """``indexes``: those of the table that reads may use; the others as of `TableEntries`."""
        super().__init__(environment, encoding, segments, time, verify=verify, epoch=epoch)
        self.indexes = TableIndexes(encoding, indexes)
        self._points = PointReader(encoding, self._files, self._lookup, time)
        self.point_get = point_get(encoding, self._files, self._points.get)
        self.key_length = len(encoding.key_names) if encoding.schema.row_id is None else -1
        self._column_gets = ColumnGets(encoding, self._files, self._points.get)
        self._index_gets = IndexGets(encoding, self._files, self.indexes)

    def reads(
        self,
        definition: TableDefinition,
        segments: Sequence[SequencedSegment],
        index_segments: Sequence[Sequence[SequencedSegment]] = (),
    ) -> bool:
        """Return whether this is the table of that definition over just these segments.

        ``index_segments``: those of each of its indexes.
        """
        return (
            self.encoding.definition == definition
            and self._files.segments == segments
            and self.indexes.segments == [*index_segments]
        )

    # Point reads

    def get(self, key: Sequence[Any]) -> Row | None:
        """Return the row with these primary key values, in the key's order; None if none."""
        return self.point_get(key)

    def get_columns(self, key: Sequence[Any], columns: Sequence[str]) -> Row | None:
        """Return some columns of the row with a primary key, in that order; None if none.

        Only these are decoded. SchemaMismatchError for an unknown or a hidden column.
        """
        return self._column_gets(key, columns)

    def get_at(self, key: Sequence[Any], full_key: bytes) -> Row | None:
        """Return the row with a primary key, which is also given as a full key; None if none."""
        return self._points.get_at(key, full_key)

    def prefix_entries(self, full_prefix: bytes) -> list[tuple[bytes, bytes]]:
        """Return the visible (full key, value) below a prefix: see `PointReader`."""
        return self._points.prefix_entries(full_prefix)

    def prefix_get(self, count: int, reader: EntryReader) -> PrefixGet | None:
        """Return the quickest lookup of what is made of entries: see `prefixget.prefix_get`."""
        return prefix_get(self.encoding, self._files, count, reader)

    def seconds_left(self, key: Sequence[Any], path: Sequence[Any]) -> float | None:
        """Return after how many seconds a row, or a part, is gone: see `PointReader`."""
        return self._points.seconds_left(key, path)

    def get_by(
        self, index: str, values: Sequence[Any], columns: Sequence[str] | None = None
    ) -> list[Row]:
        """Return the rows with these values in the first columns of an index, in its order.

        IndexNotFoundError, SchemaMismatchError, ValueRangeError.
        """
        get = self._index_gets.whole.get(index) if columns is None else None
        rows = get(values) if get else self._index_gets.rows(index, values, columns)
        if rows is not None:
            return rows
        names = None if columns is None else visible_names(self.encoding, columns)
        return conditional.get_by(self, index, values, names)

    def get_rows(
        self, keys: pa.RecordBatch, columns: Sequence[str] | None = None
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return (indices, rows): the rows of those of ``keys`` that exist, in the order asked.

        ``keys`` has the primary key's columns; ``indices`` (int64) name the keys found.
        """
        full_keys = self.encoding.encode_keys(self.encoding.conform_keys(keys))
        return self.find(full_keys, columns)

    def get_rows_by(
        self, index: str, values: pa.RecordBatch, columns: Sequence[str] | None = None
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return (indices, rows): the rows with each of some values in the columns of an index.

        ``values`` has the first columns of the index, by name; NULL is a value. ``indices`` (int64)
        name the values of each row. IndexNotFoundError, SchemaMismatchError, ValueRangeError.
        """
        owners, full_keys = self.indexes.named(index).find(values)
        indices, rows = self.find(full_keys, columns)
        return owners[indices], rows

    def prefix_scan(
        self, prefixes: pa.RecordBatch, columns: Sequence[str] | None = None
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return (indices, rows): all rows whose keys begin with one of ``prefixes``.

        ``prefixes`` has the first columns of the primary key, those of the distribution key among
        them, and no row twice; NULL is a value. ``indices`` (int64, ascending) name the prefix of
        each row; rows of one prefix come in key order. SchemaMismatchError for other columns.
        """
        read_columns = self.columns(columns)
        full_prefixes = self.encoding.encode_prefixes(prefixes)
        indices, rows = self._prefix_reader(full_prefixes).prefix_scan(full_prefixes)
        return indices, self.decode(Piece((rows,), None), read_columns)

    def first_per_prefix(
        self, prefixes: pa.RecordBatch, counts: Positions, columns: Sequence[str] | None = None
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return what `prefix_scan` does, but at most the first ``counts[i]`` rows of prefix i.

        What comes after them is not read.
        """
        indices, rows = self.first_encoded_per_prefix(prefixes, counts)
        return indices, self.decode(Piece((rows.block,), None), self.columns(columns))

    def last_per_prefix(
        self, prefixes: pa.RecordBatch, counts: Positions, columns: Sequence[str] | None = None
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return what `prefix_scan` does, but at most the last ``counts[i]`` rows of prefix i.

        What comes before them is not read.
        """
        read_columns = self.columns(columns)
        full_prefixes = self.encoding.encode_prefixes(prefixes)
        reader = self._prefix_reader(full_prefixes)
        indices, rows = reader.last_per_prefix(full_prefixes, counts)
        return indices, self.decode(Piece((rows,), None), read_columns)

    def first_encoded_per_prefix(
        self, prefixes: pa.RecordBatch, counts: Positions
    ) -> tuple[Positions, EncodedRows]:
        """Return what `first_per_prefix` does, of which nothing is decoded yet."""
        full_prefixes = self.encoding.encode_prefixes(prefixes)
        reader = self._prefix_reader(full_prefixes)
        indices, block = reader.first_per_prefix(full_prefixes, counts)
        return indices, EncodedRows(block, self.encoding, self._decode_columns)

    def _decode_columns(self, block: Block, columns: Sequence[str]) -> pa.RecordBatch:
        return self.decode(Piece((block,), None), self.columns(columns))

    def rows_from(
        self,
        starts: pa.RecordBatch,
        group: int,
        counts: Positions,
        columns: Sequence[str] | None = None,
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return (indices, rows): the first ``counts[i]`` rows whose keys are at or after start i.

        ``starts`` are as the prefixes of `prefix_scan`. The rows of start i have its first
        ``group`` values, the distribution key among them, and are before every greater start;
        they come start by start, in key order.
        """
        read_columns = self.columns(columns)
        full_starts, groups = self._bounds(starts, group)
        indices, rows = self._prefix_reader(groups).rows_from(full_starts, groups, counts)
        return indices, self.decode(Piece((rows,), None), read_columns)

    def rows_before(
        self,
        ends: pa.RecordBatch,
        group: int,
        counts: Positions,
        columns: Sequence[str] | None = None,
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return (indices, rows): the last ``counts[i]`` rows whose keys are before end i.

        Otherwise as `rows_from`: they have the first ``group`` values of end i, and are not before
        any lesser end.
        """
        read_columns = self.columns(columns)
        full_ends, groups = self._bounds(ends, group)
        indices, rows = self._prefix_reader(groups).rows_before(full_ends, groups, counts)
        return indices, self.decode(Piece((rows,), None), read_columns)

    def _bounds(self, bounds: pa.RecordBatch, group: int) -> tuple[Bytes, Bytes]:
        """Return what the full keys at some bounds begin with, and those of their groups."""
        names = self.encoding.key_names[:group]
        return (
            self.encoding.encode_prefixes(bounds),
            self.encoding.encode_prefixes(bounds.select(names)),
        )

    def _prefix_reader(self, prefixes: Bytes) -> PrefixReader:
        return self._reader_in(KeyRanges.of_prefixes(prefixes))

    def _reader_in(self, ranges: KeyRanges) -> PrefixReader:
        return PrefixReader(self._files.of_ranges(ranges), self._resolver)

    def find(
        self, full_keys: Bytes, columns: Sequence[str] | None = None, newest: Block | None = None
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return (indices, rows) as `get_rows`; entries in ``newest`` hide the table's own."""
        read_columns = self.columns(columns)
        indices, piece = self._lookup.visible(full_keys, newest, self._time)
        return indices, self.decode(piece, read_columns)

    # Scans

    def scan(
        self,
        columns: Sequence[str] | None = None,
        *,
        vnodes: Sequence[range] | None = None,
        keys: KeyRange = EVERY_KEY,
        newest: Block | None = None,
        where: Predicate | None = None,
        shows_expiry: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the visible rows in batches of bounded size, one range of vnodes after another.

        ``columns``: names, by default of the visible columns; with ``shows_expiry`` the column
        `EXPIRY` comes last. ``vnodes``: ranges, all by default.
        ``newest``: entries in key order that hide the table's own. ``where``: only rows that
        match; its conditions on the key decide what is read, in no order. SchemaMismatchError for
        an unknown column; CorruptionError, naming the file, for damage.
        """
        result_columns = self.columns(columns)
        groups = self._groups(vnodes)
        if where is None:
            shown = [*result_columns, EXPIRY] if shows_expiry else result_columns
            yield from conditional.read_range(self, Reading(shown, groups, keys, newest))
            return
        assert not shows_expiry
        reading = Reading(result_columns, groups, keys, newest)
        yield from conditional.read_matching(self, where, reading)

    def range_scan(
        self,
        lows: pa.Array,
        highs: pa.Array,
        columns: Sequence[str] | None = None,
        *,
        vnodes: Sequence[range] | None = None,
        most: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows whose first key column is from ``lows[i]`` to ``highs[i]``, both included.

        The bounds have the type of that column; NULL is no bound. Ranges ascend and do not overlap.
        ``most``: of each range in each vnode only that many rows, the first, must be read.
        Rows come in batches of at most 262,144 and about 64 MiB of stored bytes, in no order. Other
        rows come too where it takes longer to search than to read them.
        """
        groups = [group for group in self._groups(vnodes) if len(group)]
        if self.is_empty or not groups or not len(lows):
            return
        numbers = np.concatenate([np.arange(group.start, group.stop) for group in groups])
        vnode_count, rows = self.encoding.vnode_count, self.stored_rows
        searches = len(lows) * len(numbers) * len(self._files.segments)
        if searches * vnode_count > rows * len(numbers):
            yield from self.scan(columns, vnodes=vnodes)
            return
        read_columns = self.columns(columns)
        step = max(min(_ROWS_AT_ONCE * vnode_count // rows, _RANGES_AT_ONCE // len(lows)), 1)
        for start in range(0, len(numbers), step):
            part = numbers[start : start + step]
            full_lows, full_highs = self.encoding.encode_ranges(lows, highs, part)
            reader = self._reader_in(KeyRanges(full_lows, full_highs))
            block = reader.range_scan(full_lows, full_highs, most)
            for piece in pieces(Window((block,), None), _BATCH_OF_RANGES):
                yield self.decode(piece, read_columns)

    def scan_in_order(
        self,
        columns: Sequence[str] | None = None,
        *,
        vnodes: Sequence[range] | None = None,
        keys: KeyRange = EVERY_KEY,
        descending: bool = False,
        newest: Block | None = None,
        where: Predicate | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield what `scan` does, in the order of the primary key across all vnodes."""
        reading = Reading(self.columns(columns), self._groups(vnodes), keys, newest)
        yield from keyorder.read_in_order(self, where, reading, descending=descending)

    def first_in_order(
        self,
        count: int,
        columns: Sequence[str] | None = None,
        *,
        vnodes: Sequence[range] | None = None,
        descending: bool = False,
        where: Predicate | None = None,
    ) -> pa.RecordBatch | None:
        """Return the first ``count`` rows of `scan_in_order`, without reading the others.

        None if that takes much to read, as where few rows match ``where``.
        """
        reading = Reading(self.columns(columns), self._groups(vnodes))
        return keyorder.first_in_order(self, where, reading, count, descending=descending)

    def first_rows(
        self,
        columns: Sequence[Column],
        ranges: Sequence[Bounds],
        count: int,
        most: int,
        *,
        descending: bool,
    ) -> pa.RecordBatch | None:
        """Return the first rows of some ascending ranges of full keys, by their primary keys.

        None if more than ``most`` rows have to be read, or rows have parts of their own.
        """
        if self._may_divide:
            return None
        key_ranges = key_ranges_of(ranges)
        reader = self._reader_in(key_ranges)
        rows = seek_first_rows(
            self.encoding, reader, key_ranges, count, most, descending=descending
        )
        return None if rows is None else self.decode(Piece((rows,), None), columns)

    def scan_ranges(
        self, columns: Sequence[str] | None, ranges: Sequence[KeyRange]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the visible rows of some ranges of keys, and perhaps others, in no order.

        Every row comes once.
        """
        return conditional.read_ranges(self, self.columns(columns), ranges)

    def count(
        self, vnodes: Sequence[range] | None = None, *, where: Predicate | None = None
    ) -> int:
        """Return the number of visible rows, or of those that match ``where``."""
        if where is not None:
            names = where.columns or self.encoding.key_names[:1]
            return sum(batch.num_rows for batch in self.scan(names, vnodes=vnodes, where=where))
        portions = self._files.portions(self._groups(vnodes))
        return sum(
            len(block)
            for ranges in (ranges_in(self.encoding, groups, EVERY_KEY) for groups in portions)
            for scan in [self.scan_of((), None, within=ranges)]
            for bounds in ranges
            for window in scan.windows(bounds, in_order=False)
            for block in window.blocks
        )

    def columns(self, names: Sequence[str] | None) -> Sequence[Column]:
        """Return the columns with these names, by default the visible ones.

        SchemaMismatchError if there is no such column, or a name is repeated.
        """
        return readable_columns(self.encoding, names)

    def index_matches(self, where: Predicate) -> IndexMatches | None:
        """Return the rows that can match, from the indexes that leave fewest of them to read.

        None if no index is better than the primary key, or than reading all rows.
        """
        return conditional.index_matches(self, where)

    def examined_bytes(self, where: Predicate) -> int:
        """Return about how many stored bytes a read of the rows that match a condition examines."""
        return conditional.examined_bytes(self, where)

    def _groups(self, vnodes: Sequence[range] | None) -> Sequence[range]:
        if vnodes is None:
            return [range(self.encoding.vnode_count)]
        check_vnodes(vnodes, self.encoding.vnode_count)
        return vnodes
