"""The rules of the catalog: the checks of a proposal against the state that it follows.

Promises: after a proposal that passes, every table has a unique name, every view has its tables and
inputs, and of the tables that a view reads nothing but the rows has changed.
Does not know: the race for an epoch; the caller repeats the checks at every attempt.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from ..errors import (
    ConflictError,
    DependentViewsError,
    EpochExpiredError,
    SchemaError,
    TableExistsError,
    TableNotFoundError,
)
from ..schema.types import quoted
from .internal_tables import check_not_internal
from .proposal import AlteredTable, NewProgress, NewView, Proposal, Required
from .state import StoreState
from .table_definition import TableDefinition
from .view import CatalogView, ViewDefinition


def check_catalog(base: StoreState, state: StoreState, proposal: Proposal) -> None:
    """Raise unless a proposal can follow a state; ``base`` is the state it was made from.

    TableNotFoundError, TableExistsError, ConflictError, InternalTableError, DependentViewsError,
    SchemaError, EpochExpiredError.
    """
    _check_first_table_id(state, proposal)
    for table_id in sorted(proposal.referenced_tables):
        _check_live(base, state, table_id)
    _check_names(state, proposal)
    _check_internal(state, proposal)
    _check_followable(state, proposal)
    for required in proposal.requires:
        _check_required(base, state, required)
    for altered in proposal.altered_tables:
        check_alterable(state, altered, is_emptied=altered.before.table_id in proposal.based_tables)
        _check_same(altered.before, state.tables[altered.before.table_id].definition)
    if proposal.new_index is not None:
        before = proposal.new_index.before
        _check_same(before, state.tables[before.table_id].definition)
    for change in proposal.altered_views:
        if state.views[change.before.view_id].definition != change.before:
            raise _altered("view", state.name_of(change.before.view_id))
    views = _definitions_after(state, proposal)
    check_droppable(state, _dropped_alone(proposal), views)
    for view in proposal.new_views:
        _check_view(state, view)
    for change in proposal.altered_views:
        if reads_itself(views, change.before.view_id):
            raise DependentViewsError(
                f"the view {state.title_of(state.views[change.before.view_id])!r} would read "
                "itself; read its inputs instead"
            )
    for progress in proposal.progress:
        _check_progress(state, progress, views[progress.view_id])
    _check_oldest(state, proposal.oldest_epoch)


def _dropped_alone(proposal: Proposal) -> tuple[int, ...]:
    """Return the ids of the tables to be dropped, without those of indexes to be dropped."""
    of_indexes = {
        index.table_id
        for altered in proposal.altered_tables
        for index in altered.before.indexes
        if index not in altered.after.indexes
    }
    return tuple(table_id for table_id in proposal.dropped_tables if table_id not in of_indexes)


def _definitions_after(state: StoreState, proposal: Proposal) -> dict[int, ViewDefinition]:
    """Return the definitions of the views that there were before a proposal, as it leaves them."""
    altered = {change.before.view_id: change.after for change in proposal.altered_views}
    return {
        view_id: altered.get(view_id, view.definition)
        for view_id, view in state.views.items()
        if view_id not in proposal.dropped_tables
    }


def reads_itself(views: Mapping[int, ViewDefinition], view_id: int) -> bool:
    """Return whether a view reads itself, directly or through others."""
    visited: set[int] = set()
    remaining = [view_id]
    while remaining:
        for table in views[remaining.pop()].inputs:
            if table.table_id == view_id:
                return True
            if table.table_id in views and table.table_id not in visited:
                visited.add(table.table_id)
                remaining.append(table.table_id)
    return False


def _check_first_table_id(state: StoreState, proposal: Proposal) -> None:
    if proposal.first_table_id not in (None, state.next_table_id):
        names = ", ".join(repr(table.name) for table in proposal.created_tables)
        raise ConflictError(
            f"another table was created while the rows of {names} were written; nothing was "
            "committed: try again"
        )


def _check_live(base: StoreState, state: StoreState, table_id: int) -> None:
    if table_id in state.tables:
        return
    if table_id < state.next_table_id:
        raise TableNotFoundError(
            f"the table {name_of(base, table_id)} was dropped meanwhile; nothing was committed"
        )
    raise TableNotFoundError(f"there never was a table with the id {table_id}")


def name_of(state: StoreState, table_id: int) -> str:
    """Return the name of a table for a message; its id if the table does not exist."""
    return repr(state.name_of(table_id)) if table_id in state.tables else f"with the id {table_id}"


def _check_names(state: StoreState, proposal: Proposal) -> None:
    renamed = [
        altered for altered in proposal.altered_tables if altered.after.name != altered.before.name
    ]
    freed = (*proposal.dropped_tables, *(altered.before.table_id for altered in renamed))
    used_names = state.table_ids.keys() - {state.name_of(table_id).lower() for table_id in freed}
    new_names = (
        *(altered.after.name for altered in renamed),
        *(table.name for table in proposal.new_tables),
    )
    for name in new_names:
        if name.lower() in used_names:
            raise TableExistsError(
                f"there is a table or view {name!r} already: drop it, or use another name"
            )
        used_names.add(name.lower())
    altered_views = {altered.before.view_id for altered in proposal.altered_views}
    renamed_ids = [altered.before.table_id for altered in renamed]
    for altered in renamed:
        _check_readers_follow(state, altered, altered_views)
        _check_quarantine_follows(state, altered.before.table_id, renamed_ids)


def _check_readers_follow(
    state: StoreState, renamed: AlteredTable, altered_views: Collection[int]
) -> None:
    """ConflictError if a view reads a table by a name that it loses, and is not altered with it."""
    for reader in state.views_reading(renamed.before.table_id):
        if reader.view_id not in altered_views:
            raise ConflictError(
                f"the view {state.name_of(reader.view_id)!r}, which reads "
                f"{renamed.before.name!r}, was created meanwhile; nothing was committed: retry"
            )


def _check_quarantine_follows(state: StoreState, table_id: int, changed: Collection[int]) -> None:
    """ConflictError if a table has a quarantine that is not among the tables changed with it."""
    quarantine = None if table_id in state.views else state.quarantine_of(table_id)
    if quarantine is not None and quarantine.table_id not in changed:
        raise ConflictError(
            f"the table {state.name_of(table_id)!r} got a quarantine meanwhile; nothing was "
            "committed: try again"
        )


# Tables that belong to views and indexes


def _check_internal(state: StoreState, proposal: Proposal) -> None:
    """Check that rows of views change only with the views' progress, those of indexes never."""
    if not proposal.data_change:
        return
    refreshed = {progress.view_id for progress in proposal.progress}
    for table_id in sorted(proposal.written):
        owner = state.owner_of(table_id)
        if owner is None or owner.view_id not in refreshed:
            check_not_internal(state, table_id, "written")


# Tables that views read


def check_droppable(
    state: StoreState, table_ids: Sequence[int], views: Mapping[int, ViewDefinition] | None = None
) -> None:
    """Raise unless tables can be dropped together.

    ``views``: the definitions of the remaining views, by default as they are. DependentViewsError
    if a view reads a table and is not dropped itself, InternalTableError for some of a view's
    tables without the others, unless they become another view's, or an index without its table;
    ConflictError for a table without its indexes and its quarantine.
    """
    if views is None:
        views = {i: view.definition for i, view in state.views.items() if i not in table_ids}
    remaining = {table_id for definition in views.values() for table_id in definition.table_ids}
    for table_id in table_ids:
        definition = state.tables[table_id].definition
        if any(index.table_id not in table_ids for index in definition.indexes):
            raise ConflictError(
                f"the table {definition.name!r} got an index meanwhile; nothing was committed: "
                "drop it again"
            )
        _check_quarantine_follows(state, table_id, table_ids)
        indexed = state.indexed_table(table_id)
        if indexed is not None and indexed.table_id not in table_ids:
            check_not_internal(state, table_id, "dropped by itself")
        owner = state.owner_of(table_id)
        if owner is not None and (
            table_id in remaining
            or not set(owner.definition.table_ids) <= remaining.union(table_ids)
        ):
            check_not_internal(state, table_id, "dropped by itself")
        readers = [view for view in state.views_reading(table_id) if view.view_id not in table_ids]
        _check_no_readers(state, table_id, readers, "dropped", "; drop them first, or CASCADE")


def dependants(state: StoreState, table_ids: Iterable[int]) -> tuple[int, ...]:
    """Return the ids of tables, and of all tables of views that read them, transitively.

    With a view goes its replacement.
    """
    dependant_ids = dict.fromkeys(table_ids)
    queue = list(dependant_ids)
    while queue:
        table_id = queue.pop()
        replacement = state.replacement_of(table_id)
        readers = state.views_reading(table_id)
        for reader in readers if replacement is None else (*readers, replacement):
            new_ids = [
                table_id
                for table_id in reader.definition.table_ids
                if table_id not in dependant_ids
            ]
            dependant_ids |= dict.fromkeys(new_ids)
            queue += new_ids
    return tuple(dependant_ids)


def check_alterable(state: StoreState, altered: AlteredTable, *, is_emptied: bool = False) -> None:
    """Raise unless a table can be altered in this way.

    ``is_emptied``: its rows are replaced by the same commit. InternalTableError if a view's table
    would change by more than its name and its descriptions, and keeps its rows;
    DependentViewsError if a view reads a column that would change, or would have to follow rows
    that expire.
    """
    table_id = altered.before.table_id
    if not is_emptied and _undescribed(altered.before) != _undescribed(altered.after):
        check_not_internal(state, table_id, "altered")
    readers = state.views_reading(table_id)
    properties = altered.after.properties
    if properties.ttl is not None:
        check_unread(state, table_id, "given a TTL")
    if properties.may_have_parts and not altered.before.properties.may_have_parts:
        followers = [
            view
            for view in readers
            for table in view.definition.inputs
            if table.table_id == table_id and table.follows_expiry and not table.by_parts
        ]
        advice = ", which follow rows that expire whole; drop them first"
        _check_no_readers(state, table_id, followers, "made a document table", advice)
    after = {column.id: column.as_stored for column in altered.after.schema.columns}
    for column in altered.before.schema.columns:
        if after.get(column.id) != column.as_stored:
            column_readers = [view for view in readers if _uses(view, table_id, column.id)]
            action = f"altered in its column {column.name!r}"
            _check_no_readers(state, table_id, column_readers, action, "; drop them first")


def _undescribed(definition: TableDefinition) -> TableDefinition:
    """Return a definition without its name, comments, defaults and its user's properties."""
    columns = tuple(column.as_stored for column in definition.schema.columns)
    schema = replace(definition.schema, columns=columns)
    return replace(definition, name="", schema=schema, comment=None, user_properties=())


def check_unread(state: StoreState, table_id: int, action: str) -> None:
    """Raise DependentViewsError if a view reads a table whose rows would expire after an action.

    Views that were created when its rows could expire already follow that.
    """
    advice = ", which were created when its rows did not expire; drop them, and create them again"
    readers = [
        view
        for view in state.views_reading(table_id)
        if not view.definition.follows_expiry(table_id)
    ]
    _check_no_readers(state, table_id, readers, action, advice)


def _check_followable(state: StoreState, proposal: Proposal) -> None:
    """Check that no rows that expire are written to a table that a view reads."""
    if not state.views or not proposal.data_change:
        return
    for table_id in sorted(proposal.written):
        if any(segment.expiring(table_id) for segment in proposal.segments):
            check_unread(state, table_id, "written with rows that expire")


def _uses(view: CatalogView, table_id: int, column_id: int) -> bool:
    inputs = view.definition.inputs
    return any(table.table_id == table_id and column_id in table.column_ids for table in inputs)


def _check_no_readers(
    state: StoreState, table_id: int, readers: Sequence[CatalogView], action: str, advice: str
) -> None:
    if readers:
        names = ", ".join(sorted(map(state.title_of, readers)))
        raise DependentViewsError(
            f"{state.name_of(table_id)!r} cannot be {action}: it is read by the views "
            f"{names}{advice}"
        )


# Views


def _check_view(state: StoreState, view: NewView) -> None:
    """Raise unless a view can read its inputs. SchemaError."""
    for table in view.inputs:
        if state.indexed_table(table.table_id) is not None:
            check_not_internal(state, table.table_id, "read by a view")
        definition = state.tables[table.table_id].definition
        expires = definition.properties.ttl is not None or state.expiring_rows(table.table_id)
        if expires and not table.follows_expiry:
            raise SchemaError(
                f"the view {view.table.name!r} cannot read table {definition.name!r}, whose rows "
                "expire (TTL): it was planned when they did not; create it again"
            )
        if definition.properties.may_have_parts and table.follows_expiry and not table.by_parts:
            raise SchemaError(
                f"the view {view.table.name!r} cannot read table {definition.name!r}: it has "
                "become a document table, which expires part by part, since the view was planned; "
                "create the view again"
            )
        column_ids = {column.id for column in definition.schema.columns}
        if not column_ids.issuperset(table.column_ids):
            raise SchemaError(
                f"the view {view.table.name!r} reads columns of table {definition.name!r} that do "
                "not exist; read its columns again"
            )


def without_expiry(definition: TableDefinition) -> str:
    """Return advice for a message: how to store the rows of a table without a TTL."""
    name = quoted(definition.name)
    if definition.properties.append_only:
        return f"copy the rows to a table without such rows (INSERT INTO … SELECT * FROM {name})"
    return f"rewrite them: INSERT OVERWRITE {name} SELECT * FROM {name}"


def _check_progress(state: StoreState, progress: NewProgress, definition: ViewDefinition) -> None:
    """Raise unless a view can have a progress; ``definition``: the one that it has then."""
    name = state.name_of(progress.view_id)
    if state.views[progress.view_id] != progress.before:
        raise ConflictError(
            f"the view {name!r} was refreshed or altered meanwhile; nothing was committed: read it "
            "again and retry"
        )
    after = progress.at(state.epoch)
    expected = {table.table_id for table in definition.inputs}
    assert {table_id for table_id, _ in after.inputs} == expected
    assert all(epoch <= state.epoch for _, epoch in after.inputs)
    needed = state.oldest_epoch_needed_by(after)
    if needed is not None and needed < state.oldest_epoch:
        raise EpochExpiredError(
            f"the view {name!r} needs the changes since epoch {needed}, but {state.oldest_epoch} "
            "is the oldest epoch that can be read; nothing was committed: begin at a later epoch"
        )


def _check_required(base: StoreState, state: StoreState, required: Required) -> None:
    if isinstance(required, CatalogView):
        _check_live(base, state, required.view_id)
        if state.views[required.view_id] != required:
            raise ConflictError(
                f"the view {state.name_of(required.view_id)!r} was refreshed or altered "
                "meanwhile; nothing was committed: read it again and retry"
            )
        return
    _check_live(base, state, required.table_id)
    _check_same(required, state.tables[required.table_id].definition)


def _check_same(before: TableDefinition, now: TableDefinition) -> None:
    if now != before:
        raise _altered("table", before.name)


def _altered(kind: str, name: str) -> ConflictError:
    return ConflictError(
        f"{kind} {name!r} was altered meanwhile; nothing was committed: look at its definition "
        "again and retry"
    )


def oldest_epoch_needed_by_views(state: StoreState) -> int | None:
    """Return the oldest epoch that a view still has to read; None: none before the state's."""
    epochs = (state.oldest_epoch_needed_by(view.progress) for view in state.views.values())
    return min((epoch for epoch in epochs if epoch is not None), default=None)


def _check_oldest(state: StoreState, oldest: int | None) -> None:
    if oldest is None:
        return
    needed = oldest_epoch_needed_by_views(state)
    if needed is not None and needed < oldest:
        raise ConflictError(
            f"a view still needs epoch {needed}, so {oldest} cannot become the oldest epoch; "
            "nothing was committed: retry"
        )
