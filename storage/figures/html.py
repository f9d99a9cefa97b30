"""The tables of a store as notebooks show them.

Does not know: notebooks.
"""

from __future__ import annotations

from ..log.state import StoreState
from ..notebook import html_table
from .sizes import table_sizes

_HEADINGS = ("name", "kind", "rows (estimated)", "stored bytes", "files", "last change")


def tables_html(path: str, state: StoreState) -> str:
    """Return the tables and views of an epoch with their sizes, as HTML."""
    rows = [
        (size.name, size.kind, size.rows, size.stored_bytes, size.files, size.data_epoch)
        for size in table_sizes(state)
        if not size.is_internal
    ]
    return html_table(f"{path}, epoch {state.epoch}", _HEADINGS, rows)
