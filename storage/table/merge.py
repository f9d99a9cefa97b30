"""The merge of sorted sources: which row of each key is seen.

Promises: of the rows of one key, that of the newest source wins; a delete hides what is older.
Windows come in key order, ascending or descending, and hold a bounded part of every source.
Does not know: how rows are encoded, beyond the version at a key's end and the kind at a value's
beginning. Sources are ordered by the caller, the newest first; one key stands once in a source.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..codec.ragged import Bytes, Positions, first_of_each, gather
from ..errors import CorruptionError
from ..segment.block import Block
from ..segment.key import VERSION_BYTES
from ..segment.kind import Kind

Flags: TypeAlias = NDArray[np.bool_]

_TABLE_BYTES = 4


@dataclass(frozen=True, slots=True)
class Window:
    """The visible rows of one range of keys: of every source a block, in key order.

    ``order`` puts the rows of all blocks, one block after another, in ascending key order; None
    where they are already.
    """

    blocks: tuple[Block, ...]
    order: Positions | None


def merge(sources: Sequence[Iterator[Block]], *, descending: bool = False) -> Iterator[Window]:
    """Yield the windows of several sources, the newest source first.

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
        yield _window(insides)
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


def _window(blocks: Sequence[Block]) -> Window:
    if len(blocks) == 1:
        return Window((_chosen(blocks[0], _is_put(blocks[0])),), None)
    winners = first_of_each(pa.concat_arrays([_key_bytes(block) for block in blocks]))
    bounds = np.cumsum([0, *(len(block) for block in blocks)])
    visible = np.zeros(bounds[-1], np.bool_)
    visible[winners] = True
    visible &= np.concatenate([_is_put(block) for block in blocks])
    ranks = np.cumsum(visible) - 1
    return Window(
        tuple(
            _chosen(block, visible[start:stop])
            for block, (start, stop) in zip(blocks, itertools.pairwise(bounds), strict=True)
        ),
        ranks[winners[visible[winners]]],
    )


def _is_put(block: Block) -> Flags:
    put: Flags = block.values[block.value_starts] == Kind.PUT
    return put


def _chosen(block: Block, flags: Flags) -> Block:
    return block if flags.all() else block.take(np.flatnonzero(flags))


def _key_bytes(block: Block) -> Bytes:
    """Return the keys of a block without table and version: the same bytes are the same row."""
    lengths = block.key_lengths - _TABLE_BYTES - VERSION_BYTES
    return gather(block.keys, block.key_starts + _TABLE_BYTES, lengths)
