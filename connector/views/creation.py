"""A new view: from its SELECT to its definition in the catalog.

Promises: what cannot be maintained is refused; nothing is committed.
Does not know: how the view is populated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import SparkSession

from relstate.storage import (
    NewTable,
    NewView,
    StoreState,
    TableProperties,
    TableSchema,
    ViewInput,
    check_table_name,
    descriptions_of,
    errors,
)
from relstate.vnode import VnodeMapping

from .executor.executor import StateTableSpec
from .operators import PlanError
from .plan.materialize import Materialize
from .planner.analysis import StoreTables
from .planner.query import plan_view
from .sessions import Sessions, keep_active_session, parallelism, stored_settings
from .viewplan import Operator, ViewPlan, schema_of


def new_view(
    spark: SparkSession,
    state: StoreState,
    name: str,
    query: str,
    units: int | None = None,
    *,
    columns: Sequence[str] = (),
    user_properties: Mapping[str, str | None] | None = None,
    column_comments: Mapping[str, str] | None = None,
) -> NewView:
    """Return the definition of a view with the rows of a SELECT over the tables at a state.

    ``units``: in how many parallel units it is maintained, by default as many as the session
    runs at once. ``columns``: the names of its columns, by default those of the SELECT.
    ``user_properties``: with its comment as ``comment``.
    TableNameError, TableExistsError, OptionError; UnsupportedStatementError where
    the SELECT cannot be maintained incrementally.
    """
    check_table_name(name)
    if name.lower() in state.table_ids:
        raise errors.TableExistsError(
            f"there is a table or view {name!r} already: drop it, or take another name"
        )
    settings = stored_settings(spark)
    with keep_active_session(spark):
        root = plan_view(Sessions(spark).of(settings), StoreTables(state), query, columns)
    plan = _readable(root)
    vnode_count = state.settings.vnode_count
    mapping = VnodeMapping.balanced(vnode_count, _units(spark, vnode_count, units))
    return NewView(
        NewTable(
            name,
            _with_comments(plan.table_schema, column_comments or {}),
            TableProperties(append_only=root.is_append_only),
            *descriptions_of(user_properties or {}),
        ),
        tuple(internal_tables(name, plan)),
        query,
        _inputs(state, plan),
        mapping,
        settings,
        root.to_json(),
    )


def _with_comments(schema: TableSchema, comments: Mapping[str, str]) -> TableSchema:
    columns = (replace(column, comment=comments.get(column.name)) for column in schema.columns)
    return replace(schema, columns=tuple(columns))


def _readable(root: Materialize) -> ViewPlan:
    """Return the plan as it will be read from the catalog.

    UnsupportedStatementError if it could not be read.
    """
    try:
        return ViewPlan.from_json(root.to_json())
    except PlanError as error:
        raise errors.UnsupportedStatementError(
            f"the plan of this query cannot be stored: {error}; split it into several views"
        ) from None


def internal_tables(view: str, plan: ViewPlan) -> list[NewTable]:
    """Return the state tables of a plan with their names, by their positions."""
    tables: dict[int, NewTable] = {}
    for fragment in plan.fragments:
        for operator in fragment.operators:
            if not operator.is_root:
                for position, spec in zip(operator.tables, operator.specs, strict=True):
                    tables[position] = _table(view, fragment.number, operator, spec)
    return [tables[position] for position in sorted(tables)]


def _table(view: str, fragment: int, operator: Operator, spec: StateTableSpec) -> NewTable:
    role = spec.role.replace(" ", "_")
    name = f"__internal_{view}_{fragment}_{operator.executor.label}_{operator.number}_{role}"
    return NewTable(name, schema_of(spec))


def _inputs(state: StoreState, plan: ViewPlan) -> tuple[ViewInput, ...]:
    """Return the tables that a plan reads, each once, with the ids of the columns it reads."""
    columns: dict[int, dict[int, None]] = {}
    for scan in plan.scans:
        schema = state.tables[scan.table_id].definition.schema
        ids = (schema.column(name).id for name in scan.column_names)
        columns.setdefault(scan.table_id, {}).update(dict.fromkeys(ids))
    return tuple(ViewInput(table_id, tuple(sorted(ids))) for table_id, ids in columns.items())


def _units(spark: SparkSession, vnode_count: int, units: int | None) -> int:
    if units is None:
        return min(parallelism(spark), vnode_count)
    check_parallelism(vnode_count, units)
    return units


def check_parallelism(vnode_count: int, units: int) -> None:
    """OptionError unless a number of parallel units is 1 to the number of vnodes."""
    if not 1 <= units <= vnode_count:
        raise errors.OptionError(
            f"parallelism must be 1 to {vnode_count}, the number of vnodes, not {units}"
        )
