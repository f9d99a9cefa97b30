"""The tables that users may change by name: those that belong to no view.

Does not know: what is done to them.
"""

from __future__ import annotations

from .errors import InternalTableError
from .log.internal_tables import check_not_internal
from .log.state import StoreState
from .log.table_definition import TableDefinition


def user_table(state: StoreState, name: str, action: str) -> TableDefinition:
    """Return the definition of a table that belongs to no view.

    ``action``: what it would be, for the message. TableNotFoundError, InternalTableError.
    """
    definition = state.table(name).definition
    check_not_internal(state, definition.table_id, action)
    return definition


def described_table(state: StoreState, name: str) -> TableDefinition:
    """Return the definition of a table or view. InternalTableError for a state table."""
    definition = state.table(name).definition
    if definition.table_id not in state.views:
        check_not_internal(state, definition.table_id, "described by users")
    return definition


def indexable_table(state: StoreState, name: str) -> TableDefinition:
    """Return the definition of a table that may have indexes; errors as of `user_table`."""
    table_id = state.table(name).definition.table_id
    if table_id in state.views:
        raise InternalTableError(
            f"{name!r} is a view, and only tables have indexes: give the view an ORDER BY that "
            "begins with the columns to look up, or write its rows to a table and index that"
        )
    return user_table(state, name, "indexed")


def replaced_tables(state: StoreState, name: str) -> tuple[int, ...]:
    """Return the ids of a table and what belongs to it, to be dropped; none if there is no table.

    InternalTableError for a view.
    """
    if name.lower() not in state.table_ids:
        return ()
    return with_belongings(state, user_table(state, name, "replaced by a table"))


def with_belongings(state: StoreState, definition: TableDefinition) -> tuple[int, ...]:
    """Return the ids of a table, its indexes, its quarantine and the indexes of that."""
    quarantine = state.quarantine_of(definition.table_id)
    definitions = (definition,) if quarantine is None else (definition, quarantine)
    return tuple(
        table_id
        for table in definitions
        for table_id in (table.table_id, *(index.table_id for index in table.indexes))
    )
