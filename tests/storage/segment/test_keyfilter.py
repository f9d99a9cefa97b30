"""Laws of the filter of keys: no key is left out, and few others are let pass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from xxhash import xxh64_intdigest

from relstate.storage.segment import keyfilter
from relstate.storage.segment.keyfilter import (
    SEED,
    WORD_SHIFT,
    GrowingFilter,
    KeyFilter,
    KeyMarks,
    key_hashes,
    mark_of,
    words_for,
)

_KEYS = st.lists(st.binary(min_size=1, max_size=511), unique=True, max_size=40)


def _hashes(keys: Sequence[bytes]) -> NDArray[np.uint64]:
    return key_hashes(pa.array(keys, pa.large_binary()))


def _marks(keys: Sequence[bytes]) -> KeyMarks:
    return KeyMarks.of(_hashes(keys))


@given(keys=_KEYS, others=_KEYS)
def test_a_key_of_the_file_is_never_left_out(keys: list[bytes], others: list[bytes]) -> None:
    """Keys of any length; asked all at once or one by one, with the same answers."""
    key_filter = KeyFilter.of(_hashes(keys))
    assert key_filter.may_hold(_marks(keys)).all()

    words = key_filter.words.data
    answers = []
    for key in others:
        fraction, bits = mark_of(key)
        answers.append(words[fraction * len(words) >> WORD_SHIFT] & bits == bits)
    assert answers == key_filter.may_hold(_marks(others)).tolist()


@pytest.mark.parametrize("width", [1, 3, 8, 11, 16, 31, 32, 41, 129, 511])
def test_many_keys_have_the_hashes_of_single_ones(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hash is XXH64, whether few keys are hashed or many, in several steps."""
    draw = np.random.default_rng(width)
    keys = [draw.bytes(width) for _ in range(50)] + [draw.bytes(width // 2 + 1)]
    expected = [xxh64_intdigest(key, SEED) for key in keys]
    assert _hashes(keys).tolist() == expected

    monkeypatch.setattr(keyfilter, "_FEW_KEYS", 0)
    monkeypatch.setattr(keyfilter, "_KEYS_AT_ONCE", 16)
    assert _hashes(keys).tolist() == expected


@pytest.mark.parametrize(
    "template", ["1234%08d", "1%05d", "%08d and more", "the same beginning of all keys %08d"]
)
def test_few_keys_that_are_not_there_are_let_pass(template: str) -> None:
    """One in forty, of keys that differ in their last bytes or in their first ones."""
    numbers = range(20_000)
    key_filter = KeyFilter.of(_hashes([(template % (2 * number)).encode() for number in numbers]))
    absent = _marks([(template % (2 * number + 1)).encode() for number in numbers])

    assert key_filter.may_hold(absent).mean() < 0.025


def test_a_filter_takes_at_most_1_3_bytes_per_key() -> None:
    """And at least what keeps the promise of few that are let pass; one word at least."""
    for keys in (4096, 5000, 10_000, 65_536, 100_001, 931_000, 1 << 20, 4_000_000):
        assert 9.25 <= words_for(keys) * 64 / keys <= 10.45
    assert words_for(0) == words_for(1) == 1


def test_files_of_about_one_size_have_filters_of_one_size() -> None:
    """There are eight sizes between one number of keys and its double."""
    assert len({words_for(keys) for keys in range(100_000, 200_000, 100)}) <= 9


def test_the_filter_of_no_keys_lets_nothing_pass() -> None:
    """There is no key in it."""
    key_filter = KeyFilter.of(np.empty(0, np.uint64))

    assert not key_filter.may_hold(_marks([b"a long enough key"])).any()
    assert key_filter.may_hold(_marks([])).tolist() == []


def test_a_growing_filter_has_what_was_added() -> None:
    """In any number of steps, and is full once it has as many keys as it is made for."""
    keys = [b"key %d" % number for number in range(1000)]
    growing = GrowingFilter(1024)
    growing.add(_marks(keys[:500]))
    assert growing.may_hold(_marks(keys)).mean() < 0.51
    growing.add(_marks(keys[500:]))

    assert growing.may_hold(_marks(keys)).all()
    assert not growing.is_full
    growing.add(_marks(keys[:24]))
    assert growing.is_full
