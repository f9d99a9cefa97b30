"""The storage table: one table at one epoch, read only.

Promises: every read sees the newest version of each row at or below the epoch and nothing else;
scans and multi-gets return Arrow batches of bounded size, decoded from the segments' maps.
Does not know: the log. What it reads was chosen when it was made.

The split of state table, mem table and storage table is RisingWave's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..codec.ragged import Bytes, Positions
from ..environment import Environment
from ..log.segment_record import TableStatistics
from ..log.sequenced_segment import SequencedSegment
from ..log.table_definition import TableDefinition
from ..log.table_segments import statistics_in
from ..predicate.predicate import Predicate
from ..schema.schema import EVERY_KEY, Column, KeyRange
from ..segment.block import Block
from ..segment.search import KeyRanges
from . import conditional
from .columnnames import readable_columns, visible_names
from .conditional import Reading
from .dividedfiles import files_of
from .encoding import Encoding
from .first_rows import seek_first_rows
from .header import EXPIRY
from .indexgets import IndexGets
from .keyspan import disjoint_groups
from .lookup import Lookup
from .pointget import ColumnGets, point_get
from .pointreader import PointReader
from .prefixes import PrefixReader
from .prefixget import EntryReader, PrefixGet, prefix_get
from .pruning import (
    check_vnodes,
    ranges_in,
)
from .record import Row
from .resolve import Keep, Resolver, keep_all, keep_visible
from .scan import Bounds, Limits, Piece, Scan, Source, joined_ranges
from .secondary import IndexMatches, SecondaryIndex, TableIndexes

_LEAVES_OF_KEYS = 512
# Ranges that are searched at once, and about the most rows that are then in memory.
_RANGES_AT_ONCE = _ROWS_AT_ONCE = 262_144


class StorageTable:
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
        """``segments``: those that hold rows of the table, the newest first. ``time`` returns
        microseconds since 1970: rows that have expired by then are not visible. ``epoch``: the
        epoch that is read, for messages. ``indexes``: those of the table that reads may use.
        """
        self.encoding = encoding
        self.indexes = TableIndexes(encoding, indexes)
        self._environment = environment
        self._time = time
        self._files = files_of(environment, segments, encoding, verify, epoch)
        self._lookup = Lookup(environment, encoding, self._files)
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

    @cached_property
    def _resolver(self) -> Resolver:
        return self._resolver_of(keep_visible(self._time), self._time)

    def _resolver_of(
        self, keep: Keep, time: Callable[[], int], columns: Collection[Column] | None = None
    ) -> Resolver:
        """Return what makes one entry of those of a row, as simple as the files allow.

        ``columns``: see `Encoding.resolver`.
        """
        if self._may_divide:
            return self.encoding.resolver(keep, time, columns)
        return Resolver(keep, self.encoding.fold)

    @cached_property
    def _may_divide(self) -> bool:
        """Whether a file may hold a row in several entries."""
        return self.encoding.has_parts and any(map(self.encoding.may_divide, self._statistics()))

    def _statistics(self) -> Iterable[TableStatistics]:
        return statistics_in(self._files.segments, self.encoding.table_id)

    @property
    def is_empty(self) -> bool:
        """Whether no entry was ever written; False may still mean that there is no row."""
        return not self._files.segments

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
        return indices, self._decode(Piece((rows,), None), read_columns)

    def first_per_prefix(
        self, prefixes: pa.RecordBatch, counts: Positions, columns: Sequence[str] | None = None
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return what `prefix_scan` does, but at most the first ``counts[i]`` rows of prefix i.

        What comes after them is not read.
        """
        read_columns = self.columns(columns)
        full_prefixes = self.encoding.encode_prefixes(prefixes)
        reader = self._prefix_reader(full_prefixes)
        indices, rows = reader.first_per_prefix(full_prefixes, counts)
        return indices, self._decode(Piece((rows,), None), read_columns)

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
        return indices, self._decode(Piece((rows,), None), read_columns)

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
        return indices, self._decode(Piece((rows,), None), read_columns)

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
        return indices, self._decode(piece, read_columns)

    def get_values(self, full_keys: Bytes) -> Block:
        """Return the newest entries, deletes included, of those full keys that have one."""
        return Block.joined(self._lookup.values(full_keys))

    def get_value_blocks(self, full_keys: Bytes) -> list[Block]:
        """Return what `get_values` does without a copy, in one block or more."""
        return self._lookup.values(full_keys)

    def stored_entries(self, full_keys: Bytes) -> list[Block]:
        """Return all entries of the rows of some keys: see `Lookup.stored_entries`."""
        return self._lookup.stored_entries(full_keys)

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
        Rows come in batches of about 262,144, in no order. Other rows come too where it takes
        longer to search than to read them.
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
            if len(block):
                yield self._decode(Piece((block,), None), read_columns)

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
        yield from conditional.read_in_order(self, where, reading, descending=descending)

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
        return conditional.first_in_order(self, where, reading, count, descending=descending)

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
        lows, highs = zip(*ranges, strict=True) if ranges else ((), ())
        if None in highs or self._may_divide:
            return None
        key_ranges = KeyRanges(
            pa.array(lows, pa.large_binary()),
            pa.array(highs, pa.large_binary()),
            np.ones(len(ranges), np.bool_),
        )
        reader = self._reader_in(key_ranges)
        rows = seek_first_rows(
            self.encoding, reader, key_ranges, count, most, descending=descending
        )
        return None if rows is None else self._decode(Piece((rows,), None), columns)

    def scan_ranges(
        self, columns: Sequence[str] | None, ranges: Sequence[KeyRange]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the visible rows of some ranges of keys, and perhaps others, in no order.

        Every row comes once.
        """
        return conditional.read_ranges(self, self.columns(columns), ranges)

    def entries(self) -> Iterator[Block]:
        """Yield the newest entry of every key, deletes and expired rows too."""
        resolver = self._resolver_of(keep_all, self._time)
        scan = replace(self.scan_of((), None), resolver=resolver)
        for window in scan.windows(self.encoding.vnode_bounds(range(self.encoding.vnode_count))):
            yield from filter(len, window.blocks)

    def full_keys(self) -> Iterator[Bytes]:
        """Yield the full keys of all entries, of older versions and deletes too, file by file."""
        bounds = self.encoding.vnode_bounds(range(self.encoding.vnode_count))
        for run in self._files.runs_of(self._every_range):
            for block in run.source(bounds, _LEAVES_OF_KEYS, False):
                yield block.key_bytes()

    def has_entries_between(self, lows: Bytes, highs: Bytes) -> NDArray[np.bool_]:
        """Return for each pair of full keys, low <= high, whether there may be an entry between.

        Neither may be a long key.
        """
        reached = np.zeros(len(lows), np.bool_)
        for file, _ in self._files.of_ranges(KeyRanges(lows, highs)):
            reached |= file.has_entries_between(lows, highs)
        return reached

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

    @property
    def stored_rows(self) -> int:
        """How many entries are stored, older versions and deletes too."""
        return self._most(None).rows

    @property
    def stored_bytes(self) -> int:
        """How many bytes these entries take."""
        return self._most(None).size

    @property
    def file_count(self) -> int:
        """How many files hold entries."""
        return len(self._files.segments)

    def bytes_in(self, ranges: Sequence[Bounds]) -> int:
        """Return about how many stored bytes are in some ascending ranges of full keys."""
        return sum(run.bytes_in(ranges) for run in self._files.runs_of(ranges)) if ranges else 0

    def scan_of(
        self,
        columns: Sequence[Column],
        newest: Block | None,
        ranges: Sequence[Bounds] | None = None,
        within: Sequence[Bounds] | None = None,
    ) -> Scan:
        """Return the scan of some columns; entries in ``newest`` hide the table's own.

        ``ranges``: the scan is of these ascending ranges of full keys, whatever its bounds.
        ``within``: its bounds are within these ranges, of all keys by default.
        """
        if ranges is not None:
            within = ranges
        runs = self._files.runs_of(self._every_range if within is None else within)
        sources = [run.source if ranges is None else run.source_of(ranges) for run in runs]
        disjoint = None
        if newest is not None:
            own: Source = partial(_block_source, newest)
            sources.insert(0, own if ranges is None else joined_ranges(own, ranges))
        elif not self._may_divide:
            disjoint = disjoint_groups([run.key_span for run in runs], [run.span for run in runs])
        return Scan(
            sources=sources,
            decode=partial(self._decode, columns=columns),
            keys_of=self.encoding.primary_keys,
            most=self._most(newest),
            resolver=self._resolver_of(keep_visible(self._time), self._time, columns or None),
            groups=disjoint,
        )

    def portions(self, groups: Sequence[range]) -> Iterator[Sequence[range]]:
        """Yield ranges of vnodes as parts: of each all files are open at once in a scan."""
        return self._files.portions(groups)

    @property
    def _every_range(self) -> list[Bounds]:
        return [self.encoding.vnode_bounds(range(self.encoding.vnode_count))]

    def _most(self, newest: Block | None) -> Limits:
        """Return the most rows that a scan may yield and their stored bytes."""
        stored = self._stored
        if newest is None:
            return stored
        newest_size = int(newest.key_lengths.sum() + newest.value_lengths.sum())
        return Limits(stored.rows + len(newest), stored.size + newest_size)

    @cached_property
    def _stored(self) -> Limits:
        """The number of the stored entries, and their bytes."""
        statistics = list(self._statistics())
        rows = sum(table.rows for table in statistics)
        return Limits(rows, sum(table.stored_bytes for table in statistics))

    def _groups(self, vnodes: Sequence[range] | None) -> Sequence[range]:
        if vnodes is None:
            return [range(self.encoding.vnode_count)]
        check_vnodes(vnodes, self.encoding.vnode_count)
        return vnodes

    def _decode(self, piece: Piece, columns: Sequence[Column]) -> pa.RecordBatch:
        try:
            batches = [self.encoding.decode(block, columns) for block in piece.blocks]
        except (ValueError, IndexError) as error:
            raise self._lookup.damaged_row_error(error) from error
        batch = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        return batch if piece.order is None else batch.take(pa.array(piece.order))


def _block_source(block: Block, bounds: Bounds, leaves: int, descending: bool) -> Iterator[Block]:
    inside = block.between(*bounds)
    return iter([inside] if len(inside) else [])
