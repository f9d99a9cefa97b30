"""Merges of sorted sources: of the versions of a key, and of vnodes into the order of the key.

`merge` reads sorted runs of entries, the newest first, window by window. A key comes once in a
source; all of its versions are in one window. Files are sorted by vnode first, so a scan in key
order reads all vnodes at once: `merge_in_key_order` merges their rows, each of another key.

Promises: windows and batches come in key order, ascending or descending; memory is bounded by a
part of every source, and by some megabytes for the rows of all vnodes together.
Does not know: what becomes of the versions of a key (resolve.py), or where rows come from.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter

import numpy as np
import pyarrow as pa

from ..codec.ragged import Bytes, sort_order
from ..errors import CorruptionError
from ..segment.block import Block
from .resolve import Resolver, Window

KeysOf = Callable[[pa.RecordBatch], Bytes]
"""Gives the keys of a batch as bytes that compare as the keys do."""

# All cursors together are filled up to whichever of these is reached first.
_HELD_ROWS, _HELD_BYTES = 262_144, 16 << 20


def merge(
    sources: Sequence[Iterator[Block]],
    resolver: Resolver,
    *,
    descending: bool = False,
    in_order: bool = True,
) -> Iterator[Window]:
    """Yield what ``resolver`` keeps of several sources, the newest source first, as windows.

    Each source yields its blocks in key order; with ``descending`` the blocks come from the end,
    and so do the windows, while the rows inside of both stay ascending. ``in_order``: whether the
    windows have to come in key order.
    """
    return resolver.windows(_cut_sources(sources, resolver, descending), in_order=in_order)


def _cut_sources(
    sources: Sequence[Iterator[Block]], resolver: Resolver, descending: bool
) -> Iterator[list[Block]]:
    """Yield the blocks of each window, the newest first, all entries of a row in one window."""
    opened = (
        _filled(
            _Cursor(rank, resolver.whole_rows(source, descending=descending), None, 0), descending
        )
        for rank, source in enumerate(sources)
    )
    # A source that begins after a window waits: with one file per shard few overlap.
    waiting = sorted(
        (cursor for cursor in opened if cursor),
        key=partial(_begin, descending),
        reverse=not descending,
    )
    cursors: list[_Cursor] = []
    last_key = partial(resolver.last_key, descending=descending)
    while cursors or waiting:
        cursors, bound = _joined(cursors, waiting, last_key, descending)
        cuts = [_cut(_block(cursor), bound, descending) for cursor in cursors]
        insides = [inside for inside, _ in cuts if len(inside)]
        if not insides:
            raise CorruptionError("the keys of a segment are not in order; run check to find it")
        yield insides
        rests = [
            replace(cursor, block=outside)
            for cursor, (_, outside) in zip(cursors, cuts, strict=True)
        ]
        cursors = [cursor for rest in rests if (cursor := _filled(rest, descending))]


@dataclass(frozen=True, slots=True)
class _Cursor:
    """The entries of a source that are next, and how many its last block had.

    ``rank``: the number of the source, from the newest.
    """

    rank: int
    source: Iterator[Block]
    block: Block | None
    size: int


def _block(cursor: _Cursor) -> Block:
    assert cursor.block is not None
    return cursor.block


def _begin(descending: bool, cursor: _Cursor) -> bytes:
    """Return the key of a cursor that the merge reaches first."""
    return _block(cursor).key(-1 if descending else 0)


def _joined(
    cursors: list[_Cursor],
    waiting: list[_Cursor],
    last_key: Callable[[Block], bytes],
    descending: bool,
) -> tuple[list[_Cursor], bytes]:
    """Return the cursors of the next window, and its last key: the nearest end of any of them.

    Waiting cursors, the nearest last, join it if they begin within it. ``last_key``: see
    `Resolver.last_key`.
    """
    cursors = cursors or [waiting.pop()]
    nearest = max if descending else min
    bound = nearest(last_key(_block(cursor)) for cursor in cursors)
    while waiting:
        begin = _begin(descending, waiting[-1])
        if begin != bound and nearest(begin, bound) == bound:
            break
        cursors = [*cursors, waiting.pop()]
        bound = nearest(bound, last_key(_block(cursors[-1])))
    return sorted(cursors, key=attrgetter("rank")), bound


def _filled(cursor: _Cursor, descending: bool = False) -> _Cursor | None:
    """Return the cursor with more of its source if it is short; None if the source has ended.

    A window goes up to the nearest end of any cursor: a short cursor makes a small window.
    """
    left = cursor.block
    if left is not None and len(left) * 2 > cursor.size:
        return cursor
    more = next(cursor.source, None)
    if more is None:
        return cursor if left is not None and len(left) else None
    if left is None or not len(left):
        return replace(cursor, block=more, size=len(more))
    joined = more.followed_by(left) if descending else left.followed_by(more)
    return replace(cursor, block=joined, size=len(more))


def _cut(block: Block, bound: bytes, descending: bool) -> tuple[Block, Block]:
    """Return (the entries up to the bound, the rest) in the direction of the merge."""
    if descending:
        start = block.first_at_or_after(bound)
        return block.slice(start, len(block)), block.slice(0, start)
    stop = block.first_after(bound)
    return block.slice(0, stop), block.slice(stop, len(block))


# Rows of several vnodes, in the order of the primary key


def merge_in_key_order(
    streams: Sequence[Iterator[pa.RecordBatch]],
    keys_of: KeysOf,
    *,
    descending: bool,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all streams in key order.

    Each stream yields its own rows in that order already.
    """
    share = _Share(_HELD_ROWS // max(len(streams), 1), _HELD_BYTES // max(len(streams), 1))
    cursors = [
        cursor
        for stream in streams
        if (cursor := _filled_stream(_next_batch(stream, keys_of), keys_of, share))
    ]
    while cursors:
        lasts = [cursor.key(len(cursor.keys) - 1) for cursor in cursors]
        bound = max(lasts) if descending else min(lasts)
        cuts = [_count_inside(cursor, bound, descending) for cursor in cursors]
        yield _merged(
            [cursor.slice(0, cut) for cursor, cut in zip(cursors, cuts, strict=True) if cut],
            descending,
        )
        rests = [
            cursor.slice(cut, len(cursor.keys)) for cursor, cut in zip(cursors, cuts, strict=True)
        ]
        cursors = [cursor for rest in rests if (cursor := _filled_stream(rest, keys_of, share))]


@dataclass(frozen=True, slots=True)
class _StreamCursor:
    """The rows of a stream that are next, with the key of every row."""

    stream: Iterator[pa.RecordBatch]
    batch: pa.RecordBatch
    keys: Bytes

    def key(self, index: int) -> bytes:
        key: bytes = self.keys[index].as_py()
        return key

    def slice(self, start: int, stop: int) -> _StreamCursor:
        length = stop - start
        return _StreamCursor(
            self.stream, self.batch.slice(start, length), self.keys.slice(start, length)
        )


@dataclass(frozen=True, slots=True)
class _Share:
    """How many rows and bytes one cursor may hold."""

    rows: int
    size: int

    def has_room_for_more(self, cursor: _StreamCursor) -> bool:
        """Return whether a cursor holds less than its share, or nothing."""
        rows = len(cursor.keys)
        return not rows or (rows < self.rows and cursor.batch.nbytes < self.size)


def _next_batch(stream: Iterator[pa.RecordBatch], keys_of: KeysOf) -> _StreamCursor | None:
    batch = next((batch for batch in stream if batch.num_rows), None)
    return None if batch is None else _StreamCursor(stream, batch, keys_of(batch))


def _filled_stream(
    cursor: _StreamCursor | None, keys_of: KeysOf, share: _Share
) -> _StreamCursor | None:
    """Return the cursor with more of its stream if it is short; None if the stream has ended.

    A step merges up to the nearest end of any cursor: a short cursor makes a small step.
    """
    while cursor is not None and share.has_room_for_more(cursor):
        more = _next_batch(cursor.stream, keys_of)
        if more is None:
            return cursor if len(cursor.keys) else None
        cursor = _StreamCursor(
            cursor.stream,
            pa.concat_batches([cursor.batch, more.batch]),
            pa.concat_arrays([cursor.keys, more.keys]),
        )
    return cursor


def _count_inside(cursor: _StreamCursor, bound: bytes, descending: bool) -> int:
    """Return how many rows of a cursor are not after ``bound``."""
    rows = len(cursor.keys)
    if descending:
        return rows - bisect_left(range(rows), bound, key=lambda at: cursor.key(rows - 1 - at))
    return bisect_right(range(rows), bound, key=cursor.key)


def _merged(cursors: Sequence[_StreamCursor], descending: bool) -> pa.RecordBatch:
    batch = pa.concat_batches([cursor.batch for cursor in cursors])
    order = sort_order(pa.concat_arrays([cursor.keys for cursor in cursors]))
    return batch.take(pa.array(np.ascontiguousarray(order[::-1]) if descending else order))
