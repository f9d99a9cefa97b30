"""The merge of sorted sources, window by window.

Promises: windows come in key order, ascending or descending, and hold a bounded part of every
source; all versions of a key are in one window.
Does not know: what becomes of the versions of a key (resolve.py). Sources are ordered by the
caller, the newest first; one key stands once in a source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter

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
    found = (_filled(_Head(rank, one, None, 0), descending) for rank, one in enumerate(sources))
    # What begins behind a window takes no part in it: of files one a shard few lie side by side.
    waiting = sorted(
        (head for head in found if head), key=partial(_begin, descending), reverse=not descending
    )
    heads: list[_Head] = []
    while heads or waiting:
        heads, bound = _joined(heads, waiting, descending)
        cuts = [_cut(_block(head), bound, descending) for head in heads]
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
    """What is left at the head of a source, and how many entries its last block had.

    ``rank``: the place of the source among all, the newest first.
    """

    rank: int
    source: Iterator[Block]
    block: Block | None
    size: int


def _block(head: _Head) -> Block:
    assert head.block is not None
    return head.block


def _begin(descending: bool, head: _Head) -> bytes:
    """Return the key of a head that the merge comes to first."""
    return _block(head).key(-1 if descending else 0)


def _joined(
    heads: list[_Head], waiting: list[_Head], descending: bool
) -> tuple[list[_Head], bytes]:
    """Return the heads of the next window and its last key, the nearest end of any of them.

    Heads that wait, the nearest last, join it if they begin within it.
    """
    heads = heads or [waiting.pop()]
    nearest, end = (max, 0) if descending else (min, -1)
    bound = nearest(_block(head).key(end) for head in heads)
    while waiting:
        begin = _begin(descending, waiting[-1])
        if begin != bound and nearest(begin, bound) == bound:
            break
        heads = [*heads, waiting.pop()]
        bound = nearest(bound, _block(heads[-1]).key(end))
    return sorted(heads, key=attrgetter("rank")), bound


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
        return replace(head, block=more, size=len(more))
    joined = more.followed_by(left) if descending else left.followed_by(more)
    return replace(head, block=joined, size=len(more))


def _cut(block: Block, bound: bytes, descending: bool) -> tuple[Block, Block]:
    """Return (the entries up to the bound, the rest) in the direction of the merge."""
    if descending:
        place = block.first_at_or_after(bound)
        return block.slice(place, len(block)), block.slice(0, place)
    place = block.first_after(bound)
    return block.slice(0, place), block.slice(place, len(block))
