"""A view that is to be: from its SELECT to what the catalog is to hold of it.

Promises: what cannot be kept is refused; nothing is committed.
Does not know: who creates it, or how it is filled.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from relstate.storage import (
    NewTable,
    NewView,
    StoreState,
    TableProperties,
    ViewInput,
    check_table_name,
    errors,
)
from relstate.vnode import VnodeMapping

from .executor.executor import StateTableSpec
from .planner.catalog import StoreTables
from .planner.planner import plan_view
from .sessions import Sessions, parallelism, remembered, undisturbed
from .viewplan import Operator, ViewPlan, schema_of


def new_view(
    spark: SparkSession, state: StoreState, name: str, query: str, units: int | None = None
) -> NewView:
    """Return a view that is to be created as what a SELECT says of the tables at a state.

    ``units``: in how many parallel units it is kept, by default as many tasks as the session
    runs at once. TableNameError, TableExistsError, OptionError; UnsupportedStatementError where
    the SELECT cannot be kept incrementally.
    """
    check_table_name(name)
    if name.lower() in state.table_ids:
        raise errors.TableExistsError(
            f"there is a table or view {name!r} already: drop it, or take another name"
        )
    settings = remembered(spark)
    with undisturbed(spark):
        root = plan_view(Sessions(spark).of(settings), StoreTables(state), query)
    plan = ViewPlan(root)
    vnode_count = state.settings.vnode_count
    mapping = VnodeMapping.balanced(vnode_count, _units(spark, vnode_count, units))
    return NewView(
        NewTable(name, plan.table_schema, TableProperties(append_only=root.is_append_only)),
        tuple(internal_tables(name, plan)),
        query,
        _inputs(state, plan),
        mapping,
        settings,
        root.to_json(),
    )


def internal_tables(view: str, plan: ViewPlan) -> list[NewTable]:
    """Return the state tables of a plan, in the order of their places, under their names."""
    found = []
    for fragment in plan.fragments:
        for operator in fragment.operators:
            if not operator.is_root:
                found += [
                    (place, _table(view, fragment.number, operator, spec))
                    for place, spec in zip(operator.tables, operator.specs, strict=True)
                ]
    return [table for _, table in sorted(found, key=lambda pair: pair[0])]


def _table(view: str, fragment: int, operator: Operator, spec: StateTableSpec) -> NewTable:
    role = spec.role.replace(" ", "_")
    name = f"__internal_{view}_{fragment}_{operator.executor.label}_{operator.number}_{role}"
    return NewTable(name, schema_of(spec))


def _inputs(state: StoreState, plan: ViewPlan) -> tuple[ViewInput, ...]:
    """Return the tables that a plan reads, each once, with the ids of the columns it reads."""
    found: dict[int, dict[int, None]] = {}
    for scan in plan.scans:
        schema = state.tables[scan.table_id].definition.schema
        ids = (schema.column(name).id for name in scan.column_names)
        found.setdefault(scan.table_id, {}).update(dict.fromkeys(ids))
    return tuple(ViewInput(table_id, tuple(sorted(ids))) for table_id, ids in found.items())


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
