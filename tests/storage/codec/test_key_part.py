"""The laws of putting keys together from pieces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from relstate.storage.codec.key_part import Part, inverted, join

ROWS = 4


def bytes_arrays() -> st.SearchStrategy[pa.Array]:
    """Runs of bytes, as windows into longer arrays."""
    rows = st.lists(st.binary(max_size=5), min_size=ROWS + 1, max_size=ROWS + 1)
    return rows.map(lambda values: pa.array(values, pa.large_binary()).slice(1))


def number_arrays() -> st.SearchStrategy[Any]:
    """Unsigned numbers of each size."""
    sizes = st.sampled_from([1, 2, 4, 8])
    return st.binary(min_size=8 * ROWS, max_size=8 * ROWS).flatmap(
        lambda data: sizes.map(lambda size: np.frombuffer(data, f"u{size}")[:ROWS])
    )


def parts() -> st.SearchStrategy[list[Part]]:
    """At least one piece; constants are not empty, as none in a key is."""
    return st.lists(
        st.binary(min_size=1, max_size=3) | number_arrays() | bytes_arrays(), min_size=1, max_size=5
    )


def piece(part: Part, row: int) -> bytes:
    """Return what a part puts into one row."""
    if isinstance(part, bytes):
        return part
    if isinstance(part, np.ndarray):
        return int(part[row]).to_bytes(part.itemsize, "big")
    found: bytes = part[row].as_py()
    return found


@settings(max_examples=100, deadline=None)
@given(parts())
def test_a_row_is_its_pieces_one_after_another(drawn: list[Part]) -> None:
    """Joining parts is concatenation row by row, numbers big endian."""
    expected = [b"".join(piece(part, row) for part in drawn) for row in range(ROWS)]

    assert join(drawn, ROWS).to_pylist() == expected


@settings(max_examples=100, deadline=None)
@given(parts())
def test_inverted_pieces_make_the_inverted_row(drawn: list[Part]) -> None:
    """Every bit of the row is flipped, whichever piece it came from."""
    flipped = [bytes(255 - byte for byte in row) for row in join(drawn, ROWS).to_pylist()]

    assert join([inverted(part) for part in drawn], ROWS).to_pylist() == flipped
