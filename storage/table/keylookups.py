"""Which files a get asks for a key, by the key and by its hash.

The newest file that has a key decides, so a get asks one after another, and most of the newer ones
have few rows: after a few upserts of a large table it asks most of them in vain. So once some
keys were looked up, one byte for each of many slots says which small files may have a key whose
hash falls into the slot. It takes 8 to 16 bytes of memory per entry of a small file, of the memory
of indexes (see segment/lookup_memory.py), and is never stored.

Promises: a file that has a key is asked, and the newest one first. Immutable, but for what is
computed when it is first used; safe between threads.
Does not know: what a value means.
"""

from __future__ import annotations

import weakref
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..segment.key import successor
from ..segment.lookup_memory import index_memory
from ..segment.segment import SegmentFile
from .encoding import Encoding
from .filteredgets import FilteredGets, Getter
from .keydigests import digests_of, has_digests
from .keyspan import KeySpan

Lookups: TypeAlias = Sequence[Getter] | Mapping[int, Sequence[Getter]]

# Files with more entries are always asked, and there are no slots for more entries together.
_MOST_ROWS, _MOST_TOGETHER = 1 << 17, 1 << 20
_SLOTS_PER_ROW = 8
# A byte has a bit for each of the newest files that a key may be in; the others share the last.
_LAST_BIT = 7
# That of files which are always asked.
_ALWAYS = 0x100
# To ask a file in vain takes about as long as to hash the keys of 13 entries, or to put 40 hashes
# into slots; what does not depend on their number takes as long as 400 times. Who asks for some
# keys asks for more: slots are made once a quarter of the time that they take was spent so.
_LEAST_MISSES, _ENTRIES_PER_MISS, _KNOWN_PER_MISS = 100, 52, 160
# So many positions are an array that the allocator keeps: pages from the system would cost more.
_DIGESTS_AT_ONCE = 8192
# Of more files than these a lookup asks all, as it would take long to know which have which keys.
_MOST_SPANS = 64


@dataclass(frozen=True, slots=True)
class KeyFile:
    """A file of a table. ``rows``: how many entries of the table it has."""

    file: SegmentFile
    rows: int

    @property
    def is_small(self) -> bool:
        """Whether slots say which keys it may have."""
        return self.rows <= _MOST_ROWS


@dataclass(frozen=True, slots=True)
class VnodeFiles:
    """The files, by their numbers and the newest first, that may have the keys of a vnode.

    ``by_span``: those at ``bisect_right(bounds, primary_key)`` may have the key.
    """

    numbers: tuple[int, ...]
    bounds: Sequence[bytes]
    by_span: Sequence[tuple[int, ...]]

    @classmethod
    def of(cls, numbers: tuple[int, ...], spans: Sequence[KeySpan]) -> VnodeFiles:
        """Return some files by primary key if that pays.

        There are no bounds if a key may be in more than half of the files, or they are many.
        ``spans``: of the primary keys of all files.
        """
        files = [(spans[n].least, successor(spans[n].greatest), n) for n in numbers]
        bounds = sorted({bound for first, end, _ in files for bound in (first, end) if bound})
        by_span: list[tuple[int, ...]] = [()]
        if len(files) <= _MOST_SPANS and all(end for _, end, _ in files):
            by_span += (
                tuple(number for first, end, number in files if end and first <= bound < end)
                for bound in bounds
            )
            if max(map(len, by_span)) * 2 <= len(files):
                return cls(numbers, bounds, by_span)
        return cls(numbers, [], [numbers])


@dataclass(frozen=True, slots=True)
class FilesOfVnodes:
    """Which files of a table may have the keys of each vnode, as the log says.

    ``groups``: the files of vnodes that have the same; ``group_of``: the index of each vnode's.
    """

    groups: Sequence[VnodeFiles]
    group_of: Sequence[int]

    @classmethod
    def of(
        cls,
        by_shard: Sequence[tuple[int, ...]],
        shard_of: Sequence[int],
        spans: Sequence[KeySpan],
    ) -> FilesOfVnodes:
        """Return those of some files, which are known by their numbers, the newest first.

        ``by_shard``: the numbers of those that have keys of each shard; ``shard_of``: the shard of
        each vnode; ``spans``: of the primary keys of each file.
        """
        groups = {numbers: group for group, numbers in enumerate(dict.fromkeys(by_shard))}
        group_of_shard = [groups[numbers] for numbers in by_shard]
        return cls(
            [VnodeFiles.of(numbers, spans) for numbers in groups],
            [group_of_shard[shard] for shard in shard_of],
        )

    def holding(self, vnode: int, primary_key: bytes) -> tuple[int, ...]:
        """Return the numbers of the files that may have a key, the newest first."""
        files = self.groups[self.group_of[vnode]]
        return files.by_span[bisect_right(files.bounds, primary_key)]


@dataclass(frozen=True, slots=True)
class KeyFiles:
    """The open files of a table, the newest first, and which may have the keys of each vnode.

    ``gets``: the lookups in them.
    """

    files: Sequence[KeyFile]
    gets: FilteredGets
    of_vnodes: FilesOfVnodes

    @property
    def groups(self) -> Sequence[VnodeFiles]:
        """The files of vnodes that have the same."""
        return self.of_vnodes.groups

    @property
    def group_of(self) -> Sequence[int]:
        """The index in `groups` of the files of each vnode."""
        return self.of_vnodes.group_of

    @property
    def small(self) -> list[tuple[int, KeyFile]]:
        """The files of which slots say which keys they may have, each with its number."""
        return [(number, file) for number, file in enumerate(self.files) if file.is_small]

    def by_vnode(
        self, lookups_of: Callable[[VnodeFiles, Sequence[int]], Lookups]
    ) -> list[tuple[Sequence[bytes], Sequence[Any]]]:
        """Return that of `KeyLookups`, with what a function makes of the files of a span."""
        by_group = [
            (group.bounds, [lookups_of(group, numbers) for numbers in group.by_span])
            for group in self.groups
        ]
        return [by_group[number] for number in self.group_of]


@dataclass(frozen=True, weakref_slot=True, slots=True)
class KeyLookups:
    """The lookup functions for keys, the newest file first.

    ``by_vnode``: for each vnode (bounds, lookups); the lookups at ``bisect_right(bounds,
    primary_key)`` are a sequence of functions if ``slots`` is None, else a mapping to such
    sequences from the byte of the key's slot, ``slots[hash & mask]``.
    """

    by_vnode: Sequence[tuple[Sequence[bytes], Sequence[Any]]]
    slots: memoryview | None = None
    mask: int = 0


def lookups_until_slots(
    files: KeyFiles, table_id: int, fill: weakref.WeakMethod[Callable[[], None]]
) -> KeyLookups:
    """Return lookups without slots, which call the method ``fill`` once slots are worth it."""
    small = dict(files.small)
    rows = sum(file.rows for file in small.values())
    most = max(len(small.keys() & group.numbers) for group in files.groups)
    if not most or len(files.files) == 1 or rows > _MOST_TOGETHER:
        return plain_lookups(files)
    new = sum(file.rows for file in small.values() if not has_digests(file.file, table_id))
    misses = _LEAST_MISSES + new // _ENTRIES_PER_MISS + rows // _KNOWN_PER_MISS
    return plain_lookups(files, _Count(misses // most + 1, fill))


def plain_lookups(files: KeyFiles, count: Getter | None = None) -> KeyLookups:
    """Return lookups without slots. ``count`` comes first where several files are asked."""
    first = () if count is None else (count,)

    def lookups_of(_: VnodeFiles, numbers: Sequence[int]) -> Lookups:
        getters = files.gets.newest(numbers)
        return (*first, *getters) if len(numbers) > 1 else getters

    return KeyLookups(files.by_vnode(lookups_of))


def lookups_by_slots(files: KeyFiles, encoding: Encoding) -> KeyLookups | None:
    """Return lookups with slots; None if the memory for them is taken.

    CorruptionError, naming the file, if a page is damaged.
    """
    rows = sum(file.rows for _, file in files.small)
    size = 1 << max(rows * _SLOTS_PER_ROW - 1, 1).bit_length()
    if not index_memory.reserve(size):
        return None
    try:
        slots = _slots(size, files, encoding)

        def lookups_of(group: VnodeFiles, numbers: Sequence[int]) -> Lookups:
            chosen = [(number, files.files[number]) for number in numbers]
            bits = [_bit(group, number) if file.is_small else _ALWAYS for number, file in chosen]
            return _BySlot([*zip(bits, numbers, strict=True)], files.gets)

        lookups = KeyLookups(files.by_vnode(lookups_of), slots.data, size - 1)
    except BaseException:
        index_memory.release(size)
        raise
    weakref.finalize(lookups, index_memory.release, size)
    return lookups


def _bit(group: VnodeFiles, number: int) -> int:
    """Return the bit of a file in the slots of a group's keys; 0 if it has none of these keys."""
    return 1 << min(group.numbers.index(number), _LAST_BIT) if number in group.numbers else 0


def _slots(size: int, files: KeyFiles, encoding: Encoding) -> NDArray[np.uint8]:
    # Written at once: to read a page of the system's zeros before it is written takes two faults.
    slots = np.empty(size, np.uint8)
    slots.fill(0)
    for number, file in files.small:
        keys = digests_of(file.file, encoding)
        bits = np.array([_bit(group, number) for group in files.groups], np.uint8)
        distinct = set(bits.tolist())
        row_bits = None
        if len(distinct) > 1:
            row_bits = np.repeat(bits[files.group_of], keys.counts)
        for start in range(0, len(keys.digests), _DIGESTS_AT_ONCE):
            part = slice(start, start + _DIGESTS_AT_ONCE)
            places = keys.digests[part] & np.uint32(size - 1)
            for bit in distinct:
                slots[places if row_bits is None else places[row_bits[part] == bit]] |= bit
    return slots


class _Count:
    """Counts keys that are looked up, as the first of the functions that do it."""

    def __init__(self, count: int, act: weakref.WeakMethod[Callable[[], None]]) -> None:
        """``act`` is called after ``count`` keys. Weak: its object holds the functions."""
        self._left = count
        self._act = act

    def __call__(self, key: bytes) -> None:
        # Another thread may do the same: some keys are not counted, or it acts twice.
        left = self._left = self._left - 1
        act = self._act() if left == 0 else None
        if act is not None:
            act()


class _BySlot(dict[int, Sequence[Getter]]):
    """The functions of some files, by the byte of a slot."""

    def __init__(self, files: Sequence[tuple[int, int]], gets: FilteredGets) -> None:
        """``files``: the numbers of some of ``gets``, each after the bit of bytes for which it is
        one of them, or `_ALWAYS`.
        """
        super().__init__()
        self._files, self._gets = files, gets

    def __missing__(self, byte: int) -> Sequence[Getter]:
        bits = byte | _ALWAYS
        getters = self[byte] = self._gets.newest(
            [number for bit, number in self._files if bits & bit]
        )
        return getters
