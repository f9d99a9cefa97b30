"""Equal keys found, and rows paired by them, without a loop over rows.

Keys are numbered: equal keys have one *code*, and codes sort as the keys do.
Promises: pairs are made in slices, so that no more of them are in memory than are asked for.
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
    """Return (the codes of each array of keys, how many different ones all of them have)."""
    whole = pa.concat_arrays(keys)
    order = ragged.sort_order(whole)
    ranks = ranks_of(whole.take(pa.array(order)))
    codes = np.empty(len(whole), np.int64)
    codes[order] = ranks
    ends = np.cumsum([len(array) for array in keys])
    return np.split(codes, ends[:-1]), int(ranks[-1]) + 1 if len(ranks) else 0


def ranks_of(keys: ragged.Bytes) -> Codes:
    """Return the codes of keys that are sorted."""
    ranks = np.zeros(len(keys), np.int64)
    if len(keys):
        np.cumsum(~ragged.equal_neighbours(keys), out=ranks[1:])
    return ranks


def firsts_of(codes: Codes) -> Rows:
    """Return the first position of each code, of codes that ascend."""
    changes: Rows = np.flatnonzero(codes[1:] != codes[:-1]) + 1
    return np.append(np.zeros(min(len(codes), 1), np.int64), changes)


def marked(codes: Codes, count: int) -> NDArray[np.bool_]:
    """Return of each of ``count`` codes whether it is among these."""
    found = np.zeros(count, np.bool_)
    found[codes] = True
    return found


def places_of(codes: Codes, rows: Rows, count: int) -> Rows:
    """Return for each of ``count`` codes the first of ``rows`` that has it, -1 where none does."""
    found = np.full(count, -1, np.int64)
    found[codes[::-1]] = rows[::-1]
    return found


@dataclass(frozen=True, slots=True)
class Matches:
    """All pairs of a left row and a right row with one code, none of them made yet."""

    lefts: Rows
    rights: Rows
    starts: Rows
    """For each left row, where its matches begin among the right rows."""
    before: Rows
    """For each of the left rows the number of pairs before its own; then that of all."""

    @classmethod
    def of(
        cls, lefts: Rows, left_codes: Codes, rights: Rows, right_codes: Codes, count: int
    ) -> Matches:
        """Return the pairs of ``lefts`` and ``rights``, which have these of ``count`` codes."""
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
        own = self.before[first:last]
        begins = np.maximum(own, start)
        counts = np.minimum(self.before[first + 1 : last + 1], stop) - begins
        partners = ragged.expand(self.starts[first:last] + begins - own, counts)
        return np.repeat(self.lefts[first:last], counts), self.rights[partners]
