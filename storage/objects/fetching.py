"""Fetches of segments that nobody waits for.

Promises: one fetch at a time, each file once while it is waiting; the process ends without waiting
for more than a portion of one.
Does not know: where the segments come from.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress

from ..errors import FilesystemError, RelstateError

_LOG = logging.getLogger(__name__)

_PORTION_BYTES = 8 << 20


class FetchesBehind:
    """Fetches files one after the other in a thread, which ends when none is left."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: OrderedDict[str, Callable[[], object]] = OrderedDict()
        self._thread: threading.Thread | None = None

    def add(self, name: str, fetch: Callable[[], object]) -> None:
        """Fetch a file later. A file that cannot be fetched then is left to who reads it."""
        with self._lock:
            self._waiting.setdefault(name, fetch)
            if self._thread is None:
                # Not a daemon: those must not be in a library's code when the process ends.
                thread = threading.Thread(target=self._run, name="relstate-fetch")
                with suppress(RuntimeError):  # no thread can be started now
                    thread.start()
                    self._thread = thread

    def wait(self) -> None:
        """Wait until all is fetched."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting or not threading.main_thread().is_alive():
                    self._thread = None
                    return
                name, fetch = next(iter(self._waiting.items()))
            try:
                fetch()
            except (RelstateError, FileNotFoundError):
                pass
            except Exception:
                _LOG.exception("segment %s could not be fetched", name)
            with self._lock:
                self._waiting.pop(name, None)


def in_portions(fetch: Callable[[int, int], tuple[bytes, int]]) -> bytes:
    """Return an object, read range by range. FilesystemError if the process ends meanwhile.

    ``fetch``: returns a range and the object's size, by one request: the process waits for it.
    """
    portions: list[bytes] = []
    read, size = 0, 1
    while read < size:
        if not threading.main_thread().is_alive():
            raise FilesystemError("the process ends")
        portion, size = fetch(read, read + _PORTION_BYTES)
        if not portion:
            break
        portions.append(portion)
        read += len(portion)
    return b"".join(portions)
