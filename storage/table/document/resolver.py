"""The merge of document entries: windows of whole rows, and one entry for each row of them.

Promises: a row is never cut, however many entries it has; where no row has entries for parts a
window is what it is for a table of rows.
Does not know: which files are merged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...codec.path import ABOVE_PATHS
from ...codec.ragged import Bytes, Positions, equal_neighbours, gather
from ...segment.block import Block
from ..header import Headers
from ..resolve import Resolver, Window, keep_all
from .remains import Remains
from .rowfold import RowFold, window_of


@dataclass(frozen=True, slots=True)
class DocumentResolver(Resolver):
    """How the entries of a row become one. ``time`` is called if something expires."""

    rows: RowFold | None = None
    time: Callable[[], int] = lambda: 0

    def whole_rows(self, source: Iterator[Block], *, descending: bool) -> Iterator[Block]:
        """Yield the entries of a source in blocks of whole rows."""
        rest: Block | None = None
        for block in source:
            if rest is not None:
                block = block.followed_by(rest) if descending else rest.followed_by(block)
            if descending:
                cut = block.first_after(last_key_of(row_key_at(block, 0)))
                rest, whole = block.slice(0, cut), block.slice(cut, len(block))
            else:
                cut = block.first_at_or_after(row_key_at(block, -1))
                whole, rest = block.slice(0, cut), block.slice(cut, len(block))
            if len(whole):
                yield whole
        if rest is not None:
            yield rest

    def last_key(self, block: Block, *, descending: bool) -> bytes:
        """Return the last key that the row at a block's end can have; descending, the first one."""
        if descending:
            return row_key_at(block, 0)
        return last_key_of(row_key_at(block, -1))

    def window(self, blocks: Sequence[Block]) -> Window:
        """Return what is kept of some blocks: see `window_of`."""
        assert self.rows is not None
        window = window_of(blocks, self.rows.is_divided, self.keep, self.merge)
        return Resolver.window(self, blocks) if window is None else window

    def merge(self, entries: Block, versions: Positions) -> tuple[Block, Positions]:
        """Return the rows of some entries that are kept, and their numbers."""
        assert self.rows is not None
        block, numbers = self.rows.rows(entries, versions, self.time)
        kept = np.flatnonzero(self.keep(block))
        return block.take(kept), numbers[kept]


@dataclass(frozen=True, slots=True)
class RemainsResolver(DocumentResolver):
    """What remains of entries when files are merged."""

    remains: Remains | None = None

    def merge(self, entries: Block, versions: Positions) -> tuple[Block, Positions]:
        """Return the entries that remain, and the numbers of their rows."""
        assert self.remains is not None
        return self.remains(entries, versions)


def row_key_at(block: Block, index: int) -> bytes:
    """Return the key of the row of one entry."""
    entry = block.take(np.array([index]))
    length = int(Headers(entry).path_lengths[0])
    key = entry.key(0)
    return key[: len(key) - length]


def last_key_of(row_key: bytes) -> bytes:
    """Return a key above those of all entries of a row, and below those of the next."""
    return row_key + ABOVE_PATHS


def row_keys_of(block: Block) -> Bytes:
    """Return the full key of the row of every entry."""
    lengths = block.key_lengths - Headers(block).path_lengths
    return gather(block.keys, block.key_starts, lengths)


def row_starts(keys: Bytes, values: Bytes) -> NDArray[np.bool_] | None:
    """Return which entries in key order are the first of their rows; None if all are."""
    block = Block.over(keys, values)
    if not Headers(block).is_part.any():
        return None
    return np.append(True, ~equal_neighbours(row_keys_of(block)))


def one_entry_per_row(rows: RowFold, blocks: Sequence[Block]) -> Block:
    """Return one entry for each row of some blocks, the newest block first, in key order.

    Nothing counts as expired; what expires has an expiry. Blocks are in key order.
    """
    resolver = DocumentResolver(keep_all, rows=rows)
    window = resolver.window(blocks)
    joined = Block.joined(window.blocks)
    return joined if window.order is None else joined.take(window.order)
