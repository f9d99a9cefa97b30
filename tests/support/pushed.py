"""Tables of which tasks add up rows, and what tests ask of the queries over them."""

from __future__ import annotations

import datetime
import math
import random
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from relstate.connector.sql import Database

COLUMNS = (
    "k BIGINT, r INT, g INT, t STRING, ti TINYINT, l BIGINT, f FLOAT, d DOUBLE, n DECIMAL(12,2), "
    "w DECIMAL(24,4), dt DATE, ts TIMESTAMP, z TIMESTAMP_NTZ, b BINARY, bo BOOLEAN, x DOUBLE"
)
MOMENTS = [datetime.datetime(1970, 1, 1), datetime.datetime(2026, 2, 28, 23, 59, 59, 999_999)]
# Sums of these floats are exact in any order; x has what breaks sums.
POOLS: dict[str, list[Any]] = {
    "r": list(range(6)),
    "g": [1, 2, 3],
    "t": ["", "a", "A", "b ", "é", "😀"],
    "ti": [-128, 0, 1, 127],
    "l": [-(2**40), -1, 0, 3, 2**40],
    "f": [0.25, -1.5, 1024.0],
    "d": [0.25, -1.5, 0.0, 4096.0],
    "n": [Decimal("-9999999999.99"), Decimal("0.01"), Decimal("0.00"), Decimal("12.35")],
    "w": [Decimal("-0.0001"), Decimal("99999999999999999999.9999"), Decimal("7")],
    "dt": [moment.date() for moment in MOMENTS],
    "ts": MOMENTS,
    "z": MOMENTS,
    "b": [b"", b"\x00", b"\xff", b"a"],
    "bo": [True, False],
    "x": [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0],
}
TABLES = ("plain", "merged", "documents", "keyless")
CONDITIONS = [
    "r < 3", "t LIKE 'a%'", "g IN (1, 3) OR t IS NULL", "NOT (d > 0)", "ts >= '2000-01-01'",
    "k BETWEEN 20 AND 200", "n > 0 AND bo", "l <=> NULL", "x = CAST('NaN' AS DOUBLE)", "r = 77",
]  # fmt: skip


def random_row(chance: random.Random, key: int) -> tuple[Any, ...]:
    """Return a row of few values, some NULL."""
    values = (None if chance.random() < 0.15 else chance.choice(pool) for pool in POOLS.values())
    return (key, *values)


def answer(rows: Any) -> list[str]:
    """Return the rows of a DataFrame in a fixed order; zeros have no sign."""
    return sorted(
        str([value + 0.0 if isinstance(value, float) else value for value in row])
        for row in rows.collect()
    )


def assert_near(rows: list[Any], expected: list[Any]) -> None:
    """Assert that rows are equal, but for the last digits of floats."""
    assert len(rows) == len(expected)
    for row, other in zip(rows, expected, strict=True):
        for value, expected_value in zip(row, other, strict=True):
            is_number = isinstance(value, float) and isinstance(expected_value, float)
            if is_number and not (math.isnan(value) and math.isnan(expected_value)):
                assert value == pytest.approx(expected_value, rel=1e-9, abs=1e-12)
            else:
                assert str(value) == str(expected_value)


def pushed_texts(db: Database, query: str) -> list[str | None]:
    """Return what EXPLAIN says that tasks add up, for each reference."""
    return [row.pushed for row in db.sql(f"EXPLAIN {query}").collect()[:-1]]
