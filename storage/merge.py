"""The merge of sorted sources: which row of each key is seen.

Promises: of the rows of one key, that of the newest source wins; a delete hides what is older.
Windows come in key order, ascending or descending, and hold a bounded part of every source.
Does not know: how rows are encoded, beyond the version at a key's end and the kind at a value's
beginning. Sources are ordered by the caller, the newest first; one key stands once in a source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .block import Block
from .errors import CorruptionError
from .key import VERSION_BYTES
from .ragged import Bytes, Positions, first_of_each, rows_at

_TABLE_BYTES = 4


class Kind(IntEnum):
    """What an entry says of its key; the first byte of every value."""

    # On disk: never change or reuse. 3 and 4 are kept for partial and ignore.
    PUT = 1
    DELETE = 2


@dataclass(frozen=True, slots=True)
class Pick:
    """Rows of one block: ``rows`` are indices into it, in key order."""

    block: Block
    rows: Positions


@dataclass(frozen=True, slots=True)
class Window:
    """The visible rows of one range of keys.

    ``order`` puts the rows of all picks, one pick after another, in ascending key order; None
    where they are already.
    """

    picks: tuple[Pick, ...]
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
        rows = np.arange(len(blocks[0]), dtype=np.int64)
        return Window((_visible(Pick(blocks[0], rows)),), None)
    winners = first_of_each(pa.concat_arrays([_key_bytes(block) for block in blocks]))
    bounds = np.cumsum([0, *(len(block) for block in blocks)])
    owners = np.searchsorted(bounds, winners, side="right") - 1
    picks, places = [], []
    for index, block in enumerate(blocks):
        mine = np.flatnonzero(owners == index)
        rows = winners[mine] - bounds[index]
        put = _is_put(block, rows)
        picks.append(Pick(block, rows[put]))
        places.append(mine[put])
    return Window(tuple(picks), np.argsort(np.concatenate(places), kind="stable"))


def _visible(pick: Pick) -> Pick:
    put = _is_put(pick.block, pick.rows)
    return pick if put.all() else Pick(pick.block, pick.rows[put])


def _is_put(block: Block, rows: Positions) -> NDArray[np.bool_]:
    put: NDArray[np.bool_] = block.values[block.value_starts[rows]] == Kind.PUT
    return put


def _key_bytes(block: Block) -> Bytes:
    """Return the keys of a block without table and version: the same bytes are the same row."""
    lengths = block.key_lengths - _TABLE_BYTES - VERSION_BYTES
    return rows_at(block.keys, block.key_starts + _TABLE_BYTES, lengths)
