"""The definition of a secondary index, as the definition of its table holds it.

Does not know: the table's columns, or how the entries of the index are stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class IndexDefinition:
    """A secondary index of a table.

    ``table_id``: the id of the internal table with its entries. ``columns``: the ids of the indexed
    columns of the table, in order; the internal table knows how they sort. ``included``: the ids of
    the columns whose values the entries hold too. ``unique``: no two rows of the table have equal
    values in the indexed columns, unless one of the values is NULL.
    """

    name: str
    table_id: int
    columns: tuple[int, ...]
    included: tuple[int, ...] = ()
    unique: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the definition as JSON values. On disk: never change a name."""
        return {
            "name": self.name,
            "table_id": self.table_id,
            "columns": list(self.columns),
            "included": list(self.included),
            "unique": self.unique,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> IndexDefinition:
        """Return the definition from the result of `to_json`."""
        return cls(
            value["name"],
            value["table_id"],
            tuple(value["columns"]),
            tuple(value["included"]),
            value["unique"],
        )
