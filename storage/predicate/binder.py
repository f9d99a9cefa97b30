"""A tree bound to a table's columns, as a condition.

Promises: the condition means what Spark's WHERE means by the text; everything else is refused, with
the part that is not understood and the reason. A column compares with constants of its own family
(`constant`) and with columns of its own type; a cast of a column is refused.
Does not know: batches, keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from ..errors import UnsupportedExpressionError
from ..instant import Zone
from ..schema import types as t
from ..schema.schema import TableSchema
from ..syntax import Tree, operands
from .condition import (
    Comparison,
    Condition,
    IsTrue,
    Matches,
    Member,
    Truth,
    all_of,
    any_of,
    is_unknown,
)
from .constant import Constant, check_order, fit_to_column
from .domain import Domain, domain_of
from .extension import extension
from .operand import FUNCTIONS, KNOWN, VALUES, Operand, OperandReader, refusal, refusal_about
from .pattern import escape_regex, next_prefix, parse_pattern
from .valueset import ValueSet

_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_OPERATORS: dict[type[Tree], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_EQUALITIES = ("=", "<>")
_NULL_SAFE: dict[type[Tree], str] = {exp.NullSafeEQ: "=", exp.NullSafeNEQ: "<>"}
_JOINED = (exp.And, exp.Or, exp.Not, exp.Paren)
_SUBQUERIES = (exp.Query, exp.Exists, exp.Subquery)
_CHANGING = (exp.CurrentDate, exp.CurrentTimestamp, exp.CurrentTime, exp.CurrentUser)
_CHANGING_FUNCTIONS = frozenset(
    {
        "curdate", "current_date", "current_time", "current_timestamp", "current_timezone",
        "current_user", "input_file_name", "localtimestamp", "monotonically_increasing_id", "now",
        "rand", "randn", "random", "randstr", "session_user", "shuffle", "spark_partition_id",
        "uniform", "user", "uuid",
    }
)  # fmt: skip
_TEXT = t.String()


def bind(tree: Tree, schema: TableSchema, zone: Zone) -> Condition:
    """Return the condition that an expression is over a table's columns.

    UnsupportedExpressionError if it cannot be evaluated exactly, SchemaMismatchError for a column
    that the table does not have.
    """
    try:
        _check_parts(tree)
        return _Binder(OperandReader(schema, zone)).condition(tree)
    except RecursionError:
        raise UnsupportedExpressionError(
            "the condition is nested too deeply; use IN for many values"
        ) from None


def _check_parts(tree: Tree) -> None:
    """UnsupportedExpressionError for what no read of one table can evaluate."""
    for node in tree.walk():
        if isinstance(node, _SUBQUERIES) or (isinstance(node, exp.In) and node.args.get("query")):
            raise refusal(node, "a subquery; ask Spark for its rows first")
        if isinstance(node, exp.Window):
            raise refusal(node, "a window function, which reads other rows")
        if isinstance(node, exp.AggFunc):
            raise refusal(node, "an aggregate function, which reads other rows")
        if isinstance(node, _CHANGING) or (
            isinstance(node, exp.Anonymous) and node.name.lower() in _CHANGING_FUNCTIONS
        ):
            raise refusal(node, "not deterministic: it may differ from read to read")
        if isinstance(node, exp.Placeholder | exp.Parameter):
            raise refusal(node, "a parameter; write its value")


class _Binder:
    """Binds one expression."""

    def __init__(self, operands: OperandReader) -> None:
        self._operands = operands

    # Conditions

    def condition(self, node: Tree) -> Condition:
        """Return an expression of type BOOLEAN as a condition."""
        computed = self._computed(node)
        if computed is not None:
            return computed
        bind = _CONDITIONS.get(type(node))
        if bind is not None:
            return bind(self, node)
        operator = _OPERATORS.get(type(node)) or _NULL_SAFE.get(type(node))
        if operator is not None:
            is_null_safe = type(node) in _NULL_SAFE
            return self._compare(node, operator, node.this, node.expression, is_null_safe)
        if isinstance(node, exp.Column | exp.Dot | exp.Cast):
            return self._boolean(node)
        if isinstance(node, VALUES):
            raise refusal(node, "not a condition; compare it with something")
        raise refusal(node, f"a condition that is not supported here; {KNOWN}")

    def _computed(self, node: Tree) -> Condition | None:
        """Return a condition on computed values; None if it is on columns as they are."""
        tests_truth = isinstance(node, exp.Is) and isinstance(node.expression, exp.Boolean)
        if isinstance(node, _JOINED) or tests_truth:
            return None
        return extension().read(node, self._operands.schema, self._operands.zone)

    def _and(self, node: Tree) -> Condition:
        return all_of([self.condition(part) for part in operands(node, exp.And)])

    def _or(self, node: Tree) -> Condition:
        return any_of([self.condition(part) for part in operands(node, exp.Or)])

    def _not(self, node: Tree) -> Condition:
        return self.condition(node.this).negated()

    def _parenthesised(self, node: Tree) -> Condition:
        return self.condition(node.this)

    def _truth(self, node: Tree) -> Condition:
        return Truth(None if isinstance(node, exp.Null) else bool(node.this))

    def _boolean(self, node: Tree) -> Condition:
        operand = self._operands.read(node)
        if isinstance(operand, Constant) or operand.type != t.Boolean():
            raise refusal(
                node, f"of type {operand.type}; a condition is a BOOLEAN, such as a comparison"
            )
        return self._compare_constant(operand, "=", Constant(True, t.Boolean()))

    def _is(self, node: Tree) -> Condition:
        test = node.expression
        if isinstance(node.this, _UNFINISHED):
            raise refusal(node, "not Spark's SQL; put the expression before IS in parentheses")
        if isinstance(test, exp.Null):
            return self._is_null(node.this)
        if isinstance(test, exp.Boolean):
            # An unknown condition is neither true nor false, and this test is never unknown.
            condition = self.condition(node.this)
            return IsTrue(condition if test.this else condition.negated())
        raise refusal(node, "not known; IS takes NULL, TRUE or FALSE")

    def _is_null(self, node: Tree) -> Condition:
        while isinstance(node, exp.Paren):
            node = node.this
        if not isinstance(node, VALUES):
            return is_unknown(self.condition(node))
        operand = self._operands.read(node)
        if isinstance(operand, Constant):
            return Truth(operand.value is None)
        return _null_test(operand)

    def _between(self, node: Tree) -> Condition:
        if node.args.get("symmetric"):
            raise refusal(node, "not Spark's SQL; write BETWEEN the lower AND the higher value")
        low = self._compare(node, ">=", node.this, node.args["low"])
        high = self._compare(node, "<=", node.this, node.args["high"])
        return all_of([low, high])

    # Comparisons

    def _compare(
        self, node: Tree, operator: str, left: Tree, right: Tree, is_null_safe: bool = False
    ) -> Condition:
        try:
            if _is_row(left) or _is_row(right):
                return self._compare_rows(node, operator, left, right)
            first, second = self._operands.read(left), self._operands.read(right)
            if isinstance(first, Constant) and isinstance(second, Constant):
                return self._compare_constants(first, operator, second, is_null_safe)
            if isinstance(second, Constant):
                assert isinstance(first, Operand)
                return self._compare_constant(first, operator, second, is_null_safe)
            if isinstance(first, Constant):
                return self._compare_constant(second, _MIRRORED[operator], first, is_null_safe)
            return _compare_columns(first, operator, second, is_null_safe)
        except UnsupportedExpressionError as error:
            raise refusal_about(node, error) from None

    def _compare_constant(
        self, operand: Operand, operator: str, constant: Constant, is_null_safe: bool = False
    ) -> Condition:
        domain = _ordered_domain(operand.type)
        if constant.value is None:
            if not is_null_safe:
                return Truth(None)
            test = _null_test(operand)
            return test if operator == "=" else test.negated()
        (fitted,) = fit_to_column([constant], operand.type, self._operands.zone)
        if operator not in _EQUALITIES:
            check_order(fitted, operand.type)
        when_null = (operator == "<>") if is_null_safe else None
        values = domain.set_where(operator, fitted.value)
        return Member(operand.path, operand.type, values, when_null)

    def _compare_constants(
        self, first: Constant, operator: str, second: Constant, is_null_safe: bool
    ) -> Condition:
        if first.value is None or second.value is None:
            if not is_null_safe:
                return Truth(None)
            return Truth(((first.value is None) == (second.value is None)) == (operator == "="))
        domain = _ordered_domain(first.type)
        if first.type != second.type:
            raise UnsupportedExpressionError(
                f"constants of types {first.type} and {second.type} cannot be compared here"
            )
        return Truth(domain.set_where(operator, second.value).holds(domain.ordinal(first.value)))

    # IN

    def _in(self, node: Tree) -> Condition:
        choices = node.expressions
        if not choices or node.args.get("unnest") or node.args.get("field"):
            raise refusal(node, "an IN without a list of values")
        try:
            if _is_row(node.this):
                return any_of([self._equal_rows(node, node.this, choice) for choice in choices])
            return self._in_list(node.this, choices)
        except UnsupportedExpressionError as error:
            raise refusal_about(node, error) from None

    def _in_list(self, value: Tree, choices: Sequence[Tree]) -> Condition:
        """Return the condition of an IN; a NULL in the list makes it unknown for other values."""
        operand = self._operands.read(value)
        listed = [self._operands.read(choice) for choice in choices]
        constants = [choice for choice in listed if isinstance(choice, Constant)]
        if isinstance(operand, Constant) or len(constants) < len(listed):
            raise UnsupportedExpressionError("IN takes a column and a list of constants")
        domain = _ordered_domain(operand.type)
        non_nulls = [constant for constant in constants if constant.value is not None]
        fitted = fit_to_column(non_nulls, operand.type, self._operands.zone)
        values = domain.set_of(constant.value for constant in fitted)
        member = Member(operand.path, operand.type, values)
        return member if len(non_nulls) == len(constants) else any_of([member, Truth(None)])

    def _compare_rows(self, node: Tree, operator: str, left: Tree, right: Tree) -> Condition:
        if operator not in ("=", "<>"):
            raise UnsupportedExpressionError("rows are compared by =, <> and IN only")
        equal = self._equal_rows(node, left, right)
        return equal if operator == "=" else equal.negated()

    def _equal_rows(self, node: Tree, left: Tree, right: Tree) -> Condition:
        """Rows are equal where all their values are, and in them NULL equals NULL."""
        if not (_is_row(left) and _is_row(right)) or len(left.expressions) != len(
            right.expressions
        ):
            raise UnsupportedExpressionError("a row is compared with rows of as many values")
        pairs = list(zip(left.expressions, right.expressions, strict=True))
        if any(isinstance(value, exp.Null) for pair in pairs for value in pair):
            raise UnsupportedExpressionError("a NULL in a row has no type; use IS NULL")
        return all_of([self._compare(node, "=", *pair, is_null_safe=True) for pair in pairs])

    # Text and functions

    def _like(self, node: Tree) -> Condition:
        escape = "\\"
        like = node
        if isinstance(node, exp.Escape):
            like, escape = node.this, self._text(node.expression)
            if len(escape) != 1:
                raise refusal(node, "an ESCAPE that is not one character")
        if not isinstance(like, exp.Like):
            raise refusal(node, "not known here; LIKE is")
        try:
            pattern = parse_pattern(self._text(like.expression), escape)
            operand = self._text_column(like.this)
        except UnsupportedExpressionError as error:
            raise refusal_about(node, error) from None
        condition: Condition
        if pattern.is_text:
            values = _ordered_domain(_TEXT).set_where("=", pattern.prefix)
            condition = Member(operand.path, operand.type, values)
        elif pattern.is_prefix:
            condition = _prefix_test(operand, pattern.prefix)
        else:
            parts = [_prefix_test(operand, pattern.prefix)] if pattern.prefix else []
            condition = all_of([*parts, _regex_test(node, operand, pattern.regex)])
        return condition.negated() if like.args.get("negate") else condition

    def _function(self, node: Tree) -> Condition:
        name, arguments = node.name.lower(), node.expressions
        if name not in FUNCTIONS or len(arguments) != (1 if name.startswith("is") else 2):
            raise refusal(node, f"a function that is not supported here; {KNOWN}")
        if name == "isnan":
            return self._is_nan(node, arguments[0])
        if name in ("isnull", "isnotnull"):
            test = self._is_null(arguments[0])
            return test if name == "isnull" else test.negated()
        operand, text = self._text_column(arguments[0]), self._text(arguments[1])
        if name == "startswith":
            return _prefix_test(operand, text)
        end = r"\z" if name == "endswith" else ""
        return _regex_test(node, operand, escape_regex(text) + end)

    def _is_nan(self, node: Tree, argument: Tree) -> Condition:
        operand = self._operands.read(argument)
        if isinstance(operand, Constant) or not isinstance(operand.type, t.Float | t.Double):
            raise refusal(node, f"a test of {operand.type}; isnan takes a FLOAT or DOUBLE column")
        values = _ordered_domain(operand.type).set_where("=", float("nan"))
        return Member(operand.path, operand.type, values, when_null=False)

    def _text(self, node: Tree) -> str:
        operand = self._operands.read(node)
        if isinstance(operand, Constant) and isinstance(operand.value, str):
            return operand.value
        raise refusal(node, "not a constant text, which is needed here")

    def _text_column(self, node: Tree) -> Operand:
        operand = self._operands.read(node)
        if isinstance(operand, Operand) and operand.type == _TEXT:
            return operand
        raise refusal(node, f"not a column of type STRING, but {operand.type}")


# After these, Spark's grammar takes nothing but the end of the value.
_UNFINISHED = (exp.Is, exp.In, exp.Between, exp.Like, exp.Escape, exp.Not)
_CONDITIONS: dict[type[Tree], Callable[[_Binder, Tree], Condition]] = {
    exp.And: _Binder._and,
    exp.Or: _Binder._or,
    exp.Not: _Binder._not,
    exp.Paren: _Binder._parenthesised,
    exp.Boolean: _Binder._truth,
    exp.Null: _Binder._truth,
    exp.Is: _Binder._is,
    exp.In: _Binder._in,
    exp.Between: _Binder._between,
    exp.Like: _Binder._like,
    exp.Escape: _Binder._like,
    exp.Anonymous: _Binder._function,
}


def _is_row(node: Tree) -> bool:
    return isinstance(node, exp.Tuple)


def _compare_columns(
    first: Operand, operator: str, second: Operand, is_null_safe: bool
) -> Comparison:
    _ordered_domain(first.type)
    if first.type != second.type:
        raise UnsupportedExpressionError(
            f"columns of the types {first.type} and {second.type} cannot be compared; compare "
            "columns of the same type"
        )
    return Comparison(first.path, operator, second.path, first.type, is_null_safe)


def _ordered_domain(data_type: t.DataType) -> Domain:
    """Return the domain of a type. UnsupportedExpressionError if its values are not compared."""
    domain = domain_of(data_type)
    if domain is None:
        raise UnsupportedExpressionError(f"values of type {data_type} cannot be compared here")
    return domain


def _null_test(operand: Operand) -> Member:
    """Return that a column is NULL."""
    domain = domain_of(operand.type)
    nothing = ValueSet(0, ()) if domain is None else domain.nothing
    return Member(operand.path, operand.type, nothing, when_null=True)


def _prefix_test(operand: Operand, prefix: str) -> Member:
    stop = next_prefix(prefix)
    domain = _ordered_domain(_TEXT)
    values = domain.between(prefix.encode(), None if stop is None else stop.encode())
    return Member(operand.path, operand.type, values)


def _regex_test(node: Tree, operand: Operand, regex: str) -> Matches:
    try:
        pc.match_substring_regex(pa.array([""]), regex)
    except pa.ArrowInvalid:
        raise refusal(node, "a pattern that is too long") from None
    return Matches(operand.path, regex)
