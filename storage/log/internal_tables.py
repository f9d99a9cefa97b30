"""The tables that belong to a view or an index, which no one else changes.

Does not know: what is refused.
"""

from __future__ import annotations

from ..errors import InternalTableError
from .state import StoreState


def check_not_internal(state: StoreState, table_id: int, action: str) -> None:
    """Raise InternalTableError if a table belongs to a view or an index.

    ``action``: what is refused, as a participle: "written".
    """
    indexed = state.indexed_table(table_id)
    if indexed is not None:
        raise InternalTableError(
            f"{state.name_of(table_id)!r} cannot be {action}: it holds an index of table "
            f"{indexed.name!r}, and only writes of that table change it; write the table, or drop "
            "the index (DROP INDEX)"
        )
    owner = state.owner_of(table_id)
    if owner is not None:
        raise InternalTableError(
            f"{state.name_of(table_id)!r} cannot be {action}: it belongs to the view "
            f"{state.name_of(owner.view_id)!r}, and only the refresh of the view writes it; change "
            "the tables that the view reads, or drop the view (DROP MATERIALIZED VIEW)"
        )
