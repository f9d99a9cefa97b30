"""The history of some keys: each row before a range of commits and after each of them.

Promises: changes come from what was visible before and after, never from what was written: a row
that was written again unchanged, or deleted where there was none, is not a change. Rows are
compared under the table's present schema, whichever schemas they were written under; values are the
same if their bits are, so NaN equals NaN and 0.0 differs from -0.0.
Does not know: where entries come from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..codec.ragged import Bytes, Positions, constant, equal_neighbours, gather, sort_order
from ..segment.block import Block
from ..segment.key import Kind
from ..table.encoding import Encoding
from ..table.header import Headers
from .source import joined

Flags: TypeAlias = NDArray[np.bool_]
RowComparison: TypeAlias = Callable[[Block, Block], Flags]
"""Returns for each pair of entries of one key, neither a delete, whether they are the same row."""

ABSENT = -1
"""The position of a row that is not there."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of rows: one per key and step, or one per key.

    ``entries`` hold the rows; ``before`` and ``after`` are the positions of a change's rows in
    them, `ABSENT` where there is no row. ``first`` is the step that ended the row before, ``last``
    the one that began the row after. All int64.
    """

    entries: Block
    before: Positions
    after: Positions
    first: Positions
    last: Positions


@dataclass(frozen=True, slots=True)
class ExpiryTimes:
    """The times at which rows may have expired: ``before`` all steps, and of the ``steps``.

    In microseconds since 1970, not descending.
    """

    before: int
    steps: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class KeyHistory:
    """Entries in key order, those of one key in the order of the steps.

    ``steps``: the step of every entry, -1 for an entry from before all of them. ``keys``: a number
    for every key, ascending. Both int64.
    """

    entries: Block
    steps: Positions
    keys: Positions

    @classmethod
    def of(cls, before: Block, steps: Sequence[tuple[int, Block]]) -> KeyHistory:
        """Return the history of the entries before and those of some steps, ascending.

        No block holds a key twice.
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

    def with_expiries(self, times: ExpiryTimes, delete: bytes) -> KeyHistory:
        """Return the history in which each row ends with the first step at or after its expiry.

        A row that had expired when it was written, or before all steps, is a delete. ``delete``:
        the value of a delete.
        """
        headers = Headers(self.entries)
        is_row = headers.kinds != Kind.DELETE
        written = np.append(times.before, times.steps)[self.steps + 1]
        is_expired = is_row & (headers.expiries <= written)
        ends = np.searchsorted(times.steps, headers.expiries, side="left")
        # A row is replaced by the next entry of its key, or never.
        replaced = np.full(len(ends), len(times.steps), np.int64)
        follows = np.flatnonzero(self.keys[1:] == self.keys[:-1])
        replaced[follows] = self.steps[follows + 1]
        expires = is_row & ~is_expired & (ends < replaced)
        unexpired, deleted = np.flatnonzero(~is_expired), np.flatnonzero(is_expired | expires)
        deletes = self.entries.take(deleted).key_bytes()
        entries = self.entries.take(unexpired).followed_by(
            Block.over(deletes, constant(delete, len(deletes)))
        )
        deleted_at = np.where(is_expired, self.steps, ends)[deleted]
        steps = np.append(self.steps[unexpired], deleted_at)
        keys = np.append(self.keys[unexpired], self.keys[deleted])
        order = np.lexsort((steps, keys))
        return KeyHistory(entries.take(order), steps[order], keys[order])

    def changes(self, same: RowComparison) -> Changes:
        """Return what every step changed, in key order, of one key in the order of the steps."""
        before, after = self._visible()
        candidates = np.flatnonzero((self.steps >= 0) & ((before != ABSENT) | (after != ABSENT)))
        before, after = before[candidates], after[candidates]
        changed = self._differing(before, after, same)
        steps = self.steps[candidates[changed]]
        return Changes(self.entries, before[changed], after[changed], steps, steps)

    def net_changes(self, same: RowComparison) -> Changes:
        """Return what all steps together changed of every key, in key order.

        The row before belongs to the first step that changed it, the row after to the last.
        """
        single = self.changes(same)
        keys = self.keys[np.where(single.after != ABSENT, single.after, single.before)]
        starts = np.flatnonzero(np.append(np.ones(min(len(keys), 1), bool), keys[1:] != keys[:-1]))
        ends = np.append(starts[1:], len(keys))[: len(starts)] - 1
        before, after = single.before[starts], single.after[ends]
        candidates = np.flatnonzero((before != ABSENT) | (after != ABSENT))
        changed = candidates[self._differing(before[candidates], after[candidates], same)]
        return Changes(
            self.entries,
            before[changed],
            after[changed],
            single.first[starts[changed]],
            single.last[ends[changed]],
        )

    def _visible(self) -> tuple[Positions, Positions]:
        """Return for every entry the positions of the rows visible before and after it."""
        positions = np.arange(len(self.steps))
        after = np.where(Headers(self.entries).kinds != Kind.DELETE, positions, ABSENT)
        before = np.full(len(after), ABSENT, np.int64)
        follows = np.flatnonzero(self.keys[1:] == self.keys[:-1]) + 1
        before[follows] = after[follows - 1]
        return before, after

    def _differing(self, before: Positions, after: Positions, same: RowComparison) -> Positions:
        """Return the indices where the row before is not the row after."""
        differ = np.ones(len(before), bool)
        in_both = np.flatnonzero((before != ABSENT) & (after != ABSENT))
        if len(in_both):
            pair = self.entries.take(before[in_both]), self.entries.take(after[in_both])
            differ[in_both] = ~same(*pair)
        return np.flatnonzero(differ)


def same_rows(encoding: Encoding, left: Block, right: Block) -> Flags:
    """Return for every entry of ``left`` whether its row is that of ``right`` at the same index.

    No entry is a delete; the keys are the same. ValueError or IndexError if the bytes are not rows
    of the table.
    """
    left_headers, right_headers = Headers(left), Headers(right)
    same: Flags = left_headers.body_lengths == right_headers.body_lengths
    rows = np.flatnonzero(same)
    same[rows] = np.asarray(pc.equal(_bodies(left_headers, rows), _bodies(right_headers, rows)))
    # Under one schema equal bytes are equal rows; under the present one other bytes are other rows.
    has_one_schema = left_headers.schema_versions == right_headers.schema_versions
    is_present = left_headers.schema_versions == encoding.schema.version
    undecided = np.flatnonzero(~(has_one_schema & (same | is_present)))
    if len(undecided):
        values = (
            encoding.reencode_values(left.take(undecided)),
            encoding.reencode_values(right.take(undecided)),
        )
        same[undecided] = np.asarray(pc.equal(*values))
    return same


def _bodies(headers: Headers, rows: NDArray[np.int64]) -> Bytes:
    return gather(headers.block.values, headers.body_starts[rows], headers.body_lengths[rows])
