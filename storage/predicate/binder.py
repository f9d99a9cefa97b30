"""A tree of sqlglot bound to a table's columns, as a condition.

Promises: what comes out means what Spark's WHERE means by the text; everything else is refused,
with the part that is not understood and the reason.
Does not know: batches, keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from ..errors import (
    SchemaError,
    SchemaMismatchError,
    UnsupportedExpressionError,
)
from ..schema import types as t
from ..schema.schema import TableSchema
from .coercion import common_type
from .condition import (
    Comparison,
    Condition,
    Matches,
    Member,
    Path,
    Settled,
    Truth,
    every,
    some,
    unknown,
)
from .constant import INTEGERS, Constant, cast
from .domain import Domain, domain_of
from .like import after_prefix, pattern_of, quoted
from .literal import cast_constant, is_text, literal, negative, type_of
from .refusal import KNOWN, about, check_parts, reason, refused
from .syntax import Tree, parse_expression, shown
from .valueset import ValueSet
from .widening import is_castable, preimage
from .zone import Zone

_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_OPERATORS: dict[type[Tree], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_NULL_SAFE: dict[type[Tree], str] = {exp.NullSafeEQ: "=", exp.NullSafeNEQ: "<>"}


@dataclass(frozen=True, slots=True)
class Operand:
    """A column or a field of one, cast to the ``casts`` one after another."""

    path: Path
    declared: t.DataType
    casts: tuple[t.DataType, ...] = ()

    @property
    def type(self) -> t.DataType:
        """The type after the last cast."""
        return self.casts[-1] if self.casts else self.declared


def bind(text: str, schema: TableSchema, zone: Zone) -> Condition:
    """Return the condition that an expression is over a table's columns.

    UnsupportedExpressionError if it cannot be evaluated exactly, SchemaMismatchError for a column
    that the table does not have.
    """
    tree = parse_expression(text)
    try:
        check_parts(tree)
        return _Binder(schema, zone).condition(tree)
    except UnsupportedExpressionError as error:
        raise UnsupportedExpressionError(f"in {shown(text)}: {error}") from None
    except SchemaMismatchError as error:
        raise SchemaMismatchError(f"in {shown(text)}: {error}") from None
    except RecursionError:
        raise UnsupportedExpressionError(f"{shown(text)} is nested too deeply") from None


class _Binder:
    """Binds one expression. ``zone`` is where local times are."""

    def __init__(self, schema: TableSchema, zone: Zone) -> None:
        self._schema = schema
        self._zone = zone

    # Conditions

    def condition(self, node: Tree) -> Condition:
        """Return an expression of type BOOLEAN as a condition."""
        bind = _CONDITIONS.get(type(node))
        if bind is not None:
            return bind(self, node)
        operator = _OPERATORS.get(type(node)) or _NULL_SAFE.get(type(node))
        if operator is not None:
            null_safe = type(node) in _NULL_SAFE
            return self._compared(node, operator, node.this, node.expression, null_safe)
        if isinstance(node, exp.Column | exp.Dot | exp.Cast):
            return self._boolean(node)
        if isinstance(node, _VALUES):
            raise refused(node, "no condition; compare it with something")
        raise refused(node, "a condition that is not known here; " + KNOWN)

    def _and(self, node: Tree) -> Condition:
        return every([self.condition(part) for part in _flat(node, exp.And)])

    def _or(self, node: Tree) -> Condition:
        return some([self.condition(part) for part in _flat(node, exp.Or)])

    def _not(self, node: Tree) -> Condition:
        return self.condition(node.this).negated()

    def _parenthesised(self, node: Tree) -> Condition:
        return self.condition(node.this)

    def _truth(self, node: Tree) -> Condition:
        return Truth(None if isinstance(node, exp.Null) else bool(node.this))

    def _boolean(self, node: Tree) -> Condition:
        operand = self._side(node)
        if isinstance(operand, Constant) or operand.type != t.Boolean():
            found = operand.type
            raise refused(node, f"of type {found}; a condition is a BOOLEAN, such as a comparison")
        return self._constant_compared(operand, "=", Constant(True, t.Boolean()))

    def _is(self, node: Tree) -> Condition:
        asked = node.expression
        if isinstance(node.this, _LOOSE):
            raise refused(node, "no SQL of Spark's; put what IS asks about in parentheses")
        if isinstance(asked, exp.Null):
            return self._is_null(node.this)
        if isinstance(asked, exp.Boolean):
            # What is unknown is neither true nor false, and this is never unknown.
            inner = self.condition(node.this)
            wanted = inner if asked.this else inner.negated()
            return Settled(wanted)
        raise refused(node, "not known; IS takes NULL, TRUE or FALSE")

    def _is_null(self, node: Tree) -> Condition:
        inner = node
        while isinstance(inner, exp.Paren):
            inner = inner.this
        if not self._is_value(inner):
            return unknown(self.condition(inner))
        side = self._side(inner)
        if isinstance(side, Constant):
            return Truth(side.value is None)
        return _null_test(side)

    def _between(self, node: Tree) -> Condition:
        if node.args.get("symmetric"):
            raise refused(node, "not Spark's; write BETWEEN the lower AND the higher")
        low = self._compared(node, ">=", node.this, node.args["low"])
        high = self._compared(node, "<=", node.this, node.args["high"])
        return every([low, high])

    def _isnan(self, node: Tree) -> Condition:
        side = self._side(node.this)
        if isinstance(side, Constant) or not isinstance(side.type, t.Float | t.Double):
            raise refused(node, "asked of what is no column of type FLOAT or DOUBLE")
        domain = _ordered_type(side.type)
        values = domain.compared("=", domain.ordinal(float("nan")))
        return self._member(side, values, side.type, when_null=False)

    def _anonymous(self, node: Tree) -> Condition:
        name = node.name.lower()
        if name in ("isnull", "isnotnull") and len(node.expressions) == 1:
            found = self._is_null(node.expressions[0])
            return found if name == "isnull" else found.negated()
        raise refused(node, f"a function that is not known here; {KNOWN}")

    # Comparisons

    def _compared(
        self, node: Tree, operator: str, left: Tree, right: Tree, null_safe: bool = False
    ) -> Condition:
        try:
            if _is_row(left) or _is_row(right):
                return self._rows_compared(node, operator, left, right)
            one, other = self._side(left), self._side(right)
            if isinstance(one, Constant) and not isinstance(other, Constant):
                return self._constant_compared(other, _MIRRORED[operator], one, null_safe)
            if isinstance(one, Operand) and isinstance(other, Constant):
                return self._constant_compared(one, operator, other, null_safe)
            if isinstance(one, Operand) and isinstance(other, Operand):
                return self._columns_compared(one, operator, other, null_safe)
            assert isinstance(one, Constant)
            assert isinstance(other, Constant)
            return self._constants_compared(one, operator, other, null_safe)
        except UnsupportedExpressionError as error:
            raise about(node, error) from None

    def _constant_compared(
        self, operand: Operand, operator: str, constant: Constant, null_safe: bool = False
    ) -> Condition:
        type_ = common_type([operand.type, _narrowed(constant, operand.type)])
        domain = _ordered_type(type_)
        if constant.value is None:
            if not null_safe:
                return Truth(None)
            test = _null_test(operand)
            return test if operator == "=" else test.negated()
        value = cast(constant, type_, self._zone).value
        values = domain.compared(operator, domain.ordinal(value))
        when_null = (operator == "<>") if null_safe else None
        return self._member(operand, values, type_, when_null)

    def _member(
        self, operand: Operand, values: ValueSet, type_: t.DataType, when_null: bool | None
    ) -> Member:
        """Return that an operand, cast to ``type_``, is in a set."""
        for source, target in reversed(
            list(zip((operand.declared, *operand.casts), (*operand.casts, type_), strict=True))
        ):
            values = preimage(source, target, values, self._zone)
        return Member(operand.path, operand.declared, values, when_null)

    def _columns_compared(
        self, one: Operand, operator: str, other: Operand, null_safe: bool
    ) -> Condition:
        type_ = common_type([one.type, other.type])
        _ordered_type(type_)
        for side in (one, other):
            if side.casts or not _widens(side.type, type_):
                raise UnsupportedExpressionError(
                    f"two columns of types {one.type} and {other.type} are not compared here as "
                    f"{type_}; compare each with constants, or filter in Spark"
                )
        return Comparison(one.path, operator, other.path, type_, null_safe)

    def _constants_compared(
        self, one: Constant, operator: str, other: Constant, null_safe: bool
    ) -> Condition:
        type_ = common_type([one.type, other.type])
        if one.value is None or other.value is None:
            if not null_safe:
                return Truth(None)
            return Truth(((one.value is None) == (other.value is None)) == (operator == "="))
        domain = _ordered_type(type_)
        left, right = (domain.ordinal(cast(side, type_, self._zone).value) for side in (one, other))
        return Truth(domain.compared(operator, right).holds(left))

    # IN

    def _in(self, node: Tree) -> Condition:
        choices = node.expressions
        if not choices or node.args.get("unnest") or node.args.get("field"):
            raise refused(node, "an IN without a list of values")
        try:
            if _is_row(node.this):
                return some([self._row_equal(node, node.this, choice) for choice in choices])
            return self._in_list(node.this, choices)
        except UnsupportedExpressionError as error:
            raise about(node, error) from None

    def _in_list(self, value: Tree, choices: Sequence[Tree]) -> Condition:
        """IN meets in one type of all; the NULLs in its list leave unknown what is not found."""
        side = self._side(value)
        listed = [self._side(choice) for choice in choices]
        constants = [choice for choice in listed if isinstance(choice, Constant)]
        if isinstance(side, Constant) or len(constants) < len(listed):
            raise UnsupportedExpressionError("only a column is looked for, among constants")
        type_ = common_type([side.type, *(choice.type for choice in constants)])
        domain = _ordered_type(type_)
        there = [choice for choice in constants if choice.value is not None]
        ordinals = [domain.ordinal(cast(choice, type_, self._zone).value) for choice in there]
        found = self._member(side, domain.one_of(ordinals), type_, None)
        return found if len(there) == len(constants) else some([found, Truth(None)])

    def _rows_compared(self, node: Tree, operator: str, left: Tree, right: Tree) -> Condition:
        if operator not in ("=", "<>"):
            raise UnsupportedExpressionError("rows are compared by =, <> and IN only")
        equal = self._row_equal(node, left, right)
        return equal if operator == "=" else equal.negated()

    def _row_equal(self, node: Tree, left: Tree, right: Tree) -> Condition:
        """Rows are equal where all their values are, and in them NULL equals NULL."""
        if not (_is_row(left) and _is_row(right)) or len(left.expressions) != len(
            right.expressions
        ):
            raise UnsupportedExpressionError("rows of as many values are compared with each other")
        pairs = list(zip(left.expressions, right.expressions, strict=True))
        if any(isinstance(one, exp.Null) for pair in pairs for one in pair):
            raise UnsupportedExpressionError("a NULL in a row has no type; use IS NULL")
        return every([self._compared(node, "=", *pair, null_safe=True) for pair in pairs])

    # Text

    def _like(self, node: Tree) -> Condition:
        escape = "\\"
        like = node
        if isinstance(node, exp.Escape):
            like, escape = node.this, self._text(node.expression)
            if len(escape) != 1:
                raise refused(node, "an ESCAPE that is not one character")
        if not isinstance(like, exp.Like):
            raise refused(node, "not known here; LIKE is")
        try:
            pattern = pattern_of(self._text(like.expression), escape)
            operand = self._text_column(like)
        except UnsupportedExpressionError as error:
            raise about(node, error) from None
        found: Condition
        if pattern.is_text:
            values = _ordered_type(_TEXT).compared("=", pattern.prefix.encode())
            found = Member(operand.path, operand.type, values)
        elif pattern.is_prefix:
            found = _begins(operand, pattern.prefix)
        else:
            parts = [_begins(operand, pattern.prefix)] if pattern.prefix else []
            found = every([*parts, _matching(node, operand, pattern.regex)])
        return found.negated() if like.args.get("negate") else found

    def _starts(self, node: Tree) -> Condition:
        return _begins(self._text_column(node), self._text(node.expression))

    def _ends(self, node: Tree) -> Condition:
        regex = quoted(self._text(node.expression)) + r"\z"
        return _matching(node, self._text_column(node), regex)

    def _contains(self, node: Tree) -> Condition:
        regex = quoted(self._text(node.expression))
        return _matching(node, self._text_column(node), regex)

    def _text(self, node: Tree) -> str:
        side = self._side(node)
        if isinstance(side, Constant) and isinstance(side.value, str):
            return side.value
        raise refused(node, "where a constant text belongs")

    def _text_column(self, node: Tree) -> Operand:
        side = self._side(node.this)
        if isinstance(side, Operand) and side.type == _TEXT and not side.casts:
            return side
        raise refused(node, f"asked of what is no column of type STRING, but {side.type}")

    # Values

    def _is_value(self, node: Tree) -> bool:
        return isinstance(node, _VALUES)

    def _side(self, node: Tree) -> Operand | Constant:
        """Return a value: a column, a field, a constant, or a cast of one."""
        match node:
            case exp.Paren():
                return self._side(node.this)
            case exp.Column() | exp.Dot():
                return self._operand(node)
            case exp.Neg():
                return negative(node, self._zone)
            case exp.Cast():
                return self._cast(node)
            case exp.Literal() | exp.HexString() | exp.Boolean() | exp.Null():
                return literal(node)
        raise refused(node, reason(node))

    def _operand(self, node: exp.Column | exp.Dot) -> Operand:
        names = _names(node)
        try:
            column = self._schema.column(names[0])
        except SchemaError as error:
            raise SchemaMismatchError(str(error)) from None
        path, found = [column.name], column.type
        for name in names[1:]:
            if not isinstance(found, t.Struct):
                raise SchemaMismatchError(
                    f"{'.'.join(path)} is {found} and has no field {name!r}; columns are named "
                    "without their table"
                )
            fields = [field for field in found.fields if field.name.lower() == name.lower()]
            if len(fields) != 1:
                known = ", ".join(field.name for field in found.fields)
                raise SchemaMismatchError(
                    f"{'.'.join(path)} has {len(fields)} fields {name!r}; its fields are {known}"
                )
            path.append(fields[0].name)
            found = fields[0].type
        return Operand(tuple(path), found)

    def _cast(self, node: exp.Cast) -> Operand | Constant:
        target = type_of(node)
        side = self._side(node.this)
        if isinstance(side, Constant):
            inner = node.this
            is_number = isinstance(inner, exp.Literal) and not is_text(inner)
            number = inner.name if is_number else None
            return cast_constant(node, side, target, self._zone, number)
        if not is_castable(side.type, target, self._zone):
            raise refused(node, f"a cast of {side.type} to {target}, which may fail or round")
        return Operand(side.path, side.declared, (*side.casts, target))


_TEXT = t.String()
_VALUES = (
    exp.Column, exp.Dot, exp.Neg, exp.Cast, exp.Literal, exp.HexString, exp.Boolean, exp.Null,
)  # fmt: skip
# What Spark's grammar puts behind a value, and nothing behind it.
_LOOSE = (exp.Is, exp.In, exp.Between, exp.Like, exp.Escape, exp.Not)
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
    exp.StartsWith: _Binder._starts,
    exp.EndsWith: _Binder._ends,
    exp.Contains: _Binder._contains,
    exp.IsNan: _Binder._isnan,
    exp.Anonymous: _Binder._anonymous,
}


def _flat(node: Tree, kind: type[exp.And] | type[exp.Or]) -> Sequence[Tree]:
    """Return the parts of ANDs of ANDs, or ORs of ORs; there may be thousands."""
    found: list[Tree] = []
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, kind):
            waiting += [part.expression, part.this]
        else:
            found.append(part)
    return found


def _names(node: exp.Column | exp.Dot) -> list[str]:
    parts = node.parts
    if not all(isinstance(part, exp.Identifier) for part in parts):
        raise refused(node, "not the name of a column")
    return [part.name for part in parts]


def _is_row(node: Tree) -> bool:
    return isinstance(node, exp.Tuple)


def _ordered_type(data_type: t.DataType) -> Domain:
    """Return the domain of a type. UnsupportedExpressionError if its values are not compared."""
    domain = domain_of(data_type)
    if domain is None:
        raise UnsupportedExpressionError(f"values of type {data_type} are not compared here")
    return domain


def _null_test(operand: Operand) -> Member:
    """Return that an operand is NULL; a cast that is taken makes no NULLs."""
    domain = domain_of(operand.declared)
    nothing = ValueSet(0, ()) if domain is None else domain.nothing
    return Member(operand.path, operand.declared, nothing, when_null=True)


def _begins(operand: Operand, prefix: str) -> Member:
    stop = after_prefix(prefix)
    values = _ordered_type(_TEXT).between(prefix.encode(), None if stop is None else stop.encode())
    return Member(operand.path, operand.type, values)


def _matching(node: Tree, operand: Operand, regex: str) -> Matches:
    try:
        pc.match_substring_regex(pa.array([""]), regex)
    except pa.ArrowInvalid:
        raise refused(node, "a pattern that is too long") from None
    return Matches(operand.path, regex)


def _narrowed(constant: Constant, other: t.DataType) -> t.DataType:
    """Return the type of a constant beside a column: an integer takes a decimal's fewest digits."""
    if isinstance(other, t.Decimal) and isinstance(constant.type, INTEGERS) and constant.value:
        return t.Decimal(len(str(abs(constant.value))), 0)
    return constant.type


def _widens(source: t.DataType, target: t.DataType) -> bool:
    """Tell whether a column of one type is compared as another with nothing lost, or as Java."""
    if source == target:
        return True
    if isinstance(source, INTEGERS):
        return isinstance(target, (*INTEGERS, t.Decimal, t.Double))
    kinds = type(source), type(target)
    return kinds in ((t.Float, t.Double), (t.Decimal, t.Decimal), (t.String, t.Binary))
