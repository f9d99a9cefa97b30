"""A proposal: what one wants committed as one epoch, before there is an epoch for it.

Promises: values. What is new has no id yet: the commit gives it.
Does not know: whether it can be committed (transaction.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from relstate.vnode import VnodeMapping

from ..schema.properties import PLAIN, TableProperties
from ..schema.schema import TableSchema
from .entry import Entry, SegmentRecord, TableDefinition, Transaction
from .view import CatalogView, ViewDefinition, ViewInput, ViewProgress


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table to be created; the commit gives it its id."""

    name: str
    schema: TableSchema
    properties: TableProperties = PLAIN


@dataclass(frozen=True, slots=True)
class AlteredTable:
    """A table's definition, and the one that is to take its place."""

    before: TableDefinition
    after: TableDefinition


@dataclass(frozen=True, slots=True)
class NewView:
    """A view to be created with the table of its rows and its state tables, in the plan's order.

    The rest as in `ViewDefinition`; it has not begun to read.
    """

    table: NewTable
    internal: tuple[NewTable, ...]
    query: str
    inputs: tuple[ViewInput, ...]
    mapping: VnodeMapping
    settings: Mapping[str, str]
    plan: Any

    @property
    def tables(self) -> tuple[NewTable, ...]:
        """All its tables."""
        return (self.table, *self.internal)


@dataclass(frozen=True, slots=True)
class AlteredView:
    """A view's definition, and the one that is to take its place."""

    before: ViewDefinition
    after: ViewDefinition


@dataclass(frozen=True, slots=True)
class NewProgress:
    """How far a view has come with this commit; ``before``: the view as the refresh found it.

    The rest as in `ViewProgress`. An input's epoch that is None stands for the epoch of the commit
    itself: it is that of a view which is refreshed in it, too.
    """

    before: CatalogView
    reflects: int
    inputs: tuple[tuple[int, int | None], ...]
    backfill: Any = None

    @property
    def view_id(self) -> int:
        """The id of the view."""
        return self.before.view_id

    def at(self, epoch: int) -> ViewProgress:
        """Return the progress that it is in a commit of some epoch."""
        inputs = tuple((one, epoch if at is None else at) for one, at in self.inputs)
        return ViewProgress(self.view_id, self.reflects, inputs, self.backfill)


@dataclass(frozen=True, slots=True)
class Reads:
    """What a proposal rests on: it read the store at ``epoch``.

    ``conflicts`` tells of an entry committed since whether it changed what was read.
    """

    epoch: int
    conflicts: Callable[[Entry], bool]


Required: TypeAlias = TableDefinition | CatalogView


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What one wants committed as one epoch, over any number of tables.

    ``operation`` names it for the history; ``started`` is when its job began, in microseconds
    since 1970; ``data_change`` is False for upkeep, which no reader notices. ``segments`` are in
    the order of their ranks, already published. ``removed`` names segments that upkeep replaced.
    ``dropped_tables`` and ``based_tables`` are ids; based ones keep only what this commit adds.
    A view goes with its tables, all of them. ``progress``: of the views that are refreshed; only
    then may their tables' rows change.
    ``transactions`` make a retry of the same work recognisable. ``reads`` is None for blind writes.
    ``requires``: definitions and views that must be in the catalog just so.
    ``oldest_epoch``: what is older can no longer be read after this commit. ``repairs_clock``: its
    time may be before the last commit's.
    """

    operation: str
    started: int
    data_change: bool = True
    segments: tuple[SegmentRecord, ...] = ()
    removed: tuple[str, ...] = ()
    created_tables: tuple[NewTable, ...] = ()
    altered_tables: tuple[AlteredTable, ...] = ()
    dropped_tables: tuple[int, ...] = ()
    based_tables: tuple[int, ...] = ()
    new_views: tuple[NewView, ...] = ()
    altered_views: tuple[AlteredView, ...] = ()
    progress: tuple[NewProgress, ...] = ()
    transactions: tuple[Transaction, ...] = ()
    reads: Reads | None = None
    requires: tuple[Required, ...] = ()
    oldest_epoch: int | None = None
    repairs_clock: bool = False

    @property
    def new_tables(self) -> tuple[NewTable, ...]:
        """All tables to be created, in the order of their ids: those of the views come last."""
        return (*self.created_tables, *(one for view in self.new_views for one in view.tables))

    @property
    def frees_space(self) -> bool:
        """Whether files go because of it, at once or at the next vacuum."""
        return self.oldest_epoch is not None or bool(self.dropped_tables)

    @property
    def touched(self) -> frozenset[int]:
        """The ids of the tables it needs to be there."""
        return frozenset(
            (
                *self.written,
                *(transaction.table_id for transaction in self.transactions),
                *self.dropped_tables,
                *(altered.before.table_id for altered in self.altered_tables),
                *(altered.before.view_id for altered in self.altered_views),
                *(progress.view_id for progress in self.progress),
                *(one.table_id for view in self.new_views for one in view.inputs),
            )
        )

    @property
    def written(self) -> frozenset[int]:
        """The ids of the tables whose rows it has segments of, or replaces."""
        held = (table.table_id for segment in self.segments for table in segment.tables)
        return frozenset((*held, *self.based_tables))

    @property
    def is_empty(self) -> bool:
        """Whether a commit of it would change nothing: transactions alone are no change."""
        return self.oldest_epoch is None and not (
            self.repairs_clock
            or self.segments
            or self.removed
            or self.new_tables
            or self.altered_tables
            or self.dropped_tables
            or self.based_tables
            or self.altered_views
            or self.progress
        )
