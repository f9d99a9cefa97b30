"""A block of entries by a cursor of LMDB: for files whose pages this code does not know.

Promises: entries ascend, and are as many as a block may hold. Does not know: transactions and
locks, which `segment` has; damage, for which LMDB's errors pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import Any

_BLOCK_BYTES, _BLOCK_ROWS = 8 << 20, 65_536


# LMDB's own class, whose keys and values are bytes here; only `segment` imports lmdb.
Cursor = Any


def first_pairs(
    cursor: Cursor, low: bytes | None, high: bytes | None, after: bytes | None
) -> list[tuple[bytes, bytes]]:
    """Return the first (key, value) with ``low <= key < high`` (None: unbounded).

    ``after``: the last key of the block before, None for the first block.
    """
    start = after if after is not None else low
    is_placed = cursor.first() if start is None else cursor.set_range(start)
    if is_placed and after is not None:
        is_placed = cursor.next()
    pairs: Iterator[Any] = cursor.iternext() if is_placed else iter(())
    return _take_block(takewhile(lambda pair: high is None or pair[0] < high, pairs))


def last_pairs(
    cursor: Cursor, low: bytes | None, high: bytes | None, before: bytes | None
) -> list[tuple[bytes, bytes]]:
    """Return the last (key, value) with ``low <= key < high`` (None: unbounded), ascending.

    ``before``: the first key of the block that was read before, None for the first block.
    """
    stop = before if before is not None else high
    is_inside = stop is not None and cursor.set_range(stop)
    is_placed = cursor.prev() if is_inside else cursor.last()
    pairs: Iterator[Any] = cursor.iterprev() if is_placed else iter(())
    return _take_block(takewhile(lambda pair: low is None or pair[0] >= low, pairs))[::-1]


def _take_block(pairs: Iterator[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the next entries, as many as a block may hold."""
    block_pairs: list[tuple[bytes, bytes]] = []
    size = 0
    for pair in pairs:
        block_pairs.append(pair)
        size += len(pair[0]) + len(pair[1])
        if size > _BLOCK_BYTES or len(block_pairs) == _BLOCK_ROWS:
            break
    return block_pairs
