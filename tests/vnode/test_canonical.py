"""Laws of the canonical form of a Python value, which hashes, keys and stored rows share."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from relstate.vnode import canonical_form, canonical_row, struct_values

_PAIR = pa.struct({"a": pa.int32(), "b": pa.string()})


@pytest.mark.parametrize(
    ("kind", "value", "form"),
    [
        (pa.bool_(), True, True),
        (pa.int8(), -128, -128),
        (pa.int64(), np.int32(7), 7),
        (pa.float64(), 1, 1.0),
        (pa.float64(), np.float32(0.5), 0.5),
        (pa.float32(), 0.1, 0.10000000149011612),
        (pa.decimal128(5, 2), Decimal("-1.5"), -150),
        (pa.decimal128(38, 0), 7, 7),
        (pa.date32(), dt.date(1969, 12, 31), -1),
        (pa.timestamp("us", "UTC"), dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC), 10**6),
        (pa.timestamp("us"), dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), -1),
        (pa.time64("ns"), dt.time(0, 0, 0, 1), 1000),
        (pa.duration("us"), dt.timedelta(days=-1), -86_400_000_000),
        (pa.string(), "ä", "ä".encode()),
        (pa.binary(), bytearray(b"ab"), b"ab"),
        (_PAIR, {"b": "x", "a": None}, [None, b"x"]),
        (_PAIR, (1, None), [1, None]),
        (pa.list_(_PAIR), [None, (1, "x")], [None, [1, b"x"]]),
    ],
    ids=str,
)
def test_a_value_has_one_form(kind: pa.DataType, value: Any, form: Any) -> None:
    """Whatever Python value it is given as; None stays None in a row."""
    result = canonical_form(kind)(value)

    assert (result, type(result)) == (form, type(form))
    assert canonical_row([kind, kind])([None, value]) == [None, form]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.bool_(), 1),
        (pa.int32(), True),
        (pa.int32(), 1.0),
        (pa.float64(), False),
        (pa.float64(), Decimal(1)),
        (pa.decimal128(5, 2), 1.5),
        (pa.decimal128(5, 2), True),
        (pa.date32(), dt.datetime(2020, 1, 1)),
        (pa.time64("ns"), dt.time(1, tzinfo=dt.UTC)),
        (pa.string(), b"x"),
        (pa.binary(), 5),
        (pa.null(), 1),
        (_PAIR, {"c": 1, "b": "x"}),
        (_PAIR, {"b": "x"}),
        (_PAIR, (1,)),
        (pa.list_(pa.int32()), "ab"),
    ],
    ids=str,
)
def test_a_value_of_another_type_is_refused(kind: pa.DataType, value: Any) -> None:
    """A bool is not taken for a number, nor a datetime for a date."""
    with pytest.raises(TypeError):
        canonical_form(kind)(value)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int8(), 128),
        (pa.int64(), -(2**63) - 1),
        (pa.float64(), 2**53 + 1),
        (pa.float32(), 1e300),
        (pa.decimal128(5, 2), Decimal("0.001")),
        (pa.decimal128(5, 2), 1000),
        (pa.decimal128(38, 0), Decimal("NaN")),
        (pa.duration("us"), dt.timedelta.max),
    ],
    ids=str,
)
def test_a_value_that_does_not_fit_is_refused(kind: pa.DataType, value: Any) -> None:
    """It is never rounded or cut; a FLOAT alone is rounded, to its own width."""
    with pytest.raises(ArithmeticError):
        canonical_form(kind)(value)


def test_a_struct_with_two_fields_of_one_name_takes_no_dict() -> None:
    """A key of the dict does not identify one of the fields."""
    values_of = struct_values(["a", "a"])

    assert values_of([1, 2]) == [1, 2]
    assert struct_values(["a", "b"])({"b": 2}) == [None, 2]
    with pytest.raises(TypeError):
        values_of({"a": 1})


def test_a_type_without_forms_is_refused() -> None:
    """The error is raised for the type, before there is any value."""
    with pytest.raises(TypeError, match="map"):
        canonical_form(pa.list_(pa.map_(pa.string(), pa.int32())))
