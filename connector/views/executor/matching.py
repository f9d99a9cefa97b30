"""Find equal keys and pair rows by them, without a loop over rows.

Keys are numbered: equal keys have one *code*, and codes sort as the keys do.
Promises: pairs are computed in slices: only the requested ones are in memory.
Does not know: what keys and rows are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from relstate.storage import ragged

Codes: TypeAlias = NDArray[np.int64]
Rows: TypeAlias = NDArray[np.int64]


def codes_of(keys: Sequence[ragged.Bytes]) -> tuple[list[Codes], int]:
    """Return (the codes of each array of keys, the number of different keys in all of them)."""
    all_keys = pa.concat_arrays(keys)
    order = ragged.sort_order(all_keys)
    ranks = ranks_of(all_keys.take(pa.array(order)))
    codes = np.empty(len(all_keys), np.int64)
    codes[order] = ranks
    ends = np.cumsum([len(array) for array in keys])
    return np.split(codes, ends[:-1]), int(ranks[-1]) + 1 if len(ranks) else 0


def ranks_of(keys: ragged.Bytes) -> Codes:
    """Return the codes of sorted keys."""
    ranks = np.zeros(len(keys), np.int64)
    if len(keys):
        np.cumsum(~ragged.equal_neighbours(keys), out=ranks[1:])
    return ranks


def firsts_of(codes: Codes) -> Rows:
    """Return the first position of each code; ``codes`` ascend."""
    later_firsts: Rows = np.flatnonzero(codes[1:] != codes[:-1]) + 1
    return np.append(np.zeros(min(len(codes), 1), np.int64), later_firsts)


def marked(codes: Codes, count: int) -> NDArray[np.bool_]:
    """Return for each of ``count`` codes whether ``codes`` has it."""
    is_marked = np.zeros(count, np.bool_)
    is_marked[codes] = True
    return is_marked


def places_of(codes: Codes, rows: Rows, count: int) -> Rows:
    """Return for each of ``count`` codes the first of ``rows`` with it, -1 if there is none."""
    first_rows = np.full(count, -1, np.int64)
    first_rows[codes[::-1]] = rows[::-1]
    return first_rows


@dataclass(frozen=True, slots=True)
class Matches:
    """All pairs of a left row and a right row with equal codes, computed on demand."""

    lefts: Rows
    rights: Rows
    starts: Rows
    """For each left row, the position of its first match in ``rights``."""
    before: Rows
    """For each left row, the number of pairs before its own; the last item is the total."""

    @classmethod
    def of(
        cls, lefts: Rows, left_codes: Codes, rights: Rows, right_codes: Codes, count: int
    ) -> Matches:
        """Return the pairs of ``lefts`` and ``rights``, whose codes are below ``count``."""
        sizes = np.bincount(right_codes, minlength=count)
        ends = np.cumsum(sizes)
        before = np.zeros(len(lefts) + 1, np.int64)
        np.cumsum(sizes[left_codes], out=before[1:])
        order = np.argsort(right_codes, kind="stable")
        return cls(lefts, rights[order], (ends - sizes)[left_codes], before)

    @property
    def total(self) -> int:
        """The number of pairs."""
        return int(self.before[-1])

    def pairs(self, start: int, stop: int) -> tuple[Rows, Rows]:
        """Return (left rows, right rows) of the pairs numbered from ``start`` to ``stop``."""
        first = int(np.searchsorted(self.before, start, "right")) - 1
        last = int(np.searchsorted(self.before, stop, "left"))
        row_starts = self.before[first:last]
        pair_starts = np.maximum(row_starts, start)
        counts = np.minimum(self.before[first + 1 : last + 1], stop) - pair_starts
        right_positions = ragged.expand(self.starts[first:last] + pair_starts - row_starts, counts)
        return np.repeat(self.lefts[first:last], counts), self.rights[right_positions]
