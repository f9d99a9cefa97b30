"""The latency of a small commit without Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import lmdb

from ..figure import Comparison, Figure
from ..turns import Run, in_turns, seconds
from ..workbench import Workbench, new_table

_COMMITS = 20
_ENTRY_BYTES = 700


def commit(bench: Workbench) -> Iterator[Figure]:
    """Measure the insert of one row and its commit, in milliseconds."""
    folder = Path(bench.folder())
    with bench.store() as store:
        new_table(store, "small")
        table = store.state_table("small")

        def ours() -> None:
            table.insert((store.epoch, 0, 0.0, None, "thirteen char"))
            table.commit()

        samples = in_turns(_typical(ours), _typical(lambda: _bare_commit(folder)), bench.size.turns)
    yield Figure(
        workload="commit",
        case="1 row",
        unit="ms",
        samples=samples.scaled(1e3),
        comparison=Comparison.TIME,
        against="an LMDB file of one entry, and a log entry linked to its name, as durable as ours",
    )


def _typical(action: Callable[[], object]) -> Run:
    """Return a run that does ``action`` many times and measures the median of its seconds."""
    run = seconds(action)
    return lambda: median(run() for _ in range(_COMMITS))


def _bare_commit(folder: Path) -> None:
    """Make an LMDB file of one entry durable, then a small file under its name."""
    segment, written, entry = folder / "segment", folder / "written", folder / "entry"
    file = lmdb.open(str(segment), subdir=False, lock=False, sync=False, map_size=1 << 20)
    with file.begin(write=True) as transaction:
        transaction.put(b"key", b"value")
    file.close()
    _sync(segment)
    _sync(folder)
    written.write_bytes(b"x" * _ENTRY_BYTES)
    _sync(written)
    entry.hardlink_to(written)
    _sync(folder)
    for path in (segment, written, entry):
        path.unlink()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
