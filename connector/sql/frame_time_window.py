"""`f.window` and `f.session_window`, read back from what Spark's analysis makes of them.

What is read wrongly is found out when Spark plans the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .frame_expressions import ExpressionWriter
from .frame_plan import Expression, Plan, class_name, items

_CONVERSION = "PreciseTimestampConversion"
_UNITS = (
    (86_400_000_000, "day"),
    (3_600_000_000, "hour"),
    (60_000_000, "minute"),
    (1_000_000, "second"),
    (1_000, "millisecond"),
    (1, "microsecond"),
)


@dataclass(frozen=True)
class TimeWindow:
    """A window of time, which a plan has as its first ``column``, over the rows of ``child``.

    ``name``: its function; ``time``: its first argument; ``lengths``: the others as texts, ``gap``:
    as an expression.
    """

    child: Plan
    column: Expression
    name: str
    time: Expression
    lengths: tuple[str, ...] = ()
    gap: Expression | None = None

    def call(self, writer: ExpressionWriter) -> str:
        """Return the call of its function."""
        arguments = [writer.text(self.time), *(f"'{length}'" for length in self.lengths)]
        if self.gap is not None:
            arguments.append(writer.text(self.gap))
        return f"{self.name}({', '.join(arguments)})"


def time_window(plan: Plan) -> TimeWindow | None:
    """Return the window of time that a plan computes, None if it computes none."""
    kind = class_name(plan)
    if kind not in ("Project", "Filter"):
        return None
    child_kind = class_name(plan.child())
    if (kind, child_kind) == ("Project", "Filter"):
        return _window(_struct(plan), plan.child().child(), plan)
    if (kind, child_kind) == ("Filter", "Expand"):
        expand = plan.child()
        return _window(expand.projections().apply(0).apply(0), expand.child(), expand)
    if (kind, child_kind) == ("Filter", "Project"):
        return _session(_struct(plan.child()), plan.child().child(), plan.child())
    return None


def _struct(project: Plan) -> Expression:
    """Return the first column of a projection, without its name."""
    first = project.projectList().apply(0)
    return first.child() if class_name(first) == "Alias" else first


def _window(struct: Expression, child: Plan, plan: Plan) -> TimeWindow | None:
    ends = _ends(struct)
    remainder = None if ends is None else _first(ends[0], "Remainder")
    if ends is None or remainder is None:
        return None
    start, end = ends
    slide, offset = _micros(remainder.right()), _micros(remainder.left().right())
    length = _micros(end.child().right())
    lengths = [length]
    if slide != length or offset:
        lengths.append(slide)
    if offset:
        lengths.append(offset)
    time = list(_nodes(start, _CONVERSION))[-1].child()
    column = plan.output().apply(0)
    return TimeWindow(child, column, "window", time, tuple(map(_duration, lengths)))


def _session(struct: Expression, child: Plan, plan: Plan) -> TimeWindow | None:
    ends = _ends(struct)
    if ends is None:
        return None
    start, end = ends
    time = list(_nodes(start, _CONVERSION))[-1].child()
    total = _uncast(list(_nodes(end, _CONVERSION))[-1].child())
    if total.children().size() != 2:
        return None
    gap, column = _uncast(total.children().apply(1)), plan.output().apply(0)
    return TimeWindow(child, column, "session_window", time, gap=gap)


def _uncast(expression: Expression) -> Expression:
    return expression.child() if class_name(expression) == "Cast" else expression


def _ends(struct: Expression) -> tuple[Expression, Expression] | None:
    """Return the conversions that are the start and the end of a window; None for no window."""
    if class_name(struct) != "CreateNamedStruct" or struct.children().size() != 4:
        return None
    ends = [_first(struct.children().apply(place), _CONVERSION) for place in (1, 3)]
    return None if None in ends else (ends[0], ends[1])


def _first(expression: Expression, kind: str) -> Expression | None:
    return next(_nodes(expression, kind), None)


def _nodes(expression: Expression, kind: str) -> Iterator[Expression]:
    """Yield the expressions of a class, those around before those within."""
    if class_name(expression) == kind:
        yield expression
    for child in items(expression.children()):
        yield from _nodes(child, kind)


def _micros(literal: Expression) -> int:
    return int(literal.value())


def _duration(micros: int) -> str:
    """Return a length of time in its largest unit."""
    size, unit = next((size, unit) for size, unit in _UNITS if micros % size == 0)
    count = micros // size
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"
