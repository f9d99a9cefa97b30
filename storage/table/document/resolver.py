"""The merge of document entries: windows of whole rows, and one entry for each row of them.

Promises: a row is never cut, however many entries it has; where no row has entries for parts a
window is what it is for a table of rows.
Does not know: which files are merged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ...codec.path import ABOVE_PATHS
from ...codec.ragged import Bytes, Positions, ascends, equal_neighbours, sort_order
from ...errors import CorruptionError, RelstateError
from ...segment.block import Block
from ..header import Headers, path_length
from ..resolve import Resolver, Window, keep_all
from .merge_window import Split, row_keys_of, window_in_order, windows_in_no_order
from .remains import Remains
from .rowfold import RowFold


@dataclass(frozen=True, slots=True)
class DocumentResolver(Resolver):
    """How the entries of a row become one. ``time`` is called if something expires."""

    rows: RowFold | None = None
    time: Callable[[], int] = lambda: 0

    def whole_rows(self, source: Iterator[Block], *, descending: bool) -> Iterator[Block]:
        """Yield the entries of a source in blocks of whole rows."""
        pending: Block | None = None
        for block in source:
            if pending is not None:
                whole, rest = _whole_and_rest(pending, block, descending=descending)
                if len(whole):
                    yield whole
                if rest is not None:
                    block = block.followed_by(rest) if descending else rest.followed_by(block)
            pending = block
        if pending is not None:
            yield pending

    def last_key(self, block: Block, *, descending: bool) -> bytes:
        """Return the last key that the row at a block's end can have; descending, the first one."""
        if descending:
            return row_key_at(block, 0)
        return last_key_of(row_key_at(block, -1))

    def windows(self, inputs: Iterable[Sequence[Block]], *, in_order: bool) -> Iterator[Window]:
        """Yield what is kept of the blocks of some windows; see `Resolver.windows`."""
        if in_order:
            return map(self.window, inputs)
        assert self.rows is not None
        plain_window = partial(self._plain_window, in_order=False)
        return windows_in_no_order(inputs, self.rows.is_divided, plain_window, self.merge)

    def window(self, blocks: Sequence[Block], *, in_order: bool = True) -> Window:
        """Return what is kept of some blocks, in key order."""
        assert self.rows is not None
        split = Split.of(blocks, self.rows.is_divided)
        if split is None:
            return self._plain_window(blocks, in_order=in_order)
        return window_in_order(split, self._plain_window, self.merge)

    def resolve(self, blocks: Sequence[Block]) -> Block:
        """Return what is kept of some blocks, as one block, unordered; they need not be sorted."""
        windows = self.windows([[_in_key_order(block) for block in blocks]], in_order=False)
        return Block.joined([block for window in windows for block in window.blocks])

    def _plain_window(self, blocks: Sequence[Block], *, in_order: bool = True) -> Window:
        return Resolver.window(self, blocks, in_order=in_order)

    def merge(self, entries: Block, versions: Positions) -> Block:
        """Return what is made of some entries. CorruptionError if they are not a table's."""
        assert self.rows is not None
        try:
            return self._merged(entries, versions)
        except RelstateError:
            raise
        except (ValueError, IndexError) as error:
            raise CorruptionError(
                f"table {self.rows.table_name}: the parts of a row cannot be decoded ({error}); "
                "run check to find the file"
            ) from error

    def _merged(self, entries: Block, versions: Positions) -> Block:
        """Return the rows of some entries that are kept."""
        assert self.rows is not None
        rows = self.rows.rows(entries, versions, self.time)
        return rows.take(np.flatnonzero(self.keep(rows)))


@dataclass(frozen=True, slots=True)
class RemainsResolver(DocumentResolver):
    """What remains of entries when files are merged."""

    remains: Remains | None = None

    def _merged(self, entries: Block, versions: Positions) -> Block:
        """Return the entries that remain."""
        assert self.remains is not None
        return self.remains(entries, versions)


def _in_key_order(block: Block) -> Block:
    """Return the entries of a block by their keys, without a copy of their bytes."""
    keys = block.key_bytes()
    return block if ascends(keys) else block.take(sort_order(keys))


def _whole_and_rest(
    block: Block, following: Block, *, descending: bool
) -> tuple[Block, Block | None]:
    """Return the rows of a block that end in it, and the entries of the row that goes on.

    The latter are None if none does: nothing is copied then. ``following``: the block that its
    source yields next.
    """
    row_key = row_key_at(block, 0 if descending else -1)
    if row_key_at(following, -1 if descending else 0) != row_key:
        return block, None
    if descending:
        cut = block.first_after(last_key_of(row_key))
        return block.slice(cut, len(block)), block.slice(0, cut)
    cut = block.first_at_or_after(row_key)
    return block.slice(0, cut), block.slice(cut, len(block))


def row_key_at(block: Block, index: int) -> bytes:
    """Return the key of the row of one entry."""
    key = block.key(index)
    return key[: len(key) - path_length(block, index)]


def last_key_of(row_key: bytes) -> bytes:
    """Return a key above those of all entries of a row, and below those of the next."""
    return row_key + ABOVE_PATHS


def row_starts(keys: Bytes, values: Bytes) -> NDArray[np.bool_] | None:
    """Return which entries in key order are the first of their rows; None if all are."""
    block = Block.over(keys, values)
    if not Headers(block).is_part.any():
        return None
    return np.append(True, ~equal_neighbours(row_keys_of(block)))


def one_entry_per_row(rows: RowFold, blocks: Sequence[Block]) -> Block:
    """Return one entry for each row of some blocks, the newest block first, in key order.

    Nothing counts as expired; what expires has an expiry. Blocks need not be sorted.
    """
    resolver = DocumentResolver(keep_all, rows=rows)
    window = resolver.window([_in_key_order(block) for block in blocks])
    joined = Block.joined(window.blocks)
    return joined if window.order is None else joined.take(window.order)
