"""What hears of a stream of views: commits to the store, refreshes, the end.

Does not know: how a stream works.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from itertools import takewhile
from typing import Any, Protocol, runtime_checkable

from relstate.connector.commits import Commit, commits
from relstate.storage import Store, errors

_logger = logging.getLogger(__name__)


@runtime_checkable
class ViewStreamListener(Protocol):
    """Receives what a stream of views reads and does, as Spark's StreamingQueryListener does.

    A subclass defines the methods that it needs. They are called in the thread of the stream, one
    at a time, and delay it while they run. An error in one of them is logged; it does not end the
    stream, but what is no Exception does, as of sys.exit(). Nothing is called after
    `ViewStream.stop` has returned, unless a listener called that.
    """

    def on_commit(self, commit: Commit) -> None:
        """A commit to the store, by whatever process, since the stream was started.

        In the order of epochs, each once, refreshes and maintenance too.
        """

    def on_refresh(self, progress: Mapping[str, Any]) -> None:
        """A refresh that moved a view; ``progress`` is `ViewStream.lastProgress`."""

    def on_failure(self, view: str, error: Exception) -> None:
        """A view could not be refreshed; the stream goes on with the others.

        Called once for each error, not for each time that the view is tried again.
        """

    def on_end(self, error: BaseException | None) -> None:
        """The stream has ended; ``error`` is what ended it, None if it was stopped or is done."""


def check_listener(listener: object) -> None:
    """OptionError unless an object is a listener, or None."""
    if isinstance(listener, type):
        raise errors.OptionError(f"listener is the class {listener.__name__}; give an object of it")
    if listener is not None and not isinstance(listener, ViewStreamListener):
        raise errors.OptionError(
            f"listener is {listener!r:.80}; it must have the methods of ViewStreamListener: "
            "on_commit, on_refresh, on_failure and on_end"
        )


class Notifier:
    """Tells one listener, or nobody. For one thread."""

    def __init__(self, store: Store, listener: ViewStreamListener | None) -> None:
        self._store = store
        self._listener = listener
        self._seen = store.epoch

    def commits(self) -> None:
        """Tell of the commits since the last call. CorruptionError for a damaged log."""
        if self._listener is None or self._store.epoch == self._seen:
            return
        fresh = takewhile(lambda commit: commit.epoch > self._seen, commits(self._store))
        for commit in reversed(list(fresh)):
            self._seen = commit.epoch
            self._tell(self._listener.on_commit, commit)

    def refresh(self, progress: Mapping[str, Any]) -> None:
        """Tell of a refresh, after its commit."""
        self.commits()
        if self._listener is not None:
            self._tell(self._listener.on_refresh, progress)

    def failure(self, view: str, error: Exception) -> None:
        """Tell of a view that failed."""
        if self._listener is not None:
            self._tell(self._listener.on_failure, view, error)

    def end(self, error: BaseException | None) -> None:
        """Tell of the end."""
        if self._listener is not None:
            self._tell(self._listener.on_end, error)

    def _tell(self, call: Callable[..., None], *event: object) -> None:
        try:
            call(*event)
        except Exception:
            method = getattr(call, "__name__", repr(call))
            _logger.exception("a listener of a stream of views failed in %s", method)
