"""Sets of values of one ordered type, as the values where membership begins and ends.

A value is represented by its *ordinal*: an integer, or bytes, that sorts as the value does (see
`domain`). A set is its *cuts*, ascending: values are inside from the first cut on, outside from the
second on, and so on. So a set of any number of ranges is tested by one binary search.

Does not know: types, or where the values come from.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from typing import TypeAlias

Ordinal: TypeAlias = int | bytes


@dataclass(frozen=True, slots=True)
class ValueSet:
    """A set of values. ``least`` is the ordinal of the type's least value.

    If the number of cuts is odd, the last range has no end.
    """

    least: Ordinal
    cuts: tuple[Ordinal, ...]

    @property
    def is_empty(self) -> bool:
        """Whether no value is inside."""
        return not self.cuts

    @property
    def is_everything(self) -> bool:
        """Whether all values are inside."""
        return self.cuts == (self.least,)

    def ranges(self) -> Iterator[tuple[Ordinal, Ordinal | None]]:
        """Yield (first value inside, first value after it or None), ascending."""
        for index in range(0, len(self.cuts), 2):
            yield self.cuts[index], self.cuts[index + 1] if index + 1 < len(self.cuts) else None

    def holds(self, ordinal: Ordinal) -> bool:
        """Return whether a value is inside."""
        return bisect_right(self.cuts, ordinal) % 2 == 1

    def complement(self) -> ValueSet:
        """Return the set of all other values."""
        if self.cuts and self.cuts[0] == self.least:
            return ValueSet(self.least, self.cuts[1:])
        return ValueSet(self.least, (self.least, *self.cuts))


def union(sets: Sequence[ValueSet]) -> ValueSet:
    """Return the values in any of some sets; there must be one."""
    return _covered(sets, 1)


def intersection(sets: Sequence[ValueSet]) -> ValueSet:
    """Return the values in all of some sets; there must be one."""
    return _covered(sets, len(sets))


def _covered(sets: Sequence[ValueSet], count: int) -> ValueSet:
    """Return the values that are in at least ``count`` of the sets."""
    if len(sets) == 1:
        return sets[0]
    cuts: list[Ordinal] = []
    depth = 0
    for cut, step in merge(*map(_steps, sets), key=lambda step: step[0]):
        was_inside, depth = depth >= count, depth + step
        if was_inside != (depth >= count):
            _toggle(cuts, cut)
    return ValueSet(sets[0].least, tuple(cuts))


def _steps(values: ValueSet) -> Iterator[tuple[Ordinal, int]]:
    """Yield (cut, 1 where the set begins to hold values, -1 where it ends)."""
    for index, cut in enumerate(values.cuts):
        yield cut, -1 if index % 2 else 1


def set_of_cuts(least: Ordinal, cuts: Sequence[Ordinal]) -> ValueSet:
    """Return the set with these cuts, which ascend; two that are equal cancel each other."""
    distinct: list[Ordinal] = []
    for cut in cuts:
        _toggle(distinct, cut)
    return ValueSet(least, tuple(distinct))


def _toggle(cuts: list[Ordinal], cut: Ordinal) -> None:
    if cuts and cuts[-1] == cut:
        cuts.pop()
    else:
        cuts.append(cut)
