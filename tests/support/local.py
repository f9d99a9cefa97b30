"""Where refreshes run: in the driver's process, in a job of Spark, or first here and then there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from relstate.connector.views import local_run, refresh

IN_DRIVER = local_run.LOCAL_ROWS
IN_JOB = -1
# Some runs in the driver are given up halfway, and done again by a job.
IN_EITHER = 12


@contextmanager
def local_rows(most: int, *, may_be_full: bool = False) -> Iterator[None]:
    """Let refreshes of at most so many rows run in the driver's process.

    Their operators return at most so many, too. ``may_be_full``: whether others may be full
    refreshes; a few changes of a test are soon a large share of its rows.
    """
    with ExitStack() as stack:
        for bound in ("LOCAL_ROWS", "OUTPUT_ROWS"):
            stack.enter_context(patch.object(local_run, bound, most))
        if not may_be_full:
            stack.enter_context(patch.object(refresh, "can_be_full", lambda *_, **__: False))
        yield
