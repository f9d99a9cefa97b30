"""Spark's analysed plans as py4j hands them to Python, and the refusal of what a view cannot have.

Does not know: how a plan is written as text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from pyspark.sql import SparkSession

from relstate.connector.views.view_settings import differing_settings, stored_settings
from relstate.storage import errors
from relstate.vnode import cached_property

# Objects of Spark's JVM, through py4j.
Plan: TypeAlias = Any
Expression: TypeAlias = Any

_AS_TEXT = "Write it as text, CREATE MATERIALIZED VIEW … AS SELECT …"
# Expressions with a plan of their own.
SUBQUERIES = frozenset({"Exists", "LateralSubquery", "ListQuery", "ScalarSubquery"})
# Operators that change no row, and have the columns of their child.
_ROW_NEUTRAL = frozenset(
    {
        "RebalancePartitions",
        "Repartition",
        "RepartitionByExpression",
        "ResolvedHint",
        "SubqueryAlias",
        "View",
    }
)
# Operators whose rows are in the order of those of their child.
_ORDER_KEEPING = _ROW_NEUTRAL | {"Filter", "Generate", "Project", "Sort"}


def refusal(reason: str, advice: str = _AS_TEXT) -> errors.UnsupportedStatementError:
    """Return the error for a frame, with what to write instead."""
    return errors.UnsupportedStatementError(
        f"a view cannot be created from this DataFrame: {reason}. {advice}"
    )


def class_name(value: Any) -> str:
    """Return the name of the class of an object of the JVM."""
    return str(value.getClass().getSimpleName())


def items(sequence: Any) -> list[Any]:
    """Return the items of a Scala sequence."""
    return [sequence.apply(number) for number in range(sequence.size())]


def entries(options: Any) -> Iterator[tuple[str, str]]:
    """Yield the options of a relation."""
    for entry in options.asCaseSensitiveMap().entrySet():
        yield entry.getKey(), entry.getValue()


def id_of(attribute: Expression) -> int:
    """Return the number that Spark gives a column of a plan."""
    return int(attribute.exprId().id())


def ids_of(attributes: Any) -> list[int]:
    """Return the numbers of the columns of a Scala sequence."""
    return [id_of(attribute) for attribute in items(attributes)]


def is_row_neutral(plan: Plan) -> bool:
    """Return whether an operator has the rows of its child, under the same columns."""
    kind = class_name(plan)
    if kind == "Sort":
        return not getattr(plan, "global")()
    return kind in _ROW_NEUTRAL and ids_of(plan.output()) == ids_of(plan.child().output())


def is_ordered(plan: Plan) -> bool:
    """Return whether the rows of a plan have an order by which no LIMIT has taken the first."""
    while class_name(plan) in _ORDER_KEEPING:
        if class_name(plan) == "Sort" and getattr(plan, "global")():
            return True
        plan = plan.child()
    return False


def is_selection(plan: Plan) -> bool:
    """Return whether an operator only chooses and orders the columns of its child."""
    return class_name(plan) == "Project" and all(
        class_name(column) == "AttributeReference" for column in items(plan.projectList())
    )


class Jvm:
    """What is made in the JVM of a session, and noted on its plans. Nothing of it is used before.

    Every name of a package is a call to the JVM, so they are looked up once.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._session: Any = spark

    @cached_property
    def _catalyst(self) -> Any:
        return self._session._jvm.org.apache.spark.sql.catalyst

    @cached_property
    def plans(self) -> Any:
        """The package of operators."""
        return self._catalyst.plans.logical

    @cached_property
    def rules(self) -> Any:
        """The package of the optimizer's rules."""
        return self._catalyst.optimizer

    @cached_property
    def _to_sequence(self) -> Any:
        return self._session._jvm.org.apache.spark.api.python.PythonUtils.toSeq

    @cached_property
    def _marks(self) -> tuple[Any, Any, Any]:
        """The names of the notes with a SELECT: its text, its columns, the session's settings."""
        tag = self._catalyst.trees.TreeNodeTag
        return tag("relstate.query"), tag("relstate.columns"), tag("relstate.settings")

    @property
    def _settings(self) -> str:
        """The settings of the session that a view keeps."""
        return json.dumps(stored_settings(self._session), sort_keys=True)

    def mark_query(self, plan: Plan, query: str) -> None:
        """Note on a plan, and on those made of it, of which SELECT it has the rows."""
        query_mark, columns_mark, settings_mark = self._marks
        plan.setTagValue(query_mark, query)
        plan.setTagValue(columns_mark, plan.output())
        plan.setTagValue(settings_mark, self._settings)

    def marked_query(self, plan: Plan) -> str | None:
        """Return the SELECT that was noted on a plan; None if it is not that, or not any more."""
        query_mark, columns_mark, _ = self._marks
        query = plan.getTagValue(query_mark)
        if query.isEmpty():
            return None
        # Spark may have added columns to the plan for what is above it.
        names = [column.name() for column in items(plan.output())]
        marked_names = [column.name() for column in items(plan.getTagValue(columns_mark).get())]
        is_same = names == marked_names and len({name.lower() for name in names}) == len(names)
        return str(query.get()) if is_same else None

    def check_marked_settings(self, plan: Plan) -> None:
        """Refuse a plan with a SELECT that was run under other settings than those of now."""
        settings = plan.getTagValue(self._marks[2])
        if not settings.isDefined():
            return
        marked, current = json.loads(settings.get()), stored_settings(self._session)
        for name, value, current_value in differing_settings(marked, current, self._session):
            raise refusal(
                f"db.sql has run its SELECT under {name} = {value}, and the session has "
                f"{current_value} now",
                "Call db.sql again",
            )

    def skip_row_neutral(self, plan: Plan) -> Plan:
        """Return the first operator, from a plan down, that may change a row or its columns."""
        while is_row_neutral(plan) and self.marked_query(plan) is None:
            plan = plan.child()
        return plan

    def skip_selections(self, plan: Plan) -> Plan:
        """Return the first operator, from a plan down, that may change or compute a value."""
        while is_row_neutral(plan) or is_selection(plan):
            if self.marked_query(plan) is not None:
                return plan
            plan = plan.child()
        return plan

    def is_joined_in_place(self, plan: Plan, *, is_left: bool) -> bool:
        """Return whether an input of a join needs no subquery: it is a table, or a join before."""
        source = self.skip_selections(plan)
        if self.marked_query(source) is not None:
            return True
        kind = class_name(source)
        return kind != "Filter" and (is_left or kind not in ("Join", "LateralJoin"))

    def reorders(self, plan: Plan) -> bool:
        """Return whether the columns of a plan are a selection of those of the FROM and WHERE."""
        plan = self.skip_row_neutral(plan)
        while class_name(plan) == "Filter" and self.marked_query(plan) is None:
            plan = self.skip_row_neutral(plan.child())
        return is_selection(plan) and self.marked_query(plan) is None

    def sequence(self, values: Iterable[Any]) -> Any:
        """Return a Scala sequence."""
        return self._to_sequence(list(values))

    def call(self, name: str, *arguments: Expression) -> Expression:
        """Return the call of a function, which Spark has not resolved yet."""
        return self._function.apply(name, self.sequence(arguments), False)

    @cached_property
    def _function(self) -> Any:
        return getattr(getattr(self._catalyst.analysis, "UnresolvedFunction$"), "MODULE$")

    def alias(self, value: Expression, column: Expression) -> Expression:
        """Return a value as a column with the name and the number of another one."""
        none = getattr(getattr(self._session._jvm.scala, "None$"), "MODULE$")
        qualifier = column.qualifier()
        return self._expressions.Alias(
            value, column.name(), column.exprId(), qualifier, none, self.sequence([])
        )

    def attribute_map(self, pairs: Iterable[tuple[Expression, Expression]]) -> Any:
        """Return a map of columns to columns."""
        make_pair = self._session._jvm.scala.Tuple2
        make_map = getattr(getattr(self._expressions, "AttributeMap$"), "MODULE$")
        return make_map.apply(self.sequence([make_pair(*pair) for pair in pairs]))

    def nodes(self, expression: Expression) -> list[Expression]:
        """Return all nodes of an expression."""
        return items(expression.collect(self._identity))

    @cached_property
    def _identity(self) -> Any:
        scala = self._session._jvm.scala
        conforms = getattr(getattr(scala, "Predef$"), "MODULE$")
        function = getattr(getattr(scala, "PartialFunction$"), "MODULE$")
        return function.fromFunction(getattr(conforms, "$conforms")())

    def replace_expressions(
        self, plan: Plan, pairs: Iterable[tuple[Expression, Expression]]
    ) -> Plan:
        """Return an operator with the second of each pair of expressions for the first."""
        replacements = self._session._jvm.scala.collection.mutable.HashMap()
        for expression, replacement in pairs:
            replacements.put(expression, replacement)
        return plan.transformExpressions(replacements) if replacements.size() else plan

    def text(self, text: str, expression: Expression) -> Expression:
        """Return an expression with a text, and the type of another expression."""
        return self._expressions.PrettyAttribute(text, expression.dataType())

    @cached_property
    def _expressions(self) -> Any:
        return self._catalyst.expressions

    def literal(self, value: object) -> Expression:
        """Return a literal."""
        return getattr(getattr(self._expressions, "Literal$"), "MODULE$").apply(value)

    def typed_literal(self, value: object, expression: Expression) -> Expression:
        """Return a literal of a value of Spark's own, with the type of another expression."""
        return self._expressions.Literal(value, expression.dataType())

    def at_one_time(self, *plans: Plan) -> list[Plan]:
        """Return plans in which the present time is the same literal."""
        together = self.plans.Union(self.sequence(plans), False, False)
        return items(self.rules.ComputeCurrentTime.apply(together).children())
