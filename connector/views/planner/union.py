"""UNION ALL: rows of several inputs under common types, and what tells them apart."""

from __future__ import annotations

from collections.abc import Sequence

from relstate.connector.syntax.tree import cast_text
from relstate.storage import types

from ..plan.node import Node
from ..plan.stateless import Output, Project, Union
from .builder import Builder, Item, Relation
from .expressions import refused

_Steps = Sequence[Sequence[types.DataType]]


def united(builder: Builder, inputs: Sequence[Relation]) -> Relation:
    """Return the rows of all inputs. UnsupportedStatementError if their columns do not match."""
    first = inputs[0]
    if any(len(one.items) != len(first.items) for one in inputs):
        raise refused("this UNION", "its inputs have different numbers of columns")
    # What Spark casts from the left to the right, step by step.
    steps = [_kinds(first)]
    for one in inputs[1:]:
        steps.append(list(builder.analysis.united(steps[-1], _kinds(one))))
    fields = [
        types.Field(builder.namer.fresh(item.name or "value"), kind)
        for item, kind in zip(first.items, steps[-1], strict=True)
    ]
    node = _stacked(builder, [(one, steps[n:]) for n, one in enumerate(inputs)], fields)
    items = (Item(item.name, one.name) for item, one in zip(first.items, fields, strict=True))
    return Relation(node, tuple(items))


def _stacked(
    builder: Builder, inputs: Sequence[tuple[Relation, _Steps]], fields: Sequence[types.Field]
) -> Node:
    """Return the rows of inputs, with the types they take on one after the other, as one."""
    namer = builder.namer
    tag = types.Field(namer.fresh("input"), types.Int())
    keys = [
        [(types.Field(namer.fresh(name), one.node.type_of(name)), name) for name in one.node.key]
        for one, _ in inputs
    ]
    nodes = []
    for place, (one, steps) in enumerate(inputs):
        outputs = [
            _cast(one.node, item.field, [step[n] for step in steps], wanted)
            for n, (item, wanted) in enumerate(zip(one.items, fields, strict=True))
        ]
        outputs.append(Output(tag, str(place)))
        for other, key in enumerate(keys):
            outputs += [_key_output(new, name, other == place) for new, name in key]
        nodes.append(Project(one.node, tuple(outputs)))
    return Union(tuple(nodes), (tag.name, *(new.name for key in keys for new, _ in key)))


def _key_output(new: types.Field, name: str, is_there: bool) -> Output:
    if is_there:
        return Output(new, types.quoted(name), name)
    return Output(new, cast_text("NULL", new.type))


def _cast(node: Node, name: str, steps: Sequence[types.DataType], wanted: types.Field) -> Output:
    text, kind = types.quoted(name), node.type_of(name)
    for step in steps:
        if step != kind:
            text, kind = cast_text(text, step), step
    source = name if text == types.quoted(name) else None
    return Output(wanted, text, source)


def _kinds(relation: Relation) -> list[types.DataType]:
    return [relation.node.type_of(item.field) for item in relation.items]
