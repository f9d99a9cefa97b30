"""Plans of Spark without columns that only get another name.

The text of a frame has names of its own. To Spark a column with a new name is another column, which
it computes below a window beside the first one, so that equal queries have different plans.

Promises: a plan without renames has the rows of the plan, and the numbers of its columns.
Does not know: text.
"""

from __future__ import annotations

from typing import TypeAlias

from .frame_plan import Expression, Jvm, Plan, class_name, id_of, ids_of, is_row_neutral, items

# By the number of a column that is another one under a new name, both columns.
_Renames: TypeAlias = dict[int, tuple[Expression, Expression]]

# Operators that have the columns of their inputs, or name them, under their numbers.
_PASSING = frozenset(
    {
        "Aggregate",
        "Filter",
        "GlobalLimit",
        "Join",
        "LocalLimit",
        "Sort",
        "Window",
    }
)


def without_renames(jvm: Jvm, plan: Plan) -> Plan:
    """Return a plan in which operators read a column itself, and not itself under another name."""
    return _without_renames(jvm, plan, is_open=False)[0]


def _without_renames(jvm: Jvm, plan: Plan, *, is_open: bool) -> tuple[Plan, _Renames]:
    """Return a plan, and which of its columns are others there.

    ``is_open``: what is above reads columns by their numbers, and not by their places.
    """
    kind, inputs = class_name(plan), items(plan.children())
    has_subqueries = not plan.subqueries().isEmpty()
    is_passing = kind in _PASSING or is_row_neutral(plan)
    opens = not has_subqueries and (kind == "Project" or (is_open and is_passing))
    children, renames = _children_without_renames(jvm, inputs, is_open=opens)
    if len(children) > 1 and _share_columns(children):
        children, renames = _children_without_renames(jvm, inputs, is_open=False)
    if children:
        plan = plan.withNewChildren(jvm.sequence(children))
    rewritten = plan.rewriteAttrs(jvm.attribute_map(renames.values())) if renames else plan
    if kind != "Project":
        return rewritten, renames
    if not is_open:
        return _with_numbers_of(jvm, rewritten, plan), {}
    columns: dict[int, Expression] = {}
    for column in items(rewritten.projectList()):
        value = column
        if class_name(column) == "Alias" and class_name(column.child()) == "AttributeReference":
            value = column.child()
            renames[id_of(column)] = (column.toAttribute(), value)
        columns.setdefault(id_of(value), value)
    return jvm.plans.Project(jvm.sequence(columns.values()), children[0]), renames


def _children_without_renames(
    jvm: Jvm, inputs: list[Plan], *, is_open: bool
) -> tuple[list[Plan], _Renames]:
    results = [_without_renames(jvm, child, is_open=is_open) for child in inputs]
    renames = {number: pair for _, own in results for number, pair in own.items()}
    return [child for child, _ in results], renames


def _share_columns(plans: list[Plan]) -> bool:
    """Return whether a column of one plan has the number of one of another plan."""
    numbers = [number for plan in plans for number in set(ids_of(plan.output()))]
    return len(set(numbers)) < len(numbers)


def _with_numbers_of(jvm: Jvm, plan: Plan, original: Plan) -> Plan:
    """Return a projection whose columns have the numbers of those of another one."""
    columns = [
        column if id_of(column) == id_of(own) else jvm.alias(column, own)
        for column, own in zip(
            items(plan.projectList()), items(original.projectList()), strict=True
        )
    ]
    return jvm.plans.Project(jvm.sequence(columns), plan.child())
