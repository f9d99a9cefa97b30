"""The result of a statement that is not a query: a few rows.

Does not know: statements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Result:
    """Rows, and their schema in Spark's DDL."""

    rows: list[tuple[Any, ...]]
    schema: str


def epoch_result(epoch: int) -> Result:
    """Return the result of a statement that makes an epoch."""
    return Result([(epoch,)], "epoch BIGINT NOT NULL")
