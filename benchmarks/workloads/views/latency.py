"""How soon a view that follows its tables shows a change."""

from __future__ import annotations

import time
from collections.abc import Iterator

from relstate.connector.sql.database import Database

from ...figure import Comparison, Figure, Samples
from ...flights import Changes
from ...views import VIEWS, followed
from ...workbench import Workbench

_CHANGES = 1000
_LEAST_PART = 20
# Seconds between two looks at how far a view is, and after which it is given up.
_POLL = 0.002
_PATIENCE = 120.0


def latency(bench: Workbench) -> Iterator[Figure]:
    """Measure from before a commit of changes until a read of every followed view has them.

    The stream has no trigger interval; each view is followed alone, then all together.
    """
    database, changes = bench.once(followed)
    database.store.compact()
    count = max(min(_CHANGES, bench.size.rows // _LEAST_PART), 1)
    for names in (*((name,) for name in VIEWS), tuple(VIEWS)):
        yield Figure(
            workload="view-latency",
            case=f"{' and '.join(names)}: {count:,} of {bench.size.rows:,} rows",
            unit="ms",
            samples=Samples(tuple(_streamed(bench, database, changes, names, count))).scaled(1e3),
            comparison=Comparison.ALONE,
            against="",
            asked=1000,
        )


def _streamed(
    bench: Workbench, database: Database, changes: Changes, names: tuple[str, ...], count: int
) -> list[float]:
    stream = database.stream(names)
    try:
        stream.processAllAvailable()
        uncounted = max(bench.size.batches // 3, 1)
        found = [
            _shown(database, changes, names, count) for _ in range(uncounted + bench.size.batches)
        ]
        assert stream.isActive
        return found[uncounted:]
    finally:
        stream.stop()


def _shown(database: Database, changes: Changes, names: tuple[str, ...], count: int) -> float:
    """Return how long it takes from the begin of a commit until all views reflect it."""
    store = database.store
    start = time.perf_counter()
    epoch = changes.commit(store, count)
    while time.perf_counter() - start < _PATIENCE:
        if all(store.state.view(name).progress.reflects >= epoch for name in names):
            return time.perf_counter() - start
        time.sleep(_POLL)
    raise TimeoutError(f"{names} do not reflect epoch {epoch} after {_PATIENCE:.0f} seconds")
