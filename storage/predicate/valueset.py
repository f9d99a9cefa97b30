"""Sets of values of one ordered type, as the places where membership turns.

A value stands here as its *ordinal*: an integer, or bytes, that sorts as the value does (see
`domain`). A set is its *cuts*, ascending: a value is inside from the first cut on, outside from
the second on, and so forth. So a set of any number of ranges is tested by one binary search.

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

    With an odd number of cuts the last range has no end.
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
        for place in range(0, len(self.cuts), 2):
            yield self.cuts[place], self.cuts[place + 1] if place + 1 < len(self.cuts) else None

    def holds(self, ordinal: Ordinal) -> bool:
        """Tell whether a value is inside."""
        return bisect_right(self.cuts, ordinal) % 2 == 1

    def complement(self) -> ValueSet:
        """Return the set of all other values."""
        if self.cuts and self.cuts[0] == self.least:
            return ValueSet(self.least, self.cuts[1:])
        return ValueSet(self.least, (self.least, *self.cuts))


def union(sets: Sequence[ValueSet]) -> ValueSet:
    """Return the set of the values in any of the sets, of which there is at least one."""
    return _covered(sets, 1)


def intersection(sets: Sequence[ValueSet]) -> ValueSet:
    """Return the set of the values in all of the sets, of which there is at least one."""
    return _covered(sets, len(sets))


def _covered(sets: Sequence[ValueSet], wanted: int) -> ValueSet:
    """Return the set of the values that at least ``wanted`` of the sets hold."""
    if len(sets) == 1:
        return sets[0]
    cuts: list[Ordinal] = []
    depth = 0
    for cut, step in merge(*map(_turns, sets), key=lambda turn: turn[0]):
        before, depth = depth >= wanted, depth + step
        if before != (depth >= wanted):
            _toggle(cuts, cut)
    return ValueSet(sets[0].least, tuple(cuts))


def _turns(values: ValueSet) -> Iterator[tuple[Ordinal, int]]:
    for place, cut in enumerate(values.cuts):
        yield cut, -1 if place % 2 else 1


def toggled(least: Ordinal, cuts: Sequence[Ordinal]) -> ValueSet:
    """Return the set whose membership turns at these cuts, ascending, some of them equal.

    Two turns at one place are none.
    """
    kept: list[Ordinal] = []
    for cut in cuts:
        _toggle(kept, cut)
    return ValueSet(least, tuple(kept))


def _toggle(cuts: list[Ordinal], cut: Ordinal) -> None:
    if cuts and cuts[-1] == cut:
        cuts.pop()
    else:
        cuts.append(cut)
