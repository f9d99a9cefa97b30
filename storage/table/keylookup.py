"""The lookup of many full keys in the files of a table.

Promises: a file is searched only for keys that are within the span of the table's keys in it, that
no newer file had if the newest entry is asked for, and that its filter lets pass where one pays.
Does not know: what an entry means.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..codec.ragged import Bytes, Positions
from ..segment.block import Block
from ..segment.keyfilter import key_hashes
from ..segment.segment import SegmentFile
from .tablefiles import Span

# So few keys are looked up in less time than it takes to filter them, and so many are found by a
# search for all of them at once in less time than by lookups, whose results are objects.
_FEW_KEYS, _MANY_KEYS = 64, 4096
_NO_ENTRIES = Block.of_pairs([])


def newest_entries(files: Iterable[tuple[SegmentFile, Span]], full_keys: Bytes) -> Block:
    """Return the newest entry of each key that has one, given a table's files, the newest first.

    The keys are ascending and distinct, and none is long. CorruptionError, naming the file, if a
    page is damaged.
    """
    lookup = _Lookup(full_keys)
    is_open = np.ones(len(full_keys), np.bool_)
    blocks: list[Block] = []
    for file, span in files:
        indices, entries = lookup.find(file, span, is_open)
        if len(indices):
            blocks.append(entries)
            is_open[indices] = False
    return Block.joined(blocks or [_NO_ENTRIES])


def all_entries(files: Iterable[tuple[SegmentFile, Span]], full_keys: Bytes) -> list[Block]:
    """Return the entries of some keys in each file that has any: see `newest_entries`."""
    lookup = _Lookup(full_keys)
    is_open = np.ones(len(full_keys), np.bool_)
    matches = (lookup.find(file, span, is_open) for file, span in files)
    return [entries for indices, entries in matches if len(indices)]


class _Lookup:
    """The lookup of some ascending, distinct full keys, known by their indices."""

    def __init__(self, full_keys: Bytes) -> None:
        self._full_keys = full_keys

    def find(
        self, file: SegmentFile, span: Span, is_open: NDArray[np.bool_]
    ) -> tuple[Positions, Block]:
        """Return (indices, entries) of those of the keys with ``is_open`` that a file has.

        ``span``: that of the table's keys in the file.
        """
        indices = self._candidates(file, span, is_open)
        if not len(indices):
            return indices, _NO_ENTRIES
        keys = self._full_keys
        if len(indices) < len(keys):
            keys = keys.take(pa.array(indices))
        if len(indices) >= _MANY_KEYS:
            matches, entries = file.find_keys(keys)
            return indices[matches], entries
        searched = keys.to_pylist()
        pairs = file.get_many(searched)
        if 0 < len(pairs) < len(searched):
            index_of = dict(zip(searched, indices.tolist(), strict=True))
            indices = np.array([index_of[key] for key, _ in pairs], np.int64)
        return indices[: len(pairs)], Block.of_pairs(pairs)

    def _candidates(self, file: SegmentFile, span: Span, is_open: NDArray[np.bool_]) -> Positions:
        """Return those of the open keys that a file may have."""
        first, last = span
        every = range(len(self._full_keys))
        start = bisect_left(every, first, key=self._key)
        stop = bisect_right(every, last, start, key=self._key)
        indices = start + np.flatnonzero(is_open[start:stop])
        key_filter = file.key_filter(len(indices)) if len(indices) > _FEW_KEYS else None
        if key_filter is None:
            return indices
        return indices[key_filter.may_hold(self._hashes[indices])]

    def _key(self, index: int) -> bytes:
        key: bytes = self._full_keys[index].as_py()
        return key

    @cached_property
    def _hashes(self) -> NDArray[np.uint64]:
        return key_hashes(self._full_keys)
