"""The tables that a query of a view may read, as the planner sees them.

Does not know: where their rows are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from relstate.storage import StoreState, errors, types


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the store, or a view.

    ``columns``: those that a query can name. ``hidden``: those of its key that it cannot.
    """

    table_id: int
    name: str
    columns: tuple[types.Field, ...]
    primary_key: tuple[str, ...]
    is_append_only: bool = False
    hidden: tuple[types.Field, ...] = ()


class Tables(Protocol):
    """Where tables are found."""

    def find(self, name: str) -> Table | None:
        """Return the table of this name, whatever its case; None if there is none."""


class StoreTables:
    """The tables and views of a store, as of one epoch."""

    def __init__(self, state: StoreState) -> None:
        self._state = state

    def find(self, name: str) -> Table | None:
        """Return the table of this name, whatever its case; None if there is none."""
        table_id = self._state.table_ids.get(name.lower())
        if table_id is None:
            return None
        definition = self._state.tables[table_id].definition
        columns = definition.schema.columns
        return Table(
            definition.table_id,
            definition.name,
            tuple(column.field for column in columns if not column.hidden),
            tuple(column.name for column in definition.schema.key_columns),
            definition.properties.append_only,
            tuple(column.field for column in columns if column.hidden),
        )


def not_found(name: str) -> errors.TableNotFoundError:
    """Return the error for a name that is no table's."""
    return errors.TableNotFoundError(
        f"there is no table {name!r} in the store; a view reads tables and views of its own store "
        "only"
    )
