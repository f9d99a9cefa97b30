"""The layout of a store's live files: which lie over which, and which may be merged.

A *cell* is one table's part of one shard; a file has rows in some cells. Of the files with rows in
one cell that of the greater place hides the others. The files of a merge leave, and what comes of
them takes the place of the newest of them. So a merge is sound if none of the files that stay has
been passed: in no cell does one lie over the oldest of the merged files there, and not above the
place that all of them take.

Two files of one place came of one merge: they share no key, but may share a cell. A merge may take
the upper one of an order to another place, and so counts both as beneath each other.

Promises: pure functions of a state. Does not know: what is worth merging (policy.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ..log.entry import RESERVED_PREFIX, TableDefinition
from ..log.state import PlacedSegment, StoreState

Cell: TypeAlias = tuple[int, int]
"""A table's id and the number of a shard."""
Place: TypeAlias = tuple[int, int]
"""The epoch and the rank that order the versions of a row."""


@dataclass(frozen=True, slots=True)
class File:
    """A live segment: its place, its size in bytes, and the cells in which its rows are visible.

    ``has_deletes``: whether there are deletes in it that a merge of all files would drop.
    """

    name: str
    place: Place
    size: int
    cells: frozenset[Cell]
    has_deletes: bool = False

    @property
    def shards(self) -> frozenset[int]:
        """The shards in which it has visible rows."""
        return frozenset(shard for _, shard in self.cells)

    @property
    def is_wide(self) -> bool:
        """Whether it has rows in more than one shard."""
        return len(self.shards) > 1


@dataclass(frozen=True, slots=True)
class Component:
    """Tables that share files, and those files, the oldest first: compacted together.

    ``needs_base``: whether there is a table whose versions only fold from the oldest one up.
    """

    tables: tuple[TableDefinition, ...]
    files: tuple[File, ...]
    needs_base: bool

    @property
    def table_ids(self) -> tuple[int, ...]:
        """The ids of the tables."""
        return tuple(table.table_id for table in self.tables)


def components(state: StoreState, tables: Collection[int] | None = None) -> list[Component]:
    """Return the components that hold some tables, by default all, which have rows."""
    wanted = state.segments_by_table.keys() if tables is None else tables
    rest = {table_id for table_id in wanted if table_id in state.segments_by_table}
    found = []
    while rest:
        together = _connected(state, min(rest))
        rest -= together
        found.append(_component(state, together))
    return found


def _connected(state: StoreState, table_id: int) -> set[int]:
    """Return the tables that are reached from one by shared segments."""
    found, rest = set[int](), {table_id}
    while rest:
        reached = {
            other
            for one in rest
            for placed in state.segments_by_table[one]
            for other in _visible_in(state, placed)
        }
        found |= rest
        rest = reached - found
    return found


def _visible_in(state: StoreState, placed: PlacedSegment) -> list[int]:
    """Return the tables with visible rows in a segment."""
    ids = (part.table_id for part in placed.record.tables)
    return [
        one for one in ids if one in state.tables and state.tables[one].base_epoch <= placed.epoch
    ]


def _component(state: StoreState, table_ids: Iterable[int]) -> Component:
    tables = {table_id: state.tables[table_id].definition for table_id in sorted(table_ids)}
    held: dict[str, tuple[PlacedSegment, set[int]]] = {}
    for table_id in tables:
        for placed in state.segments_by_table[table_id]:
            held.setdefault(placed.name, (placed, set()))[1].add(table_id)
    files = [_file(placed, ids, tables) for placed, ids in held.values()]
    return Component(
        tuple(tables.values()),
        tuple(sorted(files, key=lambda file: (file.place, file.name))),
        any(map(_needs_base, tables.values())),
    )


def _file(placed: PlacedSegment, visible: set[int], tables: Mapping[int, TableDefinition]) -> File:
    parts = [part for part in placed.record.tables if part.table_id in visible]
    cells = frozenset(
        (part.table_id, shard)
        for part in parts
        for shard, size in enumerate(part.shard_bytes)
        if size
    )
    # Those of a table with a version column stay for a time that only they know.
    has_deletes = any(
        part.deletes and tables[part.table_id].properties.version_column is None for part in parts
    )
    return File(placed.name, (placed.epoch, placed.rank), placed.record.size, cells, has_deletes)


def _needs_base(definition: TableDefinition) -> bool:
    properties = definition.properties
    return properties.merge == "partial" and properties.version_column is not None


def is_internal(definition: TableDefinition) -> bool:
    """Return whether a table is relstate's own: its rows share no new file with users' rows."""
    return definition.name.lower().startswith(RESERVED_PREFIX)


def place_of(inputs: Iterable[File]) -> Place:
    """Return the place that what comes of a merge takes."""
    return max(file.place for file in inputs)


def is_sound(files: Iterable[File], inputs: Sequence[File]) -> bool:
    """Return whether merging ``inputs``, some of ``files``, keeps every version in its order."""
    target = place_of(inputs)
    lowest = _lowest(inputs)
    names = {file.name for file in inputs}
    return not any(
        lowest[cell] < file.place <= target
        for file in files
        if file.name not in names
        for cell in file.cells & lowest.keys()
    )


def bottom_cells(files: Iterable[File], inputs: Sequence[File]) -> frozenset[Cell]:
    """Return the cells of a sound merge beneath which nothing older of them remains."""
    lowest = _lowest(inputs)
    names = {file.name for file in inputs}
    covering = {
        cell
        for file in files
        if file.name not in names
        for cell in file.cells & lowest.keys()
        if file.place <= lowest[cell]
    }
    return frozenset(lowest.keys() - covering)


def _lowest(inputs: Iterable[File]) -> dict[Cell, Place]:
    """Return the place of the oldest file of some in each of their cells."""
    lowest: dict[Cell, Place] = {}
    for file in inputs:
        for cell in file.cells:
            lowest[cell] = min(file.place, lowest.get(cell, file.place))
    return lowest
