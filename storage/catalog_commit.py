"""Commits that change the catalog: what those of tables and those of views share.

Promises: a change is one epoch; if others were faster, it is tried again on what they left.
Does not know: which changes there are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .epochs import Epochs
from .errors import ConflictError, DependentViewsError, TableNotFoundError
from .log.proposal import NewTable, Proposal
from .log.rules import check_droppable, dependants
from .log.state import StoreState
from .log.table_definition import TableDefinition
from .log.transaction import CommitResult
from .table.encoding import encoding_of
from .view_failures import forget_failures

# A conflict means that another writer changed the same table or view.
ATTEMPTS = 100


def propose(epochs: Epochs, operation: str, **parts: Any) -> CommitResult:
    """Commit a proposal with some parts, as started now."""
    return epochs.commit(Proposal(operation=operation, started=epochs.environment.now(), **parts))


def drop(
    epochs: Epochs,
    operation: str,
    ids_in: Callable[[StoreState], tuple[int, ...]],
    *,
    if_exists: bool,
    cascade: bool,
) -> None:
    """Drop the tables whose ids ``ids_in`` returns, whatever others create or drop meanwhile.

    ``cascade``: drop the views that read them too; else DependentViewsError. What is kept of the
    failures of dropped views is removed. TableNotFoundError of ``ids_in``, unless ``if_exists``.
    """
    for _ in range(ATTEMPTS):
        state = epochs.state
        try:
            table_ids = ids_in(state)
        except TableNotFoundError:
            if if_exists:
                return
            raise
        dropped = dependants(state, table_ids) if cascade else table_ids
        check_droppable(state, dropped)
        try:
            propose(epochs, operation, dropped_tables=dropped)
        except (TableNotFoundError, DependentViewsError, ConflictError):
            continue
        for view_id in state.views.keys() & set(dropped):
            forget_failures(epochs.environment, view_id)
        return
    raise contested_error(", ".join(map(state.name_of, table_ids)))


def check_storable(table: NewTable) -> None:
    """Raise what would make the table unusable once it is created."""
    table.properties.check([key.column_id for key in table.schema.primary_key])
    definition = TableDefinition(0, table.name, table.schema, 0, table.properties)
    encoding_of(definition, vnode_count=1)


def contested_error(name: str) -> ConflictError:
    """Return the error for a table or view that others altered at every attempt."""
    return ConflictError(
        f"{name!r} was altered by other writers {ATTEMPTS} times meanwhile; nothing was committed: "
        "try again"
    )
