"""The state of a store at one epoch: the fold of the log's entries up to that epoch.

Promises: a state is a value, and the fold is pure: the same entries give an equal state wherever
a checkpoint divides them. It holds what a read at its own epoch needs and nothing older, so its
size follows the live tables and segments, not the store's age. Folding many entries copies what
grows with the store once, not once per entry.
Does not know: files. (See checkpoint.py for a state's bytes, log.py for where entries come from.)
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..errors import (
    CorruptionError,
    EpochExpiredError,
    EpochNotFoundError,
    TableNotFoundError,
    ViewNotFoundError,
    ViewNotPopulatedError,
)
from ..paths import BLOCK, entry_path
from .entry import Entry, Settings, Transaction, malformed_error
from .features import Feature, united
from .live_segments import EMPTY, LiveSegments
from .names import RESERVED_PREFIX, lower_name, quarantine_name
from .segment_record import check_shards
from .sequenced_segment import SequencedSegment, shard_of
from .table_definition import TableDefinition
from .table_segments import DividedSegments, statistics_in
from .view import CatalogView, ViewDefinition, ViewProgress
from .violations import Violations


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table, the epoch before which none of its rows are visible, and that of its last change.

    ``violations``: how many written rows have violated each of its expectations, by name, since
    that was added; sorted, without those that no row has violated.
    """

    definition: TableDefinition
    base_epoch: int
    data_epoch: int
    violations: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class StoreState:
    """A store at one epoch. Immutable, whatever the types of its mappings allow.

    ``time`` is the last commit's, in microseconds since 1970; ``oldest_epoch`` the oldest epoch
    that can be read. ``tables`` are by id, ``table_ids`` by name in lower case. ``segments`` are
    those with visible rows, by name. ``transactions`` are the last ones by (writer, table id).
    ``views`` are by id, which is the id of the table with the view's rows. ``clock_repairs`` are
    the epochs whose time is before that of the epoch before them, ascending. ``features``: what a
    version of relstate must know to work with the store, sorted.
    """

    epoch: int
    commit_id: str
    time: int
    settings: Settings
    oldest_epoch: int
    next_table_id: int
    tables: Mapping[int, CatalogTable]
    table_ids: Mapping[str, int]
    segments: LiveSegments
    transactions: Mapping[tuple[str, int], Transaction]
    views: Mapping[int, CatalogView]
    clock_repairs: tuple[int, ...] = ()
    features: tuple[Feature, ...] = ()

    @classmethod
    def first(cls, entry: Entry) -> StoreState:
        """Return the state after the entry that created the store."""
        assert entry.epoch == 1
        assert entry.settings is not None
        return cls(
            epoch=1,
            commit_id=entry.commit_id,
            time=entry.time,
            settings=entry.settings,
            oldest_epoch=1,
            next_table_id=1,
            tables={},
            table_ids={},
            segments=EMPTY,
            transactions={},
            views={},
            features=entry.features,
        )

    def apply(self, entry: Entry) -> StoreState:
        """Return the state after the next entry."""
        return fold(self, (entry,))

    def with_definitions(self, definitions: Sequence[TableDefinition]) -> StoreState:
        """Return the state with other definitions of some tables, found by the names it has."""
        if not definitions:
            return self
        tables = dict(self.tables)
        for definition in definitions:
            table_id = definition.table_id
            tables[table_id] = replace(tables[table_id], definition=definition)
        return replace(self, tables=tables)

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
                f"read (retention is {self.settings.retention} s): read that epoch or a later one"
            )

    def table(self, name: str) -> CatalogTable:
        """Return a table by its name, whatever its case. A view's table has the view's name.

        TableNotFoundError if there is none, TableNameError for what is not text.
        """
        table_id = self.table_ids.get(lower_name(name))
        if table_id is None:
            names = ", ".join(sorted((*self.table_names(), *self.view_names()))) or "none"
            raise TableNotFoundError(
                f"there is no table {name!r} at epoch {self.epoch}; there are: {names}"
            )
        return self.tables[table_id]

    def table_names(self) -> tuple[str, ...]:
        """Return the names of the tables that belong to no view and no index, sorted."""
        view_tables = {
            table_id for view in self.views.values() for table_id in view.definition.table_ids
        }
        index_tables = {
            index.table_id for table in self.tables.values() for index in table.definition.indexes
        }
        return self._names(self.tables.keys() - view_tables - index_tables)

    def user_names(self) -> list[str]:
        """Return the names of tables and views, sorted, without those of internal tables."""
        names = self._names(self.tables.keys())
        return [name for name in names if not name.startswith(RESERVED_PREFIX)]

    def view(self, name: str) -> CatalogView:
        """Return a view by its name, whatever its case.

        ViewNotFoundError if there is none, TableNameError for what is not text.
        """
        view = self.views.get(self.table_ids.get(lower_name(name), 0))
        if view is None:
            names = ", ".join(self.view_names()) or "none"
            hint = "it is a table" if name.lower() in self.table_ids else f"there are: {names}"
            raise ViewNotFoundError(f"there is no view {name!r} at epoch {self.epoch}; {hint}")
        return view

    def view_names(self) -> tuple[str, ...]:
        """Return the names of the views, sorted, without those that are to replace another."""
        return self._names(
            view_id for view_id, view in self.views.items() if view.definition.replaces is None
        )

    def replacement_of(self, view_id: int) -> CatalogView | None:
        """Return the view that is to take the place of another one; None if there is none."""
        views = self.views.values()
        return next((view for view in views if view.definition.replaces == view_id), None)

    def title_of(self, view: CatalogView) -> str:
        """Return the name of a view for a message; of a replacement, the name it will have."""
        replaced = view.definition.replaces
        if replaced is None or replaced not in self.tables:
            return self.name_of(view.view_id)
        return f"{self.name_of(replaced)} (its replacement)"

    def check_populated(self, table_id: int) -> None:
        """Raise ViewNotPopulatedError if a table holds the rows of a view that is being filled."""
        view = self.views.get(table_id)
        if view is not None and not view.progress.is_populated:
            raise ViewNotPopulatedError(
                f"the view {self.name_of(table_id)!r} is still being filled at epoch {self.epoch} "
                "(SHOW MATERIALIZED VIEWS shows the progress); if its CREATE was interrupted, "
                "REFRESH MATERIALIZED VIEW continues it"
            )

    def owner_of(self, table_id: int) -> CatalogView | None:
        """Return the view whose rows or state a table holds; None for a user's table."""
        views = self.views.values()
        return next((view for view in views if table_id in view.definition.table_ids), None)

    def indexed_table(self, table_id: int) -> TableDefinition | None:
        """Return the table whose index a table holds; None for a table that holds none."""
        if not self.name_of(table_id).startswith(RESERVED_PREFIX):
            return None
        definitions = (table.definition for table in self.tables.values())
        return next(
            (
                definition
                for definition in definitions
                if any(index.table_id == table_id for index in definition.indexes)
            ),
            None,
        )

    def quarantine_of(self, table_id: int) -> TableDefinition | None:
        """Return the table with the rows that a table or view does not take; None if none."""
        quarantine = self.table_ids.get(quarantine_name(self.name_of(table_id)).lower())
        return None if quarantine is None else self.tables[quarantine].definition

    def views_reading(self, table_id: int) -> tuple[CatalogView, ...]:
        """Return the views that read a table."""
        return tuple(view for view in self.views.values() if view.definition.reads(table_id))

    def name_of(self, table_id: int) -> str:
        """Return the name of an existing table."""
        return self.tables[table_id].definition.name

    def oldest_epoch_needed_by(self, progress: ViewProgress) -> int | None:
        """Return the oldest epoch that a view with this progress still has to read.

        None: it needs none before this state's epoch. An input that has not changed since the
        epoch it was read at can be followed from any later epoch, and a document table as long as
        nothing in it has expired that the view still has: compaction removes what has expired.
        """
        has_expired = progress.is_due(self.time)
        needed_epochs = (
            epoch
            for table_id, epoch in progress.inputs
            if epoch
            and (
                progress.backfill is not None
                or self.has_changed(table_id, epoch)
                or (has_expired and self._has_parts(table_id))
            )
        )
        return min(needed_epochs, default=None)

    def _has_parts(self, table_id: int) -> bool:
        table = self.tables.get(table_id)
        return table is not None and table.definition.properties.may_have_parts

    def has_changed(self, table_id: int, epoch: int) -> bool:
        """Return whether a table may have changed after an epoch; False if it does not exist."""
        table = self.tables.get(table_id)
        return table is not None and table.data_epoch > epoch

    def _names(self, table_ids: Iterable[int]) -> tuple[str, ...]:
        return tuple(sorted(map(self.name_of, table_ids)))

    def segments_of(self, table_id: int) -> Sequence[SequencedSegment]:
        """Return the segments with visible rows of a table, the greatest sequence number first.

        Many, in a store with many, are `DividedSegments`.
        """
        table = self.tables.get(table_id)
        if table is None:
            return ()
        shards = self.settings.shards
        divided = DividedSegments.of(self.segments, table_id, table.base_epoch, shards)
        if divided is not None:
            return divided
        segments = self.segments.of_table(table_id)
        # All before are older, and invisible.
        first = bisect_left(segments, table.base_epoch, key=lambda segment: segment.epoch)
        return segments[first:][::-1]

    def tables_visible_in(self, segment: SequencedSegment) -> list[int]:
        """Return the ids of the tables whose rows in a segment are visible."""
        return visible_tables(self.tables, segment)

    def expiring_rows(self, table_id: int) -> int:
        """Return an upper bound of the rows of a table that expire: some may have been replaced."""
        statistics = statistics_in(self.segments_of(table_id), table_id)
        return sum(table.expiring for table in statistics)


def fold(state: StoreState, entries: Sequence[Entry]) -> StoreState:
    """Return the state after consecutive entries, the first of which follows ``state``.

    CorruptionError for an entry that changes something the state before it does not have.
    """
    draft = _Draft(state)
    for entry in entries:
        try:
            draft.apply(entry)
        except (CorruptionError, AssertionError):
            raise
        except Exception as error:
            path = entry_path(entry.epoch)
            raise malformed_error(path, "change of the epoch before it", error) from error
    return draft.finish()


def visible_tables(tables: Mapping[int, CatalogTable], segment: SequencedSegment) -> list[int]:
    """Return the ids of those of some tables whose rows in a segment are visible."""
    return [
        table_id
        for table_id in segment.table_ids
        if table_id in tables and tables[table_id].base_epoch <= segment.epoch
    ]


def check_mapping(view: ViewDefinition, settings: Settings) -> None:
    """Raise ValueError unless a view's mapping has the store's number of vnodes."""
    if view.mapping.vnode_count != settings.vnode_count:
        raise ValueError(f"a view's mapping of {view.mapping.vnode_count} vnodes")


class _Draft:
    """A state being folded: its own copy of the mappings, made once for all entries."""

    def __init__(self, state: StoreState) -> None:
        self._state = state
        self._oldest_epoch = state.oldest_epoch
        self._next_table_id = state.next_table_id
        self._last: Entry | None = None
        self._tables = dict(state.tables)
        self._table_ids = dict(state.table_ids)
        self._added: dict[str, SequencedSegment] = {}
        self._removed: dict[str, SequencedSegment] = {}
        self._transactions = dict(state.transactions)
        self._views = dict(state.views)
        self._clock_repairs = state.clock_repairs
        self._features = state.features

    def apply(self, entry: Entry) -> None:
        last = self._state if self._last is None else self._last
        assert entry.epoch == last.epoch + 1, (
            f"entry {entry.epoch} does not follow epoch {last.epoch}"
        )
        if entry.time < last.time:
            self._clock_repairs += (entry.epoch,)
        self._last = entry
        if entry.features != self._features:
            self._features = united(self._features, entry.features)
        self._remove_segments(entry)
        self._apply_catalog(entry)
        self._apply_views(entry)
        self._add_segments(entry)
        for transaction in entry.transactions:
            dated = replace(transaction, time=entry.time)
            self._transactions[transaction.writer, transaction.table_id] = dated
        if entry.epoch % BLOCK == 0:
            self._forget_writers(entry.time)
        if entry.oldest_epoch is not None:
            # Of two concurrent vacuums, the one with the longer retention may commit last.
            self._oldest_epoch = max(self._oldest_epoch, entry.oldest_epoch)

    def _apply_catalog(self, entry: Entry) -> None:
        for table_id in entry.dropped_tables:
            del self._table_ids[self._tables.pop(table_id).definition.name.lower()]
            for key in [key for key in self._transactions if key[1] == table_id]:
                del self._transactions[key]
        for definition in entry.created_tables:
            table_id = definition.table_id
            self._tables[table_id] = CatalogTable(definition, entry.epoch, entry.epoch)
            self._table_ids[definition.name.lower()] = table_id
            self._next_table_id = max(self._next_table_id, table_id + 1)
        self._alter_tables(entry.altered_tables)
        for item in entry.violations:
            table = self._tables[item.table_id]
            self._tables[item.table_id] = replace(table, violations=_with(table.violations, item))
        for table_id in entry.based_tables:
            self._tables[table_id] = replace(self._tables[table_id], base_epoch=entry.epoch)
        for table_id in (*entry.dropped_tables, *entry.based_tables):
            self._hide_rows(table_id)

    def _forget_writers(self, time: int) -> None:
        """Forget the writers whose last batch is older than their table keeps it.

        At the epochs of checkpoints, so that it costs little, and every fold does the same.
        """
        starts = {
            table_id: time - retention * 1_000_000
            for table_id, table in self._tables.items()
            if (retention := table.definition.properties.transaction_retention) is not None
        }
        if starts:
            self._transactions = {
                key: last
                for key, last in self._transactions.items()
                if last.time is None or last.time >= starts.get(key[1], last.time)
            }

    def _alter_tables(self, definitions: Sequence[TableDefinition]) -> None:
        # All names are removed before one is given: tables may exchange theirs.
        for definition in definitions:
            del self._table_ids[self._tables[definition.table_id].definition.name.lower()]
        for definition in definitions:
            table_id = definition.table_id
            names = {constraint.name for constraint in definition.constraints}
            counts = self._tables[table_id].violations
            remaining = tuple(item for item in counts if item[0] in names)
            self._tables[table_id] = replace(
                self._tables[table_id], definition=definition, violations=remaining
            )
            self._table_ids[definition.name.lower()] = table_id

    def _apply_views(self, entry: Entry) -> None:
        for table_id in entry.dropped_tables:
            self._views.pop(table_id, None)
        for definition in (*entry.created_views, *entry.altered_views):
            check_mapping(definition, self._state.settings)
            if definition.view_id not in self._tables:
                raise ValueError(f"no table for the view {definition.view_id}")
        for definition in entry.created_views:
            start = ViewProgress.start(definition)
            self._views[definition.view_id] = CatalogView(definition, start)
        for definition in entry.altered_views:
            view = self._views[definition.view_id]
            self._views[definition.view_id] = replace(view, definition=definition)
        for progress in entry.progress:
            view = self._views[progress.view_id]
            self._views[progress.view_id] = replace(view, progress=progress)

    def _hide_rows(self, table_id: int) -> None:
        """Remove the segments of a table in which no table has visible rows any more."""
        hidden = [
            segment
            for segment in (*self._state.segments.of_table(table_id), *self._added.values())
            if not visible_tables(self._tables, segment)
        ]
        for segment in hidden:
            if self._added.pop(segment.name, None) is None:
                self._removed[segment.name] = segment

    def _remove_segments(self, entry: Entry) -> None:
        shards: set[int | None] = set()
        for record in entry.added if entry.removed else ():
            shards.update(shard_of(record) or (None,))
        for name in entry.removed:
            if self._added.pop(name, None) is not None:
                continue
            if name in self._removed:
                raise KeyError(name)
            self._removed[name] = self._state.segments.find(name, shards)

    def _add_segments(self, entry: Entry) -> None:
        changed = set(entry.based_tables)
        for rank, record in enumerate(entry.added):
            check_shards(record, self._state.settings.shards)
            segment = SequencedSegment(record, *(record.sequence_number or (entry.epoch, rank)))
            visible = visible_tables(self._tables, segment)
            if visible:
                self._added[record.name] = segment
                changed.update(visible)
        if entry.data_change:
            for table_id in changed:
                table = self._tables[table_id]
                # Half the time of `replace`, and this is done for every commit.
                self._tables[table_id] = CatalogTable(
                    table.definition, table.base_epoch, entry.epoch, table.violations
                )

    def finish(self) -> StoreState:
        if self._last is None:
            return self._state
        segments = self._state.segments
        if self._added or self._removed:
            segments = segments.changed(self._added.values(), self._removed.values())
        return StoreState(
            self._last.epoch,
            self._last.commit_id,
            self._last.time,
            self._state.settings,
            self._oldest_epoch,
            self._next_table_id,
            self._tables,
            self._table_ids,
            segments,
            self._transactions,
            self._views,
            self._clock_repairs,
            self._features,
        )


def _with(counts: tuple[tuple[str, int], ...], added: Violations) -> tuple[tuple[str, int], ...]:
    """Return the rows that have violated expectations, after a commit of more."""
    rows = dict(counts)
    rows[added.expectation] = rows.get(added.expectation, 0) + added.rows
    return tuple(sorted(rows.items()))
