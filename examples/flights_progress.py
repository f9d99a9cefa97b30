"""The progress of a replay: what the last micro-batch did, and how soon the views had it.

Promises: on a terminal one line that changes, elsewhere a line every few seconds.
Does not know: what the streaming query or the views do.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.query import StreamingQuery

from relstate import Store

if TYPE_CHECKING:
    from relstate.connector.views.stream import ViewStream

LINE_SECONDS = 5.0
LOOK_SECONDS = 1


def watch(query: StreamingQuery, files: Sequence[Path], live: Callable[[], str]) -> Iterator[int]:
    """Tell of a query, whose micro-batches are ``files``, until it has read all; yield how many.

    ``live`` adds what the views say just then. StreamingQueryException if the query fails.
    """
    in_place = sys.stdout.isatty()
    shown = time.monotonic()
    reading = Thread(target=query.processAllAvailable, daemon=True)
    reading.start()
    while reading.is_alive():
        reading.join(LOOK_SECONDS)
        progress = _progress(query)
        if in_place or time.monotonic() - shown >= LINE_SECONDS:
            shown = time.monotonic()
            _show(_told(progress, files) + live(), in_place)
        if progress is not None:
            yield progress["batchId"] + 1
    query.stop()
    query.awaitTermination()
    progress = _progress(query)
    _show("  nothing new" if progress is None else _told(progress, files) + live(), in_place)
    if in_place:
        print()


def latencies(store: Store, views: ViewStream, begin: int) -> str:
    """Return how long after each write, from the epoch ``begin`` on, the views had it."""
    times = {entry.epoch: entry.time for entry in store.history()}
    writes = [entry.epoch for entry in store.history() if entry.operation == "write"]
    delays = []
    for refresh in views.recentProgress:
        applied = [epoch for epoch in writes if begin <= epoch <= refresh["reflects"]]
        delays += [(times[refresh["epoch"]] - times[epoch]) / 1e6 for epoch in applied]
        begin = refresh["reflects"] + 1
    if not delays:
        return "the views had nothing to take in"
    return (
        f"{len(delays)} epochs were in the views after {statistics.median(delays):.2f} s (p50), "
        f"after {max(delays):.2f} s at most"
    )


def _progress(query: StreamingQuery) -> dict[str, Any] | None:
    """Return what the last micro-batch with rows did."""
    return next((batch for batch in reversed(query.recentProgress) if batch["numInputRows"]), None)


def _told(progress: dict[str, Any] | None, files: Sequence[Path]) -> str:
    if progress is None:
        return "  starting"
    file = files[progress["batchId"]]
    seconds = progress["durationMs"]["triggerExecution"] / 1000
    return (
        f"  {file.stem}  {progress['batchId'] + 1:3}/{len(files)}"
        f"  {progress['numInputRows']:6,} changes in {seconds:4.2f} s"
    )


def _show(line: str, in_place: bool) -> None:
    if in_place:
        columns = shutil.get_terminal_size().columns  # a line that wraps could not be taken back
        print(f"\r{line[: columns - 1]}\x1b[K", end="", flush=True)
    else:
        print(line, flush=True)
