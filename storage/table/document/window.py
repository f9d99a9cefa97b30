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
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...codec.ragged import Bytes, Positions, gather, load, sort_order
from ...segment.block import Block
from ..header import Headers
from ..resolve import Window, row_keys

Flags: TypeAlias = NDArray[np.bool_]
Divided: TypeAlias = Callable[[Headers], Flags]
"""Says which entries are not whole rows or deletes of rows."""
Merge: TypeAlias = Callable[[Block, Positions], Block]
"""Takes the entries of some rows in key order, and their versions; returns what is made of them, in
key order."""

# Rows of a merge in no order are merged when they have so many entries, or so many bytes.
_MERGED_ENTRIES, _MERGED_BYTES = 16_384, 8 << 20
# Keys are compared by a hash of their last bytes first.
_HASH_BITS, _HASHED_BYTES = 16, 8
_HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Split:
    """The entries of a window: ``plain`` blocks of rows without parts, and all others.

    ``divided`` are in key order, the newest of equal keys first; ``versions``, int64, are greater
    for newer ones.
    """

    plain: tuple[Block, ...]
    divided: Block
    versions: Positions

    @classmethod
    def of(cls, blocks: Sequence[Block], is_divided: Divided) -> Split | None:
        """Split the blocks of a window, the newest first; None if no row has parts.

        Each block is in key order and the blocks have all entries of their rows.
        """
        flags = [is_divided(Headers(block)) for block in blocks]
        if not any(flag.any() for flag in flags):
            return None
        rows = _divided_rows(blocks, flags)
        plain, pieces, versions = [], [], []
        for number, (block, flag) in enumerate(zip(blocks, flags, strict=True)):
            is_member = _with_rows(block, flag, rows)
            members, others = np.flatnonzero(is_member), np.flatnonzero(~is_member)
            if len(members):
                pieces.append(block.take(members))
                versions.append(np.full(len(members), -number))
            if len(others):
                plain.append(block if not len(members) else block.take(others))
        divided, divided_versions = Block.joined(pieces), np.concatenate(versions)
        if len(pieces) > 1:
            order = sort_order(row_keys(divided))
            divided, divided_versions = divided.take(order), divided_versions[order]
        return cls(tuple(plain), divided, divided_versions)


def window_in_order(
    split: Split, plain_window: Callable[[Sequence[Block]], Window], merge: Merge
) -> Window:
    """Return what is kept of a split window, in key order.

    ``plain_window`` makes a window of the blocks of rows without parts.
    """
    merged = merge(split.divided, split.versions)
    if not split.plain:
        return Window((merged,), None)
    blocks = (*plain_window(split.plain).blocks, merged)
    keys = pa.concat_arrays([row_keys(block) for block in blocks])
    return Window(blocks, sort_order(keys))


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
    if pending.entries:
        yield Window((pending.take(merge),), None)


@dataclass(slots=True)
class _Pending:
    """Entries of rows that have parts, in key order, and their versions."""

    entries: list[Block] = field(default_factory=list)
    versions: list[Positions] = field(default_factory=list)
    count: int = 0
    size: int = 0

    def add(self, split: Split) -> None:
        """Add the entries of a later window."""
        self.entries.append(split.divided)
        self.versions.append(split.versions)
        self.count += len(split.divided)
        self.size += int(split.divided.value_lengths.sum())

    @property
    def is_large(self) -> bool:
        """Whether there are so many entries that waiting for more saves nothing."""
        return self.count >= _MERGED_ENTRIES or self.size >= _MERGED_BYTES

    def take(self, merge: Merge) -> Block:
        """Return what is made of all entries, and forget them."""
        merged = merge(Block.joined(self.entries), np.concatenate(self.versions))
        self.entries, self.versions = [], []
        self.count = self.size = 0
        return merged


def row_keys_of(block: Block) -> Bytes:
    """Return the full key of the row of every entry."""
    lengths = block.key_lengths - Headers(block).path_lengths
    return gather(block.keys, block.key_starts, lengths)


def _divided_rows(blocks: Sequence[Block], flags: Sequence[Flags]) -> Bytes:
    """Return the full keys of the rows of the entries that are flagged."""
    return pa.concat_arrays(
        [
            row_keys_of(block.take(np.flatnonzero(flag)))
            for block, flag in zip(blocks, flags, strict=True)
        ]
    )


def _with_rows(block: Block, is_divided: Flags, rows: Bytes) -> Flags:
    """Return which entries of a block are those of some rows.

    ``is_divided`` entries are; the others have the keys of their rows.
    """
    is_member = is_divided.copy()
    candidates = np.flatnonzero(~is_divided & _may_equal(block, rows))
    if len(candidates):
        starts, lengths = block.key_starts[candidates], block.key_lengths[candidates]
        keys = gather(block.keys, starts, lengths)
        is_member[candidates] = np.asarray(pc.is_in(keys, value_set=rows))
    return is_member


def _may_equal(block: Block, keys: Bytes) -> Flags:
    """Return which keys of a block may be among some keys: most that are not are left out."""
    others = Block.over(keys, keys)
    if min(block.key_lengths.min(), others.key_lengths.min()) < _HASHED_BYTES:
        return np.ones(len(block), np.bool_)
    table = np.zeros(1 << _HASH_BITS, np.bool_)
    table[_hashes(others)] = True
    may_equal: Flags = table[_hashes(block)]
    return may_equal


def _hashes(block: Block) -> NDArray[np.uint64]:
    """Return hashes of the keys of a block, each of at least `_HASHED_BYTES` bytes."""
    words = load(block.keys, block.key_starts + block.key_lengths - _HASHED_BYTES, "<u8")
    return words.astype(np.uint64) * _HASH_FACTOR >> np.uint64(64 - _HASH_BITS)
