"""The laws of the fields of a key, read from anywhere in a run of keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relstate.storage import types as t
from relstate.storage.codec.key_field import KeyBytes, Part, Tagged, inverted, join, key_field_of
from relstate.storage.codec.ragged import content_of, parts_of
from relstate.storage.errors import SchemaError
from support.datatypes import array_of, key_types, values_of
from support.examples import examples
from support.keys import normal


@settings(max_examples=examples(100))
@given(
    key_types().flatmap(lambda kind: st.tuples(st.just(kind), st.lists(values_of(kind)))),
    st.sampled_from([0x00, 0x02]),
    st.data(),
)
def test_any_fields_of_a_run_are_read(
    case: tuple[t.DataType, list[Any]], null_tag: int, data: st.DataObject
) -> None:
    """Some or all fields are read from their starts, and their ends are returned."""
    data_type, values = case
    field = Tagged(key_field_of(data_type), null_tag)
    array = array_of(data_type, values)
    run = join(field.parts(array), len(array))
    offsets = parts_of(run)[1]
    indices = np.flatnonzero([data.draw(st.booleans()) for _ in values])

    fields_read, ends = field.read(KeyBytes(content_of(run)), offsets[indices])

    assert np.array_equal(ends, offsets[indices + 1])
    assert fields_read.type == array.type
    assert repr(normal(fields_read.to_pylist())) == repr(normal(array.take(indices).to_pylist()))


def test_text_may_hold_what_looks_like_an_end() -> None:
    """Zeros within a text, and those after it, are not taken for its end."""
    field = Tagged(key_field_of(t.Binary()))
    values = [b"\x00", b"\x00\x00", b"\x00\x01", b"\x01\x00", b""]
    array = array_of(t.Binary(), values)
    run = join(field.parts(array), len(array))

    texts, _ = field.read(KeyBytes(content_of(run)), parts_of(run)[1][:-1])

    assert texts.to_pylist() == values


def test_a_type_without_an_order_is_refused_at_any_depth() -> None:
    """A variant inside a struct inside an array is refused as a variant is."""
    nested = t.Array(t.Struct((t.Field("a", t.Variant()),)))

    with pytest.raises(SchemaError, match="VARIANT cannot be in a key"):
        key_field_of(nested)


ROWS = 4


def bytes_arrays() -> st.SearchStrategy[pa.Array]:
    """Return a strategy for runs of bytes, as windows into longer arrays."""
    rows = st.lists(st.binary(max_size=5), min_size=ROWS + 1, max_size=ROWS + 1)
    return rows.map(lambda values: pa.array(values, pa.large_binary()).slice(1))


def number_arrays() -> st.SearchStrategy[Any]:
    """Return a strategy for unsigned numbers of each size."""
    sizes = st.sampled_from([1, 2, 4, 8])
    return st.binary(min_size=8 * ROWS, max_size=8 * ROWS).flatmap(
        lambda data: sizes.map(lambda size: np.frombuffer(data, f"u{size}")[:ROWS])
    )


def parts() -> st.SearchStrategy[list[Part]]:
    """Return a strategy for at least one part; constants are not empty, as in keys."""
    return st.lists(
        st.binary(min_size=1, max_size=3) | number_arrays() | bytes_arrays(), min_size=1, max_size=5
    )


def piece(part: Part, row: int) -> bytes:
    """Return what a part puts into one row."""
    if isinstance(part, bytes):
        return part
    if isinstance(part, np.ndarray):
        return int(part[row]).to_bytes(part.itemsize, "big")
    data: bytes = part[row].as_py()
    return data


@settings(max_examples=examples(100))
@given(parts())
def test_a_row_is_its_pieces_one_after_another(drawn: list[Part]) -> None:
    """Joining parts is concatenation row by row, numbers big endian."""
    expected = [b"".join(piece(part, row) for part in drawn) for row in range(ROWS)]

    assert join(drawn, ROWS).to_pylist() == expected


@settings(max_examples=examples(100))
@given(parts())
def test_inverted_pieces_make_the_inverted_row(drawn: list[Part]) -> None:
    """Every bit of the row is flipped, whichever piece it came from."""
    flipped = [bytes(255 - byte for byte in row) for row in join(drawn, ROWS).to_pylist()]

    assert join([inverted(part) for part in drawn], ROWS).to_pylist() == flipped
