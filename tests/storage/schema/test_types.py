"""The laws of the data types as values."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given

from relstate.storage import types as t
from relstate.storage.errors import UnsupportedTypeError
from support.datatypes import all_types


@given(all_types(), all_types())
def test_types_are_equal_when_they_mean_the_same(left: t.DataType, right: t.DataType) -> None:
    """Equal types hash alike and survive a pickle; types that differ in JSON differ."""
    assert pickle.loads(pickle.dumps(left)) == left
    assert hash(pickle.loads(pickle.dumps(left))) == hash(left)
    assert (left == right) == (repr(left) == repr(right))


def test_types_without_parameters_differ() -> None:
    """Two types without parameters are two types, also as keys of a dict."""
    types: list[t.DataType] = [t.Int(), t.BigInt(), t.Int(), t.Void()]

    assert types[0] != types[1]
    assert types[0] == types[2]
    assert len(set(types)) == 3


@pytest.mark.parametrize(("precision", "scale"), [(0, 0), (39, 0), (5, 6), (5, -1)])
def test_an_impossible_decimal_is_refused(precision: int, scale: int) -> None:
    """A decimal has 1 to 38 digits, and no more after the point than it has."""
    with pytest.raises(UnsupportedTypeError, match="is not a Spark type"):
        t.Decimal(precision, scale)


@pytest.mark.parametrize("precision", [-1, 10])
def test_an_impossible_time_is_refused(precision: int) -> None:
    """A time has 0 to 9 digits after the second."""
    with pytest.raises(UnsupportedTypeError, match="is not a Spark type"):
        t.Time(precision)


@pytest.mark.parametrize(("start", "end"), [("second", "day"), ("day", "month"), ("week", "week")])
def test_an_impossible_interval_is_refused(start: str, end: str) -> None:
    """The units of an interval come from one family, the larger first."""
    with pytest.raises(UnsupportedTypeError, match="is not a Spark type"):
        t.DayTimeInterval(start, end)
    with pytest.raises(UnsupportedTypeError, match="is not a Spark type"):
        t.YearMonthInterval(start, end)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a", "a"), ("A_1", "A_1"), ("1a", "`1a`"), ("a b", "`a b`"), ("a`b", "`a``b`"), ("", "``")],
)
def test_names_are_quoted_where_they_must_be(name: str, expected: str) -> None:
    """A name that is not a plain identifier is put in backticks, its own doubled."""
    assert t.quoted(name) == expected
