"""One scan of a storage table: from ranges of keys to Arrow batches.

A range of keys has a part in every vnode, so a condition on the key leaves many small ranges. They
are read as one sorted run, because to merge and decode each by itself costs far
more than its rows. The windows of a merge are cut into *pieces* of bounded size, each of which is
decoded to one batch.

Promises: batches hold at most 65,536 rows and about 8 MiB of stored bytes, so a scan's memory does
not grow with the table, however it is ordered. Batches are never empty and, if others follow, not
tiny either.
Does not know: which segments a table has, or how bytes become rows; it is given both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ..codec.ragged import Bytes, Positions, sort_order
from ..segment.block import Block, join_small_ones
from .merge import merge
from .resolve import Resolver, Window

if TYPE_CHECKING:
    from ..predicate.predicate import Predicate

# Pieces


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one piece may hold: rows, and bytes of stored keys and values."""

    rows: int
    size: int


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows of some blocks.

    ``order`` puts the rows of all blocks, one block after another, in the right order; None
    where they are already.
    """

    blocks: tuple[Block, ...]
    order: Positions | None


def pieces(window: Window, limits: Limits) -> Iterator[Piece]:
    """Yield a window's rows block by block."""
    for block in window.blocks:
        for part in cut(block, limits):
            yield Piece((part,), None)


def cut(block: Block, limits: Limits) -> Iterator[Block]:
    """Yield the entries of a block in parts within the limits, or of one entry."""
    for part in _cuts(_sizes(block), limits):
        yield block.slice(part.start, part.stop)


def pieces_in_order(window: Window, limits: Limits, *, descending: bool) -> Iterator[Piece]:
    """Yield a window's rows in key order, ascending or descending."""
    sizes = np.concatenate([_sizes(block) for block in window.blocks])
    rows = np.arange(len(sizes)) if window.order is None else window.order
    if descending:
        rows = rows[::-1]
    bounds = np.cumsum([0, *map(len, window.blocks)])
    for part in _cuts(sizes[rows], limits):
        yield _piece(window, bounds, rows[part])


def _piece(window: Window, bounds: Positions, rows: Positions) -> Piece:
    if len(window.blocks) == 1:
        return Piece((window.blocks[0].take(rows),), None)
    owners = np.searchsorted(bounds, rows, side="right") - 1
    blocks, row_indices = [], []
    for index in np.unique(owners):
        own_rows = np.flatnonzero(owners == index)
        blocks.append(window.blocks[index].take(rows[own_rows] - bounds[index]))
        row_indices.append(own_rows)
    order = np.argsort(np.concatenate(row_indices), kind="stable") if len(blocks) > 1 else None
    return Piece(tuple(blocks), order)


def _sizes(block: Block) -> Positions:
    return block.value_lengths + block.key_lengths


def _cuts(sizes: Positions, limits: Limits) -> Iterator[slice]:
    """Yield slices of rows with these sizes, each within the limits."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        stop = int(np.searchsorted(ends, before + limits.size, side="right"))
        stop = min(max(stop, start + 1), start + limits.rows)
        yield slice(start, stop)
        start = stop


# Scans

Bounds = tuple[bytes, bytes | None]
"""A range of full keys: from the first, included, to the second, excluded (None: no end)."""

_BATCH = Limits(rows=65_536, size=8 << 20)
# Leaf pages that all sources of a merge may hold at once: a window has costs of its own.
_LEAVES = 8192
# The bounds of the part of a source.
_LEAST_LEAVES, _MOST_LEAVES = 4, 2048
LONE_LEAVES = 512
"""The leaf pages of a block of what needs no merge: smaller blocks stay in caches."""
SORTED = Limits(rows=262_144, size=64 << 20)
"""How much a read in key order sorts in memory at once."""
# Above so many bytes batches are not made one: an array of text holds 2 GiB.
_MOST_JOINED = 1 << 30
# Blocks of small ranges are joined to about this many rows.
_JOINED_ROWS = 16_384
# Batches of matching rows are joined until they have this many, or the bytes of a full batch.
_LEAST_MATCHES = 8192

Source = Callable[[Bounds, int, bool], Iterator[Block]]
"""Reads one sorted run: takes bounds, the most leaf pages of a block, and whether it descends."""


@dataclass(frozen=True, slots=True)
class Scan:
    """What a scan reads and how it returns it.

    ``sources``: sorted runs, the newest first. ``decode`` makes a batch of a piece, ``keys_of``
    gives the primary keys of a batch as bytes; ``resolver`` chooses the visible version of a key.
    ``parts`` takes bounds and gives the sources in parts, of which no two have a row in common;
    None if any two sources may have one.
    """

    sources: Sequence[Source]
    decode: Callable[[Piece], pa.RecordBatch]
    keys_of: Callable[[pa.RecordBatch], Bytes]
    resolver: Resolver
    parts: Callable[[Bounds], Iterable[Sequence[Source]]] | None = None

    def windows(
        self,
        bounds: Bounds,
        *,
        descending: bool = False,
        leaves: int | None = None,
        in_order: bool = True,
    ) -> Iterator[Window]:
        """Yield the visible rows within bounds as windows of a merge.

        ``leaves``: how many leaf pages all sources may hold, at least one each. ``in_order``:
        whether the windows have to come in key order.
        """
        parts = [self.sources] if in_order or self.parts is None else self.parts(bounds)
        return chain.from_iterable(
            _merged(part, self.resolver, bounds, leaves, descending=descending, in_order=in_order)
            for part in parts
        )

    def batches(self, ranges: Sequence[Bounds]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some ranges, range by range, in no order inside."""
        return map(self.decode, self.pieces(ranges))

    def pieces(self, ranges: Sequence[Bounds]) -> Iterator[Piece]:
        """Yield what `batches` decodes: each piece is of one block and has no order."""
        for bounds in ranges:
            windows = self.windows(bounds, in_order=False)
            for block in join_small_ones(block for window in windows for block in window.blocks):
                yield from pieces(Window((block,), None), _BATCH)

    def sorted_range(self, bounds: Bounds, *, descending: bool) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range within one vnode in the order of the primary key."""
        for window in self.windows(bounds, descending=descending):
            yield from map(self.decode, pieces_in_order(window, _BATCH, descending=descending))

    def in_order(
        self, batches: Sequence[pa.RecordBatch], *, descending: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some batches, sorted by the primary key in memory."""
        batches = [batch for batch in batches if batch.num_rows]
        if not batches:
            return
        order = sort_order(pa.concat_arrays([self.keys_of(batch) for batch in batches]))
        order = np.ascontiguousarray(order[::-1]) if descending else order
        if sum(batch.nbytes for batch in batches) <= _MOST_JOINED:
            yield from _slices(pa.concat_batches(batches).take(pa.array(order)))
        else:
            yield from _taken_in_parts(batches, order)


def _taken_in_parts(
    batches: Sequence[pa.RecordBatch], order: Positions
) -> Iterator[pa.RecordBatch]:
    """Yield rows of batches, which together are too large for one, in an order of all of them."""
    counts = np.array([batch.num_rows for batch in batches])
    sizes = np.repeat([batch.nbytes // batch.num_rows + 1 for batch in batches], counts)
    owners = np.repeat(np.arange(len(batches)), counts)
    starts = np.cumsum(counts) - counts
    for part in _cuts(sizes[order], _BATCH):
        rows = order[part]
        by_owner = np.argsort(owners[rows], kind="stable")
        taken = [
            batches[number].take(pa.array(rows[owners[rows] == number] - starts[number]))
            for number in np.unique(owners[rows]).tolist()
        ]
        yield pa.concat_batches(taken).take(pa.array(np.argsort(by_owner, kind="stable")))


def _merged(
    sources: Sequence[Source],
    resolver: Resolver,
    bounds: Bounds,
    leaves: int | None,
    *,
    descending: bool,
    in_order: bool,
) -> Iterator[Window]:
    """Yield the windows of a merge of some sources."""
    count = max(len(sources), 1)
    if leaves is None:
        leaves = max(_LEAVES, _LEAST_LEAVES * count)
    share = min(max(leaves // count, 1), LONE_LEAVES if count == 1 else _MOST_LEAVES)
    return merge(
        [source(bounds, share, descending) for source in sources],
        resolver,
        descending=descending,
        in_order=in_order,
    )


def joined_ranges(source: Source, ranges: Sequence[Bounds]) -> Source:
    """Return a source of what ``source`` has in some ascending ranges; it ignores its bounds."""

    def read(_bounds: Bounds, leaves: int, descending: bool) -> Iterator[Block]:
        assert not descending
        return joined_blocks(block for bounds in ranges for block in source(bounds, leaves, False))

    return read


def joined_blocks(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield the entries of blocks as fewer and larger ones, where they share their buffers."""
    group: list[Block] = []
    rows = 0
    for block in blocks:
        if group and (rows >= _JOINED_ROWS or not _share_buffers(group[-1], block)):
            yield Block.joined(group)
            group, rows = [], 0
        group.append(block)
        rows += len(block)
    if group:
        yield Block.joined(group)


def _share_buffers(left: Block, right: Block) -> bool:
    return left.keys is right.keys and left.values is right.values


def matching_rows(
    batches: Iterable[pa.RecordBatch], where: Predicate, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the columns ``names`` of the rows that match a predicate, in their order."""
    return join_small_batches(
        batch.filter(where.mask(batch)).select(names) for batch in batches if batch.num_rows
    )


def join_small_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some batches in larger ones, of bounded size; none without rows."""
    group: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        is_full = rows + batch.num_rows > _BATCH.rows or size + batch.nbytes > _MOST_JOINED
        if group and is_full:
            yield _concatenated(group)
            group, rows, size = [], 0, 0
        group.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= _LEAST_MATCHES or size >= _BATCH.size:
            yield _concatenated(group)
            group, rows, size = [], 0, 0
    if group:
        yield _concatenated(group)


def _concatenated(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, _BATCH.rows):
        yield batch.slice(start, _BATCH.rows)
