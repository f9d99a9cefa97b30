"""Lookups by filters find the value of the first file that has the key, and ask hardly another."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relstate.storage.segment.filtermatrix import MOST_FILES, FilterMatrix
from relstate.storage.segment.keyfilter import KeyFilter, key_hashes
from relstate.storage.segment.lookup_memory import filter_memory
from relstate.storage.table import filteredgets
from relstate.storage.table.filteredgets import FilteredGet, FilteredGets, possible_getters
from support.examples import examples

_KEYS = [b"key %d" % number for number in range(40)]
_FILE = st.tuples(st.booleans(), st.sets(st.sampled_from(_KEYS[:30]), max_size=20))


@pytest.fixture(params=["one by one", "together"])
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """With matrices of any two filters of one size from the second lookup on, and without."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filteredgets, "_LEAST_TOGETHER", 2 if request.param == "together" else 99)
        patch.setattr(filteredgets, "_ASKED_PER_WORD", 0)
        yield request.param


def lookup_of(keys: Sequence[bytes], value: bytes, *, has_filter: bool = True) -> FilteredGet:
    """Return the lookup in a file with one value under some keys."""
    values = dict.fromkeys(keys, value)
    if not has_filter:
        return FilteredGet(values.get)
    hashes = key_hashes(pa.array(list(keys), pa.large_binary()))
    return FilteredGet(values.get, KeyFilter.of(hashes).words.data)


def first_value(getters: Sequence[Callable[[bytes], bytes | None]], key: bytes) -> bytes | None:
    """Return the first value that some functions return."""
    return next((value for get in getters if (value := get(key)) is not None), None)


@settings(max_examples=examples(60))
@given(files=st.lists(_FILE, min_size=1, max_size=9), data=st.data())
@pytest.mark.usefixtures("way")
def test_the_value_of_the_first_file_is_found(
    files: list[tuple[bool, set[bytes]]], data: st.DataObject
) -> None:
    """Of any of the files, with filters and without; no key that is there is left out."""
    gets = FilteredGets(
        [
            lookup_of(sorted(keys), b"%d" % number, has_filter=has_filter)
            for number, (has_filter, keys) in enumerate(files)
        ]
    )
    numbers = st.sets(st.sampled_from(range(len(files))), min_size=1).map(sorted)
    for chosen in data.draw(st.lists(numbers, min_size=1, max_size=3)):
        newest = gets.newest(chosen)
        for key in [*_KEYS, *_KEYS]:
            having = [number for number in chosen if key in files[number][1]]
            expected = b"%d" % having[0] if having else None
            assert first_value(newest, key) == expected
            assert first_value(gets.possible(chosen, key), key) == expected
            assert len(gets.possible(chosen, key)) >= len(having)


@pytest.mark.parametrize("files", [20, 64, 150])
def test_a_lookup_asks_the_file_that_has_the_key_and_hardly_another(files: int, way: str) -> None:
    """Of files whose keys are at random: one, and of the newer ones two percent."""
    draw = np.random.default_rng(files)
    keys_of_files = [[draw.bytes(11) for _ in range(200)] for _ in range(files)]
    asked = 0

    def counted(lookup: FilteredGet) -> FilteredGet:
        def get(key: bytes) -> bytes | None:
            nonlocal asked
            asked += 1
            return lookup.get(key)

        return FilteredGet(get, lookup.words)

    gets = FilteredGets([counted(lookup_of(keys, b"value")) for keys in keys_of_files])
    newest = gets.newest(range(files))
    assert len(newest) == -(-files // MOST_FILES)
    keys = [key for file_keys in keys_of_files for key in file_keys[::4]]
    for key in keys:
        assert first_value(newest, key) == b"value"
    assert 1 <= asked / len(keys) <= 1 + 0.03 * files / 2
    has_matrices = [bool(group.matrices) for group in gets._groups.values()]
    assert has_matrices == [way == "together"] * files

    asked = 0
    for _ in range(2000):
        assert first_value(newest, draw.bytes(10)) is None
    assert asked / 2000 <= 0.03 * files


def test_filters_without_company_of_their_size_are_asked_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Beside the matrix of those that are alike, in the order of all files."""
    monkeypatch.setattr(filteredgets, "_ASKED_PER_WORD", 0)
    sizes = [100] * 4 + [900] + [100] * 4 + [30]
    keys = [b"%d" % number for number in range(900)]
    gets = FilteredGets([lookup_of(keys[:size], b"%d" % n) for n, size in enumerate(sizes)])
    newest = gets.newest(range(3, 10))
    for _ in range(2):
        assert [first_value(newest, key) for key in (keys[0], keys[100])] == [b"3", b"4"]
    (group,) = {*gets._groups.values()}
    assert (len(group.matrices), group.loose) == (1, {4, 9})


def test_the_memory_of_matrices_is_bounded_and_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the last reference; where it is taken, filters are asked one by one."""
    monkeypatch.setattr(filteredgets, "_ASKED_PER_WORD", 0)
    keys = [b"%d" % number for number in range(500)]
    lookups = [lookup_of(keys, b"%d" % number) for number in range(8)]
    free = filter_memory._free

    def used() -> int:
        gets = FilteredGets(lookups)
        newest = gets.newest(range(8))
        assert [first_value(newest, key) for key in (keys[1], keys[2])] == [b"0", b"0"]
        return free - filter_memory._free

    gc.disable()
    try:
        # A byte for each of the bits of a filter: there are eight files.
        words = lookups[0].words
        assert words is not None
        assert used() == len(words) * 64
        gc.collect()
        assert filter_memory._free == free
        monkeypatch.setattr(filter_memory, "_free", 0)
        free = 0
        assert used() == 0
    finally:
        gc.enable()


@pytest.mark.parametrize("files", [1, 8, 9, 32, 33, 64])
def test_a_matrix_says_what_the_filters_say(files: int) -> None:
    """Bit by bit, in the narrowest numbers that have a bit for each file."""
    draw = np.random.default_rng(files)
    filters = [draw.integers(0, 1 << 64, 1300, dtype=np.uint64) for _ in range(files)]
    matrix = FilterMatrix.of([(n, words.data) for n, words in enumerate(filters)], files)

    assert matrix is not None
    assert matrix.numbers.itemsize * 8 >= files
    assert matrix.numbers.nbytes == 1300 * 64 * matrix.numbers.itemsize
    for column, words in enumerate(filters):
        bits = np.unpackbits(words.view(np.uint8), bitorder="little")
        numbers = np.asarray(matrix.numbers).astype(np.uint64)
        assert (numbers >> np.uint64(column) & np.uint64(1) == bits).all()


def test_one_file_is_asked_without_its_filter() -> None:
    """Most keys that are asked for are there."""
    lookup = lookup_of([b"other"], b"value")
    assert possible_getters([lookup], b"key") == (lookup.get,)
    assert FilteredGets([lookup, lookup]).newest([1]) == (lookup.get,)
