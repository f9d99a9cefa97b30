"""The epochs at which the inputs of a view are read again, to check it.

Promises: the rows are those of the epochs that the view has taken in.
Does not know: how a view is checked.
"""

from __future__ import annotations

from relstate.storage import CatalogView, StoreState, errors


def checked_epochs(state: StoreState, view: CatalogView) -> dict[int, int]:
    """Return an epoch that can be read for each input of a view, by the ids of tables.

    It is the one that the view has taken in, or the latest if that has expired and the input has
    not changed since. EpochExpiredError if it has.
    """
    return {
        table_id: _checked_epoch(state, view, table_id, epoch)
        for table_id, epoch in view.progress.inputs
    }


def _checked_epoch(state: StoreState, view: CatalogView, table_id: int, epoch: int) -> int:
    if epoch >= state.oldest_epoch:
        return epoch
    if not state.has_changed(table_id, epoch):
        return state.epoch
    name, table = state.name_of(view.view_id), state.name_of(table_id)
    raise errors.EpochExpiredError(
        f"view {name!r} shows {table!r} as of epoch {epoch}, which has expired, and {table!r} has "
        f"changed since: refresh the view, then check it"
    )
