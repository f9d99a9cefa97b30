"""A plan as lines of text, for who asks what a view does."""

from __future__ import annotations

from .aggregate import Aggregate, Call
from .join import Join
from .materialize import Materialize
from .node import Filter, Node, Order, Output, Project, Scan, Union
from .topn import TopN


def described(node: Node) -> tuple[str, ...]:
    """Return the operators of a plan, a line each, what they read two spaces deeper."""
    inner = [f"  {line}" for child in node.children for line in described(child)]
    return (_line(node), *inner)


def _line(node: Node) -> str:
    match node:
        case Scan():
            columns = ", ".join(
                one.column if one.column == one.field.name else f"{one.column} AS {one.field.name}"
                for one in node.columns
            )
            return f"Scan {node.table} [{columns}] key [{', '.join(node.key)}]"
        case Project():
            return f"Project [{', '.join(map(_output, node.outputs))}]"
        case Filter():
            return f"Filter {node.condition}"
        case Aggregate():
            group = "" if node.is_global else f" by [{', '.join(node.group)}]"
            calls = ", ".join(map(_call, node.calls))
            return f"Aggregate{group} [{calls}]" if calls else f"Distinct{group}"
        case Join():
            return _join(node)
        case TopN():
            return _top(node)
        case Union():
            return f"Union key [{', '.join(node.key)}]"
        case Materialize():
            columns = ", ".join(f if f == n else f"{f} AS {n}" for n, f in node.visible)
            key = ", ".join(map(_order, node.table_key))
            hidden = f" hidden [{', '.join(node.hidden)}]" if node.hidden else ""
            return f"Materialize [{columns}] key [{key}]{hidden}"
    raise TypeError(f"{type(node).__name__} is no operator of a plan")


def _join(node: Join) -> str:
    keys = " AND ".join(
        f"{key.left} {'<=>' if key.is_null_safe else '='} {key.right}" for key in node.keys
    )
    condition = "" if node.condition is None else f" AND ({node.condition})"
    return f"Join {node.kind} ON {keys}{condition}"


def _top(node: TopN) -> str:
    group = "" if node.is_global else f" of each [{', '.join(node.group)}]"
    offset = f" after {node.offset}" if node.offset else ""
    rank = f" place as {node.rank.name}" if node.rank else ""
    order = ", ".join(map(_order, node.order))
    return f"TopN {node.limit}{offset}{group} by [{order}]{rank}"


def _output(output: Output) -> str:
    name = output.field.name
    return name if output.source == name else f"{output.expression} AS {name}"


def _call(call: Call) -> str:
    inner = f"{'DISTINCT ' if call.is_distinct else ''}{call.argument or '*'}"
    chosen = f" FILTER {call.filter}" if call.filter else ""
    return f"{call.function}({inner}){chosen} AS {call.output.name}"


def _order(order: Order) -> str:
    direction = " DESC" if order.descending else ""
    usual = order.nulls_first != order.descending
    nulls = "" if usual else f" NULLS {'FIRST' if order.nulls_first else 'LAST'}"
    return f"{order.name}{direction}{nulls}"
