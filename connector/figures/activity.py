"""What was committed over time: the latest epochs in equal intervals.

Promises: a bounded number of log entries is read, however long the log is.
Does not know: names of tables that were dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from relstate.storage import Entry, Store, StoreState

EPOCHS = 2000
"""How many of the latest epochs are looked at."""
INTERVALS = 60
"""In how many intervals at most they are counted."""

_SECOND = 1_000_000
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_WIDTHS = tuple(
    count * unit
    for unit, counts in (
        (_SECOND, (1, 2, 5, 10, 30)),
        (_MINUTE, (1, 2, 5, 10, 30)),
        (_HOUR, (1, 2, 6, 12)),
        (_DAY, (1, 2, 7, 30, 365, 73_000)),
    )
    for count in counts
)
"""The lengths that an interval may have, in microseconds."""

REFRESH = "refresh"


@dataclass(frozen=True, slots=True)
class Interval:
    """What was committed from ``start`` on, in microseconds since 1970.

    ``writes``: commits that changed rows of users' tables, and ``rows`` how many entries they
    wrote. ``refreshes``: those that brought views forward, and ``view_rows`` the changes of the
    rows of views. ``others``: maintenance and changes of the catalog.
    """

    start: int
    writes: int = 0
    rows: int = 0
    refreshes: int = 0
    view_rows: int = 0
    others: int = 0

    @property
    def epochs(self) -> int:
        """How many commits there were."""
        return self.writes + self.refreshes + self.others


@dataclass(frozen=True, slots=True)
class Activity:
    """The latest epochs from ``first_epoch`` on, in intervals of ``width`` microseconds."""

    first_epoch: int
    width: int
    intervals: tuple[Interval, ...]

    @property
    def minutes(self) -> float:
        """How many minutes an interval has."""
        return self.width / _MINUTE


def activity(store: Store, state: StoreState) -> Activity:
    """Return the activity of a store up to a state. Reads at most `EPOCHS` entries of its log."""
    return activity_of(list(islice(store.history(), EPOCHS)), state)


def activity_of(entries: Sequence[Entry], state: StoreState) -> Activity:
    """Return the activity that entries of a log show, at least one; a pure function."""
    first, last = min(entry.time for entry in entries), max(entry.time for entry in entries)
    width = next((w for w in _WIDTHS if (last - first) // w < INTERVALS - 1), _WIDTHS[-1])
    start = first - first % width
    groups: dict[int, list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.time - start) // width, []).append(entry)
    count = min((last - start) // width + 1, INTERVALS)
    views = state.views.keys()
    hidden = {
        table_id for view in state.views.values() for table_id in view.definition.table_ids[1:]
    }
    hidden |= {
        index.table_id for table in state.tables.values() for index in table.definition.indexes
    }
    intervals = (
        _interval(start + number * width, groups.get(number, ()), views, hidden)
        for number in range(count)
    )
    return Activity(min(entry.epoch for entry in entries), width, tuple(intervals))


def _interval(
    start: int, entries: Iterable[Entry], views: Iterable[int], hidden: set[int]
) -> Interval:
    writes = rows = refreshes = view_rows = others = 0
    for entry in entries:
        written = rows_by_table(entry)
        in_views = sum(written.get(view_id, 0) for view_id in views) if written else 0
        if entry.operation == REFRESH:
            refreshes += 1
            view_rows += in_views
        elif entry.data_change and (written or entry.based_tables):
            writes += 1
            rows += sum(count for table_id, count in written.items() if table_id not in hidden)
        else:
            others += 1
    return Interval(start, writes, rows, refreshes, view_rows, others)


def rows_by_table(entry: Entry) -> Mapping[int, int]:
    """Return how many entries a commit wrote, deletes included, by the id of the table."""
    rows: dict[int, int] = {}
    for record in entry.added:
        for table in record.tables:
            rows[table.table_id] = rows.get(table.table_id, 0) + table.rows
    return rows
