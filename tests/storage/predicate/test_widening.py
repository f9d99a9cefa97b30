"""A set of casts is the set of what was cast: value by value the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relstate.storage import types as t
from relstate.storage.errors import UnsupportedExpressionError
from relstate.storage.predicate.constant import Constant, cast
from relstate.storage.predicate.domain import Domain, domain_of
from relstate.storage.predicate.valueset import ValueSet
from relstate.storage.predicate.widening import is_castable, preimage
from relstate.storage.predicate.zone import Zone, zone_of

PAIRS: list[tuple[t.DataType, t.DataType]] = [
    (t.TinyInt(), t.Int()),
    (t.BigInt(), t.Double()),
    (t.Int(), t.Decimal(12, 2)),
    (t.BigInt(), t.Decimal(20, 0)),
    (t.Decimal(6, 2), t.Decimal(12, 4)),
    (t.Decimal(38, 10), t.Double()),
    (t.Float(), t.Double()),
    (t.Date(), t.Timestamp()),
    (t.Date(), t.TimestampNtz()),
    (t.Timestamp(), t.Date()),
    (t.TimestampNtz(), t.Date()),
    (t.TimestampNtz(), t.Timestamp()),
]


def domain(data_type: t.DataType) -> Domain:
    """The domain of a type that has one."""
    found = domain_of(data_type)
    assert found is not None
    return found


def constant(data_type: t.DataType, ordinal: int) -> Constant:
    """The constant with an ordinal."""
    if isinstance(data_type, t.Date | t.Timestamp | t.TimestampNtz):
        return Constant(ordinal, data_type)
    return Constant(domain(data_type).value(ordinal), data_type)


@st.composite
def values_of(draw: st.DrawFn, data_type: t.DataType) -> int:
    """Draw an ordinal of a type: near its ends, near zero, or anywhere."""
    own = domain(data_type)
    least, most = own.least, own.most
    assert isinstance(least, int)
    assert most is not None
    zero = own.ordinal(0.0) if isinstance(data_type, t.Float | t.Double) else 0
    assert isinstance(zero, int)
    near = st.integers(-300, 300).map(lambda step: min(max(zero + step, least), most))
    return draw(near | st.integers(least, most) | st.sampled_from([least, most]))


@given(data=st.data(), zone=st.sampled_from(["UTC", "+05:30", "-08:00"]))
@pytest.mark.parametrize(("source", "target"), PAIRS, ids=lambda one: str(one))
def test_a_value_is_in_the_preimage_if_its_cast_is_in_the_set(
    source: t.DataType, target: t.DataType, data: st.DataObject, zone: str
) -> None:
    """For cuts at casts of values, beside them, and anywhere."""
    here = zone_of(zone)
    own = data.draw(st.lists(values_of(source), min_size=1, max_size=6))
    casts = [_cast(source, target, ordinal, here) for ordinal in own]
    cuts = {
        one + step for one in casts for step in data.draw(st.sampled_from([(0,), (1,), (0, 1)]))
    }
    chosen = ValueSet(domain(target).least, tuple(sorted(cuts)))

    found = preimage(source, target, chosen, here)
    assert [found.holds(one) for one in own] == [chosen.holds(one) for one in casts]


def _cast(source: t.DataType, target: t.DataType, ordinal: int, zone: Zone) -> int:
    found = domain(target).ordinal(cast(constant(source, ordinal), target, zone).value)
    assert isinstance(found, int)
    return found


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (t.Int(), t.TinyInt()),
        (t.Double(), t.Float()),
        (t.Int(), t.Decimal(5, 2)),
        (t.Decimal(5, 2), t.Decimal(5, 1)),
        (t.String(), t.BigInt()),
        (t.Int(), t.String()),
        (t.Int(), t.Float()),
        (t.Boolean(), t.Int()),
    ],
    ids=str,
)
def test_casts_that_may_fail_or_round_are_refused(source: t.DataType, target: t.DataType) -> None:
    """Row by row they would have to be tried."""
    assert not is_castable(source, target, zone_of("UTC"))
    with pytest.raises(UnsupportedExpressionError):
        preimage(source, target, ValueSet(0, (0,)), zone_of("UTC"))


def test_days_of_a_region_are_refused() -> None:
    """Where clocks are set, no cut in instants is one in days that is certain."""
    assert not is_castable(t.Date(), t.Timestamp(), zone_of("Europe/Rome"))
    assert is_castable(t.TimestampNtz(), t.Date(), zone_of("Europe/Rome"))


def test_a_long_beside_a_double_is_as_coarse_as_spark_s() -> None:
    """Several longs have one double; all of them are equal to it."""
    double = domain(t.Double())
    chosen = double.compared("=", double.ordinal(2.0**53))

    found: Any = preimage(t.BigInt(), t.Double(), chosen, zone_of("UTC"))
    assert found.cuts == (2**53, 2**53 + 2)
    assert float(np.int64(2**53 + 1)) == 2.0**53
