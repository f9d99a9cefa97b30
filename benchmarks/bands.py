"""The tables that range joins are measured over: points, and bands that cut their values.

The columns of a row follow from its index and a version, so that a change is another version of
the same index. Each point is in about one band. Promises: the same rows and changes whenever they
are made again.
Does not know: views.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from relstate.storage import Proposal, Store

# So many points for each band.
POINTS_A_BAND = 100
_VALUES = 1 << 40
_BATCH_ROWS = 1 << 17


def fill(store: Store, points: int) -> None:
    """Create both tables; ``points`` rows and their bands are there, and compacted."""
    store.create_table("points", "id BIGINT NOT NULL, value BIGINT", primary_key=["id"])
    columns = "band BIGINT NOT NULL, low BIGINT, high BIGINT"
    store.create_table("bands", columns, primary_key=["band"])
    bands = points // POINTS_A_BAND
    store.write("bands", _bands(np.arange(bands), bands, 0))
    writer, started = store.jobs.write_target("points").open(), store.environment.now()
    for start in range(0, points, _BATCH_ROWS):
        writer.write(_points(np.arange(start, min(start + _BATCH_ROWS, points)), 0))
    store.jobs.commit(Proposal(operation="write", started=started, segments=writer.finish()))
    store.compact()


class Changes:
    """Updates of both tables, epoch by epoch."""

    def __init__(self, points: int) -> None:
        """``points``: how many there are."""
        self._points = points
        self._version = 0
        self._random = np.random.default_rng(points)

    def commit_points(self, store: Store, count: int) -> None:
        """Commit so many points with other values, as one epoch."""
        self._version += 1
        indices = self._random.choice(self._points, count, replace=False)
        store.write("points", _points(indices, self._version))

    def commit_bands(self, store: Store, count: int) -> None:
        """Commit so many bands that have moved, as one epoch."""
        self._version += 1
        bands = self._points // POINTS_A_BAND
        indices = self._random.choice(bands, count, replace=False)
        store.write("bands", _bands(indices, bands, self._version))


def _points(indices: np.ndarray, version: int) -> pa.RecordBatch:
    numbers = indices.astype(np.uint64) * np.uint64(2654435761) + np.uint64(version * 7919)
    values = (numbers * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(24)).astype(np.int64)
    return pa.RecordBatch.from_arrays([pa.array(indices), pa.array(values)], ["id", "value"])


def _bands(indices: np.ndarray, bands: int, version: int) -> pa.RecordBatch:
    width = _VALUES // bands
    lows = indices * width + version % 5 * (width // 10)
    arrays = [pa.array(indices), pa.array(lows), pa.array(lows + width - 1)]
    return pa.RecordBatch.from_arrays(arrays, ["band", "low", "high"])
