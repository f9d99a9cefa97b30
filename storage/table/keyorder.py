"""Rows of several vnodes, merged into the order of the primary key.

Files are sorted by vnode first, so a scan in key order reads all vnodes at once and merges them.
Promises: memory is bounded by a batch of every stream and some megabytes for all of them together.
Does not know: where the batches come from.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ..codec.ragged import Bytes, sort_order

KeysOf = Callable[[pa.RecordBatch], Bytes]
"""Gives the keys of a batch as bytes that compare as the keys do."""

# All cursors together are filled up to whichever of these is reached first.
_HELD_ROWS, _HELD_BYTES = 262_144, 16 << 20


@dataclass(frozen=True, slots=True)
class _Cursor:
    """The rows of a stream that are next, with the key of every row."""

    stream: Iterator[pa.RecordBatch]
    batch: pa.RecordBatch
    keys: Bytes

    def key(self, index: int) -> bytes:
        key: bytes = self.keys[index].as_py()
        return key

    def slice(self, start: int, stop: int) -> _Cursor:
        length = stop - start
        return _Cursor(self.stream, self.batch.slice(start, length), self.keys.slice(start, length))


@dataclass(frozen=True, slots=True)
class _Share:
    """How many rows and bytes one cursor may hold."""

    rows: int
    size: int

    def has_room_for_more(self, cursor: _Cursor) -> bool:
        """Return whether a cursor holds less than its share, or nothing."""
        rows = len(cursor.keys)
        return not rows or (rows < self.rows and cursor.batch.nbytes < self.size)


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
        cursor for stream in streams if (cursor := _filled(_next(stream, keys_of), keys_of, share))
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
        cursors = [cursor for rest in rests if (cursor := _filled(rest, keys_of, share))]


def _next(stream: Iterator[pa.RecordBatch], keys_of: KeysOf) -> _Cursor | None:
    batch = next((batch for batch in stream if batch.num_rows), None)
    return None if batch is None else _Cursor(stream, batch, keys_of(batch))


def _filled(cursor: _Cursor | None, keys_of: KeysOf, share: _Share) -> _Cursor | None:
    """Return the cursor with more of its stream if it is short; None if the stream has ended.

    A step merges up to the nearest end of any cursor: a short cursor makes a small step.
    """
    while cursor is not None and share.has_room_for_more(cursor):
        more = _next(cursor.stream, keys_of)
        if more is None:
            return cursor if len(cursor.keys) else None
        cursor = _Cursor(
            cursor.stream,
            pa.concat_batches([cursor.batch, more.batch]),
            pa.concat_arrays([cursor.keys, more.keys]),
        )
    return cursor


def _count_inside(cursor: _Cursor, bound: bytes, descending: bool) -> int:
    """Return how many rows of a cursor are not after ``bound``."""
    rows = len(cursor.keys)
    if descending:
        return rows - bisect_left(range(rows), bound, key=lambda at: cursor.key(rows - 1 - at))
    return bisect_right(range(rows), bound, key=cursor.key)


def _merged(cursors: Sequence[_Cursor], descending: bool) -> pa.RecordBatch:
    batch = pa.concat_batches([cursor.batch for cursor in cursors])
    order = sort_order(pa.concat_arrays([cursor.keys for cursor in cursors]))
    return batch.take(pa.array(np.ascontiguousarray(order[::-1]) if descending else order))
