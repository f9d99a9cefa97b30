"""A CHECK constraint of a table, as the definition of the table holds it.

Does not know: how a condition is evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CheckConstraint:
    """A condition that no row of a table may make false; it may be unknown.

    ``expression``: SQL, as it was written. ``condition``: the same, bound to the table's columns,
    as `Predicate.json`. ``columns``: the ids of the columns that it reads.
    """

    name: str
    expression: str
    condition: str
    columns: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the constraint as JSON values. On disk: never change a name."""
        return {
            "name": self.name,
            "expression": self.expression,
            "condition": self.condition,
            "columns": list(self.columns),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> CheckConstraint:
        """Return the constraint from the result of `to_json`."""
        return cls(value["name"], value["expression"], value["condition"], tuple(value["columns"]))
