"""How many requests to a bucket a process makes at once, by how its server answers.

A server that throttles is asked by fewer requests at once: half as many after an answer that says
so, and one more each time as many were answered as may run at once. A request that began before
the last halving does not halve again: it was one of too many then already.

Promises: at least one request runs; all fetches and uploads of a process to a bucket count.
Does not know: requests, or when a failed one is repeated.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

MOST_REQUESTS = 32


class ThrottledError(Exception):
    """A server answered a request by asking for fewer of them."""


@dataclass(frozen=True, slots=True)
class Admission:
    """What was admitted: ``requests`` at once, after so many ``halvings``."""

    requests: int
    halvings: int


class RequestWindow:
    """How many requests may run at once, and do. Not safe between threads."""

    def __init__(self, most: int = MOST_REQUESTS) -> None:
        """``most``: requests at once of a server that does not throttle."""
        self._most = most
        self._limit = float(most)
        self._running = 0
        self._halvings = 0

    @property
    def limit(self) -> int:
        """How many requests may run at once."""
        return int(self._limit)

    def try_to_admit(self, most: int = 1) -> Admission | None:
        """Return the admission of at most so many requests at once; None: none may begin now."""
        free = self.limit - self._running
        if free <= 0:
            return None
        requests = min(most, free)
        self._running += requests
        return Admission(requests, self._halvings)

    def end(self, admission: Admission, *, is_throttled: bool | None) -> None:
        """Take note of how requests that were admitted ended; None: the server did not say."""
        self._running -= admission.requests
        if is_throttled is None:
            return
        if not is_throttled:
            self._limit = min(self._limit + admission.requests / self._limit, float(self._most))
        elif admission.halvings == self._halvings:
            self._limit = max(self._limit / 2, 1.0)
            self._halvings += 1


class RequestLimit:
    """The window of a bucket, for the threads of this process."""

    def __init__(self, window: RequestWindow) -> None:
        """``window``: no one else uses it."""
        self._window = window
        self._changed = threading.Condition()

    @property
    def limit(self) -> int:
        """How many requests may run at once."""
        return self._window.limit

    @contextmanager
    def admitted(self, most: int = 1) -> Iterator[int]:
        """Wait until requests may run; yield how many may at once, at most ``most``.

        The block raises ThrottledError if the server asks for fewer.
        """
        with self._changed:
            while (admission := self._window.try_to_admit(most)) is None:
                self._changed.wait()
        is_throttled: bool | None = None
        try:
            yield admission.requests
            is_throttled = False
        except ThrottledError:
            is_throttled = True
            raise
        finally:
            with self._changed:
                self._window.end(admission, is_throttled=is_throttled)
                self._changed.notify_all()


def limit_of(bucket: str) -> RequestLimit:
    """Return the limit of this process for a bucket, which all its clients share."""
    with _lock:
        return _limits.setdefault(bucket, RequestLimit(RequestWindow()))


_lock = threading.Lock()
_limits: dict[str, RequestLimit] = {}
