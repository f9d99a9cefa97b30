"""``session_window(time, gap)``: the rows of a group with no gap between them are one session.

Promises: a row without a time, or whose gap is NULL or not above 0, is left out, as in Spark. The
window is that of a session where the query groups by it; elsewhere, as in Spark, that of one row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from relstate.connector.syntax.tree import (
    Tree,
    cast_text,
    column,
    comparable_text,
    parse_expression,
    text_of,
)
from relstate.storage import types

from ..plan.node import Node
from ..plan.session import SessionRecompute, session_type
from .builder import Builder, Relation
from .expressions import SESSION_WINDOW, unsupported_error
from .grouping_sets import ExpandedSets, GroupBy, expand_sets, with_equal_merged
from .scope import Scope
from .time_windows import window_calls, with_window_field
from .windows import compute_partition


@dataclass(frozen=True, slots=True)
class Session:
    """A call of session_window(), and the name of the field that is to hold its value."""

    call: Tree
    field: str


def read_session(builder: Builder, tree: exp.Select) -> tuple[exp.Select, Session | None]:
    """Return a SELECT that reads its session from a field, and this session if it has one."""
    calls = {text_of(call).lower(): call for call in window_calls(tree, SESSION_WINDOW)}
    if not calls:
        return tree, None
    if len(calls) > 1:
        raise unsupported_error("several sessions in one SELECT", "Spark does not support it", tree)
    (call,) = calls.values()
    session = Session(call, builder.namer.unique_name(SESSION_WINDOW))
    return with_window_field(tree, call, session.field), session


def plan_session(
    builder: Builder, relation: Relation, scope: Scope, session: Session, group: GroupBy | None
) -> tuple[Relation, GroupBy | None]:
    """Return the rows of FROM with the field of a session, and the GROUP BY over them.

    ``scope``: of the columns of FROM.
    """
    time, gap = (scope.resolve(argument) for argument in session.call.expressions)
    node = relation.node
    (time_type,) = builder.analysis.types_of(node.fields, [text_of(time)])
    if isinstance(time_type, types.Struct):
        raise unsupported_error(
            "session_window() of a window", "give it a time, such as window.start", session.call
        )
    moment_type = time_type if time_type == types.TimestampNtz() else types.Timestamp()
    moment = cast_text(text_of(time), moment_type)
    end = f"{moment} + CAST({text_of(gap)} AS INTERVAL)"
    node, bounds = builder.compute(
        node, [parse_expression(moment), parse_expression(end)], ["session_start", "session_end"]
    )
    first, last = map(types.quoted, bounds)
    node = builder.filter(
        node, [parse_expression(f"{first} IS NOT NULL"), parse_expression(f"{last} > {first}")]
    )
    value = comparable_text(column(session.field))
    expressions = () if group is None else group.expressions
    if group is None or value not in map(comparable_text, expressions):
        text = f"named_struct('start', {first}, 'end', {last})"
        node = builder.with_field(node, session.field, text)
        return replace(relation, node=node), group
    others = [tree for tree in expressions if comparable_text(tree) != value]
    if group.sets is not None:
        node, group, others = _expand_other_sets(builder, node, session, group)
    partition = [*others, *map(column, relation.domain)]
    node, names, is_global = compute_partition(builder, node, partition)
    field = types.Field(session.field, session_type(moment_type))
    start, end_name = bounds
    node = SessionRecompute(node, names, start, end_name, field, is_global=is_global)
    return replace(relation, node=node), group


def _expand_other_sets(
    builder: Builder, node: Node, session: Session, group: GroupBy
) -> tuple[Node, GroupBy, list[Tree]]:
    """Return (each row once per set, the GROUP BY over them, what the rows of a session agree in).

    Every set has sessions of its own.
    """
    group = with_equal_merged(builder, node, group)
    assert group.sets is not None
    value = comparable_text(column(session.field))
    texts = list(map(comparable_text, group.expressions))
    place = texts.index(value)
    if not all(place in members for members in group.sets):
        raise unsupported_error(
            "session_window() in a grouping set beside sets without it",
            "Spark fails there, because a session cannot be NULL; write it outside of the sets, as "
            "in GROUP BY session_window(…), CUBE (…), and the other sets in a UNION ALL",
            session.call,
        )
    others = [*group.expressions[:place], *group.expressions[place + 1 :]]
    sets = [
        [position - (position > place) for position in members if position != place]
        for members in group.sets
    ]
    node, expanded = expand_sets(builder, node, others, sets)
    fields = (*expanded.fields[:place], session.field, *expanded.fields[place:])
    group = replace(group, expanded=ExpandedSets(expanded.set_number, fields))
    return node, group, list(map(column, (expanded.set_number, *expanded.fields)))
