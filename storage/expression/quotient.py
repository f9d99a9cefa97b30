"""Quotients and remainders: ``/``, ``div``, ``%`` and ``pmod``.

Promises: a divisor of zero fails; whole numbers are divided towards zero.
Does not know: decimals, whose quotients Spark rounds twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import UnsupportedTypeError
from ..predicate.condition import valid_rows
from ..schema import arrow
from ..schema import types as t
from .arithmetic import beside
from .kinds import becomes_double, is_whole, whole_or_double
from .literal import Literal
from .number_cast import to_double
from .value import (
    Binary,
    Failure,
    Failures,
    Value,
    array_of,
    computed_in_turn,
    failures_where,
    first_of,
    numbers_of,
)

QUOTIENTS = ("/", "div", "%", "pmod")


@dataclass(frozen=True, slots=True)
class Quotient(Binary):
    """A quotient or a remainder; `quotient` makes it. ``type``: of the result."""

    operator: str
    left: Value
    right: Value
    type: t.DataType

    @property
    def nullable(self) -> bool:
        """It is to Spark: without ANSI mode the quotient by zero is NULL."""
        return True

    @property
    def own_failures(self) -> bool:
        """Whether the divisor may be zero, or, of ``div``, minus one."""
        divisor = self.right.content if isinstance(self.right, Literal) else 0
        return not divisor or (self.operator == "div" and divisor == -1)

    def computed(self, rows: pa.RecordBatch) -> tuple[pa.Array, Failures]:
        """Return the results; the divisor is computed first, as in Spark."""
        right, left, failures = computed_in_turn(self.right, self.left, rows)
        valid = valid_rows(left) & valid_rows(right)
        if self.operator == "/":
            first, second = to_double(left), to_double(right)
        else:
            kind = np.float64 if isinstance(self.type, t.Double) else np.int64
            first, second = _numbers(left, kind), _numbers(right, kind)
        is_zero = (second == 0) & valid
        lost = failures_where(is_zero, self._zero_failure)
        # What is divided by zero means nothing.
        divisor = np.where(second == 0, second.dtype.type(1), second)
        with np.errstate(all="ignore"):
            result = self._divided(first, divisor)
        failed = is_zero
        if self.operator == "div":
            least = np.iinfo(np.int64).min
            wraps = valid & (first == least) & (divisor == -1)
            lost = first_of(lost, failures_where(wraps, Failure.OVERFLOW))
            failed = failed | wraps
        return array_of(result, valid & ~failed, self.type), first_of(failures, lost)

    @property
    def _zero_failure(self) -> Failure:
        is_remainder = self.operator in ("%", "pmod")
        return Failure.REMAINDER_BY_ZERO if is_remainder else Failure.DIVISION_BY_ZERO

    def _divided(self, first: NDArray[Any], divisor: NDArray[Any]) -> NDArray[Any]:
        if self.operator == "/":
            quotients: NDArray[Any] = first / divisor
            return quotients
        remainders: NDArray[Any] = np.fmod(first, divisor)
        if self.operator == "%":
            return remainders
        if self.operator == "div":
            # Exact: the difference is a multiple of the divisor.
            towards_zero: NDArray[Any] = (first - remainders) // divisor
            return towards_zero
        width = _width_of(self.type)
        sums = (remainders.astype(width) + divisor.astype(width)).astype(first.dtype)
        positive: NDArray[Any] = np.where(remainders < 0, np.fmod(sums, divisor), remainders)
        return positive


def quotient(operator: str, left: Value, right: Value) -> Quotient:
    """Return a quotient (``/``: DOUBLE, ``div``: BIGINT) or a remainder (``%``, ``pmod``).

    UnsupportedTypeError if it is not known to be computed exactly.
    """
    if operator not in QUOTIENTS:
        raise UnsupportedTypeError(f"{operator!r} is not supported for numbers")
    left, right = beside(left, right.type), beside(right, left.type)
    types = (left.type, right.type)
    if operator == "div" and all(map(is_whole, types)):
        return Quotient(operator, left, right, t.BigInt())
    if operator == "/":
        is_double = any(isinstance(kind, t.Double) for kind in types) or all(map(is_whole, types))
        is_known = is_double and all(
            becomes_double(kind) and not isinstance(kind, t.Float) for kind in types
        )
        if is_known:
            return Quotient(operator, left, right, t.Double())
    if operator in ("%", "pmod"):
        common = whole_or_double(*types)
        if common is not None:
            return Quotient(operator, left, right, common)
    raise UnsupportedTypeError(f"{operator} of {left.type} and {right.type} may be rounded")


def _numbers(column: pa.Array, kind: type[np.generic]) -> NDArray[Any]:
    return to_double(column) if kind is np.float64 else numbers_of(column, kind)


def _width_of(data_type: t.DataType) -> type[np.generic]:
    """Return in which numbers Java adds: INT and wider wrap around, narrower ones do not."""
    kind: type[np.generic] = arrow.arrow_type(data_type).to_pandas_dtype()
    return np.int64 if kind in (np.int8, np.int16) else kind
