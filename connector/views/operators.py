"""The stateful operators of a plan, numbered, and how its rows come to them.

Promises: functions of the plan alone: the same operators under the same numbers, with the same
state tables in the same places, wherever and whenever they are asked for.
Does not know: table ids, Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from relstate.vnode import VnodeMapping

from .executor.aggregate import AggregateExecutor
from .executor.degree import DegreeExecutor
from .executor.executor import Executor
from .executor.join import JoinExecutor
from .executor.materialize import MaterializeExecutor
from .executor.topn import GroupTopNExecutor, TopNExecutor
from .plan.aggregate import Aggregate
from .plan.join import Join, JoinKind
from .plan.materialize import Materialize
from .plan.node import Names, Node, Scan, walk
from .plan.state import StateTableSpec
from .plan.topn import TopN

ExecutorType: TypeAlias = type[Executor[Any]]


@dataclass(frozen=True, slots=True)
class Operator:
    """One executor of a plan.

    ``number``: from 1, in the order of the plan's walk. ``specs``: its state tables, which begin
    at ``first_table`` among those of the plan; of the root, which has the number of executors, the
    one spec is the view's own table.
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
        """The places of its state tables among those of the plan; none of the root."""
        count = 0 if self.is_root else len(self.specs)
        return range(self.first_table, self.first_table + count)


def operators(plan: Materialize) -> tuple[Operator, ...]:
    """Return the executors of a plan, those beneath before those above."""
    found: list[Operator] = []
    tables = 0
    for node in walk(plan):
        for executor in executors_of(node):
            operator = Operator(len(found) + 1, executor, node, executor.tables(node), tables)
            found.append(operator)
            tables += len(operator.tables)
    return tuple(found)


def executors_of(node: Node) -> Sequence[ExecutorType]:
    """Return what keeps a node, in the order in which its rows pass; nothing if it is stateless."""
    match node:
        case Aggregate():
            return (AggregateExecutor,)
        case Join(kind=JoinKind.INNER):
            return (JoinExecutor,)
        case Join():
            return (JoinExecutor, DegreeExecutor)
        case TopN(is_global=True):
            return (TopNExecutor,)
        case TopN():
            return (GroupTopNExecutor,)
        case Materialize():
            return (MaterializeExecutor,)
        case _:
            return ()


def wanted_distribution(node: Node) -> Names:
    """Return by which fields of its input a stateful node wants the rows distributed."""
    if isinstance(node, Materialize):
        found = node.child.distribution
        return node.child.key if found is None else found
    if isinstance(node, Join):
        return tuple(key.field.name for key in node.keys)
    assert node.distribution is not None
    return node.distribution


def units_of(mapping: VnodeMapping, distribution: Names) -> int:
    """Return in how many units rows with a distribution lie: those without one all in vnode 0."""
    return mapping.units if distribution else 1


def is_placed(node: Node) -> bool:
    """Return whether the rows of a stateful node's input lie where it wants them already."""
    if isinstance(node, Join):
        return False
    (child,) = node.children
    return child.distribution == wanted_distribution(node)


@dataclass(frozen=True, slots=True)
class Fragment:
    """Operators between two shuffles, and what their rows are distributed by.

    ``inputs``: the fragments, by number, and the scans that they read.
    """

    number: int
    operators: tuple[Operator, ...]
    distribution: Names
    inputs: tuple[int | Scan, ...]


def fragments(plan: Materialize) -> tuple[Fragment, ...]:
    """Return the fragments of a plan, those beneath before those above, numbered from 1."""
    own: dict[int, list[Operator]] = {}
    for operator in operators(plan):
        own.setdefault(id(operator.node), []).append(operator)
    found: list[Fragment] = []
    _cut(plan, own, found)
    return tuple(found)


def _cut(
    node: Node, own: dict[int, list[Operator]], found: list[Fragment]
) -> tuple[int | Scan, ...]:
    """Cut a subtree, and return where its rows come from: fragments and scans."""
    if isinstance(node, Scan):
        return (node,)
    sources = tuple(source for child in node.children for source in _cut(child, own, found))
    if id(node) not in own:
        return sources
    mine = tuple(own[id(node)])
    if is_placed(node):
        (below,) = sources
        place = next(place for place, one in enumerate(found) if one.number == below)
        before = found[place]
        found[place] = Fragment(
            before.number, before.operators + mine, before.distribution, before.inputs
        )
        return (before.number,)
    made = Fragment(len(found) + 1, mine, wanted_distribution(node), tuple(dict.fromkeys(sources)))
    found.append(made)
    return (made.number,)


def scans(plan: Node) -> Iterator[Scan]:
    """Yield the scans of a plan, from left to right."""
    return (node for node in walk(plan) if isinstance(node, Scan))
