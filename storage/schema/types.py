"""Spark SQL's data types, without Spark.

    DataType
    ├── Boolean, TinyInt, SmallInt, Int, BigInt, Float, Double, Decimal(precision, scale)
    ├── String(collation), Binary
    ├── Date, Timestamp, TimestampNtz, Time(precision)
    ├── DayTimeInterval(start, end), YearMonthInterval(start, end), CalendarInterval
    ├── Variant, Void
    └── Array(element, contains_null), Map(key, value, value_contains_null), Struct(fields)

Types are immutable values, equal if they mean the same. ``str(data_type)`` is the type in Spark's
DDL, which `ddl.parse_type` reads back; what DDL cannot express (an array or a map without NULLs, a
comment) is in `type_json.to_json`.

Does not know: Arrow (arrow.py), text (ddl.py, type_json.py), bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar

from ..errors import SchemaError, UnsupportedTypeError

MAX_DECIMAL_PRECISION = 38
MAX_TIME_PRECISION = 9
DEFAULT_COLLATION = "UTF8_BINARY"
DAY_TIME_UNITS = ("day", "hour", "minute", "second")
YEAR_MONTH_UNITS = ("year", "month")

_SURROGATE = re.compile("[\ud800-\udfff]")
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_text(description: str, text: object) -> None:
    """Raise SchemaError unless a value is text that has an encoding: without half characters.

    ``description``: what the text is, for the message: "the name of a column".
    """
    if not isinstance(text, str):
        raise SchemaError(f"{description} is text, not {text!r}")
    if not text.isascii() and _SURROGATE.search(text):
        raise SchemaError(f"{description}, {text!r}, has a half of a character: write whole ones")


def quoted(name: str) -> str:
    """Return a name as Spark's DDL writes it: in backticks unless it is a plain identifier."""
    if _PLAIN_NAME.fullmatch(name):
        return name
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True)
class DataType:
    """The base of all types. A type without parameters is written as its ``keyword``.

    Such a type is not decorated: it has the methods of this class, and to make its own for each
    took a tenth of the time in which a process imports the package.
    """

    keyword: ClassVar[str] = ""

    def __str__(self) -> str:
        return self.keyword


class Boolean(DataType):
    """True or false."""

    keyword: ClassVar[str] = "BOOLEAN"

    __slots__ = ()


class TinyInt(DataType):
    """A signed integer of 8 bits."""

    keyword: ClassVar[str] = "TINYINT"

    __slots__ = ()


class SmallInt(DataType):
    """A signed integer of 16 bits."""

    keyword: ClassVar[str] = "SMALLINT"

    __slots__ = ()


class Int(DataType):
    """A signed integer of 32 bits."""

    keyword: ClassVar[str] = "INT"

    __slots__ = ()


class BigInt(DataType):
    """A signed integer of 64 bits."""

    keyword: ClassVar[str] = "BIGINT"

    __slots__ = ()


class Float(DataType):
    """An IEEE 754 number of 32 bits."""

    keyword: ClassVar[str] = "FLOAT"

    __slots__ = ()


class Double(DataType):
    """An IEEE 754 number of 64 bits."""

    keyword: ClassVar[str] = "DOUBLE"

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Decimal(DataType):
    """An exact number of ``precision`` decimal digits, ``scale`` of them after the point."""

    precision: int = 10
    scale: int = 0

    def __post_init__(self) -> None:
        if not max(self.scale, 1) <= self.precision <= MAX_DECIMAL_PRECISION or self.scale < 0:
            raise UnsupportedTypeError(
                f"{self} is not a Spark type: the precision is 1 to {MAX_DECIMAL_PRECISION}, "
                "the scale 0 to the precision"
            )

    def __str__(self) -> str:
        return f"DECIMAL({self.precision},{self.scale})"


NUMBERS = (TinyInt, SmallInt, Int, BigInt, Float, Double, Decimal)
"""The types of numbers, for isinstance."""


@dataclass(frozen=True, slots=True)
class String(DataType):
    """Text, compared by its UTF-8 bytes unless another ``collation`` is named."""

    collation: str = DEFAULT_COLLATION

    @property
    def is_collated(self) -> bool:
        """Whether text is compared by another rule than its UTF-8 bytes."""
        return self.collation != DEFAULT_COLLATION

    def __str__(self) -> str:
        return f"STRING COLLATE {self.collation}" if self.is_collated else "STRING"


class Binary(DataType):
    """Bytes."""

    keyword: ClassVar[str] = "BINARY"

    __slots__ = ()


class Date(DataType):
    """A day of the proleptic Gregorian calendar."""

    keyword: ClassVar[str] = "DATE"

    __slots__ = ()


class Timestamp(DataType):
    """An instant, in microseconds since 1970-01-01 00:00 UTC."""

    keyword: ClassVar[str] = "TIMESTAMP"

    __slots__ = ()


class TimestampNtz(DataType):
    """A date and time of day without a zone, in microseconds."""

    keyword: ClassVar[str] = "TIMESTAMP_NTZ"

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Time(DataType):
    """A time of day with ``precision`` digits after the second; nanoseconds in Arrow."""

    precision: int = 6

    def __post_init__(self) -> None:
        if not 0 <= self.precision <= MAX_TIME_PRECISION:
            raise UnsupportedTypeError(
                f"{self} is not a Spark type: the precision is 0 to {MAX_TIME_PRECISION}"
            )

    def __str__(self) -> str:
        return f"TIME({self.precision})"


@dataclass(frozen=True, slots=True)
class DayTimeInterval(DataType):
    """A span of time in microseconds, shown in the units from ``start`` to ``end``."""

    start: str = "day"
    end: str = "second"

    def __post_init__(self) -> None:
        _check_units(self.start, self.end, DAY_TIME_UNITS)

    def __str__(self) -> str:
        return _interval(self.start, self.end)


@dataclass(frozen=True, slots=True)
class YearMonthInterval(DataType):
    """A span of months, shown in the units from ``start`` to ``end``."""

    start: str = "year"
    end: str = "month"

    def __post_init__(self) -> None:
        _check_units(self.start, self.end, YEAR_MONTH_UNITS)

    def __str__(self) -> str:
        return _interval(self.start, self.end)


class CalendarInterval(DataType):
    """Months, days and microseconds, each by itself; not comparable."""

    keyword: ClassVar[str] = "INTERVAL"

    __slots__ = ()


class Variant(DataType):
    """Semi-structured data in Parquet's variant encoding."""

    keyword: ClassVar[str] = "VARIANT"

    __slots__ = ()


class Void(DataType):
    """NULL only."""

    keyword: ClassVar[str] = "VOID"

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Array(DataType):
    """A list of ``element``; with ``contains_null`` any of them may be NULL."""

    element: DataType
    contains_null: bool = True

    def __str__(self) -> str:
        return f"ARRAY<{self.element}>"


@dataclass(frozen=True, slots=True)
class Map(DataType):
    """Pairs of a ``key``, never NULL, and a ``value``, NULL only if ``value_contains_null``."""

    key: DataType
    value: DataType
    value_contains_null: bool = True

    def __str__(self) -> str:
        return f"MAP<{self.key}, {self.value}>"


@dataclass(frozen=True, slots=True)
class Field:
    """A named part of a struct, or a column before a table gives it an id.

    Two fields that differ in their comment only are equal: the comment does not change the type.
    """

    name: str
    type: DataType
    nullable: bool = True
    comment: str | None = field(default=None, compare=False)

    def __str__(self) -> str:
        """Return the field in DDL; valid both inside STRUCT<> and as a column definition."""
        return f"{quoted(self.name)} {self.type}{'' if self.nullable else ' NOT NULL'}"


@dataclass(frozen=True, slots=True)
class Struct(DataType):
    """Fields in order. Names may repeat, as in Spark."""

    fields: tuple[Field, ...]

    def __str__(self) -> str:
        return f"STRUCT<{', '.join(map(_nested_field, self.fields))}>"


def _nested_field(field: Field) -> str:
    return f"{quoted(field.name)}: {field.type}{'' if field.nullable else ' NOT NULL'}"


def _interval(start: str, end: str) -> str:
    span = start if start == end else f"{start} TO {end}"
    return f"INTERVAL {span.upper()}"


def _check_units(start: str, end: str, units: tuple[str, ...]) -> None:
    if start not in units or end not in units or units.index(start) > units.index(end):
        raise UnsupportedTypeError(
            f"{_interval(start, end)} is not a Spark type: the units of "
            f"an interval are, in this order, {', '.join(units).upper()}"
        )


def holds_floats(data_type: DataType) -> bool:
    """Return whether values of a type are, or have parts that are, FLOAT or DOUBLE."""
    match data_type:
        case Array(element, _):
            return holds_floats(element)
        case Struct(fields):
            return any(holds_floats(field.type) for field in fields)
    return isinstance(data_type, Float | Double)
