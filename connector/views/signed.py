"""Which fields of a view's rows have the floats of rows of its inputs, with their signs of zero.

Promises: of a float in such a field, 0 and -0 are the same whoever computes the rows.
Does not know: which of the fields are determined.
"""

from __future__ import annotations

from relstate.connector.syntax.tree import columns_of, parse_expression

from .plan.broadcast_join import BroadcastJoin
from .plan.generate import Generate
from .plan.join import Join
from .plan.materialize import Materialize
from .plan.node import Leaf, Node
from .plan.shared import Shared
from .plan.stateless import Filter, Project, Union
from .plan.temporal import TemporalFilter
from .plan.topn import TopN
from .plan.window import OrderedWindow

_PASSING = Filter, Generate, Materialize, Shared, TemporalFilter, TopN, OrderedWindow


def signed_fields(node: Node) -> frozenset[str]:
    """Return the fields whose values are those of rows of a plan's inputs, or computed of them.

    Not those of aggregates and windows: which of the values of a group that are equal is its least
    is open, and a sum may be 0 or almost.
    """
    children = [signed_fields(child) for child in node.children]
    names = frozenset(node.names)
    match node:
        case Leaf():
            return names
        case Union():
            return frozenset.intersection(*children)
        case Project():
            return frozenset(
                output.field.name
                for output in node.outputs
                if columns_of(parse_expression(output.expression)) <= children[0]
            )
        case Join() | BroadcastJoin():
            return frozenset.union(*children) & names
    return children[0] & names if isinstance(node, _PASSING) else frozenset()
