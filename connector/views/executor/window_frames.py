"""The rows over which window functions are computed: frames, and runs from row to row.

Does not know: functions, or which rows are computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .rowkeys import Codes, Rows, number_runs, offsets_in_runs

Mask = NDArray[np.bool_]
Columns = Mapping[str, pa.Array]


@dataclass(frozen=True, slots=True)
class Frames:
    """The frames of some rows: those from ``starts`` up to, not including, ``stops``.

    ``rows``: the rows that they are of. An empty frame starts and stops at one row.
    """

    rows: Rows
    starts: Rows
    stops: Rows

    @property
    def sizes(self) -> Rows:
        """How many rows each frame has."""
        return self.stops - self.starts


@dataclass(frozen=True, slots=True)
class RowRuns:
    """Runs of consecutive rows of a partition, and what is known of the row before each.

    ``runs``: the run of each row, ascending from 0. ``places``: a number for each row, ascending;
    rows that tie have one. ``carry``: the stored columns of the row before each run; NULLs where
    it is at the start of its partition, as ``is_first`` says.
    """

    runs: Codes
    places: Codes
    carry: Columns
    is_first: Mask

    @property
    def starts(self) -> Rows:
        """The first row of each row's run."""
        return np.arange(len(self.runs)) - offsets_in_runs(self.runs)

    @property
    def place_starts(self) -> Rows:
        """For each row the first that ties with it."""
        return np.arange(len(self.places)) - offsets_in_runs(self.places)

    @property
    def place_stops(self) -> Rows:
        """For each row the one after the last that ties with it."""
        numbers = number_runs(self.places)
        return np.cumsum(np.bincount(numbers))[numbers] if len(numbers) else numbers
