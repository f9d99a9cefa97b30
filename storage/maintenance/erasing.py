"""What an erasure rewrites: the files that may hold rows which no reader of the newest epoch sees.

A cell, one table's part of one shard, is *clean* if its files have just the rows that are there:
their rows are all of one sequence number, so none hides another, and none of them is a delete, a
part of a row, or expires. Of the other cells all files are merged, so that only what is there
remains. So is each file that has rows of a dropped or truncated table.

Promises: after the rewrites that a state needs, files that existed at the state and hold anything
but visible rows of the tables are named by no newer epoch.
Does not know: which rows are to be forgotten, or which older epochs can still be read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..log.rules import dependants
from ..log.sequenced_segment import SequencedSegment
from ..log.state import StoreState
from .components import Cell, Component, File, SequenceNumber, components
from .policy import CUT, Merge


@dataclass(frozen=True, slots=True)
class Scope:
    """The tables that an erasure from one table concerns, by ids.

    ``tables``: the table and its quarantine, the views that read these, transitively, their state
    and quarantines, and all indexes.
    ``shards``: those of the table's shards that may hold the rows; None for all.
    """

    table_id: int
    tables: frozenset[int]
    shards: frozenset[int] | None

    @classmethod
    def of(cls, state: StoreState, table_id: int, shards: frozenset[int] | None = None) -> Scope:
        """Return the scope of an erasure from a table of a state."""
        quarantine = state.quarantine_of(table_id)
        own_ids = [table_id] if quarantine is None else [table_id, quarantine.table_id]
        tables = dependants(state, own_ids)
        indexes = {
            index.table_id for table in tables for index in state.tables[table].definition.indexes
        }
        return cls(table_id, frozenset(tables) | indexes, shards)

    def has(self, cell: Cell) -> bool:
        """Return whether rows in a cell may be concerned."""
        table_id, shard = cell
        if table_id == self.table_id and self.shards is not None:
            return shard in self.shards
        return table_id in self.tables


def concerned_files(state: StoreState, scope: Scope) -> list[File]:
    """Return the files that have rows in the cells of a scope."""
    return [
        file
        for component in components(state)
        for file in component.files
        if any(map(scope.has, file.cells))
    ]


def erasing_merges(state: StoreState, scope: Scope) -> Iterator[tuple[Component, Merge]]:
    """Yield the merges that a state needs, each with its component; they share no file."""
    for component in components(state):
        segments = {
            file.name: state.segments.find(file.name, file.shards) for file in component.files
        }
        unclean = set(_unclean_cells(component.files, segments, scope))
        chosen = {
            file.name
            for file in component.files
            if not unclean.isdisjoint(file.cells) or _has_remains(state, segments[file.name])
        }
        if chosen:
            if component.needs_base:
                chosen = set(segments)
            names = _sound(component.files, chosen)
            inputs = tuple(file for file in component.files if file.name in names)
            yield component, Merge(inputs, sum(file.size for file in inputs) > CUT)


def _has_remains(state: StoreState, segment: SequencedSegment) -> bool:
    """Return whether a file also holds rows of a table that was dropped or truncated since."""
    return len(state.tables_visible_in(segment)) < len(segment.table_ids)


def _unclean_cells(
    files: Sequence[File], segments: Mapping[str, SequencedSegment], scope: Scope
) -> Iterator[Cell]:
    """Yield the cells of a scope that are not clean, some more than once."""
    numbers: dict[Cell, SequenceNumber] = {}
    for file in files:
        for cell in filter(scope.has, file.cells):
            statistics = segments[file.name].statistics_of(cell[0])
            first = numbers.setdefault(cell, file.sequence_number)
            if (
                first != file.sequence_number
                or statistics.deletes
                or statistics.parts
                or statistics.expiring
            ):
                yield cell


def _sound(files: Sequence[File], chosen: Collection[str]) -> set[str]:
    """Return chosen files and those that their merge would overtake: see `is_sound`."""
    names = set(chosen)
    while True:
        inputs = [file for file in files if file.name in names]
        output = max(file.sequence_number for file in inputs)
        oldest = _oldest(inputs)
        overtaken = {
            file.name
            for file in files
            if file.name not in names
            and file.sequence_number <= output
            and any(oldest[cell] < file.sequence_number for cell in file.cells & oldest.keys())
        }
        if not overtaken:
            return names
        names |= overtaken


def _oldest(inputs: Sequence[File]) -> Mapping[Cell, SequenceNumber]:
    oldest: dict[Cell, SequenceNumber] = {}
    for file in inputs:
        for cell in file.cells:
            oldest[cell] = min(file.sequence_number, oldest.get(cell, file.sequence_number))
    return oldest
