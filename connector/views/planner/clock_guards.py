"""Values of comparisons with the present time, computed only where their CASE computes them.

A comparison within CASE or IF becomes a field of every row. What it compares may fail for rows of
other branches, as a cast does: there it is NULL, and nothing reads the field.

Promises: where the branch is evaluated, the comparison has the value that it has without a guard.
Does not know: how a comparison becomes a field (clock_flags).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from typing import TypeAlias

from sqlglot import exp

from relstate.connector.syntax.tree import Tree, columns_of, is_column, substituted

from .clock_comparisons import has_clock

_Guard: TypeAlias = exp.Case
_HOLE = exp.Var(this="__value")


def guarded(comparison: Tree, names: Set[str]) -> Tree:
    """Return a comparison whose values are NULL where the CASE around it does not compute it.

    ``comparison``: a part of its expression. ``names``: the fields that conditions may read; a
    condition that reads others, or the present time, guards nothing.
    """
    guards = [guard for guard in _guards(comparison) if _is_of_rows(guard, names)]
    if not guards:
        return comparison

    def replacement(part: Tree) -> Tree | None:
        is_value = bool(columns_of(part)) and not is_column(part) and not has_clock(part)
        return _within(guards, part) if is_value else None

    return substituted(comparison, replacement)


def _within(guards: list[_Guard], value: Tree) -> Tree:
    for guard in guards:
        value = substituted(guard, _filler(value))
    return value


def _filler(value: Tree) -> Callable[[Tree], Tree | None]:
    return lambda part: value.copy() if part == _HOLE else None


def _is_of_rows(guard: _Guard, names: Set[str]) -> bool:
    is_timed = has_clock(guard) or guard.find(exp.Placeholder) is not None
    return not is_timed and columns_of(guard) <= names


def _guards(part: Tree) -> Iterator[_Guard]:
    """Yield what leaves a value where each CASE and IF around a part reads it, inside out."""
    below, child = part, part
    while (parent := child.parent) is not None:
        is_alone = isinstance(parent, exp.If) and not isinstance(parent.parent, exp.Case)
        if is_alone and child.arg_key != "this":
            value, null = _HOLE.copy(), exp.Null()
            if child.arg_key == "false":
                yield _case(None, [(parent.this, null)], value)
            else:
                yield _case(None, [(parent.this, value)], null)
        if isinstance(parent, exp.Case) and child.arg_key != "this":
            yield from _guards_of_case(parent, child, below)
        below, child = child, parent


def _guards_of_case(case: exp.Case, branch: Tree, part: Tree) -> Iterator[_Guard]:
    """Yield the guard of a part of a branch; the first condition is always computed."""
    branches: list[Tree] = case.args["ifs"]
    is_default = branch.arg_key == "default"
    before = branches if is_default else branches[: branches.index(branch)]
    pairs: list[tuple[Tree, Tree]] = [(earlier.this, exp.Null()) for earlier in before]
    if not is_default and part.arg_key == "true":
        yield _case(case.this, [*pairs, (branch.this, _HOLE.copy())], exp.Null())
    elif pairs:
        yield _case(case.this, pairs, _HOLE.copy())


def _case(operand: Tree | None, pairs: list[tuple[Tree, Tree]], default: Tree) -> _Guard:
    branches = [exp.If(this=condition.copy(), true=value) for condition, value in pairs]
    return exp.Case(this=operand and operand.copy(), ifs=branches, default=default)
