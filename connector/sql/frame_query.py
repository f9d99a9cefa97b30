"""The SELECT that a DataFrame means, if it is made of relstate's tables by the DataFrame API.

Spark's analysed plan of the frame is written as text. In the end Spark plans the text over the same
relations, and has to come to the plan of the frame: what is not understood is refused, and never
read otherwise.

Promises: the text has the columns and rows of the frame, with each table at whatever epoch it is
read. Only the modules ``frame_…`` look into Spark's plans. Spark Connect hides them, so that only
the frames of `db.sql` themselves are known there.
Does not know: which SELECTs can be maintained.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from relstate.connector.failure import describe_error
from relstate.connector.views.view_settings import differing_settings, stored_settings
from relstate.storage import errors

from . import frame_grouping as grouping
from .frame_expressions import is_floating
from .frame_ids import optimized_by_value
from .frame_operators import QueryWriter
from .frame_plan import SUBQUERIES, Expression, Jvm, Plan, class_name, is_selection, items, refusal
from .frame_renames import without_renames
from .frame_text import FrameText
from .frame_time_window import time_window


class FrameQueries:
    """The SELECTs of DataFrames over one store, in one session."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark = spark
        self._jvm = Jvm(spark)
        self._path = path
        self._remote_queries: WeakKeyDictionary[DataFrame, str] = WeakKeyDictionary()

    def note(self, frame: DataFrame, query: str) -> None:
        """Let a frame, and those made of it, say of which SELECT it has the rows.

        Over Spark Connect only the frame itself, which gets its settings whenever it is run.
        """
        if isinstance(frame, ClassicDataFrame):
            self._jvm.mark_query(_analyzed(frame), query)
        else:
            self._remote_queries[frame] = query

    def query_of(self, frame: DataFrame) -> str:
        """Return the SELECT, over tables of the store, that a DataFrame means.

        UnsupportedStatementError for a frame that cannot be written as one, UsageError for what is
        not a DataFrame.
        """
        if not isinstance(frame, DataFrame):
            raise errors.UsageError(
                f"a view is created from a DataFrame, not from {type(frame).__name__}"
            )
        if not isinstance(frame, ClassicDataFrame):
            return self._remote_query_of(frame)
        _check_settings(frame.sparkSession, self._spark)
        query = self._jvm.marked_query(_analyzed(frame))
        if query is not None:
            self._jvm.check_marked_settings(_analyzed(frame))
            return query
        text = QueryWriter(frame, self._path, self._jvm).frame_text()
        _check_same(self._jvm, frame, text)
        return text.query

    def _remote_query_of(self, frame: DataFrame) -> str:
        query = self._remote_queries.get(frame)
        if query is None:
            raise refusal(
                "Spark Connect does not show its plan, and it is not itself a result of db.sql",
                "Pass db.sql('SELECT …') as it is, or write CREATE MATERIALIZED VIEW … AS SELECT …",
            )
        return query


def _check_settings(session: SparkSession, own: SparkSession) -> None:
    """Refuse a frame of a session in which its text does not mean what it means in another."""
    if session is own:
        return
    pairs = differing_settings(stored_settings(session), stored_settings(own), own)
    for name, value, own_value in pairs:
        raise refusal(
            f"it is of a session with {name} = {value}, and in that of the Database it is "
            f"{own_value}",
            "Make it of db.table, or connect to the store in its session",
        )


def _check_same(jvm: Jvm, frame: ClassicDataFrame, text: FrameText) -> None:
    """UnsupportedStatementError unless Spark plans a text as it plans the frame."""
    spark = frame.sparkSession
    frames: dict[str, Any] = {
        f"relation_{number}": _frame_of(spark, plan)
        for number, (_, _, plan) in enumerate(text.relations)
    }
    try:
        written = spark.sql(text.template, **frames)
    except Exception as error:
        raise refusal(
            f"Spark does not read the text made of it, {text.query}: {describe_error(error)}"
        ) from None
    plans = jvm.at_one_time(_comparable(jvm, _analyzed(frame)), _analyzed(written))
    state = spark._jsparkSession.sessionState()
    frames_of_plans = [_frame_of(spark, without_renames(jvm, plan)) for plan in plans]
    optimized = [optimized_by_value(jvm, state, _analyzed(plan)) for plan in frames_of_plans]
    if frame.columns != written.columns or not _are_same(*optimized):
        raise refusal(f"the text made of it, {text.query}, means something else")


def _frame_of(spark: SparkSession, plan: Plan) -> ClassicDataFrame:
    session: Any = spark
    dataset = session._jvm.org.apache.spark.sql.classic.Dataset
    return ClassicDataFrame(dataset.ofRows(session._jsparkSession, plan), spark)


def _analyzed(frame: DataFrame) -> Plan:
    classic: Any = frame
    return classic._jdf.queryExecution().analyzed()


def _comparable(jvm: Jvm, plan: Plan, *, is_open: bool = False) -> Plan:
    """Return a plan with the same rows, as the text has it.

    It is without operators that change no row, has the condition of `dropna` in functions that SQL
    knows, and the columns that a pivot or unpivot reads in the order in which SQL needs them.
    ``is_open``: the operator above names the columns that it reads, so there may be others.
    """
    plan = jvm.skip_row_neutral(plan)
    if jvm.marked_query(plan) is not None:
        return plan
    kind = class_name(plan)
    if kind in _FROM_AND_WHERE and not is_open:
        return _selected(jvm, plan.output(), plan)
    if is_selection(plan) and is_open:
        return _comparable(jvm, plan.child(), is_open=True)
    pivot = grouping.pivot(plan, lambda value, column: "") if kind == "Project" else None
    if pivot is not None:
        second = plan.child()
        rows = _selected(jvm, jvm.sequence(pivot.inputs), pivot.child)
        return _over(jvm, plan, _over(jvm, second, _over(jvm, second.child(), rows)))
    if grouping.is_unpivot(plan):
        columns = jvm.sequence(grouping.unpivot(plan).inputs)
        return _over(jvm, plan, _selected(jvm, columns, plan.child()))
    if kind == "Expand" and class_name(plan.child()) == "Project":
        # The copies of the columns that grouping sets are made of.
        copies = plan.child()
        return _over(jvm, plan, _over(jvm, copies, _comparable(jvm, copies.child())))
    children = [
        _comparable(jvm, child, is_open=_is_open(jvm, plan, number))
        for number, child in enumerate(items(plan.children()))
    ]
    if kind == "Filter" and class_name(plan.condition()) == "AtLeastNNonNulls":
        return jvm.plans.Filter(_few_nulls(jvm, plan.condition()), children[0])
    return plan.withNewChildren(jvm.sequence(children))


# Operators that are written into one FROM and WHERE, and those whose columns are all written.
_FROM_AND_WHERE = frozenset({"Filter", "Join", "LateralJoin"})
_NAMING = frozenset({"Aggregate", "Project"})


def _is_open(jvm: Jvm, plan: Plan, number: int) -> bool:
    """Return whether the text has an input of an operator in the FROM and WHERE of its SELECT."""
    kind = class_name(plan)
    if kind in ("Join", "LateralJoin"):
        child = plan.children().apply(number)
        return jvm.is_joined_in_place(child, is_left=number == 0)
    return (kind in _NAMING or kind == "Filter") and time_window(plan) is None


def _over(jvm: Jvm, plan: Plan, child: Plan) -> Plan:
    """Return an operator over another child."""
    return plan.withNewChildren(jvm.sequence([child]))


def _selected(jvm: Jvm, columns: Any, plan: Plan) -> Plan:
    """Return some columns of a plan, in an order."""
    return jvm.plans.Project(columns, _comparable(jvm, plan, is_open=True))


def _few_nulls(jvm: Jvm, condition: Expression) -> Expression:
    """Return the condition of `dropna`: at least so many values are neither NULL nor NaN."""
    tests = [_is_present(jvm, value) for value in items(condition.children())]
    if condition.n() == len(tests):
        return reduce(lambda left, right: jvm.call("and", left, right), tests)
    counts = (jvm.call("if", test, jvm.literal(1), jvm.literal(0)) for test in tests)
    total = reduce(lambda left, right: jvm.call("+", left, right), counts)
    return jvm.call(">=", total, jvm.literal(condition.n()))


def _is_present(jvm: Jvm, value: Expression) -> Expression:
    test = jvm.call("isnotnull", value)
    if not is_floating(value):
        return test
    return jvm.call("and", test, jvm.call("not", jvm.call("isnan", value)))


def _are_same(plan: Plan, written: Plan) -> bool:
    """Return whether two canonical plans are the same, but for the names of columns."""
    if plan.getClass() != written.getClass():
        return False
    if class_name(plan) == "DataSourceV2ScanRelation":
        # The objects that will read the rows differ.
        return bool(plan.relation().equals(written.relation())) and bool(
            plan.output().equals(written.output())
        )
    children, written_children = items(plan.children()), items(written.children())
    if len(children) != len(written_children):
        return False
    if not all(map(_are_same, children, written_children)):
        return False
    expressions = _EXPRESSIONS.get(class_name(plan))
    if expressions is None:
        return bool(plan.equals(_with_children_of(plan, written)))
    return all(map(_are_all_same, expressions(plan), expressions(written)))


def _with_children_of(plan: Plan, written: Plan) -> Plan:
    """Return an operator over the children of another one, whose column of EXISTS it takes over.

    What a join says of each left row, whether it has a match, is a column that canonical plans do
    not number anew; operators above read it by its place.
    """
    written = written.withNewChildren(plan.children())
    if class_name(plan) != "Join":
        return written
    kind, written_kind = plan.joinType(), written.joinType()
    if not class_name(kind) == class_name(written_kind) == "ExistenceJoin":
        return written
    return written.copy(written.left(), written.right(), kind, written.condition(), written.hint())


# All that an operator has, besides its children.
_EXPRESSIONS: dict[str, Callable[[Plan], list[list[Expression]]]] = {
    "Aggregate": lambda plan: [
        items(plan.groupingExpressions()),
        _unnamed(plan.aggregateExpressions()),
    ],
    "Filter": lambda plan: [[plan.condition()]],
    "Project": lambda plan: [_unnamed(plan.projectList())],
}


# Spark orders the operands of these by hashes, which differ where there are subqueries in them.
_CONNECTIVES = frozenset({"And", "Or"})
_FLIPPED = {
    "EqualNullSafe": "EqualNullSafe",
    "EqualTo": "EqualTo",
    "GreaterThan": "LessThan",
    "GreaterThanOrEqual": "LessThanOrEqual",
    "LessThan": "GreaterThan",
    "LessThanOrEqual": "GreaterThanOrEqual",
}


def _operands(expression: Expression, kind: str) -> list[Expression]:
    """Return the operands of nested connectives of one kind."""
    if class_name(expression) != kind:
        return [expression]
    return [item for child in items(expression.children()) for item in _operands(child, kind)]


def _are_same_in_any_order(expressions: list[Expression], written: list[Expression]) -> bool:
    rest = [*written]
    for expression in expressions:
        matches = (item for item in rest if _are_same_expressions(expression, item))
        match = next(matches, None)
        if match is None:
            return False
        rest = [item for item in rest if item is not match]
    return not rest


def _are_all_same(expressions: list[Expression], written: list[Expression]) -> bool:
    return len(expressions) == len(written) and all(
        map(_are_same_expressions, expressions, written)
    )


def _are_same_expressions(expression: Expression, written: Expression) -> bool:
    """Return whether two canonical expressions are the same, those with subqueries, too."""
    if expression.equals(written):
        return True
    kind, written_kind = class_name(expression), class_name(written)
    if kind in _CONNECTIVES and kind == written_kind:
        return _are_same_in_any_order(_operands(expression, kind), _operands(written, kind))
    operands, written_operands = items(expression.children()), items(written.children())
    if _FLIPPED.get(kind) == written_kind and _are_all_same(operands[::-1], written_operands):
        return True
    if kind != written_kind or not _are_all_same(operands, written_operands):
        return False
    expression = expression.withNewChildren(written.children())
    if class_name(expression) in SUBQUERIES:
        if not _are_same(expression.plan(), written.plan()):
            return False
        expression = expression.withNewPlan(written.plan())
    return bool(expression.equals(written))


def _unnamed(columns: Any) -> list[Expression]:
    """Return the values of columns: operators above refer to them by place, not by name."""
    return [
        column.child() if class_name(column) == "Alias" else column for column in items(columns)
    ]
