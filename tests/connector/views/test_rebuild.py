"""The comparison of a view's state with what its inputs make: which rows differ."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pyarrow as pa
import pytest

from relstate.connector.views.rebuild import differing_rows

_LISTS = pa.list_(pa.float64())
_MAPS = pa.map_(pa.string(), pa.float64())
_STRUCTS = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.struct([("c", _MAPS)])))])
_NEARLY = 1.0 + 1e-15


@pytest.mark.parametrize(
    ("data_type", "values"),
    [
        (pa.float64(), [nan, inf, -inf, 0.0, None]),
        (_LISTS, [[nan, None, inf], [], None, [1.0]]),
        (_MAPS, [[("a", nan)], [], None, [("a", None), ("b", 1.0)]]),
        (_STRUCTS, [{"a": 1, "b": [{"c": [("x", nan)]}, None]}, {"a": None, "b": None}, None]),
        (pa.month_day_nano_interval(), [pa.MonthDayNano([1, 2, 3]), None]),
        (pa.null(), [None, None]),
    ],
    ids=str,
)
def test_equal_rows_do_not_differ(data_type: pa.DataType, values: list[Any]) -> None:
    """NaN equals NaN and NULL equals NULL, at any depth."""
    # A slice has an offset in its buffers.
    table = pa.table({"v": pa.array([*values, *values], data_type)})

    halves = table.slice(0, len(values)), table.slice(len(values))
    assert differing_rows(*halves).tolist() == []


@pytest.mark.parametrize(
    ("data_type", "left", "right"),
    [
        (pa.int64(), 1, 2),
        (pa.string(), "", None),
        (pa.float64(), nan, None),
        (pa.float64(), 1.0, 1.1),
        (_LISTS, [1.0, 2.0], [1.0]),
        (_LISTS, [], None),
        (_LISTS, [None], [0.0]),
        (_LISTS, [1.0, 2.0], [2.0, 1.0]),
        (_MAPS, [("a", 1.0)], [("b", 1.0)]),
        (_MAPS, [("a", 1.0)], [("a", 2.0)]),
        (_STRUCTS, {"a": 1, "b": []}, {"a": 1, "b": [None]}),
        (_STRUCTS, {"a": 1, "b": [{"c": [("x", 1.0)]}]}, {"a": 1, "b": [{"c": [("x", 2.0)]}]}),
        (pa.month_day_nano_interval(), pa.MonthDayNano([1, 2, 3]), pa.MonthDayNano([1, 2, 4])),
    ],
    ids=str,
)
def test_rows_differ_by_any_value(data_type: pa.DataType, left: Any, right: Any) -> None:
    """The rows with a difference are returned, and no others."""
    columns = (pa.array([left, value, None, left], data_type) for value in (left, right))
    first, second = (pa.table({"k": [0, 1, 2, 3], "v": column}) for column in columns)

    assert differing_rows(first, second).tolist() == [1]


@pytest.mark.parametrize(
    ("data_type", "left", "right"),
    [
        (pa.float64(), 1.0, _NEARLY),
        (_LISTS, [1.0], [_NEARLY]),
        (_MAPS, [("a", 1.0)], [("a", _NEARLY)]),
    ],
    ids=str,
)
def test_floats_may_differ_in_their_last_bits(
    data_type: pa.DataType, left: Any, right: Any
) -> None:
    """A sum that was maintained has other last bits than one that is computed at once."""
    first, second = (pa.table({"v": pa.array([value], data_type)}) for value in (left, right))

    assert differing_rows(first, second).tolist() == []
