"""Rows compared as multisets, floats within a share of the greatest magnitude among them."""

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


def difference(found: Iterable[Row], expected: Iterable[Row]) -> tuple[list[Row], list[Row]]:
    """Return the rows that are too many, and those that are missing."""
    found, expected = list(found), list(expected)
    tolerance = TOLERANCE * max([1.0, *map(_magnitude, found), *map(_magnitude, expected)])
    wanted: dict[Row, list[Row]] = defaultdict(list)
    for row in expected:
        wanted[_exact(row)].append(row)
    surplus = [row for row in found if not _taken(row, wanted[_exact(row)], tolerance)]
    return surplus, [row for rows in wanted.values() for row in rows]


def _taken(row: Row, candidates: list[Row], tolerance: float) -> bool:
    """Take a row out of candidates that are the same but for their floats; return if there is."""
    for place, other in enumerate(candidates):
        if all(_close(*pair, tolerance) for pair in zip(row, other, strict=True)):
            del candidates[place]
            return True
    return False


def _close(one: Any, other: Any, tolerance: float) -> bool:
    if not isinstance(one, float) or not isinstance(other, float):
        return type(one) is type(other) and bool(one == other)
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return one == other or abs(one - other) <= tolerance


def _exact(row: Row) -> Row:
    return tuple("a float" if isinstance(one, float) else _hashable(one) for one in row)


def _hashable(value: Any) -> Any:
    return repr(value) if isinstance(value, list | dict) else value


def _magnitude(row: Row) -> float:
    return max((abs(v) for v in row if isinstance(v, float) and math.isfinite(v)), default=0.0)
