"""The order of values in a window or a first n, as Spark has it."""

from __future__ import annotations

from typing import Any

from relstate.connector.views.plan.node import Order


def compared_values(order: Order, left: Any, right: Any) -> int:
    """Return the order of two values: -1, 0 or 1."""
    first, second = sortable(left), sortable(right)
    if (first is None) != (second is None):
        return -1 if (first is None) == order.nulls_first else 1
    if first is not None and first != second:
        return -1 if (first < second) != order.descending else 1
    return 0


def sortable(value: Any) -> Any:
    """Return a value that Python sorts as Spark does: NaN is the greatest number."""
    if isinstance(value, float):
        return (1, 0.0) if value != value else (0, value)
    return value
