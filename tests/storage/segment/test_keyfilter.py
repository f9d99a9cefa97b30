"""Laws of the filter of a file's keys: no key is left out, and few others are let pass."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from relstate.storage.paths import segment_path
from relstate.storage.segment import keyfilter
from relstate.storage.segment.keyfilter import KeyFilter, has_room, key_hashes
from relstate.storage.segment.page import Pages
from support.segments import folder_for_segments, write_pairs


def _hashes(keys: Sequence[bytes]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return key_hashes(pa.array(keys, pa.large_binary()))


@pytest.mark.parametrize("width", [1, 6, 7, 8, 9, 12, 15, 16, 17, 40, 500])
def test_a_key_of_the_file_is_never_left_out(tmp_path: Path, width: int) -> None:
    """Keys of any length, shorter than a word too, in one file or in several filters."""
    draw = np.random.default_rng(width)
    pairs = {draw.bytes(width): b"value" for _ in range(300)} | {b"k": b"", b"k" * 30: b""}
    environment = folder_for_segments(tmp_path)
    record = write_pairs(environment, sorted(pairs.items()))

    key_filter = KeyFilter.of(Pages(environment.map(segment_path(record.name))))

    assert key_filter.may_hold(_hashes(list(pairs))).all()


def test_few_keys_that_are_not_there_are_let_pass() -> None:
    """One in about seventy, of keys that differ in their last bytes or in their first ones."""
    numbers = range(20_000)
    for template in ("1234%08d", "%08d and more", "the same beginning of all keys %08d"):
        key_filter = KeyFilter(_hashes([(template % (2 * number)).encode() for number in numbers]))
        absent = _hashes([(template % (2 * number + 1)).encode() for number in numbers])

        assert key_filter.may_hold(absent).mean() < 0.04


def test_the_filter_of_an_empty_file_lets_nothing_pass() -> None:
    """There is no key in it."""
    key_filter = KeyFilter(np.empty(0, np.uint64))

    assert not key_filter.may_hold(_hashes([b"a long enough key"])).any()
    assert key_filter.may_hold(_hashes([])).tolist() == []


def test_the_filters_of_a_process_take_a_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is room for another only if those that are in use leave it."""
    monkeypatch.setattr(keyfilter, "_live_filters", weakref.WeakSet())
    monkeypatch.setattr(keyfilter, "_MOST_BYTES", 5000)

    assert not has_room(3000)
    assert has_room(1000)
    key_filter = KeyFilter(np.arange(1000, dtype=np.uint64))
    assert key_filter.nbytes <= 4 * 1000
    assert not has_room(1500)
    del key_filter
    assert has_room(1500)
