"""How the versions of a key become one row, or none: the newest, or all of them folded.

Where the newest version is not the row, the versions are *folded*: applied in the order of the
commits. One whose version column is lower than that of an earlier one is not applied (NULL is
lowest), nor is a row of the same version as an earlier delete; a put replaces the row, a delete
removes it but keeps its version in force, a partial row gives it the columns that are not NULL, and
a row of kind ignore becomes the row only if there is none.

Promises: of several sources, given the newest first, each key comes out at most once, in key order;
the caller chooses which entries are kept. Folding some neighbouring versions first, and the result
with the others later, gives the same; for partial and ignore with a version column only if the
earliest are among those folded first. So what compaction merges is what a reader would have merged.
Requires that all sources are cut at the same keys.
Does not know: where versions come from, or how a row is encoded.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..codec.ragged import (
    Bytes,
    Positions,
    equal_neighbours,
    expand,
    first_of_equal,
    first_of_equal_numbers,
    sort_order,
)
from ..schema.properties import TableProperties
from ..segment.block import Block
from ..segment.key import Kind
from ..segment.keynumbers import key_numbers
from .header import Headers
from .overlap import Overlap, insertion_order

Flags: TypeAlias = NDArray[np.bool_]
Coalesce: TypeAlias = Callable[[Block, Positions, NDArray[np.uint8], Block], Bytes]
"""Makes one value of each group of rows. It takes a block, the newest row of a group first, the
first row of each group, the kind of each result, and the entry whose version it has."""

Keep: TypeAlias = Callable[[Block], Flags]
"""Says which of the entries that remain are kept."""


@dataclass(frozen=True, slots=True)
class Window:
    """The entries kept of one range of keys: one block per source, in key order.

    ``order`` puts the rows of all blocks, one block after another, in ascending key order; None
    if they are in it already, or no order was asked for.
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

    def whole_rows(self, source: Iterator[Block], *, descending: bool) -> Iterator[Block]:
        """Return the blocks of a source, none of which ends within a row."""
        return source

    def last_key(self, block: Block, *, descending: bool) -> bytes:
        """Return the last key that entries of the row at a block's end can have.

        With ``descending`` it is the first one of the row at its beginning.
        """
        return block.key(0 if descending else -1)

    def windows(self, inputs: Iterable[Sequence[Block]], *, in_order: bool) -> Iterator[Window]:
        """Yield what is kept of the blocks of some windows, each as `window` takes them.

        ``in_order``: in key order; otherwise rows of several windows may come together.
        """
        return (self.window(blocks, in_order=in_order) for blocks in inputs)

    def window(self, blocks: Sequence[Block], *, in_order: bool = True) -> Window:
        """Return what is kept of some blocks, at least one, the newest source first.

        In each block the keys ascend strictly. ``in_order``: whether the order is asked for.
        """
        overlap = Overlap.of(blocks) if len(blocks) > 1 else None
        if overlap is not None:
            return self._spliced(overlap, in_order=in_order)
        return self._merged_whole(blocks, in_order=in_order)

    def _merged_whole(self, blocks: Sequence[Block], *, in_order: bool) -> Window:
        """Return what is kept of some blocks, which need not be sorted."""
        if len(blocks) == 1:
            return Window((_chosen(blocks[0], self.keep(blocks[0])),), None)
        if self.fold is None:
            return self._kept(blocks, _first_of_equal_keys(blocks), in_order=in_order)
        return self._folded(self.fold, blocks)

    def _spliced(self, overlap: Overlap, *, in_order: bool) -> Window:
        """Return what is kept of one large block and a few other entries."""
        if self.fold is None:
            newest = (overlap.without_older(), *overlap.newest())
            if in_order:
                return self._kept(newest, overlap.newest_order(), in_order=True)
            return Window(tuple(_chosen(block, self.keep(block)) for block in newest), None)
        entries = overlap.of_all_blocks()
        merged = folded_by_key(self.fold, entries, entries.key_bytes())
        blocks = tuple(_chosen(block, self.keep(block)) for block in (overlap.alone(), merged))
        return Window(blocks, insertion_order(*blocks) if in_order else None)

    def _kept(self, blocks: Sequence[Block], order: Positions, *, in_order: bool) -> Window:
        """Return what is kept of some entries of some blocks.

        ``order``: these entries, in key order, as positions in all blocks.
        """
        bounds = np.cumsum([0, *map(len, blocks)])
        is_chosen = np.zeros(bounds[-1], np.bool_)
        is_chosen[order] = True
        is_chosen &= np.concatenate([self.keep(block) for block in blocks])
        chosen = tuple(
            _chosen(block, is_chosen[start:stop])
            for block, (start, stop) in zip(blocks, itertools.pairwise(bounds), strict=True)
        )
        if not in_order:
            return Window(chosen, None)
        ranks = np.cumsum(is_chosen) - 1
        return Window(chosen, ranks[order[is_chosen[order]]])

    def _folded(self, fold: Fold, blocks: Sequence[Block]) -> Window:
        joined = reduce(Block.followed_by, blocks)
        folded = folded_by_key(fold, joined, joined.key_bytes())
        return Window((_chosen(folded, self.keep(folded)),), None)

    def resolve(self, blocks: Sequence[Block]) -> Block:
        """Return what is kept of some blocks, as one block, unordered; they need not be sorted."""
        return Block.joined(self._merged_whole(blocks, in_order=False).blocks)


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
        return headers.are_visible(time() if headers.have_flags else 0)

    return keep


def _first_of_equal_keys(blocks: Sequence[Block]) -> Positions:
    """Return the first entry of each key of some blocks, in key order, as positions in all."""
    numbers = key_numbers(blocks)
    if numbers is None:
        return first_of_equal(pa.concat_arrays([block.key_bytes() for block in blocks]))
    return first_of_equal_numbers(numbers)


def _chosen(block: Block, flags: Flags) -> Block:
    return block if flags.all() else block.take(np.flatnonzero(flags))


# The fold


class Fold:
    """The fold of one table. Immutable."""

    def __init__(self, properties: TableProperties, coalesce: Coalesce) -> None:
        self._is_versioned = properties.is_versioned
        self._coalesce = coalesce

    def __call__(self, entries: Block, firsts: Positions) -> Block:
        """Return one entry per key; ``entries`` are in key order, the newest of a key first.

        ``firsts`` are the first entries of the keys, int64. The result may be a delete.
        """
        if len(firsts) == len(entries):
            return entries
        headers = Headers(entries)
        groups = np.zeros(len(entries), np.int64)
        groups[firsts[1:]] = 1
        groups = np.cumsum(groups)
        rows = np.arange(len(entries))
        if self._is_versioned:
            ranks = 2 * _ranks(headers.versions) + (headers.kinds == Kind.DELETE)
            rows = np.flatnonzero(_applied(ranks, groups))
        return self._folded(entries, rows, groups[rows], headers.kinds[rows])

    def _folded(
        self, entries: Block, rows: Positions, groups: Positions, kinds: NDArray[np.uint8]
    ) -> Block:
        """Return one entry per group of the entries at ``rows``, which all apply."""
        firsts = _firsts(groups)
        base = _first_where((kinds == Kind.PUT) | (kinds == Kind.DELETE), firsts)
        ends = np.append(firsts[1:], len(rows))
        has_base = base < ends
        oldest = np.where(has_base, base, ends - 1)
        is_deleted = has_base & (kinds[np.minimum(base, len(rows) - 1)] == Kind.DELETE)
        # Everything counts from the newest version down to the base, if that is a row.
        last = np.where(is_deleted & (base > firsts), oldest - 1, oldest)
        is_ignored = kinds[last] == Kind.IGNORE
        chosen = np.where(is_ignored, last, firsts)
        # A put over rows to be ignored stays; over partial rows it is merged with them.
        ignores_base = (kinds[firsts] == Kind.IGNORE) & has_base & ~is_deleted
        chosen = np.where(ignores_base, base, chosen)
        merges = (last > firsts) & (kinds[firsts] == Kind.PARTIAL)
        result = entries.take(rows[chosen])
        replaces = (has_base & (kinds[chosen] != Kind.PUT) & (kinds[chosen] != Kind.DELETE)) | (
            merges & has_base
        )
        # The version in force is that of the newest, also where an earlier row stays.
        is_older = chosen != firsts if self._is_versioned else np.zeros(len(firsts), bool)
        changed = np.flatnonzero(merges | replaces | is_older)
        if not len(changed):
            return result
        starts = np.where(merges, firsts, chosen)[changed]
        counts = np.where(merges, last + 1, chosen + 1)[changed] - starts
        members = expand(starts, counts)
        new_kinds = np.where(replaces, Kind.PUT, np.where(merges, Kind.PARTIAL, kinds[chosen]))
        merged = self._coalesce(
            entries.take(rows[members]),
            np.cumsum(counts) - counts,
            new_kinds[changed].astype(np.uint8),
            entries.take(rows[firsts[changed]]),
        )
        return _with_values(result, changed, merged)


def _firsts(groups: Positions) -> Positions:
    return np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))


def _first_where(flags: Flags, firsts: Positions) -> Positions:
    """Return the first index of each group where a flag is set; at or after its end if none is."""
    indices = np.where(flags, np.arange(len(flags)), len(flags))
    return np.minimum.reduceat(indices, firsts)


def _applied(ranks: Positions, groups: Positions) -> Flags:
    """Return which entries apply: none that came earlier has a greater rank.

    Entries are grouped by key, the newest of a group first. The rank of a delete is above that of
    a row of its version: so neither the order of the writes nor their division into commits
    decides between them.
    """
    # Reversed, the earliest come first. Ranks of a later group are higher than all of the groups
    # before it, so that the running maximum starts again with each group.
    reach = int(ranks.max()) + 1
    upside_down = (groups[-1] - groups[::-1]) * reach + ranks[::-1]
    highest = np.maximum.accumulate(upside_down)
    applied: Flags = (upside_down >= highest)[::-1]
    return applied


def _ranks(rows: Bytes) -> Positions:
    """Return the rank of every row among the distinct rows in order."""
    order = sort_order(rows)
    ranks = np.empty(len(rows), np.int64)
    ranks[order] = np.cumsum(np.append(False, ~equal_neighbours(rows.take(order))))
    return ranks


def _with_values(block: Block, rows: Positions, values: Bytes) -> Block:
    """Return a block with other values at some rows."""
    copy = Block.over(block.key_bytes(), block.value_bytes())
    changed = Block.over(copy.take(rows).key_bytes(), values)
    joined = copy.followed_by(changed)
    indices = np.arange(len(block))
    indices[rows] = len(block) + np.arange(len(rows))
    return joined.take(indices)
