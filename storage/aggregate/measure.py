"""What a partial aggregate keeps of a column: a count, a sum, an extreme, or central moments.

A measure has three forms: of a batch of rows, of partial rows, and of a single row, which is a
partial row by itself. All but the moments are Arrow's aggregates over a column, in the types of
`working`.

Promises: adding up partial rows gives what adding up their rows gives; for whole numbers and
decimals exactly, for floats up to the rounding of each addition, which depends on the order. Of
floats, NaN is the greatest, as in Spark.
Does not know: groups, or where rows come from.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import UnsupportedTypeError
from ..expression.value import Value
from ..predicate.condition import Condition
from ..schema import arrow
from ..schema import types as t
from . import moments

_WHOLE = (t.TinyInt, t.SmallInt, t.Int, t.BigInt)
_FLOATS = (t.Float, t.Double)
_NUMBERS = (*_WHOLE, *_FLOATS, t.Decimal)
_ORDERED = (*_WHOLE, *_FLOATS, t.Decimal, t.Boolean, t.Date, t.Timestamp, t.TimestampNtz, t.Binary)
# A sum of 10 ** 10 decimals of so many digits has 38 digits.
MOST_SUMMED_DIGITS = 28
_SUM_DIGITS = 10
_MOST_DIGITS = 38
_LIMIT = 2**63
_OTHER_BITS = np.int64(2**63 - 1)


class Function(StrEnum):
    """What is kept of a column. ``FLOAT_SUM``: the sum of whole numbers as a DOUBLE.

    ``MOMENTS``: what `moments` has of numbers. ``FAILURE``: the greatest number of a `Failure` of a
    value, or 0.
    """

    ROWS = "rows"
    COUNT = "count"
    SUM = "sum"
    FLOAT_SUM = "float_sum"
    MIN = "min"
    MAX = "max"
    MOMENTS = "moments"
    FAILURE = "failure"


_SUMS = (Function.SUM, Function.FLOAT_SUM)


@dataclass(frozen=True, slots=True)
class Measure:
    """A function over a value of each row; `ROWS` has none.

    ``where``: of which rows; None for all.
    """

    function: Function
    value: Value | None = None
    where: Condition | None = None

    @property
    def type(self) -> t.DataType | None:
        """The type of the value."""
        return None if self.value is None else self.value.type

    @property
    def result_type(self) -> t.DataType:
        """The type of its partial values. UnsupportedTypeError if it does not exist."""
        match self.function, self.type:
            case (Function.ROWS, None):
                return t.BigInt()
            case (Function.COUNT | Function.FAILURE, data_type) if data_type is not None:
                return t.BigInt()
            case (Function.SUM, data_type) if isinstance(data_type, _WHOLE):
                return t.BigInt()
            case (Function.SUM, t.Decimal(precision, scale)) if precision <= MOST_SUMMED_DIGITS:
                return t.Decimal(precision + _SUM_DIGITS, scale)
            case (Function.SUM, data_type) if isinstance(data_type, _FLOATS):
                return t.Double()
            case (Function.FLOAT_SUM, data_type) if isinstance(data_type, _WHOLE):
                return t.Double()
            case (Function.MOMENTS, data_type) if isinstance(data_type, _NUMBERS):
                return moments.TYPE
            case (Function.MIN | Function.MAX, data_type) if data_type is not None:
                is_text = isinstance(data_type, t.String) and not data_type.is_collated
                if is_text or isinstance(data_type, _ORDERED):
                    return data_type
        raise UnsupportedTypeError(f"there is no {self.function} of {self.type}")

    # Each form is a pair: a column, and the aggregate of Arrow over it.

    @property
    def of_rows(self) -> str:
        """The aggregate over a batch of rows."""
        if self.function is Function.ROWS:
            return "count_all" if self.where is None else "count"
        if self.function is Function.FAILURE:
            return str(Function.MAX)
        return "sum" if self.function is Function.FLOAT_SUM else str(self.function)

    @property
    def of_partials(self) -> str:
        """The aggregate over partial rows."""
        if self.function is Function.FAILURE:
            return str(Function.MAX)
        return str(self.function) if self._is_extreme or self.has_moments else "sum"

    @property
    def has_moments(self) -> bool:
        """Whether it is of `moments`, which are no aggregate of Arrow."""
        return self.function is Function.MOMENTS

    def fits(self, column: pa.ChunkedArray) -> bool:
        """Return whether no sum of values, prepared or partial, can leave its type.

        Sums of 64-bit integers would wrap around.
        """
        if self.has_moments:
            return moments.are_summable(column)
        is_whole = isinstance(self.type, _WHOLE) and self.function in _SUMS
        return not is_whole or _largest(column) * len(column) < _LIMIT

    def prepared(self, rows: pa.RecordBatch) -> pa.Array:
        """Return the values of rows as they are added up or compared; NULL where they are not.

        Of `ROWS` without a condition any column.
        """
        column = self._column(rows)
        if self.has_moments:
            column = column.cast(pa.float64(), safe=False)
        if self._is_extreme and isinstance(self.type, _FLOATS):
            column = _ordered_bits(column)
        if self.where is None:
            return column
        mask = pa.array(self.where.holds(rows))
        return pc.if_else(mask, mask if self.value is None else column, None)

    def _column(self, rows: pa.RecordBatch) -> pa.Array:
        if self.value is None:
            return rows.column(0)
        if self.function is Function.FAILURE:
            return pa.array(self.value.failures(rows).astype(np.int64))
        return self.value.of(rows)

    def lifted(self, column: pa.Array) -> pa.Array:
        """Return the partial values of single rows; ``column`` is `prepared`."""
        if self.function is Function.ROWS and self.where is None:
            return pa.array(np.ones(len(column), np.int64))
        if self.has_moments:
            return moments.of_single(column)
        if self.function in (Function.ROWS, Function.COUNT):
            return column.is_valid().cast(pa.int64())
        return column.cast(self.working(column.type))

    def working(self, prepared_type: pa.DataType) -> pa.DataType:
        """Return the type of partial values while they are added up."""
        if self.function in (Function.ROWS, Function.COUNT, Function.FAILURE):
            return pa.int64()
        if self._is_extreme:
            return prepared_type
        if isinstance(self.type, t.Decimal):
            return pa.decimal128(_MOST_DIGITS, self.type.scale)
        return pa.float64() if isinstance(self.type, _FLOATS) else pa.int64()

    def finished(self, column: pa.Array) -> pa.Array:
        """Return partial values in the type that `result_type` is."""
        if self.has_moments:
            return column
        if self._is_extreme and isinstance(self.type, _FLOATS):
            column = _floats(column)
        return column.cast(arrow.arrow_type(self.result_type), safe=False)

    def resumed(self, column: pa.Array) -> pa.Array:
        """Return `finished` partial values as they are added up or compared."""
        if self._is_extreme and isinstance(self.type, _FLOATS):
            return _ordered_bits(column)
        is_exact = not self.has_moments and self.function is not Function.FLOAT_SUM
        return column.cast(self.working(column.type)) if is_exact else column

    @property
    def _is_extreme(self) -> bool:
        return self.function in (Function.MIN, Function.MAX)


def _largest(column: pa.ChunkedArray) -> int:
    """Return the greatest absolute value of integers; 0 if there is none."""
    bounds = pc.min_max(column).as_py()
    return 0 if bounds["min"] is None else max(abs(bounds["min"]), abs(bounds["max"]))


def _ordered_bits(column: pa.Array) -> pa.Array:
    """Return integers that compare as floats do in Spark; NaN, whatever its bits, is greatest."""
    values = pc.fill_null(column, 0).to_numpy(zero_copy_only=False).astype(np.float64)
    values = np.where(np.isnan(values), np.nan, values)
    return pa.array(_flipped(values.view(np.int64)), mask=_nulls(column))


def _floats(bits: pa.Array) -> pa.Array:
    """Return the floats that `_ordered_bits` made integers of."""
    values = pc.fill_null(bits, 0).to_numpy(zero_copy_only=False)
    return pa.array(_flipped(values).view(np.float64), mask=_nulls(bits))


def _flipped(bits: np.typing.NDArray[np.int64]) -> np.typing.NDArray[np.int64]:
    """Return negative numbers with all bits but the sign turned; it is its own inverse."""
    return np.where(bits < 0, bits ^ _OTHER_BITS, bits)


def _nulls(column: pa.Array) -> np.typing.NDArray[np.bool_] | None:
    return column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
