"""A lock that is open in a forked process, whichever thread held it at the time of the fork.

Does not know: what it guards, which must be whole at every moment: the thread that changed it is
not there in the child.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from types import TracebackType


def after_fork(call: Callable[[], None]) -> None:
    """Call ``call`` in every child process that is forked from now on."""
    os.register_at_fork(after_in_child=call)


class ForkLock:
    """A lock for ``with``.

    Reentrant: what is collected while a thread holds it may take it.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Replace the lock, which another thread may have held when this process forked."""
        self._lock = threading.RLock()


_locks: weakref.WeakSet[ForkLock] = weakref.WeakSet()


def _renew_all() -> None:
    for lock in list(_locks):
        lock.renew()


after_fork(_renew_all)
