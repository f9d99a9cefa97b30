"""The plan of a view with what follows from it: executors, fragments, state tables.

Promises: a function of the plan alone: the same executors under the same numbers, with the same
state tables at the same positions, wherever and whenever it is computed.
Does not know: table ids, Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from relstate.storage import TableSchema, errors
from relstate.vnode import VnodeMapping, cached_property

from .executor.executor import StateTableSpec
from .operators import ExecutorType, PlanError, executors_of, plan_from_json
from .plan.broadcast_join import BroadcastJoin
from .plan.generate import Generate, Source
from .plan.materialize import Materialize
from .plan.node import Names, Node, walk
from .plan.recompute import KeyedRecompute
from .plan.shared import Shared
from .plan.stateless import Scan
from .plan.temporal import TemporalFilter

# So many rows may an operator make of each row before a part has fewer of them.
_FEW_ROWS = 64


@dataclass(frozen=True, slots=True)
class Operator:
    """One executor of a plan.

    ``number``: from 1, in the order of the plan's walk. ``specs``: its state tables, which begin
    at position ``first_table`` of those of the plan; the root's only one is the view's own table.
    """

    number: int
    executor: ExecutorType
    node: Node
    specs: tuple[StateTableSpec, ...]
    first_table: int

    @property
    def is_root(self) -> bool:
        """Whether it writes the view's own table."""
        return isinstance(self.node, Materialize)

    @property
    def tables(self) -> range:
        """The positions of its state tables among those of the plan; none of the root."""
        count = 0 if self.is_root else len(self.specs)
        return range(self.first_table, self.first_table + count)


@dataclass(frozen=True, slots=True)
class Fragment:
    """Executors between two shuffles, and what their rows are distributed by.

    ``inputs``: the fragments, by number, and the sources that they read. ``is_broadcast``: every
    unit gets all rows of its inputs.
    """

    number: int
    operators: tuple[Operator, ...]
    distribution: Names
    inputs: tuple[int | Source, ...]
    is_broadcast: bool = False


@dataclass(frozen=True)
class ViewPlan:
    """A plan and what is derived from it, each once."""

    root: Materialize

    @classmethod
    def from_json(cls, value: Any) -> ViewPlan:
        """Return the plan that a JSON value describes. PlanError if it describes none."""
        return cls(plan_from_json(value))

    @cached_property
    def scans(self) -> tuple[Scan, ...]:
        """The scans, from left to right."""
        return tuple(source for source in self.sources if isinstance(source, Scan))

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        """What has no inputs, from left to right."""
        return tuple(node for node in walk(self.root) if isinstance(node, Source))

    @cached_property
    def operators(self) -> tuple[Operator, ...]:
        """The executors, those of inputs first; the root's is the last."""
        operators: list[Operator] = []
        tables = 0
        for node in walk(self.root):
            for executor in executors_of(node):
                number = len(operators) + 1
                operator = Operator(number, executor, node, executor.tables(node), tables)
                operators.append(operator)
                tables += len(operator.tables)
        return tuple(operators)

    def rows_of_part(self, most: int) -> int:
        """Return of how many stored rows a part may be; ``most``: as a rule.

        They are fewer if an operator makes more than 64 rows of each, as many grouping sets do: so
        a part has no more rows than with 64.
        """
        counts = [node.row_count for node in walk(self.root) if isinstance(node, Generate)]
        return max(1, most * _FEW_ROWS // max([_FEW_ROWS, *counts]))

    @cached_property
    def temporal_filters(self) -> tuple[TemporalFilter, ...]:
        """The filters that compare rows with the present time, in the order of the plan."""
        return tuple(node for node in walk(self.root) if isinstance(node, TemporalFilter))

    @cached_property
    def divided_tables(self) -> tuple[int, ...]:
        """The ids of the document tables that it reads, of whose rows parts may expire."""
        return tuple({scan.table_id: None for scan in self.scans if scan.by_parts})

    @property
    def reads_repeatedly(self) -> bool:
        """Whether it reads a table more than once."""
        return len({scan.table_id for scan in self.scans}) < len(self.scans)

    @property
    def reads_clock(self) -> bool:
        """Whether its rows depend on the present time."""
        return bool(self.temporal_filters or self.divided_tables)

    def operators_of(self, node: Node) -> tuple[Operator, ...]:
        """Return the executors of a node, in the order in which its rows pass them."""
        return self._operators_of.get(id(node), ())

    @cached_property
    def _operators_of(self) -> dict[int, tuple[Operator, ...]]:
        by_node: dict[int, tuple[Operator, ...]] = {}
        for operator in self.operators:
            key = id(operator.node)
            by_node[key] = (*by_node.get(key, ()), operator)
        return by_node

    @cached_property
    def fragments(self) -> tuple[Fragment, ...]:
        """The fragments, those of inputs first, numbered from 1."""
        fragments: list[Fragment] = []
        self._add_fragments(self.root, fragments, {})
        return tuple(fragments)

    def _add_fragments(
        self,
        node: Node,
        fragments: list[Fragment],
        shared: dict[int, tuple[int | Source, ...]],
    ) -> tuple[int | Source, ...]:
        """Cut a subtree, and return where its rows come from: fragments and sources.

        ``shared``: where those of shared operators that are already cut come from, by their
        numbers.
        """
        if isinstance(node, Source):
            return (node,)
        if isinstance(node, Shared) and node.number in shared:
            return shared[node.number]
        sources = [
            source
            for child in node.children
            for source in self._add_fragments(child, fragments, shared)
        ]
        if isinstance(node, Shared):
            shared[node.number] = tuple(sources)
        operators = self.operators_of(node)
        if not operators:
            return tuple(sources)
        # Between the executors of these rows are shuffled.
        is_of_spark = isinstance(node, KeyedRecompute) and node.is_of_spark
        is_shuffled = is_of_spark or is_broadcast(node)
        stages = [operators[:1], operators[1:]] if is_shuffled else [operators]
        if is_colocated(node):
            (below,) = sources
            assert isinstance(below, int)
            fragment = fragments[below - 1]
            fragments[below - 1] = replace(fragment, operators=(*fragment.operators, *stages[0]))
            del stages[0]
        for stage in filter(None, stages):
            inputs = tuple(dict.fromkeys(sources))
            number = len(fragments) + 1
            goes_to_all = is_broadcast(node) and stage is stages[0]
            fragments.append(Fragment(number, stage, distribution_of(node), inputs, goes_to_all))
            sources = [number]
        return tuple(sources)

    @cached_property
    def readers(self) -> frozenset[int]:
        """The numbers of the executors that receive the rows of sources."""
        return frozenset(
            fragment.operators[0].number
            for fragment in self.fragments
            if any(isinstance(source, Source) for source in fragment.inputs)
        )

    @cached_property
    def table_schema(self) -> TableSchema:
        """The schema of the view's own table."""
        (spec,) = self.operators[-1].specs
        return schema_of(spec, self.root.hidden)

    @cached_property
    def state_schemas(self) -> tuple[TableSchema, ...]:
        """The schemas of the state tables, by their positions."""
        return tuple(schema_of(spec) for op in self.operators[:-1] for spec in op.specs)

    def units(self, mapping: VnodeMapping) -> list[tuple[int, int]]:
        """Return for every executor its number and in how many units it runs."""
        return [(op.number, unit_count(mapping, distribution_of(op.node))) for op in self.operators]


# On disk: never change it.
_CREATOR = "spark"


def with_creator(plan: Mapping[str, Any], version: str) -> dict[str, Any]:
    """Return a plan's JSON as it is stored: with the version of Spark that it was made with."""
    return {**plan, _CREATOR: version}


def creator_of(plan: Any) -> str | None:
    """Return the version of Spark that a stored plan was made with; None if it names none."""
    version = plan.get(_CREATOR) if isinstance(plan, dict) else None
    return version if isinstance(version, str) else None


def parse_stored_plan(name: str, value: Any) -> ViewPlan:
    """Return the plan that the catalog holds for a view. CorruptionError if it holds none."""
    try:
        plan = ViewPlan.from_json(value)
        # Impossible keys and executors are found here, and not by a task.
        schemas = (*plan.state_schemas, plan.table_schema)
        assert schemas
        return plan
    except (PlanError, errors.SchemaError, errors.UnsupportedTypeError) as error:
        raise damaged_plan_error(name, error) from None


def damaged_plan_error(name: str, problem: Exception) -> errors.CorruptionError:
    """Return the error for a view whose stored plan is not one."""
    return errors.CorruptionError(
        f"the stored plan of view {name!r} is damaged: {problem}; drop the view and create it again"
    )


def distribution_of(node: Node) -> Names:
    """Return the fields by which a stateful node's executor needs its input distributed."""
    assert node.input_distribution is not None
    return node.input_distribution


def unit_count(mapping: VnodeMapping, distribution: Names) -> int:
    """Return in how many units rows with a distribution are: without one, all are in vnode 0."""
    return mapping.units if distribution else 1


def is_broadcast(node: Node) -> bool:
    """Return whether the changes of all inputs of a node go to all units."""
    return isinstance(node, BroadcastJoin) and not node.has_one_row


def is_colocated(node: Node) -> bool:
    """Return whether a stateful node has one input, distributed as its executor needs it."""
    distributions = [child.distribution for child in node.children]
    return distributions == [distribution_of(node)]


def schema_of(spec: StateTableSpec, hidden: Sequence[str] = ()) -> TableSchema:
    """Return the schema of a state table."""
    key = [order.sql for order in spec.primary_key]
    return TableSchema.build(
        spec.fields, key, spec.distribution, nullable_key=True, keeps_floats=True, hidden=hidden
    )
