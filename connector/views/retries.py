"""The views that a stream leaves as they are, because they failed, and when each is tried again.

A failure of the query or of a row remains until an input of the view changes, or the view itself;
if it fails again and again, only as often as takes a small share of the time of the stream. Any
other failure is tried again after a while that grows from try to try.

Promises: a function of what was noted, the state of the store and the time; nothing is computed.
Does not know: why views fail.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from relstate.storage import CatalogView, StoreState, errors

from .lineage import inputs_of, upstream
from .refresh import Refreshed

# After a try that failed again, so many times as long as the refresh took nothing is tried.
_PAUSE = 4.0
FIRST_DELAY, LONGEST_DELAY = 1.0, 60.0
"""Seconds between the first failure and the next try, and between any two."""


def delay_after(attempts: int) -> float:
    """Return how many seconds to wait after so many failures in a row, at least one."""
    return float(min(FIRST_DELAY * 2.0 ** min(attempts - 1, 16), LONGEST_DELAY))


@dataclass(frozen=True, slots=True)
class Failure:
    """The failure of a view at an epoch of its inputs.

    ``name``: of the view; ``view``: as it was. ``attempts``: how many
    in a row. ``retry_at``: in seconds of the monotonic clock, None to wait for a change of an
    input; ``not_before``: also after a change.
    """

    name: str
    view: CatalogView
    error: Exception
    epoch: int
    attempts: int
    retry_at: float | None
    not_before: float

    @property
    def is_lasting(self) -> bool:
        """Whether it is of the query or a row, and not of the machines."""
        return isinstance(self.error, errors.ViewFailedError)

    def is_over(self, state: StoreState, now: float) -> bool:
        """Return whether the view is to be tried again."""
        if self.retry_at is not None and now >= self.retry_at:
            return True
        return now >= self.not_before and self.is_outdated(state)

    def is_outdated(self, state: StoreState) -> bool:
        """Return whether the view, or one of its inputs, has changed since."""
        view_id = self.view.view_id
        if view_id not in state.views:
            return False
        if state.views[view_id].definition != self.view.definition:
            return True
        inputs = inputs_of(state, view_id)
        return self.is_lasting and any(state.has_changed(i, self.epoch) for i in inputs)


class Retries:
    """The failures of the views of one stream. For one thread at a time."""

    def __init__(self) -> None:
        self._failures: dict[int, Failure] = {}

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Those that remain."""
        return tuple(self._failures.values())

    def skipped(self, state: StoreState, now: float) -> frozenset[int]:
        """Return the views that are left as they are now; ``now``: of the monotonic clock."""
        return frozenset(
            view_id
            for view_id, failure in self._failures.copy().items()
            if view_id in state.views and not failure.is_over(state, now)
        )

    def note(
        self,
        states: tuple[StoreState, StoreState],
        refreshed: Refreshed,
        skipped: frozenset[int],
        now: float,
        seconds: float,
    ) -> tuple[Failure, ...]:
        """Take note of a refresh, and return the failures that are new.

        ``states``: before it and after it, where a replacement that fails is dropped.
        ``seconds``: how long it took.
        """
        before, after = self._failures, states[1]
        noted: dict[int, Failure] = {}
        for view_id, error in refreshed.failures.items():
            for state in states:
                if view_id in state.views:
                    earlier = before.get(view_id)
                    pause = 0.0 if earlier is None else _PAUSE * seconds
                    own = _failure(state, view_id, error, refreshed, earlier, now)
                    noted[view_id] = replace(own, not_before=now + pause)
        kept = {view_id: failure for view_id, failure in before.items() if view_id in skipped}
        self._failures = {i: own for i, own in (kept | noted).items() if i in after.views}
        texts = {view_id: str(failure.error) for view_id, failure in before.items()}
        return tuple(own for i, own in noted.items() if texts.get(i) != str(own.error))


def _failure(
    state: StoreState,
    view_id: int,
    error: Exception,
    refreshed: Refreshed,
    before: Failure | None,
    now: float,
) -> Failure:
    view = state.views[view_id]
    attempts = 1 if before is None else before.attempts + 1
    # Time alone can add or remove the row of a view that compares rows with it.
    is_retried = not isinstance(error, errors.ViewFailedError) or view.progress.clock is not None
    retry_at = now + delay_after(attempts) if is_retried else None
    return Failure(state.title_of(view), view, error, refreshed.reflects, attempts, retry_at, now)


def without_waiting(state: StoreState, views: frozenset[int], skipped: frozenset[int]) -> list[int]:
    """Return those of some views that neither are skipped nor read one that is."""
    return [view_id for view_id in views if skipped.isdisjoint(upstream(state, [view_id]))]


def by_name(failures: Iterable[Failure]) -> dict[str, str]:
    """Return the messages of failures by the names of their views."""
    return {failure.name: str(failure.error) for failure in failures}
