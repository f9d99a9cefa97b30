"""Literals: numbers, texts, booleans, dates, timestamps and NULL.

Does not know: how a literal is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa

from ..errors import UnsupportedTypeError
from ..schema import arrow
from ..schema import types as t
from .kinds import WHOLE
from .value import Failures, Value, no_failures

Content: TypeAlias = int | float | Decimal | str | bool | None


@dataclass(frozen=True, slots=True)
class Literal(Value):
    """The same value for every row; `literal` makes it.

    ``content``: dates are days, timestamps microseconds; None is NULL.
    """

    content: Content
    type: t.DataType

    @property
    def nullable(self) -> bool:
        """Whether it is NULL."""
        return self.content is None

    def computed(self, rows: pa.RecordBatch) -> tuple[pa.Array, Failures]:
        """Return the value for each row; nothing fails."""
        target = arrow.arrow_type(self.type)
        if isinstance(self.type, t.Date) and self.content is not None:
            scalar = pa.scalar(self.content, pa.int32()).cast(target)
        else:
            scalar = pa.scalar(self.content, target)
        return pa.repeat(scalar, rows.num_rows), no_failures(rows)


def literal(content: Any, data_type: t.DataType) -> Literal:
    """Return a literal of a type. UnsupportedTypeError for a value that is not of the type."""
    if content is None and isinstance(data_type, (*WHOLE, *_CONTENTS)):
        return Literal(None, data_type)
    if type(data_type) in WHOLE and type(content) is int:
        bits = WHOLE[type(data_type)].bits
        if -(1 << bits - 1) <= content < 1 << bits - 1:
            return Literal(content, data_type)
    kind = _CONTENTS.get(type(data_type))
    if kind is not None and type(content) is kind:
        is_finite = not isinstance(content, Decimal) or content.is_finite()
        if is_finite and (data_type == t.String() or not isinstance(data_type, t.String)):
            return Literal(content, data_type)
    raise UnsupportedTypeError(f"{content!r} is not a literal of type {data_type}")


_CONTENTS: dict[type[t.DataType], type[Any]] = {
    t.Decimal: Decimal, t.Double: float, t.String: str, t.Boolean: bool, t.Date: int,
    t.Timestamp: int, t.TimestampNtz: int,
}  # fmt: skip
