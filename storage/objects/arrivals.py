"""The threads that fetch segments, which are read while they arrive.

What is fetched next: of the segments that are read, or will be at once, the portion that a reader
waits for, else the one nearest to the place that is read; then what nobody reads yet, segment by
segment in the order in which they were opened; then, by one thread, those whose copies are made
behind lookups. The threads end when nothing is left to fetch.

Promises: each process of the machine that needs a segment waits for the one that fetches it; of
one process a segment is fetched once, however many wait for it; nothing is fetched that nobody
reads any more, and the process ends without waiting for more than the requests under way.
Does not know: how a portion becomes part of a segment.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from ..errors import RelstateError
from .arrival import Arrival, Origin, Portion
from .cache import Cache
from .leases import Lease

# So many requests at once: the first of a segment are so small that a server's answer takes longer.
AT_ONCE = 16
# How long it takes until another process is asked again whether it has fetched a segment.
_PAUSE = 0.01

_logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Task:
    """What is to be done for one segment: its beginning, then its portions.

    ``is_paused``: another process fetches it, as was seen a moment ago.
    """

    arrival: Arrival
    is_begun: bool = False
    is_paused: bool = False
    portions: list[Portion] = field(default_factory=list)

    def urgency(self) -> tuple[int, int]:
        """Return what is less for what is to be fetched before others."""
        arrival = self.arrival
        if arrival.is_behind:
            return _BEHIND
        if arrival.position is None:
            return _LATER
        distance = min(map(arrival.distance, self.portions), default=0)
        return (0 if arrival.is_waited_for and not distance else 1), distance

    def take(self) -> Portion | None:
        """Take the most urgent portion; None: the beginning."""
        if not self.is_begun:
            self.is_begun = True
            return None
        portion = min(self.portions, key=self.arrival.distance)
        self.portions.remove(portion)
        return portion


_LATER, _BEHIND = (2, 0), (3, 0)


@dataclass(frozen=True, slots=True)
class _Step:
    """A portion of a segment to fetch; None: its beginning."""

    task: _Task
    portion: Portion | None
    is_behind: bool


class Arrivals:
    """The segments on their way, and what fetches them. Safe between threads."""

    def __init__(self, cache: Cache) -> None:
        """``cache``: where the segments arrive."""
        self._cache = cache
        # Notified when there is more to do, and when a thread ends.
        self._changed = threading.Condition()
        # Those that have something left to do, in the order in which they were opened.
        self._tasks: list[_Task] = []
        self._arrivals: WeakValueDictionary[str, Arrival] = WeakValueDictionary()
        self._threads = 0
        # How many steps are under way for segments that nobody reads now.
        self._behind = 0

    def start(self, origin: Origin, lease: Lease, *, is_behind: bool = False) -> Arrival:
        """Return a segment on its way: one that was started already, or a new one.

        ``lease``: of its copy; ``is_behind``: nobody reads it now, and it is fetched after others.
        """
        with self._changed:
            arrival = self._arrivals.get(origin.path)
            if arrival is None or arrival.has_failed or arrival.is_whole:
                arrival = Arrival(origin, self._cache, lease, is_behind=is_behind)
                self._arrivals[origin.path] = arrival
                self._tasks.append(_Task(arrival))
            if not is_behind:
                arrival.join()
            has_threads = self._start_threads()
        if not has_threads:
            self._run()
        return arrival

    def wait(self) -> None:
        """Wait until nothing is left to fetch."""
        with self._changed:
            while self._threads:
                self._changed.wait()

    def _start_threads(self) -> bool:
        """Start threads for what is to be done; return whether there are any.

        Without any, the caller is to do what a thread does.
        """
        steps = sum(max(len(task.portions), 1) for task in self._tasks)
        for _ in range(min(AT_ONCE - self._threads, steps)):
            # Not a daemon: those must not be in a library's code when the process ends.
            thread = threading.Thread(target=self._run, name="relstate-fetch")
            try:
                thread.start()
            except RuntimeError:
                # The process may have no more threads.
                break
            self._threads += 1
        self._changed.notify_all()
        if self._threads:
            return True
        self._threads += 1
        return False

    def _run(self) -> None:
        while (step := self._next()) is not None:
            arrival = step.task.arrival
            try:
                if step.portion is None:
                    self._begin(step.task)
                else:
                    arrival.fetch(step.portion)
            except BaseException as error:
                if not isinstance(error, RelstateError | FileNotFoundError | ValueError):
                    _logger.exception("a segment could not be fetched")
                # Whatever it is, it is the reader's: nobody else waits for this thread.
                arrival.fail(error)
            finally:
                with self._changed:
                    self._behind -= step.is_behind
                    if step.portion is not None:
                        self._resume()

    def _next(self) -> _Step | None:
        """Return what a thread is to do next; None: nothing is left, and it ends."""
        with self._changed:
            while True:
                task = self._most_urgent()
                if task is not None:
                    break
                if not any(task.is_paused for task in self._tasks):
                    self._threads -= 1
                    self._changed.notify_all()
                    return None
                self._changed.wait(_PAUSE)
                self._resume()
            step = _Step(task, task.take(), task.arrival.is_behind)
            self._behind += step.is_behind
            if not task.portions:
                self._tasks.remove(task)
            return step

    def _resume(self) -> None:
        """Let those be tried again that another process was fetching."""
        for task in self._tasks:
            task.is_paused = False

    def _most_urgent(self) -> _Task | None:
        """Return the task to go on with, after removing those that nobody needs any more."""
        for task in [task for task in self._tasks if not task.arrival.is_wanted]:
            task.arrival.give_up()
        self._tasks = [task for task in self._tasks if not task.arrival.has_failed]
        ready = [task for task in self._tasks if not task.is_paused]
        if not ready:
            return None
        task = min(ready, key=_Task.urgency)
        return None if task.arrival.is_behind and self._behind else task

    def _begin(self, task: _Task) -> None:
        def add(portions: Sequence[Portion]) -> None:
            if portions:
                with self._changed:
                    task.portions += portions
                    self._tasks.append(task)
                    self._start_threads()

        if not task.arrival.begin(add):
            with self._changed:
                task.is_begun, task.is_paused = False, True
                self._tasks.append(task)
