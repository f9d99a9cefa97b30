"""The times at which rows of a table, or parts of its rows, expire: file by file.

A file never changes, so its next times are read once and remembered, a limited number of them.

Promises: what has been replaced or deleted by a newer file may count; what is there always does.
Does not know: rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..environment import Environment
from ..log.sequenced_segment import SequencedSegment
from ..segment.key import Kind
from ..segment.registry import registry
from ..table.encoding import Encoding
from ..table.header import NEVER, Headers
from ..table.run import file_source

_LEAVES = 2048
# The times of a file that are remembered at once.
_MOST_TIMES = 1 << 16


@dataclass(frozen=True, slots=True)
class _NextTimes:
    """All times of a file after ``after`` and up to ``last``, ascending. Microseconds."""

    after: int
    last: int
    times: NDArray[np.int64]


class Expiries:
    """The times at which entries in files of one store expire. Safe between threads."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        # By table: by the names of its files.
        self._known: dict[int, dict[str, _NextTimes]] = {}

    def next_time(
        self, encoding: Encoding, segments: Sequence[SequencedSegment], time: int
    ) -> int | None:
        """Return the first time after ``time`` at which something in a table may expire.

        ``segments``: all files of the table. Times are in microseconds since 1970; None if nothing
        more expires. CorruptionError for a damaged file.
        """
        # A copy: another thread may add to it meanwhile.
        times_by_segment = dict(self._known.get(encoding.table_id, {}))
        names = {segment.record.name for segment in segments}
        self._known[encoding.table_id] = {
            name: times for name, times in times_by_segment.items() if name in names
        }
        times = (self._next_in(encoding, segment, time) for segment in segments)
        first = min(times, default=NEVER)
        return None if first == NEVER else first

    def expiring(
        self, encoding: Encoding, segments: Sequence[SequencedSegment], after: int, last: int
    ) -> tuple[SequencedSegment, ...]:
        """Return the files in which something expires after one time and up to another."""
        return tuple(
            segment for segment in segments if self._next_in(encoding, segment, after) <= last
        )

    def _next_in(self, encoding: Encoding, segment: SequencedSegment, time: int) -> int:
        """Return the first time after ``time`` in a file, `NEVER` if there is none."""
        if not segment.record.expiring(encoding.table_id):
            return NEVER
        times_by_segment = self._known.setdefault(encoding.table_id, {})
        next_times = times_by_segment.get(segment.record.name)
        if next_times is None or not next_times.after <= time < next_times.last:
            next_times = self._read(encoding, segment, time)
            times_by_segment[segment.record.name] = next_times
        position = int(np.searchsorted(next_times.times, time, side="right"))
        return int(next_times.times[position]) if position < len(next_times.times) else NEVER

    def _read(self, encoding: Encoding, segment: SequencedSegment, time: int) -> _NextTimes:
        file = registry.open(self._environment, segment.record)
        bounds = encoding.vnode_bounds(range(encoding.vnode_count))
        times, last = np.empty(0, np.int64), NEVER
        for block in file_source(file, bounds, _LEAVES, False):
            headers = Headers(block)
            expiries = headers.expiries[headers.kinds != Kind.DELETE]
            later = expiries[(expiries > time) & (expiries < last)]
            times = np.union1d(times, later)
            if len(times) > _MOST_TIMES:
                times = times[:_MOST_TIMES]
                last = int(times[-1])
        return _NextTimes(time, last, times)
