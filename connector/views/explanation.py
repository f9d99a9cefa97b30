"""What EXPLAIN shows of a view: its plan, its fragments, and their state tables.

Does not know: where the text goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from relstate.storage import (
    CatalogView,
    NewView,
    StoreState,
    next_definition,
    renamed_table,
    types,
)
from relstate.vnode import VnodeMapping

from .executor.executor import StateTableSpec
from .plan.generate import OneRow, Source
from .plan.node import plan_lines
from .plan.stateless import Scan
from .stored_plans import read_stored_plan
from .viewplan import Fragment, Operator, ViewPlan, unit_count


@dataclass(frozen=True, slots=True)
class _Tables:
    """The names of a plan's state tables and of the view's own, and their ids if they have any."""

    names: Sequence[str]
    ids: Sequence[int | None]

    def of(self, operator: Operator) -> list[tuple[str, int | None, StateTableSpec]]:
        """Return the name, the id and the columns of each table of an executor."""
        positions = [-1] if operator.is_root else list(operator.tables)
        return [
            (self.names[position], self.ids[position], spec)
            for position, spec in zip(positions, operator.specs, strict=True)
        ]


def explain_view(state: StoreState, view: CatalogView) -> list[str]:
    """Return lines that show how a view is maintained. CorruptionError for a damaged plan."""
    ids = (*view.definition.internal, view.view_id)
    tables = _Tables([state.name_of(table_id) for table_id in ids], ids)
    return _lines(read_stored_plan(state, view), view.definition.mapping, tables)


def explain_new_view(view: NewView) -> list[str]:
    """Return lines that show how a view would be maintained; its tables have no ids yet."""
    names = [table.name for table in (*view.internal, view.table)]
    tables = _Tables(names, [None] * len(names))
    return _lines(ViewPlan.from_json(view.plan), view.mapping, tables)


def explain_replacement(state: StoreState, view: NewView) -> list[str]:
    """Return lines that show how a view would be maintained, and what becomes of its readers."""
    assert view.replaces is not None
    name = state.name_of(view.replaces)
    names = [renamed_table(table.name, view.table.name, name) for table in view.tables]
    tables = [replace(table, name=new) for table, new in zip(view.tables, names, strict=True)]
    lines = explain_new_view(replace(view, table=tables[0], internal=tuple(tables[1:])))
    if next_definition(state.tables[view.replaces].definition, view.table) is None:
        what = f"a new table takes the name {name}: its change feed begins with its rows"
    else:
        readers = sorted(map(state.title_of, state.views_reading(view.replaces)))
        what = f"{name} stays the same table: its change feed has the difference"
        what += f"; views that take it in: {', '.join(readers)}" if readers else ""
    return [*lines, "", "== Replacement ==", what]


def _lines(plan: ViewPlan, mapping: VnodeMapping, tables: _Tables) -> list[str]:
    lines = ["== Plan ==", *plan_lines(plan.root), "", "== Fragments =="]
    for fragment in plan.fragments:
        lines += _fragment_lines(fragment, mapping, tables)
    return [*lines, "", "== Vnode mapping ==", *_mapping_lines(mapping)]


def _fragment_lines(fragment: Fragment, mapping: VnodeMapping, tables: _Tables) -> list[str]:
    sources = ", ".join(map(_source_name, fragment.inputs))
    where = ", ".join(map(types.quoted, fragment.distribution)) or "vnode 0 alone"
    rows = "all rows in every unit" if fragment.is_broadcast else f"distributed by {where}"
    units = unit_count(mapping, fragment.distribution)
    lines = [f"Fragment {fragment.number}: from {sources}; {rows}; units {units}"]
    for operator in fragment.operators:
        lines.append(f"  Executor {operator.number}: {operator.executor.label}")
        for name, table_id, spec in tables.of(operator):
            number = "" if table_id is None else f" [{table_id}]"
            lines.append(f"    {spec.role}: {name}{number} key ({_key(spec)})")
    return lines


def _source_name(source: int | Source) -> str:
    match source:
        case Scan():
            return f"scan of {source.table}"
        case OneRow():
            return "a constant"
    return f"fragment {source}"


def _key(spec: StateTableSpec) -> str:
    return ", ".join(
        f"{types.quoted(column.name)}{' DESC' if column.descending else ''}"
        for column in spec.primary_key
    )


def _mapping_lines(mapping: VnodeMapping) -> list[str]:
    lines = []
    for unit in range(mapping.units):
        ranges = mapping.ranges_of(unit)
        shown = ", ".join(str(r[0]) if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in ranges)
        lines.append(f"unit {unit}: {sum(map(len, ranges))} vnodes: {shown}")
    return lines
