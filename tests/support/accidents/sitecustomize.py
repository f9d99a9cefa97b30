"""What makes the executors of a test's cluster unlucky. Python runs it when it starts.

An accident is a file in the folder RELSTATE_ACCIDENTS, and happens once, to the first task that
comes to where it is named after. ``before-`` is when a task has its rows and has not yet made its
segments durable, ``after-`` when they are, and the driver does not know:

    before-worker, after-worker       the worker is killed, and with it the executor of the task
    before-executor, after-executor   the executor of the task is killed
    before-slow                       the task stops for ten minutes
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from relstate.storage import SegmentRecord
from relstate.storage.segment.writer import SegmentWriter
from support.processes import parent_of

_ACCIDENTS = Path(os.environ["RELSTATE_ACCIDENTS"])
_SLOW_SECONDS = 600.0
_finish = SegmentWriter.finish


def _unlucky_finish(self: SegmentWriter) -> tuple[SegmentRecord, ...]:
    _come("before")
    segments = _finish(self)
    _come("after")
    return segments


def _come(moment: str) -> None:
    # A worker of Spark starts an executor, that a daemon of Python, and that this process.
    if _happens(f"{moment}-executor"):
        os.kill(parent_of(os.getppid()), signal.SIGKILL)
        time.sleep(60)
    if _happens(f"{moment}-worker"):
        executor = parent_of(os.getppid())
        worker = parent_of(executor)
        os.kill(worker, signal.SIGKILL)
        os.kill(executor, signal.SIGKILL)
        time.sleep(60)
    if _happens(f"{moment}-slow"):
        time.sleep(_SLOW_SECONDS)


def _happens(name: str) -> bool:
    try:
        (_ACCIDENTS / name).unlink()
    except FileNotFoundError:
        return False
    return True


SegmentWriter.finish = _unlucky_finish  # type: ignore[method-assign]
