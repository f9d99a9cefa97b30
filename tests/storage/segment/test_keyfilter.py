"""Laws of the filter of a file's keys: no key is left out, and few others are let pass."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
import pytest

from relstate.storage.paths import segment_path
from relstate.storage.segment import keyfilter
from relstate.storage.segment.keyfilter import KeyFilter, KeyMarks, key_hashes
from relstate.storage.segment.lookup_memory import LookupMemory
from relstate.storage.segment.page import Pages
from support.segments import folder_for_segments, write_pairs


def _hashes(keys: Sequence[bytes]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return key_hashes(pa.array(keys, pa.large_binary()))


def _marks(keys: Sequence[bytes]) -> KeyMarks:
    return KeyMarks.of(_hashes(keys))


@pytest.mark.parametrize("width", [1, 6, 7, 8, 9, 12, 15, 16, 17, 40, 500])
def test_a_key_of_the_file_is_never_left_out(tmp_path: Path, width: int) -> None:
    """Keys of any length, shorter than a word too, in one file or in several filters."""
    draw = np.random.default_rng(width)
    pairs = {draw.bytes(width): b"value" for _ in range(300)} | {b"k": b"", b"k" * 30: b""}
    environment = folder_for_segments(tmp_path)
    record = write_pairs(environment, sorted(pairs.items()))

    key_filter = KeyFilter.of(Pages(environment.map(segment_path(record.name))))

    assert key_filter is not None
    assert key_filter.may_hold(_marks(list(pairs))).all()


def test_few_keys_that_are_not_there_are_let_pass() -> None:
    """One in about a hundred, of keys that differ in their last bytes or in their first ones."""
    numbers = range(20_000)
    for template in ("1234%08d", "1%05d", "%08d and more", "the same beginning of all keys %08d"):
        key_filter = KeyFilter(_hashes([(template % (2 * number)).encode() for number in numbers]))
        absent = _marks([(template % (2 * number + 1)).encode() for number in numbers])

        assert key_filter.may_hold(absent).mean() < 0.02


def test_the_filter_of_an_empty_file_lets_nothing_pass() -> None:
    """There is no key in it."""
    key_filter = KeyFilter(np.empty(0, np.uint64))

    assert not key_filter.may_hold(_marks([b"a long enough key"])).any()
    assert key_filter.may_hold(_marks([])).tolist() == []


def test_the_filters_of_a_process_take_a_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is none for a file if those that are in use leave no room for it."""
    monkeypatch.setattr(keyfilter, "filter_memory", LookupMemory(3000))
    environment = folder_for_segments(tmp_path)
    pairs = [(b"key %04d" % number, b"") for number in range(1000)]
    pages = Pages(environment.map(segment_path(write_pairs(environment, pairs).name)))

    key_filter = KeyFilter.of(pages)
    assert key_filter is not None
    assert key_filter.nbytes == 2048
    assert KeyFilter.of(pages) is None
    del key_filter
    assert KeyFilter.of(pages) is not None


def test_threads_may_make_filters_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more memory is reserved than there is, and all of it is released."""
    memory = LookupMemory(3 * 2048)
    monkeypatch.setattr(keyfilter, "filter_memory", memory)
    environment = folder_for_segments(tmp_path)
    pairs = [(b"key %04d" % number, b"") for number in range(1000)]
    pages = Pages(environment.map(segment_path(write_pairs(environment, pairs).name)))

    with ThreadPoolExecutor(8) as pool:
        made = [future.result() for future in [pool.submit(KeyFilter.of, pages) for _ in range(40)]]

    assert sum(key_filter is not None for key_filter in made) == 3
    del made
    assert memory.reserve(3 * 2048)


def test_the_memory_for_a_damaged_file_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next file can have it."""
    memory = LookupMemory(8)
    monkeypatch.setattr(keyfilter, "filter_memory", memory)

    class Damaged:
        def entries_between(self, *_: object) -> int:
            return 1

        def blocks(self, *_: object) -> None:
            raise ValueError("damaged")

    with pytest.raises(ValueError, match="damaged"):
        KeyFilter.of(cast("Pages", Damaged()))
    assert memory.reserve(8)


def test_the_filter_of_a_range_holds_its_keys_only(tmp_path: Path) -> None:
    """Those of other tables of the file take no memory of it, and are not let pass."""
    environment = folder_for_segments(tmp_path)
    pairs = [
        (b"%s key %06d" % (table, number), b"") for table in (b"a", b"b") for number in range(4000)
    ]
    pages = Pages(environment.map(segment_path(write_pairs(environment, pairs).name)))
    keys = [key for key, _ in pairs]

    key_filter = KeyFilter.of(pages, keys[4000], keys[-1] + b"\0")

    assert key_filter is not None
    assert key_filter.may_hold(_marks(keys[4000:])).all()
    assert key_filter.may_hold(_marks(keys[:4000])).mean() < 0.02
    whole = KeyFilter.of(pages)
    assert whole is not None
    assert key_filter.nbytes == whole.nbytes / 2


def test_memory_that_an_estimate_left_out_is_reserved_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of keys in a range is an estimate: pages with long values have few of them."""
    memory = LookupMemory(3000)
    monkeypatch.setattr(keyfilter, "filter_memory", memory)
    environment = folder_for_segments(tmp_path)
    pairs = [(b"a key %06d" % number, b"v" * 1500) for number in range(1000)]
    pairs += [(b"b key %06d" % number, b"") for number in range(1000)]
    pages = Pages(environment.map(segment_path(write_pairs(environment, pairs).name)))
    assert pages.entries_between(b"b", None) < 100

    key_filter = KeyFilter.of(pages, b"b", None)

    assert key_filter is not None
    assert key_filter.nbytes == 2048
    assert KeyFilter.of(pages, b"b", None) is None
    assert not memory.reserve(3000 - 2048 + 1)
    del key_filter
    assert memory.reserve(3000)
