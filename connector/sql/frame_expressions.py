"""The expressions of a DataFrame as text.

Spark writes most expressions itself (`Expression.sql`). This module gives it the names of columns,
and writes what Spark's text leaves out or gets wrong: lambda functions, IGNORE NULLS, subqueries.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from .frame_names import FrameNames, identifier
from .frame_plan import Expression, Jvm, Plan, class_name, items, refusal

_PRECEDING = re.compile(r"-(\d+) FOLLOWING\b")
_COUNTER = re.compile(r"_\d+$")
_FOREIGN = re.compile(r"Python|ScalaUDF|ScalaAggregator|ScalaUDAF|Hive")
_NESTED_TYPES = frozenset({"ArrayType", "MapType", "StructType"})
_DEFAULT_DEVIATION = 0.05
# Aggregates whose text lacks IGNORE NULLS, with their names before OVER.
_IGNORING = {"First": "first_value", "Last": "last_value", "AnyValue": "any_value"}
# Window functions whose frame is always the same.
_FIXED_FRAMES = frozenset(
    {"Lag", "Lead", "RowNumber", "Rank", "DenseRank", "PercentRank", "CumeDist", "NTile"}
)


class ExpressionWriter:
    """Writes expressions over columns with the names of one text.

    ``query``: writes the plan of a subquery; ``rows``: that of EXISTS, of any columns.
    """

    def __init__(
        self,
        jvm: Jvm,
        names: FrameNames,
        query: Callable[[Plan], str],
        rows: Callable[[Plan], str],
    ) -> None:
        self._jvm = jvm
        self._names = names
        self._query = query
        self._rows = rows

    def text(self, expression: Expression) -> str:
        """Return an expression as text."""
        return str(self._written(expression).sql())

    def texts(self, expressions: Any) -> str:
        """Return the expressions of a Scala sequence as texts, with commas between them."""
        return ", ".join(map(self.text, items(expressions)))

    def column(self, expression: Expression) -> str:
        """Return an expression of a SELECT list, under its name."""
        kind = class_name(expression)
        if kind == "AttributeReference":
            return self._names.selected(expression)
        if kind != "Alias":
            raise refusal(f"it has a column without a name ({expression.sql()})")
        return f"{self.text(expression.child())} AS {identifier(self._names.name(expression))}"

    def _written(self, expression: Expression) -> Expression:
        """Return an expression whose `sql` is its text."""
        kind = class_name(expression)
        write = _WRITERS.get(kind)
        if write is not None:
            text = write(self, expression)
            if text is not None:
                return self._jvm.text(text, expression)
        if kind == "PreciseTimestampConversion":
            raise refusal(
                "it has window_time, or a window of time of a form that relstate does not read",
                "Write window.end - INTERVAL 1 MICROSECOND for window_time(window)",
            )
        if kind == "Uuid":
            raise refusal(
                "it calls uuid(), which gives another value each time",
                "Write the values to a table",
            )
        if _FOREIGN.search(kind):
            raise refusal(
                f"it calls {expression.sql()}, whose code is not part of the store",
                "Use functions of Spark's own",
            )
        members = dir(expression)
        if "parameters" in members:
            # A function that Spark defines by others: only its parameters are what was written.
            return self._written_parameters(expression, "makeSQLString" in members)
        return self._with_written_children(expression)

    def _written_parameters(self, expression: Expression, is_operator: bool) -> Expression:
        parameters = [self._written(item) for item in items(expression.parameters())]
        if not is_operator:
            return self._jvm.call(expression.prettyName(), *parameters)
        texts = self._jvm.sequence(parameter.sql() for parameter in parameters)
        text = str(expression.makeSQLString(texts))
        return self._jvm.text(text if text.endswith(")") else f"({text})", expression)

    def _with_written_children(self, expression: Expression) -> Expression:
        children = items(expression.children())
        if not children:
            return expression
        return expression.withNewChildren(self._jvm.sequence(map(self._written, children)))

    # What Spark's text does not say

    def _attribute(self, expression: Expression) -> str:
        return self._names.reference(expression)

    def _child(self, expression: Expression) -> str:
        return self.text(expression.child())

    def _outer(self, expression: Expression) -> str:
        return self.text(expression.e())

    def _cast(self, expression: Expression) -> str | None:
        """Return a cast to a type with parts, which Spark takes for one of its own making."""
        if class_name(expression.dataType()) not in _NESTED_TYPES:
            return None
        word = "TRY_CAST" if expression.evalMode().toString() == "TRY" else "CAST"
        return f"{word}({self.text(expression.child())} AS {expression.dataType().sql()})"

    def _from_text(self, expression: Expression) -> str:
        schema = text_literal(expression.schema().sql())
        arguments = f"{self.text(expression.child())}, {schema}{self._options(expression)}"
        return f"{expression.prettyName()}({arguments})"

    def _to_json(self, expression: Expression) -> str:
        return f"to_json({self.text(expression.child())}{self._options(expression)})"

    def _options(self, expression: Expression) -> str:
        """Return the last argument of a function with options, with a comma before it."""
        pairs = [(pair._1(), pair._2()) for pair in items(expression.options().toSeq())]
        if not pairs:
            return ""
        texts = (f"{text_literal(key)}, {text_literal(value)}" for key, value in sorted(pairs))
        return f", map({', '.join(texts)})"

    def _date_part(self, expression: Expression) -> str:
        return f"date_part({self.texts(expression.parameters())})"

    def _updated_fields(self, expression: Expression) -> str:
        return self.text(expression.evalExpr())

    def _struct(self, expression: Expression) -> str:
        # Spark leaves out the names of parts that `struct` has given them.
        return f"named_struct({self.texts(expression.children())})"

    def _lambda_variable(self, expression: Expression) -> str:
        # PySpark numbers them on, so that the same frame would have another text each time.
        return identifier(self._names.name(expression, _COUNTER.sub("", expression.name())))

    def _lambda_function(self, expression: Expression) -> str:
        names = [*map(self._lambda_variable, items(expression.arguments()))]
        arguments = names[0] if len(names) == 1 else f"({', '.join(names)})"
        return f"{arguments} -> {self.text(expression.function())}"

    def _scalar_subquery(self, expression: Expression) -> str:
        return f"({self._query(expression.plan())})"

    def _exists(self, expression: Expression) -> str:
        return f"EXISTS ({self._rows(expression.plan())})"

    def _in_subquery(self, expression: Expression) -> str:
        values = self.texts(expression.values())
        if expression.values().size() > 1:
            values = f"({values})"
        return f"({values} IN ({self._query(expression.query().plan())}))"

    def _aggregate(self, expression: Expression) -> str | None:
        function = expression.aggregateFunction()
        arguments = self._ignoring_arguments(function)
        if arguments is None:
            return None
        call = f"{function.prettyName()}({arguments})"
        condition = expression.filter()
        if condition.isEmpty():
            return call
        return f"{call} FILTER (WHERE {self.text(condition.get())})"

    def _ignoring_arguments(self, function: Expression) -> str | None:
        """Return the arguments of an aggregate whose text lacks one of them."""
        kind = class_name(function)
        if kind in _IGNORING and function.ignoreNulls():
            return f"{self.text(function.child())}, TRUE"
        if kind == "HyperLogLogPlusPlus" and function.relativeSD() != _DEFAULT_DEVIATION:
            return f"{self.text(function.child())}, {function.relativeSD()!r}"
        return None

    def _window(self, expression: Expression) -> str:
        function, window = expression.windowFunction(), expression.windowSpec()
        parts = []
        if not window.partitionSpec().isEmpty():
            parts.append(f"PARTITION BY {self.texts(window.partitionSpec())}")
        if not window.orderSpec().isEmpty():
            parts.append(f"ORDER BY {self.texts(window.orderSpec())}")
        if class_name(function) not in _FIXED_FRAMES:
            # Spark writes the start of a frame of rows as a negative number that follows.
            frame = self.text(window.frameSpecification())
            parts.append(_PRECEDING.sub(r"\1 PRECEDING", frame))
        return f"{self._window_function(function)} OVER ({' '.join(parts)})"

    def _window_function(self, function: Expression) -> str:
        """Return the call before OVER, with IGNORE NULLS after it."""
        if class_name(function) == "AggregateExpression":
            aggregate = function.aggregateFunction()
            kind = class_name(aggregate)
            if kind in _IGNORING and aggregate.ignoreNulls() and function.filter().isEmpty():
                return f"{_IGNORING[kind]}({self.text(aggregate.child())}) IGNORE NULLS"
        if class_name(function) in ("Lag", "Lead", "NthValue") and function.ignoreNulls():
            return f"{function.prettyName()}({self.texts(function.children())}) IGNORE NULLS"
        return self.text(function)

    def _few_nulls(self, expression: Expression) -> str:
        """Return the condition of `dropna`: at least so many values are neither NULL nor NaN."""
        values = items(expression.children())
        if not values:
            raise refusal("it drops rows by NULLs in no columns", "Name columns in dropna")
        tests = [f"{self.text(value)} IS NOT NULL{self._not_nan(value)}" for value in values]
        if expression.n() == len(values):
            return f"({' AND '.join(tests)})"
        counts = (f"IF({test}, 1, 0)" for test in tests)
        return f"({' + '.join(counts)} >= {expression.n()})"

    def _not_nan(self, value: Expression) -> str:
        return f" AND NOT isnan({self.text(value)})" if is_floating(value) else ""


def text_literal(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def is_floating(expression: Expression) -> bool:
    """Return whether an expression may be NaN."""
    return class_name(expression.dataType()).rstrip("$") in ("DoubleType", "FloatType")


_WRITERS: dict[str, Callable[[ExpressionWriter, Expression], str | None]] = {
    "AggregateExpression": ExpressionWriter._aggregate,
    "Alias": ExpressionWriter._child,
    "AtLeastNNonNulls": ExpressionWriter._few_nulls,
    "AttributeReference": ExpressionWriter._attribute,
    "Cast": ExpressionWriter._cast,
    "CreateNamedStruct": ExpressionWriter._struct,
    "CsvToStructs": ExpressionWriter._from_text,
    "DatePart": ExpressionWriter._date_part,
    "Exists": ExpressionWriter._exists,
    "Extract": ExpressionWriter._date_part,
    "InSubquery": ExpressionWriter._in_subquery,
    "JsonToStructs": ExpressionWriter._from_text,
    "LambdaFunction": ExpressionWriter._lambda_function,
    "NamedLambdaVariable": ExpressionWriter._lambda_variable,
    "OuterReference": ExpressionWriter._outer,
    "ScalarSubquery": ExpressionWriter._scalar_subquery,
    "StructsToJson": ExpressionWriter._to_json,
    "UpdateFields": ExpressionWriter._updated_fields,
    "WindowExpression": ExpressionWriter._window,
}
