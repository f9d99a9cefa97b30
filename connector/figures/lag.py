"""How far views are behind their tables: in epochs, in rows and in seconds.

Promises: at most `ENTRIES` entries of the log are read for all views together; what is behind more
than that is reported as at least so much.
Does not know: how views are refreshed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile

from relstate.connector.views.lineage import upstream
from relstate.storage import Entry, Store, StoreState

from .activity import rows_by_table

ENTRIES = 5000


@dataclass(frozen=True, slots=True)
class Lag:
    """What a view has not taken in of the changes of its tables, through other views too.

    ``epochs``: of its tables; ``rows``: the entries that they wrote; ``seconds``: since the first
    of them was committed. ``is_bounded``: there may be more of all three.
    """

    epochs: int = 0
    rows: int = 0
    seconds: float = 0.0
    is_bounded: bool = False


NO_LAG = Lag()


@dataclass(frozen=True, slots=True)
class _Change:
    epoch: int
    time: int
    rows: int


def lags(store: Store, state: StoreState) -> Mapping[int, Lag]:
    """Return the lag of each populated view of a state, by its id."""
    pending = {
        view_id: _pending_inputs(state, view_id)
        for view_id, view in state.views.items()
        if view.progress.is_populated
    }
    read_epochs = [epoch for inputs in pending.values() for epoch in inputs.values()]
    if not read_epochs:
        return dict.fromkeys(pending, NO_LAG)
    after = min(read_epochs)
    entries = list(takewhile(lambda entry: entry.epoch > after, islice(store.history(), ENTRIES)))[
        ::-1
    ]
    changes = _changes_by_table(entries)
    first = entries[0].epoch if entries else state.epoch + 1
    now = max(store.environment.now(), state.time)
    return {view_id: _lag_of(inputs, changes, first, now) for view_id, inputs in pending.items()}


def _pending_inputs(state: StoreState, view_id: int) -> Mapping[int, int]:
    """Return the tables with changes that a view lacks, and the epoch up to which it has them."""
    inputs: dict[int, int] = {}
    for upstream_id in upstream(state, [view_id]):
        for table_id, epoch in state.views[upstream_id].progress.inputs:
            if table_id not in state.views and state.has_changed(table_id, epoch):
                inputs[table_id] = min(epoch, inputs.get(table_id, epoch))
    return inputs


def _changes_by_table(entries: Sequence[Entry]) -> Mapping[int, list[_Change]]:
    changes: dict[int, list[_Change]] = {}
    for entry in entries:
        if not entry.data_change:
            continue
        rows = dict.fromkeys(entry.based_tables, 0) | dict(rows_by_table(entry))
        for table_id, count in rows.items():
            changes.setdefault(table_id, []).append(_Change(entry.epoch, entry.time, count))
    return changes


def _lag_of(
    inputs: Mapping[int, int], changes: Mapping[int, list[_Change]], first: int, now: int
) -> Lag:
    """Return the lag of a view; ``first``: the epoch of the first entry that was read."""
    missing = [
        change
        for table_id, epoch in inputs.items()
        for change in changes.get(table_id, ())
        if change.epoch > epoch
    ]
    if not missing:
        return NO_LAG
    return Lag(
        len({change.epoch for change in missing}),
        sum(change.rows for change in missing),
        max(now - min(change.time for change in missing), 0) / 1_000_000,
        any(epoch + 1 < first for epoch in inputs.values()),
    )
