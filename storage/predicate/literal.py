"""The constants in a tree of sqlglot.

Promises: the values and types that Spark's parser gives them.
Does not know: columns.
"""

from __future__ import annotations

from fractions import Fraction

from sqlglot import exp

from ..errors import SchemaError, UnsupportedExpressionError, UnsupportedTypeError
from ..schema import types as t
from ..schema.ddl import parse_type
from .constant import NULL, Constant, cast, nearest_float, number_constant
from .refusal import about, refused
from .syntax import DIALECT, Tree
from .zone import Zone


def literal(node: Tree) -> Constant:
    """Return the constant that a literal stands for."""
    match node:
        case exp.Null():
            return NULL
        case exp.Boolean():
            return Constant(bool(node.this), t.Boolean())
        case exp.HexString():
            digits = node.name
            return Constant(bytes.fromhex("0" * (len(digits) % 2) + digits), t.Binary())
    if node.is_string:
        return Constant(node.name, t.String())
    return _number(node, node.name)


def _number(node: Tree, text: str) -> Constant:
    try:
        return number_constant(text)
    except UnsupportedExpressionError as error:
        raise about(node, error) from None


def negative(node: Tree, zone: Zone) -> Constant:
    """Return a constant with a minus before it, which Spark reads together with a number."""
    inner = node.this
    literal = inner.this if isinstance(inner, exp.Cast) else inner
    if isinstance(literal, exp.Literal) and not is_text(literal):
        number = _number(node, f"-{literal.name}")
        if not isinstance(inner, exp.Cast):
            return number
        return cast_constant(node, number, type_of(inner), zone, f"-{literal.name}")
    raise refused(node, "computed; a minus stands before a number only")


def is_text(literal: Tree) -> bool:
    """Tell whether a literal was written as a string."""
    # A decimal with the suffix BD comes as a text, the only one that no string was put into.
    return bool(literal.is_string) and not literal.meta.get("number")


def cast_constant(
    node: Tree, constant: Constant, target: t.DataType, zone: Zone, number: str | None
) -> Constant:
    """Return a constant cast to a type; ``number``: as it was written, if it is a plain number."""
    try:
        found = cast(constant, target, zone)
    except UnsupportedExpressionError as error:
        raise about(node, error) from None
    # 1e-3F is the float nearest to the number, CAST(1e-3 AS FLOAT) that nearest to a double.
    is_float = isinstance(target, t.Float) and number is not None and found.value is not None
    if is_float and nearest_float(Fraction(number or 0)) != found.value:
        raise refused(node, "between two floats; write it without an exponent")
    return found


def type_of(node: exp.Cast) -> t.DataType:
    """Return the type that a cast names."""
    target = node.to
    kind = target.this
    if node.args.get("format"):
        raise refused(node, "a cast that is not known here")
    if kind in _INSTANTS:
        return t.Timestamp()
    try:
        return parse_type(target.sql(dialect=DIALECT))
    except (SchemaError, UnsupportedTypeError) as error:
        raise refused(node, f"refused: {error}") from None


_INSTANTS = (
    exp.DataType.Type.TIMESTAMP,
    exp.DataType.Type.TIMESTAMPTZ,
    exp.DataType.Type.TIMESTAMPLTZ,
)
