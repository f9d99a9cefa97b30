"""One key at a time decodes to the values of a batch."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest

from relstate.storage import KeyCodec, KeyColumn, types
from relstate.storage.codec.point_key import key_decoder

_VALUES: list[tuple[types.DataType, list[Any]]] = [
    (types.TinyInt(), [-128, 0, 127]),
    (types.SmallInt(), [-32768, -1, 32767]),
    (types.Int(), [-(2**31), 5]),
    (types.BigInt(), [-(2**63), 2**63 - 1, 0]),
    (types.String(), ["", "a", "a\0", "\0\0b", "\u00e4\u20ac"]),
    (types.Binary(), [b"", b"\xff\0\0", b"\0\1"]),
]


@pytest.mark.parametrize("seed", range(20))
def test_a_key_decodes_to_its_values(seed: int) -> None:
    """Of simple types without Arrow, of others with it; any order, NULLs included."""
    chance = random.Random(seed)
    columns = [chance.choice(_VALUES) for _ in range(chance.randrange(1, 4))]
    if chance.random() < 0.3:
        columns.append((types.Double(), [0.5, -1.0]))
    orders = [
        KeyColumn(at, chance.random() < 0.5, chance.random() < 0.5) for at in range(len(columns))
    ]
    column_types = [data_type for data_type, _ in columns]
    codec = KeyCodec(column_types, orders)
    decode = key_decoder(codec, column_types, orders)
    for _ in range(20):
        values = [chance.choice([None, *choices]) for _, choices in columns]
        assert decode(codec.encode_key(values)) == values


def test_bytes_that_are_no_key_are_refused() -> None:
    """Too few, or more than the columns need."""
    codec = KeyCodec([types.Int()], [KeyColumn(1)])
    decode = key_decoder(codec, [types.Int()], [KeyColumn(1)])
    for damaged in (b"", b"\x01\x00", codec.encode_key([5]) + b"\0"):
        with pytest.raises((ValueError, IndexError, struct.error)):
            decode(damaged)
