"""The merge of sorted sources: of the versions of a key.

`merge` reads sorted runs of entries, the newest first, window by window. A key comes once in a
source; all of its versions are in one window.

Promises: windows come in key order, ascending or descending; memory is bounded by a part of every
source.
Does not know: what becomes of the versions of a key (resolve.py), or where rows come from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter

from ..errors import CorruptionError
from ..segment.block import Block
from .resolve import Resolver, Window


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
