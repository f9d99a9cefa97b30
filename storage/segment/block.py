"""A run of entries, as positions in the buffers that hold their keys and values.

Promises: keys and values stay in their buffers, often a map of a file, unless a method says copy.
Does not know: where the buffers come from, or what keys and values mean.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from relstate.vnode import cached_property

from ..codec.ragged import Buffer, Bytes, Positions, gather, load, parts_of

# Blocks with fewer rows and bytes than small are joined to their neighbours, up to coarse ones.
_SMALL_ROWS, _COARSE_ROWS = 8192, 32_768
_SMALL_BYTES, _COARSE_BYTES = 512 << 10, 2 << 20
# Where no order is asked for, so many wait to be joined to others of their buffers. To copy fewer
# than few rows costs less than what is done once per block.
_HELD_ROWS, _HELD_BYTES, _FEW_ROWS = 131_072, 8 << 20, 4096


@dataclass(frozen=True)
class Block:
    """Entries in key order: the int64 positions and lengths of their keys and values.

    Keys and values may be in different buffers.
    """

    keys: Buffer
    key_starts: Positions
    key_lengths: Positions
    values: Buffer
    value_starts: Positions
    value_lengths: Positions

    @classmethod
    def over(cls, keys: Bytes, values: Bytes) -> Block:
        """Return the block of the rows of two bytes arrays, without a copy."""
        key_data, key_offsets = parts_of(keys)
        value_data, value_offsets = parts_of(values)
        return cls(
            key_data,
            key_offsets[:-1],
            np.diff(key_offsets),
            value_data,
            value_offsets[:-1],
            np.diff(value_offsets),
        )

    @classmethod
    def of_pairs(cls, pairs: Sequence[tuple[bytes, bytes]]) -> Block:
        """Return the block of some (key, value) pairs, a copy."""
        keys, values = zip(*pairs, strict=True) if pairs else ((), ())
        return cls.over(pa.array(keys, pa.large_binary()), pa.array(values, pa.large_binary()))

    @classmethod
    def joined(cls, blocks: Sequence[Block]) -> Block:
        """Return the entries of some blocks, at least one, one block after another.

        Keys, or values, are copied only if the blocks have them in different buffers.
        """
        if len(blocks) == 1:
            return blocks[0]
        joined = cls(
            *_joined([(block.keys, block.key_starts, block.key_lengths) for block in blocks]),
            *_joined([(block.values, block.value_starts, block.value_lengths) for block in blocks]),
        )
        first_bytes = [
            known_bytes for block in blocks if (known_bytes := block.known_first_bytes) is not None
        ]
        are_known = len(first_bytes) == len(blocks)
        return joined.knowing(np.concatenate(first_bytes)) if are_known else joined

    def __len__(self) -> int:
        return len(self.key_starts)

    @cached_property
    def first_bytes(self) -> NDArray[np.uint8]:
        """The first byte of every value.

        They are read once, for all that is taken from this block later. IndexError if one is
        beyond the buffer.
        """
        return load(self.values, self.value_starts, "u1")

    @property
    def known_first_bytes(self) -> NDArray[np.uint8] | None:
        """`first_bytes` if they have been read, else None."""
        first_bytes: NDArray[np.uint8] | None = self.__dict__.get("first_bytes")
        return first_bytes

    def knowing(self, first_bytes: NDArray[np.uint8]) -> Block:
        """Return this block after noting its `first_bytes`, which then are not read."""
        self.__dict__["first_bytes"] = first_bytes
        return self

    def key(self, index: int) -> bytes:
        """Return the key of one entry; negative indices count from the end."""
        start = int(self.key_starts[index])
        return self.keys[start : start + int(self.key_lengths[index])].tobytes()

    def key_bytes(self) -> Bytes:
        """Return the keys as a bytes array, a copy."""
        return gather(self.keys, self.key_starts, self.key_lengths)

    def value_bytes(self) -> Bytes:
        """Return the values as a bytes array, a copy."""
        return gather(self.values, self.value_starts, self.value_lengths)

    def followed_by(self, later: Block) -> Block:
        """Return these entries followed by others; bytes are copied if the buffers differ."""
        return Block.joined([self, later])

    def with_keys(self, keys: Buffer, starts: Positions, lengths: Positions) -> Block:
        """Return these entries with the same keys in another buffer."""
        return Block(keys, starts, lengths, self.values, self.value_starts, self.value_lengths)

    def slice(self, start: int, stop: int) -> Block:
        """Return the entries from ``start`` up to, not including, ``stop``, without a copy."""
        return _subset(self, slice(start, stop))

    def between(self, low: bytes | None, high: bytes | None) -> Block:
        """Return the entries with ``low <= key < high`` (None: unbounded), without a copy."""
        stop = len(self) if high is None else self.first_at_or_after(high)
        return self.slice(0 if low is None else self.first_at_or_after(low), stop)

    def take(self, rows: Positions) -> Block:
        """Return the entries at ``rows``, in that order, without a copy of their bytes."""
        return _subset(self, rows)

    def first_at_or_after(self, key: bytes) -> int:
        """Return the index of the first entry whose key is not less than ``key``."""
        return bisect_left(range(len(self)), key, key=self.key)

    def first_after(self, key: bytes) -> int:
        """Return the index of the first entry whose key is greater than ``key``."""
        return bisect_right(range(len(self)), key, key=self.key)


def _subset(block: Block, rows: Positions | slice) -> Block:
    """Return some entries of a block, with their first bytes if these are known."""
    subset = Block(
        block.keys,
        block.key_starts[rows],
        block.key_lengths[rows],
        block.values,
        block.value_starts[rows],
        block.value_lengths[rows],
    )
    first_bytes = block.known_first_bytes
    return subset if first_bytes is None else subset.knowing(first_bytes[rows])


def join_small(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield the entries of blocks, in their order, with small neighbouring blocks joined.

    To copy a few rows costs less than what is done once per block, such as decoding it.
    """
    group: list[Block] = []
    rows = size = 0
    for block in blocks:
        is_small = _is_small(block)
        if group and (not is_small or rows >= _COARSE_ROWS or size >= _COARSE_BYTES):
            yield Block.joined(group)
            group, rows, size = [], 0, 0
        if not is_small:
            yield block
        elif len(block):
            group.append(block)
            rows += len(block)
            size += int(block.value_lengths.sum())
    if group:
        yield Block.joined(group)


def join_small_ones(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield the entries of blocks, in no order, with small blocks joined, not only neighbours.

    Those of one buffer are joined without a copy; what is small even then is copied.
    """
    group: list[Block] = []
    rows = size = 0
    for block in blocks:
        if not _is_small(block):
            yield block
        elif len(block):
            group.append(block)
            rows += len(block)
            size += int(block.value_lengths.sum())
            if rows >= _HELD_ROWS or size >= _HELD_BYTES:
                yield from _joined_by_buffers(group)
                group, rows, size = [], 0, 0
    yield from _joined_by_buffers(group)


def _joined_by_buffers(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield the entries of blocks, those of one buffer together unless they are few."""
    by_buffers: dict[tuple[int, int], list[Block]] = {}
    for block in blocks:
        by_buffers.setdefault(_buffers(block), []).append(block)
    few: list[Block] = []
    for group in by_buffers.values():
        if sum(map(len, group)) >= _FEW_ROWS:
            yield Block.joined(group)
        else:
            few += group
    if few:
        yield Block.joined(few)


def _is_small(block: Block) -> bool:
    return len(block) < _SMALL_ROWS and int(block.value_lengths.sum()) < _SMALL_BYTES


def _buffers(block: Block) -> tuple[int, int]:
    """Return what tells the buffers of a block from those of others, while it lives."""
    return id(block.keys), id(block.values)


_Runs = tuple[Buffer, Positions, Positions]


def _joined(runs: Sequence[_Runs]) -> _Runs:
    """Return runs of bytes, each (buffer, starts, lengths), one after another."""
    # A copy for each buffer costs less than one for each of the runs.
    groups = [_concatenated([*group]) for _, group in groupby(runs, lambda run: id(run[0]))]
    if len(groups) == 1:
        return groups[0]
    data, offsets = parts_of(pa.concat_arrays([gather(*group) for group in groups]))
    return data, offsets[:-1], np.diff(offsets)


def _concatenated(runs: Sequence[_Runs]) -> _Runs:
    """Return runs of one buffer, one after another, without a copy of their bytes."""
    if len(runs) == 1:
        return runs[0]
    buffers, starts, lengths = zip(*runs, strict=True)
    return buffers[0], np.concatenate(starts), np.concatenate(lengths)
