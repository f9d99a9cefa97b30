"""Expressions read from a tree of SQL.

Promises: what is not known to be computed exactly is refused, with the smallest part that is not.
Does not know: batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import reduce
from typing import TypeAlias

from sqlglot import exp

from ..errors import SchemaError, UnsupportedExpressionError, UnsupportedTypeError
from ..instant import zone_of
from ..predicate.binder import bind
from ..predicate.constant import Constant, fit_to_column
from ..predicate.operand import FUNCTIONS, OperandReader, cast_target, refusal, refusal_about
from ..schema import types as t
from ..schema.schema import TableSchema
from ..syntax import Tree
from .arithmetic import arithmetic, signed
from .boolean import ConditionValue, IsNull, Junction, Negation, compared
from .calendar import date_part, day_sum, epoch_number, time_cast, truncated
from .choice import choice, coalesce, extreme, of_common_type
from .column import ColumnValue
from .computed import Computed, computed
from .kinds import is_number, is_whole
from .literal import Literal, literal
from .number_cast import number_cast
from .quotient import quotient
from .text import cased, concat, length, substring, text_cast, trim
from .value import Value

_SECOND = 1_000_000
_MOST_BIGINT = 2**63
_ARITHMETIC: dict[type[Tree], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
_QUOTIENTS: dict[type[Tree], str] = {exp.Div: "/", exp.IntDiv: "div", exp.Mod: "%"}
_COMPARISONS: dict[type[Tree], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
_PARTS = {
    name: name
    for name in ("year", "quarter", "month", "day", "dayofyear", "dayofweek", "weekday", "hour",
                 "minute", "second")
} | {"dayofmonth": "day"}  # fmt: skip
_LENGTHS = {
    "length": "characters", "len": "characters", "char_length": "characters",
    "character_length": "characters", "octet_length": "bytes", "bit_length": "bits",
}  # fmt: skip
_CASES = {"upper": True, "ucase": True, "lower": False, "lcase": False}
_UNITS = {
    "year": "year", "yyyy": "year", "yy": "year", "quarter": "quarter", "month": "month",
    "mon": "month", "mm": "month", "week": "week", "day": "day", "dd": "day", "hour": "hour",
    "minute": "minute", "second": "second", "millisecond": "millisecond",
    "microsecond": "microsecond",
}  # fmt: skip
_UNITS_OF_DATES = ("year", "quarter", "month", "week")
_DAYS = {"date_add": "date_add", "date_sub": "date_sub", "datediff": "datediff",
         "date_diff": "datediff"}  # fmt: skip
_COMPUTED = (
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Case, exp.If, exp.Trim,
    exp.Substring, exp.DPipe, exp.Extract,
)  # fmt: skip


def read_value(tree: Tree, schema: TableSchema, time_zone: str) -> Value:
    """Return the value of an expression over a table's columns.

    ``time_zone``: that of the session. UnsupportedExpressionError if it is not known to be
    computed exactly, SchemaMismatchError for a column that the table does not have.
    """
    try:
        return _Reader(schema, time_zone).value(tree)
    except RecursionError:
        raise UnsupportedExpressionError("the expression is nested too deeply") from None


def read_condition(tree: Tree, schema: TableSchema, time_zone: str) -> Computed:
    """Return the condition that an expression is; errors as of `read_value` and `computed`."""
    value = read_value(tree, schema, time_zone)
    try:
        return computed(value)
    except UnsupportedExpressionError as error:
        raise refusal_about(tree, error) from None


def is_computed(node: Tree) -> bool:
    """Return whether a condition without AND, OR and NOT compares more than columns as they are."""
    for part in node.walk():
        if isinstance(part, _COMPUTED):
            return True
        if isinstance(part, exp.Anonymous) and part.name.lower() not in FUNCTIONS:
            return True
        if isinstance(part, exp.Cast) and part.this.find(exp.Column):
            return True
        if isinstance(part, exp.Neg) and part.this.find(exp.Column):
            return True
    return False


class _Reader:
    """Reads one expression."""

    def __init__(self, schema: TableSchema, time_zone: str) -> None:
        self._schema, self._time_zone = schema, time_zone
        self._zone = zone_of(time_zone)
        self._constants = OperandReader(schema, self._zone)
        offset = self._zone.offset
        self._offset = offset // _SECOND if offset is not None and not offset % _SECOND else None

    def value(self, node: Tree) -> Value:
        """Return the value of an expression."""
        try:
            return self._value(node)
        except UnsupportedTypeError as error:
            raise refusal(node, f"not computed here: {error}") from None
        except UnsupportedExpressionError as error:
            raise refusal_about(node, error) from None

    def _value(self, node: Tree) -> Value:
        kind = type(node)
        match node:
            case exp.Paren():
                return self.value(node.this)
            case exp.Column():
                return self._column(node)
            case exp.Cast() if node.find(exp.Column):
                return self._cast(node)
            case exp.Neg() if node.find(exp.Column):
                return signed("-", self.value(node.this))
            case exp.Literal() | exp.Cast() | exp.Neg() | exp.Boolean():
                return self._constant(node)
            case exp.Null():
                raise refusal(node, "a NULL without a type; cast it")
            case exp.Case():
                return self._case(node)
            case exp.If():
                return self._choice([node], node.args.get("false"))
            case exp.Trim() if not node.args.get("expression") and not node.args.get("position"):
                return trim("trim", self.value(node.this))
            case exp.Substring():
                return self._substring([node.this, node.args.get("start"), node.args.get("length")])
            case exp.DPipe():
                return concat([self.value(node.this), self.value(node.expression)])
            case exp.Extract() if node.name.lower() in _PARTS and node.name.lower() != "second":
                part = _PARTS[node.name.lower()]
                return date_part(part, self.value(node.expression), self._offset)
            case exp.Anonymous():
                return self._function(node)
        if kind in _ARITHMETIC:
            return arithmetic(_ARITHMETIC[kind], *self._both(node))
        if kind in _QUOTIENTS:
            return quotient(_QUOTIENTS[kind], *self._both(node))
        return self._truth(node)

    def _both(self, node: Tree) -> tuple[Value, Value]:
        return self.value(node.this), self.value(node.expression)

    def _column(self, node: exp.Column) -> Value:
        if len(node.parts) > 1:
            raise refusal(node, "a part of a column, which is not computed with here")
        try:
            return ColumnValue.named(node.name, self._schema)
        except SchemaError:
            # The reader of constants names the columns that there are.
            self._constants.read(node)
            raise

    def _constant(self, node: Tree) -> Value:
        constant = self._constants.read(node)
        assert isinstance(constant, Constant)
        return literal(constant.value, constant.type)

    # Casts

    def _cast(self, node: exp.Cast) -> Value:
        if node.args.get("safe"):
            raise refusal(node, "TRY_CAST, which is not supported here")
        return self.in_type(self.value(node.this), cast_target(node))

    def in_type(self, value: Value, target: t.DataType) -> Value:
        """Return a value cast to a type."""
        if isinstance(target, t.String):
            if target != t.String():
                raise UnsupportedTypeError(
                    f"a cast to {target} is not supported: it may differ from Spark's"
                )
            return text_cast(value)
        times = (t.Date, t.Timestamp, t.TimestampNtz)
        if isinstance(target, times):
            return time_cast(value, target, self._offset)
        return number_cast(value, target)

    # Choices

    def _case(self, node: exp.Case) -> Value:
        if node.this is not None:
            raise refusal(node, "a CASE of a value; write CASE WHEN with comparisons")
        return self._choice(node.args["ifs"], node.args.get("default"))

    def _choice(self, branches: Sequence[Tree], otherwise: Tree | None) -> Value:
        branch_values = [
            (self.value(branch.this), self.value(branch.args["true"])) for branch in branches
        ]
        if otherwise is None or isinstance(otherwise, exp.Null):
            return choice(branch_values, None)
        return choice(branch_values, self.value(otherwise))

    # Functions

    def _function(self, node: exp.Anonymous) -> Value:
        name, arguments = node.name.lower(), node.expressions
        make = _FUNCTIONS.get((name, len(arguments))) or _FUNCTIONS.get((name, None))
        if make is not None:
            return make(self, [self.value(argument) for argument in arguments])
        if name in ("date_trunc", "trunc") and len(arguments) == 2:
            return self._truncated(name, arguments)
        if name in ("substr", "substring") and 2 <= len(arguments) <= 3:
            return self._substring([*arguments, None] if len(arguments) == 2 else arguments)
        if name in FUNCTIONS:
            return self._truth(node)
        raise refusal(node, "a function that is not supported here")

    def _truncated(self, name: str, arguments: Sequence[Tree]) -> Value:
        unit, time = arguments if name == "date_trunc" else reversed(arguments)
        word = _UNITS.get(unit.name.lower()) if isinstance(unit, exp.Literal) else None
        value = self.value(time)
        is_date = isinstance(value.type, t.Date)
        if (
            word is None
            or is_date != (name == "trunc")
            or (is_date and word not in _UNITS_OF_DATES)
        ):
            raise UnsupportedTypeError(f"{name} of {value.type} to {unit.name!r} is not supported")
        return truncated(word, value, self._offset)

    def _substring(self, arguments: Sequence[Tree | None]) -> Value:
        text, *numbers = arguments
        assert text is not None
        position, count = (None if n is None else self._integer(n) for n in numbers)
        if position is None:
            raise UnsupportedTypeError("substring takes a position")
        return substring(self.value(text), position, count)

    def _integer(self, node: Tree) -> int:
        value = self.value(node)
        if not isinstance(value, Literal) or type(value.content) is not int:
            raise refusal(node, "not a whole number")
        return value.content

    # Conditions

    def _truth(self, node: Tree) -> Value:
        match node:
            case exp.And() | exp.Or():
                operator = "and" if isinstance(node, exp.And) else "or"
                return self._junction(operator, *self._both(node))
            case exp.Not():
                return Negation(_boolean(self.value(node.this)))
        if not is_computed(node):
            return ConditionValue(bind(node, self._schema, self._zone))
        match node:
            case exp.Is() if isinstance(node.expression, exp.Null):
                return IsNull(self.value(node.this))
            case exp.In() if node.expressions and not node.args.get("query"):
                tested, *choices = map(self.value, (node.this, *node.expressions))
                if any(isinstance(value.type, t.Double) for value in (tested, *choices)):
                    # Spark compares all of them as DOUBLE, whole numbers of more digits too.
                    tested, *choices = of_common_type([tested, *choices])
                parts = [self._compared(tested, "=", choice) for choice in choices]
                return reduce(lambda left, right: Junction("or", left, right), parts)
            case exp.Between() if not node.args.get("symmetric"):
                tested = self.value(node.this)
                low, high = (self.value(node.args[name]) for name in ("low", "high"))
                return Junction(
                    "and", self._compared(tested, ">=", low), self._compared(tested, "<=", high)
                )
        operator = _COMPARISONS.get(type(node), "")
        if not operator:
            raise refusal(node, "an expression that is not supported here")
        left, right = self._both(node)
        return self._compared(left, operator, right)

    def _junction(self, operator: str, left: Value, right: Value) -> Value:
        return Junction(operator, _boolean(left), _boolean(right))

    def _compared(self, left: Value, operator: str, right: Value) -> Value:
        left, right = self._fitted(left, right), self._fitted(right, left)
        return compared(left, operator, right)

    def _fitted(self, value: Value, sibling: Value) -> Value:
        """Return a literal as it compares with another value; a value as it is."""
        if not isinstance(value, Literal) or value.content is None:
            return value
        if is_whole(sibling.type) and isinstance(value.content, Decimal):
            if abs(value.content) >= _MOST_BIGINT:
                raise UnsupportedTypeError(f"{value.content} is outside of BIGINT")
            return value
        if value.type != sibling.type and isinstance(
            sibling.type, t.Date | t.Timestamp | t.TimestampNtz
        ):
            constant = Constant(value.content, value.type)
            (fitted,) = fit_to_column([constant], sibling.type, self._zone)
            return literal(fitted.value, fitted.type)
        return value


def _boolean(value: Value) -> Value:
    if not isinstance(value.type, t.Boolean):
        raise UnsupportedTypeError(f"a condition is a BOOLEAN, not {value.type}")
    return value


def _number(value: Value) -> Value:
    """Return a number, which is what it is after a +."""
    if not is_number(value.type):
        raise UnsupportedTypeError(f"+ of {value.type} is not supported")
    return value


_Maker: TypeAlias = Callable[[_Reader, list[Value]], Value]


def _nullif(reader: _Reader, values: list[Value]) -> Value:
    first, second = values
    return choice([(reader._compared(first, "=", second), Literal(None, first.type))], first)


def _part_maker(part: str) -> _Maker:
    return lambda reader, values: date_part(part, _only(values), reader._offset)


def _case_maker(is_upper: bool) -> _Maker:
    return lambda _, values: cased(_only(values), is_upper=is_upper)


def _maker(make: Callable[..., Value], *words: str) -> _Maker:
    """Return what calls a function with some words and the values."""
    return lambda _, values: make(*words, *values)


def _only(values: list[Value]) -> Value:
    (value,) = values
    return value


# By the name and the number of arguments, None for any.
_FUNCTIONS: dict[tuple[str, int | None], _Maker] = {
    ("abs", 1): _maker(signed, "abs"),
    ("negative", 1): _maker(signed, "-"),
    ("positive", 1): lambda _, values: _number(_only(values)),
    ("mod", 2): _maker(quotient, "%"),
    ("pmod", 2): _maker(quotient, "pmod"),
    ("coalesce", None): lambda _, values: coalesce(values),
    ("ifnull", 2): lambda _, values: coalesce(values),
    ("nvl", 2): lambda _, values: coalesce(values),
    ("nullif", 2): _nullif,
    ("greatest", None): lambda _, values: extreme(">", values),
    ("least", None): lambda _, values: extreme("<", values),
    **{(name, 1): _case_maker(is_upper) for name, is_upper in _CASES.items()},
    ("ltrim", 1): _maker(trim, "ltrim"),
    ("rtrim", 1): _maker(trim, "rtrim"),
    ("concat", None): lambda _, values: concat(values),
    ("date", 1): lambda reader, values: reader.in_type(_only(values), t.Date()),
    ("to_date", 1): lambda reader, values: reader.in_type(_only(values), t.Date()),
    **{(name, 1): _maker(length, unit) for name, unit in _LENGTHS.items()},
    **{(name, 1): _part_maker(part) for name, part in _PARTS.items()},
    **{
        (name, 1): _maker(epoch_number, name)
        for name in ("unix_micros", "unix_millis", "unix_seconds")
    },
    **{(name, 2): _maker(day_sum, function) for name, function in _DAYS.items()},
}
