"""Combinations of conditions as terms: at most one is true, and one is where the combination is."""

from __future__ import annotations

from itertools import product
from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from relstate.connector.views.planner.disjoint_terms import Combination, disjoint_terms

_ATOMS = "abcd"
_Formula: TypeAlias = str | Combination[str]

FORMULAS: st.SearchStrategy[_Formula] = st.recursive(
    st.sampled_from(_ATOMS),
    lambda parts: st.builds(
        Combination, st.booleans(), st.lists(parts, min_size=1, max_size=3).map(tuple)
    ),
    max_leaves=8,
)


def is_true(formula: _Formula, values: dict[str, bool]) -> bool:
    """Return whether a combination is true where these of its conditions are."""
    if not isinstance(formula, Combination):
        return values[formula]
    results = [is_true(part, values) for part in formula.parts]
    return any(results) if formula.is_any else all(results)


@given(FORMULAS)
def test_terms_are_true_once_where_the_combination_is(formula: _Formula) -> None:
    """For all values of the conditions, of which each may be there several times."""
    terms = list(disjoint_terms(formula))
    for choice in product((True, False), repeat=len(_ATOMS)):
        values = dict(zip(_ATOMS, choice, strict=True))
        count = sum(all(values[atom] is expected for atom, expected in term) for term in terms)
        assert count == is_true(formula, values)
