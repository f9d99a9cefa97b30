"""Windows of a merge of document entries: which rows need more than their newest entry.

Most rows are one entry, or versions of one. Only those that have an entry for a part, in any of the
blocks of a window, are taken out of the blocks and merged.

Promises: entries of other rows are neither decoded nor copied; a window without parts is that of a
table of rows.
Does not know: what an entry says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...codec.ragged import Bytes, Positions, gather, sort_order
from ...segment.block import Block
from ...segment.blocksearch import find_in_block
from ..header import Headers
from ..overlap import insertion_order
from ..resolve import Window

Flags: TypeAlias = NDArray[np.bool_]
Divided: TypeAlias = Callable[[Headers], Flags]
"""Says which entries are not whole rows or deletes of rows."""
Merge: TypeAlias = Callable[[Block, Positions], Block]
"""Takes the entries of some rows in key order, and their versions; returns what is made of them, in
key order."""

# Rows of a merge in no order are merged when they have so many entries, or so many bytes.
_MERGED_ENTRIES, _MERGED_BYTES = 65_536, 8 << 20


@dataclass(frozen=True, slots=True)
class Split:
    """The entries of a window: ``plain`` blocks of rows without parts, and all others.

    ``divided``: blocks in key order, the newest first, and the number of the source of each.
    """

    plain: tuple[Block, ...]
    divided: tuple[tuple[int, Block], ...]

    @classmethod
    def of(cls, blocks: Sequence[Block], is_divided: Divided) -> Split | None:
        """Split the blocks of a window, the newest first; None if no row has parts.

        Each block is in key order and the blocks have all entries of their rows.
        """
        flags = [is_divided(Headers(block)) for block in blocks]
        if not any(flag.any() for flag in flags):
            return None
        rows = _divided_rows(blocks, flags)
        plain, divided = [], []
        for number, (block, flag) in enumerate(zip(blocks, flags, strict=True)):
            is_member = _with_rows(block, flag, rows)
            members, others = np.flatnonzero(is_member), np.flatnonzero(~is_member)
            if len(members):
                divided.append((number, block.take(members)))
            if len(others):
                plain.append(block if not len(members) else block.take(others))
        return cls(tuple(plain), tuple(divided))


def merged_rows(divided: Sequence[tuple[int, Block]], merge: Merge) -> Block:
    """Return what is made of the divided entries of some windows; see `Split`."""
    # Blocks of one source are copied at once.
    by_source = sorted(divided, key=itemgetter(0))
    entries = Block.joined([block for _, block in by_source])
    versions = np.repeat(
        [-number for number, _ in by_source], [len(block) for _, block in by_source]
    )
    if len(by_source) == 1:
        return merge(entries, versions)
    order = sort_order(entries.key_bytes())
    return merge(entries.take(order), versions[order])


def window_in_order(
    split: Split, plain_window: Callable[[Sequence[Block]], Window], merge: Merge
) -> Window:
    """Return what is kept of a split window, in key order.

    ``plain_window`` makes a window of the blocks of rows without parts.
    """
    merged = merged_rows(split.divided, merge)
    if not split.plain:
        return Window((merged,), None)
    blocks = (*plain_window(split.plain).blocks, merged)
    if len(blocks) == 2:
        return Window(blocks, insertion_order(*blocks))
    return Window(blocks, sort_order(pa.concat_arrays([block.key_bytes() for block in blocks])))


def windows_in_no_order(
    windows: Iterable[Sequence[Block]],
    is_divided: Divided,
    plain_window: Callable[[Sequence[Block]], Window],
    merge: Merge,
) -> Iterator[Window]:
    """Yield what is kept of the blocks of some windows in key order, in no order.

    Rows that have parts are merged many at once.
    """
    pending = _Pending()
    for blocks in windows:
        split = Split.of(blocks, is_divided)
        if split is None:
            yield plain_window(blocks)
            continue
        if split.plain:
            yield plain_window(split.plain)
        pending.add(split)
        if pending.is_large:
            yield Window((pending.take(merge),), None)
    if pending.divided:
        yield Window((pending.take(merge),), None)


@dataclass(slots=True)
class _Pending:
    """Entries of rows that have parts: see `Split.divided`."""

    divided: list[tuple[int, Block]] = field(default_factory=list)
    count: int = 0
    size: int = 0

    def add(self, split: Split) -> None:
        """Add the entries of a later window."""
        self.divided += split.divided
        for _, block in split.divided:
            self.count += len(block)
            self.size += int(block.value_lengths.sum())

    @property
    def is_large(self) -> bool:
        """Whether there are so many entries that waiting for more saves nothing."""
        return self.count >= _MERGED_ENTRIES or self.size >= _MERGED_BYTES

    def take(self, merge: Merge) -> Block:
        """Return what is made of all entries, and forget them."""
        merged = merged_rows(self.divided, merge)
        self.divided = []
        self.count = self.size = 0
        return merged


def row_keys_of(block: Block) -> Bytes:
    """Return the full key of the row of every entry."""
    lengths = block.key_lengths - Headers(block).path_lengths
    return gather(block.keys, block.key_starts, lengths)


def _divided_rows(blocks: Sequence[Block], flags: Sequence[Flags]) -> Bytes:
    """Return the full keys of the rows of the entries that are flagged, at least one."""
    return pa.concat_arrays(
        [
            row_keys_of(block if flag.all() else block.take(np.flatnonzero(flag)))
            for block, flag in zip(blocks, flags, strict=True)
            if flag.any()
        ]
    )


def _with_rows(block: Block, is_divided: Flags, rows: Bytes) -> Flags:
    """Return which entries of a block are those of some rows.

    ``is_divided`` entries are; the others have the keys of their rows.
    """
    if is_divided.all():
        return is_divided
    others = np.flatnonzero(~is_divided)
    whole = block if len(others) == len(block) else block.take(others)
    indices, is_found = find_in_block(whole, rows)
    is_member = is_divided.copy()
    is_member[others[indices[is_found]]] = True
    return is_member
