"""The baseline of storage: LMDB and nothing else, over copies of a table's segments.

Copies, because LMDB refuses to open a file twice in a process.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import lmdb

from relstate.storage import ReadPlan


@contextmanager
def bare_segments(plan: ReadPlan, folder: str) -> Iterator[list[lmdb.Transaction]]:
    """Give a read transaction on a copy of every segment of a table, the newest first."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(_opened(_copy(plan.path, segment.record.name, folder), stack))
            for segment in plan.segments
        ]


def _copy(store: str, name: str, folder: str) -> Path:
    copy = Path(folder) / f"{name}.lmdb"
    if not copy.exists():
        shutil.copyfile(Path(store) / "segments" / copy.name, copy)
    return copy


def _opened(path: Path, stack: ExitStack) -> lmdb.Transaction:
    file = lmdb.open(str(path), subdir=False, readonly=True, lock=False, readahead=False)
    stack.callback(file.close)
    return file.begin()


def count_by_cursor(segments: Sequence[lmdb.Transaction]) -> int:
    """Return how many entries there are, looking at every key and value once."""
    entries = 0
    for transaction in segments:
        with transaction.cursor() as cursor:
            for _ in cursor:
                entries += 1
    return entries
