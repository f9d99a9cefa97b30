"""The arithmetic of aggregates against Python's own numbers."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from relstate.connector.views.executor import doubledouble, exact
from relstate.connector.views.executor.deltas import Deltas
from relstate.connector.views.executor.extreme import Extreme
from relstate.connector.views.executor.floats import sort_within_groups
from relstate.connector.views.executor.part import ValueSource
from relstate.storage import types as t
from support.aggregates import key_of
from support.datatypes import array_of, key_types, values_of

_MODERATE = st.floats(-1e100, 1e100).filter(lambda x: x == 0 or abs(x) > 1e-100)
_LIMIT = 10**38 - 1
_INTEGERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5)
_DECIMALS = st.integers(-_LIMIT, _LIMIT) | st.integers(-5, 5)


def deltas(
    values: pa.Array, codes: list[int], groups: int, weights: list[int] | None = None
) -> Deltas:
    """Return changes of values in groups, which must ascend."""
    rows = np.arange(len(codes))
    signs = np.array([1] * len(codes) if weights is None else weights, np.int64)
    return Deltas(groups, np.array(codes, np.int64), signs, rows, values)


def exact_totals(
    values: pa.Array, codes: list[int], groups: int, weights: list[int]
) -> exact.Exact:
    """Return the exact sums of values, some of them subtracted."""
    changes = deltas(values, codes, groups, weights)
    return exact.totals(changes, changes.values, changes.weights)


@st.composite
def grouped_values(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> Any:
    """Return (group, weight, value) of some rows, by group."""
    row = st.tuples(st.integers(0, 3), st.sampled_from([1, -1]), values)
    return sorted(draw(st.lists(row, max_size=40)), key=lambda entry: entry[0])


@given(grouped_values(_INTEGERS))
def test_totals_of_integers_are_exact(rows: list[tuple[int, int, int]]) -> None:
    """Each group's sum is Python's, beyond 64 bits too."""
    codes, weights, values = map(list, zip(*rows, strict=True)) if rows else ([], [], [])

    totals = exact_totals(pa.array(values, pa.int64()), codes, 4, weights)

    assert totals.tolist() == [sum(w * v for c, w, v in rows if c == code) for code in range(4)]


@given(grouped_values(_DECIMALS), st.integers(0, 3))
def test_totals_of_decimals_are_exact(rows: list[tuple[int, int, int]], cut: int) -> None:
    """Each group's sum is that of the unscaled values, also in slices of arrays."""
    rows = rows[cut:]
    codes, weights, values = map(list, zip(*rows, strict=True)) if rows else ([], [], [])
    column = pa.array([Decimal(0), *map(Decimal, values)], pa.decimal128(38, 0)).slice(1)

    totals = exact_totals(column, codes, 4, weights)

    assert totals.tolist() == [sum(w * v for c, w, v in rows if c == code) for code in range(4)]


@given(st.lists(st.none() | _DECIMALS))
def test_exact_numbers_are_read_as_they_were_written(values: list[int | None]) -> None:
    """A column of decimals is read back equal, NULL as 0."""
    is_null = np.array([value is None for value in values], np.bool_)
    numbers = exact.narrow(np.array([value or 0 for value in values], object))

    column = exact.to_arrow(numbers, pa.decimal128(38, 0), is_null)

    assert column.to_pylist() == [None if v is None else Decimal(v) for v in values]
    assert exact.from_arrow(column).tolist() == [value or 0 for value in values]


@given(st.lists(st.tuples(_DECIMALS, st.integers(1, 10**6)), min_size=1))
def test_quotients_are_rounded_half_up(pairs: list[tuple[int, int]]) -> None:
    """To the nearest, halves away from 0, as Spark rounds decimals."""
    numerators, denominators = (np.array(column, object) for column in zip(*pairs, strict=True))

    quotients = exact.divide_half_up(numerators, denominators)

    context = Context(prec=100)
    assert quotients.tolist() == [
        int(context.divide(Decimal(n), Decimal(d)).quantize(Decimal(1), ROUND_HALF_UP, context))
        for n, d in pairs
    ]


@given(grouped_values(_MODERATE))
def test_totals_of_floats_have_106_bits(rows: list[tuple[int, int, float]]) -> None:
    """The error is below 2^-98 of the sum of magnitudes, which a double's 53 bits never reach."""
    values = np.array([w * v for _, w, v in rows], np.float64)
    codes = np.array([code for code, _, _ in rows], np.int64)

    high, low = doubledouble.totals((values, np.zeros(len(rows))), codes, 4)

    for code in range(4):
        own = [Fraction(float(value)) for value in values[codes == code]]
        error = abs(Fraction(float(high[code])) + Fraction(float(low[code])) - sum(own))
        assert error <= sum(map(abs, own)) * Fraction(2) ** -98


@given(_MODERATE, _MODERATE)
def test_products_are_exact(left: float, right: float) -> None:
    """High and low together are the product."""
    high, low = doubledouble.product(np.array([left]), np.array([right]))

    assert Fraction(high[0]) + Fraction(low[0]) == Fraction(left) * Fraction(right)


@given(_MODERATE, _MODERATE, _MODERATE, _MODERATE)
def test_sums_and_products_of_pairs(a: float, b: float, c: float, d: float) -> None:
    """They are right to 2^-98 of the magnitudes."""
    left, right = (doubledouble.add(_pair(x), _pair(y * 1e-17)) for x, y in ((a, b), (c, d)))
    first, second = _exact(left), _exact(right)
    room = Fraction(2) ** -98

    total, difference = doubledouble.add(left, right), doubledouble.subtract(left, right)
    product = doubledouble.multiply(left, right)

    assert abs(_exact(total) - first - second) <= (abs(first) + abs(second)) * room
    assert abs(_exact(difference) - first + second) <= (abs(first) + abs(second)) * room
    assert abs(_exact(product) - first * second) <= abs(first * second) * room


def test_a_sum_too_large_for_a_double_is_infinite() -> None:
    """As in Spark; its low part is not NaN."""
    values = np.array([1.7e308, 1.7e308])

    high, low = doubledouble.totals((values, np.zeros(2)), np.zeros(2, np.int64), 1)

    assert (high[0], low[0]) == (math.inf, 0.0)


@given(st.lists(st.floats(allow_nan=False)), st.randoms())
def test_equal_values_are_summed_in_one_order(values: list[float], source: Any) -> None:
    """Whatever the order they come in, they are sorted in the same order within their group."""
    codes = np.zeros(len(values), np.int64)
    shuffled = source.sample(values, len(values))

    expected, actual = (
        sort_within_groups(np.array(rows, np.float64), codes) for rows in (values, shuffled)
    )

    assert actual.tobytes() == expected.tobytes()


@given(st.data(), key_types(), st.booleans())
def test_extremes_of_every_type(data: st.DataObject, kind: t.DataType, is_greatest: bool) -> None:
    """The best value of each group is the one that sorts first, as Spark sorts."""
    row = st.tuples(st.integers(0, 2), values_of(kind, nullable=False))
    rows = sorted(data.draw(st.lists(row, max_size=12)), key=lambda entry: entry[0])
    extreme = Extreme(ValueSource("v", None, False), "o", kind, is_greatest, True)
    column = array_of(kind, [value for _, value in rows])
    before = {extreme.fields[0].name: pa.nulls(3, column.type)}

    (best,) = extreme.changed(deltas(column, [code for code, _ in rows], 3))
    (extremes,) = extreme.advance(before, {extreme.fields[0].name: best})

    choose = max if is_greatest else min
    for code in range(3):
        keys = [key_of(kind, value) for c, value in rows if c == code]
        assert extremes[code].is_valid == bool(keys)
        if keys:
            assert (
                extreme.encode(extremes.slice(code, 1))[0]
                == (extreme.encode(column)[_place(rows, code, choose, kind)])
            )


def _place(rows: list[tuple[int, Any]], code: int, choose: Any, kind: t.DataType) -> int:
    positions = [position for position, (c, _) in enumerate(rows) if c == code]
    best: int = choose(positions, key=lambda position: key_of(kind, rows[position][1]))
    return best


def _pair(value: float) -> doubledouble.Pair:
    return np.array([value]), np.array([0.0])


def _exact(pair: doubledouble.Pair) -> Fraction:
    return Fraction(float(pair[0][0])) + Fraction(float(pair[1][0]))
