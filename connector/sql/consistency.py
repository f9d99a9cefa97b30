"""One epoch of tables for a query that reads both tables and views of them.

A view reflects the epoch of tables up to which it was refreshed; the tables themselves may be
further. Read at the epoch that the views reflect, tables and views tell of one moment.

Promises: what is read together was true together, or the query is refused.
Does not know: queries.
"""

from __future__ import annotations

from collections.abc import Iterable

from relstate.storage import Store, StoreState, errors


def consistent_epochs(store: Store, state: StoreState, table_ids: Iterable[int]) -> dict[int, int]:
    """Return at which epoch each of some tables and views is read, so that all tell of one moment.

    Nothing where there is no view among them. EpochNotFoundError where the views do not reflect
    one epoch.
    """
    read = set(table_ids)
    views = sorted(read & state.views.keys())
    if not views:
        return {}
    epoch = max(state.views[view_id].progress.reflects for view_id in views)
    for view_id in views:
        behind = _behind(store, state, view_id, epoch)
        if behind is not None:
            names = ", ".join(state.name_of(one) for one in views)
            below = f", for {state.name_of(behind)!r}, which it reads, is not of that epoch"
            why = "" if behind == view_id else below
            raise errors.EpochNotFoundError(
                f"the views {names} do not reflect one epoch of their tables: "
                f"{state.name_of(view_id)!r} is not up to date with epoch {epoch}{why}. Refresh "
                "them together; a view that cannot be computed stays behind, with all that read "
                "it, and the error of the refresh says what to put right"
            )
    return {one: state.epoch if one in state.views else epoch for one in read}


def _behind(store: Store, state: StoreState, view_id: int, epoch: int) -> int | None:
    """Return None if a view, as it is at a state, is what its SELECT says of tables at an epoch.

    If not, the view, among it and those that it reads, whose inputs are not as it took them in.
    """
    progress = state.views[view_id].progress
    if progress.reflects == epoch:
        return None
    for table_id, seen in progress.inputs:
        is_view = table_id in state.views
        if is_view and (found := _behind(store, state, table_id, epoch)) is not None:
            return found
        last = state.epoch if is_view else epoch
        if seen > last or any(store.data_epochs(table_id, seen, last)):
            return view_id
    return None
