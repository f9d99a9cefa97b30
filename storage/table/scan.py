"""One scan of a storage table: from ranges of keys to Arrow batches.

Promises: batches hold at most 65,536 rows and about 8 MiB of stored bytes, so a scan's memory does
not grow with the table, however it is ordered.
Does not know: which segments a table has, or how bytes become rows; it is given both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ..codec.ragged import Bytes, sort_order
from ..segment.block import Block, coarser
from .keyorder import merge_in_key_order
from .merge import merge
from .piece import Limits, Piece, pieces, pieces_in_order
from .resolve import Resolver, Window

Bounds = tuple[bytes, bytes | None]
"""A range of full keys: from the first, included, to the second, excluded (None: no end)."""

_BATCH = Limits(rows=65_536, size=8 << 20)
# Scanning many vnodes side by side holds a piece of each: this is for all of them together.
_SIDE_BY_SIDE = Limits(rows=524_288, size=32 << 20)
# Leaf pages that all sources of a merge may hold at once, and the bounds of one source's part.
_LEAVES = 2048
_LEAST_LEAVES, _MOST_LEAVES = 4, 512
# Leaf pages for all sources of all vnodes side by side.
_LEAVES_SIDE_BY_SIDE = 8192
# Up to so much a scan in key order sorts in memory; beyond, it merges vnode by vnode.
_SORTED = Limits(rows=262_144, size=64 << 20)

Source = Callable[[Bounds, int, bool], Iterator[Block]]
"""Reads one sorted run: blocks within bounds, of at most so many leaf pages, descending or not."""


@dataclass(frozen=True, slots=True)
class Scan:
    """What a scan reads and how it hands it out.

    ``sources``: sorted runs, the newest first. ``decode`` makes a batch of a piece, ``keys_of``
    gives the primary keys of a batch as bytes; ``most`` bounds all rows, and their stored bytes,
    from above; ``resolver`` tells what is seen of a key's versions.
    """

    sources: Sequence[Source]
    decode: Callable[[Piece], pa.RecordBatch]
    keys_of: Callable[[pa.RecordBatch], Bytes]
    most: Limits
    resolver: Resolver

    def windows(
        self, bounds: Bounds, *, descending: bool = False, leaves: int | None = None
    ) -> Iterator[Window]:
        """Yield the visible rows within bounds as windows of a merge.

        ``leaves``: how many leaf pages all sources may hold, at least one each.
        """
        count = max(len(self.sources), 1)
        if leaves is None:
            leaves = max(_LEAVES, _LEAST_LEAVES * count)
        share = min(max(leaves // count, 1), _MOST_LEAVES)
        return merge(
            [source(bounds, share, descending) for source in self.sources],
            self.resolver,
            descending=descending,
        )

    def batches(self, ranges: Sequence[Bounds]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some ranges, range by range, in no order inside."""
        for bounds in ranges:
            blocks = (block for window in self.windows(bounds) for block in window.blocks)
            for block in coarser(blocks):
                yield from map(self.decode, pieces(Window((block,), None), _BATCH))

    @property
    def sorts_in_memory(self) -> bool:
        """Whether there is so little that a scan in key order sorts all of it at once."""
        return self.most.rows <= _SORTED.rows and self.most.size <= _SORTED.size

    def sorted_batches(
        self, ranges: Sequence[Bounds], *, descending: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some ranges in the order of the primary key.

        A range must lie within one vnode unless the scan `sorts_in_memory`.
        """
        if self.sorts_in_memory:
            yield from self._sorted_in_memory(ranges, descending)
        elif len(ranges) == 1:
            yield from self._sorted_range(ranges[0], descending, _BATCH, None)
        elif ranges:
            count = len(ranges)
            leaves = _LEAVES_SIDE_BY_SIDE // count
            piece = Limits(_SIDE_BY_SIDE.rows // count, _SIDE_BY_SIDE.size // count)
            streams = [self._sorted_range(bounds, descending, piece, leaves) for bounds in ranges]
            for batch in merge_in_key_order(streams, self.keys_of, descending=descending):
                yield from _slices(batch)

    def _sorted_range(
        self, bounds: Bounds, descending: bool, limits: Limits, leaves: int | None
    ) -> Iterator[pa.RecordBatch]:
        for window in self.windows(bounds, descending=descending, leaves=leaves):
            yield from map(self.decode, pieces_in_order(window, limits, descending=descending))

    def _sorted_in_memory(
        self, ranges: Sequence[Bounds], descending: bool
    ) -> Iterator[pa.RecordBatch]:
        found = list(self.batches(ranges))
        if not found:
            return
        batch = pa.concat_batches(found)
        order = sort_order(self.keys_of(batch))
        yield from _slices(
            batch.take(pa.array(np.ascontiguousarray(order[::-1]) if descending else order))
        )


def _slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, _BATCH.rows):
        yield batch.slice(start, _BATCH.rows)
