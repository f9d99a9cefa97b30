"""Where refreshes run: in the driver's process, in a job of Spark, or first here and then there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from relstate.connector.views import local_run

IN_DRIVER = local_run.LOCAL_ROWS
IN_JOB = -1
# Some runs in the driver are given up halfway, and done again by a job.
IN_EITHER = 12


@contextmanager
def local_rows(most: int) -> Iterator[None]:
    """Let refreshes of at most so many rows run in the driver's process.

    Their operators return at most so many, too.
    """
    before = local_run.LOCAL_ROWS, local_run.OUTPUT_ROWS
    local_run.LOCAL_ROWS = local_run.OUTPUT_ROWS = most
    try:
        yield
    finally:
        local_run.LOCAL_ROWS, local_run.OUTPUT_ROWS = before
