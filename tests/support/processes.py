"""Processes of this machine, by their ids."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path


def parent_of(process: int) -> int:
    """Return the id of the process that started another one."""
    return int(_status(process)[1])


def _status(process: int) -> list[str]:
    """Return the state of a process, a letter, and the numbers that follow it, as Linux does."""
    return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()


def children_of(process: int) -> list[int]:
    """Return the ids of the processes that a process has started, as far as they run."""
    children = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                state, parent = _status(int(folder.name))[:2]
                if int(parent) == process and state != "Z":
                    children.append(int(folder.name))
    return children


def descendants_of(process: int) -> list[int]:
    """Return the ids of all processes that a process has started, or one of these."""
    children = children_of(process)
    return children + [below for child in children for below in descendants_of(child)]


def end(process: int, signal_number: int = signal.SIGTERM) -> None:
    """Send a process a signal, and kill what it has started."""
    below = descendants_of(process)
    with suppress(ProcessLookupError):
        os.kill(process, signal_number)
    for descendant in below:
        with suppress(ProcessLookupError):
            os.kill(descendant, signal.SIGKILL)
