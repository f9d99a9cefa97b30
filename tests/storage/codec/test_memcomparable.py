"""The laws of the key codec: order, round trip, no key a prefix of another."""

from __future__ import annotations

import datetime
from decimal import Context, Decimal
from functools import cmp_to_key, partial
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relstate.storage import types as t
from relstate.storage.codec.memcomparable import KeyCodec
from relstate.storage.codec.ragged import constant
from relstate.storage.errors import SchemaError, SchemaMismatchError, ValueRangeError
from relstate.storage.schema.ddl import parse_type
from relstate.storage.schema.schema import KeyColumn
from support.datatypes import array_of, decimals, key_types, values_of
from support.examples import examples
from support.keys import Keys, compared, compared_rows, keys, normal

NAN = float("nan")
SECOND = datetime.datetime(1970, 1, 1, 0, 0, 1)


@settings(max_examples=examples(300))
@given(keys())
def test_bytes_are_ordered_as_the_rows(case: Keys) -> None:
    """For every two rows, their keys compare as the rows do under the key's orders."""
    encoded = case.encoded()

    for row, key in zip(case.rows, encoded, strict=True):
        for other_row, other_key in zip(case.rows, encoded, strict=True):
            assert compared(key, other_key) == compared_rows(case, row, other_row)


@settings(max_examples=examples(60))
@given(key_types().flatmap(lambda kind: st.tuples(st.just(kind), st.lists(values_of(kind)))))
def test_sorted_keys_are_sorted_rows_in_every_order(case: tuple[t.DataType, list[Any]]) -> None:
    """Each of the four orders of one column sorts its values as SQL defines it."""
    data_type, values = case
    for descending in (False, True):
        for nulls_first in (False, True):
            rows = [[value] for value in values]
            case_keys = Keys([data_type], [KeyColumn(1, descending, nulls_first)], rows)
            encoded = zip(case_keys.encoded(), rows, strict=True)

            by_key = [row for _, row in sorted(encoded, key=itemgetter(0))]

            by_value = sorted(rows, key=cmp_to_key(partial(compared_rows, case_keys)))
            assert repr(normal(by_key)) == repr(normal(by_value))


@settings(max_examples=examples(200))
@given(keys())
def test_what_is_decoded_is_what_was_encoded(case: Keys) -> None:
    """Decoding gives the rows back in exactly the types' Arrow types; -0 has become 0."""
    columns = case.codec.decode(case.codec.encode(case.columns))

    assert [column.type for column in columns] == [column.type for column in case.columns]
    for column in columns:
        column.validate(full=True)
    decoded = [list(row) for row in zip(*[column.to_pylist() for column in columns], strict=True)]
    expected = [
        list(row) for row in zip(*[column.to_pylist() for column in case.columns], strict=True)
    ]
    assert repr(normal(decoded)) == repr(normal(expected))


@settings(max_examples=examples(200))
@given(keys())
def test_no_key_is_a_prefix_of_another(case: Keys) -> None:
    """Keys are prefix-free, so that a run of keys may be cut anywhere."""
    encoded = set(case.encoded())

    for key in encoded:
        assert not any(longer.startswith(key) for longer in encoded - {key})


@settings(max_examples=examples(50))
@given(keys(), st.integers(1, 3))
def test_a_codec_of_the_first_columns_encodes_prefixes(case: Keys, count: int) -> None:
    """The whole key begins with the key of its first columns."""
    prefix = KeyCodec(case.types[:count], case.orders[:count])

    prefixes = prefix.encode(case.columns[:count]).to_pylist()

    assert all(map(bytes.startswith, case.encoded(), prefixes))


@settings(max_examples=examples(50))
@given(keys(), st.integers(0, 8), st.integers(0, 8))
def test_a_slice_is_encoded_and_decoded_as_itself(case: Keys, start: int, length: int) -> None:
    """Arrays that are windows into longer ones are read from their own offset."""
    whole = case.codec.encode(case.columns)

    part = case.codec.encode([column.slice(start, length) for column in case.columns])

    assert part.equals(whole.slice(start, length))
    again = case.codec.encode(case.codec.decode(whole.slice(start, length)))
    assert again.equals(part)


@settings(max_examples=examples(300))
@given(keys(), st.data())
def test_damaged_keys_are_errors(case: Keys, data: st.DataObject) -> None:
    """Changed bytes decode to other rows or raise ValueError or IndexError, nothing else."""
    encoded = case.encoded()
    index = data.draw(st.integers(0, len(encoded) - 1))
    damaged = bytearray(encoded[index])
    start = data.draw(st.integers(0, len(damaged)))
    damaged[start : start + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    encoded[index] = bytes(damaged)

    try:
        columns = case.codec.decode(pa.array(encoded, pa.large_binary()))
    except (ValueError, IndexError):
        return
    assert {len(column) for column in columns} == {len(encoded)}


@pytest.mark.parametrize("cut", [1, 8])
def test_a_key_of_another_length_is_an_error(cut: int) -> None:
    """A key that is too short or too long raises ValueError or IndexError."""
    codec = KeyCodec([t.BigInt()], [KeyColumn(1)])

    for key in (b"\x01" + bytes(8 + cut), b"\x01" + bytes(8 - cut)):
        with pytest.raises((ValueError, IndexError)):
            codec.decode(pa.array([key], pa.large_binary()))


@pytest.mark.parametrize(
    ("ddl", "value", "descending", "nulls_first", "expected"),
    [
        ("BOOLEAN", True, False, True, "01 01"),
        ("TINYINT", -1, False, True, "01 7f"),
        ("SMALLINT", 1, False, True, "01 8001"),
        ("INT", -(2**31), False, True, "01 00000000"),
        ("BIGINT", 42, False, True, "01 800000000000002a"),
        ("BIGINT", 42, True, False, "fe 7fffffffffffffd5"),
        ("BIGINT", None, False, True, "00"),
        ("BIGINT", None, False, False, "02"),
        ("BIGINT", None, True, True, "fd"),
        ("BIGINT", None, True, False, "ff"),
        ("FLOAT", -0.0, False, True, "01 80000000"),
        ("FLOAT", NAN, False, True, "01 ffc00000"),
        ("DOUBLE", 1.0, False, True, "01 bff0000000000000"),
        ("DOUBLE", -1.0, False, True, "01 400fffffffffffff"),
        ("DECIMAL(12,2)", Decimal("-0.01"), False, True, "01 7fffffffffffffff"),
        ("DECIMAL(38,0)", Decimal(1), False, True, "01 80000000000000000000000000000001"),
        ("STRING", "a\x00b", False, True, "01 61 0001 62 0000"),
        ("STRING", "a\x00b", True, False, "fe 9e fffe 9d ffff"),
        ("STRING", "", False, True, "01 0000"),
        ("BINARY", b"\x00\x01", False, True, "01 0001 01 0000"),
        ("DATE", datetime.date(1970, 1, 2), False, True, "01 80000001"),
        (
            "TIMESTAMP_NTZ",
            datetime.datetime(1970, 1, 1, 0, 0, 1),
            False,
            True,
            "01 80000000000f4240",
        ),
        ("TIME(6)", datetime.time(0, 0, 1), False, True, "01 800000003b9aca00"),
        ("INTERVAL DAY TO SECOND", datetime.timedelta(0), False, True, "01 8000000000000000"),
        ("STRUCT<a: TINYINT, b: STRING>", {"a": 0, "b": None}, False, True, "01 0180 00"),
        ("ARRAY<TINYINT>", [1, None], False, True, "01 01 0181 01 00 00"),
        ("ARRAY<TINYINT>", [], True, False, "fe ff"),
    ],
)
def test_the_bytes_on_disk_never_change(
    ddl: str, value: Any, descending: bool, nulls_first: bool, expected: str
) -> None:
    """Keys of each form, written out."""
    data_type = parse_type(ddl)
    codec = KeyCodec([data_type], [KeyColumn(1, descending, nulls_first)])

    encoded = codec.encode([array_of(data_type, [value])])

    assert encoded[0].as_py().hex() == expected.replace(" ", "")
    assert codec.encode_key([value]) == bytes.fromhex(expected)


@pytest.mark.parametrize(
    ("types", "width"),
    [
        (["BIGINT"], 9),
        (["BIGINT", "DECIMAL(19,0)", "BOOLEAN"], 28),
        (["STRUCT<a: INT NOT NULL, b: DATE NOT NULL>"], 11),
        (["STRUCT<a: INT NOT NULL, b: DATE>"], None),
        (["BIGINT", "STRING"], None),
        (["ARRAY<INT>"], None),
    ],
)
def test_the_width_is_that_of_every_key_without_nulls(types: list[str], width: int | None) -> None:
    """Width is known exactly where no value can make a key longer or shorter."""
    assert KeyCodec(list(map(parse_type, types)), [KeyColumn(1)] * len(types)).width == width


@settings(max_examples=examples(50))
@given(keys())
def test_keys_without_nulls_have_the_codec_width(case: Keys) -> None:
    """Where a codec has a width, each key without a NULL column has it."""
    width = case.codec.width

    for row, key in zip(case.rows, case.encoded(), strict=True):
        assert width is None or None in row or len(key) == width


@given(st.sampled_from(["BIGINT", "STRING", "ARRAY<INT>", "STRUCT<a: INT>", "STRUCT<>"]))
def test_no_rows_are_no_keys(ddl: str) -> None:
    """A batch without rows encodes to no keys, and no keys decode to a batch without rows."""
    data_type = parse_type(ddl)
    codec = KeyCodec([data_type], [KeyColumn(1)])

    encoded = codec.encode([array_of(data_type, [])])

    assert len(encoded) == 0
    assert codec.decode(encoded)[0].equals(array_of(data_type, []))


@pytest.mark.parametrize(
    "data_type",
    [t.Map(t.Int(), t.Int()), t.Variant(), t.String("UNICODE"), t.CalendarInterval(), t.Void()],
)
def test_types_without_an_order_are_refused(data_type: t.DataType) -> None:
    """Maps, variants, collated strings, calendar intervals and void cannot be keys."""
    with pytest.raises(SchemaError, match="cannot be in a key"):
        KeyCodec([data_type], [KeyColumn(1)])


def test_columns_of_other_types_are_refused() -> None:
    """The bytes of an INT instead of a BIGINT would be another key."""
    codec = KeyCodec([t.BigInt()], [KeyColumn(1)])

    with pytest.raises(SchemaMismatchError, match="int64, not int32"):
        codec.encode([pa.array([1], pa.int32())])


def test_numbers_beyond_python_dates_survive() -> None:
    """Timestamps and dates beyond Python's datetime are encoded and decoded."""
    numbers = pa.array([-(2**63), -1, 0, 2**63 - 1])
    column = numbers.view(pa.timestamp("us", tz="UTC"))
    codec = KeyCodec([t.Timestamp()], [KeyColumn(1, True, False)])

    encoded = codec.encode([column])

    assert encoded.to_pylist() == sorted(encoded.to_pylist(), reverse=True)
    assert codec.decode(encoded)[0].equals(column)


def test_a_nan_of_any_bits_is_one_key() -> None:
    """Spark compares all NaNs as equal, so they are one key, above infinity."""
    bits = np.array([0x7FF8000000000000, 0xFFF8000000000001, 0x7FF0000000000001, 0x7FF << 52], "u8")
    codec = KeyCodec([t.Double()], [KeyColumn(1)])

    quiet, negative, signalling, infinity = codec.encode([pa.array(bits.view(float))]).to_pylist()

    assert quiet == negative == signalling > infinity


@pytest.mark.parametrize("length", [510, 512, 100_000])
def test_long_text_is_one_key(length: int) -> None:
    """Text of any length, all zeros included, is encoded and decoded whole."""
    codec = KeyCodec([t.String(), t.Int()], [KeyColumn(1), KeyColumn(2)])
    columns = [pa.array(["\x00" * length, "x" * length]), pa.array([1, 2], pa.int32())]

    assert codec.decode(codec.encode(columns)) == columns
    assert not len(codec.encode([constant(b"", 0).cast(pa.string()), pa.array([], pa.int32())]))


@settings(max_examples=examples(200))
@given(keys())
def test_one_key_is_a_batch_of_one(case: Keys) -> None:
    """A key encoded by itself has the bytes that it has in a batch."""
    rows = zip(*[column.to_pylist() for column in case.columns], strict=True)

    assert [case.codec.encode_key(row) for row in rows] == case.encoded()


@given(decimals().flatmap(lambda kind: st.tuples(st.just(kind), values_of(kind, False))))
def test_a_decimal_is_one_key_however_it_is_written(case: tuple[t.DataType, Decimal]) -> None:
    """Trailing zeros of a Python decimal do not change the key."""
    data_type, value = case
    codec = KeyCodec([data_type], [KeyColumn(1)])

    assert codec.encode_key([Context(prec=40).normalize(value)]) == codec.encode_key([value])


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
        codec.encode_key([value])


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
        codec.encode_key([value])


@pytest.mark.parametrize("values", [[], [1], [1, 2, 3]])
def test_a_key_of_too_few_or_many_values_is_refused(values: list[int]) -> None:
    """A key has one value for each of its columns."""
    codec = KeyCodec([t.Int(), t.Int()], [KeyColumn(1), KeyColumn(2)])

    with pytest.raises(SchemaMismatchError):
        codec.encode_key(values)


def test_numpy_integers_are_integers() -> None:
    """A key taken from a numpy array encodes as the Python integer does."""
    codec = KeyCodec([t.BigInt(), t.Int()], [KeyColumn(1), KeyColumn(2, True, False)])

    assert codec.encode_key([np.int64(-5), np.int32(7)]) == codec.encode_key([-5, 7])


def test_a_struct_may_be_a_tuple() -> None:
    """A struct's fields may be given by name or by position."""
    codec = KeyCodec([parse_type("STRUCT<a: INT, b: ARRAY<STRING>>")], [KeyColumn(1)])

    assert codec.encode_key([(1, ("x",))]) == codec.encode_key([{"b": ["x"], "a": 1}])


def test_a_float_is_looked_up_at_the_width_of_its_column() -> None:
    """A Python float is rounded to a FLOAT column's 32 bits first, and to 0 if it vanishes."""
    codec = KeyCodec([t.Float()], [KeyColumn(1)])

    assert codec.encode_key([0.1]) == codec.encode_key([float(np.float32(0.1))])
    assert codec.encode_key([-1e-50]) == codec.encode_key([0.0])
