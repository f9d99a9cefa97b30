"""What EXPLAIN shows of a view: its plan, its fragments, and their state tables.

Does not know: where the text goes.
"""

from __future__ import annotations

from dataclasses import replace

from relstate.storage import (
    CatalogView,
    NewView,
    StoreState,
    figures,
    next_definition,
    renamed_table,
)
from relstate.vnode import VnodeMapping

from .full_refresh import can_be_full, joins_rows, rows_of_a_change
from .plan.node import plan_lines
from .plan_description import (
    FragmentDescription,
    PlanTables,
    describe_fragments,
    mapping_lines,
)
from .stored_plans import read_stored_plan
from .viewplan import ViewPlan, creator_of


def explain_view(state: StoreState, view: CatalogView) -> list[str]:
    """Return lines that show how a view is maintained. CorruptionError for a damaged plan."""
    definition = view.definition
    lines = _lines(
        read_stored_plan(state, view),
        definition.mapping,
        PlanTables.of_view(state, view),
        has_quarantine=definition.quarantine is not None,
    )
    creator = creator_of(definition.plan)
    return lines if creator is None else [*lines, "", f"Created by Spark {creator}"]


def explain_new_view(view: NewView) -> list[str]:
    """Return lines that show how a view would be maintained; its tables have no ids yet."""
    tables = PlanTables.of_new_view(view)
    plan, has_quarantine = ViewPlan.from_json(view.plan), view.quarantine is not None
    return _lines(plan, view.mapping, tables, has_quarantine=has_quarantine)


def explain_replacement(state: StoreState, view: NewView) -> list[str]:
    """Return lines that show how a view would be maintained, and what becomes of its readers."""
    assert view.replaces is not None
    name = state.name_of(view.replaces)
    names = [renamed_table(table.name, view.table.name, name) for table in view.tables]
    tables = [replace(table, name=new) for table, new in zip(view.tables, names, strict=True)]
    lines = explain_new_view(replace(view, table=tables[0], internal=tuple(tables[1:])))
    if next_definition(state.tables[view.replaces].definition, view.table) is None:
        effect = f"a new table takes the name {name}: its change feed begins with its rows"
    else:
        readers = sorted(map(state.title_of, state.views_reading(view.replaces)))
        effect = f"{name} stays the same table: its change feed has the difference"
        effect += f"; views that take it in: {', '.join(readers)}" if readers else ""
    return [*lines, "", "== Replacement ==", effect]


def _lines(
    plan: ViewPlan, mapping: VnodeMapping, tables: PlanTables, *, has_quarantine: bool
) -> list[str]:
    lines = ["== Plan ==", *plan_lines(plan.root), "", "== Fragments =="]
    for fragment in describe_fragments(plan, mapping, tables):
        lines += _fragment_lines(fragment, mapping.vnode_count)
    if can_be_full(plan, has_quarantine=has_quarantine):
        share = f"1 in {rows_of_a_change(plan)} rows"
        inputs = "an input" if joins_rows(plan) else "its inputs"
        lines += [
            "",
            "== Refresh ==",
            f"in full, from all rows, after changes of more than {share} of {inputs},",
            "or when a task would read more of the state than that reads of the inputs",
        ]
    return [*lines, "", "== Vnode mapping ==", *mapping_lines(mapping)]


def _fragment_lines(fragment: FragmentDescription, vnode_count: int) -> list[str]:
    sources, units = ", ".join(fragment.sources), fragment.units
    lines = [f"Fragment {fragment.number}: from {sources}; {fragment.distribution}; units {units}"]
    for executor in fragment.executors:
        lines.append(f"  Executor {executor.number}: {executor.label}")
        for table in executor.tables:
            number = "" if table.table_id is None else f" [{table.table_id}]"
            size = figures.typical_row_bytes(table.definition, vnode_count)
            text = f"{table.role}: {table.name}{number} key ({table.key}), some {size} bytes a row"
            lines.append(f"    {text}")
    return lines
