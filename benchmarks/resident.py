"""How much memory of their own the Python workers of Spark take.

RssAnon counts the pages that belong to a process alone: not the memory map of a segment, which is
the kernel's to keep or drop.
"""

from __future__ import annotations

import os
import threading
from types import TracebackType

from .python_processes import python_processes

_INTERVAL = 0.01


class WorkerMemory:
    """Watches the workers below this process while the block runs, a hundred times a second."""

    def __init__(self) -> None:
        self._peak = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> WorkerMemory:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    @property
    def peak(self) -> int:
        """The most bytes that one worker had."""
        return self._peak

    def _watch(self) -> None:
        while not self._over.wait(_INTERVAL):
            for process in python_processes(os.getpid()):
                self._peak = max(self._peak, process.own_bytes)
