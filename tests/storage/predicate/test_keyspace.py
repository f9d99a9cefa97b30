"""Conditions on the key become ranges of keys; `test_pruning` holds that they are enough."""

from __future__ import annotations

import pytest

from relstate.storage import TableSchema
from relstate.storage.predicate.keyspace import MOST_RANGES
from relstate.storage.predicate.predicate import Predicate
from relstate.storage.schema.ddl import parse_columns
from relstate.storage.schema.schema import KeyRange

SCHEMA = TableSchema.build(
    parse_columns("a INT, b STRING, d DOUBLE, v INT"), ["a", "b desc", "d"], ["a"]
)


def ranges(text: str) -> tuple[KeyRange, ...] | None:
    """Return the ranges of a condition."""
    return Predicate.parse(text, SCHEMA).ranges()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1", [KeyRange((1,))]),
        ("a IN (2, 1)", [KeyRange((1,)), KeyRange((2,))]),
        ("a BETWEEN 1 AND 2", [KeyRange((1,)), KeyRange((2,))]),
        ("a > 1.5 AND a < 3.5", [KeyRange((2,)), KeyRange((3,))]),
        ("a = 1 AND b = 'x' AND d = 0", [KeyRange((1, "x", 0.0))]),
        ("(a, b) IN ((1, 'x'), (2, 'y'))", [KeyRange((1, "x")), KeyRange((2, "y"))]),
        ("a = 1 AND b = 'x' OR a = 2 AND b = 'y'", [KeyRange((1, "x")), KeyRange((2, "y"))]),
        ("a = 1 AND v = 5", [KeyRange((1,))]),
        ("a >= 100", [KeyRange((), (100,))]),
        ("a > 100", [KeyRange((), (101,))]),
        ("a <= 100", [KeyRange((), (), (100,), with_stop=True)]),
        ("a < 1000 AND a >= 10", [KeyRange((), (10,), (999,), with_stop=True)]),
        # A descending column begins with its greatest value.
        ("a = 1 AND b >= 'x'", [KeyRange((1,), (), (1, "x"), with_stop=True, after_start=True)]),
        ("a = 1 AND b < 'x'", [KeyRange((1,), (1, "x"), (), after_start=True, with_stop=True)]),
        (
            "a = 1 AND b LIKE 'x%'",
            [KeyRange((1,), (1, "y"), (1, "x"), after_start=True, with_stop=True)],
        ),
        ("a = 3.5", []),
        ("a > 2147483647", []),
        ("a = 2147483648", []),
        ("a = 1 AND a = 2", []),
        ("a IS NULL", []),
        ("NOT (a = 1 OR a <> 1)", []),
        ("v = 1 AND NULL", []),
    ],
)
def test_a_condition_on_the_key_is_ranges(text: str, expected: list[KeyRange]) -> None:
    """Equality, IN, composite ORs, prefixes, bounds, and contradictions."""
    key_ranges = ranges(text)

    assert key_ranges is not None
    assert sorted(key_ranges, key=repr) == sorted(expected, key=repr)


@pytest.mark.parametrize(
    "text",
    ["v = 1", "b = 'x'", "a = 1 OR v = 1", "NOT v = 1", "a IS NOT NULL", "a = v", "TRUE",
     "a < 2147483648", "(a = 1) IS NULL", "b LIKE '%x'"],
)  # fmt: skip
def test_a_condition_that_does_not_bound_the_key_is_none(text: str) -> None:
    """Ranges need a bound of the first key column, or a known distribution key."""
    assert ranges(text) is None


def test_there_are_never_more_ranges_than_the_bound() -> None:
    """Too many keys become fewer and wider ranges, or none."""
    values = ", ".join(str(2 * number) for number in range(MOST_RANGES + 1))
    texts = ", ".join(f"'{number}'" for number in range(200))

    assert ranges(f"a IN ({values})") is None or len(ranges(f"a IN ({values})") or ()) == 1
    wide = ranges(f"a IN ({', '.join(map(str, range(0, 400, 2)))}) AND b IN ({texts})")
    assert wide is not None
    assert 0 < len(wide) <= MOST_RANGES
    pairs = " OR ".join(f"a = {number} AND b = 'x{number}'" for number in range(3000))
    assert len(ranges(pairs) or ()) == 3000


def test_a_known_distribution_key_after_an_unknown_column_is_reported() -> None:
    """The range has no bounds, but its rows are in one vnode."""
    schema = TableSchema.build(parse_columns("a INT, b INT"), ["a", "b"], ["b"])

    key_ranges = Predicate.parse("b = 3", schema).ranges()
    assert key_ranges == (KeyRange(distribution=(3,)),)
