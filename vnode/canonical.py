"""The canonical form of one Python value: what hashes, keys and stored rows pack as bytes.

    BOOLEAN                     bool                         bool
    TINYINT .. BIGINT           int                          int
    FLOAT, DOUBLE               float, int                   float, of the type's width
    DECIMAL                     decimal.Decimal, int         int, without the scale
    DATE                        datetime.date                int, days since 1970
    TIMESTAMP, TIMESTAMP_NTZ    datetime.datetime            int, microseconds since 1970
    TIME                        datetime.time                int, nanoseconds
    INTERVAL DAY TO SECOND      datetime.timedelta           int, microseconds
    STRING, BINARY              str; bytes, bytearray        bytes
    STRUCT                      dict, tuple, list            list of canonical forms or None
    ARRAY                       list, tuple                  list of canonical forms or None

A TIMESTAMP has a time zone, a TIMESTAMP_NTZ has none. A dict has all fields of its struct.

Promises: a value is converted exactly or refused; only a FLOAT is rounded, to its 32 bits. What
converts a value raises TypeError or AttributeError for a value of another type, ValueError or
ArithmeticError for one that does not fit the type.
Does not know: how a form is packed, or NULL at the top.
"""

from __future__ import annotations

import datetime as dt
import decimal
import operator
import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

Form: TypeAlias = Callable[[Any], Any]

_EPOCH = dt.datetime(1970, 1, 1)
_EPOCH_UTC = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
_MICROSECOND = dt.timedelta(microseconds=1)
_EXACT = decimal.Context(
    prec=76, traps=[decimal.Inexact, decimal.InvalidOperation, decimal.Overflow]
)
_FLOAT = struct.Struct("<f")


def canonical_form(data_type: pa.DataType) -> Form:
    """Return the function from a value of a type, not None, to its canonical form.

    TypeError for a type that has none.
    """
    if pa.types.is_decimal(data_type):
        return _decimal(data_type.precision, data_type.scale)
    if pa.types.is_timestamp(data_type):
        return _local_timestamp if data_type.tz is None else _timestamp
    if pa.types.is_struct(data_type):
        return _struct([data_type.field(index) for index in range(data_type.num_fields)])
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        return _array(canonical_form(data_type.value_type))
    form = _FORMS.get(data_type.id)
    if form is None:
        raise TypeError(f"values of type {data_type} have no canonical form")
    return form


def canonical_row(types: Sequence[pa.DataType]) -> Callable[[Sequence[Any]], list[Any]]:
    """Return the function from a row, one value for each type, to their forms; None stays None.

    The function raises ValueError for another number of values, and what the forms raise.
    """
    forms = [canonical_form(data_type) for data_type in types]
    if len(forms) == 1:
        (single,) = forms

        def form_single(values: Sequence[Any]) -> list[Any]:
            (value,) = values
            return [None if value is None else single(value)]

        return form_single

    def form_row(values: Sequence[Any]) -> list[Any]:
        return [
            None if value is None else form(value)
            for form, value in zip(forms, values, strict=True)
        ]

    return form_row


def struct_values(names: Sequence[str]) -> Callable[[Any], Sequence[Any]]:
    """Return the function from a struct's value to the values of its fields, in their order.

    In a dict a field that is left out is None. TypeError for a value with other fields; where two
    fields have one name a dict is refused.
    """
    field_names = set(names)
    takes_dict = len(field_names) == len(names)

    def values_of(value: Any) -> Sequence[Any]:
        if isinstance(value, dict) and takes_dict:
            if not value.keys() <= field_names:
                raise TypeError(f"the struct has the fields {', '.join(names)}")
            return [value.get(name) for name in names]
        if not isinstance(value, tuple | list) or len(value) != len(names):
            raise TypeError(f"expected a struct of {len(names)} fields")
        return value

    return values_of


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("expected a bool")
    return value


def _integer(bits: int) -> Form:
    limit = 1 << (bits - 1)

    def integer(value: Any) -> Any:
        if type(value) is not int:
            if isinstance(value, bool):
                raise TypeError("expected an int, not a bool")
            value = operator.index(value)
        if -limit <= value < limit:
            return value
        raise OverflowError(f"it does not fit into {bits} bits")

    return integer


def _double(value: Any) -> float:
    if isinstance(value, float | np.floating):
        return float(value)
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise TypeError("expected a float")
    if float(value) != value:
        raise OverflowError("the integer has too many digits for a float")
    return float(value)


def _float(value: Any) -> float:
    rounded: float = _FLOAT.unpack(_FLOAT.pack(_double(value)))[0]
    return rounded


def _decimal(precision: int, scale: int) -> Form:
    limit = 10**precision

    def unscaled(value: Any) -> int:
        if not isinstance(value, decimal.Decimal | int) or isinstance(value, bool):
            raise TypeError("expected a Decimal")
        try:
            scaled = _EXACT.scaleb(decimal.Decimal(value), scale)
            # Compared before the conversion: the integer might have millions of digits.
            if -limit < scaled < limit:
                return int(_EXACT.to_integral_exact(scaled))
        except decimal.DecimalException as error:
            raise OverflowError("it has more digits than the type") from error
        raise OverflowError("it has more digits than the type")

    return unscaled


def _text(value: Any) -> bytes:
    if not isinstance(value, str):
        raise TypeError("expected a str")
    return value.encode()


def _binary(value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError("expected bytes")
    return bytes(value)


def _date(value: Any) -> int:
    if isinstance(value, dt.datetime):
        raise TypeError("expected a date without a time of day")
    days: int = value.toordinal() - _EPOCH_DAY
    return days


def _timestamp(value: Any) -> int:
    microseconds: int = (value - _EPOCH_UTC) // _MICROSECOND
    return microseconds


def _local_timestamp(value: Any) -> int:
    microseconds: int = (value - _EPOCH) // _MICROSECOND
    return microseconds


def _time(value: Any) -> int:
    if value.tzinfo is not None:
        raise TypeError("expected a time without a time zone")
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    nanoseconds: int = (seconds * 1_000_000 + value.microsecond) * 1000
    return nanoseconds


def _interval(value: Any) -> int:
    microseconds: int = value // _MICROSECOND
    if -(1 << 63) <= microseconds < 1 << 63:
        return microseconds
    raise OverflowError("it does not fit into 64 bits")


def _void(value: Any) -> Any:
    raise TypeError("expected None")


def _struct(fields: Sequence[pa.Field]) -> Form:
    values_of = struct_values([field.name for field in fields])
    forms = [canonical_form(field.type) for field in fields]

    def struct_form(value: Any) -> list[Any]:
        if isinstance(value, dict) and len(value) != len(forms):
            raise TypeError(f"expected a struct of {len(forms)} fields")
        return [
            None if item is None else form(item)
            for form, item in zip(forms, values_of(value), strict=True)
        ]

    return struct_form


def _array(form: Form) -> Form:
    def array_form(value: Any) -> list[Any]:
        if not isinstance(value, list | tuple):
            raise TypeError("expected a list")
        return [None if item is None else form(item) for item in value]

    return array_form


_FORMS: dict[int, Form] = {
    pa.lib.Type_NA: _void,
    pa.lib.Type_BOOL: _boolean,
    pa.lib.Type_INT8: _integer(8),
    pa.lib.Type_INT16: _integer(16),
    pa.lib.Type_INT32: _integer(32),
    pa.lib.Type_INT64: _integer(64),
    pa.lib.Type_FLOAT: _float,
    pa.lib.Type_DOUBLE: _double,
    pa.lib.Type_DATE32: _date,
    pa.lib.Type_TIME64: _time,
    pa.lib.Type_DURATION: _interval,
    pa.lib.Type_STRING: _text,
    pa.lib.Type_LARGE_STRING: _text,
    pa.lib.Type_BINARY: _binary,
    pa.lib.Type_LARGE_BINARY: _binary,
}
