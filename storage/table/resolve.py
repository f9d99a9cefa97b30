"""The visible version of each key: one, or none.

Promises: of several sources, given the newest first, each key comes out at most once, in key order;
the caller chooses which entries are kept.
Requires that all sources are cut at the same keys.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..codec.ragged import Bytes, Positions, equal_neighbours, first_of_equal, gather, sort_order
from ..segment.block import Block
from .fold import Fold
from .header import Headers

Flags: TypeAlias = NDArray[np.bool_]

_TABLE_BYTES = 4


@dataclass(frozen=True, slots=True)
class Window:
    """The entries kept of one range of keys: one block per source, in key order.

    ``order`` puts the rows of all blocks, one block after another, in ascending key order; None
    if they are in it already.
    """

    blocks: tuple[Block, ...]
    order: Positions | None


@dataclass(frozen=True, slots=True)
class Resolver:
    """How the versions of a key become one.

    ``keep`` returns which of the remaining entries to keep. ``fold`` is None if the newest version
    is the row.
    """

    keep: Callable[[Block], Flags]
    fold: Fold | None = None

    def window(self, blocks: Sequence[Block]) -> Window:
        """Return what is kept of some blocks, at least one, the newest source first.

        In each block the keys ascend strictly.
        """
        if len(blocks) == 1:
            return Window((_chosen(blocks[0], self.keep(blocks[0])),), None)
        if self.fold is None:
            return self._newest(blocks)
        return self._folded(self.fold, blocks)

    def _newest(self, blocks: Sequence[Block]) -> Window:
        winners = first_of_equal(pa.concat_arrays([row_keys(block) for block in blocks]))
        bounds = np.cumsum([0, *(len(block) for block in blocks)])
        is_chosen = np.zeros(bounds[-1], np.bool_)
        is_chosen[winners] = True
        is_chosen &= np.concatenate([self.keep(block) for block in blocks])
        ranks = np.cumsum(is_chosen) - 1
        return Window(
            tuple(
                _chosen(block, is_chosen[start:stop])
                for block, (start, stop) in zip(blocks, itertools.pairwise(bounds), strict=True)
            ),
            ranks[winners[is_chosen[winners]]],
        )

    def _folded(self, fold: Fold, blocks: Sequence[Block]) -> Window:
        joined = reduce(Block.followed_by, blocks)
        folded = folded_by_key(fold, joined, row_keys(joined))
        return Window((_chosen(folded, self.keep(folded)),), None)

    def resolve(self, blocks: Sequence[Block]) -> Block:
        """Return what is kept of some blocks, as one block, unordered; they need not be sorted."""
        window = self.window(blocks)
        return reduce(Block.followed_by, window.blocks)


def folded_by_key(fold: Fold, entries: Block, keys: Bytes) -> Block:
    """Return some entries, at least one, the newest of a key first, folded to one per key.

    ``keys``: bytes that compare as the keys of the entries do. The result is in their order.
    """
    order = sort_order(keys)
    repeats = np.append(False, equal_neighbours(keys.take(pa.array(order))))
    return fold(entries.take(order), np.flatnonzero(~repeats))


def fold_entries(fold: Fold, keys: Bytes, values: Bytes) -> tuple[Bytes, Bytes]:
    """Return (keys, values) of entries, given in the order of writing, folded to one per key."""
    newest_first = np.arange(len(keys))[::-1]
    entries = Block.over(keys, values).take(newest_first)
    folded = folded_by_key(fold, entries, keys.take(pa.array(newest_first)))
    return folded.key_bytes(), folded.value_bytes()


def keep_all(block: Block) -> Flags:
    """Keep every entry."""
    return np.ones(len(block), np.bool_)


def keep_visible(time: Callable[[], int]) -> Callable[[Block], Flags]:
    """Return what keeps the rows visible at a time; ``time`` is called if a row expires."""

    def keep(block: Block) -> Flags:
        headers = Headers(block)
        return headers.are_visible(time() if headers.flags.any() else 0)

    return keep


def row_keys(block: Block) -> Bytes:
    """Return the keys of a block without the table id: equal bytes are the same row."""
    lengths = block.key_lengths - _TABLE_BYTES
    return gather(block.keys, block.key_starts + _TABLE_BYTES, lengths)


def _chosen(block: Block, flags: Flags) -> Block:
    return block if flags.all() else block.take(np.flatnonzero(flags))
