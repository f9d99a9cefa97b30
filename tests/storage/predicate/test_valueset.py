"""Sets of values are sets: cuts mean what membership says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from relstate.storage.predicate.valueset import ValueSet, intersection, set_of_cuts, union

UNIVERSE = range(-5, 12)

sets = st.lists(st.integers(-5, 10), unique=True).map(
    lambda cuts: ValueSet(-5, tuple(sorted(cuts)))
)


def members(values: ValueSet) -> set[int]:
    """The values inside, tested one by one."""
    return {value for value in UNIVERSE if values.holds(value)}


@given(chosen=st.lists(sets, min_size=1, max_size=4))
def test_unions_and_intersections_are_those_of_their_members(chosen: list[ValueSet]) -> None:
    """Of any number of sets."""
    each = list(map(members, chosen))

    assert members(union(chosen)) == set.union(*each)
    assert members(intersection(chosen)) == set.intersection(*each)


@given(values=sets)
def test_a_complement_has_all_other_values(values: ValueSet) -> None:
    """And its own complement is the set again."""
    assert members(values.complement()) == set(UNIVERSE) - members(values)
    assert values.complement().complement() == values


@given(values=sets)
def test_ranges_are_the_members(values: ValueSet) -> None:
    """The last one may have no end."""
    found: set[int] = set()
    for first, stop in values.ranges():
        assert isinstance(first, int)
        assert not isinstance(stop, bytes)
        found |= {value for value in UNIVERSE if first <= value and (stop is None or value < stop)}

    assert found == members(values)
    assert values.is_empty == (not values.cuts)


def test_two_turns_at_one_place_are_none() -> None:
    """Ranges that touch become one, and an empty range vanishes."""
    assert set_of_cuts(0, [1, 3, 3, 5]).cuts == (1, 5)
    assert set_of_cuts(0, [2, 2]).is_empty
    assert ValueSet(0, (0,)).is_everything
