"""How much memory of their own the Python workers of Spark take.

RssAnon counts the pages that belong to a process alone: not the memory map of a segment, which is
the kernel's to keep or drop.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType

_INTERVAL = 0.01
_PROCESSES = Path("/proc")


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
            for process in _workers(os.getpid()):
                self._peak = max(self._peak, _own_bytes(process))


def _workers(root: int) -> list[int]:
    """Return the ids of the Python processes that descend from ``root``."""
    parents: dict[int, int] = {}
    pythons: set[int] = set()
    for folder in _PROCESSES.iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            name, rest = (folder / "stat").read_text().rsplit(")", 1)
        except OSError:
            continue
        parents[int(folder.name)] = int(rest.split()[1])
        if "(python" in name:
            pythons.add(int(folder.name))
    return [process for process in pythons if _descends(process, root, parents)]


def _descends(process: int, root: int, parents: dict[int, int]) -> bool:
    while process in parents:
        process = parents[process]
        if process == root:
            return True
    return False


def _own_bytes(process: int) -> int:
    """Return the RssAnon of a process; 0 if it has gone."""
    try:
        lines = (_PROCESSES / str(process) / "status").read_text().splitlines()
    except OSError:
        return 0
    resident = next((line for line in lines if line.startswith("RssAnon:")), "RssAnon: 0")
    return int(resident.split()[1]) * 1024
