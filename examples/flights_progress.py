"""The progress of a replay: what the last micro-batch did, and what is looked up meanwhile.

Promises: on a terminal one line that changes, elsewhere a line every few seconds.
Does not know: what the streaming queries do.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pyspark.sql.streaming.query import StreamingQuery

LINE_SECONDS = 5.0
LOOK_SECONDS = 1


def watch(
    queries: Sequence[StreamingQuery], files: Sequence[Path], live: Callable[[], str]
) -> None:
    """Tell of the first query, whose micro-batches are ``files``, until all have ended.

    ``live`` adds what the tables say just then. StreamingQueryException as soon as one fails.
    """
    in_place = sys.stdout.isatty()
    shown = time.monotonic()
    while any(query.isActive for query in queries):
        for query in queries:
            query.awaitTermination(LOOK_SECONDS)
        if in_place or time.monotonic() - shown >= LINE_SECONDS:
            shown = time.monotonic()
            _show(_told(queries[0], files) + live(), in_place)
    for query in queries:
        query.awaitTermination()
    _show(_told(queries[0], files) + live(), in_place)
    if in_place:
        print()


def _told(query: StreamingQuery, files: Sequence[Path]) -> str:
    progress = query.lastProgress
    if progress is None:
        return "  starting  "
    if not progress["numInputRows"]:
        return "  nothing new  "
    file = files[progress["batchId"]]
    seconds = progress["durationMs"]["triggerExecution"] / 1000
    return (
        f"  {file.stem}  {progress['batchId'] + 1:3}/{len(files)}"
        f"  {progress['numInputRows']:6,} changes in {seconds:4.2f} s  "
    )


def _show(line: str, in_place: bool) -> None:
    if in_place:
        columns = shutil.get_terminal_size().columns  # a line that wraps could not be taken back
        print(f"\r{line[: columns - 1]}\x1b[K", end="", flush=True)
    else:
        print(line, flush=True)
