"""Calls of aggregate functions as measures of partial rows, and what Spark computes of these.

Promises: the text that replaces a call has the call's type and, for whole numbers and decimals,
its value bit for bit; Spark's own functions add up, so that a sum that overflows is Spark's error.
The moments of variances are merged in Spark by the formula of its own partial aggregation.
Does not know: where in a query a call is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlglot import exp

from relstate.connector.syntax.tree import Tree, is_row_star, without_parentheses
from relstate.storage import (
    AggregateFunction,
    ColumnValue,
    Failure,
    PartialAggregate,
    Predicate,
    TableSchema,
    Value,
    errors,
    group_name,
    measure_name,
    moments,
    types,
)

COUNT, MEAN, DEVIATIONS = moments.COUNT, moments.MEAN, moments.DEVIATIONS

_WHOLE = (types.TinyInt, types.SmallInt, types.Int, types.BigInt)
_FLOATS = (types.Float, types.Double)
_DECIMAL_DIGITS = 38
# How many digits a sum and an average have more than their values.
_SUM_DIGITS, _AVERAGE_DIGITS = 10, 4
_MOST_ROWS = 10**_SUM_DIGITS
_MIN, _MAX = AggregateFunction.MIN, AggregateFunction.MAX
# Any value will do for any_value; of booleans false is less than true.
_EXTREMES = {
    "min": _MIN, "max": _MAX, "any_value": _MIN, "bool_and": _MIN, "every": _MIN, "bool_or": _MAX,
    "some": _MAX,
}  # fmt: skip
# Of other types Spark casts every value, or refuses the call.
_OF_BOOLEANS = frozenset({"bool_and", "every", "bool_or", "some"})
COUNT_IF = "count_if"
# By how many less than the values the squared deviations are divided, and whether the result is the
# root. The names are those of sqlglot.
_VARIANCES = {
    "variance_pop": (0, False), "variance": (1, False), "stddev_pop": (0, True),
    "stddev_samp": (1, True), "stddev": (1, True), "std": (1, True),
}  # fmt: skip
_NAMES = frozenset({"count", "sum", "avg", COUNT_IF, *_EXTREMES, *_VARIANCES})
# Adds the moments ``b`` of some values to those of others, ``a``, as Spark does.
_MERGE = (
    f"named_struct('{COUNT}', a.{COUNT} + b.{COUNT}, "
    f"'{MEAN}', a.{MEAN} + (b.{MEAN} - a.{MEAN}) / (a.{COUNT} + b.{COUNT}) * b.{COUNT}, "
    f"'{DEVIATIONS}', a.{DEVIATIONS} + b.{DEVIATIONS} + (b.{MEAN} - a.{MEAN}) "
    f"* ((b.{MEAN} - a.{MEAN}) / (a.{COUNT} + b.{COUNT})) * a.{COUNT} * b.{COUNT})"
)
# What raises Spark's own error beside the number of a failure, which is ``{0}``.
_RAISES = {
    Failure.OVERFLOW: f"{2**63 - 1}L + {{0}} > 0L",
    Failure.DIVISION_BY_ZERO: "1L div ({0} - 2L) > 0L",
    Failure.REMAINDER_BY_ZERO: "1L % ({0} - 3L) > 0L",
    Failure.CAST_OVERFLOW: f"CAST({2**31}L + {{0}} AS INT) > 0",
    Failure.DECIMAL_RANGE: "CAST(100L + {0} AS DECIMAL(2, 0)) > 0",
}
_NO_MOMENTS = f"CAST(NULL AS STRUCT<{COUNT}: DOUBLE, {MEAN}: DOUBLE, {DEVIATIONS}: DOUBLE>)"


@dataclass(frozen=True, slots=True)
class CallText:
    """What replaces a call in a query over partial rows.

    ``merged``: an aggregate of the partial rows of a group; ``final``: the same of one partial row
    that is all of its group, if no value failed, without an aggregate.
    """

    merged: str
    final: str

    @classmethod
    def of(cls, template: str, *measures: CallText) -> CallText:
        """Return an expression in which ``{0}`` and so on are measures, as ``{sum}({0})``."""
        functions = {"sum": "sum", "min": "min", "max": "max"}
        # Spark names a call by its text and marks the name, a column it does not.
        nothing = dict.fromkeys(functions, "coalesce")
        return cls(
            template.format(*(measure.merged for measure in measures), **functions),
            template.format(*(measure.final for measure in measures), **nothing),
        )


_Measure: TypeAlias = tuple[AggregateFunction, Value | None, Predicate | None]


@dataclass
class PartialCalls:
    """The measures that the calls of one SELECT need, each once, and the columns of its groups.

    ``rows``: more than the table has. ``divides_decimals``: whether decimals divide as by default;
    ``has_null_deviations``: whether the deviation of a sample of one value is NULL, as by default.
    """

    schema: TableSchema
    rows: int
    divides_decimals: bool
    has_null_deviations: bool
    group: list[Value] = field(default_factory=list)
    _measures: list[_Measure] = field(default_factory=list)

    def add_group(self, value: Value) -> CallText:
        """Group by a value too; return the expression that replaces it, for a column its name."""
        if value not in self.group:
            self.group.append(value)
        if isinstance(value, ColumnValue):
            return CallText(value.name, value.name)
        # Spark names an expression by its text, a column by itself, and distinguishes the two.
        name = f"coalesce({group_name(self.group.index(value))})"
        return self._guarded(name, value, None)

    def aggregate(self) -> PartialAggregate:
        """Return what the tasks add up. UnsupportedTypeError, SchemaError if they cannot."""
        measures = [(function, value or "") for function, value, _ in self._measures]
        conditions = [None if where is None else where.condition for _, _, where in self._measures]
        return PartialAggregate.of(self.schema, self.group, measures, conditions)

    def text_of(self, call: Tree, value: Value | None, where: Predicate | None) -> CallText | None:
        """Return the expression for a call over a value, None for ``*``; None if it is not known.

        ``where``: the rows that it is over; None for all.
        """
        if value is None:
            rows = self._measure(AggregateFunction.ROWS, None, where)
            return CallText.of("coalesce({sum}({0}), 0L)", rows)
        match call:
            case exp.Count() if value.may_fail:
                # Where no operand can be NULL, Spark does not compute it.
                return None
            case exp.Count():
                count = self._measure(AggregateFunction.COUNT, value, where)
                return CallText.of("coalesce({sum}({0}), 0L)", count)
            case exp.Sum():
                return self._sum(value, where)
            case exp.Avg():
                return self._average(value, where)
        name = name_of(call)
        if name in _VARIANCES:
            return self._variance(value, where, *_VARIANCES[name])
        if name not in _EXTREMES or (name in _OF_BOOLEANS and not self._is_boolean(value)):
            return None
        if value.may_fail and not isinstance(call, exp.Min | exp.Max):
            # Which values any_value computes is not known.
            return None
        extreme = _EXTREMES[name]
        return CallText.of(f"{{{extreme}}}({{0}})", self._measure(extreme, value, where))

    def _is_boolean(self, value: Value) -> bool:
        return isinstance(value.type, types.Boolean)

    def _sum(self, value: Value, where: Predicate | None) -> CallText:
        match value.type:
            case types.Decimal(precision, scale):
                total = self._decimal_sum(value, where)
                result = f"DECIMAL({precision + _SUM_DIGITS}, {scale})"
                return CallText.of(f"CAST({{0}} AS {result})", total)
        return CallText.of("{sum}({0})", self._measure(AggregateFunction.SUM, value, where))

    def _decimal_sum(self, value: Value, where: Predicate | None) -> CallText:
        # So few rows that neither the cast nor a sum in a task can overflow.
        if self.rows >= _MOST_ROWS:
            raise errors.UnsupportedTypeError("a sum of decimals over so many rows may overflow")
        return CallText.of("{sum}({0})", self._measure(AggregateFunction.SUM, value, where))

    def _average(self, value: Value, where: Predicate | None) -> CallText | None:
        data_type = value.type
        if isinstance(data_type, types.Decimal):
            return self._decimal_average(value, data_type, where)
        is_float = isinstance(data_type, _FLOATS)
        function = AggregateFunction.SUM if is_float else AggregateFunction.FLOAT_SUM
        total = self._measure(function, value, where)
        count = self._measure(AggregateFunction.COUNT, value, where)
        return CallText.of("({sum}({0}) / nullif({sum}({1}), 0L))", total, count)

    def _decimal_average(
        self, value: Value, data_type: types.Decimal, where: Predicate | None
    ) -> CallText | None:
        """Return the quotient in the steps in which Spark computes it.

        Spark rounds it twice, first to 38 digits. Here it is first rounded to fewer digits, but
        enough of them that no quotient of such sums is so near to the middle of two results.
        """
        digits = len(str(self.rows))
        precision, scale = data_type.precision, data_type.scale
        if not self.divides_decimals or precision + 2 * digits > _DECIMAL_DIGITS - 6:
            return None
        total = self._decimal_sum(value, where)
        count = self._measure(AggregateFunction.COUNT, value, where)
        dividend = f"CAST({{0}} AS DECIMAL({precision + digits}, {scale}))"
        divisor = "CAST(nullif({sum}({1}), 0L) AS DECIMAL(20, 0))"
        result = f"DECIMAL({precision + _AVERAGE_DIGITS}, {scale + _AVERAGE_DIGITS})"
        return CallText.of(f"CAST({dividend} / {divisor} AS {result})", total, count)

    def _variance(
        self, value: Value, where: Predicate | None, missing: int, is_root: bool
    ) -> CallText | None:
        """Return the squared deviations of all values, divided by how many these are.

        NULL without values, and for the deviation of a sample of one.
        """
        if missing and not self.has_null_deviations:
            return None
        moments = self._measure(AggregateFunction.MOMENTS, value, where)

        def result(of: str) -> str:
            count = f"nullif({of}.{COUNT} - 1D, 0D)" if missing else f"{of}.{COUNT}"
            variance = f"{of}.{DEVIATIONS} / {count}"
            return f"sqrt({variance})" if is_root else variance

        merged = (
            f"aggregate(collect_list({moments.merged}), {_NO_MOMENTS}, "
            f"(a, b) -> if(a IS NULL, b, {_MERGE}), a -> {result('a')})"
        )
        return CallText(merged, f"({result(moments.final)})")

    def _measure(
        self, function: AggregateFunction, value: Value | None, where: Predicate | None
    ) -> CallText:
        """Return the expression for a measure in a call; it fails where the value fails."""
        name = self._name(function, value, where)
        return CallText(name, name) if value is None else self._guarded(name, value, where)

    def _guarded(self, name: str, value: Value, where: Predicate | None) -> CallText:
        """Return what a field of partial rows is; where its value fails, so does that."""
        if not value.may_fail:
            return CallText(name, name)
        failure = self._name(AggregateFunction.FAILURE, value, where)
        # Spark computes only the branch of the failure that there is.
        branches = (f"WHEN {int(of)} THEN {text.format(failure)}" for of, text in _RAISES.items())
        merged = f"if(CASE {failure} {' '.join(branches)} ELSE true END, {name}, NULL)"
        return CallText(merged, name)

    def _name(
        self, function: AggregateFunction, value: Value | None, where: Predicate | None
    ) -> str:
        measure = (function, value, where)
        if measure not in self._measures:
            self._measures.append(measure)
        return measure_name(self._measures.index(measure))


def name_of(call: Tree) -> str:
    """Return the name of a function in lower case; of anything else the empty text."""
    if isinstance(call, exp.Anonymous):
        return call.this.lower() if isinstance(call.this, str) else ""
    return call.sql_name().lower() if isinstance(call, exp.Func) else ""


def is_call(node: Tree) -> bool:
    """Return whether a node is a call of a function that may be added up, perhaps with FILTER."""
    inner = node.this if isinstance(node, exp.Filter) else node
    return isinstance(inner, exp.Expr) and name_of(inner) in _NAMES


def argument_of(call: Tree) -> Tree | None:
    """Return the one argument of a call; None if it has another number."""
    arguments = [*call.expressions]
    if isinstance(call.this, exp.Expr):
        arguments.append(call.this)
    return without_parentheses(arguments[0]) if len(arguments) == 1 else None


def distinct_arguments(call: Tree) -> Sequence[Tree] | None:
    """Return the arguments of a call with DISTINCT; None if it has none."""
    arguments: Sequence[Tree] | None = None
    if isinstance(call.this, exp.Distinct) and not call.this.args.get("on"):
        arguments = call.this.expressions
    return arguments


def counts_rows(call: Tree) -> bool:
    """Return whether a call is ``count(*)`` or the count of a constant."""
    argument = argument_of(call) if isinstance(call, exp.Count) else None
    if argument is None:
        return False
    return is_row_star(argument) or isinstance(argument, exp.Literal | exp.Boolean)
