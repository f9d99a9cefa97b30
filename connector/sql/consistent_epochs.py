"""One epoch for the tables and views of a query that is asked to be consistent.

Does not know: queries.
"""

from __future__ import annotations

from collections.abc import Iterable

from relstate.storage import Store, StoreState, errors


def consistent_epochs(store: Store, state: StoreState, table_ids: Iterable[int]) -> dict[int, int]:
    """Return the epoch at which to read each of some tables and views, so that all agree.

    A view reflects the epoch of tables up to which it was refreshed, and the tables may have newer
    ones: they are read at the epoch that the views reflect. Nothing is returned if there is no view
    among them. EpochNotFoundError if the views do not reflect one epoch.
    """
    read = set(table_ids)
    views = sorted(read & state.views.keys())
    if not views:
        return {}
    epoch = max(state.views[view_id].progress.reflects for view_id in views)
    for view_id in views:
        stale = _stale_input(store, state, view_id, epoch)
        if stale is None:
            continue
        names = ", ".join(state.name_of(table_id) for table_id in views)
        reason = f", because {state.name_of(stale)!r}, which it reads, is not"
        raise errors.EpochNotFoundError(
            f"the views {names} do not reflect one epoch of their tables: "
            f"{state.name_of(view_id)!r} is not up to date with epoch "
            f"{epoch}{'' if stale == view_id else reason}. Refresh them together; if the refresh "
            "of one fails, all views that read it stay at their epoch, and the error says what to "
            "correct"
        )
    return {table_id: state.epoch if table_id in state.views else epoch for table_id in read}


def _stale_input(store: Store, state: StoreState, view_id: int, epoch: int) -> int | None:
    """Return None if a view, at a state, is what its SELECT gives over tables at an epoch.

    Otherwise the view, among it and those that it reads, whose inputs have changed since.
    """
    progress = state.views[view_id].progress
    if progress.reflects == epoch:
        return None
    for table_id, input_epoch in progress.inputs:
        is_view = table_id in state.views
        if is_view and (stale := _stale_input(store, state, table_id, epoch)) is not None:
            return stale
        last = state.epoch if is_view else epoch
        if input_epoch > last or any(store.jobs.data_epochs(table_id, input_epoch, last)):
            return view_id
    return None
