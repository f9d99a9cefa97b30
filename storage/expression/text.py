"""Texts and binary values: their lengths, parts of texts, and texts joined.

Promises: characters are those of Spark, code points of UTF-8.
Does not know: upper and lower case beyond ASCII, which depend on the release of Unicode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import UnsupportedTypeError
from ..predicate.condition import valid_rows
from ..schema import types as t
from .literal import Literal
from .value import Failures, Unary, Value, first_of

_LIMIT = 1 << 31
_TRIMS: dict[str, Callable[[pa.Array, str], pa.Array]] = {
    "trim": pc.utf8_trim, "ltrim": pc.utf8_ltrim, "rtrim": pc.utf8_rtrim,
}  # fmt: skip
_TEXT = t.String()
_YEAR_0, _YEAR_10000 = np.datetime64("0000-01-01"), np.datetime64("10000-01-01")


class Text(Value):
    """A value of type STRING."""

    __slots__ = ()
    type: ClassVar[t.DataType] = _TEXT  # type: ignore[misc]


@dataclass(frozen=True, slots=True)
class Length(Unary):
    """How many characters a text has, or bytes; `length` makes it.

    ``unit``: characters, bytes or bits.
    """

    unit: str
    operand: Value

    @property
    def type(self) -> t.DataType:  # type: ignore[override]
        """INT."""
        return t.Int()

    def computed(self, rows: pa.RecordBatch) -> tuple[pa.Array, Failures]:
        """Return the lengths."""
        column, failures = self.operand.computed(rows)
        counts_characters = self.unit == "characters" and self.operand.type == _TEXT
        count = pc.utf8_length if counts_characters else pc.binary_length
        lengths = count(column).cast(pa.int32())
        return (
            pc.multiply(lengths, pa.scalar(8, pa.int32())) if self.unit == "bits" else lengths
        ), failures


@dataclass(frozen=True, slots=True)
class Trim(Unary, Text):
    """A text without blanks (U+0020) around, before or after it; `trim` makes it."""

    function: str
    operand: Value

    def computed(self, rows: pa.RecordBatch) -> tuple[pa.Array, Failures]:
        """Return the texts."""
        column, failures = self.operand.computed(rows)
        return _TRIMS[self.function](column, " "), failures


@dataclass(frozen=True, slots=True)
class Substring(Unary, Text):
    """A part of a text; `substring` makes it.

    ``position``: from 1, or from the end if it is negative. ``length``: None to the end.
    """

    operand: Value
    position: int
    length: int | None

    def computed(self, rows: pa.RecordBatch) -> tuple[pa.Array, Failures]:
        """Return the parts."""
        column, failures = self.operand.computed(rows)
        start = self.position - (self.position > 0)
        stop = None if self.length is None else start + max(self.length, 0)
        if self.position < 0 and stop is not None and stop >= 0:
            # Counted from the end, it reaches at least the end.
            stop = None
        return pc.utf8_slice_codeunits(column, start, stop), failures


@dataclass(frozen=True, slots=True)
class Concat(Text):
    """Texts one after another, NULL if one of them is; `concat` makes it."""

    parts: tuple[Value, ...]

    @property
    def operands(self) -> tuple[Value, ...]:
        """The texts."""
        return self.parts

    def computed(self, rows: pa.RecordBatch) -> tuple[pa.Array, Failures]:
        """Return the texts; all parts are computed, whether or not one is NULL."""
        columns, failures = zip(*(part.computed(rows) for part in self.parts), strict=True)
        return pc.binary_join_element_wise(*columns, ""), first_of(*failures)


@dataclass(frozen=True, slots=True)
class TextCast(Unary, Text):
    """A whole number, a boolean or a date as a text; `text_cast` makes it."""

    operand: Value

    def computed(self, rows: pa.RecordBatch) -> tuple[pa.Array, Failures]:
        """Return the texts."""
        column, failures = self.operand.computed(rows)
        if not isinstance(self.operand.type, t.Date):
            return column.cast(pa.string()), failures
        valid = valid_rows(column)
        days = pc.fill_null(column.cast(pa.int32()), 0).to_numpy().astype(np.int64)
        texts = _date_texts(days.astype("datetime64[D]"))
        return pa.array(texts, pa.string(), mask=None if valid.all() else ~valid), failures


def _date_texts(dates: NDArray[np.datetime64]) -> NDArray[np.object_]:
    """Return dates as Java writes them: years of four digits, or more with a sign."""
    texts: NDArray[np.object_] = np.datetime_as_string(dates).astype(object)
    is_late, is_early = dates >= _YEAR_10000, dates < _YEAR_0
    texts[is_late] = "+" + texts[is_late]
    early = dates[is_early]
    if len(early):
        months = early.astype("datetime64[M]")
        years = np.char.zfill((-1970 - months.astype(np.int64) // 12).astype(str), 4)
        ends = np.char.rpartition(np.datetime_as_string(months), "-")[:, 2]
        days = np.char.rpartition(np.datetime_as_string(early), "-")[:, 2]
        texts[is_early] = np.char.add(
            np.char.add("-", years), np.char.add(np.char.add("-", ends), np.char.add("-", days))
        )
    return texts


def length(unit: str, operand: Value) -> Length:
    """Return how many characters, bytes or bits a text has; a BINARY only bytes and bits.

    UnsupportedTypeError for other values.
    """
    is_known = unit in ("characters", "bytes", "bits")
    if not is_known or not (operand.type == _TEXT or isinstance(operand.type, t.Binary)):
        raise UnsupportedTypeError(f"the length of {operand.type} is not supported")
    return Length(unit, operand)


def trim(function: str, operand: Value) -> Trim:
    """Return a text without blanks: ``trim``, ``ltrim`` or ``rtrim``. UnsupportedTypeError."""
    if function not in _TRIMS:
        raise UnsupportedTypeError(f"{function} is not supported")
    return Trim(function, _text(operand))


def substring(operand: Value, position: int, length: int | None) -> Substring:
    """Return a part of a text. UnsupportedTypeError for another value, or numbers beyond INT."""
    numbers = (position, 0 if length is None else length)
    if not all(type(n) is int and -_LIMIT <= n < _LIMIT for n in numbers):
        raise UnsupportedTypeError("a position and a length are of type INT")
    return Substring(_text(operand), position, length)


def concat(parts: Sequence[Value]) -> Concat:
    """Return texts one after another. UnsupportedTypeError for other values."""
    if not parts:
        raise UnsupportedTypeError("concat takes at least one text")
    return Concat(tuple(map(_text, parts)))


def text_cast(operand: Value) -> Value:
    """Return a value as a text. UnsupportedTypeError for other types than in `TextCast`."""
    if operand.type == _TEXT:
        return operand
    castable_types = (t.TinyInt, t.SmallInt, t.Int, t.BigInt, t.Boolean, t.Date)
    if not isinstance(operand.type, castable_types):
        raise UnsupportedTypeError(
            f"a cast of {operand.type} to STRING is not supported: it may differ from Spark's"
        )
    return TextCast(operand)


def _text(operand: Value) -> Value:
    if operand.type != _TEXT:
        raise UnsupportedTypeError(f"{operand.type} is not a STRING without a collation")
    return operand


def cased(value: Value, *, is_upper: bool) -> Value:
    """Return a constant text in upper or lower case. UnsupportedTypeError for another value."""
    if not isinstance(value, Literal) or not isinstance(value.content, str):
        raise UnsupportedTypeError("the case of other texts than constants is not supported")
    if not value.content.isascii():
        raise UnsupportedTypeError("the case of letters beyond ASCII is not supported")
    return Literal(value.content.upper() if is_upper else value.content.lower(), value.type)
