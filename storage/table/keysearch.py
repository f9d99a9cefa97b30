"""The search for many full keys in the files of a table.

Promises: a file is searched only for keys that are within the spans of the table's keys in it, that
no newer file had if the newest entry is asked for, and that its filter lets pass where one pays.
Does not know: what an entry means.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from relstate.vnode import cached_property

from ..codec.ragged import Bytes, Positions, parts_of
from ..segment.block import Block
from ..segment.key import table_id_of
from ..segment.keyfilter import KeyMarks, key_hashes
from ..segment.segment import SegmentFile
from .keyspan import KeySpan, KeyWords
from .run import Span

# So few keys are looked up in less time than it takes to hash them for filters, and so few of one
# file in less time than it takes to filter them.
_FEW_KEYS, _FEW_OF_A_FILE = 64, 8
# So many keys of one file are found by a search for all of them at once in less time than by
# lookups, whose results are objects; so many in all are not made objects if nobody looks them up.
_MANY_OF_A_FILE, _MANY_KEYS = 768, 4096
# So many of a file with an index in memory.
_MANY_OF_AN_INDEX = 64
# The search for all holds the keys as texts of the longest one's width, and compares whole texts.
_SHORT_KEY = 64
_Pairs = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class SearchedFile:
    """A file with keys of a table: its first and last full key, and the span of primary keys."""

    file: SegmentFile
    span: Span
    key_span: KeySpan


def newest_entries(
    files: Sequence[SearchedFile], full_keys: Bytes, prefix_bytes: int
) -> tuple[Positions, list[Block]]:
    """Return (indices, blocks): the newest entry of each key that has one, and which key it has.

    ``files``: those of a table, the newest first. The keys are ascending and distinct, and none is
    long; ``prefix_bytes``: what precedes the primary key in each. ``indices``: int64, one for each
    entry of the blocks. CorruptionError, naming the file, if a page is damaged.
    """
    if len(full_keys) <= _FEW_KEYS:
        keys = full_keys.to_pylist()
        index_of = {key: index for index, key in enumerate(keys)}
        pairs = _newest_pairs(files, keys)
        indices = np.array([index_of[key] for key, _ in pairs], np.int64)
        return indices, [Block.of_pairs(pairs)]
    search = _KeySearch(full_keys, KeyWords.of(full_keys, prefix_bytes, _key_spans(files)))
    is_open = np.ones(len(full_keys), np.bool_)
    blocks: list[Block] = []
    matches: list[Positions] = []
    # The pairs of all files become one block: what costs is the number of blocks.
    pairs = []
    matches_of_pairs: list[Positions] = []
    for file in files:
        indices, entries = search.find(file, is_open)
        if len(indices):
            if isinstance(entries, Block):
                blocks.append(entries)
                matches.append(indices)
            else:
                pairs += entries
                matches_of_pairs.append(indices)
            is_open[indices] = False
    if pairs or not blocks:
        blocks.append(Block.of_pairs(pairs))
        matches += matches_of_pairs
    return np.concatenate([np.empty(0, np.int64), *matches]), blocks


def _key_spans(files: Sequence[SearchedFile]) -> list[KeySpan]:
    return [file.key_span for file in files]


def _newest_pairs(files: Iterable[SearchedFile], keys: list[bytes]) -> _Pairs:
    """Return the newest (key, value) of each of a few keys that has one."""
    pairs: _Pairs = []
    hits: _Pairs = []
    for file in files:
        if hits:
            newer = {key for key, _ in hits}
            keys = [key for key in keys if key not in newer]
        candidates = keys[_indices_within(keys, file.span)]
        hits = file.file.get_many(candidates) if candidates else []
        pairs += hits
    return pairs


def all_entries(files: Sequence[SearchedFile], full_keys: Bytes, prefix_bytes: int) -> list[Block]:
    """Return the entries of some keys in each file that has any: see `newest_entries`."""
    search = _KeySearch(full_keys, KeyWords.of(full_keys, prefix_bytes, _key_spans(files)))
    is_open = np.ones(len(full_keys), np.bool_)
    matches = (search.find(file, is_open) for file in files)
    return [
        entries if isinstance(entries, Block) else Block.of_pairs(entries)
        for indices, entries in matches
        if len(indices)
    ]


class _KeySearch:
    """The search for some ascending, distinct full keys, known by their indices."""

    def __init__(self, full_keys: Bytes, words: KeyWords) -> None:
        """``words``: those of the keys, for the spans of the files that are searched."""
        self._full_keys = full_keys
        self._words = words
        is_large = len(full_keys) >= _MANY_KEYS
        keys = _KeySequence(full_keys) if is_large else full_keys.to_pylist()
        self._keys: Sequence[bytes] = keys
        self._data, offsets = parts_of(full_keys)
        self._starts, self._lengths = offsets[:-1], np.diff(offsets)

    def find(
        self, file: SearchedFile, is_open: NDArray[np.bool_]
    ) -> tuple[Positions, Block | _Pairs]:
        """Return (indices, entries) of those of the keys with ``is_open`` that a file has.

        The entries are a block or pairs, whatever takes less time.
        """
        indices = self._candidates(file, is_open)
        if not len(indices):
            return indices, []
        return self._look_up(file.file, indices)

    def _look_up(self, file: SegmentFile, indices: Positions) -> tuple[Positions, Block | _Pairs]:
        """Return (indices, entries) of those of some keys, at least one, that a file has."""
        count = len(indices)
        has_index = count >= _MANY_OF_AN_INDEX and file.has_index_for(count)
        are_many = has_index or count >= _MANY_OF_A_FILE
        if are_many and self._lengths[indices].max() <= _SHORT_KEY:
            matches, entries = file.find_keys(self._full_keys, indices)
            found = indices[matches]
            # The keys that were asked for are together, those of the file are not.
            runs = self._data, self._starts[found], self._lengths[found]
            return found, entries.with_keys(*runs)
        keys = self._full_keys.take(pa.array(indices)).to_pylist()
        pairs = file.get_many(keys)
        if 0 < len(pairs) < len(keys):
            index_of = dict(zip(keys, indices.tolist(), strict=True))
            indices = np.array([index_of[key] for key, _ in pairs], np.int64)
        return indices[: len(pairs)], pairs

    def _candidates(self, file: SearchedFile, is_open: NDArray[np.bool_]) -> Positions:
        """Return those of the open keys that a file may have."""
        inside = _indices_within(self._keys, file.span)
        may_hold = is_open[inside]
        within = self._words.are_within(file.key_span, inside)
        if within is not None:
            may_hold = may_hold & within
        # Not `flatnonzero`: for the few keys of a file its own calls are what costs.
        indices: Positions = may_hold.nonzero()[0] + inside.start
        if len(indices) <= _FEW_OF_A_FILE:
            return indices
        key_filter = file.file.key_filters.get(table_id_of(file.span[0]))
        if key_filter is None:
            return indices
        are_all = len(indices) == inside.stop - inside.start
        marks = self._marks.take(inside if are_all else indices)
        possible: Positions = indices[key_filter.may_hold(marks)]
        return possible

    @cached_property
    def _marks(self) -> KeyMarks:
        return KeyMarks.of(key_hashes(self._full_keys))


class _KeySequence(Sequence[bytes]):
    """Keys that are made objects only when they are used."""

    def __init__(self, keys: Bytes) -> None:
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    def __getitem__(self, index: Any) -> Any:
        return self._keys[index].as_py()


def _indices_within(keys: Sequence[bytes], span: Span) -> slice:
    """Return which of some ascending full keys are within a span."""
    first, last = span
    start = bisect_left(keys, first)
    return slice(start, bisect_right(keys, last, start))
