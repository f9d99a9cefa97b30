"""How the value of a column is computed, as the schema of its table holds it.

Promises: `from_json(to_json())` is equal.
Does not know: how an expression is read or evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class GeneratedColumn:
    """GENERATED ALWAYS AS: the value of the column in every row.

    ``expression``: SQL, as it was written. ``value``: the same, bound to the table's columns, as
    the text of a JSON value of `expression_json`. ``columns``: the ids of the columns it reads.
    """

    expression: str
    value: str
    columns: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the expression as JSON values. On disk: never change a name."""
        return {
            "expression": self.expression,
            "value": self.value,
            "columns": list(self.columns),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> GeneratedColumn:
        """Return the expression from the result of `to_json`."""
        return cls(value["expression"], value["value"], tuple(value["columns"]))
