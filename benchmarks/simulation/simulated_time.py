"""A clock for threads that take turns, which advances by what they wait and compute."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Sequence


class SimulatedTime:
    """A clock for threads that take turns: the one that waits for the earliest moment runs."""

    def __init__(self) -> None:
        self.seconds = 1.6e9
        self._order = itertools.count()
        self._waiting: list[tuple[float, int, threading.Event]] = []
        self._resumed = time.thread_time()

    def wait(self, seconds: float) -> None:
        """Let so much time pass, and what this thread has computed since it last waited."""
        turn = threading.Event()
        moment = self.seconds + seconds + time.thread_time() - self._resumed
        heapq.heappush(self._waiting, (moment, next(self._order), turn))
        self._next()
        turn.wait()
        self._resumed = time.thread_time()

    def run(self, works: Sequence[Callable[[], None]]) -> None:
        """Run functions at the same time, each in a thread, to their ends."""
        threads = []
        for work in works:
            turn = threading.Event()
            heapq.heappush(self._waiting, (self.seconds, next(self._order), turn))
            threads.append(threading.Thread(target=self._work, args=(work, turn)))
            threads[-1].start()
        self._next()
        for thread in threads:
            thread.join()
        self._resumed = time.thread_time()

    def _work(self, work: Callable[[], None], turn: threading.Event) -> None:
        turn.wait()
        self._resumed = time.thread_time()
        work()
        self._next()

    def _next(self) -> None:
        if self._waiting:
            self.seconds, _, turn = heapq.heappop(self._waiting)
            turn.set()
