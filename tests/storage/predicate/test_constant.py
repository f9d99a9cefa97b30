"""Constants have the types Spark gives them, and casts give its values or are refused."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relstate.storage import types as t
from relstate.storage.errors import UnsupportedExpressionError
from relstate.storage.instant import UTC, zone_of
from relstate.storage.predicate.constant import (
    Constant,
    cast,
    fit_to_column,
    nearest_float,
    number_constant,
)

DAY = 86_400_000_000


@pytest.mark.parametrize(
    ("text", "value", "data_type"),
    [
        ("5", 5, "INT"),
        ("-2147483648", -(2**31), "INT"),
        ("2147483648", 2**31, "BIGINT"),
        ("9223372036854775808", Decimal(2**63), "DECIMAL(19,0)"),
        ("1.50", Decimal("1.50"), "DECIMAL(3,2)"),
        ("0.05", Decimal("0.05"), "DECIMAL(2,2)"),
        (".5", Decimal("0.5"), "DECIMAL(1,1)"),
        ("5.", Decimal(5), "DECIMAL(1,0)"),
        ("1e3", 1000.0, "DOUBLE"),
        ("-1.5E-3", -0.0015, "DOUBLE"),
    ],
)
def test_a_number_has_the_type_of_its_spelling(text: str, value: Any, data_type: str) -> None:
    """Integers the narrowest that holds them, points make decimals, exponents doubles."""
    constant = number_constant(text)

    assert (constant.value, str(constant.type)) == (value, data_type)


@pytest.mark.parametrize("text", ["1" * 39, "0." + "1" * 39, "1e400", "-1e999"])
def test_numbers_out_of_range_are_refused(text: str) -> None:
    """Beyond 38 digits, beyond a double."""
    with pytest.raises(UnsupportedExpressionError, match=r"digits|outside of DOUBLE"):
        number_constant(text)


TEXT = t.String()


@pytest.mark.parametrize(
    ("value", "source", "target", "expected"),
    [
        (5, t.Int(), t.BigInt(), 5),
        (5, t.Int(), t.Decimal(3, 1), Decimal("5.0")),
        (2**53 + 1, t.BigInt(), t.Double(), float(2**53)),
        (Decimal("0.1"), t.Decimal(1, 1), t.Double(), 0.1),
        (Decimal("0.1"), t.Decimal(1, 1), t.Float(), float(np.float32(0.1))),
        (Decimal("1.50"), t.Decimal(3, 2), t.Decimal(2, 1), Decimal("1.5")),
        (Decimal("5.0"), t.Decimal(2, 1), t.Int(), 5),
        ("1.5", TEXT, t.Double(), 1.5),
        ("-Infinity", TEXT, t.Double(), float("-inf")),
        ("1970-1-2", TEXT, t.Date(), 1),
        ("1970-01-02 whatever", TEXT, t.Date(), 1),
        ("1970-02", TEXT, t.Date(), 31),
        ("1970-01-02", TEXT, t.Timestamp(), DAY),
        ("1970-01-01T00:00:01.5", TEXT, t.Timestamp(), 1_500_000),
        ("1970-01-01 02:00:00+02:00", TEXT, t.Timestamp(), 0),
        ("1970-01-01 00:00:01", TEXT, t.TimestampNtz(), 1_000_000),
        ("00:00:01.5", TEXT, t.Time(), 1_500_000_000),
        (1, t.Date(), t.Timestamp(), DAY),
        (None, t.Void(), t.Int(), None),
    ],
)
def test_a_cast_gives_spark_s_value(
    value: Any, source: t.DataType, target: t.DataType, expected: Any
) -> None:
    """Where nothing is lost, or a double is the nearest."""
    assert cast(Constant(value, source), target, UTC) == Constant(expected, target)


@pytest.mark.parametrize(
    ("value", "source", "target"),
    [
        (300, t.Int(), t.TinyInt()),
        (Decimal("1.55"), t.Decimal(3, 2), t.Decimal(2, 1)),
        (Decimal("5.5"), t.Decimal(2, 1), t.Int()),
        (10, t.Int(), t.Decimal(2, 1)),
        (1.5, t.Double(), t.Int()),
        (1e300, t.Double(), t.Float()),
        ("5.0", TEXT, t.Int()),
        ("x", TEXT, t.Double()),
        ("0x10", TEXT, t.Double()),
        ("1_0", TEXT, t.Double()),
        ("5", TEXT, t.Int()),
        ("yes", TEXT, t.Boolean()),
        ("a", TEXT, t.Binary()),
        (DAY, t.Timestamp(), t.Date()),
        (DAY, t.TimestampNtz(), t.Timestamp()),
        ("2020-02-30", TEXT, t.Date()),
        ("yesterday", TEXT, t.Date()),
        ("2020-01-01 25:00:00", TEXT, t.Timestamp()),
        ("2020-01-01 00:00:00 Mars/Base", TEXT, t.Timestamp()),
        ("2020-01-01 00:00:00.1234567", TEXT, t.Timestamp()),
        ("2020-01-01 00:00:00Z", TEXT, t.TimestampNtz()),
        (5, t.Int(), TEXT),
        (5, t.Int(), t.Boolean()),
        (5, t.Int(), t.Date()),
    ],
)
def test_a_cast_that_fails_or_rounds_is_refused(
    value: Any, source: t.DataType, target: t.DataType
) -> None:
    """So are spellings of times that only Spark reads."""
    with pytest.raises(UnsupportedExpressionError):
        cast(Constant(value, source), target, UTC)


def test_days_of_a_region_are_refused() -> None:
    """A day in a region may begin at another hour than midnight; write a timestamp instead."""
    with pytest.raises(UnsupportedExpressionError):
        cast(Constant(1, t.Date()), t.Timestamp(), zone_of("Europe/Rome"))


@pytest.mark.parametrize(
    ("value", "source", "column", "expected"),
    [
        (5, t.Int(), t.BigInt(), 5),
        (2**40, t.BigInt(), t.TinyInt(), 2**40),
        (Decimal("1.5"), t.Decimal(2, 1), t.Int(), Decimal("1.5")),
        (5, t.Int(), t.Decimal(38, 37), 5),
        (Decimal("9.99"), t.Decimal(3, 2), t.Double(), 9.99),
        (2**53 + 1, t.BigInt(), t.Double(), float(2**53)),
        (Decimal("0.1"), t.Decimal(1, 1), t.Float(), 0.1),
        ("1970-01-02", TEXT, t.Date(), 1),
        ("1970-01-02", TEXT, t.Timestamp(), DAY),
        (1, t.Date(), t.TimestampNtz(), DAY),
        ("a", TEXT, TEXT, "a"),
    ],
)
def test_a_column_compares_with_constants_of_its_family(
    value: Any, source: t.DataType, column: t.DataType, expected: Any
) -> None:
    """Exactly, or as Spark compares doubles."""
    (fitted,) = fit_to_column([Constant(value, source)], column, UTC)
    assert fitted.value == expected


@pytest.mark.parametrize(
    ("value", "source", "column", "advice"),
    [
        (5.0, t.Double(), t.Int(), "write a whole number such as 5"),
        (1.5, t.Double(), t.Decimal(6, 2), "write a number without an exponent"),
        ("5", TEXT, t.Int(), "a column of type INT is not compared with a constant of type STRING"),
        (5, t.Int(), TEXT, "write text in quotes"),
        (1, t.Int(), t.Boolean(), "write TRUE or FALSE"),
        ("a", TEXT, t.Binary(), "write bytes such as X'00FF'"),
        (DAY, t.Timestamp(), t.Date(), "write a date such as '2024-01-31'"),
        (DAY, t.TimestampNtz(), t.Timestamp(), "write a timestamp such as"),
        (Decimal("0." + "1" * 20), t.Decimal(20, 20), t.Decimal(38, 10), "write fewer digits"),
    ],
)
def test_a_constant_of_another_family_is_refused(
    value: Any, source: t.DataType, column: t.DataType, advice: str
) -> None:
    """With advice how to write it."""
    with pytest.raises(UnsupportedExpressionError, match=advice):
        fit_to_column([Constant(value, source)], column, UTC)


@given(number=st.floats(allow_nan=False, width=32, min_value=-(2.0**100), max_value=2.0**100))
def test_a_float_is_the_nearest_to_itself(number: float) -> None:
    """And the nearest to a number that differs from it very little."""
    assert nearest_float(Fraction(number)) == number
    assert nearest_float(Fraction(number) + Fraction(1, 10**60)) == number
