"""The laws of the key of one row: the bytes of a batch, and an error for what is no such key."""

from __future__ import annotations

import datetime
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relstate.storage import types as t
from relstate.storage.codec.memcomparable import KeyCodec
from relstate.storage.errors import SchemaMismatchError, ValueRangeError
from relstate.storage.schema.ddl import parse_type
from relstate.storage.schema.schema import KeyColumn
from support.datatypes import decimals, values_of
from support.keys import Keys, keys


@settings(max_examples=200, deadline=None)
@given(keys())
def test_one_key_is_a_batch_of_one(case: Keys) -> None:
    """A key encoded by itself has the bytes that it has in a batch."""
    rows = zip(*[column.to_pylist() for column in case.columns], strict=True)

    assert [case.codec.encode_one(row) for row in rows] == case.encoded()


@given(decimals().flatmap(lambda kind: st.tuples(st.just(kind), values_of(kind, False))))
def test_a_decimal_is_one_key_however_it_is_written(case: tuple[t.DataType, Decimal]) -> None:
    """Trailing zeros of a Python decimal make no other key."""
    data_type, value = case
    codec = KeyCodec([data_type], [KeyColumn(1)])

    assert codec.encode_one([Context(prec=40).normalize(value)]) == codec.encode_one([value])


@pytest.mark.parametrize(
    ("ddl", "value"),
    [
        ("TINYINT", 128),
        ("BIGINT", 2**63),
        ("BIGINT", -(2**63) - 1),
        ("BIGINT", 2**64),
        ("FLOAT", 1e39),
        ("DECIMAL(3,1)", Decimal(100)),
        ("DECIMAL(3,1)", Decimal("0.01")),
        ("DECIMAL(38,0)", Decimal("1E80")),
        ("DECIMAL(38,0)", Decimal("Infinity")),
        ("STRING", "\ud800"),
    ],
)
def test_one_value_that_does_not_fit_is_refused(ddl: str, value: Any) -> None:
    """A value outside its type's range raises ValueRangeError and names the types."""
    codec = KeyCodec([parse_type(ddl)], [KeyColumn(1)])

    with pytest.raises(ValueRangeError, match="does not fit"):
        codec.encode_one([value])


@pytest.mark.parametrize(
    ("ddl", "value"),
    [
        ("BOOLEAN", 2),
        ("BOOLEAN", 1),
        ("TINYINT", True),
        ("BIGINT", False),
        ("FLOAT", True),
        ("DECIMAL(3,1)", True),
        ("INT", "1"),
        ("BIGINT", 1.0),
        ("DOUBLE", "x"),
        ("DOUBLE", Decimal(1)),
        ("DECIMAL(3,1)", 1.5),
        ("DECIMAL(3,1)", "1"),
        ("STRING", b"x"),
        ("BINARY", "x"),
        ("DATE", datetime.datetime(2020, 1, 1)),
        ("TIMESTAMP", datetime.datetime(2020, 1, 1)),
        ("TIMESTAMP_NTZ", datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)),
        ("TIME(6)", datetime.timedelta(1)),
        ("INTERVAL DAY TO SECOND", 5),
        ("STRUCT<a: STRING>", "x"),
        ("STRUCT<a: STRING>", {"b": "x"}),
        ("STRUCT<a: STRING>", {"a": "x", "b": "x"}),
        ("STRUCT<a: STRING>", ("x", "y")),
        ("ARRAY<STRING>", "xyz"),
    ],
)
def test_one_value_of_another_type_is_refused(ddl: str, value: Any) -> None:
    """A Python value that is not of the column's type raises SchemaMismatchError."""
    codec = KeyCodec([parse_type(ddl)], [KeyColumn(1)])

    with pytest.raises(SchemaMismatchError, match="is not of"):
        codec.encode_one([value])


@pytest.mark.parametrize("values", [[], [1], [1, 2, 3]])
def test_a_key_of_too_few_or_many_values_is_refused(values: list[int]) -> None:
    """A key has one value for each of its columns."""
    codec = KeyCodec([t.Int(), t.Int()], [KeyColumn(1), KeyColumn(2)])

    with pytest.raises(SchemaMismatchError):
        codec.encode_one(values)


def test_numpy_integers_are_integers() -> None:
    """A key taken from a numpy array encodes as the Python integer does."""
    codec = KeyCodec([t.BigInt(), t.Int()], [KeyColumn(1), KeyColumn(2, True, False)])

    assert codec.encode_one([np.int64(-5), np.int32(7)]) == codec.encode_one([-5, 7])


def test_a_struct_may_be_a_tuple() -> None:
    """A struct's fields may be given by name or by place."""
    codec = KeyCodec([parse_type("STRUCT<a: INT, b: ARRAY<STRING>>")], [KeyColumn(1)])

    assert codec.encode_one([(1, ("x",))]) == codec.encode_one([{"b": ["x"], "a": 1}])


def test_a_float_is_looked_up_at_the_width_of_its_column() -> None:
    """A Python float is rounded to a FLOAT column's 32 bits first, and to 0 if it vanishes."""
    codec = KeyCodec([t.Float()], [KeyColumn(1)])

    assert codec.encode_one([0.1]) == codec.encode_one([float(np.float32(0.1))])
    assert codec.encode_one([-1e-50]) == codec.encode_one([0.0])
