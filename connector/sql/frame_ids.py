"""Plans whose columns have numbers that follow from what the columns are.

Spark numbers the columns of a plan one after the other, in the whole JVM. Its optimizer orders some
parts of a plan, such as several DISTINCT arguments, by hashes of these numbers, so that two plans
of one query may come out in different orders. A number that is a hash of the value of its column
is the same in both.

Promises: equal plans have equal numbers, and no two columns of a plan have the same.
Does not know: text.
"""

from __future__ import annotations

from collections import Counter
from typing import Any
from zlib import crc32

from relstate.connector.views.planner.equivalence import optimizer_rule

from .frame_plan import SUBQUERIES, Expression, Jvm, Plan, class_name, id_of, items

# Above all numbers that Spark's optimizer gives to columns of its own.
_LEAST = 1 << 40


def optimized_by_value(jvm: Jvm, state: Any, plan: Plan) -> Plan:
    """Return the optimized, canonical plan of an analyzed one, for columns numbered by value.

    ``state``: of the session of the plan. What Spark's optimizer begins with adds columns, and is
    done before they are numbered.
    """
    optimizer = state.optimizer()
    plan = optimizer.FinishAnalysis().apply(plan)
    plan = optimizer_rule(jvm.rules, "RewriteWithExpression").apply(plan)
    return optimizer.execute(_Numbering(jvm).numbered(plan)).canonicalized()


class _Numbering:
    """The numbers of the columns of one plan. Used once."""

    def __init__(self, jvm: Jvm) -> None:
        self._jvm = jvm
        # By its former number, each column with its new one.
        self._columns: dict[int, tuple[Expression, Expression]] = {}
        self._values: Counter[str] = Counter()
        self._numbers: set[int] = set()

    def numbered(self, plan: Plan) -> Plan:
        """Return a plan with other numbers: first its children, then what it computes of them."""
        children = [self.numbered(child) for child in items(plan.children())]
        if children:
            plan = plan.withNewChildren(self._jvm.sequence(children))
        kind = class_name(plan)
        for column in items(plan.expressions()):
            # Those of its children are known: this is one that the operator produces.
            if class_name(column) == "AttributeReference" and id_of(column) not in self._columns:
                self._columns[id_of(column)] = (column, self._renumbered(column, kind))
        plan = plan.rewriteAttrs(self._jvm.attribute_map(self._columns.values()))
        if not plan.subqueries().isEmpty():
            plan = self._jvm.replace_expressions(plan, self._numbered_subqueries(plan))
        aliases = [column for column in items(plan.expressions()) if class_name(column) == "Alias"]
        return self._jvm.replace_expressions(plan, [*map(self._numbered_alias, aliases)])

    def _numbered_subqueries(self, plan: Plan) -> list[tuple[Expression, Expression]]:
        """Return the subqueries of an operator, each with one whose plan is numbered."""
        expressions = items(plan.expressions())
        nodes = [node for item in expressions for node in self._jvm.nodes(item)]
        return [
            (node, node.withNewPlan(self.numbered(node.plan())))
            for node in nodes
            if class_name(node) in SUBQUERIES
        ]

    def _numbered_alias(self, alias: Expression) -> tuple[Expression, Expression]:
        """Return a computed column, and the same with its new number."""
        column = alias.toAttribute()
        # The text of the canonical value has no names, and the new numbers of the columns in it.
        new_column = self._renumbered(column, alias.child().canonicalized().toString())
        self._columns[id_of(column)] = (column, new_column)
        return alias, alias.copy(
            alias.child(),
            alias.name(),
            new_column.exprId(),
            alias.qualifier(),
            alias.explicitMetadata(),
            alias.nonInheritableMetadataKeys(),
        )

    def _renumbered(self, column: Expression, value: str) -> Expression:
        """Return a column under the next free number of its value."""
        if id_of(column) in self._columns:
            return self._columns[id_of(column)][1]
        self._values[value] += 1
        number = _LEAST + crc32(f"{self._values[value]} {value}".encode())
        while number in self._numbers:
            number += 1
        self._numbers.add(number)
        return column.withExprId(column.exprId().copy(number, column.exprId().jvmId()))
