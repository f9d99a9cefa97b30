"""The layout of a store's live files: which hide rows of which, and which may be merged.

A *cell* is one table's part of one shard; a file has rows in some cells. Files are ordered by their
sequence numbers: of two files with rows in a cell, the one with the greater number hides rows of
the other. A merge replaces its inputs by files with the greatest sequence number among them. It is
sound if no remaining file is overtaken: in each cell, no such file has a number above that of the
oldest input there and not above the number of the output.

Two files with one sequence number came from one merge: they share no key, but may share a cell. A
merge may give either of them another number, so each counts as older than the other.

Promises: pure functions of a state. Does not know: which merges are worth their cost (policy.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

from relstate.vnode import cached_property

from ..log.live_segments import Manifests, contents_of
from ..log.manifest import Manifest, Shard
from ..log.names import RESERVED_PREFIX
from ..log.sequenced_segment import SequencedSegment
from ..log.state import StoreState
from ..log.table_definition import TableDefinition

Cell: TypeAlias = tuple[int, int]
"""A table's id and the number of a shard."""
SequenceNumber: TypeAlias = tuple[int, int]
"""The epoch and the rank that order the versions of a row."""

LEAST_SMALL = 3
"""So many small files of a shard are left unmerged, however many large ones there are."""
# In bytes.
_ABOVE_ANY_BUDGET = 1 << 62


class _VisibleTable(NamedTuple):
    """A table with visible rows in a file, and what a merge may do with its entries."""

    table_id: int
    drops_deletes: bool
    folds_parts: bool

    @classmethod
    def of(cls, definition: TableDefinition) -> _VisibleTable:
        properties = definition.properties
        # A delete of a table with a version column stays until its own expiry.
        return cls(definition.table_id, not properties.is_versioned, properties.packed)


@dataclass(frozen=True)
class File:
    """A live segment: its sequence number, its size in bytes, and the cells of its visible rows.

    ``has_deletes``: whether it holds deletes that a merge of all files would drop; ``has_parts``:
    whether it holds parts of rows that such a merge would fold into their rows.
    """

    name: str
    sequence_number: SequenceNumber
    size: int
    cells: frozenset[Cell]
    has_deletes: bool = False
    has_parts: bool = False

    @cached_property
    def shards(self) -> frozenset[int]:
        """The shards in which it has visible rows."""
        return frozenset(shard for _, shard in self.cells)

    @cached_property
    def is_wide(self) -> bool:
        """Whether it has visible rows in more than one shard."""
        return len(self.shards) > 1


@dataclass(frozen=True, slots=True)
class Component:
    """Tables that share files, and those files, the oldest first: compacted together.

    ``needs_base``: whether the versions of some table can only be folded from the oldest one up.
    """

    tables: tuple[TableDefinition, ...]
    files: tuple[File, ...]
    needs_base: bool

    @property
    def table_ids(self) -> tuple[int, ...]:
        """The ids of the tables."""
        return tuple(table.table_id for table in self.tables)


def components(state: StoreState, tables: Collection[int] | None = None) -> list[Component]:
    """Return the components of some tables that have rows, by default of all."""
    return _components(_Files(state, state.segments.manifests), tables)


def recent_components(state: StoreState, tables: Collection[int]) -> list[Component]:
    """Return the components of some tables as far as automatic merges look at them.

    Of a large store only the newest files of each shard are there, and those with rows of several
    shards: see `_recent_manifests`. A file that is larger than any budget takes the place of older
    neighbours: it has their cells and the greatest of their sequence numbers. So a merge of other
    files of the component is sound if all files were there, and the cells without older files are
    known.
    """
    if not state.segments.has_files:
        return components(state, tables)
    recent = _recent_manifests(state.segments.manifests, tables)
    files = _Files(state, recent, state.segments.manifests)
    return [
        # The oldest files are merged first there.
        _component(_Files(state, state.segments.manifests), component.table_ids)
        if component.needs_base
        else component
        for component in _components(files, tables)
    ]


def _recent_manifests(manifests: Manifests, tables: Collection[int]) -> Manifests:
    """Return the manifests of the files that automatic merges look at: in each shard the newest.

    They are those with files newer than the oldest file with rows of several shards; and, where a
    shard has more small files of a table than remain unmerged, as many as have so many of them.
    """
    wide = manifests.get(None, ())
    oldest = wide[0].content.segments[0].key[:2] if wide else None
    recent: dict[Shard, tuple[Manifest, ...]] = {None: wide}
    for shard, of_shard in manifests.items():
        if shard is not None:
            newer = sum(oldest is not None and part.last[:2] >= oldest for part in of_shard)
            count = max(newer, _with_small(of_shard, tables))
            recent[shard] = of_shard[len(of_shard) - count :]
    return recent


def _with_small(manifests: Sequence[Manifest], tables: Collection[int]) -> int:
    """Return how many manifests of a shard, the newest, have too many small files of each table.

    Tables that have not too many do not count.
    """
    missing: Counter[int] = Counter()
    for manifest in manifests:
        missing.update({table_id: manifest.small.get(table_id, 0) for table_id in tables})
    missing = Counter(
        {table_id: 1 + LEAST_SMALL for table_id in tables if missing[table_id] > LEAST_SMALL}
    )
    for count, manifest in enumerate(reversed(manifests)):
        if not +missing:
            return count
        missing.subtract({table_id: manifest.small.get(table_id, 0) for table_id in missing})
    return len(manifests) if missing else 0


class _Files:
    """The segments of a state in some manifests."""

    def __init__(
        self, state: StoreState, manifests: Manifests, among: Manifests | None = None
    ) -> None:
        """``among``: all manifests of the state, of which ``manifests`` are the newest."""
        self.state = state
        self._manifests = [manifest for of_shard in manifests.values() for manifest in of_shard]
        self._older = [
            manifest
            for shard, of_shard in ({} if among is None else among).items()
            for manifest in of_shard[: len(of_shard) - len(manifests.get(shard, ()))]
        ]
        self._segments: dict[int, list[SequencedSegment]] = {}

    def table_ids(self) -> set[int]:
        """Return the ids of the tables that may have rows in the segments."""
        return {table_id for manifest in self._manifests for table_id in manifest.tables}

    def of_table(self, table_id: int) -> Sequence[SequencedSegment]:
        """Return the segments with visible rows of a table."""
        table = self.state.tables.get(table_id)
        if table is None:
            return ()
        if table_id not in self._segments:
            self._segments[table_id] = [
                segment
                for content in contents_of(
                    manifest for manifest in self._manifests if table_id in manifest.tables
                )
                for segment in content.by_table[table_id]
                if segment.epoch >= table.base_epoch
            ]
        return self._segments[table_id]

    def older(self, table_ids: Collection[int]) -> Iterator[File]:
        """Yield a file in place of those of each older manifest with rows of some tables."""
        for manifest in self._older:
            assert manifest.shard is not None
            epoch, rank, name = manifest.last
            cells = frozenset(
                (table_id, manifest.shard)
                for table_id in table_ids
                if table_id in manifest.tables and self.state.tables[table_id].base_epoch <= epoch
            )
            if cells:
                yield File(name, (epoch, rank), _ABOVE_ANY_BUDGET, cells)


def _components(files: _Files, tables: Collection[int] | None) -> list[Component]:
    table_ids = files.table_ids() if tables is None else tables
    remaining = {table_id for table_id in table_ids if files.of_table(table_id)}
    components = []
    while remaining:
        connected = _connected(files, min(remaining))
        remaining -= connected
        components.append(_component(files, connected))
    return components


def _connected(files: _Files, table_id: int) -> set[int]:
    """Return the tables that are connected to a table by shared segments, itself included."""
    connected, newly_connected = set[int](), {table_id}
    while newly_connected:
        reached = {
            neighbour
            for connected_id in newly_connected
            for segment in files.of_table(connected_id)
            if len(segment.table_ids) > 1
            for neighbour in files.state.tables_visible_in(segment)
        }
        connected |= newly_connected
        newly_connected = reached - connected
    return connected


def _component(among: _Files, table_ids: Iterable[int]) -> Component:
    tables = {table_id: among.state.tables[table_id].definition for table_id in sorted(table_ids)}
    segments: dict[str, tuple[SequencedSegment, set[int]]] = {}
    for table_id in tables:
        for segment in among.of_table(table_id):
            segments.setdefault(segment.name, (segment, set()))[1].add(table_id)
    visible = {table_id: _VisibleTable.of(tables[table_id]) for table_id in tables}
    files = [
        _file(segment, tuple(visible[table_id] for table_id in sorted(ids)))
        for segment, ids in segments.values()
    ]
    files += among.older(tables)
    return Component(
        tuple(tables.values()),
        tuple(sorted(files, key=lambda file: (file.sequence_number, file.name))),
        any(map(_needs_base, tables.values())),
    )


# Every commit asks for the files of the tables that it wrote, and changes few of them: that of each
# segment is remembered, with its visible tables then, as long as there is the segment.
_known_files: WeakKeyDictionary[SequencedSegment, tuple[tuple[_VisibleTable, ...], File]] = (
    WeakKeyDictionary()
)


def _file(segment: SequencedSegment, tables: tuple[_VisibleTable, ...]) -> File:
    """Return a segment with visible rows of some tables as a file, made once."""
    known = _known_files.get(segment)
    if known is not None and known[0] == tables:
        return known[1]
    file = _new_file(segment, tables)
    _known_files[segment] = tables, file
    return file


def _new_file(segment: SequencedSegment, tables: tuple[_VisibleTable, ...]) -> File:
    visible = {table.table_id: table for table in tables}
    parts = [part for part in segment.record.tables if part.table_id in visible]
    cells = frozenset(
        (part.table_id, shard)
        for part in parts
        for shard, size in enumerate(part.shard_bytes)
        if size
    )
    has_deletes = any(part.deletes and visible[part.table_id].drops_deletes for part in parts)
    has_parts = any(part.parts and visible[part.table_id].folds_parts for part in parts)
    sequence_number = segment.epoch, segment.rank
    return File(segment.name, sequence_number, segment.record.size, cells, has_deletes, has_parts)


def _needs_base(definition: TableDefinition) -> bool:
    properties = definition.properties
    return properties.merge == "partial" and properties.is_versioned


def is_internal(definition: TableDefinition) -> bool:
    """Return whether a table is internal: its rows share no new file with users' rows."""
    return definition.name.lower().startswith(RESERVED_PREFIX)


def output_sequence_number(inputs: Iterable[File]) -> SequenceNumber:
    """Return the sequence number of the files that a merge writes."""
    return max(file.sequence_number for file in inputs)


def is_sound(files: Iterable[File], inputs: Sequence[File]) -> bool:
    """Return whether merging ``inputs``, some of ``files``, preserves the order of all versions."""
    output = output_sequence_number(inputs)
    oldest = _oldest_by_cell(inputs)
    names = {file.name for file in inputs}
    return not any(
        oldest[cell] < file.sequence_number <= output
        for file in files
        if file.name not in names
        for cell in file.cells & oldest.keys()
    )


def bottom_cells(files: Iterable[File], inputs: Sequence[File]) -> frozenset[Cell]:
    """Return the cells of a sound merge in which no older file remains."""
    oldest = _oldest_by_cell(inputs)
    names = {file.name for file in inputs}
    with_older = {
        cell
        for file in files
        if file.name not in names
        for cell in file.cells & oldest.keys()
        if file.sequence_number <= oldest[cell]
    }
    return frozenset(oldest.keys() - with_older)


def _oldest_by_cell(inputs: Iterable[File]) -> dict[Cell, SequenceNumber]:
    """Return the least sequence number of some files in each of their cells."""
    oldest: dict[Cell, SequenceNumber] = {}
    for file in inputs:
        for cell in file.cells:
            oldest[cell] = min(file.sequence_number, oldest.get(cell, file.sequence_number))
    return oldest
