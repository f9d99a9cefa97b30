"""Laws of the row codec: what is decoded is what was encoded, and the bytes are the format's."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from relstate.storage import types as t
from relstate.storage.codec.ragged import parts_of
from relstate.storage.codec.row import RowCodec
from relstate.storage.errors import (
    NullValueError,
    SchemaMismatchError,
    UnsupportedTypeError,
    ValueRangeError,
)
from relstate.storage.schema.arrow import arrow_type
from support.columns import PLAIN_TYPES, arrays, canonical, data_types
from support.examples import examples

HEAD = b"HEAD"


def scattered(
    rows: list[bytes], order: list[int], gap: bytes
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return a buffer that holds the rows in ``order`` between gaps, their starts and lengths."""
    starts, buffer = np.zeros(len(rows), np.int64), bytearray(gap)
    for index in order:
        starts[index] = len(buffer)
        buffer += rows[index] + gap
    return np.frombuffer(bytes(buffer), np.uint8), starts, np.array([*map(len, rows)], np.int64)


def decoded(codec: RowCodec, rows: list[bytes], indices: list[int]) -> list[pa.Array]:
    """Return columns of rows that follow one another."""
    buffer, starts, lengths = scattered(rows, [*range(len(rows))], b"")
    return codec.decode(buffer, starts, indices, lengths)


def assert_same(expected: pa.Array, actual: pa.Array) -> None:
    """Assert that two arrays hold the same values, bit by bit, in exactly the same type."""
    assert actual.type.equals(expected.type, check_metadata=True)
    actual.validate(full=True)
    assert canonical(actual).equals(canonical(expected))


def nulls_where_forbidden(array: pa.Array) -> int:
    """Return how many NULLs an array holds at any depth where its type allows none."""
    if pa.types.is_struct(array.type):
        children = [(field, array.field(index)) for index, field in enumerate(array.type)]
    elif pa.types.is_list(array.type):
        children = [(array.type.value_field, array.values)]
    elif pa.types.is_map(array.type):
        children = [(array.type.key_field, array.keys), (array.type.item_field, array.items)]
    else:
        return 0
    return sum(
        (0 if field.nullable else child.null_count) + nulls_where_forbidden(child)
        for field, child in children
    )


@given(st.data(), st.lists(data_types(), min_size=1, max_size=4), st.integers(0, 7))
def test_round_trip(data: DataObject, types: list[t.DataType], rows: int) -> None:
    """Rows of any types decode to the same values, in any order and position in the buffer."""
    columns = [data.draw(arrays(data_type, rows)) for data_type in types]
    codec = RowCodec(types)
    encoded = codec.encode(columns, HEAD).to_pylist()
    bodies = [row.removeprefix(HEAD) for row in encoded]
    assert all(row == HEAD + body for row, body in zip(encoded, bodies, strict=True))

    order = data.draw(st.permutations(range(rows)))
    buffer, starts, lengths = scattered(bodies, order, data.draw(st.binary(max_size=5)))
    again = data.draw(st.lists(st.integers(0, rows - 1), max_size=4)) if rows else []
    rows_asked = np.array([*range(rows), *again], np.int64)
    indices = data.draw(st.permutations(range(len(types))))
    indices = indices[: data.draw(st.integers(0, len(indices)))]

    columns_read = codec.decode(buffer, starts[rows_asked], indices, lengths[rows_asked])
    for index, array in zip(indices, columns_read, strict=True):
        assert_same(columns[index].take(pa.array(rows_asked)), array)
        assert nulls_where_forbidden(array) == 0


@pytest.mark.parametrize("data_type", PLAIN_TYPES, ids=str)
@settings(max_examples=examples(25))
@given(data=st.data(), rows=st.integers(0, 20))
def test_round_trip_of_each_plain_type(data_type: t.DataType, data: DataObject, rows: int) -> None:
    """A column of each type comes back, by itself and as the elements of arrays."""
    for whole in (data_type, t.Array(data_type)):
        column = data.draw(arrays(whole, rows))
        codec = RowCodec([whole])
        assert_same(column, decoded(codec, codec.encode([column], b"").to_pylist(), [0])[0])


def test_nothing_is_null_where_its_type_forbids_it() -> None:
    """A NULL struct has blank values, not NULLs, in its fields, at any depth."""
    kinds = [*PLAIN_TYPES, *map(t.Array, PLAIN_TYPES), t.Map(t.Int(), t.Int())]
    kinds.remove(t.Void())
    inner = t.Struct(tuple(t.Field(f"f{i}", kind, False) for i, kind in enumerate(kinds)))
    whole = t.Struct((t.Field("a", t.Struct((t.Field("b", inner, False),))),))
    column = pa.array([None, {"a": None}, None], arrow_type(whole))
    codec = RowCodec([whole])
    (array,) = decoded(codec, codec.encode([column], b"").to_pylist(), [0])
    assert_same(column, array)
    assert nulls_where_forbidden(array) == 0


@pytest.mark.parametrize(
    ("bits", "data_type"), [(np.uint32, t.Float()), (np.uint64, t.Double())], ids=str
)
def test_floats_keep_every_bit(bits: type[np.unsignedinteger[Any]], data_type: t.DataType) -> None:
    """Signalling NaNs, payloads, signs of zero and of NaN survive, also in arrays."""
    most = np.iinfo(bits).max
    patterns = np.array([0, most, most >> 1, most - 1, 1, most // 2 + 1, 0x7F800001], bits)
    column = pa.array(patterns).view(arrow_type(data_type))
    nested = pa.ListArray.from_arrays(pa.array([0, 3, 7]), column).cast(
        arrow_type(t.Array(data_type))
    )
    for whole, values in ((data_type, column), (t.Array(data_type), nested)):
        codec = RowCodec([whole])
        (array,) = decoded(codec, codec.encode([values], b"").to_pylist(), [0])
        flat = array if whole is data_type else array.values
        np.testing.assert_array_equal(flat.to_numpy().view(bits), patterns)


@given(st.permutations(range(12)), st.lists(st.integers(0, 11), max_size=6))
def test_long_rows_in_any_order(order: list[int], again: list[int]) -> None:
    """Rows of hundreds of bytes come out in the order asked for, repeated ones too."""
    columns = [
        pa.array(range(12)),
        pa.array([chr(97 + row) * (400 * row) for row in range(12)]),
        pa.array([None if row % 3 else [row] * row for row in range(12)]).cast(
            arrow_type(t.Array(t.BigInt()))
        ),
    ]
    codec = RowCodec([t.BigInt(), t.String(), t.Array(t.BigInt())])
    rows = codec.encode(columns, b"").to_pylist()
    buffer, starts, lengths = scattered(rows, order, b"gap")
    asked = np.array([*range(12), *again])
    arrays = codec.decode(buffer, starts[asked], [2, 1, 0], lengths[asked])
    for column, array in zip(reversed(columns), arrays, strict=True):
        assert_same(column.take(pa.array(asked)), array)


def test_many_columns() -> None:
    """Any columns are decoded right, also far apart and with bitmaps of many bytes."""
    types = [[t.BigInt(), t.String(), t.Decimal(38, 2), t.Boolean()][i % 4] for i in range(401)]
    values = [[7, "seven", Decimal("-7.77"), True][i % 4] for i in range(401)]
    columns = [
        pa.array([None if (i + row) % 5 == 0 else value for row in range(9)], arrow_type(kind))
        for i, (value, kind) in enumerate(zip(values, types, strict=True))
    ]
    codec = RowCodec(types)
    rows = codec.encode(columns, b"").to_pylist()
    for indices in ([400], [0, 400], [3, 2, 397, 1], [*range(401)]):
        for index, array in zip(indices, decoded(codec, rows, indices), strict=True):
            assert_same(columns[index], array)
    assert codec.decode_row(rows[0], 0) == tuple(column[0].as_py() for column in columns)


STRUCT = t.Struct((t.Field("a", t.SmallInt(), False), t.Field("b", t.String())))

WORKED_EXAMPLES: list[tuple[str, list[tuple[t.DataType, Any]], str]] = [
    (
        "plain columns",
        [(t.BigInt(), 1), (t.String(), "hi"), (t.Int(), None), (t.Boolean(), True)],
        "04 | 0100000000000000 00000000 01 | 6869",
    ),
    (
        "two strings, of which one is null, and an empty one",
        [(t.String(), "ab"), (t.String(), None), (t.Binary(), b""), (t.Binary(), b"\0")],
        "02 | 02000000 02000000 02000000 | 6162 00",
    ),
    (
        "numbers",
        [(t.TinyInt(), -1), (t.SmallInt(), -2), (t.Float(), 1.5), (t.Double(), -0.0)],
        "00 | ff feff 0000c03f 0000000000000080 |",
    ),
    (
        "decimals of 8 and of 16 bytes",
        [(t.Decimal(18, 2), Decimal("-0.01")), (t.Decimal(19, 2), Decimal("2.56"))],
        "00 | ffffffffffffffff 00010000000000000000000000000000 |",
    ),
    (
        "decimals of 1 to 7 bytes, the least of each but the first",
        [
            (t.Decimal(2, 1), Decimal("9.9")),
            (t.Decimal(4, 0), Decimal("-9999")),
            (t.Decimal(6, 6), Decimal("-0.999999")),
            (t.Decimal(9, 0), Decimal("-999999999")),
            (t.Decimal(11, 0), Decimal("-99999999999")),
            (t.Decimal(12, 2), Decimal("-1.00")),
            (t.Decimal(16, 0), Decimal("-9999999999999999")),
        ],
        "00 | 63 f1d8 c1bdf0 013665c4 011889b7e8 9cffffffffff 0100 3f90 0d79dc |",
    ),
    (
        "a timestamp a millisecond after the epoch, the day before it, and nothing",
        [
            (t.Timestamp(), datetime(1970, 1, 1, 0, 0, 0, 1000, UTC)),
            (t.Date(), datetime(1969, 12, 31, tzinfo=UTC).date()),
            (t.Void(), None),
        ],
        "04 | e803000000000000 ffffffff |",
    ),
    (
        "an array of numbers without and one with a null",
        [(t.Array(t.SmallInt()), [1, 2]), (t.Array(t.SmallInt()), [None, 3])],
        "00 | 09000000 | 02000000 00 0100 0200| 02000000 01 00 01 0000 0300",
    ),
    (
        "an array of strings, and an empty one",
        [(t.Array(t.String()), ["a", None, "bc"]), (t.Array(t.String()), [])],
        ("00 | 17000000| 03000000 01 01 00 01 01000000 01000000 03000000 61 6263| 00000000 00"),
    ),
    (
        "a struct, and one that is null",
        [(STRUCT, {"a": 5, "b": "x"}), (STRUCT, None)],
        "02 | 04000000 | 00 0500 78",
    ),
    (
        "a map",
        [(t.Map(t.String(), t.Int()), [("k", 9), ("l", None)])],
        ("00 || 02000000 00 06000000 0c000000| 00 09000000 6b| 02 00000000 6c"),
    ),
    (
        "a variant",
        [(t.Variant(), {"value": b"\x0c\x07", "metadata": b"\x01\0\0"})],
        "00 | | 00 02000000 0c07 010000",
    ),
    (
        "nine columns",
        [(t.Boolean(), None)] * 8 + [(t.Boolean(), False)],
        "7f01 | 00 00 00 00 00 00 00 00 00 |",
    ),
]


@pytest.mark.parametrize(
    ("row", "expected"),
    [(row, expected) for _, row, expected in WORKED_EXAMPLES],
    ids=[name for name, _, _ in WORKED_EXAMPLES],
)
def test_format(row: list[tuple[t.DataType, Any]], expected: str) -> None:
    """Batches and single rows have the bytes that were worked out by hand; they never change."""
    golden = bytes.fromhex(expected.replace("|", " "))
    types, values = [kind for kind, _ in row], [value for _, value in row]
    columns = [pa.array([value], arrow_type(kind)) for kind, value in row]
    codec = RowCodec(types)
    assert codec.encode(columns, b"").to_pylist() == [golden]
    assert codec.encode_row(values) == golden
    for column, array in zip(columns, decoded(codec, [golden], [*range(len(row))]), strict=True):
        assert_same(column, array)


def test_empty_batch() -> None:
    """It encodes to no bytes, and they decode to columns of the right types."""
    types = [*PLAIN_TYPES, *map(t.Array, PLAIN_TYPES), STRUCT, t.Map(t.Int(), STRUCT)]
    codec = RowCodec(types)
    columns = [pa.array([], arrow_type(kind)) for kind in types]
    assert codec.encode(columns, HEAD).equals(pa.array([], pa.large_binary()))
    for column, array in zip(columns, decoded(codec, [], [*range(len(types))]), strict=True):
        assert_same(column, array)


def test_rows_without_columns_have_a_body_of_one_byte() -> None:
    """It is their null bitmap, so that every value has a first byte."""
    codec = RowCodec([])
    assert codec.encode_row([]) == b"\0"
    assert codec.decode_row(HEAD + b"\0", 4) == ()
    assert decoded(codec, [b"\0", b"\0"], []) == []


@given(st.lists(st.booleans(), max_size=20))
def test_the_first_byte_of_a_row_is_below_0x80(nulls: list[bool]) -> None:
    """So is no header, whichever columns are NULL; a value that has none begins with its row."""
    codec = RowCodec([t.TinyInt()] * len(nulls))
    values = [None if is_null else -1 for is_null in nulls]
    row = codec.encode_row(values)
    assert row[0] < 0x80
    assert codec.decode_row(row, 0) == tuple(values)
    if nulls:
        columns = [pa.array([value], pa.int8()) for value in values]
        assert codec.encode(columns, b"").to_pylist() == [row]


@pytest.mark.parametrize(
    "data_type",
    [
        t.YearMonthInterval(),
        t.CalendarInterval(),
        t.Array(t.YearMonthInterval()),
        t.Struct((t.Field("a", t.CalendarInterval()),)),
    ],
    ids=str,
)
def test_types_that_arrow_cannot_carry_are_refused(data_type: t.DataType) -> None:
    """A type that Spark cannot pass to Python is refused before any row is encoded."""
    with pytest.raises(UnsupportedTypeError, match="INTERVAL"):
        RowCodec([t.Int(), data_type])


def test_array_of_another_type_is_refused() -> None:
    """An array that is not of the column's type is an error, not other bytes."""
    with pytest.raises(SchemaMismatchError, match="int32, not int64"):
        RowCodec([t.BigInt()]).encode([pa.array([1], pa.int32())], b"")


def test_decimal_with_too_many_digits_is_refused() -> None:
    """A decimal beyond its 8 bytes is an error that names its row; NULLs are not looked at."""
    wide = pa.array([Decimal(1), Decimal(10**20), None], pa.decimal128(38, 0))
    narrow = pa.Array.from_buffers(pa.decimal128(18, 0), 3, wide.buffers())
    codec = RowCodec([t.Decimal(18, 0)])
    with pytest.raises(ValueRangeError, match=r"row 1 .*decimal128\(18, 0\)"):
        codec.encode([narrow], b"")
    hidden = pa.Array.from_buffers(
        pa.decimal128(18, 0), 3, [pa.py_buffer(b"\x01"), wide.buffers()[1]]
    )
    (arrays,) = decoded(codec, codec.encode([hidden], b"").to_pylist(), [0])
    assert arrays.to_pylist() == [Decimal(1), None, None]


_EDGES = [0, 1, 2, 127, 128, 255, 256]


@pytest.mark.parametrize("digits", range(1, 19))
def test_decimals_of_any_number_of_digits(digits: int) -> None:
    """The least, the greatest and others, with NULLs: first in a row, after others, and in arrays.

    A row may be the first of its buffer; what is before a row is no part of its numbers.
    """
    most = 10**digits - 1
    numbers = [most, -most, *(number for number in _EDGES if number <= most), -1]
    values = [Decimal(number) for number in numbers] + [None]
    data_type = t.Decimal(digits, 0)
    types = [data_type, t.String(), data_type, t.Array(data_type)]
    codec = RowCodec(types)
    rows = [[value, "x", value, [value, value]] for value in values]
    columns = [
        pa.array(column, arrow_type(kind))
        for column, kind in zip(zip(*rows, strict=True), types, strict=True)
    ]

    encoded = codec.encode(columns, b"").to_pylist()

    for gap in (b"", b"\xff"):
        buffer, starts, lengths = scattered(encoded, [*range(len(rows))], gap)
        for indices in ([0, 1, 2, 3], [2], [0]):
            arrays = codec.decode(buffer, starts, indices, lengths)
            for index, array in zip(indices, arrays, strict=True):
                assert_same(columns[index], array)
    assert [codec.encode_row(row) for row in rows] == encoded
    assert [codec.decode_row(row, 0) for row in encoded] == [tuple(row) for row in rows]


@pytest.mark.parametrize("digits", [2, 4, 6, 9, 11, 12, 14, 16])
def test_decimal_beyond_its_bytes_is_refused(digits: int) -> None:
    """Its upper bytes are not cut off, in batches or alone, whatever Arrow lets an array hold."""
    numbers = [0, -(10 ** (digits + 3))]
    wide = pa.array([Decimal(number) for number in numbers], pa.decimal128(38, 0))
    narrow = pa.Array.from_buffers(pa.decimal128(digits, 0), 2, wide.buffers())
    codec = RowCodec([t.Decimal(digits, 0)])
    with pytest.raises(ValueRangeError, match="row 1 holds more digits"):
        codec.encode([narrow], b"")
    with pytest.raises(ValueRangeError):
        codec.encode_row([Decimal(numbers[1])])


@pytest.mark.parametrize(
    ("data_type", "values"),
    [
        (t.Array(t.Int(), contains_null=False), [[1, None]]),
        (t.Struct((t.Field("a", t.Int(), nullable=False),)), [{"a": None}]),
        (t.Map(t.Int(), t.Int(), value_contains_null=False), [[(1, None)]]),
        (t.Array(t.Array(t.String(), contains_null=False)), [[["a"], [None]]]),
    ],
    ids=str,
)
def test_null_within_a_value_that_allows_none_is_refused(
    data_type: t.DataType, values: list[Any]
) -> None:
    """A NULL that a nested type forbids is an error, from a batch and from a single row."""
    codec = RowCodec([data_type])
    with pytest.raises(NullValueError):
        codec.encode([pa.array(values, arrow_type(data_type))], b"")
    with pytest.raises(NullValueError):
        codec.encode_row(values)


def test_row_of_more_than_4_gib_is_refused() -> None:
    """Columns that together exceed a u32 are refused before their bytes are copied."""
    size = 1_500_000_000
    offsets = pa.py_buffer(np.array([0, size], np.int32))
    huge = pa.Array.from_buffers(
        pa.binary(), 1, [None, offsets, pa.py_buffer(np.zeros(size, np.uint8))]
    )
    with pytest.raises(ValueRangeError, match="row 0 has 4500000000 bytes"):
        RowCodec([t.Binary()] * 3).encode([huge] * 3, b"")


def test_column_of_more_than_2_gib_is_refused() -> None:
    """Text that one Arrow array cannot hold is refused, and not reported as damage."""
    codec, size = RowCodec([t.Int(), t.Binary()]), 1_000_000_000
    row = codec.encode_row([7, b""])
    buffer = np.zeros(len(row) + size, np.uint8)
    buffer[: len(row)] = np.frombuffer(row, np.uint8)
    buffer[5:9] = np.frombuffer(size.to_bytes(4, "little"), np.uint8)
    starts, lengths = np.zeros(3, np.int64), np.full(3, len(buffer), np.int64)
    with pytest.raises(OverflowError, match="decode fewer rows"):
        codec.decode(buffer, starts, [1], lengths)
    assert codec.decode(buffer, starts, [0], lengths)[0].to_pylist() == [7, 7, 7]


def test_columns_not_asked_for_are_not_touched() -> None:
    """A column that cannot be decoded does not affect others."""
    codec = RowCodec([t.String(), t.Int()])
    row = codec.encode_row(["ab", 5]).replace(b"ab", b"\xff\xfe")
    assert decoded(codec, [row], [1])[0].to_pylist() == [5]
    with pytest.raises(ValueError, match="UTF8"):
        decoded(codec, [row], [0])


def test_decoded_arrays_do_not_live_in_the_buffer() -> None:
    """A batch outlives the map that it was read from."""
    codec = RowCodec([t.BigInt(), t.String(), t.Array(t.Int())])
    whole = codec.encode(
        [
            pa.array([1, 2]),
            pa.array(["one", "two"]),
            pa.array([[1], [2]], arrow_type(t.Array(t.Int()))),
        ],
        b"",
    )
    data, offsets = parts_of(whole)
    buffer = data.copy()
    arrays = codec.decode(buffer, offsets[:-1], [0, 1, 2], np.diff(offsets))
    buffer[:] = 0xFF
    assert [array.to_pylist() for array in arrays] == [[1, 2], ["one", "two"], [[1], [2]]]
