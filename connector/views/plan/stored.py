"""A stored plan: read from the log, which nothing is believed of.

Promises: what is read is a plan whose nodes fit each other, in time and memory bounded by its size;
anything else is an error.
Does not know: the store's tables (viewplan), or what expressions mean (planner/expressions).
"""

from __future__ import annotations

from typing import Any

from relstate.storage import errors

from .aggregate import Aggregate
from .join import Join
from .materialize import Materialize
from .node import Json, Node, require, shown
from .stateless import Filter, Project, Scan, Union
from .topn import TopN

OPERATORS: dict[str, type[Node]] = {
    kind.operator: kind
    for kind in (Scan, Project, Filter, Union, Aggregate, Join, TopN, Materialize)
}
MAX_DEPTH = 200
"""How deep lists and objects may be nested in the JSON of a plan: far from Python's own limit."""


_LONGEST = 200


class PlanError(ValueError):
    """A JSON value is not a plan, and why. Becomes the error of whoever reads it."""


def read_plan(value: Any) -> Materialize:
    """Return the plan that `Node.to_json` described. PlanError if the value describes none."""
    try:
        require(_is_shallow(value), f"it is nested more than {MAX_DEPTH} levels deep")
        plan = _read_node(value)
        require(isinstance(plan, Materialize), "its root does not materialize")
    except KeyError as error:
        raise PlanError(f"an operator has no {shown(error.args[0])}") from None
    except (TypeError, ValueError, AttributeError, errors.RelstateError) as error:
        raise PlanError(str(error)[:_LONGEST]) from None
    assert isinstance(plan, Materialize)
    return plan


def _read_node(value: Json) -> Node:
    require(isinstance(value, dict), f"{shown(value)} is not an operator")
    name = value["operator"]
    require(isinstance(name, str) and name in OPERATORS, f"{shown(name)} is not an operator")
    node = OPERATORS[name].from_json(value, _read_input)
    node.check()
    return node


def _read_input(value: Any) -> Node:
    node = _read_node(value)
    require(not isinstance(node, Materialize), "an operator reads the root")
    return node


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
