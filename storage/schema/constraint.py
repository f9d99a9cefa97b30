"""A constraint of a table, as the definition of the table holds it: a CHECK or an expectation.

Does not know: how a condition is evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

OnViolation: TypeAlias = Literal["refuse", "count", "drop", "fail"]
"""What becomes of a row that violates a constraint, and of its write.

``refuse``: of a CHECK, the write is refused. The others are of an expectation: the row is written
and counted, or dropped and counted, or the write fails.
"""
ON_VIOLATION: tuple[OnViolation, ...] = get_args(OnViolation)
_CLAUSES = {"drop": " ON VIOLATION DROP ROW", "fail": " ON VIOLATION FAIL UPDATE"}


@dataclass(frozen=True, slots=True)
class CheckConstraint:
    """A condition that no row of a table may make false, or is expected not to; it may be unknown.

    ``expression``: SQL, as it was written. ``condition``: the same, bound to the table's columns,
    as `Predicate.json`. ``columns``: the ids of the columns that it reads.
    """

    name: str
    expression: str
    condition: str
    columns: tuple[int, ...]
    on_violation: OnViolation = "refuse"

    @property
    def is_expectation(self) -> bool:
        """Whether it is about rows that are written, and not about those that are stored."""
        return self.on_violation != "refuse"

    @property
    def refuses(self) -> bool:
        """Whether a row that violates it cannot be written, nor left out."""
        return self.on_violation in ("refuse", "fail")

    @property
    def clause(self) -> str:
        """The constraint in SQL, without its name."""
        if not self.is_expectation:
            return f"CHECK ({self.expression})"
        return f"EXPECT ({self.expression}){_CLAUSES.get(self.on_violation, '')}"

    def to_json(self) -> dict[str, Any]:
        """Return the constraint as JSON values. On disk: never change a name."""
        action = {"on_violation": self.on_violation} if self.is_expectation else {}
        return {
            "name": self.name,
            "expression": self.expression,
            "condition": self.condition,
            "columns": list(self.columns),
        } | action

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> CheckConstraint:
        """Return the constraint from the result of `to_json`."""
        return cls(
            value["name"],
            value["expression"],
            value["condition"],
            tuple(value["columns"]),
            value.get("on_violation", "refuse"),
        )
