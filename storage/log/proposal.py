"""A proposal: the changes to commit as one epoch, before they have an epoch.

Promises: values. New tables and views have no id yet: the commit assigns it.
Does not know: whether it can be committed (transaction.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from relstate.vnode import VnodeMapping

from ..codec.ragged import Bytes
from ..schema.constraint import CheckConstraint
from ..schema.index import IndexDefinition
from ..schema.properties import PLAIN, TableProperties
from ..schema.schema import TableSchema
from .entry import Entry, Transaction
from .features import Feature
from .segment_record import SegmentRecord
from .sequenced_segment import SequencedSegment
from .table_definition import TableDefinition
from .view import (
    CatalogView,
    RefreshFigures,
    RefreshRecord,
    ViewClock,
    ViewDefinition,
    ViewInput,
    ViewProgress,
)
from .violations import Violations


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table to be created; the commit assigns its id.

    The fields are those of `TableDefinition`.
    """

    name: str
    schema: TableSchema
    properties: TableProperties = PLAIN
    comment: str | None = None
    user_properties: tuple[tuple[str, str], ...] = ()
    constraints: tuple[CheckConstraint, ...] = ()

    def definition(self, table_id: int, epoch: int) -> TableDefinition:
        """Return the definition of the table once it has an id; ``epoch``: of its creation."""
        return TableDefinition(
            table_id,
            self.name,
            self.schema,
            epoch,
            self.properties,
            comment=self.comment,
            user_properties=self.user_properties,
            constraints=self.constraints,
        )


@dataclass(frozen=True, slots=True)
class NewIndex:
    """An index to be created: on the table ``before``, with its entries in the table ``table``.

    The other fields are those of `IndexDefinition`.
    """

    before: TableDefinition
    table: NewTable
    name: str
    columns: tuple[int, ...]
    included: tuple[int, ...]
    unique: bool

    def definition(self, table_id: int) -> IndexDefinition:
        """Return the definition of the index once its table has an id."""
        return IndexDefinition(self.name, table_id, self.columns, self.included, self.unique)


@dataclass(frozen=True, slots=True, eq=False)
class UnwrittenRows:
    """Entries of one table that are in no segment yet, one per key, in key order.

    None of them expires.
    """

    table_id: int
    keys: Bytes
    values: Bytes


@dataclass(frozen=True, slots=True)
class Additions:
    """What a commit adds to a proposal, depending on the state that it follows.

    ``segments``, whose content the commit makes durable, come after those of the proposal; the
    unwritten rows of the proposal are in them. ``based_tables``: ids. ``violations``: of
    expectations that the writers did not know.
    """

    segments: tuple[SegmentRecord, ...] = ()
    based_tables: tuple[int, ...] = ()
    violations: tuple[Violations, ...] = ()


NO_ADDITIONS = Additions()


@dataclass(frozen=True, slots=True)
class AlteredTable:
    """A table's definition, and the one that replaces it."""

    before: TableDefinition
    after: TableDefinition


@dataclass(frozen=True, slots=True)
class NewView:
    """A view to be created with the table of its rows and its state tables, in the plan's order.

    ``quarantine``: the table that lists the rows that it leaves out; None if it leaves out none.
    The other fields are those of `ViewDefinition`. The view has read nothing yet.
    """

    table: NewTable
    internal: tuple[NewTable, ...]
    query: str
    inputs: tuple[ViewInput, ...]
    mapping: VnodeMapping
    settings: Mapping[str, str]
    plan: Any
    replaces: int | None = None
    quarantine: NewTable | None = None

    @property
    def tables(self) -> tuple[NewTable, ...]:
        """The table with its rows, then its state tables, then its quarantine."""
        quarantine = () if self.quarantine is None else (self.quarantine,)
        return (self.table, *self.internal, *quarantine)


@dataclass(frozen=True, slots=True)
class AlteredView:
    """A view's definition, and the one that replaces it."""

    before: ViewDefinition
    after: ViewDefinition


@dataclass(frozen=True, slots=True)
class NewProgress:
    """The progress of a view after this commit; ``before``: the view as the refresh read it.

    The other fields are those of `ViewProgress`. An epoch of None means the epoch of the commit
    itself: the input is a view that the same commit refreshes. ``figures``: of the refresh that
    led to it; None if it leaves none.
    """

    before: CatalogView
    reflects: int
    inputs: tuple[tuple[int, int | None], ...]
    backfill: Any = None
    clock: ViewClock | None = None
    figures: RefreshFigures | None = None
    quarantined: int = 0

    @property
    def view_id(self) -> int:
        """The id of the view."""
        return self.before.view_id

    def at(self, epoch: int) -> ViewProgress:
        """Return the progress as a commit of an epoch records it."""
        inputs = tuple(
            (table_id, epoch if read_epoch is None else read_epoch)
            for table_id, read_epoch in self.inputs
        )
        return ViewProgress(
            self.view_id,
            self.reflects,
            inputs,
            self.backfill,
            self.clock,
            self._record(epoch),
            self.quarantined,
        )

    def _record(self, epoch: int) -> RefreshRecord | None:
        if self.figures is None:
            return None
        last = self.before.progress.last_refresh
        return RefreshRecord(epoch, self.figures, None if last is None else last.epoch)


@dataclass(frozen=True, slots=True)
class Reads:
    """What a proposal has read, from the store at ``epoch``.

    ``conflicts`` returns whether an entry committed since then changed what was read.
    """

    epoch: int
    conflicts: Callable[[Entry], bool]


Required: TypeAlias = TableDefinition | CatalogView


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The changes to commit as one epoch, in any number of tables.

    ``operation`` names it for the history; ``started`` is when its job began, in microseconds
    since 1970; ``data_change`` is False for maintenance, which changes no rows. ``segments`` are in
    the order of their ranks, with durable content unless ``syncs_segments``: then the commit
    makes it durable. ``rows`` are written by the commit, into one
    segment with the entries of their table's indexes. ``written_under``: the definitions whose
    CHECK constraints the rows were checked for when they were written; what is missing there, the
    commit checks. ``violations``: of their expectations, as the writers counted them.
    ``first_table_id``: the id that the first of
    ``created_tables`` must get, because ``segments`` hold rows of these tables. ``removed`` names
    segments that maintenance replaced. ``dropped_tables`` and ``based_tables`` are ids; a based
    table has only the rows that this commit adds. A view is dropped with all of its tables.
    ``progress``: of the views that are refreshed; the rows of a view's tables change in no other
    commit.
    ``transactions`` identify a retry of the same work. ``reads`` is None for blind writes.
    ``requires``: definitions and views that must be unchanged in the catalog. ``new_index``: its
    table is created, and filled from the rows that the table has then.
    ``oldest_epoch``: older epochs can no longer be read after this commit. ``repairs_clock``: the
    time of the commit may be before that of the last one. ``features``: those that its content
    needs; the store has them from then on.
    """

    operation: str
    started: int
    data_change: bool = True
    segments: tuple[SegmentRecord, ...] = ()
    syncs_segments: bool = False
    rows: UnwrittenRows | None = None
    written_under: tuple[TableDefinition, ...] = ()
    violations: tuple[Violations, ...] = ()
    removed: tuple[SequencedSegment, ...] = ()
    created_tables: tuple[NewTable, ...] = ()
    first_table_id: int | None = None
    altered_tables: tuple[AlteredTable, ...] = ()
    dropped_tables: tuple[int, ...] = ()
    based_tables: tuple[int, ...] = ()
    new_index: NewIndex | None = None
    new_views: tuple[NewView, ...] = ()
    altered_views: tuple[AlteredView, ...] = ()
    progress: tuple[NewProgress, ...] = ()
    transactions: tuple[Transaction, ...] = ()
    reads: Reads | None = None
    requires: tuple[Required, ...] = ()
    oldest_epoch: int | None = None
    repairs_clock: bool = False
    features: tuple[Feature, ...] = ()

    @property
    def new_tables(self) -> tuple[NewTable, ...]:
        """All tables to be created, in the order of their ids.

        Those of the views come after the others, and that of the index last.
        """
        of_views = (table for view in self.new_views for table in view.tables)
        of_index = () if self.new_index is None else (self.new_index.table,)
        return (*self.created_tables, *of_views, *of_index)

    @property
    def frees_space(self) -> bool:
        """Whether it lets files be removed, at once or by the next vacuum."""
        return self.oldest_epoch is not None or bool(self.dropped_tables)

    @property
    def referenced_tables(self) -> frozenset[int]:
        """The ids of the tables that must exist when it is committed."""
        return frozenset(
            (
                *self.written,
                *(transaction.table_id for transaction in self.transactions),
                *(item.table_id for item in self.violations),
                *self.dropped_tables,
                *(altered.before.table_id for altered in self.altered_tables),
                *(() if self.new_index is None else (self.new_index.before.table_id,)),
                *(altered.before.view_id for altered in self.altered_views),
                *(progress.view_id for progress in self.progress),
                *(table.table_id for view in self.new_views for table in view.inputs),
                *(view.replaces for view in self.new_views if view.replaces is not None),
            )
        )

    @property
    def written(self) -> frozenset[int]:
        """The ids of the tables whose rows it adds or replaces, without those that it creates."""
        in_segments = (table.table_id for segment in self.segments for table in segment.tables)
        unwritten = () if self.rows is None else (self.rows.table_id,)
        table_ids = (*in_segments, *unwritten, *self.based_tables)
        if self.first_table_id is None:
            return frozenset(table_ids)
        return frozenset(table_id for table_id in table_ids if table_id < self.first_table_id)

    @property
    def is_empty(self) -> bool:
        """Whether committing it would change nothing: transactions alone are not a change."""
        return self.oldest_epoch is None and not (
            self.repairs_clock
            or self.segments
            or self.rows
            or self.removed
            or self.new_tables
            or self.altered_tables
            or self.dropped_tables
            or self.based_tables
            or self.altered_views
            or self.progress
            or self.violations
        )
