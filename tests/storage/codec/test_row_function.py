"""The function that is made for the columns of rows returns what the general decoder does."""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from relstate.storage import types as t
from relstate.storage.codec.row import RowCodec
from support.columns import arrays, data_types
from support.examples import examples

_DAMAGES = (ValueError, IndexError, struct.error, OverflowError)
_HEADERS = st.sampled_from([b"", b"\x81\2\0"])


class _Plain(tuple[Any, ...]):
    """What the functions make."""


def _with_null(key: Any, data: bytes) -> str:
    return "NULL"


@settings(max_examples=examples(40))
@given(st.data(), st.lists(data_types(), min_size=1, max_size=10), _HEADERS)
def test_rows_have_the_values_of_the_general(
    data: DataObject, types: list[t.DataType], header: bytes
) -> None:
    """All values or some, in any order, those of the key among them; rows with NULL are left."""
    columns = [data.draw(arrays(data_type, 3)) for data_type in types]
    indices = data.draw(st.lists(st.integers(0, len(types) - 1), min_size=1, max_size=10))
    places = [(False, index) for index in indices]
    places.insert(data.draw(st.integers(0, len(places))), (True, 1))
    codec = RowCodec(types)
    make_row = codec.row_function(places, header, _Plain, _with_null)
    for row in codec.encode(columns, header).to_pylist():
        values = codec.decode_row(row, len(header))
        made = make_row(("a", "b"), row)
        if None in values:
            assert made == "NULL"
            continue
        assert type(made) is _Plain
        expected = tuple("b" if in_key else values[index] for in_key, index in places)
        assert repr(tuple(made)) == repr(expected)


@settings(max_examples=examples(40))
@given(st.data(), st.lists(data_types(), min_size=1, max_size=6), _HEADERS)
def test_damaged_rows_are_refused(data: DataObject, types: list[t.DataType], header: bytes) -> None:
    """What decodes of bytes that are cut off, continued or changed is what the general decodes."""
    columns = [data.draw(arrays(data_type, 1)) for data_type in types]
    codec = RowCodec(types)
    places = [(False, index) for index in range(len(types))]
    make_row = codec.row_function(places, header, _Plain, _with_null)
    (row,) = codec.encode(columns, header).to_pylist()
    place = data.draw(st.integers(0, len(row)))
    byte = data.draw(st.binary(min_size=1, max_size=1))
    for damaged in (row[:place], row + byte, row[:place] + byte + row[place + 1 :]):
        try:
            made = make_row((), damaged)
        except _DAMAGES:
            continue
        if made != "NULL":
            assert damaged.startswith(header)
            assert repr(tuple(made)) == repr(codec.decode_row(damaged, len(header)))
