"""The description of a plan for people: fragments, executors, state tables and vnodes of units.

Does not know: Spark, or how a description is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from relstate.storage import CatalogView, NewView, StoreState, TableDefinition, types
from relstate.vnode import VnodeMapping

from .executor.executor import StateTableSpec
from .plan.generate import OneRow, Source
from .plan.stateless import Scan
from .viewplan import Fragment, Operator, ViewPlan, unit_count


@dataclass(frozen=True, slots=True)
class StateTableDescription:
    """A table of an executor: its role there, its name, key, definition, and id if it has one."""

    role: str
    name: str
    table_id: int | None
    key: str
    definition: TableDefinition


@dataclass(frozen=True, slots=True)
class ExecutorDescription:
    """An executor of a plan, by its number and kind, and its tables."""

    number: int
    label: str
    tables: tuple[StateTableDescription, ...]


@dataclass(frozen=True, slots=True)
class FragmentDescription:
    """Executors between two shuffles.

    ``sources``: where its rows come from; ``distribution``: which rows a unit gets; ``units``: in
    how many units it runs.
    """

    number: int
    sources: tuple[str, ...]
    distribution: str
    units: int
    executors: tuple[ExecutorDescription, ...]


@dataclass(frozen=True, slots=True)
class PlanTables:
    """A plan's state tables, the view's own last: names, definitions, and ids if they have any."""

    names: Sequence[str]
    ids: Sequence[int | None]
    definitions: Sequence[TableDefinition]

    @classmethod
    def of_view(cls, state: StoreState, view: CatalogView) -> PlanTables:
        """Return the tables of a view in the catalog."""
        ids = (*view.definition.internal, view.view_id)
        definitions = [state.tables[table_id].definition for table_id in ids]
        return cls([state.name_of(table_id) for table_id in ids], ids, definitions)

    @classmethod
    def of_new_view(cls, view: NewView) -> PlanTables:
        """Return the tables of a view that is to be created; they have no ids yet."""
        tables = (*view.internal, view.table)
        definitions = [table.definition(number, 0) for number, table in enumerate(tables, 1)]
        return cls([table.name for table in tables], [None] * len(tables), definitions)

    def of(self, operator: Operator) -> tuple[StateTableDescription, ...]:
        """Return the tables of an executor."""
        positions = [-1] if operator.is_root else list(operator.tables)
        return tuple(
            StateTableDescription(
                spec.role,
                self.names[position],
                self.ids[position],
                _key(spec),
                self.definitions[position],
            )
            for position, spec in zip(positions, operator.specs, strict=True)
        )


def describe_fragments(
    plan: ViewPlan, mapping: VnodeMapping, tables: PlanTables
) -> tuple[FragmentDescription, ...]:
    """Return the description of each fragment of a plan, those of inputs first."""
    return tuple(_describe(fragment, mapping, tables) for fragment in plan.fragments)


def _describe(fragment: Fragment, mapping: VnodeMapping, tables: PlanTables) -> FragmentDescription:
    columns = ", ".join(map(types.quoted, fragment.distribution)) or "vnode 0 alone"
    return FragmentDescription(
        fragment.number,
        tuple(map(_source_name, fragment.inputs)),
        "all rows in every unit" if fragment.is_broadcast else f"distributed by {columns}",
        unit_count(mapping, fragment.distribution),
        tuple(
            ExecutorDescription(operator.number, operator.executor.label, tables.of(operator))
            for operator in fragment.operators
        ),
    )


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


def mapping_lines(mapping: VnodeMapping) -> list[str]:
    """Return a line of text for each parallel unit: the vnodes that it owns."""
    lines = []
    for unit in range(mapping.units):
        ranges = mapping.ranges_of(unit)
        shown = ", ".join(str(r[0]) if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in ranges)
        lines.append(f"unit {unit}: {sum(map(len, ranges))} vnodes: {shown}")
    return lines
