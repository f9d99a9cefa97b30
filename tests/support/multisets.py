"""Rows compared as multisets, floats within a fraction of the greatest magnitude among them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

TOLERANCE = 1e-9

Row = tuple[Any, ...]


def rows_of_table(table: pa.Table) -> list[Row]:
    """Return the rows of a table, whatever its columns are called."""
    columns = [column.to_pylist() for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def difference(rows: Iterable[Row], expected: Iterable[Row]) -> tuple[list[Row], list[Row]]:
    """Return the rows that are too many, and those that are missing."""
    rows, expected = list(rows), list(expected)
    tolerance = TOLERANCE * max([1.0, *map(_magnitude, rows), *map(_magnitude, expected)])
    unmatched: dict[Row, list[Row]] = defaultdict(list)
    for row in expected:
        unmatched[_exact(row)].append(row)
    surplus = [row for row in rows if not _remove_match(row, unmatched[_exact(row)], tolerance)]
    return surplus, [row for candidates in unmatched.values() for row in candidates]


def _remove_match(row: Row, candidates: list[Row], tolerance: float) -> bool:
    """Remove the candidate that equals a row, floats nearly; return whether there is one."""
    for index, candidate in enumerate(candidates):
        if all(_close(*pair, tolerance) for pair in zip(row, candidate, strict=True)):
            del candidates[index]
            return True
    return False


def _close(left: Any, right: Any, tolerance: float) -> bool:
    if not isinstance(left, float) or not isinstance(right, float):
        return type(left) is type(right) and bool(left == right)
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) and math.isnan(right)
    return left == right or abs(left - right) <= tolerance


def _exact(row: Row) -> Row:
    return tuple("a float" if isinstance(value, float) else _hashable(value) for value in row)


def _hashable(value: Any) -> Any:
    return repr(value) if isinstance(value, list | dict) else value


def _magnitude(row: Row) -> float:
    return max(
        (abs(value) for value in row if isinstance(value, float) and math.isfinite(value)),
        default=0.0,
    )
