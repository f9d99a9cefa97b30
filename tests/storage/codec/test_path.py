"""The laws of paths: their bytes sort as they do, each right before what is below it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relstate.storage.codec.path import (
    ABOVE_PATHS,
    MAX_NUMBER,
    check_places,
    extended,
    load_numbers,
    number_component,
    place_components,
)
from relstate.storage.codec.ragged import content_of

NUMBERS = st.integers(1, MAX_NUMBER) | st.sampled_from([1, 2, 255, 256, MAX_NUMBER])
PLACES = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-2, 2)


@given(st.lists(NUMBERS, min_size=1))
def test_numbers_are_read_and_sort_as_they_are(numbers: list[int]) -> None:
    """Of columns and of fields."""
    components = [number_component(number) for number in numbers]
    buffer = np.frombuffer(b"".join(components), np.uint8)

    assert load_numbers(buffer, np.arange(0, len(buffer), 2)).tolist() == numbers
    assert sorted(components) == [number_component(number) for number in sorted(numbers)]


@given(st.lists(st.tuples(PLACES, st.integers(0, (1 << 64) - 1)), min_size=1))
def test_places_sort_as_they_are_and_then_by_writer(places: list[tuple[int, int]]) -> None:
    """An element that was put before all others, or after them, is there."""
    components = place_components(
        np.array([place for place, _ in places], np.int64),
        np.array([writer for _, writer in places], np.uint64),
    )
    order = sorted(range(len(places)), key=lambda index: components[index].as_py())

    check_places(content_of(components), np.arange(len(places)) * 17)
    assert [places[index] for index in order] == sorted(places)


@given(st.lists(NUMBERS, min_size=1, max_size=4), st.lists(NUMBERS, min_size=1, max_size=4))
def test_a_path_is_followed_by_those_below_it(left: list[int], right: list[int]) -> None:
    """The order of bytes is the order of components; all of a row's are below its upper bound."""
    paths = [b"".join(map(number_component, path)) for path in (left, right)]

    assert (paths[0] < paths[1]) == (left < right)
    assert all(b"key" <= b"key" + path < b"key" + ABOVE_PATHS for path in paths)


def test_a_component_for_all_paths_or_for_each() -> None:
    """Paths are continued."""
    paths = pa.array([b"a", b"b"], pa.large_binary())

    assert extended(paths, b"x").to_pylist() == [b"ax", b"bx"]
    assert extended(paths, pa.array([b"1", b"2"], pa.large_binary())).to_pylist() == [b"a1", b"b2"]


def test_other_bytes_are_refused() -> None:
    """A damaged path is an error, not another path."""
    with pytest.raises(ValueError, match="no number"):
        load_numbers(np.frombuffer(b"\x01\x02", np.uint8), np.array([0]))
    with pytest.raises(IndexError):
        load_numbers(np.frombuffer(b"\x80", np.uint8), np.array([0]))
    with pytest.raises(ValueError, match="no place"):
        check_places(np.frombuffer(b"\x80" + bytes(16), np.uint8), np.array([0]))
