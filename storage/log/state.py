"""The state of a store at one epoch: what the log's entries, folded, amount to.

Promises: a state is a value, and the fold is pure: the same entries give an equal state wherever
they are cut by a checkpoint. Folding many entries copies what grows with the store once, not once
an entry.
Does not know: files. (See checkpoint.py for a state's bytes, log.py for where entries come from.)
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter

from ..errors import (
    CorruptionError,
    EpochExpiredError,
    EpochNotFoundError,
    TableNotFoundError,
)
from .entry import Entry, SegmentRecord, Settings, TableDefinition, Transaction
from .frame import canonical


class PlacedSegment:
    """A segment and its place in the log: the epoch that added it and its rank in that commit.

    Immutable. One that comes from a checkpoint holds its record's JSON, and decodes it when it is
    first asked for: opening a store does not wait for segments that nobody reads.
    """

    __slots__ = ("_json", "_record", "epoch", "name", "rank")

    _json: bytes | None
    _record: SegmentRecord | None

    def __init__(self, record: SegmentRecord, epoch: int, rank: int) -> None:
        """Place the segment of ``record`` at ``rank`` in the commit of ``epoch``."""
        self.name = record.name
        self.epoch = epoch
        self.rank = rank
        self._json = None
        self._record = record

    @classmethod
    def from_json(cls, record: bytes, epoch: int, rank: int, name: str) -> PlacedSegment:
        """Return the placed segment ``name`` whose record has the canonical JSON ``record``."""
        placed = cls.__new__(cls)
        placed.name = name
        placed.epoch = epoch
        placed.rank = rank
        placed._json = record
        placed._record = None
        return placed

    @property
    def record(self) -> SegmentRecord:
        """What the log knows of the segment."""
        if self._record is None:
            self._record = self._decode(self.record_json)
        return self._record

    @property
    def record_json(self) -> bytes:
        """The canonical JSON of the record."""
        if self._json is None:
            self._json = canonical(self.record.to_json())
        return self._json

    def _decode(self, record: bytes) -> SegmentRecord:
        try:
            decoded = SegmentRecord.from_json(json.loads(record))
            if decoded.name != self.name:
                raise ValueError(f"it is the record of {decoded.name}")
            return decoded
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptionError(
                f"segment {self.name}: what the log's checkpoint says of it cannot be read "
                f"({error!r}): restore the store from a backup"
            ) from error

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PlacedSegment):
            return NotImplemented
        return (self.epoch, self.rank, self.record) == (other.epoch, other.rank, other.record)

    def __hash__(self) -> int:
        return hash((self.epoch, self.rank, self.name))

    def __reduce__(self) -> tuple[type[PlacedSegment], tuple[SegmentRecord, int, int]]:
        return PlacedSegment, (self.record, self.epoch, self.rank)

    def __repr__(self) -> str:
        return f"PlacedSegment({self.name!r}, epoch={self.epoch}, rank={self.rank})"


_EPOCH = attrgetter("epoch")


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table and its epochs: those it was based on, its last data change, and its drop.

    ``base_epochs`` ascend and begin with the epoch that created the table.
    """

    definition: TableDefinition
    base_epochs: tuple[int, ...]
    data_epoch: int
    dropped_epoch: int | None = None

    def exists_at(self, epoch: int) -> bool:
        """Return whether the table is there at an epoch."""
        created = self.definition.created_epoch
        return created <= epoch and (self.dropped_epoch is None or epoch < self.dropped_epoch)

    def base_epoch(self, epoch: int) -> int:
        """Return the epoch before which nothing is visible to a read at ``epoch``."""
        return self.base_epochs[bisect_right(self.base_epochs, epoch) - 1]


@dataclass(frozen=True, slots=True)
class StoreState:
    """A store at one epoch. Immutable, whatever the types of its mappings allow.

    ``time`` is the last commit's, in microseconds since 1970; ``oldest_epoch`` the oldest epoch
    that can be read. ``tables`` are by id and include dropped ones, which older epochs still have;
    ``live_tables`` are the ids of the others by their name in lower case. ``segments`` are by name;
    ``segments_by_table`` the same by table id, in the order of (epoch, rank). ``transactions``
    are the last ones by (writer, table id).
    """

    epoch: int
    commit_id: str
    time: int
    settings: Settings
    oldest_epoch: int
    next_table_id: int
    tables: Mapping[int, CatalogTable]
    live_tables: Mapping[str, int]
    segments: Mapping[str, PlacedSegment]
    segments_by_table: Mapping[int, tuple[PlacedSegment, ...]]
    transactions: Mapping[tuple[str, int], Transaction]

    @classmethod
    def first(cls, entry: Entry) -> StoreState:
        """Return the state after the entry that created the store."""
        assert entry.epoch == 1
        assert entry.settings is not None
        return cls(1, entry.commit_id, entry.time, entry.settings, 1, 1, {}, {}, {}, {}, {})

    def apply(self, entry: Entry) -> StoreState:
        """Return the state after the next entry."""
        return fold(self, (entry,))

    def check_epoch(self, epoch: int) -> None:
        """Raise EpochNotFoundError or EpochExpiredError unless ``epoch`` can be read."""
        if epoch > self.epoch or epoch < 1:
            raise EpochNotFoundError(
                f"there is no epoch {epoch}: the store is at epoch {self.epoch}, "
                f"and {self.oldest_epoch} is the oldest that can be read"
            )
        if epoch < self.oldest_epoch:
            raise EpochExpiredError(
                f"epoch {epoch} is no longer kept: {self.oldest_epoch} is the oldest that can be "
                f"read (retention is {self.settings.retention} s): read that or a later one"
            )

    def table(self, name: str, epoch: int | None = None) -> CatalogTable:
        """Return a table by its name, whatever its case, as of an epoch; None is the latest.

        TableNotFoundError if there is none at that epoch; the errors of `check_epoch`.
        """
        table = self._find_table(name.lower(), epoch)
        if table is None:
            known = ", ".join(self.table_names(epoch)) or "none"
            raise TableNotFoundError(
                f"there is no table {name!r} at epoch {epoch or self.epoch}; there are: {known}"
            )
        return table

    def _find_table(self, name: str, epoch: int | None) -> CatalogTable | None:
        if epoch is None:
            table_id = self.live_tables.get(name)
            return None if table_id is None else self.tables[table_id]
        named = (table for table in self.tables_at(epoch) if table.definition.name.lower() == name)
        return next(named, None)

    def table_names(self, epoch: int | None = None) -> tuple[str, ...]:
        """Return the names of the tables at an epoch (None: the latest), sorted."""
        tables = self.tables_at(self.epoch if epoch is None else epoch)
        return tuple(sorted(table.definition.name for table in tables))

    def tables_at(self, epoch: int) -> tuple[CatalogTable, ...]:
        """Return the tables there are at an epoch, by id. The errors of `check_epoch`."""
        self.check_epoch(epoch)
        return tuple(table for table in self.tables.values() if table.exists_at(epoch))

    def segments_of(self, table_id: int, epoch: int | None = None) -> tuple[PlacedSegment, ...]:
        """Return the segments a read of a table at ``epoch`` (None: the latest) needs.

        The newest by (epoch, rank) first; none from before the table's base epoch. A segment that
        stores its rows' versions may have come later than ``epoch`` and still hold older rows.
        The errors of `check_epoch`; KeyError if there never was such a table.
        """
        if epoch is None:
            epoch = self.epoch
        self.check_epoch(epoch)
        placed = self.segments_by_table.get(table_id, ())
        base = self.tables[table_id].base_epoch(epoch)
        begin = bisect_left(placed, base, key=_EPOCH)
        end = bisect_right(placed, epoch, key=_EPOCH)
        later = tuple(one for one in placed[end:] if one.record.versions == "stored")
        return (placed[begin:end] + later)[::-1]


def fold(state: StoreState, entries: Iterable[Entry]) -> StoreState:
    """Return the state after entries that follow one another and the state."""
    draft = _Draft(state)
    for entry in entries:
        draft.apply(entry)
    return draft.finish()


class _Draft:
    """A state being folded: its own copy of the mappings, made once for all entries."""

    def __init__(self, state: StoreState) -> None:
        self._state = state
        self._oldest_epoch = state.oldest_epoch
        self._next_table_id = state.next_table_id
        self._last: Entry | None = None
        self._tables = dict(state.tables)
        self._live_tables = dict(state.live_tables)
        self._segments = dict(state.segments)
        self._transactions = dict(state.transactions)
        self._added: defaultdict[int, list[PlacedSegment]] = defaultdict(list)
        self._removed: dict[str, PlacedSegment] = {}

    def apply(self, entry: Entry) -> None:
        before = self._state.epoch if self._last is None else self._last.epoch
        assert entry.epoch == before + 1, f"entry {entry.epoch} does not follow epoch {before}"
        self._last = entry
        self._apply_catalog(entry)
        self._apply_segments(entry)
        for transaction in entry.transactions:
            self._transactions[transaction.writer, transaction.table_id] = transaction
        if entry.oldest_epoch is not None:
            self._oldest_epoch = entry.oldest_epoch

    def _apply_catalog(self, entry: Entry) -> None:
        for table_id in entry.dropped_tables:
            dropped = replace(self._tables[table_id], dropped_epoch=entry.epoch)
            self._tables[table_id] = dropped
            del self._live_tables[dropped.definition.name.lower()]
            for key in [key for key in self._transactions if key[1] == table_id]:
                del self._transactions[key]
        for definition in entry.created_tables:
            table = CatalogTable(definition, (entry.epoch,), entry.epoch)
            self._tables[definition.table_id] = table
            self._live_tables[definition.name.lower()] = definition.table_id
            self._next_table_id = max(self._next_table_id, definition.table_id + 1)
        for table_id in entry.based_tables:
            table = self._tables[table_id]
            bases = (*table.base_epochs, entry.epoch)
            self._tables[table_id] = replace(table, base_epochs=bases)

    def _apply_segments(self, entry: Entry) -> None:
        for name in entry.removed:
            self._removed[name] = self._segments.pop(name)
        changed = set(entry.based_tables)
        for rank, record in enumerate(entry.added):
            placed = PlacedSegment(record, entry.epoch, rank)
            self._segments[record.name] = placed
            for statistics in record.tables:
                self._added[statistics.table_id].append(placed)
                changed.add(statistics.table_id)
        if entry.data_change:
            for table_id in changed:
                table = self._tables[table_id]
                self._tables[table_id] = replace(table, data_epoch=entry.epoch)

    def finish(self) -> StoreState:
        if self._last is None:
            return self._state
        return StoreState(
            self._last.epoch,
            self._last.commit_id,
            self._last.time,
            self._state.settings,
            self._oldest_epoch,
            self._next_table_id,
            self._tables,
            self._live_tables,
            self._segments,
            self._segments_by_table(),
            self._transactions,
        )

    def _segments_by_table(self) -> dict[int, tuple[PlacedSegment, ...]]:
        by_table = dict(self._state.segments_by_table)
        for table_id, added in self._added.items():
            by_table[table_id] = by_table.get(table_id, ()) + tuple(added)
        touched = {
            statistics.table_id
            for placed in self._removed.values()
            for statistics in placed.record.tables
        }
        for table_id in touched:
            kept = (placed for placed in by_table[table_id] if placed.name not in self._removed)
            by_table[table_id] = tuple(kept)
        return by_table
