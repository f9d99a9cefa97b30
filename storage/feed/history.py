"""The history of some keys: each row as it was before a range of commits and after each of them.

Promises: changes come from what was visible before and after, never from what was written: a row
that was written again as it was, or deleted where there was none, is no change.
Does not know: bytes beyond the headers of values, or where entries come from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..codec.ragged import Positions, equal_neighbours, sort_order
from ..segment.block import Block
from ..segment.kind import Kind
from ..table.header import Headers
from .source import joined

Flags: TypeAlias = NDArray[np.bool_]
Same: TypeAlias = Callable[[Block, Block], Flags]
"""Tells pair by pair whether two entries of one key, none of which deletes, are the same row."""

ABSENT = -1
"""Where there is no row."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of rows, one a key and step, or one a key.

    ``entries`` hold the rows; ``before`` and ``after`` are a change's places in them, `ABSENT`
    where there is no row. ``first`` and ``last`` are the steps that ended the one and began the
    other. All int64.
    """

    entries: Block
    before: Positions
    after: Positions
    first: Positions
    last: Positions


@dataclass(frozen=True, slots=True)
class History:
    """Entries in key order, of one key in the order of the steps.

    ``steps``: the step of every entry, -1 for what was before all of them. ``keys``: a number for
    every key, ascending. Both int64.
    """

    entries: Block
    steps: Positions
    keys: Positions

    @classmethod
    def of(cls, before: Block, steps: Sequence[tuple[int, Block]]) -> History:
        """Return the history of the entries before and those of some steps, ascending.

        Neither holds a key twice.
        """
        blocks = [before, *(block for _, block in steps)]
        numbers = [-1, *(number for number, _ in steps)]
        entries = joined([block for block in blocks if len(block)])
        keys = entries.key_bytes()
        order = sort_order(keys)
        follows = equal_neighbours(keys.take(pa.array(order))) if len(order) else np.zeros(0, bool)
        return cls(
            entries.take(order),
            np.repeat(np.array(numbers, np.int64), [len(block) for block in blocks])[order],
            np.cumsum(np.append(np.zeros(min(len(order), 1), np.int64), ~follows)),
        )

    @property
    def ends(self) -> Block:
        """The last entry of every key."""
        is_last = np.append(self.keys[1:] != self.keys[:-1], np.ones(min(len(self.keys), 1), bool))
        return self.entries.take(np.flatnonzero(is_last))

    def changes(self, same: Same) -> Changes:
        """Return what every step changed, in key order, of one key in the order of the steps."""
        before, after = self._seen()
        places = np.flatnonzero((self.steps >= 0) & ((before != ABSENT) | (after != ABSENT)))
        before, after = before[places], after[places]
        changed = self._differ(before, after, same)
        steps = self.steps[places[changed]]
        return Changes(self.entries, before[changed], after[changed], steps, steps)

    def net_changes(self, same: Same) -> Changes:
        """Return what all steps together changed of every key, in key order.

        What a row was is told of the first step that changed it, what it became of the last.
        """
        each = self.changes(same)
        keys = self.keys[np.where(each.after != ABSENT, each.after, each.before)]
        starts = np.flatnonzero(np.append(np.ones(min(len(keys), 1), bool), keys[1:] != keys[:-1]))
        ends = np.append(starts[1:], len(keys))[: len(starts)] - 1
        before, after = each.before[starts], each.after[ends]
        some = np.flatnonzero((before != ABSENT) | (after != ABSENT))
        kept = some[self._differ(before[some], after[some], same)]
        return Changes(
            self.entries, before[kept], after[kept], each.first[starts[kept]], each.last[ends[kept]]
        )

    def _seen(self) -> tuple[Positions, Positions]:
        """Return for every entry the rows that were seen before and after it."""
        places = np.arange(len(self.steps))
        rows = np.where(Headers(self.entries).kinds != Kind.DELETE, places, ABSENT)
        before = np.full(len(rows), ABSENT, np.int64)
        follows = np.flatnonzero(self.keys[1:] == self.keys[:-1]) + 1
        before[follows] = rows[follows - 1]
        return before, rows

    def _differ(self, before: Positions, after: Positions, same: Same) -> Positions:
        """Return the places where what was seen before is not what was seen after."""
        differ = np.ones(len(before), bool)
        both = np.flatnonzero((before != ABSENT) & (after != ABSENT))
        if len(both):
            pair = self.entries.take(before[both]), self.entries.take(after[both])
            differ[both] = ~same(*pair)
        return np.flatnonzero(differ)
