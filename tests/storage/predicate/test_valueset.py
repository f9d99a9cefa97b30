"""Laws of sets of values: operations on cuts agree with membership."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from relstate.storage.predicate.valueset import ValueSet, intersection, set_of_cuts, union

UNIVERSE = range(-5, 12)

sets = st.lists(st.integers(-5, 10), unique=True).map(
    lambda cuts: ValueSet(-5, tuple(sorted(cuts)))
)


def members(values: ValueSet) -> set[int]:
    """Return the values inside, tested one by one."""
    return {value for value in UNIVERSE if values.holds(value)}


@given(chosen=st.lists(sets, min_size=1, max_size=4))
def test_unions_and_intersections_are_those_of_their_members(chosen: list[ValueSet]) -> None:
    """Of any number of sets."""
    member_sets = list(map(members, chosen))

    assert members(union(chosen)) == set.union(*member_sets)
    assert members(intersection(chosen)) == set.intersection(*member_sets)


@given(values=sets)
def test_a_complement_has_all_other_values(values: ValueSet) -> None:
    """The complement of the complement is the set."""
    assert members(values.complement()) == set(UNIVERSE) - members(values)
    assert values.complement().complement() == values


@given(values=sets)
def test_ranges_are_the_members(values: ValueSet) -> None:
    """The last range may have no end."""
    inside: set[int] = set()
    for first, stop in values.ranges():
        assert isinstance(first, int)
        assert not isinstance(stop, bytes)
        inside |= {value for value in UNIVERSE if first <= value and (stop is None or value < stop)}

    assert inside == members(values)
    assert values.is_empty == (not values.cuts)


def test_two_equal_cuts_cancel_each_other() -> None:
    """Ranges that touch become one, and an empty range is left out."""
    assert set_of_cuts(0, [1, 3, 3, 5]).cuts == (1, 5)
    assert set_of_cuts(0, [2, 2]).is_empty
    assert ValueSet(0, (0,)).is_everything
