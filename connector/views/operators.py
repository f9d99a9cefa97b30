"""All operators: their executors, and how a stored plan is read.

A new operator is a node (plan), its executor (executor), the clause of the planner that makes it,
and a line in `EXECUTORS`.

Promises: a plan that is read from JSON, which may be damaged or forged, has nodes that fit each
other, or is an error; in time and memory bounded by its size.
Does not know: the store's tables, or what expressions mean (stored_plans).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from relstate.storage import errors

from .executor.aggregate import AggregateExecutor
from .executor.asof_join import AsofJoinExecutor
from .executor.broadcast_join import BroadcastJoinExecutor
from .executor.degree import BroadcastDegreeExecutor, DegreeExecutor
from .executor.difference import DifferenceExecutor
from .executor.executor import Executor
from .executor.join import JoinExecutor
from .executor.keyed_rows import KeyedRowsExecutor
from .executor.materialize import MaterializeExecutor
from .executor.temporal import TemporalFilterExecutor
from .executor.topn import GroupTopNExecutor, TopNExecutor
from .executor.window import WindowExecutor
from .plan.aggregate import Aggregate
from .plan.asof_join import AsofJoin
from .plan.broadcast_join import BroadcastJoin
from .plan.generate import Generate, OneRow
from .plan.join import Join
from .plan.materialize import Materialize
from .plan.node import Json, Node, require, shown
from .plan.recompute import GroupRecompute, WindowRecompute
from .plan.recursion import Recursion
from .plan.session import SessionRecompute
from .plan.shared import Shared
from .plan.stateless import Filter, Project, Scan, Union
from .plan.temporal import TemporalFilter
from .plan.topn import TopN
from .plan.window import OrderedWindow

ExecutorType: TypeAlias = type[Executor[Any]]

EXECUTORS: Mapping[type[Node], tuple[ExecutorType, ...]] = {
    Aggregate: (AggregateExecutor,),
    Join: (JoinExecutor, DegreeExecutor),
    BroadcastJoin: (BroadcastJoinExecutor, BroadcastDegreeExecutor),
    AsofJoin: (AsofJoinExecutor,),
    TopN: (TopNExecutor, GroupTopNExecutor),
    TemporalFilter: (TemporalFilterExecutor,),
    GroupRecompute: (KeyedRowsExecutor, DifferenceExecutor),
    WindowRecompute: (KeyedRowsExecutor, DifferenceExecutor),
    OrderedWindow: (WindowExecutor,),
    SessionRecompute: (KeyedRowsExecutor, DifferenceExecutor),
    Recursion: (KeyedRowsExecutor, DifferenceExecutor),
    Materialize: (MaterializeExecutor,),
}
"""The stateful operators, and their executors in the order in which rows pass them."""

MAX_DEPTH = 200
"""How deep lists and objects may be nested in the JSON of a plan: far from Python's own limit."""

_STATELESS: tuple[type[Node], ...] = (Scan, OneRow, Project, Filter, Generate, Union, Shared)
_NODES: Mapping[str, type[Node]] = {node.operator: node for node in (*_STATELESS, *EXECUTORS)}
_LONGEST_PROBLEM = 200


def executors_of(node: Node) -> list[ExecutorType]:
    """Return the executors that maintain a node, in order; none if it is stateless."""
    return [executor for executor in EXECUTORS.get(type(node), ()) if executor.maintains(node)]


class PlanError(ValueError):
    """Why a JSON value is not a plan; its reader raises an error that users see instead."""


def plan_from_json(value: Any) -> Materialize:
    """Return the plan that `Node.to_json` described. PlanError if the value describes none."""
    try:
        require(_is_shallow(value), f"it is nested more than {MAX_DEPTH} levels deep")
        plan = _PlanReader().read(value)
        require(isinstance(plan, Materialize), "its root does not materialize")
    except KeyError as error:
        raise PlanError(f"an operator has no {shown(error.args[0])}") from None
    except (TypeError, ValueError, AttributeError, errors.RelstateError) as error:
        raise PlanError(str(error)[:_LONGEST_PROBLEM]) from None
    assert isinstance(plan, Materialize)
    return plan


class _PlanReader:
    """Reads one plan. A shared operator is one node, however many operators read it."""

    def __init__(self) -> None:
        self._shared: dict[int, Shared] = {}

    def read(self, value: Json) -> Node:
        """Return the node that a JSON value describes. ValueError and others if it is none."""
        require(isinstance(value, dict), f"{shown(value)} is not an operator")
        name = value["operator"]
        require(isinstance(name, str) and name in _NODES, f"{shown(name)} is not an operator")
        node = _NODES[name].from_json(value, self._read_input)
        node.check()
        return self._known(node) if isinstance(node, Shared) else node

    def _read_input(self, value: Any) -> Node:
        node = self.read(value)
        require(not isinstance(node, Materialize), "an operator reads the root")
        return node

    def _known(self, node: Shared) -> Shared:
        first = self._shared.setdefault(node.number, node)
        require(first == node, f"there are two shared operators {node.number}")
        return first


def _is_shallow(value: Any) -> bool:
    """Return whether a JSON value is nested at most `MAX_DEPTH` deep, level by level."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return True
    return False
