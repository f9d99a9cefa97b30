"""Values that are chosen: CASE WHEN, coalesce, greatest and least.

Promises: only what is chosen counts; what fails elsewhere does not. The first branch whose
condition is true is chosen; unknown is not true.
Does not know: conditions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import UnsupportedTypeError
from ..predicate.condition import compare_values, valid_rows
from ..predicate.domain import domain_of
from ..schema import arrow
from ..schema import types as t
from .arithmetic import beside
from .kinds import common_type
from .literal import Literal
from .number_cast import number_cast
from .value import Failures, Value, first_of, flags_of, no_failures


@dataclass(frozen=True, slots=True)
class Choice(Value):
    """The value of the first condition that is true, else another one; `choice` makes it.

    ``branches``: each a BOOLEAN and a value. ``otherwise``: None is NULL.
    """

    branches: tuple[tuple[Value, Value], ...]
    otherwise: Value | None
    type: t.DataType

    @property
    def nullable(self) -> bool:
        """Whether a value may be NULL."""
        chosen = [value for _, value in self.branches]
        return self.otherwise is None or any(v.nullable for v in (*chosen, self.otherwise))

    @property
    def operands(self) -> tuple[Value, ...]:
        """The conditions and the values."""
        operands = [value for branch in self.branches for value in branch]
        return tuple(operands if self.otherwise is None else [*operands, self.otherwise])

    def computed(self, rows: pa.RecordBatch) -> tuple[pa.Array, Failures]:
        """Return for each row the value that is chosen."""
        if self.otherwise is None:
            chosen = pa.nulls(rows.num_rows, arrow.arrow_type(self.type))
            failures = no_failures(rows)
        else:
            chosen, failures = self.otherwise.computed(rows)
        for condition, value in reversed(self.branches):
            answers, failures_of_condition = condition.computed(rows)
            is_chosen = flags_of(answers)
            values, failures_of_value = value.computed(rows)
            chosen = pc.if_else(pa.array(is_chosen), values, chosen)
            failures = np.where(is_chosen, failures_of_value, failures)
            failures = first_of(failures_of_condition, failures)
        return chosen, failures


@dataclass(frozen=True, slots=True)
class Coalesce(Value):
    """The first of several values that is not NULL; `coalesce` makes it."""

    choices: tuple[Value, ...]
    type: t.DataType

    @property
    def nullable(self) -> bool:
        """Whether all may be NULL."""
        return all(value.nullable for value in self.choices)

    @property
    def operands(self) -> tuple[Value, ...]:
        """The values."""
        return self.choices

    def computed(self, rows: pa.RecordBatch) -> tuple[pa.Array, Failures]:
        """Return the first value; those after it do not count."""
        chosen, failures = self.choices[0].computed(rows)
        for value in self.choices[1:]:
            is_open = ~valid_rows(chosen) & (failures == 0)
            values, failures_of_value = value.computed(rows)
            chosen = pc.if_else(pa.array(is_open), values, chosen)
            failures = np.where(is_open, failures_of_value, failures)
        return chosen, failures


@dataclass(frozen=True, slots=True)
class Extreme(Value):
    """The greatest of several values (``>``) or the least (``<``), without NULLs."""

    operator: str
    choices: tuple[Value, ...]
    type: t.DataType

    @property
    def nullable(self) -> bool:
        """Whether all may be NULL."""
        return all(value.nullable for value in self.choices)

    @property
    def operands(self) -> tuple[Value, ...]:
        """The values."""
        return self.choices

    def computed(self, rows: pa.RecordBatch) -> tuple[pa.Array, Failures]:
        """Return the extremes; of equal values the first."""
        chosen, failures = self.choices[0].computed(rows)
        for value in self.choices[1:]:
            values, failures_of_value = value.computed(rows)
            failures = first_of(failures, failures_of_value)
            are_valid = valid_rows(chosen) & valid_rows(values)
            is_better = are_valid & compare_values(values, self.operator, chosen, self.type)
            is_new = is_better | ~valid_rows(chosen)
            chosen = pc.if_else(pa.array(is_new), values, chosen)
        return chosen, failures


def choice(branches: Sequence[tuple[Value, Value]], otherwise: Value | None) -> Choice:
    """Return the value of the first condition that is true.

    UnsupportedTypeError if there is no branch, a condition is not a BOOLEAN, or the values have
    no type in common.
    """
    if not branches or not all(isinstance(test.type, t.Boolean) for test, _ in branches):
        raise UnsupportedTypeError("a choice is between values of conditions")
    values = [value for _, value in branches] + ([] if otherwise is None else [otherwise])
    values = of_common_type(values)
    tests = [test for test, _ in branches]
    fitted_branches = tuple(zip(tests, values[: len(tests)], strict=True))
    return Choice(fitted_branches, None if otherwise is None else values[-1], values[0].type)


def coalesce(choices: Sequence[Value]) -> Value:
    """Return the first value that is not NULL. UnsupportedTypeError without a common type."""
    values = of_common_type(choices)
    return Coalesce(tuple(values), values[0].type)


def extreme(operator: str, choices: Sequence[Value]) -> Extreme:
    """Return the greatest (``>``) or the least (``<``) of at least two values.

    UnsupportedTypeError if they have no type in common, or no order.
    """
    values = of_common_type(choices)
    if operator not in "<>" or len(values) < 2 or domain_of(values[0].type) is None:
        raise UnsupportedTypeError("greatest and least are of several values that have an order")
    return Extreme(operator, tuple(values), values[0].type)


def of_common_type(values: Sequence[Value]) -> list[Value]:
    """Return values in the type that they have in common. UnsupportedTypeError if there is none."""
    if not values:
        raise UnsupportedTypeError("there is nothing to choose from")
    if any(isinstance(value.type, t.Double) for value in values):
        values = [beside(value, t.Double()) for value in values]
    common = values[0].type
    for value in values[1:]:
        common = common_type(common, value.type)
    return [_in_type(value, common) for value in values]


def _in_type(value: Value, common: t.DataType) -> Value:
    if isinstance(value, Literal) and value.content is None:
        return Literal(None, common)
    return number_cast(value, common)
