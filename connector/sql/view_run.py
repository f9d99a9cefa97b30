"""Runs the statements about materialized views.

Does not know: how statements are written, or how views are maintained.
"""

from __future__ import annotations

from typing import Any

from relstate.connector.figures.views import backfill_share
from relstate.connector.views.creation import (
    ViewOptions,
    new_view,
    options_of,
    replacement_view,
)
from relstate.connector.views.explanation import (
    explain_new_view,
    explain_replacement,
    explain_view,
)
from relstate.connector.views.lineage import is_behind
from relstate.connector.views.views import Views
from relstate.storage import CatalogView, ReadPlan, StoreState, errors

from .result import Result, epoch_result
from .show_run import matches
from .view_ddl import (
    AlterQuery,
    CreateView,
    DropView,
    ExplainView,
    RefreshView,
    RenameView,
    SetViewProperties,
    ShowInternalTables,
    ShowViews,
    ViewStatement,
)

_VIEWS = (
    "viewName STRING NOT NULL, reflects BIGINT NOT NULL, is_behind BOOLEAN NOT NULL, "
    "backfill DOUBLE, parallelism INT NOT NULL, inputs ARRAY<STRING> NOT NULL, "
    "query STRING NOT NULL"
)
_INTERNAL = (
    "tableName STRING NOT NULL, viewName STRING NOT NULL, table_id BIGINT NOT NULL, "
    "primary_key ARRAY<STRING> NOT NULL, rows BIGINT NOT NULL, bytes BIGINT NOT NULL"
)


class ViewRunner:
    """The views of a store, as statements see them."""

    def __init__(self, views: Views) -> None:
        self._views = views
        self._store = views.store

    def run(self, statement: ViewStatement) -> Result:
        """Run a statement and return its rows. Errors are those of `Views` and of the store."""
        match statement:
            case CreateView():
                return epoch_result(self._create(statement))
            case DropView(name, if_exists, cascade):
                self._store.drop_view(name, if_exists=if_exists, cascade=cascade)
                return epoch_result(self._store.known_epoch)
            case AlterQuery(name, query):
                return epoch_result(self._views.alter_query(name, query))
            case RenameView(name, new):
                return epoch_result(self._views.rename(name, new))
            case SetViewProperties(name, parallelism, changes):
                return epoch_result(self._views.set_properties(name, parallelism, changes))
            case RefreshView(name):
                return epoch_result(self._views.refresh([name]).epoch)
            case ShowViews(pattern):
                return self._show(pattern)
            case ShowInternalTables(view):
                return self._internal(view)
            case ExplainView(view):
                return Result([("\n".join(self._explained(view)),)], "plan STRING NOT NULL")

    def _explained(self, view: str | CreateView | AlterQuery) -> list[str]:
        state, spark = self._store.state, self._views.spark
        match view:
            case AlterQuery(name, query):
                replaced = state.view(name)
                options = options_of(state, replaced)
                planned = replacement_view(spark, state, replaced, query, options)
                return explain_replacement(state, planned)
            case CreateView() if view.or_replace and view.name.lower() in state.table_ids:
                replaced = state.view(view.name)
                planned = replacement_view(spark, state, replaced, view.query, _options(view))
                return explain_replacement(state, planned)
            case CreateView():
                planned = new_view(spark, state, view.name, view.query, _options(view))
                return explain_new_view(planned)
        return explain_view(state, state.view(view))

    def _create(self, statement: CreateView) -> int:
        if statement.or_replace and statement.name.lower() in self._store.state.table_ids:
            return self._views.replace(statement.name, statement.query, _options(statement))
        try:
            return self._views.create(statement.name, statement.query, _options(statement))
        except errors.TableExistsError:
            if not statement.if_not_exists:
                raise
            self._store.state.view(statement.name)
            return self._store.known_epoch

    def _show(self, pattern: str | None) -> Result:
        state, time = self._store.state, self._store.environment.now()
        names = (name for name in state.view_names() if matches(name, pattern))
        return Result([_view_row(state, name, time) for name in names], _VIEWS)

    def _internal(self, name: str | None) -> Result:
        state = self._store.state
        views = [state.view(name)] if name is not None else list(state.views.values())
        rows = [
            _table_row(self._store.path, state, view, table_id)
            for view in sorted(views, key=lambda view: view.view_id)
            for table_id in view.definition.internal
        ]
        return Result(rows, _INTERNAL)


def _options(statement: CreateView) -> ViewOptions:
    return ViewOptions(
        statement.parallelism,
        statement.columns,
        statement.user_properties,
        statement.column_comments,
        statement.cluster_by,
        statement.quarantines,
    )


def _view_row(state: StoreState, name: str, time: int) -> tuple[Any, ...]:
    view = state.view(name)
    definition, progress = view.definition, view.progress
    return (
        name,
        progress.reflects,
        is_behind(state, [view.view_id], time),
        backfill_share(state, view),
        definition.mapping.units,
        [state.name_of(table.table_id) for table in definition.inputs],
        definition.query,
    )


def _table_row(path: str, state: StoreState, view: CatalogView, table_id: int) -> tuple[Any, ...]:
    plan = ReadPlan.of(path, state, state.name_of(table_id))
    return (
        plan.definition.name,
        state.name_of(view.definition.replaces or view.view_id),
        table_id,
        [column.name for column in plan.definition.schema.key_columns],
        plan.stored_rows,
        plan.stored_bytes,
    )
