"""The laws of the activity of a store."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from relstate.connector.figures.activity import INTERVALS, activity, activity_of
from relstate.storage import Entry, Store, StoreState
from relstate.storage import RefreshFigures as Figures
from support.refreshes import refreshed
from support.views import new_view, progressed, refresh, view_rows


def test_writes_and_refreshes_are_counted_apart(store: Store) -> None:
    """Rows of users' tables are written, rows of views refreshed; index entries are neither."""
    store.create_table("t", "k BIGINT, n BIGINT", primary_key=["k"])
    store.create_index("t", "i", ["n"])
    store.write("t", pa.table({"k": [1, 2, 3], "n": [1, 2, 3]}))
    store.view_catalog.create(new_view(store, "v", "t"))
    refresh(store, progressed(store, "v"), segments=view_rows(store, "v", 1, 2))
    store.write("t", pa.table({"k": [4], "n": [4]}))
    refreshed(store, "v", Figures(store.state.time, 1, 1, 1, 0))

    result = activity(store, store.state)

    assert result.first_epoch == 1
    assert sum(interval.epochs for interval in result.intervals) == store.epoch
    assert sum(interval.writes for interval in result.intervals) == 2
    assert sum(interval.rows for interval in result.intervals) == 4
    assert sum(interval.refreshes for interval in result.intervals) == 2
    assert sum(interval.view_rows for interval in result.intervals) == 2


@given(st.lists(st.integers(0, 253_402_300_799_999_999), min_size=1, max_size=50))
def test_intervals_are_few_and_hold_every_epoch(times: list[int]) -> None:
    """Whatever the times are, also if they go back: equal intervals, each epoch in one."""
    entries = [entry(epoch, time) for epoch, time in enumerate(times, 1)]

    result = activity_of(entries, _state())

    assert len(result.intervals) <= INTERVALS
    assert sum(interval.epochs for interval in result.intervals) == len(times)
    starts = [interval.start for interval in result.intervals]
    assert all(later - start == result.width for start, later in pairwise(starts))


def entry(epoch: int, time: int) -> Entry:
    """Return a commit that changed nothing."""
    return Entry(
        commit_id=str(epoch), parent="", epoch=epoch, time=time, started=time, operation="x"
    )


def _state() -> StoreState:
    return StoreState(1, "", 0, None, 1, 1, {}, {}, {}, {}, {}, {})  # type: ignore[arg-type]
