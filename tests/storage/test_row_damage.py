"""Laws of damaged rows: whatever the bytes, an error says so, and the process never crashes."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from relstate.storage import types as t
from relstate.storage.codec.row import RowCodec
from relstate.storage.errors import ValueRangeError
from support.columns import arrays, data_types


def batch_of(codec: RowCodec, row: bytes, columns: int) -> list[pa.Array]:
    """Return the columns of a row between others' bytes."""
    buffer = np.frombuffer(b"\xff" * 9 + row + b"\xff" * 9, np.uint8)
    return codec.decode(buffer, np.array([9]), range(columns), np.array([len(row)]))


@given(st.data(), st.lists(data_types(), min_size=1, max_size=4))
def test_any_damage_is_an_error_or_other_values(data: DataObject, types: list[t.DataType]) -> None:
    """Changed, missing or added bytes give a ValueError or valid arrays, never anything else."""
    codec = RowCodec(types)
    columns = [data.draw(arrays(data_type, 1)) for data_type in types]
    row = bytearray(codec.encode(columns, b"")[0].as_py())
    for _ in range(data.draw(st.integers(1, 3))):
        if row:
            position = data.draw(st.integers(0, len(row) - 1))
            row[position] ^= data.draw(st.sampled_from([1, 2, 4, 128, 255]))
    damaged = bytes(row[: data.draw(st.integers(0, len(row)))]) + data.draw(st.binary(max_size=2))
    with suppress(ValueError):
        for array in batch_of(codec, damaged, len(types)):
            array.validate(full=True)
    with suppress(ValueError, ValueRangeError):
        assert len(codec.decode_row(b"head" + damaged, 4)) == len(types)


TEXTS: list[t.DataType] = [t.String(), t.Int(), t.String()]
NUMBERS: list[t.DataType] = [t.Array(t.SmallInt())]
STRICT_NUMBERS: list[t.DataType] = [t.Array(t.SmallInt(), contains_null=False)]
NAMES: list[t.DataType] = [t.Array(t.String())]
NOTHINGS: list[t.DataType] = [t.Array(t.Void())]
STRUCTS: list[t.DataType] = [t.Struct((t.Field("a", t.Int(), nullable=False),))]
DAMAGES: list[tuple[str, list[t.DataType], str]] = [
    ("a row without its fixed area", TEXTS, "00 | 02000000 050000"),
    ("no bytes at all", TEXTS, ""),
    ("fixed columns and more", [t.Int()], "00 | 05000000 | 00"),
    ("an end beyond the row", TEXTS, "00 | 05000000 05000000 | 61626364"),
    ("an end far beyond", TEXTS, "00 | ffffffff 05000000 | 61626364"),
    ("ends that fall", [t.String()] * 3, "00 | 03000000 02000000 | 61626364"),
    ("a null text with bytes", TEXTS, "01 | 02000000 05000000 | 61626364"),
    ("a null text with bytes at the end", TEXTS, "04 | 02000000 05000000 | 61626364"),
    ("bytes that are not UTF-8", TEXTS, "00 | 02000000 05000000 | 61ff6364"),
    ("a character that two texts share", TEXTS, "00 | 01000000 05000000 | c3a9"),
    ("an array without its head", NUMBERS, "00 | 01000000"),
    ("an array with an odd flag", NUMBERS, "00 | 01000000 02 01 0100"),
    ("an array of too few elements", NUMBERS, "00 | 02000000 00 0100"),
    ("an array of half an element", NUMBERS, "00 | 01000000 00 01"),
    ("an array of very many elements", NUMBERS, "00 | ffffffff 00 0100"),
    ("an array of very many nulls", NUMBERS, "00 | ffffffff 01 0100"),
    ("an array of elements left over", NUMBERS, "00 | 00000000 00 0100"),
    ("a forbidden null", STRICT_NUMBERS, "00 | 01000000 01 00 0000"),
    ("very many voids", NOTHINGS, "00 | ffffffff 00"),
    ("voids that are not null", NOTHINGS, "00 | 01000000 00 00"),
    ("an array without its ends", NAMES, "00 | 01000000 00 0100"),
    ("elements' ends that fall", NAMES, "00 | 02000000 00 02000000 01000000 6161"),
    ("elements' ends too low", NAMES, "00 | 01000000 00 01000000 6161"),
    ("elements' ends too high", NAMES, "00 | 01000000 00 02000000 61"),
    ("a null element with bytes", NAMES, "00 | 01000000 01 00 01000000 61"),
    ("a struct without its fields", STRUCTS, "00 | 00"),
    ("a struct without any byte", STRUCTS, "00 |"),
    ("a forbidden null in a struct", STRUCTS, "00 | 01 00000000"),
    ("a null struct with bytes", STRUCTS, "01 | 00 00000000"),
]


@pytest.mark.parametrize(
    ("types", "damaged"),
    [(types, damaged) for _, types, damaged in DAMAGES],
    ids=[name for name, _, _ in DAMAGES],
)
def test_damage_is_an_error(types: list[t.DataType], damaged: str) -> None:
    """Bytes that no row has are a ValueError, in batches and alone."""
    codec, row = RowCodec(types), bytes.fromhex(damaged.replace("|", " "))
    message = "a row|an array|an element|of a struct|VOID|(?i:utf-?8)"
    with pytest.raises(ValueError, match=message):
        batch_of(codec, row, len(types))
    with pytest.raises(ValueError, match=message):
        codec.decode_row(b"head" + row, 4)


def test_boolean_of_another_byte_is_an_error() -> None:
    """A truth value is 0 or 1; a batch does not take anything else for true."""
    with pytest.raises(ValueError, match="BOOLEAN"):
        batch_of(RowCodec([t.Boolean()]), b"\x00\x02", 1)


def test_time_after_midnight_is_an_error() -> None:
    """A time that no day has is not turned into one of another day."""
    with pytest.raises(ValueError, match="time of day"):
        RowCodec([t.Time()]).decode_row(b"\x00" + (86_400 * 10**9).to_bytes(8, "little"), 0)


@pytest.mark.parametrize(
    ("start", "length"), [(-1, 9), (0, 11), (2, 9), (11, 9), (2**62, 2**62), (0, -1)]
)
@pytest.mark.parametrize("data_type", [t.BigInt(), t.Array(t.Int())], ids=str)
def test_row_beyond_its_buffer_is_an_error(start: int, length: int, data_type: t.DataType) -> None:
    """Positions that leave the buffer are a ValueError; memory beyond it is never read."""
    codec = RowCodec([data_type])
    row: Any = codec.encode_row([7] if data_type == t.BigInt() else [[]])
    buffer = np.frombuffer(row.ljust(10, b"\0"), np.uint8)
    with pytest.raises(ValueError, match="a row"):
        codec.decode(buffer, np.array([0, start]), [0], np.array([len(row), length]))
