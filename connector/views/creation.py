"""A new view: from its SELECT to its definition in the catalog.

Promises: what cannot be maintained is refused; nothing is committed.
Does not know: how the view is populated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import SparkSession

from relstate.connector.parallelism import parallelism
from relstate.connector.spark.version import session_version
from relstate.storage import (
    RESERVED_PREFIX,
    CatalogView,
    NewTable,
    NewView,
    StoreState,
    TableProperties,
    TableSchema,
    ViewInput,
    check_replaceable,
    check_table_name,
    descriptions_of,
    errors,
    replacement_name,
)
from relstate.vnode import VnodeMapping

from .executor.executor import StateTableSpec
from .lineage import upstream
from .operators import PlanError
from .plan.materialize import Materialize
from .planner.analysis import StoreTables
from .planner.view import plan_view
from .quarantine import check_quarantine, new_quarantine
from .sessions import Sessions, keep_active_session
from .view_settings import READING, stored_settings
from .viewplan import Operator, ViewPlan, parse_stored_plan, schema_of, with_creator


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """What a user says of a view besides its name and its SELECT.

    ``parallelism``: in how many parallel units it is maintained, None for as many as the session
    runs at once. ``columns``: the names of its columns, empty for those of the SELECT.
    ``user_properties``: with its comment as ``comment``. ``column_comments``: by the columns.
    ``cluster_by``: the columns by which its rows are distributed; none for any. ``quarantines``:
    rows for which it cannot be computed are left out, and listed.
    """

    parallelism: int | None = None
    columns: tuple[str, ...] = ()
    user_properties: Mapping[str, str | None] = field(default_factory=dict)
    column_comments: Mapping[str, str] = field(default_factory=dict)
    cluster_by: tuple[str, ...] = ()
    quarantines: bool = False


PLAIN_VIEW = ViewOptions()


def new_view(
    spark: SparkSession,
    state: StoreState,
    name: str,
    query: str,
    options: ViewOptions = PLAIN_VIEW,
) -> NewView:
    """Return the definition of a view with the rows of a SELECT over the tables at a state.

    TableNameError, TableExistsError, OptionError; UnsupportedStatementError where
    the SELECT cannot be maintained incrementally.
    """
    check_table_name(name)
    if name.lower() in state.table_ids:
        raise errors.TableExistsError(
            f"there is a table or view {name!r} already: drop it, or use another name"
        )
    return _planned_view(spark, state, name, query, options)


def replacement_view(
    spark: SparkSession,
    state: StoreState,
    replaced: CatalogView,
    query: str,
    options: ViewOptions = PLAIN_VIEW,
) -> NewView:
    """Return the definition of a view that is to take the place of another one.

    The other arguments and errors are those of `new_view`. DependentViewsError if views read what
    it does not have; UnsupportedStatementError if it would read the view that it replaces.
    """
    name = replacement_name(replaced.view_id)
    view = _planned_view(spark, state, name, query, options)
    view = replace(view, replaces=replaced.view_id)
    views = [table.table_id for table in view.inputs if table.table_id in state.views]
    if replaced.view_id in upstream(state, views):
        raise errors.UnsupportedStatementError(
            f"the view {state.name_of(replaced.view_id)!r} would read itself: read its inputs "
            "instead, or create a view of another name"
        )
    check_replaceable(state, replaced, view.table)
    return view


def options_of(state: StoreState, view: CatalogView) -> ViewOptions:
    """Return the options of a view, without the names of its columns."""
    definition = state.tables[view.view_id].definition
    columns = definition.schema.columns
    return ViewOptions(
        view.definition.mapping.units,
        (),
        {"comment": definition.comment, **dict(definition.user_properties)},
        {column.name: column.comment for column in columns if column.comment is not None},
        parse_stored_plan(definition.name, view.definition.plan).root.cluster_columns,
        view.definition.quarantine is not None,
    )


def _planned_view(
    spark: SparkSession, state: StoreState, name: str, query: str, options: ViewOptions
) -> NewView:
    settings = stored_settings(spark)
    reads_otherwise = not READING.isdisjoint(settings)
    with keep_active_session(spark):
        session = Sessions(spark).of(settings)
        tables = StoreTables(state)
        root = plan_view(
            session,
            tables,
            query,
            options.columns,
            options.cluster_by,
            Sessions(spark, {}, reads_as_user=True).of(settings) if reads_otherwise else None,
        )
    plan = _readable(root)
    if options.quarantines:
        check_quarantine(plan)
    vnode_count = state.settings.vnode_count
    mapping = VnodeMapping.balanced(vnode_count, _units(spark, vnode_count, options.parallelism))
    return NewView(
        NewTable(
            name,
            _with_comments(plan.table_schema, options.column_comments),
            TableProperties(append_only=root.is_append_only),
            *descriptions_of(options.user_properties),
        ),
        tuple(internal_tables(name, plan)),
        query,
        _inputs(state, plan),
        mapping,
        settings,
        with_creator(root.to_json(), session_version(spark)),
        quarantine=new_quarantine(name) if options.quarantines else None,
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
    view = view.removeprefix(RESERVED_PREFIX)
    name = f"{RESERVED_PREFIX}{view}_{fragment}_{operator.executor.label}_{operator.number}_{role}"
    return NewTable(name, schema_of(spec))


def _inputs(state: StoreState, plan: ViewPlan) -> tuple[ViewInput, ...]:
    """Return the tables that a plan reads, each once, with the ids of the columns it reads."""
    columns: dict[int, dict[int, None]] = {}
    expiring = {scan.table_id for scan in plan.scans if scan.follows_expiry}
    divided = {scan.table_id for scan in plan.scans if scan.by_parts}
    for scan in plan.scans:
        schema = state.tables[scan.table_id].definition.schema
        ids = (schema.column(name).id for name in scan.column_names)
        columns.setdefault(scan.table_id, {}).update(dict.fromkeys(ids))
    return tuple(
        ViewInput(table_id, tuple(sorted(ids)), table_id in expiring, table_id in divided)
        for table_id, ids in columns.items()
    )


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
