"""Conditions follow SQL's three-valued logic, row by row."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from relstate.storage import types as t
from relstate.storage.predicate.condition import (
    And,
    Comparison,
    Condition,
    IsTrue,
    Matches,
    Member,
    Or,
    Truth,
    all_of,
    any_of,
    column_at,
    is_unknown,
)
from relstate.storage.predicate.valueset import ValueSet

BATCH = pa.record_batch(
    {
        "a": pa.array([None, 0, 1, 2, None, 0, 1, 2], pa.int32()),
        "b": pa.array([0, 0, 1, 1, None, None, None, 2], pa.int32()),
        "s": pa.array(["", "x", None, "y", "xy", None, "x", "z"]),
    }
)
ROWS = BATCH.to_pylist()

Truths = list[bool | None]

atoms = st.one_of(
    st.builds(Truth, st.sampled_from([True, False, None])),
    st.builds(
        Member,
        st.sampled_from([("a",), ("b",)]),
        st.just(t.Int()),
        st.lists(st.integers(-1, 3), unique=True).map(
            lambda cuts: ValueSet(-9, tuple(sorted(cuts)))
        ),
        st.sampled_from([None, True, False]),
    ),
    st.builds(
        Comparison,
        st.just(("a",)),
        st.sampled_from(["=", "<>"]),
        st.just(("b",)),
        st.just(t.Int()),
        st.booleans(),
    ),
    st.builds(Matches, st.just(("s",)), st.sampled_from(["x", r"\Ay"]), st.booleans()),
)
conditions = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.builds(all_of, st.lists(inner, min_size=1, max_size=3)),
        st.builds(any_of, st.lists(inner, min_size=1, max_size=3)),
        st.builds(IsTrue, inner, st.booleans()),
        st.builds(is_unknown, inner),
    ),
    max_leaves=6,
)


def truths(condition: Condition) -> Truths:
    """Return the value of a condition for each row, by its definition."""
    match condition:
        case Truth(value):
            return [value] * len(ROWS)
        case Member((name,), _, values, when_null):
            column = [row[name] for row in ROWS]
            return [when_null if value is None else values.holds(value) for value in column]
        case Comparison((left,), operator, (right,), _, null_safe):
            return [_compared(row[left], row[right], operator, null_safe) for row in ROWS]
        case Matches((name,), pattern, expected):
            return [_matched(row[name], pattern, expected) for row in ROWS]
        case And(parts):
            return reduce(_and, map(truths, parts))
        case Or(parts):
            negated = [list(map(_not, truths(part))) for part in parts]
            return [_not(truth) for truth in reduce(_and, negated)]
        case IsTrue(inner, expected):
            return [(truth is True) == expected for truth in truths(inner)]
    raise AssertionError(condition)


def _compared(left: int | None, right: int | None, operator: str, null_safe: bool) -> bool | None:
    if not null_safe and (left is None or right is None):
        return None
    return (left == right) == (operator == "=")


def _matched(text: str | None, pattern: str, expected: bool) -> bool | None:
    if text is None:
        return None
    return (("x" in text) if pattern == "x" else text.startswith("y")) == expected


def _and(left: Truths, right: Truths) -> Truths:
    pairs = list(zip(left, right, strict=True))
    return [False if False in pair else None if None in pair else True for pair in pairs]


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


@given(condition=conditions)
def test_a_condition_holds_where_it_is_true(condition: Condition) -> None:
    """Its negation holds where it is false; neither holds where it is unknown."""
    expected = truths(condition)

    assert condition.holds(BATCH).tolist() == [truth is True for truth in expected]
    assert condition.negated().holds(BATCH).tolist() == [truth is False for truth in expected]
    assert is_unknown(condition).holds(BATCH).tolist() == [truth is None for truth in expected]


@given(condition=conditions)
def test_a_condition_reads_the_columns_it_names(condition: Condition) -> None:
    """The batch needs no other columns."""
    names = sorted(set(condition.columns()))
    fewer = BATCH.select(names) if names else BATCH.select(["s"])

    assert np.array_equal(condition.holds(fewer), condition.holds(BATCH))


def test_sets_of_one_column_become_one() -> None:
    """So thousands of ORs are one search."""
    points = [Member(("a",), t.Int(), ValueSet(-9, (n, n + 1))) for n in range(0, 100, 2)]

    condition = any_of([*points, Truth(None)])
    assert isinstance(condition, Or)
    assert len(condition.parts) == 2
    assert isinstance(any_of(points), Member)


def test_a_field_is_null_where_what_holds_it_is() -> None:
    """Also in a slice of an array."""
    inner = pa.StructArray.from_arrays(
        [pa.array([1, 2, 3, 4])], ["x"], mask=pa.array([False, True, False, False])
    )
    outer = pa.StructArray.from_arrays([inner], ["in"], mask=pa.array([False, False, True, False]))
    batch = pa.record_batch({"s": outer})

    assert column_at(batch, ("s", "in", "x")).to_pylist() == [1, None, None, 4]
    assert column_at(batch.slice(1, 3), ("s", "in", "x")).to_pylist() == [None, None, 4]
