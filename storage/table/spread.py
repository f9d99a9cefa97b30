"""Many ranges of one sorted run, read as one run.

A range of keys lies in every vnode apart, so that a condition on the key leaves many small ranges.
Merging and decoding each by itself would cost far more than its rows; here a source gives the rows
of many ranges in few blocks.

Promises: key order; blocks of about `_ROWS` rows, and no copies where blocks share their buffer.
Does not know: what the ranges are for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ..segment.block import Block
from .scan import Bounds, Source

_ROWS = 16_384


def spread(source: Source, ranges: Sequence[Bounds]) -> Source:
    """Return a source of what ``source`` has in ``ranges``, ascending, whatever it is asked for."""

    def read(_bounds: Bounds, leaves: int, descending: bool) -> Iterator[Block]:
        assert not descending
        return gathered(block for bounds in ranges for block in source(bounds, leaves, False))

    return read


def gathered(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield the entries of blocks as fewer and larger ones, as far as they share their buffers."""
    held: list[Block] = []
    rows = 0
    for block in blocks:
        if held and (rows >= _ROWS or not _share(held[-1], block)):
            yield Block.joined(held)
            held, rows = [], 0
        held.append(block)
        rows += len(block)
    if held:
        yield Block.joined(held)


def _share(one: Block, other: Block) -> bool:
    return one.keys is other.keys and one.values is other.values
