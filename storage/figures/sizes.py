"""The sizes of the tables of a store, by the statistics that its log has.

Promises: a pure function of a state, in one pass over its segments' records, however many tables
there are. Does not know: files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..log.segment_record import TableStatistics
from ..log.state import CatalogTable, StoreState

TableKind = Literal["table", "view", "state", "index"]


@dataclass(frozen=True, slots=True)
class TableSize:
    """What is stored of one table.

    ``kind``: a user's table, the rows of a view, the state of a view, or the entries of an index.
    ``owner``: the name of the view or table that such state or entries belong to, else None.
    ``entries``: stored rows, older versions and deletes too. ``rows``: an estimate of the visible
    rows: every upsert counts as a new row, every delete as one row less. ``stored_bytes``: of keys
    and values. ``files``: the segments that are read for it. ``data_epoch``: that of its last
    change. ``rows_estimated``: False where someone has counted the rows.
    """

    name: str
    table_id: int
    kind: TableKind
    owner: str | None
    rows: int
    entries: int
    stored_bytes: int
    files: int
    data_epoch: int
    rows_estimated: bool = True

    @property
    def is_internal(self) -> bool:
        """Whether users do not read it by its own name."""
        return self.kind in ("state", "index")


def table_sizes(state: StoreState) -> tuple[TableSize, ...]:
    """Return the sizes of all tables of a store, sorted by their names.

    Costs one look at each statistic of each live segment.
    """
    statistics = _statistics_by_table(state)
    kinds = _kinds(state)
    sizes = (
        _size(table, statistics.get(table_id, ()), *kinds.get(table_id, _OF_USER))
        for table_id, table in state.tables.items()
    )
    return tuple(sorted(sizes, key=lambda size: size.name))


def table_size(state: StoreState, name: str) -> TableSize:
    """Return the size of one table. TableNotFoundError.

    Costs one look at each statistic of each of its segments.
    """
    table = state.table(name)
    table_id = table.definition.table_id
    parts = [
        part
        for segment in state.segments_of(table_id)
        for part in segment.record.tables
        if part.table_id == table_id
    ]
    return _size(table, parts, *_kinds(state).get(table_id, _OF_USER))


_OF_USER: tuple[TableKind, None] = ("table", None)


def _size(
    table: CatalogTable, parts: Sequence[TableStatistics], kind: TableKind, owner: str | None
) -> TableSize:
    return TableSize(
        table.definition.name,
        table.definition.table_id,
        kind,
        owner,
        # An entry that is not a delete adds a row, and a delete removes one.
        max(0, sum(part.rows - 2 * part.deletes for part in parts)),
        sum(part.rows for part in parts),
        sum(part.stored_bytes for part in parts),
        len(parts),
        table.data_epoch,
    )


def _statistics_by_table(state: StoreState) -> Mapping[int, list[TableStatistics]]:
    """Return the statistics of what is visible of each table, by its id."""
    statistics: defaultdict[int, list[TableStatistics]] = defaultdict(list)
    for segment in state.segments.values():
        for part in segment.record.tables:
            table = state.tables.get(part.table_id)
            if table is not None and table.base_epoch <= segment.epoch:
                statistics[part.table_id].append(part)
    return statistics


def _kinds(state: StoreState) -> Mapping[int, tuple[TableKind, str | None]]:
    """Return the kind and the owner of each table that is not a user's, by its id."""
    kinds: dict[int, tuple[TableKind, str | None]] = {}
    for view_id, view in state.views.items():
        owner = state.name_of(view.definition.replaces or view_id)
        kinds[view_id] = ("view", None if view.definition.replaces is None else owner)
        kinds |= dict.fromkeys(view.definition.table_ids[1:], ("state", owner))
    for table in state.tables.values():
        definition = table.definition
        kinds |= {index.table_id: ("index", definition.name) for index in definition.indexes}
    return kinds
