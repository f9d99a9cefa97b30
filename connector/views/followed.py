"""The views that a stream refreshes, while others drop, rename and create views.

Promises: a view that is renamed stays; one that is dropped is left out, and taken in again if a
view of its name is created.
Does not know: refreshes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from threading import Lock

from relstate.storage import StoreState

from .lineage import view_ids

_logger = logging.getLogger(__name__)


class FollowedViews:
    """Some views of a store, or all that exist at any time. Safe between threads."""

    def __init__(self, names: Iterable[str] | None) -> None:
        """``names``: which views; None for all."""
        self._names = None if names is None else dict.fromkeys(names)
        self._ids: dict[str, int] = {}
        self._lock = Lock()

    def names(self, state: StoreState) -> tuple[str, ...] | None:
        """Return the names by which the views are known now; None for all.

        ViewNotFoundError if none is left, for the first of them.
        """
        if self._names is None:
            return None
        with self._lock:
            ids = [self._id(state, name) for name in self._names]
        names = [state.tables[i].definition.name for i in dict.fromkeys(ids) if i is not None]
        if not names:
            view_ids(state, self._names)
        return tuple(names)

    def ids(self, state: StoreState) -> tuple[int, ...]:
        """Return the ids of the views, and of their replacements. Errors as of `names`."""
        return view_ids(state, self.names(state))

    def _id(self, state: StoreState, name: str) -> int | None:
        """Return the id of the view that had a name, or else has it; None if there is none."""
        known = self._ids.get(name)
        for view_id in (known, state.table_ids.get(name.lower())):
            if view_id is not None and view_id in state.views:
                self._ids[name] = view_id
                return view_id
        if known is not None:
            del self._ids[name]
            _logger.warning("the view %s was dropped: a stream goes on without it", name)
        return None
