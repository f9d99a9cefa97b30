"""How many rows of a commit violated an expectation of their table.

Does not know: how an expectation is evaluated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..schema.constraint import OnViolation


@dataclass(frozen=True, slots=True)
class Violations:
    """The rows of one commit that violated one expectation; ``on_violation``: what became of them.

    ``expectation``: its name, as the table had it then.
    """

    table_id: int
    expectation: str
    on_violation: OnViolation
    rows: int

    def to_json(self) -> dict[str, Any]:
        """Return the violations as JSON values. On disk: never change a name."""
        return {
            "table_id": self.table_id,
            "expectation": self.expectation,
            "on_violation": self.on_violation,
            "rows": self.rows,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Violations:
        """Return the violations from the result of `to_json`."""
        return cls(value["table_id"], value["expectation"], value["on_violation"], value["rows"])


def added_up(violations: Iterable[Violations]) -> tuple[Violations, ...]:
    """Return the violations of several writers with one item for each expectation, in order."""
    rows: Counter[tuple[int, str, OnViolation]] = Counter()
    for item in violations:
        rows[item.table_id, item.expectation, item.on_violation] += item.rows
    return tuple(Violations(*key, rows[key]) for key in sorted(rows))
