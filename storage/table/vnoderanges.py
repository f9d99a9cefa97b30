"""The same ranges of primary keys in each of some vnodes, as ranges of full keys.

A store has up to 32,768 vnodes, and a range of keys has a part in each. Here they are arrays, so
that a read costs what it finds and not a step of Python for each vnode.

Promises: as a sequence it is what `Bounds` say one by one.
Does not know: files, or which ranges are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from relstate.vnode import cached_property

from ..codec.ragged import Bytes
from ..segment.block import Block
from ..segment.key import KeyPrefix
from ..segment.search import KeyRanges
from .scan import Bounds


@dataclass(frozen=True)
class VnodeRanges(Sequence[Bounds]):
    """Ranges of full keys, ascending: of the primary keys ``primary`` in each of ``vnodes``.

    ``vnodes``: ascending, uint16; ``primary``: ascending, none of them touches the next.
    """

    prefix: KeyPrefix
    vnodes: NDArray[np.uint16]
    primary: tuple[Bounds, ...]

    @classmethod
    def of(
        cls, prefix: KeyPrefix, groups: Sequence[range], primary: Sequence[Bounds]
    ) -> VnodeRanges:
        """Return ranges in the vnodes of some groups, in any order."""
        numbers = [np.arange(group.start, group.stop, dtype=np.uint16) for group in groups]
        vnodes = np.sort(np.concatenate([np.empty(0, np.uint16), *numbers]))
        return cls(prefix, vnodes, tuple(primary))

    def __len__(self) -> int:
        return len(self.vnodes) * len(self.primary)

    @overload
    def __getitem__(self, index: int) -> Bounds: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Bounds]: ...
    def __getitem__(self, index: int | slice) -> Bounds | Sequence[Bounds]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"range {index} of {len(self)}")
        vnode_index, number = divmod(index % len(self), len(self.primary))
        vnode = int(self.vnodes[vnode_index])
        low, high = self.primary[number]
        first = self.prefix.of(vnode)
        return first + low, self.prefix.of(vnode + 1) if high is None else first + high

    @cached_property
    def key_ranges(self) -> KeyRanges:
        """The ranges as a search takes them."""
        lows = self._full_keys([low for low, _ in self.primary])
        highs = self._full_keys([high or b"" for _, high in self.primary])
        # What begins with the vnode is in a range without an end.
        is_open = np.tile([high is not None for _, high in self.primary], len(self.vnodes))
        return KeyRanges(lows, highs, is_open)

    def _full_keys(self, primary_keys: Sequence[bytes]) -> Bytes:
        """Return some primary keys in each vnode."""
        vnodes = np.repeat(self.vnodes, len(primary_keys))
        indices = np.tile(np.arange(len(primary_keys)), len(self.vnodes))
        keys = pa.array(primary_keys, pa.large_binary()).take(pa.array(indices))
        return self.prefix.compose(vnodes, keys)

    @cached_property
    def spans(self) -> list[Bounds]:
        """The full keys of all its vnodes, those that follow one another as one range."""
        ends = np.flatnonzero(np.diff(self.vnodes.astype(np.int64)) > 1)
        firsts = self.vnodes[np.append(0, ends + 1)].tolist()
        lasts = self.vnodes[np.append(ends, len(self.vnodes) - 1)].tolist()
        return [
            (self.prefix.of(first), self.prefix.of(last + 1))
            for first, last in zip(firsts, lasts, strict=True)
        ]

    def clipped(self, low: bytes, high: bytes | None) -> VnodeRanges:
        """Return the parts of the ranges with primary keys from ``low`` to before ``high``."""
        parts = (clip(bounds, (low, high)) for bounds in self.primary)
        return VnodeRanges(self.prefix, self.vnodes, tuple(part for part in parts if part))

    def holds(self, full_key: bytes) -> bool:
        """Return whether a full key is in one of the ranges."""
        vnode, key = self.prefix.vnode_of(full_key), full_key[self.prefix.size :]
        index = int(np.searchsorted(self.vnodes, vnode))
        is_in_vnode = index < len(self.vnodes) and int(self.vnodes[index]) == vnode
        return is_in_vnode and any(
            low <= key and (high is None or key < high) for low, high in self.primary
        )

    def entries_of(self, block: Block) -> Block:
        """Return the entries of a block that are in one of the ranges."""
        full_keys = block.key_bytes()
        keys = self.prefix.primary_keys(full_keys)
        is_inside = np.zeros(len(block), np.bool_)
        for low, high in self.primary:
            is_in_range = np.asarray(pc.greater_equal(keys, pa.scalar(low, pa.large_binary())))
            if high is not None:
                is_in_range &= np.asarray(pc.less(keys, pa.scalar(high, pa.large_binary())))
            is_inside |= is_in_range
        is_inside &= np.isin(self.prefix.vnodes_in(full_keys), self.vnodes)
        return block.take(np.flatnonzero(is_inside))


def clip(bounds: Bounds, limits: Bounds) -> Bounds | None:
    """Return what two ranges have in common; None if that is nothing."""
    low = max(bounds[0], limits[0])
    ends = [end for end in (bounds[1], limits[1]) if end is not None]
    high = min(ends) if ends else None
    return None if high is not None and high <= low else (low, high)


def clipped(
    ranges: Sequence[Bounds], prefix: KeyPrefix, low: bytes, high: bytes | None
) -> Sequence[Bounds]:
    """Return the parts of ranges, each in one vnode, with primary keys from ``low`` to ``high``."""
    if isinstance(ranges, VnodeRanges):
        return ranges.clipped(low, high)
    parts = []
    for bounds in ranges:
        first = bounds[0][: prefix.size]
        end = prefix.of(prefix.vnode_of(first) + 1) if high is None else first + high
        part = clip(bounds, (first + low, end))
        if part is not None:
            parts.append(part)
    return parts
