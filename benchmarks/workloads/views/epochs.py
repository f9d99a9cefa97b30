"""A view that has followed its table through many small epochs: whether it grows slow."""

from __future__ import annotations

from collections.abc import Iterator

from ...figure import Comparison, Figure, Samples
from ...turns import seconds
from ...views import DELAYS, followed
from ...workbench import Workbench

_EPOCHS = 1000
# The first and the last of ten parts are compared; as many epochs as these come before.
_PARTS = 10
_CHANGES = 100
_LEAST_PART = 20
_ROWS_AN_EPOCH = 2500


def epochs(bench: Workbench) -> Iterator[Figure]:
    """Measure refreshes of the aggregate, one an epoch, by the median of the first and the last."""
    part = max(min(_EPOCHS, bench.size.rows // _ROWS_AN_EPOCH) // _PARTS, 1)
    count = max(min(_CHANGES, bench.size.rows // _LEAST_PART), 1)
    with followed(bench, DELAYS) as (database, changes):
        refreshing, found = seconds(lambda: database.refresh(DELAYS)), []
        for _ in range(part * (_PARTS + 1)):
            changes.commit(database.store, count)
            found.append(refreshing())
    yield Figure(
        workload="view-epochs",
        case=f"{part * _PARTS:,} epochs of {count} of {bench.size.rows:,} rows",
        unit="ms",
        samples=Samples(tuple(found[-part:]), tuple(found[part : 2 * part])).scaled(1e3),
        comparison=Comparison.TIME,
        against=f"the first {part} of the same refreshes, as many before them not counted",
        asked=1.3,
    )
