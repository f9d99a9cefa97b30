"""A stream of views: a thread that refreshes them whenever their tables, or time, change them.

It has the life cycle and the names of a StreamingQuery: ``status``, ``lastProgress``, ``stop``,
``awaitTermination``. It needs no checkpoint: the commit of a refresh says how far its views are.

A view that fails does not keep the others from being refreshed; it is tried again when its inputs
change, or after a while if the machines failed (retries). Merges of files are done beside the
refreshes (merges).

Promises: nothing happens after `stop` has returned; an error that is not of a view or the machines
ends the stream and is raised by `awaitTermination`.
Does not know: how views are refreshed.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Condition, Event, Thread, current_thread
from typing import Any

from relstate.storage import StoreState, errors, html_table, iso_time

from .followed import FollowedViews
from .lineage import has_pending_changes, is_behind, upstream, view_ids
from .listener import Notifier, ViewStreamListener, check_listener
from .merges import Merges
from .retries import Failure, Retries, by_name, delay_after, without_waiting
from .sessions import is_stopped
from .view_failure import is_of_machine
from .views import Views

_RECENT = 100
# How often in a row a refresh of a stream that ends by itself may fail because of the machines.
_MOST_TRIES = 5
# How often, in seconds, the log is read when there is nothing to do; it costs microseconds.
_POLL = 0.02

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Trigger:
    """When to look for changes: every ``interval`` seconds, 0 for always; or once, and then end.

    ``stops_on_failure``: whether a view that cannot be computed ends the stream.
    """

    interval: float = 0.0
    is_once: bool = False
    stops_on_failure: bool = False


class ViewStream:
    """A refresh of views, repeated until it is stopped. Safe between threads."""

    def __init__(
        self,
        views: Views,
        names: Sequence[str] | None,
        trigger: Trigger,
        name: str | None = None,
        listener: ViewStreamListener | None = None,
    ) -> None:
        """``names``: which views, as `FollowedViews`; None for all that exist. OptionError."""
        check_listener(listener)
        self._views = views
        self._names = None if names is None else tuple(names)
        self._followed = FollowedViews(self._names)
        self._trigger = trigger
        self._name = name
        self._environment = views.store.environment
        self._id = self._environment.random_id()
        self._merges = Merges(views.store, f"relstate merges {self._id}")
        self._notifier = Notifier(views.store, listener)
        self._recent: deque[dict[str, Any]] = deque(maxlen=_RECENT)
        self._retries = Retries()
        self._failed_refreshes = 0
        self._batch = 0
        self._stopping = Event()
        self._ended = Event()
        self._idle = Event()
        self._refreshing = Condition()
        self._refreshes_begun = self._refreshes_done = 0
        self._failure: BaseException | None = None
        self._message = "Initializing"
        self._thread = Thread(target=self._run, name=f"relstate views {self._id}", daemon=True)

    def start(self) -> ViewStream:
        """Start, and return the stream. ViewNotFoundError if there is no such view."""
        state = self._views.store.state
        view_ids(state, self._names)
        self._followed.ids(state)
        self._thread.start()
        return self

    def __repr__(self) -> str:
        name = "" if self._name is None else f"{self._name!r}, "
        return f"ViewStream({name}{self._message})"

    def _repr_html_(self) -> str:
        """Return what it is doing and its last refresh, as notebooks show them."""
        rows = [("status", self._message), *(self.lastProgress or {}).items()]
        return html_table(self._name or "stream of views", ("what", "value"), rows)

    @property
    def id(self) -> str:
        """An id that no other stream has."""
        return self._id

    @property
    def name(self) -> str | None:
        """The name it was given."""
        return self._name

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        """Whether it has not ended."""
        return not self._ended.is_set()

    @property
    def status(self) -> dict[str, Any]:
        """What it is doing: ``message``, ``isDataAvailable``, ``isTriggerActive``.

        ``failed``: the messages of the views that fail, by their names.
        """
        return {
            "message": self._message,
            "isDataAvailable": self.isActive and self._is_behind(),
            "isTriggerActive": self.isActive and not self._idle.is_set(),
            "failed": by_name(self._retries.failures),
        }

    @property
    def lastProgress(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """The progress of the last refresh that moved a view; None if none has."""
        return self._recent[-1] if self._recent else None

    @property
    def recentProgress(self) -> list[dict[str, Any]]:  # noqa: N802 - Spark's name
        """The progress of the last refreshes that moved a view, the oldest first."""
        return list(self._recent)

    def stop(self) -> None:
        """Stop after the refresh that is running, and wait for that.

        A listener may call it, and does not wait: the stream ends after its method has returned.
        """
        self._stopping.set()
        if current_thread() is not self._thread:
            self._ended.wait()

    def awaitTermination(self, timeout: float | None = None) -> bool | None:  # noqa: N802
        """Wait until it has ended, or ``timeout`` seconds; raise the error that ended it.

        With a timeout, return whether it has ended.
        """
        if timeout is not None and timeout <= 0:
            raise errors.OptionError(f"timeout must be above 0 seconds, not {timeout}")
        has_ended = self._ended.wait(timeout)
        if has_ended and self._failure is not None:
            raise self._failure
        return has_ended if timeout is not None else None

    def processAllAvailable(self) -> None:  # noqa: N802 - Spark's name
        """Wait until the views reflect all that is committed now, and `lastProgress` says so.

        A view that fails is waited for until it is tried with that, or until the machines that fail
        work again. The error that ended the stream is raised.
        """
        epoch, time = self._views.store.epoch, self._environment.now()
        while self.isActive and (self._is_behind_of(epoch, time) or self._waits_for_machines()):
            self._ended.wait(_POLL)
        # The refresh whose commit this is has yet to report its progress.
        with self._refreshing:
            begun = self._refreshes_begun
            self._refreshing.wait_for(lambda: self._refreshes_done >= begun)
        if self._failure is not None:
            raise self._failure

    def exception(self) -> BaseException | None:
        """Return the error that ended it; None if none did."""
        return self._failure

    # The thread

    def _run(self) -> None:
        try:
            if self._trigger.is_once:
                self._catch_up(self._views.store.epoch, self._environment.now())
            else:
                self._follow()
            self._message = "Stopped"
        except BaseException as error:
            # sys.exit() in a listener too. awaitTermination raises the error itself.
            self._fail(error)
        self._merges.close()
        try:
            self._notifier.end(self._failure)
        except BaseException as error:
            self._fail(error)
        finally:
            self._ended.set()

    def _fail(self, error: BaseException) -> None:
        _logger.error("the stream %s of views ended: %r", self._id, error)
        self._failure = self._failure or error
        self._message = f"Terminated with exception: {self._failure!s}"

    def _catch_up(self, epoch: int, time: int) -> None:
        """Refresh until nothing is left to do; raise the error of a view that fails then."""
        while not self._stopping.is_set():
            is_behind = self._is_behind_of(epoch, time)
            if is_behind and self._is_behind():
                self._refresh_once()
            elif is_behind or self._may_recover():
                self._stopping.wait(_POLL)
            else:
                break
        for failure in self._retries.failures:
            raise failure.error

    def _waits_for_machines(self) -> bool:
        """Return whether a view will be tried again because the machines failed."""
        return any(is_of_machine(failure.error) for failure in self._retries.failures)

    def _may_recover(self) -> bool:
        """Return whether a view failed because of the machines, and not often enough yet."""
        failures = self._retries.failures
        return any(
            not failure.is_lasting and failure.attempts < _MOST_TRIES for failure in failures
        )

    def _follow(self) -> None:
        while not self._stopping.is_set():
            started = self._environment.monotonic()
            self._refresh_once()
            self._wait(started)

    def _refresh_once(self) -> None:
        """Refresh the views and report what was done, between two counts."""
        with self._refreshing:
            self._refreshes_begun += 1
        try:
            self._notifier.commits()
            if self._is_behind():
                self._refresh()
        finally:
            with self._refreshing:
                self._refreshes_done += 1
                self._refreshing.notify_all()

    def _refresh(self) -> None:
        self._message = "Processing new data"
        started, now = self._environment.monotonic(), self._environment.now()
        state = self._views.store.state
        skipped = self._skipped(state)
        try:
            refreshed = self._views.advance(self._followed.names(state), skipped, self._merges)
        except (errors.ConflictError, errors.ViewNotFoundError) as error:
            # One that was dropped meanwhile is left out by the next look, which fails for the last.
            _logger.info("the stream %s tries again: %s", self._id, error)
            return
        except Exception as error:
            self._wait_for_machine(error)
            return
        self._failed_refreshes = 0
        states = state, self._views.store.state
        now_monotonic = self._environment.monotonic()
        seconds = now_monotonic - started
        new = self._retries.note(states, refreshed, skipped, now_monotonic, seconds)
        if refreshed.views or new:
            self._recent.append(
                {
                    "id": self._id,
                    "name": self._name,
                    "timestamp": iso_time(now),
                    "batchId": self._batch,
                    "batchDuration": round((self._environment.monotonic() - started) * 1000),
                    "durationMs": refreshed.seconds.milliseconds,
                    "numInputRows": refreshed.rows,
                    "epoch": refreshed.epoch,
                    "reflects": refreshed.reflects,
                    "views": list(refreshed.views),
                    "local": list(refreshed.local),
                    "full": list(refreshed.full),
                    "failed": by_name(self._retries.failures),
                    "quarantined": dict(refreshed.quarantined),
                }
            )
            self._batch += 1
        if refreshed.views:
            self._notifier.refresh(self._recent[-1])
        for failure in new:
            self._report(failure)

    def _report(self, failure: Failure) -> None:
        """Tell of a view that failed. Its error, if that is to end the stream."""
        _logger.warning("the stream %s goes on without a view: %s", self._id, failure.error)
        self._notifier.failure(failure.name, failure.error)
        is_gone = failure.view.view_id not in self._views.store.state.views
        if failure.is_lasting and (
            self._trigger.stops_on_failure or (self._trigger.is_once and is_gone)
        ):
            raise failure.error

    def _wait_for_machine(self, error: Exception) -> None:
        """Wait before the next try if the machines failed, else raise the error."""
        self._failed_refreshes += 1
        is_final = self._trigger.is_once and self._failed_refreshes >= _MOST_TRIES
        if is_final or not is_of_machine(error) or is_stopped(self._views.spark):
            raise error
        seconds = delay_after(self._failed_refreshes)
        _logger.warning("the stream %s tries again in %.0f s: %s", self._id, seconds, error)
        self._message = f"Waiting {seconds:.0f} s after a failure: {error}"
        self._stopping.wait(seconds)

    def _wait(self, started: float) -> None:
        """Wait for the next trigger, or for a commit where there is no interval."""
        interval = self._trigger.interval
        self._message = f"Waiting for {'next trigger' if interval else 'data to arrive'}"
        self._idle.set()
        if interval:
            elapsed = self._environment.monotonic() - started
            self._stopping.wait(max(interval - elapsed, 0))
        else:
            while not self._stopping.is_set() and not self._is_behind():
                self._notifier.commits()
                self._stopping.wait(_POLL)
        self._idle.clear()

    def _skipped(self, state: StoreState) -> frozenset[int]:
        return self._retries.skipped(state, self._environment.monotonic())

    def _is_behind(self) -> bool:
        state = self._views.store.state
        return is_behind(state, self._refreshable(state), self._environment.now())

    def _refreshable(self, state: StoreState) -> list[int]:
        """Return the views that can be refreshed now, with those that they read."""
        views = upstream(state, self._followed.ids(state))
        skipped = self._skipped(state)
        return without_waiting(state, views, skipped) if skipped else list(views)

    def _is_behind_of(self, epoch: int, time: int) -> bool:
        """Return whether a view does not reflect all that an epoch, or a time, has changed."""
        state = self._views.store.state
        failures = self._retries.failures
        if any(own.epoch < epoch and own.is_outdated(state) for own in failures):
            return True
        progresses = {
            view_id: state.views[view_id].progress for view_id in self._refreshable(state)
        }
        return any(
            progress.is_due(time)
            or (has_pending_changes(state, view_id) and progress.reflects < epoch)
            for view_id, progress in progresses.items()
        )
