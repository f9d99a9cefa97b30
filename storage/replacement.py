"""How a view that was populated beside another one takes its place.

A replacement is a view of its own, hidden under a reserved name, until it is populated. Then one
commit gives its query, its plan and its state tables to the view that it replaces:

- If both have the same primary key, the view keeps its id. All of its rows are replaced by those of
  the replacement, written again under that id, so that its readers and its change feed see the
  difference.
- Otherwise the replacement is renamed, as a new table that nothing reads, and the old view dropped.

Promises: functions of a state; a proposal is made for one state and conflicts if either view has
changed since.
Does not know: how a replacement is populated, or who writes its rows again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .alteration import with_columns_of
from .errors import DependentViewsError
from .log.names import RESERVED_PREFIX, quarantine_name
from .log.proposal import AlteredTable, AlteredView, NewProgress, NewTable, Proposal
from .log.rules import check_alterable
from .log.segment_record import SegmentRecord
from .log.state import StoreState
from .log.table_definition import TableDefinition
from .log.view import CatalogView

_OPERATION = "replace view"


def replacement_name(view_id: int) -> str:
    """Return the name of a view's replacement, which no user can give to a view."""
    return f"{RESERVED_PREFIX}{view_id}"


def renamed_table(table: str, view: str, new: str) -> str:
    """Return the name of a table after a view was renamed: of its rows, its state, its quarantine.

    The names of tables that do not belong to the view stay as they are.
    """
    if table.lower() == view.lower():
        return new
    if table.lower() == quarantine_name(view).lower():
        return quarantine_name(new)
    prefix = f"{RESERVED_PREFIX}{view.removeprefix(RESERVED_PREFIX)}_".lower()
    if not table.lower().startswith(prefix):
        return table
    return f"{RESERVED_PREFIX}{new}_{table[len(prefix) :]}"


def next_definition(
    view: TableDefinition, rows: TableDefinition | NewTable
) -> TableDefinition | None:
    """Return the definition of a view's table once it holds the rows of a replacement.

    None if the table cannot hold them: its key is another one, or it is append-only, so that its
    rows are never replaced.
    """
    definition = with_columns_of(view, rows.schema)
    if definition is None or view.properties.append_only:
        return None
    return replace(
        definition,
        properties=rows.properties,
        comment=rows.comment,
        user_properties=rows.user_properties,
    )


def check_replaceable(state: StoreState, view: CatalogView, rows: NewTable) -> None:
    """DependentViewsError if views read from a view what a replacement with these rows lacks."""
    before = state.tables[view.view_id].definition
    after = next_definition(before, rows)
    if after is not None:
        check_alterable(state, AlteredTable(before, after), is_emptied=True)
        return
    readers = sorted(map(state.title_of, state.views_reading(view.view_id)))
    if readers:
        is_append_only = before.properties.append_only
        reason = "other rows, as it is append-only" if is_append_only else "another primary key"
        raise DependentViewsError(
            f"{before.name!r} cannot be replaced by a SELECT with {reason}: it is read by the "
            f"views {', '.join(readers)}; drop them first, or create a view of another name"
        )


@dataclass(frozen=True, slots=True)
class Replacement:
    """A replacement and the view that it replaces, as of one state.

    ``table``: the next definition of the view's table, None if the replacement is a new table.
    """

    view: CatalogView
    replacement: CatalogView
    table: TableDefinition | None

    @classmethod
    def of(cls, state: StoreState, replacement: CatalogView) -> Replacement:
        """Return a replacement that is in the catalog."""
        assert replacement.definition.replaces is not None
        view = state.views[replacement.definition.replaces]
        tables = (state.tables[owner.view_id].definition for owner in (view, replacement))
        return cls(view, replacement, next_definition(*tables))

    def proposal(
        self, state: StoreState, started: int, reflects: int, segments: Sequence[SegmentRecord]
    ) -> Proposal:
        """Return the proposal by which the replacement takes the place of the view.

        ``reflects``: the epoch that the replacement has reached. ``segments``: its rows under the
        view's id, if it keeps that.
        """
        if self.table is None:
            return self._as_new_table(state, started)
        view_id, replaced = self.view.view_id, self.view.definition
        after = replace(
            self.replacement.definition,
            view_id=view_id,
            replaces=None,
            planned_epoch=state.tables[self.replacement.view_id].definition.created_epoch,
        )
        return Proposal(
            operation=_OPERATION,
            started=started,
            segments=tuple(segments),
            based_tables=(view_id,),
            dropped_tables=(self.replacement.view_id, *replaced.table_ids[1:]),
            altered_tables=(
                AlteredTable(state.tables[view_id].definition, self.table),
                *self._renamed(state, self.replacement.definition.table_ids[1:]),
            ),
            altered_views=(AlteredView(replaced, after),),
            progress=(self._progress(reflects),),
            requires=(self.replacement,),
        )

    def _as_new_table(self, state: StoreState, started: int) -> Proposal:
        definition = self.replacement.definition
        return Proposal(
            operation=_OPERATION,
            started=started,
            dropped_tables=self.view.definition.table_ids,
            altered_tables=self._renamed(state, definition.table_ids),
            altered_views=(AlteredView(definition, replace(definition, replaces=None)),),
            requires=(self.view, self.replacement),
        )

    def _renamed(self, state: StoreState, table_ids: Sequence[int]) -> tuple[AlteredTable, ...]:
        old, new = state.name_of(self.replacement.view_id), state.name_of(self.view.view_id)
        tables = [state.tables[table_id].definition for table_id in table_ids]
        return tuple(
            AlteredTable(table, replace(table, name=renamed_table(table.name, old, new)))
            for table in tables
        )

    def _progress(self, reflects: int) -> NewProgress:
        """Return the progress of the replacement, whose inputs have no unread changes before."""
        inputs = tuple(
            (table_id, max(epoch, reflects)) for table_id, epoch in self.replacement.progress.inputs
        )
        progress = self.replacement.progress
        return NewProgress(
            self.view,
            reflects,
            inputs,
            clock=progress.clock,
            quarantined=progress.quarantined,
        )
