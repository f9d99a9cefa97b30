"""The server of a bucket: whether it refuses second creations, and what its clock shows.

Both are tried on an object of their own before the first commit of a process. The clock is then
estimated by this machine's monotonic clock, which nobody sets; it is looked at again if a commit
seems to be ahead of it, since the machine may have been suspended.

Promises: a commit is compared with the bucket's clock, not with what this machine's clock made of
it, however that jumped since.
Does not know: commits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from ..clock import CLOCK_TOLERANCE, Clock
from ..errors import FilesystemError
from .client import Client


@dataclass(frozen=True, slots=True)
class _Reading:
    """The bucket's time in microseconds since 1970, and the monotonic clock's when it was that."""

    time: int
    monotonic: float


class Server:
    """What is known about the server of a bucket. Safe between threads."""

    def __init__(
        self, client: Client, clock: Clock, location: str, new_key: Callable[[], str]
    ) -> None:
        """``clock``: this machine's; ``new_key``: returns a key that no object has."""
        self._client = client
        self._clock = clock
        self._location = location
        self._new_key = new_key
        self._reading: _Reading | None = None
        self._lock = threading.Lock()

    def check(self) -> None:
        """Raise FilesystemError if the server does not refuse to create an object twice."""
        with self._lock:
            if self._reading is None:
                self._reading = self._probe()

    def now(self, expected: int) -> int:
        """Return about what the bucket's clock shows, in microseconds since 1970.

        ``expected``: a time that it should have reached, by this machine's clock. The errors of
        `check`.
        """
        with self._lock:
            time = None if self._reading is None else self._estimate(self._reading)
            if time is None or expected - time > CLOCK_TOLERANCE:
                self._reading = self._probe()
                time = self._estimate(self._reading)
            return time

    def _estimate(self, reading: _Reading) -> int:
        return reading.time + round((self._clock.monotonic() - reading.monotonic) * 1_000_000)

    def _probe(self) -> _Reading:
        key = self._new_key()
        try:
            with suppress(FileExistsError):  # by an earlier attempt of the same request
                self._client.put_new(key, b"1")
            monotonic = self._clock.monotonic()
            try:
                self._client.put_new(key, b"2")
            except FileExistsError:
                return _Reading(self._client.head(key).modified, monotonic)
        finally:
            with suppress(FilesystemError):
                self._client.delete(key)
        raise FilesystemError(
            f"{self._location}: this server creates an object although there is one of its name "
            "(it ignores If-None-Match), and without that a commit is not atomic: use a server or "
            "a version of it that has conditional writes"
        )
