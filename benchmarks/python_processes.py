"""The Python processes that Spark starts below this process: daemons, and the workers they fork.

Times are processor time, user and system, of one process; bytes are RssAnon, which counts the pages
that belong to a process, those of its parent that it has not changed included.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PROCESSES = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class PythonProcess:
    """One process; ``is_daemon``: whether the JVM has started it, not a daemon."""

    id: int
    is_daemon: bool
    seconds: float
    own_bytes: int


def python_processes(root: int) -> Iterator[PythonProcess]:
    """Yield the Python processes that descend from ``root``."""
    stats = dict(_stats())
    for process, (name, parent, seconds) in stats.items():
        if name.startswith("python") and _descends(process, root, stats):
            is_daemon = not stats.get(parent, ("",))[0].startswith("python")
            yield PythonProcess(process, is_daemon, seconds, _own_bytes(process))


def _stats() -> Iterator[tuple[int, tuple[str, int, float]]]:
    """Yield the name, the parent and the processor time of each process by its id."""
    for folder in _PROCESSES.iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            begin, rest = (folder / "stat").read_text().rsplit(")", 1)
        except OSError:
            continue
        fields = rest.split()
        seconds = (int(fields[11]) + int(fields[12])) / _TICKS
        yield int(folder.name), (begin.split("(", 1)[1], int(fields[1]), seconds)


def _descends(process: int, root: int, stats: dict[int, tuple[str, int, float]]) -> bool:
    while process in stats:
        process = stats[process][1]
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
