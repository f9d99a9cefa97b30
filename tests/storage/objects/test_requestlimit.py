"""How many requests a process makes at once, by what a server answers."""

from __future__ import annotations

import heapq
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from relstate.storage.objects.requestlimit import (
    MOST_REQUESTS,
    Admission,
    RequestLimit,
    RequestWindow,
    ThrottledError,
)
from support.clock import ManualClock


class Throttling:
    """A server, by a clock of its own, that refuses what exceeds so many requests at once.

    Each request takes it 0.1 s, each refusal 0.01.
    """

    def __init__(self, window: RequestWindow, capacity: int) -> None:
        self.window, self.capacity = window, capacity
        self.clock = ManualClock()
        self.answered = self.refused = 0
        self._running: list[tuple[float, int, bool, Admission]] = []
        self._count = 0

    def run(self, seconds: float) -> None:
        """Ask by as many requests as are admitted, for some seconds."""
        end = self.clock.monotonic() + seconds
        while self.clock.monotonic() < end:
            while (admission := self.window.try_to_admit()) is not None:
                is_refused = sum(not refused for _, _, refused, _ in self._running) >= self.capacity
                self._count += 1
                done = self.clock.monotonic() + (0.01 if is_refused else 0.1)
                heapq.heappush(self._running, (done, self._count, is_refused, admission))
            done, _, is_refused, admission = heapq.heappop(self._running)
            self.clock.advance(max(done - self.clock.monotonic(), 0))
            self.window.end(admission, is_throttled=is_refused)
            self.refused += is_refused
            self.answered += not is_refused


def test_requests_adapt_to_what_a_server_takes() -> None:
    """It is kept busy, few requests are refused, and more are made once it takes more."""
    window = RequestWindow()
    server = Throttling(window, 5)
    server.run(10)
    server.answered = server.refused = 0
    server.run(100)
    assert window.limit <= 6
    # Of the 5,000 that it can answer.
    assert server.answered > 3500
    assert server.refused < server.answered / 10

    server.capacity = 100
    server.run(20)
    assert window.limit == MOST_REQUESTS


def test_one_request_runs_however_often_it_is_refused() -> None:
    """And requests that began together halve the number once."""
    window = RequestWindow(8)
    admissions = [window.try_to_admit() for _ in range(8)]
    assert window.try_to_admit() is None
    for admission in admissions:
        assert admission is not None
        window.end(admission, is_throttled=True)
    assert window.limit == 4
    for _ in range(9):
        admission = window.try_to_admit()
        assert admission is not None
        window.end(admission, is_throttled=True)
    assert window.limit == 1
    admission = window.try_to_admit(4)
    assert admission is not None
    assert admission.requests == 1


def test_threads_wait_until_they_are_admitted() -> None:
    """An error that is not the server's changes nothing; one of a throttling server halves."""
    limit = RequestLimit(RequestWindow(4))
    running: list[int] = []
    most: list[int] = []
    lock = threading.Lock()

    def ask(error: type[Exception] | None) -> None:
        with suppress(OSError, ThrottledError), limit.admitted():
            with lock:
                running.append(1)
                most.append(len(running))
            time.sleep(0.002)
            with lock:
                running.pop()
            if error is not None:
                raise error

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(ask, [None, OSError] * 20))
        assert limit.limit == 4
        assert max(most) <= 4
        ask(ThrottledError)
        assert limit.limit == 2
        most.clear()
        list(pool.map(ask, [OSError] * 20))
        assert max(most) <= 2
    with limit.admitted(9) as requests:
        assert requests == 2
