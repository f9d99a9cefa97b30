"""Which files a get asks for a key, by the key and by its hash.

The newest file that has a key decides, so a get asks one after another, and most of the newer ones
have few rows: after a few upserts of a large table it asks most of them in vain. So once enough
keys were looked up, one byte for each of many slots says which small files may have a key whose
hash falls into the slot. It takes 8 to 16 bytes of memory per entry of a small file, of the memory
of indexes (see segment/lookup_memory.py), and is never stored.

Promises: a file that has a key is asked, and the newest one first. Immutable, but for what is
computed when it is first used; safe between threads.
Does not know: what a value means.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..segment.key import successor
from ..segment.longkey import GROUP_KEY_BYTES
from ..segment.lookup_memory import index_memory
from ..segment.segment import SegmentFile
from .encoding import Encoding
from .keyspan import KeySpan

Getter: TypeAlias = Callable[[bytes], bytes | None]
Lookups: TypeAlias = Sequence[Getter] | Mapping[int, Sequence[Getter]]

# Files with more entries are always asked, and there are no slots for more entries together.
_MOST_ROWS, _MOST_TOGETHER = 1 << 17, 1 << 20
_SLOTS_PER_ROW = 8
# A byte has a bit for each of the newest files that a key may be in; the others share the last.
_LAST_BIT = 7
# That of files which are always asked.
_ALWAYS = 0x100
# To ask a file in vain takes about as long as to read the keys of so many entries.
_ENTRIES_PER_MISS = 6
_LEAVES_AT_ONCE = 512
# Of more files than these a lookup asks all, as it would take long to know which have which keys.
_MOST_SPANS = 64


@dataclass(frozen=True, slots=True)
class KeyFile:
    """A file of a table. ``rows``: how many entries of the table it has; ``get``: its lookup."""

    file: SegmentFile
    rows: int
    get: Getter

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
    files: Sequence[KeyFile],
    vnodes: Sequence[VnodeFiles],
    fill: weakref.WeakMethod[Callable[[], None]],
) -> KeyLookups:
    """Return lookups without slots, which call the method ``fill`` once slots have paid.

    ``vnodes``: one for each vnode; those of one shard may be the same object.
    """
    small = [file.rows for file in files if file.is_small]
    most = max((sum(files[n].is_small for n in vnode.numbers) for vnode in vnodes), default=0)
    if not most or len(files) == 1 or sum(small) > _MOST_TOGETHER:
        return plain_lookups(files, vnodes)
    return plain_lookups(files, vnodes, _Count(sum(small) // (_ENTRIES_PER_MISS * most) + 1, fill))


def plain_lookups(
    files: Sequence[KeyFile], vnodes: Sequence[VnodeFiles], count: Getter | None = None
) -> KeyLookups:
    """Return lookups without slots. ``count`` comes first where several files are asked."""
    first = () if count is None else (count,)

    def lookups_of(_: VnodeFiles, numbers: Sequence[int]) -> Lookups:
        getters = tuple(files[number].get for number in numbers)
        return (*first, *getters) if len(getters) > 1 else getters

    return KeyLookups(_by_vnode(vnodes, lookups_of))


def lookups_by_slots(
    files: Sequence[KeyFile], vnodes: Sequence[VnodeFiles], encoding: Encoding
) -> KeyLookups | None:
    """Return lookups with slots; None if the memory for them is taken.

    CorruptionError, naming the file, if a page is damaged.
    """
    rows = sum(file.rows for file in files if file.is_small)
    size = 1 << max(rows * _SLOTS_PER_ROW - 1, 1).bit_length()
    if not index_memory.reserve(size):
        return None
    try:
        slots = _slots(size, files, vnodes, encoding)

        def lookups_of(vnode: VnodeFiles, numbers: Sequence[int]) -> Lookups:
            bits = [
                _bit(vnode, number) if files[number].is_small else _ALWAYS for number in numbers
            ]
            return _BySlot([(bit, files[n].get) for bit, n in zip(bits, numbers, strict=True)])

        lookups = KeyLookups(_by_vnode(vnodes, lookups_of), slots.data, size - 1)
    except BaseException:
        index_memory.release(size)
        raise
    weakref.finalize(lookups, index_memory.release, size)
    return lookups


def _by_vnode(
    vnodes: Sequence[VnodeFiles], lookups_of: Callable[[VnodeFiles, Sequence[int]], Lookups]
) -> list[tuple[Sequence[bytes], Sequence[Any]]]:
    """Return ``by_vnode`` of `KeyLookups`, with what a function makes of the files of a span."""
    by_files = {
        key: (vnode.bounds, [lookups_of(vnode, numbers) for numbers in vnode.by_span])
        for key, vnode in {id(vnode): vnode for vnode in vnodes}.items()
    }
    return [by_files[id(vnode)] for vnode in vnodes]


def _bit(vnode: VnodeFiles, number: int) -> int:
    """Return the bit of a file in the slots of a vnode's keys; 0 if it has none of these keys."""
    return 1 << min(vnode.numbers.index(number), _LAST_BIT) if number in vnode.numbers else 0


def _slots(
    size: int, files: Sequence[KeyFile], vnodes: Sequence[VnodeFiles], encoding: Encoding
) -> NDArray[np.uint8]:
    slots = np.zeros(size, np.uint8)
    distinct = {id(vnode): vnode for vnode in vnodes}
    every_vnode = range(encoding.vnode_count)
    for number, file in enumerate(files):
        if not file.is_small:
            continue
        by_files = {key: _bit(vnode, number) for key, vnode in distinct.items()}
        bits = np.array([by_files[id(vnode)] for vnode in vnodes], np.uint8)
        for block in file.file.blocks(*encoding.vnode_bounds(every_vnode), _LEAVES_AT_ONCE):
            # The rows of long keys are left to the general way.
            rows = block.take(np.flatnonzero(block.key_lengths < GROUP_KEY_BYTES))
            places = (encoding.key_hashes(rows) & np.uint64(size - 1)).view(np.int64)
            row_bits = bits[encoding.prefix.vnodes_at(rows.keys, rows.key_starts)]
            for bit in np.unique(row_bits).tolist():
                slots[places[row_bits == bit]] |= bit
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

    def __init__(self, getters: Sequence[tuple[int, Getter]]) -> None:
        """``getters``: each with the bit of bytes for which it is one of them, or `_ALWAYS`."""
        super().__init__()
        self._getters = getters

    def __missing__(self, byte: int) -> Sequence[Getter]:
        bits = byte | _ALWAYS
        getters = self[byte] = tuple(get for bit, get in self._getters if bits & bit)
        return getters
