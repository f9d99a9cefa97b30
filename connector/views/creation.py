"""A view that is to be: from its SELECT to what the catalog is to hold of it.

Promises: what cannot be kept is refused; nothing is committed.
Does not know: who creates it, or how it is filled.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from relstate.connector.syntax.tokens import quoted
from relstate.storage import (
    NewTable,
    NewView,
    StoreState,
    TableProperties,
    TableSchema,
    ViewInput,
    check_table_name,
    errors,
)
from relstate.vnode import VnodeMapping

from .operators import Operator, fragments, operators, scans
from .plan.form import to_json
from .plan.materialize import Materialize
from .plan.node import Order
from .plan.state import StateTableSpec
from .planner.catalog import StoreTables
from .planner.planner import plan_view
from .sessions import Sessions, parallelism, remembered, undisturbed
from .source import columns_of


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
        plan = plan_view(Sessions(spark).of(settings), StoreTables(state), query)
    vnode_count = state.settings.vnode_count
    mapping = VnodeMapping.balanced(vnode_count, _units(spark, vnode_count, units))
    return NewView(
        NewTable(name, _schema_of(plan), TableProperties(append_only=plan.is_append_only)),
        tuple(internal_tables(name, plan)),
        query,
        _inputs(state, plan),
        mapping,
        settings,
        to_json(plan),
    )


def internal_tables(view: str, plan: Materialize) -> list[NewTable]:
    """Return the state tables of a plan, in the order of their places, under their names."""
    found = []
    for fragment in fragments(plan):
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


def schema_of(spec: StateTableSpec, hidden: Sequence[str] = ()) -> TableSchema:
    """Return the schema of a state table."""
    return TableSchema.build(
        spec.fields,
        [_key_part(one) for one in spec.primary_key],
        spec.distribution,
        nullable_key=True,
        hidden=hidden,
    )


def _schema_of(plan: Materialize) -> TableSchema:
    root = operators(plan)[-1]
    (spec,) = root.specs
    return schema_of(spec, plan.hidden)


def _key_part(order: Order) -> str:
    direction = "DESC" if order.descending else "ASC"
    return f"{quoted(order.name)} {direction} NULLS {'FIRST' if order.nulls_first else 'LAST'}"


def _inputs(state: StoreState, plan: Materialize) -> tuple[ViewInput, ...]:
    """Return the tables that a plan reads, each once, with the ids of the columns it reads."""
    found: dict[int, dict[int, None]] = {}
    for scan in scans(plan):
        schema = state.tables[scan.table_id].definition.schema
        ids = (schema.column(name).id for name in columns_of(scan))
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
