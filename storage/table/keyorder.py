"""Rows of several vnodes, merged into the order of the primary key.

Files are sorted by vnode first. A scan in key order reads all vnodes side by side and merges them.
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

# What the heads of all streams together are filled up to; of either, what is reached first.
_HELD_ROWS, _HELD_BYTES = 262_144, 16 << 20


@dataclass(frozen=True, slots=True)
class _Head:
    """What is left of the batch at the head of a stream, with the key of every row."""

    stream: Iterator[pa.RecordBatch]
    batch: pa.RecordBatch
    keys: Bytes

    def key(self, index: int) -> bytes:
        found: bytes = self.keys[index].as_py()
        return found

    def slice(self, start: int, stop: int) -> _Head:
        length = stop - start
        return _Head(self.stream, self.batch.slice(start, length), self.keys.slice(start, length))


@dataclass(frozen=True, slots=True)
class _Share:
    """What one head may hold of the rows and bytes of all."""

    rows: int
    size: int

    def has_room_beside(self, head: _Head) -> bool:
        """Return whether the head holds less than this, or nothing."""
        rows = len(head.keys)
        return not rows or (rows < self.rows and head.batch.nbytes < self.size)


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
    live = [head for stream in streams if (head := _filled(_next(stream, keys_of), keys_of, share))]
    while live:
        lasts = [head.key(len(head.keys) - 1) for head in live]
        bound = max(lasts) if descending else min(lasts)
        cuts = [_count_inside(head, bound, descending) for head in live]
        yield _merged(
            [head.slice(0, cut) for head, cut in zip(live, cuts, strict=True) if cut], descending
        )
        rests = [head.slice(cut, len(head.keys)) for head, cut in zip(live, cuts, strict=True)]
        live = [head for rest in rests if (head := _filled(rest, keys_of, share))]


def _next(stream: Iterator[pa.RecordBatch], keys_of: KeysOf) -> _Head | None:
    batch = next((batch for batch in stream if batch.num_rows), None)
    return None if batch is None else _Head(stream, batch, keys_of(batch))


def _filled(head: _Head | None, keys_of: KeysOf, share: _Share) -> _Head | None:
    """Return the head with more of its stream behind it if it is short; None if all is over.

    A step merges up to the nearest end of any head: one short head makes a small step.
    """
    while head is not None and share.has_room_beside(head):
        more = _next(head.stream, keys_of)
        if more is None:
            return head if len(head.keys) else None
        head = _Head(
            head.stream,
            pa.concat_batches([head.batch, more.batch]),
            pa.concat_arrays([head.keys, more.keys]),
        )
    return head


def _count_inside(head: _Head, bound: bytes, descending: bool) -> int:
    """Return how many rows of the head come no later than ``bound``."""
    rows = len(head.keys)
    if descending:
        return rows - bisect_left(range(rows), bound, key=lambda at: head.key(rows - 1 - at))
    return bisect_right(range(rows), bound, key=head.key)


def _merged(heads: Sequence[_Head], descending: bool) -> pa.RecordBatch:
    batch = pa.concat_batches([head.batch for head in heads])
    order = sort_order(pa.concat_arrays([head.keys for head in heads]))
    return batch.take(pa.array(np.ascontiguousarray(order[::-1]) if descending else order))
