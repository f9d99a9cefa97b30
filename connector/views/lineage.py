"""Which views read which tables and views, and in which order they are refreshed.

Promises: functions of a store's state; a view never comes before one that it reads.
Does not know: plans, or how views are refreshed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from relstate.storage import StoreState


def view_ids(state: StoreState, names: Iterable[str] | None = None) -> tuple[int, ...]:
    """Return the ids of views by their names, by default of all, and of their replacements.

    ViewNotFoundError.
    """
    if names is None:
        return tuple(sorted(state.views))
    views = [state.view(name) for name in names]
    replacements = [state.replacement_of(view.view_id) for view in views]
    return tuple(view.view_id for view in (*views, *filter(None, replacements)))


def is_replacement(state: StoreState, view_id: int) -> bool:
    """Return whether a view is to take the place of another one."""
    return state.views[view_id].definition.replaces is not None


def inputs_of(state: StoreState, view_id: int) -> tuple[int, ...]:
    """Return the ids of the tables and views that a view reads."""
    return tuple(read.table_id for read in state.views[view_id].definition.inputs)


def upstream(state: StoreState, views: Iterable[int]) -> frozenset[int]:
    """Return some views and all views that they read, directly or through others."""
    visited: set[int] = set()
    remaining = list(views)
    while remaining:
        view_id = remaining.pop()
        if view_id not in visited:
            visited.add(view_id)
            remaining += [i for i in inputs_of(state, view_id) if i in state.views]
    return frozenset(visited)


def levels(state: StoreState, views: Collection[int]) -> list[list[int]]:
    """Return some views, by ids, in levels: those of one read only tables and earlier levels."""
    depths: dict[int, int] = {}
    for view_id in sorted(views):
        _depth(state, view_id, views, depths)
    by_level: list[list[int]] = [[] for _ in range(max(depths.values(), default=-1) + 1)]
    for view_id in sorted(depths):
        by_level[depths[view_id]].append(view_id)
    return by_level


def _depth(state: StoreState, view_id: int, views: Collection[int], depths: dict[int, int]) -> int:
    if view_id not in depths:
        inputs = [i for i in inputs_of(state, view_id) if i in views]
        depths[view_id] = 1 + max((_depth(state, i, views, depths) for i in inputs), default=-1)
    return depths[view_id]


def has_pending_changes(state: StoreState, view_id: int) -> bool:
    """Return whether a view is not populated, or has changes of its inputs to take in.

    A replacement always has: to take the place of its view.
    """
    progress = state.views[view_id].progress
    if not progress.is_populated or is_replacement(state, view_id):
        return True
    return any(state.has_changed(*read) for read in progress.inputs)


def is_behind(state: StoreState, views: Iterable[int], time: int) -> bool:
    """Return whether some views, or views upstream of them, are to be refreshed.

    ``time``: the present time in microseconds since 1970, which may change a view alone.
    """
    return any(
        has_pending_changes(state, view_id) or state.views[view_id].progress.is_due(time)
        for view_id in upstream(state, views)
    )
