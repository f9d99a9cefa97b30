"""A condition of a read on a value that is computed of the columns of a row.

Does not know: SQL, or which expressions there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import UnsupportedExpressionError
from ..predicate.condition import Condition, Flags
from ..schema import types as t
from .value import Value, flags_of


@dataclass(frozen=True, slots=True)
class Computed(Condition):
    """A BOOLEAN value is true; with ``expected`` False, it is false. `computed` makes it."""

    value: Value
    expected: bool = True

    def holds(self, batch: pa.RecordBatch) -> Flags:
        """Return the rows for which the value is as expected."""
        answers = self.value.of(batch)
        return flags_of(answers if self.expected else pc.invert(answers))

    def negated(self) -> Condition:
        """Return that the value is the opposite."""
        return Computed(self.value, not self.expected)

    def columns(self) -> Iterator[str]:
        """Yield those of the value."""
        return self.value.columns()


def computed(value: Value, *, expected: bool = True) -> Computed:
    """Return the condition that a value is true.

    UnsupportedExpressionError if it is not a BOOLEAN, or may fail: a read raises no error of Spark.
    """
    if not isinstance(value.type, t.Boolean):
        raise UnsupportedExpressionError(f"a condition is a BOOLEAN, not {value.type}")
    if value.may_fail:
        raise UnsupportedExpressionError(
            "it may overflow or divide by zero in some rows, of which only Spark raises an error; "
            "compare a sum or a product of whole numbers as DOUBLE or DECIMAL, divide by a number "
            "that is not zero, and in place of date_trunc or a cast to a time compare the column "
            "with the bounds"
        )
    return Computed(value, expected)
