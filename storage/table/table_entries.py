"""The entries of one table at one epoch: what its files hold, older versions and deletes too.

Promises: what is returned was in a verified file of the epoch; blocks are of bounded size.
Does not know: how a user asks for rows, or the log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from relstate.vnode import cached_property

from ..codec.ragged import Bytes
from ..codec.value_field import MAX_ARROW_OFFSET
from ..environment import Environment
from ..errors import UsageError
from ..log.segment_record import TableStatistics
from ..log.sequenced_segment import SequencedSegment
from ..log.table_segments import statistics_in
from ..schema.schema import Column
from ..segment.block import Block
from ..segment.search import KeyRanges
from .dividedfiles import files_of
from .encoding import Encoding
from .keychunks import Sample, key_chunks
from .lookup import Lookup
from .resolve import Keep, Resolver, keep_all, keep_visible
from .run import sampled_rows
from .scan import SORTED, Bounds, Limits, Piece, Scan, Source, joined_ranges
from .vnoderanges import VnodeRanges

_LEAVES_OF_KEYS = 512
# Of larger tables only a part of the leaf pages is looked at to divide them.
_MOST_SAMPLED_LEAVES = 16_384


class TableEntries:
    """The entries of a table. Safe between threads; holds its segments open while it lives."""

    def __init__(
        self,
        environment: Environment,
        encoding: Encoding,
        segments: Sequence[SequencedSegment],
        time: Callable[[], int],
        *,
        verify: str = "hash",
        epoch: int | None = None,
    ) -> None:
        """``segments``: those that hold entries of the table, the newest first. ``time`` returns
        microseconds since 1970: rows that have expired by then are not visible. ``epoch``: the
        epoch that is read, for messages.
        """
        self.encoding = encoding
        self._time = time
        self._files = files_of(environment, segments, encoding, verify, epoch)
        self._lookup = Lookup(environment, encoding, self._files)

    @property
    def is_empty(self) -> bool:
        """Whether no entry was ever written; False may still mean that there is no row."""
        return not self._files.segments

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

    # Entries

    def get_values(self, full_keys: Bytes) -> Block:
        """Return the newest entries, deletes included, of those full keys that have one."""
        return Block.joined(self._lookup.values(full_keys))

    def get_value_blocks(self, full_keys: Bytes) -> list[Block]:
        """Return what `get_values` does without a copy, in one block or more."""
        return self._lookup.values(full_keys)

    def stored_entries(self, full_keys: Bytes) -> list[Block]:
        """Return all entries of the rows of some keys: see `Lookup.stored_entries`."""
        return self._lookup.stored_entries(full_keys)

    def entries(self) -> Iterator[Block]:
        """Yield the newest entry of every key, deletes and expired rows too."""
        resolver = self._resolver_of(keep_all, self._time)
        scan = replace(self.scan_of((), None), resolver=resolver)
        for window in scan.windows(self.encoding.vnode_bounds(range(self.encoding.vnode_count))):
            yield from filter(len, window.blocks)

    def visible_entries(self, vnodes: range) -> Iterator[Block]:
        """Yield the visible rows of some vnodes, each as one entry, in no order."""
        bounds = self.encoding.vnode_bounds(vnodes)
        for window in self.scan_of((), None, within=[bounds]).windows(bounds, in_order=False):
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

    # Scans

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
        parts = None
        if newest is not None:
            sources.insert(0, _source_of(newest, ranges))
        elif not self._may_divide:
            from .keydivision import KeyDivision

            division = KeyDivision.of(
                [run.key_span for run in runs],
                [run.span for run in runs],
                [run.rows for run in runs],
            )
            parts = partial(division.parts, sources, self.encoding.prefix.size)
        return Scan(
            sources=sources,
            decode=partial(self.decode, columns=columns),
            keys_of=self.encoding.primary_keys,
            resolver=self._resolver_of(keep_visible(self._time), self._time, columns or None),
            parts=parts,
        )

    def sorts_in_memory(self, newest: Block | None) -> bool:
        """Return whether all rows are few enough to be sorted at once."""
        most = self._most(newest)
        return most.rows <= SORTED.rows and most.size <= SORTED.size

    def key_chunks(
        self, ranges: Sequence[Bounds], within: Bounds, newest: Block | None
    ) -> list[Bounds]:
        """Return ranges of primary keys, ascending, in which about equally much is stored.

        So much of each is in some ascending ranges of full keys that it can be sorted at once.
        Together they are ``within``, a range of primary keys that holds all of them.
        """
        if self.sorts_in_memory(newest):
            return [within]
        return key_chunks(self.encoding, self._samples(ranges, newest), within)

    def _samples(self, ranges: Sequence[Bounds], newest: Block | None) -> Iterator[Sample]:
        """Yield entries of all files that may hold rows of some ranges, and of ``newest``."""
        if newest is not None:
            yield Sample(newest)
        files = [file for run in self._files.runs_of(ranges) for file, _ in run.files]
        step = -(-sum(file.leaf_count for file in files) // _MOST_SAMPLED_LEAVES) or 1
        bounds = self._every_range[0]
        for file in files:
            for block in sampled_rows(file, bounds, step):
                yield Sample(block, step)

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

    def decode(self, piece: Piece, columns: Sequence[Column]) -> pa.RecordBatch:
        """Return some columns of the rows of a piece.

        CorruptionError if they are damaged, UsageError if they are more than a batch can hold.
        """
        try:
            batches = [self.encoding.decode(block, columns) for block in piece.blocks]
        except (ValueError, IndexError) as error:
            raise self._lookup.damaged_row_error(error) from error
        except OverflowError as error:
            raise self._too_large_error(piece) from error
        if len(batches) > 1:
            parts = zip(*(batch.columns for batch in batches), strict=True)
            if any(sum(part.nbytes for part in column) > MAX_ARROW_OFFSET for column in parts):
                raise self._too_large_error(piece)
        batch = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        return batch if piece.order is None else batch.take(pa.array(piece.order))

    def _too_large_error(self, piece: Piece) -> UsageError:
        count = sum(map(len, piece.blocks))
        return UsageError(
            f"table {self.encoding.name}: {count} rows that are read at once take more than "
            f"{MAX_ARROW_OFFSET} bytes in a column, which is what a batch of Arrow holds: give "
            "fewer keys or columns at once, or scan the table"
        )


def _source_of(block: Block, ranges: Sequence[Bounds] | None) -> Source:
    """Return the source of a block; ``ranges``: of these, whatever its bounds."""
    if isinstance(ranges, VnodeRanges):
        block, ranges = ranges.entries_of(block), None
    own: Source = partial(_block_source, block)
    return own if ranges is None else joined_ranges(own, ranges)


def _block_source(block: Block, bounds: Bounds, leaves: int, descending: bool) -> Iterator[Block]:
    inside = block.between(*bounds)
    return iter([inside] if len(inside) else [])
