"""The views of a store: created, replaced, altered and dropped, for those who plan them.

Promises: every change is one epoch, all or nothing.
Does not know: SQL, or the content of a plan, which is a JSON value here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from relstate.vnode import VnodeMapping

from .alteration import with_user_properties
from .catalog_commit import ATTEMPTS, check_storable, contested_error, drop, propose
from .epochs import Epochs
from .errors import ConflictError, OptionError, TableExistsError, TableNameError, TableNotFoundError
from .log.names import RESERVED_PREFIX, check_table_name, quarantine_name
from .log.proposal import AlteredTable, AlteredView, NewView, Required
from .log.state import StoreState
from .log.view import CatalogView, ViewDefinition
from .replacement import renamed_table
from .user_tables import user_table

# Returns the definition of a view that reads a renamed one, given the state before.
FollowRename: TypeAlias = Callable[[StoreState, ViewDefinition], ViewDefinition]
# Likewise, given the old and the new name first.
FollowTableRename: TypeAlias = Callable[[str, str, StoreState, ViewDefinition], ViewDefinition]


class ViewCatalog:
    """Changes the views of a store, each change as one epoch. Safe between threads."""

    def __init__(self, epochs: Epochs) -> None:
        self._epochs = epochs

    def create(self, view: NewView, requires: Sequence[Required] = ()) -> CatalogView:
        """Create a view that has not begun to read, and return it.

        ``requires``: the definitions it was planned from; ConflictError if one has changed.
        TableNameError, TableExistsError, TableNotFoundError, OptionError for a mapping with another
        number of vnodes than the store has.
        """
        check_table_name(view.table.name)
        return self._create(view, requires, ())

    def create_replacement(
        self, replaced: int, view: NewView, requires: Sequence[Required] = ()
    ) -> CatalogView:
        """Create a view that is to take the place of another one, and return it.

        ``replaced``: the id of the other one, which the view names too. A replacement of it that
        is there already is dropped. Errors as of `create`; see `Replacement`.
        """
        for _ in range(ATTEMPTS):
            earlier = self._epochs.state.replacement_of(replaced)
            dropped = () if earlier is None else earlier.definition.table_ids
            try:
                return self._create(view, requires, dropped)
            except (TableExistsError, TableNotFoundError):
                # Others began or ended a replacement of the same view.
                if replaced not in self._epochs.state.views:
                    raise
        raise contested_error(view.table.name)

    def _create(
        self, view: NewView, requires: Sequence[Required], dropped: Sequence[int]
    ) -> CatalogView:
        for table in view.tables:
            check_storable(table)
        for table in view.internal:
            if not table.name.startswith(RESERVED_PREFIX):
                raise TableNameError(
                    f"{table.name!r} cannot be the name of a state table: begin it with "
                    f"{RESERVED_PREFIX}"
                )
        self._check_mapping(view.mapping)
        result = propose(
            self._epochs,
            "create view",
            data_change=False,
            new_views=(view,),
            dropped_tables=tuple(dropped),
            requires=tuple(requires),
        )
        return result.state.view(view.table.name)

    def drop(self, name: str, *, if_exists: bool, cascade: bool) -> None:
        """Drop a view with all its tables: see `Store.drop_view`."""

        def ids_of_view(state: StoreState) -> tuple[int, ...]:
            view = state.view(name)
            replacement = state.replacement_of(view.view_id)
            views = (view,) if replacement is None else (view, replacement)
            return tuple(table_id for view in views for table_id in view.definition.table_ids)

        drop(self._epochs, "drop view", ids_of_view, if_exists=if_exists, cascade=cascade)

    def drop_replacement(self, view_id: int) -> None:
        """Drop a replacement, by its id, unless it has taken its place or was dropped."""

        def ids_of_replacement(state: StoreState) -> tuple[int, ...]:
            view = state.views.get(view_id)
            if view is None or view.definition.replaces is None:
                raise TableNotFoundError(f"there is no replacement with the id {view_id}")
            return view.definition.table_ids

        drop(self._epochs, "drop view", ids_of_replacement, if_exists=True, cascade=False)

    def set_properties(
        self, name: str, units: int | None, changes: Mapping[str, str | None]
    ) -> int:
        """Set properties of a view as one epoch and return it.

        ``units``: in how many parallel units it is maintained, None for as many as now; the fewest
        vnodes move, and a refresh under way conflicts. ``changes``: as in
        `Store.set_user_properties`. ViewNotFoundError.
        """
        for _ in range(ATTEMPTS):
            state = self._epochs.state
            view = state.view(name).definition
            table = state.tables[view.view_id].definition
            after = view
            if units is not None and units != view.mapping.units:
                after = replace(view, mapping=view.mapping.rescale(units))
            altered = AlteredTable(table, with_user_properties(table, changes))
            try:
                result = propose(
                    self._epochs,
                    "set view properties",
                    data_change=False,
                    altered_views=(AlteredView(view, after),) if after != view else (),
                    altered_tables=(altered,) if altered.after != table else (),
                )
                return result.epoch
            except ConflictError:
                continue
        raise contested_error(name)

    def rename(self, name: str, new: str, follow: FollowRename) -> int:
        """Give a view and its state tables another name and return the epoch.

        Older epochs have the old name. ``follow`` returns the next definition of a view that reads
        it, as its query and its plan name what they read. ViewNotFoundError, TableExistsError,
        TableNameError, the errors of ``follow``.
        """
        check_table_name(new)
        for _ in range(ATTEMPTS):
            state = self._epochs.state
            view = state.view(name)
            rename = partial(renamed_table, view=state.name_of(view.view_id), new=new)
            tables = [state.tables[table_id].definition for table_id in view.definition.table_ids]
            readers = [reader.definition for reader in state.views_reading(view.view_id)]
            try:
                result = propose(
                    self._epochs,
                    "rename view",
                    data_change=False,
                    altered_tables=tuple(
                        AlteredTable(table, replace(table, name=rename(table.name)))
                        for table in tables
                    ),
                    altered_views=tuple(
                        AlteredView(reader, follow(state, reader)) for reader in readers
                    ),
                )
                return result.epoch
            except ConflictError:
                continue
        raise contested_error(name)

    def rename_table(self, name: str, new: str, follow: FollowTableRename) -> int:
        """Give a table, and its quarantine, another name and return the epoch.

        Older epochs have the old name. ``follow`` returns the next definition of a view that reads
        a table, which gets another name. TableNotFoundError, InternalTableError,
        TableExistsError, TableNameError, the errors of ``follow``.
        """
        check_table_name(new)
        for _ in range(ATTEMPTS):
            state = self._epochs.state
            table = user_table(state, name, "renamed as a table")
            quarantine = state.quarantine_of(table.table_id)
            altered = [AlteredTable(table, replace(table, name=new))]
            if quarantine is not None:
                after = replace(quarantine, name=quarantine_name(new))
                altered.append(AlteredTable(quarantine, after))
            try:
                return propose(
                    self._epochs,
                    "rename table",
                    data_change=False,
                    altered_tables=tuple(altered),
                    altered_views=_following(state, altered, follow),
                ).epoch
            except ConflictError:
                continue
        raise contested_error(name)

    def _check_mapping(self, mapping: VnodeMapping) -> None:
        count = self._epochs.settings.vnode_count
        if mapping.vnode_count != count:
            raise OptionError(
                f"the mapping has {mapping.vnode_count} vnodes, but the store has {count}"
            )


def _following(
    state: StoreState, renamed: Sequence[AlteredTable], follow: FollowTableRename
) -> tuple[AlteredView, ...]:
    """Return the views that read tables which get another name, as they are then."""
    before = {
        reader.view_id: reader.definition
        for table in renamed
        for reader in state.views_reading(table.before.table_id)
    }
    after = dict(before)
    for table in renamed:
        for reader in state.views_reading(table.before.table_id):
            definition = after[reader.view_id]
            names = table.before.name, table.after.name
            after[reader.view_id] = follow(*names, state, definition)
    return tuple(AlteredView(before[view_id], after[view_id]) for view_id in before)
