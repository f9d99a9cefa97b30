"""The values of a condition, read from a tree: columns, fields of them, and constants.

Promises: constants have the values and types that Spark's parser gives them; the smallest part that
is not understood is the one that a refusal names.
Does not know: what is done with values.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from ..errors import (
    SchemaError,
    SchemaMismatchError,
    UnsupportedExpressionError,
    UnsupportedTypeError,
)
from ..instant import Zone
from ..schema import types as t
from ..schema.ddl import parse_type
from ..schema.schema import TableSchema
from ..syntax import Tree, excerpt, text_of
from .condition import Path
from .constant import NULL, Constant, cast, number_constant

FUNCTIONS = ("startswith", "endswith", "contains", "isnull", "isnotnull", "isnan")
KNOWN = (
    "known are comparisons, IN, BETWEEN, LIKE, IS, AND, OR, NOT, and the functions "
    f"{', '.join(FUNCTIONS[:-1])} and {FUNCTIONS[-1]}"
)
VALUES = (
    exp.Column, exp.Dot, exp.Neg, exp.Cast, exp.Literal, exp.HexString, exp.Boolean, exp.Null,
)  # fmt: skip
_INSTANTS = (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ)


class RefusalError(UnsupportedExpressionError):
    """A refusal that says which part of the expression it is about."""


def refusal(node: Tree, reason: str) -> RefusalError:
    """Return the refusal of a part; ``reason`` follows "is"."""
    return RefusalError(f"{excerpt(text_of(node))} is {reason}")


def refusal_about(node: Tree, error: UnsupportedExpressionError) -> RefusalError:
    """Return a refusal with the part it is about, unless it names a smaller one already."""
    if isinstance(error, RefusalError):
        return error
    return RefusalError(f"{excerpt(text_of(node))}: {error}")


@dataclass(frozen=True, slots=True)
class Operand:
    """A column, or a field inside one."""

    path: Path
    type: t.DataType


@dataclass(frozen=True, slots=True)
class OperandReader:
    """Reads values over the columns of a table. ``zone``: where local times are."""

    schema: TableSchema
    zone: Zone

    def read(self, node: Tree) -> Operand | Constant:
        """Return a column, a field of one, or a constant. RefusalError for anything else."""
        match node:
            case exp.Paren():
                return self.read(node.this)
            case exp.Column() | exp.Dot():
                return self._column(node)
            case exp.Neg():
                return self._negative(node)
            case exp.Cast():
                return self._cast(node)
            case exp.Literal() | exp.HexString() | exp.Boolean() | exp.Null():
                return _literal(node)
        raise refusal(node, _reason(node))

    def _column(self, node: exp.Column | exp.Dot) -> Operand:
        names = _names(node)
        try:
            column = self.schema.column(names[0])
        except SchemaError as error:
            raise SchemaMismatchError(str(error)) from None
        path, data_type = [column.name], column.type
        for name in names[1:]:
            if not isinstance(data_type, t.Struct):
                raise SchemaMismatchError(
                    f"{'.'.join(path)} is {data_type} and has no field {name!r}; columns are named "
                    "without their table"
                )
            fields = [field for field in data_type.fields if field.name.lower() == name.lower()]
            if len(fields) != 1:
                field_names = ", ".join(field.name for field in data_type.fields)
                count = f"{len(fields)} fields" if fields else "no field"
                raise SchemaMismatchError(
                    f"{'.'.join(path)} has {count} {name!r}; its fields are {field_names}"
                )
            path.append(fields[0].name)
            data_type = fields[0].type
        return Operand(tuple(path), data_type)

    def _negative(self, node: exp.Neg) -> Constant:
        """Return a constant with a minus before it, which Spark reads together with a number."""
        inner = node.this
        literal = inner.this if isinstance(inner, exp.Cast) else inner
        is_number = isinstance(literal, exp.Literal) and not literal.is_string
        if not is_number and not _has_decimal_suffix(inner):
            raise refusal(node, "computed; a minus may be before a number only")
        number = _number(node, f"-{literal.name}")
        if not isinstance(inner, exp.Cast):
            return number
        constant = self._cast_constant(node, number, cast_target(inner))
        is_zero = isinstance(constant.value, float) and not constant.value
        return Constant(-0.0, constant.type) if is_zero else constant

    def _cast(self, node: exp.Cast) -> Constant:
        target = cast_target(node)
        value = self.read(node.this)
        if isinstance(value, Operand):
            raise refusal(node, "a cast of a column; compare the column itself")
        return self._cast_constant(node, value, target)

    def _cast_constant(self, node: Tree, constant: Constant, target: t.DataType) -> Constant:
        if isinstance(target, t.Float) and isinstance(constant.type, t.Double):
            # 1e-3F is the float nearest to the number, CAST(1e-3 AS FLOAT) that to a double.
            raise refusal(node, "a FLOAT with an exponent; write it without, or as a DOUBLE")
        try:
            return cast(constant, target, self.zone)
        except UnsupportedExpressionError as error:
            raise refusal_about(node, error) from None


def _has_decimal_suffix(node: Tree) -> bool:
    """Return whether a cast is a number with the suffix BD, which is cast from a text."""
    return isinstance(node, exp.Cast) and node.is_type(exp.DType.DECIMAL)


def _literal(node: Tree) -> Constant:
    match node:
        case exp.Null():
            return NULL
        case exp.Boolean():
            return Constant(bool(node.this), t.Boolean())
        case exp.HexString():
            digits = node.name
            return Constant(bytes.fromhex("0" * (len(digits) % 2) + digits), t.Binary())
    return Constant(node.name, t.String()) if node.is_string else _number(node, node.name)


def _number(node: Tree, text: str) -> Constant:
    try:
        return number_constant(text)
    except UnsupportedExpressionError as error:
        raise refusal_about(node, error) from None


def _names(node: exp.Column | exp.Dot) -> list[str]:
    parts = node.parts
    if not all(isinstance(part, exp.Identifier) for part in parts):
        raise refusal(node, "not the name of a column")
    return [part.name for part in parts]


def cast_target(node: exp.Cast) -> t.DataType:
    """Return the type that a cast names."""
    if node.args.get("format"):
        raise refusal(node, "a cast with a format; write the value in its own type")
    if node.to.this in _INSTANTS:
        return t.Timestamp()
    try:
        return parse_type(text_of(node.to))
    except (SchemaError, UnsupportedTypeError) as error:
        raise refusal(node, f"a cast to an unknown type: {error}") from None


def _reason(node: Tree) -> str:
    """Return why a part is not a value that can be compared."""
    if isinstance(node, exp.Predicate | exp.Connector | exp.Not):
        return "a condition where a value belongs"
    if isinstance(node, exp.Binary):
        return "computed; only constants and columns as they are can be compared"
    if isinstance(node, exp.Func):
        return f"a function that is not supported here; {KNOWN}"
    return "an expression that is not supported here"
