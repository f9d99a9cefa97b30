"""The rate of a full compaction."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from relstate.storage import Store

from ..figure import Comparison, Figure
from ..turns import in_turns, seconds
from ..workbench import Workbench

_COPY_BYTES = 8 << 20


def compaction(bench: Workbench) -> Iterator[Figure]:
    """Measure the merge of eight large files to one per shard, in bytes of input a second."""
    store = bench.filled
    folder = Path(store.path) / "segments"
    files = [
        folder / f"{segment.record.name}.lmdb" for segment in store.read_plan("eight").segments
    ]
    size = sum(file.stat().st_size for file in files)
    copies = Path(bench.folder())
    samples = in_turns(
        seconds(lambda: _merge(store)),
        seconds(lambda: _copy(files, copies / "copy")),
        bench.size.turns,
    )
    yield Figure(
        workload="compaction",
        case=f"{bench.size.rows:,} rows in {len(files)} segments",
        unit="MB/s",
        samples=samples.rates(size / 1e6),
        comparison=Comparison.RATE,
        against="a plain copy of the same files, as durable",
    )


def _merge(store: Store) -> None:
    """Write what a compaction would commit, durably, and remove it again."""
    job = store.jobs.compaction_job("eight")
    assert job is not None
    for record in job.run(range(job.parts)):
        (Path(store.path) / "segments" / f"{record.name}.lmdb").unlink()


def _copy(files: Sequence[Path], copy: Path) -> None:
    """Copy files durably, one after the other, and remove each copy."""
    for file in files:
        with file.open("rb") as source, copy.open("wb") as target:
            while piece := source.read(_COPY_BYTES):
                target.write(piece)
            target.flush()
            os.fsync(target.fileno())
        copy.unlink()
