"""Ordinals sort as Spark sorts the values, one by one and in batches."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relstate.storage import types as t
from relstate.storage.predicate.domain import domain_of
from relstate.storage.schema.arrow import arrow_type

NAN, INFINITY = float("nan"), float("inf")
FLOATS = [-INFINITY, -1e30, -1.5, -0.0, 1e-30, 1.5, 1e30, INFINITY, NAN]
MOMENTS = [datetime.datetime.min, datetime.datetime(1970, 1, 1), datetime.datetime.max]

# Values of each type, ascending.
ASCENDING: list[tuple[t.DataType, list[Any]]] = [
    (t.Boolean(), [False, True]),
    (t.TinyInt(), [-128, -1, 0, 127]),
    (t.Int(), [-(2**31), -1, 0, 2**31 - 1]),
    (t.BigInt(), [-(2**63), -1, 0, 2**63 - 1]),
    (t.Float(), [float(np.float32(number)) for number in FLOATS]),
    (t.Double(), FLOATS),
    (t.Decimal(5, 2), [Decimal("-999.99"), Decimal("0.00"), Decimal("0.01"), Decimal("999.99")]),
    (t.Decimal(38, 0), [Decimal(-(10**38) + 1), Decimal(-1), Decimal(0), Decimal(10**38 - 1)]),
    (t.String(), ["", "\0", "a", "a\0", "aa", "é", "\uffff", "😀"]),
    (t.Binary(), [b"", b"\0", b"a", b"\x80", b"\xff", b"\xff\0"]),
    (t.Date(), [moment.date() for moment in MOMENTS]),
    (t.Timestamp(), [moment.replace(tzinfo=datetime.UTC) for moment in MOMENTS]),
    (t.TimestampNtz(), MOMENTS),
    (t.Time(), [datetime.time.min, datetime.time(12), datetime.time.max]),
    (t.DayTimeInterval(), [datetime.timedelta(-1), datetime.timedelta(0), datetime.timedelta(1)]),
]


def stored(data_type: t.DataType, values: list[Any]) -> pa.Array:
    """Return the values in Arrow, after a NULL."""
    return pa.array([None, *values], arrow_type(data_type))


def constants(data_type: t.DataType, values: list[Any]) -> list[Any]:
    """Return the values as a constant of a condition holds them."""
    array = stored(data_type, values).drop_null()
    if isinstance(data_type, t.Date):
        array = array.cast(pa.int32())
    elif isinstance(data_type, t.Timestamp | t.TimestampNtz | t.Time | t.DayTimeInterval):
        array = array.cast(pa.int64())
    return list(array.to_pylist())


def ordinals(data_type: t.DataType, values: list[Any]) -> list[Any]:
    """Return the ordinals of values that a key's codec takes."""
    domain = domain_of(data_type)
    assert domain is not None
    return [domain.ordinal(value) for value in constants(data_type, values)]


@pytest.mark.parametrize(("data_type", "values"), ASCENDING, ids=lambda ordinal: str(ordinal)[:20])
def test_ordinals_ascend_and_lead_back(data_type: t.DataType, values: list[Any]) -> None:
    """Within the ends of the domain; an ordinal's value is one that a key takes."""
    domain = domain_of(data_type)
    assert domain is not None
    answers = ordinals(data_type, values)

    assert answers == sorted(set(answers))
    assert domain.least <= answers[0]
    assert domain.most is None or answers[-1] <= domain.most
    assert list(map(repr, map(domain.value, answers))) == [
        repr(value if value != 0 or not isinstance(value, float) else 0.0) for value in values
    ]


@pytest.mark.parametrize(("data_type", "values"), ASCENDING, ids=lambda ordinal: str(ordinal)[:20])
@pytest.mark.parametrize("operator", ["=", "<>", "<", "<=", ">", ">="])
def test_a_batch_is_compared_as_its_ordinals(
    data_type: t.DataType, values: list[Any], operator: str
) -> None:
    """With each of the values, by every operator, also in slices."""
    domain = domain_of(data_type)
    assert domain is not None
    keys = ordinals(data_type, values)
    array = stored(data_type, values)
    for value, key in zip(constants(data_type, values), keys, strict=True):
        chosen = domain.set_where(operator, value)
        expected = [_compare(ordinal, operator, key) for ordinal in keys]
        assert domain.contains(array.slice(1), chosen).tolist() == expected
        assert [chosen.holds(ordinal) for ordinal in keys] == expected


def _compare(left: Any, operator: str, right: Any) -> bool:
    answers: dict[str, bool] = {"=": left == right, "<": left < right, ">": left > right}
    answers |= {"<>": left != right, "<=": left <= right, ">=": left >= right}
    return answers[operator]


@given(chosen=st.lists(st.integers(-5, 5)), values=st.lists(st.integers(-6, 6)))
def test_many_values_are_found_at_once(chosen: list[int], values: list[int]) -> None:
    """In any number of ranges."""
    domain = domain_of(t.Int())
    assert domain is not None
    answers = domain.contains(pa.array(values, pa.int32()), domain.set_of(list(chosen)))

    assert answers.tolist() == [value in chosen for value in values]


def test_minus_zero_and_nans_are_one() -> None:
    """As Spark compares them: -0 is 0, a NaN equals any other and is above all."""
    domain = domain_of(t.Double())
    assert domain is not None
    bits = np.array([0x7FF8000000000001, 0xFFF8000000000000], np.uint64).view(np.float64)

    assert domain.ordinal(-0.0) == domain.ordinal(0.0)
    assert domain.contains(pa.array(bits), domain.set_where("=", NAN)).all()


def test_what_has_no_order_has_no_domain() -> None:
    """Maps and nested types, and text under a collation."""
    for data_type in (t.String("UTF8_LCASE"), t.Array(t.Int()), t.Map(t.Int(), t.Int())):
        assert domain_of(data_type) is None


def test_values_python_cannot_hold_are_none() -> None:
    """A day after Python's last year, and a nanosecond."""
    for data_type, ordinal in ((t.Date(), 2**31 - 1), (t.Timestamp(), 2**62), (t.Time(), 1)):
        domain = domain_of(data_type)
        assert domain is not None
        assert domain.value(ordinal) is None


@pytest.mark.parametrize(
    ("data_type", "constant", "below"),
    [
        (t.Int(), Decimal("1.5"), 1),
        (t.Int(), Decimal("-1.5"), -2),
        (t.Decimal(5, 2), Decimal("1.005"), Decimal("1.00")),
        (t.Float(), 0.1, float(np.nextafter(np.float32(0.1), np.float32(-1)))),
        (t.Float(), -5e-324, float(np.nextafter(np.float32(0), np.float32(-1)))),
        (t.Float(), 1e300, float(np.finfo(np.float32).max)),
    ],
)
def test_a_constant_between_two_values_equals_none(
    data_type: t.DataType, constant: Any, below: Any
) -> None:
    """It is above the value below it and below the next, by every operator."""
    domain = domain_of(data_type)
    assert domain is not None
    last = domain.ordinal(below)
    assert isinstance(last, int)

    assert domain.set_where("=", constant).is_empty
    assert domain.set_where("<>", constant).is_everything
    assert domain.set_where("<", constant) == domain.set_where("<=", constant)
    assert domain.set_where(">", constant) == domain.set_where(">=", constant)
    assert domain.set_where("<", constant).holds(last)
    # No float has the ordinal before that of zero.
    assert not domain.set_where("<", constant).holds(last + 2)
    assert domain.set_of([constant]).is_empty


@pytest.mark.parametrize(("data_type", "values"), ASCENDING)
def test_the_set_of_an_array_has_its_values_and_no_others(
    data_type: t.DataType, values: list[Any]
) -> None:
    """NULL is none of them, and one that comes twice is one."""
    domain = domain_of(data_type)
    assert domain is not None
    for members in (values[::2], values[1::2], values[-1:], values, []):
        stored_members = stored(data_type, [*members, *members])
        value_set = domain.set_of_array(stored_members)
        texts = set(map(repr, members))
        inside = [repr(value) in texts for value in values]

        assert [value_set.holds(ordinal) for ordinal in ordinals(data_type, values)] == inside
        array = stored(data_type, values).drop_null()
        if not value_set.is_empty:
            assert domain.contains(array, value_set).tolist() == inside
