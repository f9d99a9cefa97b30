"""Which keys of a table the files that were written last may have.

A process that commits again and again looks up the old rows of what it writes. Most rows are in the
few large files, but any of some twenty small files may have a newer version. One filter of the keys
of all small files says for most keys that none of them has it, at the cost of one file's.

The filter is never wrong about a file that it covers, because files are immutable and their names
unique. It may hold keys that are in no file any more: then a key is looked up in all files. Keys
that the process writes itself are added without reading them. A merge adds no keys, so its output
is covered as soon as its inputs are; the log says which these were.

Promises: a key that may not be recent is in no file that is covered. A call reads a bounded number
of entries. Does not know: values, or which version of a row is the newest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from ..errors import RelstateError
from ..log.entry import Entry
from ..log.live_segments import EMPTY, LiveSegments
from ..log.segment_record import SegmentRecord
from ..log.sequenced_segment import SequencedSegment
from ..log.state import StoreState
from ..segment.keyfilter import GrowingFilter, KeyMarks

# Files with more of the table's entries are always searched.
_MOST_ROWS = 65_536
# How many keys a filter is made for.
_LEAST_CAPACITY, _MOST_CAPACITY = 1 << 14, 1 << 18
# Beside a number for each key that is looked up, so many entries are read in one call. To look a
# key up in a file takes about as long as to read ten entries.
_ENTRIES_AT_ONCE, _ENTRIES_PER_KEY = 1024, 10
# Where more commits have happened since the last call, what was merged is read.
_MOST_EPOCHS = 32

ReadHashes = Callable[[SequencedSegment], "NDArray[np.uint64] | None"]
"""Returns the hashes of a table's keys in a file (see `key_hashes`); None if it cannot."""


class RecentKeys:
    """The keys of one table in its small files. For one thread at a time."""

    def __init__(self, table_id: int) -> None:
        self.table_id = table_id
        self._covered: set[str] = set()
        self._filter = GrowingFilter(_LEAST_CAPACITY)
        self._epoch = 0
        self._segments: LiveSegments = EMPTY

    def follow(
        self, state: StoreState, entries: Callable[[StoreState, int, int], Iterable[Entry]]
    ) -> None:
        """Cover what was merged of covered files up to a state, the last one that is asked for.

        ``entries`` returns those of a range of epochs up to a state: see `History.entries`.
        """
        if self._covered and 0 < state.epoch - self._epoch <= _MOST_EPOCHS:
            # A commit needs no earlier entries: it must not fail because one cannot be read.
            with suppress(RelstateError):
                self._follow_merges(entries(state, self._epoch + 1, state.epoch))
        self._epoch, self._segments = state.epoch, state.segments

    def _follow_merges(self, entries: Iterable[Entry]) -> None:
        added: dict[str, SegmentRecord] = {}
        for entry in entries:
            is_merge = not entry.data_change and len(entry.removed) > 0
            if is_merge and all(self._adds_nothing(name, added) for name in entry.removed):
                self._covered.update(record.name for record in entry.added)
            self._covered.difference_update(entry.removed)
            added |= {record.name: record for record in entry.added}

    def _adds_nothing(self, name: str, added: Mapping[str, SegmentRecord]) -> bool:
        """Return whether all keys of the table in a file are in the filter.

        The file is one of those ``added`` since the last state, or in that.
        """
        if name in self._covered:
            return True
        segment = None if name in added else self._segments.get(name)
        record = added.get(name) if segment is None else segment.record
        return record is not None and not record.rows(self.table_id)

    def cover(
        self, segments: Sequence[SequencedSegment], keys: int, read: ReadHashes
    ) -> list[SequencedSegment]:
        """Return those of the table's segments that are not covered, after covering small ones.

        ``segments``: the newest first; ``keys``: how many are looked up. ``read`` may raise.
        """
        if self._filter.is_full:
            small = [rows for segment in segments if (rows := self._rows(segment)) <= _MOST_ROWS]
            capacity = 1 << (4 * sum(small)).bit_length()
            self._covered.clear()
            self._filter = GrowingFilter(min(max(capacity, _LEAST_CAPACITY), _MOST_CAPACITY))
        budget = _ENTRIES_AT_ONCE + _ENTRIES_PER_KEY * keys
        uncovered = []
        for segment in segments:
            if segment.name in self._covered:
                continue
            rows = self._rows(segment)
            hashes = read(segment) if rows <= min(budget, _MOST_ROWS) else None
            if hashes is None:
                uncovered.append(segment)
            else:
                budget -= rows
                self.add(segment.name, KeyMarks.of(hashes))
        return uncovered

    def _rows(self, segment: SequencedSegment) -> int:
        return segment.record.rows(self.table_id)

    def add(self, name: str, marks: KeyMarks) -> None:
        """Cover a file with just these keys of the table."""
        self._filter.add(marks)
        self._covered.add(name)

    def may_hold(self, marks: KeyMarks) -> NDArray[np.bool_]:
        """Return for each key's marks whether a covered file may have the key."""
        return self._filter.may_hold(marks)


class RecentKeysOfTables:
    """The recent keys of the tables that a process writes. Safe between threads.

    While one thread has taken those of a table, another builds its own.
    """

    def __init__(self, most: int = 16) -> None:
        """``most``: of how many tables they are kept."""
        self._most = most
        self._by_table: dict[int, RecentKeys] = {}

    def take(self, table_id: int) -> RecentKeys:
        """Return the recent keys of a table, which the caller has to give back."""
        return self._by_table.pop(table_id, None) or RecentKeys(table_id)

    def give_back(self, keys: RecentKeys) -> None:
        """Keep the recent keys of a table for the next call of `take`."""
        self._by_table[keys.table_id] = keys
        surplus = len(self._by_table) - self._most
        for table_id in list(islice(self._by_table, max(surplus, 0))):
            self._by_table.pop(table_id, None)
