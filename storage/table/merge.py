"""The merge of sorted sources, window by window.

Promises: windows come in key order, ascending or descending, and hold a bounded part of every
source; all versions of a key are in one window.
Does not know: what becomes of the versions of a key (resolve.py). Sources are ordered by the
caller, the newest first; one key stands once in a source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..errors import CorruptionError
from ..segment.block import Block
from .resolve import Resolver, Window


def merge(
    sources: Sequence[Iterator[Block]], resolver: Resolver, *, descending: bool = False
) -> Iterator[Window]:
    """Yield what ``resolver`` keeps of several sources, the newest source first, as windows.

    Each source yields its blocks in key order; with ``descending`` the blocks come from the end,
    and so do the windows, while the rows inside of both stay ascending.
    """
    heads = [head for source in sources if (head := _filled(_Head(source, None, 0)))]
    while heads:
        blocks = [head.block for head in heads if head.block is not None]
        if descending:
            bound = max(block.key(0) for block in blocks)
        else:
            bound = min(block.key(-1) for block in blocks)
        cuts = [_cut(block, bound, descending) for block in blocks]
        insides = [inside for inside, _ in cuts if len(inside)]
        if not insides:
            raise CorruptionError("the keys of a segment are not in order; run check to find it")
        yield resolver.window(insides)
        rests = [
            replace(head, block=outside) for head, (_, outside) in zip(heads, cuts, strict=True)
        ]
        heads = [head for rest in rests if (head := _filled(rest, descending))]


@dataclass(frozen=True, slots=True)
class _Head:
    """What is left at the head of a source, and how many entries its last block had."""

    source: Iterator[Block]
    block: Block | None
    size: int


def _filled(head: _Head, descending: bool = False) -> _Head | None:
    """Return the head with more of its source behind it if it is short; None if all is over.

    A window goes up to the nearest end of any head: one short head makes a small window.
    """
    left = head.block
    if left is not None and len(left) * 2 > head.size:
        return head
    more = next(head.source, None)
    if more is None:
        return head if left is not None and len(left) else None
    if left is None or not len(left):
        return _Head(head.source, more, len(more))
    joined = more.followed_by(left) if descending else left.followed_by(more)
    return _Head(head.source, joined, len(more))


def _cut(block: Block, bound: bytes, descending: bool) -> tuple[Block, Block]:
    """Return (the entries up to the bound, the rest) in the direction of the merge."""
    if descending:
        place = block.first_at_or_after(bound)
        return block.slice(place, len(block)), block.slice(0, place)
    place = block.first_after(bound)
    return block.slice(0, place), block.slice(place, len(block))
