"""Values of Debezium's events as values of Spark's types: times, decimals, and all that is JSON.

The schema of an event names the meaning of a number or a text (its *semantic type*), such as
``io.debezium.time.MicroTimestamp``. Without a schema the unit of numbers is an argument.

Promises: no value is read in another unit than its own; what is of unknown meaning fails the query.
Does not know: the kinds of events, or their order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql import types as s

from relstate.storage import errors

from .debezium_sequence import error_column

_DAY = 86_400_000_000
# Microseconds in each unit of `timestamps`; 0: a thousand nanoseconds are one.
_UNITS = {"days": _DAY, "seconds": 1_000_000, "millis": 1_000, "micros": 1, "nanos": 0}
# Units by the names of Debezium's and Kafka Connect's schema types.
_MOMENTS = {
    "io.debezium.time.Date": "days",
    "org.apache.kafka.connect.data.Date": "days",
    "io.debezium.time.Timestamp": "millis",
    "org.apache.kafka.connect.data.Timestamp": "millis",
    "io.debezium.time.MicroTimestamp": "micros",
    "io.debezium.time.NanoTimestamp": "nanos",
}
_TIMES = {
    "io.debezium.time.Time": "millis",
    "org.apache.kafka.connect.data.Time": "millis",
    "io.debezium.time.MicroTime": "micros",
    "io.debezium.time.NanoTime": "nanos",
}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_VARIABLE_DECIMAL = "io.debezium.data.VariableScaleDecimal"
# Days from 0001-01-01 to 9999-12-31, counted from 1970-01-01: the dates that Spark knows.
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
# The decimals with most digits, and the bytes that they fit.
_WHOLE, _BYTES = "decimal(38,0)", 16
_HEX, _COMPLEMENT = "0123456789ABCDEF", "FEDCBA9876543210"
# What PostgreSQL's values that are no numbers and no moments are in events: as text, in any case,
# and as numbers of dates and of timestamps (milliseconds or microseconds, and nanoseconds).
_NOT_FINITE = ("nan", "infinity", "-infinity", "positive_infinity", "negative_infinity")
_INFINITE_DAYS = ("-2147472693", "-2147472692")
_INFINITE_MOMENTS = (
    "9223372036825200000",
    "-9223372036832400000",
    str((1 << 63) - 1),
    str(-1 << 63),
)
_MONGODB_DATE = r'^\{\s*"\$date"\s*:\s*(-?[0-9]+)\s*\}$'

_NAMED = "field STRING, name STRING, parameters STRUCT<scale STRING>"
_SCHEMA = f"fields ARRAY<STRUCT<{_NAMED}, fields ARRAY<STRUCT<{_NAMED}>>>>"

Units = str | Mapping[str, str]
"""The unit of numbers without a schema: of all columns, or by the names of columns."""


@dataclass(frozen=True, slots=True)
class Values:
    """How the values of rows are read.

    ``row``: the struct that was read of the JSON by `json_schema`; ``numbers``: the one by
    `number_schema`; ``exact``: the one by `decimal_schema`, NULL where no number of the row needs
    it; ``types``: what `semantic_types` returns. ``units``: those of numbers without a schema, by
    the names of columns in lower case.
    """

    row: Column
    numbers: Column
    exact: Column
    types: Column
    units: Mapping[str, str] = field(default_factory=dict)

    def cell(self, column: s.StructField) -> Column:
        """Return a value as it was read, and what is needed to convert it, as a struct."""
        unit = self.units.get(column.name.lower())
        factor = None if unit is None else _UNITS[unit]
        number: Column = f.lit(None)
        is_double: Column = f.lit(False)
        if _may_be_number(column.dataType):
            variant = self.numbers.getField(column.name)
            number, is_double = _number_text(variant), _is_double(variant)
        if isinstance(column.dataType, s.DecimalType):
            exact = self.exact.getField(column.name).cast("string")
            number = f.coalesce(number, f.when(is_double, exact))
        return f.struct(
            f.lit(column.name).alias("column"),
            number.cast("string").alias("number"),
            is_double.alias("is_double"),
            self.row.getField(column.name).alias("value"),
            self.types[column.name].alias("type"),
            f.lit(factor).cast("bigint").alias("factor"),
        )


@dataclass(frozen=True, slots=True)
class Conversion:
    """How a `Values.cell` becomes a value of a type that `json_schema` reads as text."""

    data_type: s.DataType

    def converted(self, cell: Column) -> Column:
        """Return the value of a cell."""
        data_type, value = self.data_type, cell["value"]
        semantic_type = cell["type"]["name"]
        if isinstance(data_type, s.StringType):
            is_bytes = value.isNotNull() & semantic_type.isin(_DECIMAL, _VARIABLE_DECIMAL)
            is_bytes &= cell["number"].isNull()
            text = f.when(is_bytes, _type_error(cell, data_type))
            text = text.when(cell["is_double"], _digits_error(cell))
            return text.otherwise(f.coalesce(cell["number"], value))
        if isinstance(data_type, s.DecimalType):
            converted = self._decimal(cell)
        elif isinstance(data_type, s.TimeType):
            converted = self._time(cell)
        else:
            converted = self._moment(cell)
        converted = f.coalesce(converted, _type_error(cell, data_type))
        return f.when(_is_not_finite(value, data_type), _infinity_error(cell, data_type)).when(
            value.isNotNull(), converted
        )

    def _number(self, cell: Column, units: Mapping[str, str]) -> Column:
        """Return a number of units in microseconds; NULL where the unit is unknown."""
        value, semantic_type = cell["value"], cell["type"]["name"]
        number = f.when(value.rlike("^-?[0-9]+$"), value.try_cast("bigint"))
        per_unit = f.create_map(*(f.lit(x) for name in units for x in (name, _UNITS[units[name]])))
        factor, default = per_unit[semantic_type], cell["factor"]
        if isinstance(self.data_type, s.DateType):
            days = f.when(number.between(_FIRST_DAY, _LAST_DAY), f.lit(_DAY))
            default = f.coalesce(default, days)
        factor = f.when(semantic_type.isNull(), default.cast("bigint")).otherwise(factor)
        return f.when(factor == 0, _floored(number, 1_000)).otherwise(
            f.try_multiply(number, factor.cast("bigint"))
        )

    def _moment(self, cell: Column) -> Column:
        """Return a DATE, TIMESTAMP or TIMESTAMP_NTZ; NULL for what is not one."""
        data_type, value = self.data_type, cell["value"]
        date = f.regexp_extract(value, _MONGODB_DATE, 1).try_cast("bigint")
        micros = f.coalesce(
            self._number(cell, _MOMENTS), f.try_multiply(date, f.lit(1_000).cast("bigint"))
        )
        text = value
        if isinstance(data_type, s.DateType):
            text = f.regexp_replace(value, r"^(-?\d+-\d\d-\d\d)Z$", "$1")
        is_number = value.rlike("^-?[0-9]+$")
        return f.coalesce(
            _moment_of(micros, data_type), f.when(~is_number, text.try_cast(data_type))
        )

    def _time(self, cell: Column) -> Column:
        """Return a TIME; NULL for what is not one, such as 25 hours or -1 (MySQL has them)."""
        data_type, value = self.data_type, cell["value"]
        micros = self._number(cell, _TIMES)
        in_day = f.when(micros.between(0, _DAY - 1), micros)
        text = f.regexp_replace(value, "Z$", "")
        is_number = value.rlike("^-?[0-9]+$")
        return f.coalesce(
            f.time_from_micros(in_day).cast(data_type),
            f.when(~is_number, text.try_cast(data_type)),
        )

    def _decimal(self, cell: Column) -> Column:
        """Return a DECIMAL of text, of a number, or of bytes; NULL for what is not one."""
        value, semantic_type = cell["value"], cell["type"]["name"]
        is_bytes = f.coalesce(semantic_type.isin(_DECIMAL, _VARIABLE_DECIMAL), f.lit(False))
        is_bytes &= cell["number"].isNull()
        text = f.when(is_bytes, self._decimal_text(cell)).otherwise(value)
        text = f.coalesce(cell["number"], text)
        return text.try_cast(self.data_type)

    def _decimal_text(self, cell: Column) -> Column:
        """Return the digits of a decimal that is sent as bytes, NULL for what is not one.

        The bytes are a whole number, in base64; the scale is a parameter of the schema, or in a
        struct with them.
        """
        value, semantic_type = cell["value"], cell["type"]
        is_struct = semantic_type["name"] == _VARIABLE_DECIMAL
        scale = f.when(is_struct, f.get_json_object(value, "$.scale"))
        scale = scale.otherwise(semantic_type["scale"]).try_cast("int")
        octets = f.when(is_struct, f.get_json_object(value, "$.value")).otherwise(value)
        # In lambdas each step is computed once, whatever the next one does with it.
        steps = f.array(f.hex(f.try_to_binary(octets, f.lit("base64"))))
        numbers = f.transform(steps, _whole_number)
        return f.transform(numbers, lambda number: _scaled_text(number, scale))[0]


def checked_units(units: Units | None, columns: Sequence[s.StructField]) -> Mapping[str, str]:
    """Return the units of the argument ``timestamps`` by the names of columns in lower case.

    OptionError for an unknown unit, or a column that has none.
    """
    timed = {column.name.lower(): column for column in columns if _is_timed(column.dataType)}
    if units is None:
        return {}
    if isinstance(units, str):
        names = [n for n, c in timed.items() if not isinstance(c.dataType, s.DateType)]
        units = dict.fromkeys(names, units) if units in _UNITS else {"timestamps": units}
    for name, unit in units.items():
        if unit not in _UNITS:
            raise errors.OptionError(f"timestamps is {unit!r}; the units are {', '.join(_UNITS)}")
        if name.lower() not in timed:
            raise errors.OptionError(
                f"timestamps names {name!r}, which is not a DATE, TIME or TIMESTAMP of the schema"
            )
    return {name.lower(): unit for name, unit in units.items()}


def check_nested(column: s.StructField) -> None:
    """SchemaMismatchError for dates, times, timestamps and decimals within other types.

    The schema of an event has no unit for them.
    """
    if not is_converted(column.dataType) and any(map(is_converted, _parts(column.dataType))):
        raise errors.SchemaMismatchError(
            f"the column {column.name!r} is {column.dataType.simpleString()}: dates, times, "
            "timestamps and decimals within other types are not read from Debezium's events; "
            "declare them as BIGINT or STRING and convert them"
        )


def json_schema(columns: Sequence[s.StructField]) -> s.StructType:
    """Return the types as which columns are read from the JSON of a row."""
    return s.StructType(
        [
            s.StructField(c.name, s.StringType() if is_converted(c.dataType) else c.dataType)
            for c in columns
        ]
    )


def number_schema(columns: Sequence[s.StructField]) -> s.StructType:
    """Return the types as which the numbers of DECIMAL and STRING columns are read from JSON.

    A VARIANT keeps their digits and knows numbers from text, but numbers with an exponent, or with
    more than 38 digits, are DOUBLEs in it.
    """
    columns = [column for column in columns if _may_be_number(column.dataType)]
    return s.StructType([s.StructField(column.name, s.VariantType()) for column in columns])


def may_have_numbers(row: Column, columns: Sequence[s.StructField]) -> Column:
    """Return whether some columns of a row that was read by `json_schema` need `number_schema`.

    Those of DECIMAL columns that are not NULL, and text that looks like a number with a fraction.
    """
    needs: Column = f.lit(False)
    for column in columns:
        text = row.getField(column.name)
        if isinstance(column.dataType, s.DecimalType):
            needs |= text.isNotNull()
        elif _may_be_number(column.dataType):
            needs |= text.rlike("^-?[0-9]+[.eE]")
    return f.coalesce(needs, f.lit(False))


def decimal_schema(columns: Sequence[s.StructField]) -> s.StructType:
    """Return the types as which numbers with an exponent are read: those of DECIMAL columns."""
    return s.StructType(
        [
            s.StructField(column.name, column.dataType)
            for column in columns
            if isinstance(column.dataType, s.DecimalType)
        ]
    )


def has_doubles(numbers: Column, columns: Sequence[s.StructField]) -> Column:
    """Return whether the numbers of a row, read by `number_schema`, need `decimal_schema`."""
    has: Column = f.lit(False)
    for column in decimal_schema(columns).fields:
        has |= _is_double(numbers.getField(column.name))
    return has


def _may_be_number(data_type: s.DataType) -> bool:
    return isinstance(data_type, s.DecimalType | s.StringType)


def _number_text(value: Column) -> Column:
    """Return a number as text; NULL for what is none, or is written with an exponent."""
    is_number = f.schema_of_variant(value).rlike("^(BIGINT|DECIMAL)")
    return f.when(is_number, f.variant_get(value, "$", "string"))


def _is_double(value: Column) -> Column:
    """Return whether a variant is a DOUBLE, which has lost digits of a number."""
    return f.coalesce(f.schema_of_variant(value) == "DOUBLE", f.lit(False))


def semantic_types(schema: Column) -> Column:
    """Return the semantic types of a row's columns and their scales, by the columns' names.

    ``schema``: that of an event, which has the columns in its field ``after``, or of a flattened
    event, whose fields they are.
    """
    fields = f.from_json(schema, _SCHEMA)["fields"]
    rows = f.filter(fields, lambda part: (part["field"] == "after") & part["fields"].isNotNull())[
        "fields"
    ]
    columns = f.coalesce(
        f.get(rows, f.lit(0)),
        f.transform(fields, lambda part: f.struct(part["field"], part["name"], part["parameters"])),
    )
    named_columns = f.filter(columns, lambda part: part["name"].isNotNull())
    return f.map_from_entries(
        f.transform(
            named_columns,
            lambda part: f.struct(
                part["field"],
                f.struct(part["name"].alias("name"), part["parameters"]["scale"].alias("scale")),
            ),
        )
    )


def is_converted(data_type: s.DataType) -> bool:
    """Return whether values of a type are read as text, and then converted."""
    return _is_timed(data_type) or isinstance(data_type, s.DecimalType)


def _is_timed(data_type: s.DataType) -> bool:
    return isinstance(data_type, s.DateType | s.TimestampType | s.TimestampNTZType | s.TimeType)


def _parts(data_type: s.DataType) -> Sequence[s.DataType]:
    """Return a type and all types within it."""
    inner: list[s.DataType] = []
    if isinstance(data_type, s.ArrayType):
        inner = [data_type.elementType]
    elif isinstance(data_type, s.MapType):
        inner = [data_type.keyType, data_type.valueType]
    elif isinstance(data_type, s.StructType):
        inner = [part.dataType for part in data_type.fields]
    return [data_type, *(part for child in inner for part in _parts(child))]


def _type_error(cell: Column, data_type: s.DataType) -> Column:
    """Return an expression that fails for a value that cannot be one of its column."""
    advice: Column = f.lit(_TIME_ADVICE)
    if isinstance(data_type, s.DecimalType | s.StringType):
        is_number = cell["number"].isNotNull() | cell["is_double"]
        advice = f.when(is_number, f.lit(_DIGITS_ADVICE)).otherwise(f.lit(_DECIMAL_ADVICE))
    return error_column(
        "SchemaMismatchError",
        "the column '",
        cell["column"],
        f"' is {data_type.simpleString()}, and an event of Debezium has ",
        cell["value"],
        " of the schema type ",
        f.coalesce(cell["type"]["name"], f.lit("NULL")),
        advice,
    ).cast(data_type)


def _is_not_finite(value: Column, data_type: s.DataType) -> Column:
    """Return whether a value is NaN or infinite, as text or as the number that stands for it."""
    numbers: tuple[str, ...] = ()
    if isinstance(data_type, s.DateType):
        numbers = _INFINITE_DAYS
    elif isinstance(data_type, s.TimestampType | s.TimestampNTZType):
        numbers = _INFINITE_MOMENTS
    return f.lower(value).isin(*_NOT_FINITE, *numbers)


def _infinity_error(cell: Column, data_type: s.DataType) -> Column:
    advice = "declare the column STRING, or BIGINT where times are numbers, and convert it"
    if isinstance(data_type, s.DecimalType):
        advice = (
            "declare the column STRING; or DOUBLE, and let the connector write decimals as such "
            "numbers (decimal.handling.mode=double)"
        )
    return error_column(
        "SchemaMismatchError",
        "the column '",
        cell["column"],
        f"' is {data_type.simpleString()}, and an event of Debezium has ",
        cell["value"],
        f", which is NaN or infinite, as no {data_type.typeName().split('(')[0].upper()} is: "
        + advice,
    ).cast(data_type)


def _digits_error(cell: Column) -> Column:
    return error_column(
        "SchemaMismatchError",
        "the column '",
        cell["column"],
        "' is STRING, and an event of Debezium has the number ",
        cell["value"],
        " with an exponent or more than 38 digits, which Spark does not keep as text: declare the "
        "column DECIMAL or DOUBLE",
    )


_TIME_ADVICE = (
    ": a number needs a unit; let Kafka Connect's converter include schemas (schemas.enable=true), "
    "or pass timestamps='millis', 'micros' or 'nanos' to debezium, or declare the column BIGINT"
)
_DIGITS_ADVICE = ": declare a DECIMAL with more digits before its point, at most 38 together"
_DECIMAL_ADVICE = (
    ": bytes need a schema that gives their scale (schemas.enable=true) and a DECIMAL that holds "
    "them; or let the connector write decimals as text (decimal.handling.mode=string)"
)


def _moment_of(micros: Column, data_type: s.DataType) -> Column:
    """Return microseconds since 1970 (UTC) as a DATE, TIMESTAMP or TIMESTAMP_NTZ."""
    if isinstance(data_type, s.DateType):
        return f.date_from_unix_date(_floored(micros, _DAY).cast("int"))
    if isinstance(data_type, s.TimestampType):
        return f.timestamp_micros(micros)
    start = f.lit("1970-01-01 00:00:00").cast("timestamp_ntz")
    return f.timestamp_add("MICROSECOND", micros, start)


def _floored(number: Column, divisor: int) -> Column:
    """Return a BIGINT divided by another, rounded down, without a conversion to DOUBLE."""
    remainder = f.pmod(number, f.lit(divisor).cast("bigint"))
    return f.call_function("div", number - remainder, f.lit(divisor).cast("bigint"))


def _whole_number(digits: Column) -> Column:
    """Return a whole number as text, of its two's complement in hexadecimal digits.

    NULL for none, and for a number of more than 38 digits.
    """
    is_negative = f.substring(digits, 1, 1) >= "8"
    magnitude = f.when(is_negative, f.translate(digits, _HEX, _COMPLEMENT)).otherwise(digits)
    significant = f.regexp_replace(magnitude, "^0+", "")
    padded = f.lpad(significant, 2 * _BYTES, "0")
    parts = [f.conv(f.substring(padded, start, 8), 16, 10) for start in range(1, 2 * _BYTES, 8)]
    total = f.aggregate(
        f.array(*parts),
        f.lit(0).cast(_WHOLE),
        lambda total, part: _sum(_product(total, f.lit(1 << 32)), part),
    )
    # The magnitude of a negative number is one more than its complement.
    negative = _sum(_product(total, f.lit(-1)), f.lit("-1"))
    value = f.when(is_negative, negative).otherwise(total)
    fits = (f.length(digits) > 0) & (f.length(significant) <= 2 * _BYTES)
    return f.when(fits, value.cast("string"))


def _product(number: Column, factor: Column) -> Column:
    return f.try_multiply(number, factor.cast("decimal(10,0)")).try_cast(_WHOLE)


def _sum(number: Column, text: Column) -> Column:
    return f.try_add(number, text.try_cast("decimal(10,0)")).try_cast(_WHOLE)


def _scaled_text(number: Column, scale: Column) -> Column:
    """Return the text of a whole number times ten to the power of minus a scale."""
    sign = f.when(number.startswith("-"), "-").otherwise("")
    digits = f.regexp_replace(number, "^-", "")
    padded = f.lpad(digits, f.greatest(f.length(digits), scale + 1), "0")
    whole = f.substring(padded, f.lit(1), f.length(padded) - scale)
    fraction = f.substring(padded, f.length(padded) - scale + 1, scale)
    positive = f.concat(sign, whole, f.lit("."), fraction)
    zeros = f.repeat(f.lit("0"), f.greatest(-scale, f.lit(0)))
    return f.when(scale > 0, positive).when(scale <= 0, f.concat(number, zeros))
