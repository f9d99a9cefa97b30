"""The storage table: one table at one epoch, read only.

Promises: every read sees the newest version of each row at or below the epoch and nothing else;
scans and multi-gets come as Arrow batches of bounded size, straight from the segments' maps.
Does not know: the log. What it reads was chosen when it was made.

The split of state table, mem table and storage table is RisingWave's.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..codec.ragged import Bytes, Positions, first_of_each
from ..environment import Environment
from ..errors import CorruptionError, OptionError, SchemaMismatchError, SegmentMissingError
from ..log.entry import TableDefinition
from ..log.log import missing_segment_error
from ..log.state import PlacedSegment
from ..paths import SEGMENTS
from ..predicate.predicate import Predicate
from ..schema.schema import EVERY_KEY, Column, KeyRange, name_list
from ..segment import longkey
from ..segment.block import Block
from ..segment.key import PREFIX_BYTES, vnode_of
from ..segment.registry import registry
from ..segment.segment import LOOKUP_ERRORS, SegmentFile
from .encoding import Encoding
from .filter import filtered
from .fold import Fold
from .header import expiry_of
from .piece import Limits, Piece
from .prefixes import PrefixReader
from .pruning import Pruned, prune, spans, worthwhile_seeks
from .record import Row
from .resolve import Resolver, everything, visible_at
from .run import Getter, Run, Span, getters_by_vnode, runs, span_of
from .scan import Bounds, Scan
from .spread import spread

_POINTS_AT_ONCE = 4096
_LEAVES_OF_KEYS = 512


class StorageTable:
    """One table at one epoch. Safe between threads; holds its segments open while it lives."""

    def __init__(
        self,
        environment: Environment,
        encoding: Encoding,
        segments: Sequence[PlacedSegment],
        time: Callable[[], int],
        *,
        verify: str = "hash",
        epoch: int | None = None,
    ) -> None:
        """``segments``: those that hold rows of the table, the newest first. ``time`` tells, in
        microseconds since 1970, by when a row must have expired not to be seen. ``epoch`` is the
        one that is read, for messages.
        """
        self._epoch = epoch
        self._environment = environment
        self._time = time
        self._resolver = Resolver(visible_at(time), encoding.fold)
        self._segments = segments
        self._verify = verify
        self._opened: tuple[SegmentFile, ...] | None = None
        self._found: Sequence[tuple[Getter, ...]] | None = None
        self.encoding = encoding

    # Opened when first needed, by any thread: all of them find the same.

    @property
    def _files(self) -> tuple[SegmentFile, ...]:
        if self._opened is None or any(file.is_damaged for file in self._opened):
            self._found = None
            try:
                self._opened = tuple(
                    registry.open(self._environment, placed.record, self._verify)
                    for placed in self._segments
                )
            except SegmentMissingError as error:
                if self._epoch is None:
                    raise
                raise missing_segment_error(self._environment, self._epoch, error) from None
        return self._opened

    @property
    def _runs(self) -> Sequence[Run]:
        return runs(self._segments, self._files, self.encoding.table_id)

    def _getters(self, full_key: bytes) -> tuple[Getter, ...]:
        """Return what looks up a key in each of the files that may hold it, the newest first."""
        if self._found is None:
            getters = [file.getter() for file in self._files]
            self._found = getters_by_vnode(self._segments, getters, self.encoding)
        return self._found[vnode_of(full_key)]

    def reads(self, definition: TableDefinition, segments: Sequence[PlacedSegment]) -> bool:
        """Return whether this is the table of that definition over just these segments."""
        return self.encoding.definition == definition and self._segments == segments

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever written that could be seen; False may still mean no rows."""
        return not self._segments

    # Point reads

    def get(self, key: Sequence[Any]) -> Row | None:
        """Return the row with these primary key values, in the key's order; None if none."""
        value = self.get_value(self.encoding.encode_key(key))
        if value is None or (value[1] and expiry_of(value) <= self._time()):
            return None
        try:
            return self.encoding.decode_row(key, value)
        except (ValueError, IndexError, struct.error) as error:
            raise self._damaged_row_error(error) from error

    def get_value(self, full_key: bytes) -> bytes | None:
        """Return the value under a full key, a delete or expired row included; None if none."""
        try:
            if self.encoding.fold is not None:
                return self._get_folded(self.encoding.fold, full_key)
            if longkey.is_long(full_key):
                return next(self._versions_of(full_key), None)
            for get in self._getters(full_key):
                value = get(full_key)
                if value is not None:
                    return value
        except LOOKUP_ERRORS as error:
            self._fail_lookup(full_key, error)
        except CorruptionError:
            # The files are opened again at the next lookup: they may be repaired by then.
            self._opened = self._found = None
            raise
        return None

    def _fail_lookup(self, full_key: bytes, error: Exception) -> NoReturn:
        """Raise CorruptionError for the file in which a lookup failed."""
        files = self._files
        self._opened = self._found = None
        stored_key = longkey.group_key(full_key) if longkey.is_long(full_key) else full_key
        for file in files:
            file.get(stored_key)
        raise CorruptionError(
            f"{self._environment.local_path(SEGMENTS)}: a lookup failed ({error}); run check to "
            "find the damaged file"
        ) from error

    def _get_folded(self, fold: Fold, full_key: bytes) -> bytes | None:
        versions = [(full_key, value) for value in self._versions_of(full_key)]
        if len(versions) < 2:
            return versions[0][1] if versions else None
        folded = fold(Block.of_pairs(versions), np.zeros(1, np.int64))
        value: bytes = folded.value_bytes()[0].as_py()
        return value

    def _versions_of(self, full_key: bytes) -> Iterator[bytes]:
        """Yield every value under a full key, the newest first."""
        is_long = longkey.is_long(full_key)
        stored = longkey.group_key(full_key) if is_long else full_key
        for get in self._getters(full_key):
            value = get(stored)
            if value is not None and is_long:
                value = longkey.find(value, full_key)
            if value is not None:
                yield value

    def get_rows(
        self, keys: pa.RecordBatch, columns: Sequence[str] | None = None
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return (indices, rows): the rows of those of ``keys`` that exist, in the order asked.

        ``keys`` has the primary key's columns; ``indices`` (int64) name the keys found.
        """
        full_keys = self.encoding.encode_keys(self.encoding.conform_keys(keys))
        return self.find(full_keys, columns)

    def prefix_scan(
        self, prefixes: pa.RecordBatch, columns: Sequence[str] | None = None
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return (indices, rows): all rows whose keys begin with one of ``prefixes``.

        ``prefixes`` has the first columns of the primary key, those of the distribution key among
        them, and no row twice; NULL is a value. ``indices`` (int64, ascending) name the prefix of
        each row; rows of one prefix come in key order. SchemaMismatchError for other columns.
        """
        wanted = self.columns(columns)
        indices, rows = self._prefix_reader.prefix_scan(self.encoding.encode_prefixes(prefixes))
        return indices, self._decode(Piece((rows,), None), wanted)

    def first_per_prefix(
        self, prefixes: pa.RecordBatch, counts: Positions, columns: Sequence[str] | None = None
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return what `prefix_scan` does, but at most the first ``counts[i]`` rows of prefix i.

        What comes after them is not read.
        """
        wanted = self.columns(columns)
        full_prefixes = self.encoding.encode_prefixes(prefixes)
        indices, rows = self._prefix_reader.first_per_prefix(full_prefixes, counts)
        return indices, self._decode(Piece((rows,), None), wanted)

    @property
    def _prefix_reader(self) -> PrefixReader:
        return PrefixReader(tuple(zip(self._files, self._spans, strict=True)), self._resolver)

    def find(
        self, full_keys: Bytes, columns: Sequence[str] | None = None, newest: Block | None = None
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return (indices, rows) as `get_rows`; entries in ``newest`` hide the table's own."""
        wanted = self.columns(columns)
        found = self.get_values(full_keys)
        if newest is not None:
            found = newest.followed_by(found)
        # Of equal keys the first is found: what is newest hides the rest.
        places = pc.index_in(full_keys, value_set=found.key_bytes())
        rows = np.asarray(pc.fill_null(places, -1)).astype(np.int64)
        live = rows >= 0
        live[live] = self._resolver.keep(found.take(rows[live]))
        piece = Piece((found.take(rows[live]),), None)
        return np.flatnonzero(live), self._decode(piece, wanted)

    def get_values(self, full_keys: Bytes) -> Block:
        """Return the newest entries, deletes included, of those full keys that have one."""
        if longkey.has_long(full_keys):
            each = [(key, self.get_value(key)) for key in full_keys.to_pylist()]
            return Block.of_pairs([(key, value) for key, value in each if value is not None])
        remaining = full_keys.take(pa.array(first_of_each(full_keys)))
        if self.encoding.fold is not None:
            return self._get_values_folded(self.encoding.fold, remaining)
        wanted = remaining.to_pylist()
        pairs: list[tuple[bytes, bytes]] = []
        for file, span in zip(self._files, self._spans, strict=True):
            asked = _within(wanted, span)
            if asked and (found := file.get_many(asked)):
                pairs += found
                hits = {key for key, _ in found}
                wanted = [key for key in wanted if key not in hits]
        return Block.of_pairs(pairs)

    def _get_values_folded(self, fold: Fold, full_keys: Bytes) -> Block:
        wanted = full_keys.to_pylist()
        each = zip(self._files, self._spans, strict=True)
        asked = ((file, keys) for file, span in each if (keys := _within(wanted, span)))
        found = [pairs for file, keys in asked if (pairs := file.get_many(keys))]
        blocks = [Block.of_pairs(pairs) for pairs in found] or [Block.of_pairs([])]
        return Resolver(everything, fold).all_of(blocks)

    @property
    def _spans(self) -> Iterator[Span]:
        """The first and the last key, without versions, of the table in each segment."""
        for placed in self._segments:
            yield span_of(placed, self.encoding.table_id)

    # Scans

    def scan(
        self,
        columns: Sequence[str] | None = None,
        *,
        vnodes: Sequence[range] | None = None,
        keys: KeyRange = EVERY_KEY,
        newest: Block | None = None,
        where: Predicate | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the visible rows, vnode by vnode, as batches of bounded size.

        ``columns``: names, the visible ones by default. ``vnodes``: ranges, all by default.
        ``newest``: entries in key order that hide the table's own. ``where``: which rows; what it
        says about the key decides what is read, in no order. SchemaMismatchError for an unknown
        column; CorruptionError, naming the file, for damage.
        """
        wanted = self.columns(columns)
        groups = self._groups(vnodes)
        if where is None:
            yield from self._scan(wanted, newest).batches(self._ranges(groups, keys))
            return
        read = self._with_columns_of(where, wanted)
        pruned = self._pruned(where, groups, keys)
        if pruned is None:
            found = self._scan(read, newest).batches(self._ranges(groups, keys))
        else:
            found = self._read(pruned, read, newest)
        yield from filtered(found, where, [column.name for column in wanted])

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
        wanted = self.columns(columns)
        names = [column.name for column in wanted]
        read = wanted if where is None else self._with_columns_of(where, wanted)
        others = {column.name for column in read}.union(self.encoding.key_names) - set(names)
        scan = self._scan(self.columns([*names, *sorted(others)]), newest)
        groups = self._groups(vnodes)
        pruned = None if where is None else self._pruned(where, groups, keys)
        if pruned is not None:
            ranges = spans(pruned)
        else:
            ranges = self._ranges(groups if scan.sorts_in_memory else single_vnodes(groups), keys)
        found = scan.sorted_batches(ranges, descending=descending)
        if where is not None:
            yield from filtered(found, where, names)
            return
        for batch in found:
            yield batch.select(names)

    def full_keys(self) -> Iterator[Bytes]:
        """Yield the full keys of all entries, of older versions and deletes too, file by file."""
        bounds = self.encoding.vnode_bounds(range(self.encoding.vnode_count))
        for run in self._runs:
            for block in run.source(bounds, _LEAVES_OF_KEYS, False):
                yield block.key_bytes()

    def reaches(self, lows: Bytes, highs: Bytes) -> NDArray[np.bool_]:
        """Return of each pair of full keys, low <= high, whether there may be an entry between.

        Neither may be a long one's.
        """
        found = np.zeros(len(lows), np.bool_)
        for file in self._files:
            found |= file.reaches(lows, highs)
        return found

    def count(
        self, vnodes: Sequence[range] | None = None, *, where: Predicate | None = None
    ) -> int:
        """Return the number of visible rows, of those that ``where`` wants."""
        if where is not None:
            names = where.columns or self.encoding.key_names[:1]
            return sum(batch.num_rows for batch in self.scan(names, vnodes=vnodes, where=where))
        scan = self._scan((), None)
        return sum(
            len(block)
            for bounds in self._ranges(self._groups(vnodes), EVERY_KEY)
            for window in scan.windows(bounds)
            for block in window.blocks
        )

    def columns(self, names: Sequence[str] | None) -> Sequence[Column]:
        """Return the columns of these names, the visible ones by default.

        SchemaMismatchError if there is none of a name, or a name comes twice.
        """
        schema = self.encoding.schema
        if names is None:
            return schema.visible_columns
        if not name_list("columns", names):
            raise SchemaMismatchError("no column was asked for; name at least one")
        known = {column.name.lower(): column for column in schema.columns}
        try:
            wanted = [known.pop(name.lower()) for name in names]
        except KeyError as error:
            raise SchemaMismatchError(
                f"table {self.encoding.name}: {error} is not one of its columns "
                f"{', '.join(column.name for column in schema.columns)}, or was asked for twice"
            ) from None
        return wanted

    def _with_columns_of(self, where: Predicate, wanted: Sequence[Column]) -> Sequence[Column]:
        """Return the columns wanted and, behind them, those that a predicate looks at besides."""
        schema = self.encoding.schema
        if where.schema != schema:
            raise SchemaMismatchError(
                f"table {self.encoding.name}: the condition was parsed for another schema; parse "
                "it again"
            )
        return [*wanted, *(one for one in map(schema.column, where.columns) if one not in wanted)]

    def _pruned(self, where: Predicate, groups: Sequence[range], keys: KeyRange) -> Pruned | None:
        """Return what a predicate leaves to be read; None if all of ``keys`` is."""
        ranges = where.ranges() if keys == EVERY_KEY else None
        if ranges is None:
            return None
        seeks = worthwhile_seeks(self._most(None).rows, len(self._segments))
        return prune(self.encoding, ranges, groups, seeks)

    def _read(
        self, pruned: Pruned, columns: Sequence[Column], newest: Block | None
    ) -> Iterator[pa.RecordBatch]:
        names = [column.name for column in columns]
        for start in range(0, len(pruned.points), _POINTS_AT_ONCE):
            yield self.find(pruned.points.slice(start, _POINTS_AT_ONCE), names, newest)[1]
        if pruned.ranges:
            scan = self._scan(columns, newest)
            sources = [spread(source, pruned.ranges) for source in scan.sources]
            yield from replace(scan, sources=sources).batches([pruned.around])

    def _scan(self, columns: Sequence[Column], newest: Block | None) -> Scan:
        sources = [run.source for run in self._runs]
        return Scan(
            sources=sources if newest is None else [partial(_block_source, newest), *sources],
            decode=partial(self._decode, columns=columns),
            keys_of=self.encoding.primary_keys,
            most=self._most(newest),
            resolver=self._resolver,
        )

    def _most(self, newest: Block | None) -> Limits:
        """Return the most rows that a scan may yield and their stored bytes."""
        table_id = self.encoding.table_id
        records = [placed.record for placed in self._segments]
        rows = sum(record.rows(table_id) for record in records)
        size = sum(record.stored_bytes(table_id) for record in records)
        if newest is None:
            return Limits(rows, size)
        held = int(newest.key_lengths.sum() + newest.value_lengths.sum())
        return Limits(rows + len(newest), size + held)

    def _groups(self, vnodes: Sequence[range] | None) -> Sequence[range]:
        if vnodes is None:
            return [range(self.encoding.vnode_count)]
        check_vnodes(vnodes, self.encoding.vnode_count)
        return vnodes

    def _ranges(self, groups: Sequence[range], keys: KeyRange) -> list[Bounds]:
        """Return the ranges of full keys that hold the rows wanted, ascending.

        A range of keys lies in every vnode apart.
        """
        encoding = self.encoding
        if keys == EVERY_KEY:
            return [encoding.vnode_bounds(group) for group in groups]
        low, high = encoding.key_bounds(keys)
        only = encoding.vnode_of_range(keys)
        if only is not None:
            groups = [range(only, only + 1)] if any(only in group for group in groups) else []
        ranges = []
        for vnode in (vnode for group in groups for vnode in group):
            first, end = encoding.vnode_bounds(range(vnode, vnode + 1))
            ranges.append((first[:PREFIX_BYTES] + low, first + high if high is not None else end))
        return ranges

    def _decode(self, piece: Piece, columns: Sequence[Column]) -> pa.RecordBatch:
        try:
            batches = [self.encoding.decode(block, columns) for block in piece.blocks]
        except (ValueError, IndexError) as error:
            raise self._damaged_row_error(error) from error
        batch = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        return batch if piece.order is None else batch.take(pa.array(piece.order))

    def _damaged_row_error(self, error: Exception) -> CorruptionError:
        return CorruptionError(
            f"{self._environment.local_path(SEGMENTS)}: a row of table {self.encoding.table_id} "
            f"cannot be decoded ({error}); run check to find the file"
        )


def _within(full_keys: list[bytes], span: tuple[bytes, bytes]) -> list[bytes]:
    """Return those of some full keys, ascending, that lie between two keys."""
    first, last = span
    start = bisect_left(full_keys, first)
    return full_keys[start : bisect_right(full_keys, last, start)]


def check_vnodes(groups: Sequence[range], vnode_count: int) -> None:
    """Raise OptionError unless these are ranges of vnodes, none of which comes twice."""
    last = 0
    for group in sorted(groups, key=lambda group: group.start):
        if not last <= group.start <= group.stop <= vnode_count or group.step != 1:
            raise OptionError(
                f"{group} among {len(groups)} ranges of vnodes: they must not overlap, and lie "
                f"within the {vnode_count} vnodes of the store"
            )
        last = group.stop


def single_vnodes(groups: Sequence[range]) -> list[range]:
    """Return the vnodes of some ranges as ranges of one vnode each."""
    return [range(vnode, vnode + 1) for group in groups for vnode in group]


def _block_source(block: Block, bounds: Bounds, leaves: int, descending: bool) -> Iterator[Block]:
    inside = block.between(*bounds)
    return iter([inside] if len(inside) else [])
