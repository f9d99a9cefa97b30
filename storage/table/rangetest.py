"""Which segments can hold rows of some ranges of full keys: a test of their statistics.

Promises: a segment that fails the test has no entry in the ranges, deletes included.
Does not know: files.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from relstate.vnode import shards_of

from ..codec.ragged import Bytes
from ..log.segment_record import TableStatistics
from ..segment.key import KeyPrefix, successor
from ..segment.search import KeyRanges
from .keyspan import KeySpan, PrimaryKeyRanges, merged
from .scan import Bounds
from .vnoderanges import VnodeRanges

# Of more ranges only the shards are looked at, and the primary keys from the first to the last.
_MOST_RANGES = 4096


@dataclass(frozen=True, slots=True)
class RangeTest:
    """A test of statistics. ``shards``: those of the ranges; other segments need not be tested."""

    shards: frozenset[int]
    _full_keys: tuple[Bounds, ...]
    _primary_keys: PrimaryKeyRanges

    def __call__(self, statistics: TableStatistics) -> bool:
        """Return whether a segment with some statistics, or several, may have rows in a range."""
        last = statistics.last_key
        index = bisect_right(self._full_keys, statistics.first_key, key=_end)
        # What follows the last key may have been cut off.
        is_met = index < len(self._full_keys) and self._full_keys[index][0][: len(last)] <= last
        return is_met and self._primary_keys.may_meet(
            KeySpan(statistics.least_key, statistics.greatest_key)
        )

    def passes(self, statistics: TableStatistics) -> bool:
        """Return whether a segment may have rows in a range; its shards are looked at, too."""
        sizes = statistics.shard_bytes
        return any(sizes[shard] for shard in self.shards) and self(statistics)

    @classmethod
    def of(cls, ranges: Sequence[Bounds], prefix: KeyPrefix, shards: int) -> RangeTest:
        """Return the test for some ranges of full keys of a table, at least one.

        ``shards``: how many the store has.
        """
        if isinstance(ranges, VnodeRanges):
            numbers = _shards_of(ranges.vnodes, prefix, shards)
            return cls(numbers, tuple(ranges.spans), PrimaryKeyRanges(ranges.primary))
        if len(ranges) > _MOST_RANGES:
            return cls._around(ranges, prefix, shards)
        end = prefix.of(prefix.vnode_count)
        full_keys = merged((low, end if high is None else high) for low, high in ranges)
        primary_keys = PrimaryKeyRanges.of(ranges, prefix.size)
        numbers = _shards_of(_vnodes_of(full_keys, prefix), prefix, shards)
        return cls(numbers, tuple(full_keys), primary_keys)

    @classmethod
    def _around(cls, ranges: Sequence[Bounds], prefix: KeyPrefix, shards: int) -> RangeTest:
        """Return the test for ranges that are too many to be looked at."""
        end = prefix.of(prefix.vnode_count)
        everything = (prefix.of(0), end)
        numbers = _shards_of(_vnodes_of(ranges, prefix), prefix, shards)
        primary_keys: Bounds = (b"", None)
        if all(high and high[: prefix.size] == low[: prefix.size] for low, high in ranges):
            lows = min(low[prefix.size :] for low, _ in ranges)
            primary_keys = lows, max(high[prefix.size :] for _, high in ranges if high)
        return cls(numbers, (everything,), PrimaryKeyRanges((primary_keys,)))

    @classmethod
    def of_keys(cls, full_keys: Bytes, prefix: KeyPrefix, shards: int) -> RangeTest:
        """Return the test for some full keys, at least one."""
        if len(full_keys) > _MOST_RANGES:
            span = KeySpan.of_keys(full_keys, prefix.size)
            everything = (prefix.of(0), prefix.of(prefix.vnode_count))
            numbers = _shards_of(np.unique(prefix.vnodes_in(full_keys)), prefix, shards)
            primary_keys = PrimaryKeyRanges(((span.least, successor(span.greatest)),))
            return cls(numbers, (everything,), primary_keys)
        return cls.of([(key, key + b"\0") for key in full_keys.to_pylist()], prefix, shards)

    @classmethod
    def of_key_ranges(cls, ranges: KeyRanges, prefix: KeyPrefix, shards: int) -> RangeTest:
        """Return the test for ranges as searches have them, at least one."""
        lows, highs = ranges.lows.to_pylist(), ranges.highs.to_pylist()
        is_open = [False] * len(lows) if ranges.is_open is None else ranges.is_open.tolist()
        ends = (
            high if below else successor(high) for high, below in zip(highs, is_open, strict=True)
        )
        return cls.of(list(zip(lows, ends, strict=True)), prefix, shards)


def _end(bounds: Bounds) -> bytes:
    assert bounds[1] is not None
    return bounds[1]


def _vnodes_of(ranges: Iterable[Bounds], prefix: KeyPrefix) -> list[int]:
    """Return the vnodes of some ranges of full keys, each of which has an end."""
    vnodes: set[int] = set()
    last_vnode = prefix.vnode_count - 1
    for low, high in ranges:
        first = prefix.vnode_of(low)
        # A successor may be shorter than what precedes the primary keys.
        end = None if high is None else high.ljust(prefix.size, b"\0")
        if end is None or end >= prefix.of(prefix.vnode_count):
            last = last_vnode
        else:
            # A range of whole vnodes ends with the first key of the next.
            last = prefix.vnode_of(end) - (len(end) == prefix.size)
        vnodes.update(range(first, last + 1))
    return sorted(vnodes)


def _shards_of(
    vnodes: Sequence[int] | np.typing.NDArray[np.uint16], prefix: KeyPrefix, shards: int
) -> frozenset[int]:
    numbers = shards_of(np.asarray(vnodes, np.int64), prefix.vnode_count, shards)
    return frozenset(np.unique(numbers).tolist())
