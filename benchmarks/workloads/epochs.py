"""A store after many small epochs: its files, its opening, its scan and its size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from relstate.storage import Proposal, ReadPlan, Store

from ..figure import Comparison, Figure, Samples
from ..turns import in_turns, seconds
from ..workbench import Workbench, new_table

_EPOCHS, _YOUNG = 2000, 20
_ROWS = 100
_KEYS = 1000
_TIMES = 10


def epochs(bench: Workbench) -> Iterator[Figure]:
    """Measure what is left of small epochs, over growing data and over the same thousand keys."""
    yield from _after_epochs(bench, f"growing by {_ROWS} rows", 1 << 40)
    yield from _after_epochs(bench, f"the same {_KEYS:,} keys", _KEYS)


def _after_epochs(bench: Workbench, what: str, keys: int) -> Iterator[Figure]:
    count = max(min(_EPOCHS, bench.size.rows // 2500), 2 * _YOUNG)
    case = f"{count:,} epochs, {what}"
    with bench.store() as young, bench.store() as old:
        _fill(young, _YOUNG, count * _ROWS // _YOUNG, keys)
        most = _fill(old, count, _ROWS, keys)
        yield Figure(
            "epochs: files", case, "files a shard", Samples((most,)), Comparison.ALONE, "", 12
        )
        yield _compared(bench, "open", case, (_opening(old), _opening(young)), 1.5)
        yield _compared(bench, "scan", case, (_scanning(old), _scanning(young)), 1.3)
        old.vacuum(retention=0)
        young.compact()
        live = _bytes(young, set(young.state.segments))
        yield _sized(case, _bytes(old, None), live)


def _fill(store: Store, count: int, rows: int, keys: int) -> float:
    """Commit epochs of so many rows; return the most live files a shard had after any of them."""
    new_table(store, "small", "k BIGINT NOT NULL, s STRING")
    most = 0
    for epoch in range(count):
        places = np.arange(epoch * rows, (epoch + 1) * rows, dtype=np.int64) * 7919 % keys
        writer, started = store.jobs.write_target("small").open(), store.environment.now()
        writer.write(pa.record_batch({"k": places, "s": [f"epoch {epoch:07}"] * rows}))
        store.jobs.commit(Proposal(operation="write", started=started, segments=writer.finish()))
        most = max(most, _live(store))
    return most


def _live(store: Store) -> int:
    """Return the number of live files of the shard that has the most."""
    shards = Counter(
        shard
        for segment in store.state.segments.values()
        for shard, size in enumerate(segment.record.tables[0].shard_bytes)
        if size
    )
    return max(shards.values())


def _opening(store: Store) -> Callable[[], object]:
    return lambda: [_planned(store.path) for _ in range(_TIMES)]


def _planned(path: str) -> ReadPlan:
    with Store.open(path) as store:
        return store.read_plan("small")


def _scanning(store: Store) -> Callable[[], object]:
    return lambda: [_scan(store) for _ in range(_TIMES)]


def _scan(store: Store) -> int:
    return sum(batch.num_rows for batch in store.table("small").scan())


def _bytes(store: Store, names: set[str] | None) -> int:
    """Return the bytes of some segments, or of all there are, live or not."""
    files = (Path(store.path) / "segments").iterdir()
    return sum(file.stat().st_size for file in files if names is None or file.stem in names)


def _compared(
    bench: Workbench,
    what: str,
    case: str,
    sides: tuple[Callable[[], object], Callable[[], object]],
    asked: float,
) -> Figure:
    ours, baseline = map(seconds, sides)
    return Figure(
        workload=f"epochs: {what}",
        case=case,
        unit="ms",
        samples=in_turns(ours, baseline, bench.size.turns).scaled(1e3 / _TIMES),
        comparison=Comparison.TIME,
        against=f"the same of a store in which {_YOUNG} epochs have written the same rows",
        asked=asked,
    )


def _sized(case: str, ours: int, live: int) -> Figure:
    samples = Samples((ours / 2**20,), (live / 2**20,))
    against = "the live rows, freshly compacted; all segments after a vacuum without retention"
    return Figure("epochs: size", case, "MiB", samples, Comparison.TIME, against, 2)
