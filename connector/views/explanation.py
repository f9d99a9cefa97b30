"""What EXPLAIN tells of a view: its plan, the fragments, and what each of them keeps.

Does not know: where the text goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from relstate.storage import CatalogView, NewView, StoreState, types
from relstate.vnode import VnodeMapping

from .executor.executor import StateTableSpec
from .plan.node import plan_lines
from .plan.stateless import Scan
from .viewplan import Fragment, Operator, ViewPlan, stored_plan, units_of


@dataclass(frozen=True, slots=True)
class _Tables:
    """The names of a plan's state tables and of the view's own, and their ids if they have any."""

    names: Sequence[str]
    ids: Sequence[int | None]

    def of(self, operator: Operator) -> list[tuple[str, int | None, StateTableSpec]]:
        """Return the tables that an operator keeps."""
        places = [-1] if operator.is_root else list(operator.tables)
        named = ((self.names[place], self.ids[place]) for place in places)
        return [(*each, spec) for each, spec in zip(named, operator.specs, strict=True)]


def explained(state: StoreState, view: CatalogView) -> list[str]:
    """Return lines that tell how a view is kept."""
    ids = (*view.definition.internal, view.view_id)
    tables = _Tables([state.name_of(one) for one in ids], ids)
    return _lines(
        stored_plan(state.name_of(view.view_id), view.definition.plan),
        view.definition.mapping,
        tables,
    )


def explained_new(view: NewView) -> list[str]:
    """Return lines that tell how a view would be kept; its tables have no ids yet."""
    names = [table.name for table in (*view.internal, view.table)]
    return _lines(
        stored_plan(view.table.name, view.plan), view.mapping, _Tables(names, [None] * len(names))
    )


def _lines(plan: ViewPlan, mapping: VnodeMapping, tables: _Tables) -> list[str]:
    lines = ["== Plan ==", *plan_lines(plan.root), "", "== Fragments =="]
    for fragment in plan.fragments:
        lines += _fragment_lines(fragment, mapping, tables)
    return [*lines, "", "== Vnode mapping ==", *_mapping_lines(mapping)]


def _fragment_lines(fragment: Fragment, mapping: VnodeMapping, tables: _Tables) -> list[str]:
    sources = ", ".join(
        f"scan of {one.table}" if isinstance(one, Scan) else f"fragment {one}"
        for one in fragment.inputs
    )
    where = ", ".join(map(types.quoted, fragment.distribution)) or "vnode 0 alone"
    units = units_of(mapping, fragment.distribution)
    lines = [f"Fragment {fragment.number}: from {sources}; distributed by {where}; units {units}"]
    for operator in fragment.operators:
        lines.append(f"  Executor {operator.number}: {operator.executor.label}")
        for name, table_id, spec in tables.of(operator):
            number = "" if table_id is None else f" [{table_id}]"
            lines.append(f"    {spec.role}: {name}{number} key ({_key(spec)})")
    return lines


def _key(spec: StateTableSpec) -> str:
    return ", ".join(
        f"{types.quoted(one.name)}{' DESC' if one.descending else ''}" for one in spec.primary_key
    )


def _mapping_lines(mapping: VnodeMapping) -> list[str]:
    lines = []
    for unit in range(mapping.units):
        owned = mapping.ranges_of(unit)
        shown = ", ".join(str(one[0]) if len(one) == 1 else f"{one[0]}-{one[-1]}" for one in owned)
        lines.append(f"unit {unit}: {sum(map(len, owned))} vnodes: {shown}")
    return lines
