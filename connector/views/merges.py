"""The merges of files that the refreshes of a stream leave to a thread of their own.

A change would otherwise wait for the merges that are due after the refresh before it.

Promises: as many merges as commits, and none after `close`. Files do not pile up: a commit whose
merges would be one too many to be left waits.
Does not know: which merges are due; the store does.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection
from threading import Condition, Thread

from relstate.storage import Store

# Of so many commits the merges may be left. Each of them may leave a file in every table.
_MOST_LEFT = 8

_logger = logging.getLogger(__name__)


class Merges:
    """The merges that are left to do after commits. For one thread; its own thread does them."""

    def __init__(self, store: Store, name: str) -> None:
        """``name``: of the thread, which starts with the first merges."""
        self._store = store
        self._left: deque[frozenset[int]] = deque()
        self._changed = Condition()
        self._is_closed = False
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def add(self, table_ids: Collection[int]) -> None:
        """Let files of some tables be merged where that is due, as after every commit.

        It waits while the merges of eight other commits are left.
        """
        if not table_ids:
            return
        with self._changed:
            self._changed.wait_for(lambda: len(self._left) < _MOST_LEFT)
            self._left.append(frozenset(table_ids))
            self._changed.notify_all()
        if self._thread.ident is None:
            self._thread.start()

    def close(self) -> None:
        """Wait until nothing is left to do."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while (table_ids := self._next()) is not None:
            try:
                self._store.jobs.auto_compact(table_ids)
            except Exception as error:  # the next commit makes the same merges due
                _logger.warning("no files were merged: %s", error)
            with self._changed:
                self._left.popleft()
                self._changed.notify_all()

    def _next(self) -> frozenset[int] | None:
        """Return the tables of the oldest commit whose merges are left; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._left or self._is_closed)
            return self._left[0] if self._left else None
