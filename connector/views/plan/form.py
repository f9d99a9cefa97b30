"""A plan as JSON values, and back.

Promises: an exact round trip. In the log of a store: never change a name.
Does not know: JSON text; it speaks the values that ``json`` dumps and loads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from relstate.storage import errors, type_json, types

from .aggregate import Aggregate, Call, Function
from .join import Join, JoinKey, JoinKind
from .materialize import Materialize
from .node import Filter, Node, Order, Output, Project, Scan, ScanColumn, Union
from .topn import TopN

Json: TypeAlias = dict[str, Any]


def to_json(node: Node) -> Json:
    """Return a plan as JSON values."""
    match node:
        case Scan():
            return {
                "operator": "scan",
                "table_id": node.table_id,
                "table": node.table,
                "columns": [[one.column, _field(one.field)] for one in node.columns],
                "primary_key": list(node.primary_key),
                "grows_only": node.grows_only,
            }
        case Project(child, outputs):
            made = [[_field(one.field), one.expression, one.source] for one in outputs]
            return {"operator": "project", "child": to_json(child), "outputs": made}
        case Filter(child, condition):
            return {"operator": "filter", "child": to_json(child), "condition": condition}
        case Aggregate():
            return {
                "operator": "aggregate",
                "child": to_json(node.child),
                "group": list(node.group),
                "calls": [_call(one) for one in node.calls],
                "is_global": node.is_global,
            }
        case Join():
            return {
                "operator": "join",
                "left": to_json(node.left),
                "right": to_json(node.right),
                "kind": str(node.kind),
                "keys": [[k.left, k.right, _field(k.field), k.is_null_safe] for k in node.keys],
                "condition": node.condition,
                "presence": None if node.presence is None else list(node.presence),
            }
        case TopN():
            return {
                "operator": "top_n",
                "child": to_json(node.child),
                "group": list(node.group),
                "order": [_order(one) for one in node.order],
                "limit": node.limit,
                "offset": node.offset,
                "rank": None if node.rank is None else _field(node.rank),
                "is_global": node.is_global,
            }
        case Union(inputs, row_key):
            found = [to_json(one) for one in inputs]
            return {"operator": "union", "inputs": found, "row_key": list(row_key)}
        case Materialize(child, visible, order):
            return {
                "operator": "materialize",
                "child": to_json(child),
                "visible": [list(one) for one in visible],
                "order": [_order(one) for one in order],
            }
    raise TypeError(f"{type(node).__name__} is no operator of a plan")


def from_json(value: Mapping[str, Any]) -> Node:
    """Return the plan that `to_json` described; CorruptionError if it is no such description."""
    try:
        return _node(value)
    except (KeyError, TypeError, ValueError, AssertionError) as error:
        raise errors.CorruptionError(
            f"{value!r} in the log is not the plan of a view; create the view again"
        ) from error


def _node(value: Mapping[str, Any]) -> Node:
    match value["operator"]:
        case "scan":
            return Scan(
                value["table_id"],
                value["table"],
                tuple(ScanColumn(name, _read(field)) for name, field in value["columns"]),
                tuple(value["primary_key"]),
                value["grows_only"],
            )
        case "project":
            outputs = tuple(Output(_read(one), text, src) for one, text, src in value["outputs"])
            return Project(_node(value["child"]), outputs)
        case "filter":
            return Filter(_node(value["child"]), value["condition"])
        case "aggregate":
            calls = tuple(map(_read_call, value["calls"]))
            group = tuple(value["group"])
            return Aggregate(_node(value["child"]), group, calls, value["is_global"])
        case "join":
            keys = tuple(JoinKey(one, two, _read(f), safe) for one, two, f, safe in value["keys"])
            kind = JoinKind(value["kind"])
            left, right = _node(value["left"]), _node(value["right"])
            presence = None if value["presence"] is None else _pair(value["presence"])
            return Join(left, right, kind, keys, value["condition"], presence)
        case "top_n":
            return TopN(
                _node(value["child"]),
                tuple(value["group"]),
                tuple(Order(*one) for one in value["order"]),
                value["limit"],
                value["offset"],
                None if value["rank"] is None else _read(value["rank"]),
                value["is_global"],
            )
        case "union":
            return Union(tuple(map(_node, value["inputs"])), tuple(value["row_key"]))
        case "materialize":
            visible = tuple((name, field) for name, field in value["visible"])
            order = tuple(Order(*one) for one in value["order"])
            return Materialize(_node(value["child"]), visible, order)
    raise ValueError(f"{value['operator']!r} is no operator")


def _pair(value: list[str]) -> tuple[str, str]:
    one, other = value
    return one, other


def _field(field: types.Field) -> Json:
    return type_json.field_to_json(field)


def _read(value: Json) -> types.Field:
    return type_json.field_from_json(value)


def _call(call: Call) -> Json:
    return {
        "function": str(call.function),
        "argument": call.argument,
        "output": _field(call.output),
        "is_distinct": call.is_distinct,
        "filter": call.filter,
    }


def _read_call(value: Json) -> Call:
    return Call(
        Function(value["function"]),
        value["argument"],
        _read(value["output"]),
        value["is_distinct"],
        value["filter"],
    )


def _order(order: Order) -> list[Any]:
    return [order.name, order.descending, order.nulls_first]
