"""``window(time, duration [, slide [, start]])``: the intervals of time that a row belongs to.

A tumbling window is an expression; of a hopping one a row has several, which a generator makes.

Promises: rows and intervals are those of Spark, which leaves rows out whose time is NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from relstate.connector.syntax.tree import (
    Tree,
    cast_text,
    column,
    parse_expression,
    substituted,
    text_of,
    whole_constant,
    with_parts,
)
from relstate.storage import types

from ..plan.node import Node
from .builder import Builder, Relation
from .expressions import SESSION_WINDOW, TIME_WINDOW, function_name, unsupported_error
from .generators import plan_elements
from .moments import micros_text, time_at
from .scope import Scope, as_fields

_CLAUSES = ("expressions", "group", "having", "qualify", "order")


def plan_time_window(
    builder: Builder, tree: exp.Select, relation: Relation, scope: Scope
) -> tuple[exp.Select, Relation]:
    """Return a SELECT that reads its window from a field, and the rows of its FROM with it.

    ``scope``: of the columns of FROM.
    """
    calls = {text_of(call).lower(): call for call in window_calls(tree, TIME_WINDOW)}
    if not calls:
        return tree, relation
    if len(calls) > 1:
        raise unsupported_error(
            "several windows of time in one SELECT", "Spark does not support it", tree
        )
    (call,) = calls.values()
    node, field = _plan_call(builder, relation.node, call, scope)
    return with_window_field(tree, call, field), replace(relation, node=node)


def window_calls(tree: exp.Select, name: str) -> Iterator[Tree]:
    """Yield the calls of a function in the clauses of a SELECT, without those of its subqueries."""
    for clause in _CLAUSES:
        value = tree.args.get(clause)
        for expression in value if isinstance(value, list) else [value]:
            if expression is not None:
                yield from _calls_within(expression, name)


def has_time_window(tree: exp.Select) -> bool:
    """Return whether a SELECT calls window() or session_window()."""
    names = TIME_WINDOW, SESSION_WINDOW
    return any(next(window_calls(tree, name), None) is not None for name in names)


def _calls_within(tree: Tree, name: str) -> Iterator[Tree]:
    if isinstance(tree, exp.Query):
        return
    if _is_call(tree, name):
        yield tree
    for child in tree.iter_expressions():
        yield from _calls_within(child, name)


def _is_call(tree: Tree, name: str) -> bool:
    return isinstance(tree, exp.Anonymous) and function_name(tree) == name


def with_window_field(tree: exp.Select, call: Tree, field: str) -> exp.Select:
    """Return a SELECT in which a field replaces a call and the name of its column."""
    name = str(function_name(call))
    text, reference = text_of(call).lower(), as_fields(column(field))

    def replacement(node: Tree) -> Tree | None:
        if _is_call(node, name) and text_of(node).lower() == text:
            return reference.copy()
        if isinstance(node, exp.Column) and node.parts[0].name.lower() == name:
            return with_parts(reference.copy(), [part.name for part in node.parts[1:]])
        return None

    replaced = tree.copy()
    for clause in _CLAUSES:
        value = replaced.args.get(clause)
        if isinstance(value, list):
            replaced.set(clause, [_named(part, name, replacement) for part in value])
        elif value is not None:
            replaced.set(clause, substituted(value, replacement))
    return replaced


def _named(tree: Tree, name: str, replacement: Callable[[Tree], Tree | None]) -> Tree:
    """Return a column of a SELECT over the field, under the name that Spark gives it."""
    is_window = _is_call(tree, name) or isinstance(tree, exp.Column)
    value = substituted(tree, replacement)
    if is_window and isinstance(value, exp.Column) and value != tree:
        return exp.alias_(value, name)
    return value


@dataclass(frozen=True, slots=True)
class _Durations:
    """The arguments of a call after the time, in microseconds."""

    duration: int
    slide: int
    start: int

    @property
    def count(self) -> int:
        """How many windows may contain one moment."""
        return -(-self.duration // self.slide)


def _durations(builder: Builder, call: Tree) -> _Durations:
    """Return the durations of a call, which Spark has found valid."""
    numbers = [_micros(builder, argument) for argument in call.expressions[1:]]
    duration = numbers[0]
    slide = numbers[1] if len(numbers) > 1 else duration
    return _Durations(duration, slide, numbers[2] if len(numbers) > 2 else 0)


def _micros(builder: Builder, duration: Tree) -> int:
    """Return how long a duration is: a text says it, and a number is one of microseconds."""
    if isinstance(duration, exp.Literal) and duration.is_string:
        return builder.analysis.microseconds(text_of(duration))
    is_negative = isinstance(duration, exp.Neg)
    number = whole_constant(duration.this if is_negative else duration)
    if number is None:
        raise unsupported_error("this duration", "write it as a text, '1 hour'", duration)
    return -number if is_negative else number


def _plan_call(builder: Builder, node: Node, call: Tree, scope: Scope) -> tuple[Node, str]:
    """Return the rows with a field that holds their window; a row has several if it hops."""
    durations = _durations(builder, call)
    time = scope.resolve(call.expressions[0])
    arguments = ", ".join(map(text_of, (time, *call.expressions[1:])))
    (data_type,) = builder.analysis.types_of(node.fields, [f"window({arguments})"])
    assert isinstance(data_type, types.Struct)
    moment_type = data_type.fields[0].type
    moment = cast_text(text_of(time), moment_type)
    number = micros_text(moment, moment_type)
    node, (micros,) = builder.compute(node, [parse_expression(number)], ["micros"])
    micros = types.quoted(micros)
    node = builder.filter(node, [parse_expression(f"{micros} IS NOT NULL")])
    slide = f"CAST({durations.slide} AS BIGINT)"
    start = f"{micros} - pmod({micros} - CAST({durations.start} AS BIGINT), {slide})"
    if durations.count > 1:
        node, index = _repeated(builder, node, durations.count)
        start = f"{start} - {types.quoted(index)} * {slide}"
        condition = f"{micros} < {start} + CAST({durations.duration} AS BIGINT)"
        node = builder.filter(node, [parse_expression(condition)])
    bounds = (start, f"{start} + CAST({durations.duration} AS BIGINT)")
    first, last = (time_at(bound, moment_type) for bound in bounds)
    value = parse_expression(f"named_struct('start', {first}, 'end', {last})")
    node, (field,) = builder.compute(node, [value], [TIME_WINDOW])
    return node, field


def _repeated(builder: Builder, node: Node, count: int) -> tuple[Node, str]:
    """Return each row several times, and the field with the number of the copy, from 0."""
    text = f"sequence(CAST(0 AS BIGINT), CAST({count - 1} AS BIGINT))"
    node, (_, number) = plan_elements(builder, node, text, ("position", "number"))
    return node, number
