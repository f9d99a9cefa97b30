"""Values that are true, false or NULL: comparisons, AND, OR, NOT, IS NULL, and conditions.

Promises: Spark's three-valued logic; what Spark does not compute does not fail.
Does not know: SQL.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import UnsupportedTypeError
from ..predicate.condition import NEGATED, Condition, Flags, compare_values, valid_rows
from ..predicate.domain import domain_of
from ..schema import types as t
from .arithmetic import beside, operand_type
from .kinds import common_type, is_number
from .number_cast import number_cast
from .value import Binary, Failures, Unary, Value, computed_in_turn, first_of, flags_of, no_failures


class Truth(Value):
    """A value of type BOOLEAN."""

    __slots__ = ()
    type: ClassVar[t.DataType] = t.Boolean()  # type: ignore[misc]


@dataclass(frozen=True, slots=True)
class ConditionValue(Truth):
    """What a condition on columns is: true, false, or NULL where it is unknown."""

    condition: Condition

    @property
    def nullable(self) -> bool:
        """Whether it may be unknown; that is not known of a condition."""
        return True

    def computed(self, rows: pa.RecordBatch) -> tuple[pa.Array, Failures]:
        """Return the answers; nothing fails."""
        holds = self.condition.holds(rows)
        return _answers(holds, holds | self.condition.negated().holds(rows)), no_failures(rows)

    def columns(self) -> Iterator[str]:
        """Yield those of the condition."""
        return self.condition.columns()


@dataclass(frozen=True, slots=True)
class Compared(Binary, Truth):
    """A comparison of two values of one type; `compared` makes it."""

    left: Value
    operator: str
    right: Value

    def computed(self, rows: pa.RecordBatch) -> tuple[pa.Array, Failures]:
        """Return the answers; NULL where a value is."""
        left, right, failures = computed_in_turn(self.left, self.right, rows)
        is_valid = valid_rows(left) & valid_rows(right)
        return _answers(
            compare_values(left, self.operator, right, self.left.type), is_valid
        ), failures


@dataclass(frozen=True, slots=True)
class Junction(Binary, Truth):
    """Two conditions joined by ``and`` or ``or``; the second counts where it is asked for."""

    operator: str
    left: Value
    right: Value

    def computed(self, rows: pa.RecordBatch) -> tuple[pa.Array, Failures]:
        """Return the answers."""
        left, failures = self.left.computed(rows)
        right, failures_of_right = self.right.computed(rows)
        is_and = self.operator == "and"
        decides = flags_of(pc.invert(left) if is_and else left)
        join = pc.and_kleene if is_and else pc.or_kleene
        return join(left, right), first_of(failures, np.where(decides, 0, failures_of_right))


@dataclass(frozen=True, slots=True)
class Negation(Unary, Truth):
    """The opposite of a condition; NULL stays NULL."""

    operand: Value

    def computed(self, rows: pa.RecordBatch) -> tuple[pa.Array, Failures]:
        """Return the answers."""
        answers, failures = self.operand.computed(rows)
        return pc.invert(answers), failures


@dataclass(frozen=True, slots=True)
class IsNull(Unary, Truth):
    """Whether a value is NULL: never NULL itself."""

    operand: Value

    @property
    def nullable(self) -> bool:
        """Never."""
        return False

    def computed(self, rows: pa.RecordBatch) -> tuple[pa.Array, Failures]:
        """Return the answers."""
        column, failures = self.operand.computed(rows)
        return pa.array(~valid_rows(column)), failures


def compared(left: Value, operator: str, right: Value) -> Compared:
    """Return a comparison (``= <> < <= > >=``), of numbers in the type that they share.

    UnsupportedTypeError for values that are not compared exactly.
    """
    if operator not in NEGATED:
        raise UnsupportedTypeError(f"{operator!r} does not compare")
    if left.type != right.type:
        if not (is_number(left.type) and is_number(right.type)):
            raise UnsupportedTypeError(f"{left.type} and {right.type} are not compared")
        left, right = beside(left, right.type), beside(right, left.type)
        common = common_type(operand_type(left, right), operand_type(right, left))
        left, right = number_cast(left, common), number_cast(right, common)
    if domain_of(left.type) is None:
        raise UnsupportedTypeError(f"values of type {left.type} cannot be compared here")
    return Compared(left, operator, right)


def _answers(flags: Flags, is_valid: Flags) -> pa.Array:
    return pa.array(flags, mask=None if is_valid.all() else ~is_valid)
