"""Rows that are counted, where a table is so small that this costs no more than its estimate.

Promises: a table whose files cannot be read keeps its estimate.
Does not know: how figures are shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from relstate.storage import Store, StoreState, errors, figures

MOST_ENTRIES = 100_000
"""So many stored entries are read at most, of all tables together."""
MOST_TABLES = 200
"""The rows of so many tables are counted at most."""


def with_counts(
    store: Store, state: StoreState, sizes: Sequence[figures.TableSize]
) -> tuple[figures.TableSize, ...]:
    """Return the sizes of tables with the rows of the smallest tables and views counted.

    Reads their keys, at the epoch of the state.
    """
    counted: dict[int, figures.TableSize] = {}
    left = MOST_ENTRIES
    shown = (size for size in sizes if not size.is_internal)
    for size in sorted(shown, key=lambda size: size.entries)[:MOST_TABLES]:
        left -= size.entries
        if left < 0:
            break
        counted[size.table_id] = _counted(store, state, size)
    return tuple(counted.get(size.table_id, size) for size in sizes)


def _counted(store: Store, state: StoreState, size: figures.TableSize) -> figures.TableSize:
    try:
        rows = store.at(state.epoch).table(size.name).count()
    except (errors.RelstateError, OSError):
        return size
    return replace(size, rows=rows, rows_estimated=False)
