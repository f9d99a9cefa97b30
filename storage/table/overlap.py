"""A window of a merge in which one block has most entries: what is merged is the few others.

Promises: entries of the largest block of whose keys no other block has an entry are neither sorted
nor copied.
Does not know: what an entry says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..codec.ragged import Positions, first_of_equal, first_of_equal_numbers
from ..segment.block import Block
from ..segment.blocksearch import find_in_block
from ..segment.keynumbers import key_numbers

Flags: TypeAlias = NDArray[np.bool_]

# A block is much larger than the others if it has at least so many entries for each of theirs.
_LARGEST_PER_OTHER = 4
# Of so few entries all are merged in less time than some of them are searched.
_FEW_ENTRIES = 64
# Fewer entries than one for each so many of the largest block are found in less time by a search
# among its keys than by reading all of these.
_LARGEST_PER_READ = 32


@dataclass(frozen=True, slots=True)
class Overlap:
    """A block that is much larger than the others of its window, and where their keys are in it.

    ``newer``, ``older``: the others, the newest first; the *few* entries are theirs, one block
    after another. ``firsts``: of the few entries the newest of each key, in key order.
    ``indices``: where the keys of these are in the largest block, or would be; ``is_found``: which
    are.
    """

    largest: Block
    newer: Sequence[Block]
    older: Sequence[Block]
    firsts: Positions
    indices: Positions
    is_found: Flags

    @classmethod
    def of(cls, blocks: Sequence[Block]) -> Overlap | None:
        """Find the keys of the other blocks in the largest one.

        None if it is not so much larger that this saves a merge of whole blocks. The blocks are the
        newest first, and the keys of each ascend strictly.
        """
        number = max(range(len(blocks)), key=lambda index: len(blocks[index]))
        largest, newer, older = blocks[number], blocks[:number], blocks[number + 1 :]
        others = sum(map(len, blocks)) - len(largest)
        if len(largest) < _FEW_ENTRIES or others * _LARGEST_PER_OTHER > len(largest):
            return None
        return cls(largest, newer, older, *_find(largest, [*newer, *older]))

    def newest(self) -> list[Block]:
        """Return the newest of the few entries of each key, in the order of their blocks.

        None of a key of which the largest block has a newer one.
        """
        chosen = np.sort(self.firsts[self._wins])
        ends = np.cumsum([len(block) for block in (*self.newer, *self.older)])
        bounds = np.searchsorted(chosen, ends)
        blocks, start, begin = [], 0, 0
        for block, stop, end in zip((*self.newer, *self.older), bounds, ends, strict=True):
            if stop > start:
                blocks.append(block.take(chosen[start:stop] - begin))
            start, begin = stop, end
        return blocks

    def newest_order(self) -> Positions:
        """Return the key order of the entries of `without_older` and `newest`, in this order."""
        wins = self._wins
        chosen, indices = self.firsts[wins], self.indices[wins]
        ranks = np.empty(len(chosen), np.int64)
        ranks[np.argsort(chosen)] = np.arange(len(chosen))
        hidden = self._hidden
        indices = indices - np.searchsorted(hidden, indices)
        rest = len(self.largest) - len(hidden)
        return np.insert(np.arange(rest), indices, rest + ranks)

    def without_older(self) -> Block:
        """Return the entries of the largest block of whose keys no newer one is among the few."""
        return _without(self.largest, self._hidden)

    def alone(self) -> Block:
        """Return the entries of the largest block of whose keys none is among the few."""
        return _without(self.largest, self.indices[self.is_found])

    def of_all_blocks(self) -> Block:
        """Return all entries but those that are `alone`, the newest of a key first."""
        members = self.largest.take(self.indices[self.is_found])
        return Block.joined([*self.newer, members, *self.older])

    @property
    def _is_newer(self) -> Flags:
        """Which of the ``firsts`` are newer than the entries of the largest block."""
        is_newer: Flags = self.firsts < sum(map(len, self.newer))
        return is_newer

    @property
    def _wins(self) -> Flags:
        """Which of the ``firsts`` are the newest entries of their keys."""
        return ~self.is_found | self._is_newer

    @property
    def _hidden(self) -> Positions:
        """The entries of the largest block that are older than one of the few, ascending."""
        return self.indices[self.is_found & self._is_newer]


def _find(largest: Block, others: Sequence[Block]) -> tuple[Positions, Positions, Flags]:
    """Return (firsts, indices, is_found) of an `Overlap`."""
    is_dense = sum(map(len, others)) * _LARGEST_PER_READ >= len(largest)
    numbers = key_numbers([largest, *others]) if is_dense else None
    if numbers is None:
        keys = pa.concat_arrays([block.key_bytes() for block in others])
        firsts = first_of_equal(keys)
        return firsts, *find_in_block(largest, keys.take(pa.array(firsts)))
    firsts = first_of_equal_numbers(numbers[1:])
    searched = np.concatenate(numbers[1:])[firsts]
    indices = np.searchsorted(numbers[0], searched)
    is_found = numbers[0][np.minimum(indices, len(largest) - 1)] == searched
    return firsts, indices, is_found


def _without(block: Block, indices: Positions) -> Block:
    if not len(indices):
        return block
    stays = np.ones(len(block), np.bool_)
    stays[indices] = False
    return block.take(np.flatnonzero(stays))


def insertion_order(many: Block, few: Block) -> Positions:
    """Return the key order of the entries of two blocks, each in key order, one after another.

    No key is in both. It takes least time if the second block has few entries.
    """
    indices, _ = find_in_block(many, few.key_bytes())
    return np.insert(np.arange(len(many)), indices, len(many) + np.arange(len(few)))
