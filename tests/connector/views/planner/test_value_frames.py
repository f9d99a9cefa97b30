"""The bounds of RANGE frames with an offset, as texts that Spark computes."""

from __future__ import annotations

import pytest

from relstate.connector.syntax.tree import parse_expression
from relstate.connector.views.plan.node import Order
from relstate.connector.views.planner.value_frames import OffsetTree, bound_text
from relstate.storage import types

ASCENDING, DESCENDING = Order("x"), Order("x", True)


def bound(
    data_type: types.DataType,
    offset: str,
    order: Order = ASCENDING,
    *,
    is_ansi: bool = True,
    time_zone: str = "Europe/Vienna",
) -> str | None:
    """Return the text of ``offset PRECEDING``."""
    end = OffsetTree(parse_expression(offset), is_preceding=True)
    return bound_text(order, data_type, end, is_ansi, time_zone)


@pytest.mark.parametrize(
    ("data_type", "offset", "text"),
    [
        (
            types.TinyInt(),
            "3",
            """IF(x IS NULL, NULL, COALESCE(TRY_SUBTRACT(x, CAST(3 AS TINYINT)),
            -CAST(127 AS TINYINT) - CAST(1 AS TINYINT)))""",
        ),
        (
            types.Decimal(4, 2),
            "0.5",
            """IF(x IS NULL, NULL, COALESCE(TRY_CAST(x - CAST(0.5 AS DECIMAL(4,2)) AS
            DECIMAL(4,2)), CAST('-99.99' AS DECIMAL(4,2))))""",
        ),
        (types.Double(), "1", "x - CAST(1 AS DOUBLE)"),
        (types.Date(), "2", "DATE_SUB(x, 2)"),
        (types.Date(), "INTERVAL 1 MONTH", "x - INTERVAL '1' MONTH"),
        (types.Timestamp(), "INTERVAL 90 MINUTES", "x - INTERVAL '90' MINUTES"),
        (types.TimestampNtz(), "INTERVAL 2 DAYS", "x - INTERVAL '2' DAYS"),
    ],
)
def test_the_bound_is_the_value_and_the_offset(
    data_type: types.DataType, offset: str, text: str
) -> None:
    """Of the type of the order, and at most the extremes of its type."""
    assert bound(data_type, offset) == " ".join(text.split())


def test_a_descending_order_turns_the_offset_around() -> None:
    """What precedes is greater."""
    text = bound(types.Int(), "3", DESCENDING)

    assert text is not None
    assert "TRY_ADD" in text
    assert "2147483647" in text


@pytest.mark.parametrize(
    ("data_type", "offset"),
    [
        (types.Int(), "1.5"),
        (types.TinyInt(), "128"),
        (types.Decimal(38, 2), "1"),
        (types.Date(), "INTERVAL 1 HOUR"),
        (types.Timestamp(), "INTERVAL 1 DAY"),
        (types.Timestamp(), "INTERVAL 25 HOURS"),
        (types.TimestampNtz(), "INTERVAL 1 MONTH"),
        (types.TimestampNtz(), "INTERVAL '1 02' DAY TO HOUR"),
        (types.String(), "1"),
    ],
)
def test_other_offsets_are_recomputed(data_type: types.DataType, offset: str) -> None:
    """A bound may decrease, lose digits, or have another type."""
    assert bound(data_type, offset) is None


def test_days_are_maintained_where_all_have_as_many_hours() -> None:
    """In a time zone without daylight saving time."""
    assert bound(types.Timestamp(), "INTERVAL 1 DAY", time_zone="UTC") is not None
    assert bound(types.Timestamp(), "INTERVAL 1 DAY", time_zone="+02:00") is not None


def test_whole_numbers_that_wrap_are_recomputed() -> None:
    """Spark's bound wraps without ANSI."""
    assert bound(types.Int(), "1", is_ansi=False) is None
