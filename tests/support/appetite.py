"""A program that writes and reads a table and prints how much memory of its own that took.

    python -m support.appetite table <store> <rows> <bytes of a string> <rows of a batch>
    python -m support.appetite "state table" <store> ...

It prints JSON: the peak of RssAnon, in MiB above what the imports took, while it writes, scans,
and scans in key order, or while it writes the rows to a strict state table and commits them. Maps
of files are the kernel's and do not count.
"""

from __future__ import annotations

import json
import random
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa

from relstate.storage import Proposal, Store

from .stores import unsynced

_SECONDS_BETWEEN_LOOKS = 0.002


def own_memory() -> float:
    """Return this process's RssAnon in MiB."""
    (line,) = (
        line for line in Path("/proc/self/status").read_text().splitlines() if "RssAnon" in line
    )
    return int(line.split()[1]) / 1024


@contextmanager
def watched(peaks: dict[str, float], name: str, imports: float) -> Iterator[None]:
    """Note the most memory, above that of the imports, while a block runs."""
    is_over = threading.Event()
    peaks[name] = 0.0

    def look() -> None:
        while not is_over.wait(_SECONDS_BETWEEN_LOOKS):
            peaks[name] = max(peaks[name], own_memory() - imports)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def batches(rows: int, width: int, size: int) -> Iterator[pa.RecordBatch]:
    """Yield rows in no order of their keys; strings differ, so that nothing is shared."""
    letters = random.Random(5).randbytes(width + size).hex()
    for start in range(0, rows, size):
        count = min(size, rows - start)
        keys = (np.arange(start, start + count) * 7919) % rows
        texts = [letters[at : at + width] for at in range(count)]
        yield pa.record_batch({"k": pa.array(keys), "v": pa.array(texts, pa.string())})


def state_table_peaks(path: str, rows: int, width: int, size: int) -> dict[str, float]:
    """Write the rows to a strict state table, commit them, and return the peaks."""
    peaks: dict[str, float] = {}
    imports = own_memory()
    with Store.create(path, vnode_count=16, environment=unsynced(path)) as store:
        store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
        state = store.state_table("t", strict=True)
        with watched(peaks, "write", imports):
            for batch in batches(rows, width, size):
                state.write(batch)
        with watched(peaks, "commit", imports):
            state.commit()
        assert store.table("t").count() == rows
    return peaks


def table_peaks(path: str, rows: int, width: int, size: int) -> dict[str, float]:
    """Write the rows, read them in two ways, and return the peaks."""
    peaks: dict[str, float] = {}
    imports = own_memory()
    with Store.create(path, vnode_count=16, environment=unsynced(path)) as store:
        store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
        with watched(peaks, "write", imports):
            writer = store.jobs.write_target("t").open(store.environment)
            for batch in batches(rows, width, size):
                writer.write(batch)
            segments = writer.finish()
        started = store.environment.now()
        store.jobs.commit(Proposal(operation="write", started=started, segments=segments))
        with watched(peaks, "scan", imports):
            assert sum(batch.num_rows for batch in store.table("t").scan()) == rows
        with watched(peaks, "scan in order", imports):
            assert sum(batch.num_rows for batch in store.table("t").scan(ordered=True)) == rows
    return peaks


if __name__ == "__main__":
    peaks_of = {"table": table_peaks, "state table": state_table_peaks}[sys.argv[1]]
    print(json.dumps(peaks_of(sys.argv[2], *map(int, sys.argv[3:]))))
