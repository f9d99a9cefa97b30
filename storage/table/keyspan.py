"""The spans of primary keys of files: which of them can hold a row, whatever its vnode.

Files are sorted by vnode first, so that the files of one load overlap, although each has other
rows. By their primary keys they are told apart.

Promises: two files, or a file and a range, between which there is said to be nothing in common have
no row in common, deleted rows included.
Does not know: files.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from operator import itemgetter

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..codec.ragged import Bytes, words_at
from ..log.segment_record import KEY_BOUND_BYTES, TableStatistics
from .scan import Bounds

_WORD = 8


@dataclass(frozen=True, slots=True)
class KeySpan:
    """The least and the greatest primary key of some files, cut after `KEY_BOUND_BYTES`."""

    least: bytes
    greatest: bytes

    @classmethod
    def around(cls, statistics: Iterable[TableStatistics]) -> KeySpan:
        """Return the span of the keys of a table in some files, at least one."""
        least, greatest = zip(
            *((table.least_key, table.greatest_key) for table in statistics), strict=True
        )
        return cls(min(least), max(greatest))

    @classmethod
    def of_keys(cls, full_keys: Bytes, prefix_bytes: int) -> KeySpan:
        """Return the span of some full keys, at least one.

        ``prefix_bytes``: what precedes the primary key in a full key.
        """
        cut = pc.binary_slice(full_keys, prefix_bytes, prefix_bytes + KEY_BOUND_BYTES)
        bounds = pc.min_max(cut).as_py()
        return cls(bounds["min"], bounds["max"])

    def overlaps(self, other: KeySpan) -> bool:
        """Return whether a key may be in both spans."""
        return self.least <= other.greatest and other.least <= self.greatest


@dataclass(frozen=True, slots=True)
class KeyWords:
    """Eight bytes of many primary keys as numbers, to see which keys are within a span.

    The bytes are those after ``common``, with which all bounds of the spans begin. ``numbers``:
    uint64, of each key; zeros after its end.
    """

    common: bytes
    numbers: NDArray[np.uint64]

    @classmethod
    def of(cls, full_keys: Bytes, prefix_bytes: int, spans: Sequence[KeySpan]) -> KeyWords:
        """Return the words of some full keys, for the spans of some files.

        ``prefix_bytes``: what precedes the primary key in a full key.
        """
        bounds = [bound for span in spans for bound in (span.least, span.greatest)]
        common = _common_start(min(bounds), max(bounds)) if bounds else b""
        return cls(common, words_at(full_keys, prefix_bytes + len(common)))

    def are_within(self, span: KeySpan, rows: slice) -> NDArray[np.bool_] | None:
        """Return which keys of some rows may be within one of the spans; None: all of them.

        Of keys that do not begin with ``common``, which are in no span, it may say anything.
        """
        numbers = self.numbers[rows]
        low = self._number_of(span.least, b"\0")
        # What follows the cut of the greatest key may be anything.
        high = self._number_of(span.greatest, b"\xff")
        if not len(numbers) or (low <= numbers.min() and numbers.max() <= high):
            return None
        return (numbers >= low) & (numbers <= high)

    def _number_of(self, bound: bytes, filler: bytes) -> np.uint64:
        start = len(self.common)
        return np.uint64(int.from_bytes(bound[start : start + _WORD].ljust(_WORD, filler), "big"))


def _common_start(first: bytes, second: bytes) -> bytes:
    pairs = zip(first, second, strict=False)
    return bytes(byte for byte, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


@dataclass(frozen=True, slots=True)
class PrimaryKeyRanges:
    """Ranges of primary keys, in any vnode; ascending, none of which touches the next."""

    ranges: tuple[Bounds, ...]

    @classmethod
    def of(cls, ranges: Iterable[Bounds], prefix_bytes: int) -> PrimaryKeyRanges:
        """Return the primary keys in some ranges of full keys.

        ``prefix_bytes``: what precedes the primary key in a full key.
        """
        return cls(tuple(merged({_without_vnode(*bounds, prefix_bytes) for bounds in ranges})))

    def may_meet(self, span: KeySpan) -> bool:
        """Return whether a key of a span may be in one of the ranges."""
        index = bisect_right(self.ranges, span.least, key=_end_within(span.least))
        # What follows the cut of the greatest key may be anything.
        return index < len(self.ranges) and (
            self.ranges[index][0][:KEY_BOUND_BYTES] <= span.greatest
        )


def _end_within(least: bytes) -> Callable[[Bounds], bytes]:
    """Return the end of a range as what is compared with ``least``, which is before an open end."""
    return lambda bounds: least + b"\0" if bounds[1] is None else bounds[1]


def _without_vnode(low: bytes, high: bytes | None, prefix_bytes: int) -> Bounds:
    """Return the range of primary keys that are in a range of full keys in any of its vnodes."""
    vnode, least = low[:prefix_bytes], low[prefix_bytes:]
    if high is not None and high[:prefix_bytes] == vnode:
        return least, high[prefix_bytes:]
    next_vnode = (int.from_bytes(vnode, "big") + 1).to_bytes(prefix_bytes, "big")
    return (least if high == next_vnode else b""), None


def merged(ranges: Iterable[Bounds]) -> list[Bounds]:
    """Return ranges that overlap or touch as one, ascending; empty ones are left out."""
    result: list[Bounds] = []
    for low, high in sorted(ranges, key=itemgetter(0)):
        if high is not None and high <= low:
            continue
        last = result[-1][1] if result else b""
        if result and (last is None or low <= last):
            result[-1] = result[-1][0], None if last is None or high is None else max(last, high)
        else:
            result.append((low, high))
    return result


def disjoint_groups(
    key_spans: Sequence[KeySpan], spans: Sequence[tuple[bytes, bytes]]
) -> list[list[int]]:
    """Return the numbers of some files in groups: files of two groups have no row in common.

    ``key_spans``, ``spans``: of the primary keys and of the full keys of each file. Rows are of one
    entry each. The numbers of a group ascend.
    """
    primary = [(span.least, span.greatest) for span in key_spans]
    return [
        group
        for neighbours in separate(range(len(spans)), primary)
        for group in separate(neighbours, spans)
    ]


def separate(numbers: Sequence[int], spans: Sequence[tuple[bytes, bytes]]) -> list[list[int]]:
    """Return some numbers in groups: the spans of those in different groups do not overlap.

    ``spans``: the first and the last key of each number, which is its index.
    """
    groups: list[list[int]] = []
    reached = b""
    for number in sorted(numbers, key=lambda number: spans[number]):
        first, last = spans[number]
        if groups and first <= reached:
            groups[-1].append(number)
            reached = max(reached, last)
        else:
            groups.append([number])
            reached = last
    return [sorted(group) for group in groups]
