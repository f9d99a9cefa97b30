"""What is wrong with the files of a store, as far as names and sizes say.

Does not know: what is in the files: `relstate check` reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from relstate.connector.quantities import count
from relstate.storage import Store, StoreState, errors, figures

_NAMED = 3


def damage_problem(
    store: Store, state: StoreState, table_ids: Iterable[int] | None = None
) -> str | None:
    """Return a sentence on the files of some tables, or of all, that are damaged; None if none is.

    It is the error where they cannot be looked at.
    """
    try:
        damaged = figures.damaged_files(store.environment, state, table_ids)
    except errors.RelstateError as error:
        return str(error)
    parts = [_files(damaged.missing, "missing"), _files(damaged.cut, "cut or too long")]
    text = "; ".join(filter(None, parts))
    return f"{text}: rows are lost; run relstate check {store.path}" if text else None


def _files(names: Sequence[str], state: str) -> str:
    if not names:
        return ""
    verb = "file is" if len(names) == 1 else "files are"
    listed = ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
    return f"{count(len(names))} {verb} {state} ({listed})"
