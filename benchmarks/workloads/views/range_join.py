"""Refreshes of a join by a range, beside Spark's recompute."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import relstate
from relstate.storage import Store

from ... import bands
from ...figure import Comparison, Figure, Samples
from ...turns import Run, seconds
from ...workbench import Workbench

_POINTS = 1_000_000
_CHANGES = 1000
_LEAST_PART = 10
_QUERY = (
    "SELECT id, band, value - low AS offset FROM points JOIN bands ON value BETWEEN low AND high"
)
# Spark compares all pairs, which takes minutes: it is measured over one band of so many.
_PART = 10


def range_join(bench: Workbench) -> Iterator[Figure]:
    """Measure refreshes of a join of points with bands of values, after changes of either.

    A refresh may take a twentieth of the recompute, of which a tenth is measured: half of that.
    """
    points = max(min(bench.size.rows, _POINTS), bands.POINTS_A_BAND)
    with bench.store() as store:
        bands.fill(store, points)
        database = relstate.connect(bench.spark, store.path)
        database.sql(f"CREATE MATERIALIZED VIEW banded AS {_QUERY}")
        changes = bands.Changes(points)
        band_count = points // bands.POINTS_A_BAND
        refresh = seconds(lambda: database.refresh("banded"))
        part = database.sql(f"{_QUERY} WHERE band % {_PART} = 0")
        recomputed = seconds(part.write.format("noop").mode("overwrite").save)()
        for name, size, commit in (
            ("points", points, changes.commit_points),
            ("bands", band_count, changes.commit_bands),
        ):
            count = max(min(_CHANGES, size // _LEAST_PART), 1)
            store.compact()
            run = _after(store, commit, count, refresh)
            run()
            refreshed = tuple(run() for _ in range(bench.size.turns))
            samples = Samples(refreshed, (recomputed,) * len(refreshed))
            yield Figure(
                workload="view-range-join",
                case=f"{count:,} {name} changed; {points:,} points, {band_count:,} bands",
                unit="ms",
                samples=samples.scaled(1e3),
                comparison=Comparison.TIME,
                against=f"one run of Spark's batch of the view's SELECT for one band of {_PART}, "
                "its rows dropped",
                asked=_PART / 20,
            )


def _after(store: Store, commit: Callable[[Store, int], None], count: int, run: Run) -> Run:
    """Return a run which commits changes first."""

    def changed() -> float:
        commit(store, count)
        return run()

    return changed
