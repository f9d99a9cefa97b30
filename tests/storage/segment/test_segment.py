"""Laws of segments: immutable, sorted files that LMDB and `page` read alike."""

from __future__ import annotations

import gc
import os
import threading
from bisect import bisect_left
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relstate.storage.errors import CorruptionError
from relstate.storage.paths import segment_path
from relstate.storage.segment.segment import DescriptorShare, SegmentFile
from support.segments import Pair, folder_for_segments, open_file, pairs_of, write_pairs

_PAIRS: list[Pair] = [
    (b"%04d" % number, b"v%d" % number * (number % 9 * 120)) for number in range(0, 3000, 2)
]
_ASKED = [b"0000", b"0001", b"0002", b"2998", b"2999", b"9", b"", b"0998"]


def open_files() -> int:
    """Return how many descriptors this process has."""
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("share", [0, 1], ids=["by pages", "by LMDB"])
def test_point_reads_find_what_was_written(tmp_path: Path, share: int) -> None:
    """With a descriptor for LMDB or without one, for one key or many."""
    environment = folder_for_segments(tmp_path)
    file = open_file(environment, write_pairs(environment, _PAIRS), share=share)
    get, asked = file.getter(), [key for key in _ASKED if key]

    assert [get(key) for key in asked] == [dict(_PAIRS).get(key) for key in asked]
    assert file.get_many(asked) == [
        (key, dict(_PAIRS)[key]) for key in asked if key in dict(_PAIRS)
    ]
    assert file.get_many([]) == []


_BOUND = st.none() | st.integers(0, 3100).map(lambda number: b"%04d" % number)


@pytest.fixture(scope="module")
def both_ways(tmp_path_factory: pytest.TempPathFactory) -> tuple[SegmentFile, SegmentFile]:
    """One segment, opened so that `page` knows its layout, and so that it does not."""
    environment = folder_for_segments(tmp_path_factory.mktemp("segment"))
    record = write_pairs(environment, _PAIRS)
    return open_file(environment, record), open_file(environment, record, is_known=False)


@given(_BOUND, _BOUND, st.booleans())
def test_an_unknown_page_layout_is_read_by_cursor(
    both_ways: tuple[SegmentFile, SegmentFile],
    low: bytes | None,
    high: bytes | None,
    descending: bool,
) -> None:
    """LMDB's own cursor gives what the pages give, within any bounds, from either end."""
    results = []
    for file in both_ways:
        blocks = pairs_of(file.blocks(low, high, 5, descending=descending))
        results.append(
            [pair for block in (blocks[::-1] if descending else blocks) for pair in block]
        )

    assert results[0] == results[1]
    assert results[0] == [
        pair for pair in _PAIRS if (low or b"") <= pair[0] and (high is None or pair[0] < high)
    ]


_ENDS = st.integers(0, 3100).map(lambda number: b"%04d" % number) | st.binary(
    min_size=1, max_size=5
)


@given(st.lists(st.tuples(_ENDS, _ENDS).map(sorted), min_size=1, max_size=20))
def test_entries_between_keys_are_known(
    both_ways: tuple[SegmentFile, SegmentFile], ranges: list[list[bytes]]
) -> None:
    """The answer is whether a range has an entry; true for all where the layout is unknown."""
    lows, highs = (pa.array(ends, pa.large_binary()) for ends in zip(*ranges, strict=True))
    keys = [key for key, _ in _PAIRS]
    first = [bisect_left(keys, low) for low, _ in ranges]
    expected = [
        index < len(keys) and (keys[index] <= high or keys[index].startswith(high))
        for index, (_, high) in zip(first, ranges, strict=True)
    ]
    known, unknown = both_ways

    assert known.has_entries_between(lows, highs).tolist() == expected
    assert unknown.has_entries_between(lows, highs).all()


@pytest.mark.parametrize("descending", [False, True])
def test_blocks_of_a_cursor_are_bounded(tmp_path: Path, descending: bool) -> None:
    """A file of unknown layout is not read into memory whole."""
    environment = folder_for_segments(tmp_path)
    pairs = [(b"%03d" % number, bytes(1 << 20)) for number in range(30)]
    file = open_file(environment, write_pairs(environment, pairs), is_known=False)

    sizes = [len(block) for block in file.blocks(None, None, 100, descending=descending)]

    assert sum(sizes) == 30
    assert max(sizes) <= 9


def test_a_cursor_reads_point_by_point_too(both_ways: tuple[SegmentFile, SegmentFile]) -> None:
    """Point reads of a file of unknown layout use LMDB, with or without a descriptor left."""
    _, unknown = both_ways

    assert unknown.getter()(b"0002") == dict(_PAIRS)[b"0002"]


@pytest.mark.parametrize(
    "read",
    [
        lambda file: list(file.blocks(None, None, 8)),
        lambda file: file.getter()(b"0002"),
        lambda file: file.get_many([b"0002"]),
    ],
    ids=["blocks", "get", "get_many"],
)
@pytest.mark.parametrize("start", [b"x" * 4096, bytes(16) + b"\xde\xc0\xef\xbe\x41\0\0\0"])
def test_a_file_that_is_not_a_segment_is_an_error(
    tmp_path: Path, read: Callable[[SegmentFile], object], start: bytes
) -> None:
    """Text, or a file of another version of LMDB: every read raises an error with its name."""
    environment = folder_for_segments(tmp_path)
    record = write_pairs(environment, _PAIRS)
    path = Path(environment.local_path(segment_path(record.name)))
    path.write_bytes(start + path.read_bytes()[len(start) :])

    with pytest.raises(CorruptionError, match=record.name):
        read(open_file(environment, record))


def test_a_damaged_tree_is_an_error(tmp_path: Path) -> None:
    """The error names the file, and LMDB, which would crash, does not open it."""
    environment = folder_for_segments(tmp_path)
    record = write_pairs(environment, _PAIRS)
    path = Path(environment.local_path(segment_path(record.name)))
    contents = bytearray(path.read_bytes())
    for page in range(2, len(contents) // 4096):
        contents[page * 4096 + 10] ^= 0x0F
    path.write_bytes(contents)
    file = open_file(environment, record)

    with pytest.raises(CorruptionError, match=f"{record.name}.*kind"):
        list(file.blocks(None, None, 8))


def test_files_close_when_they_are_released(tmp_path: Path) -> None:
    """Their descriptors and their share of them are free again."""
    environment = folder_for_segments(tmp_path)
    record = write_pairs(environment, _PAIRS)
    gc.collect()
    before = open_files()
    share = DescriptorShare(1)

    for _ in range(3):
        contents = environment.map(segment_path(record.name))
        file = SegmentFile(environment.local_path(segment_path(record.name)), contents, share)
        assert len(list(file.blocks(None, None, 8))) > 1
        assert open_files() == before
        get = file.getter()
        assert open_files() == before + 1
        del file
        assert get(b"0002") is not None
        del get
        assert open_files() == before


def test_a_file_that_is_open_already_is_read_all_the_same(tmp_path: Path) -> None:
    """LMDB opens a file once per process; under a second path its pages are read."""
    environment = folder_for_segments(tmp_path)
    record = write_pairs(environment, _PAIRS)
    first, second = (open_file(environment, record) for _ in range(2))

    for file in (first, second, first):
        assert file.getter()(b"0002") == dict(_PAIRS)[b"0002"]
        assert file.get_many([b"0002"]) == [(b"0002", dict(_PAIRS)[b"0002"])]


def test_threads_read_one_file_side_by_side(tmp_path: Path) -> None:
    """Each thread finds every entry, in any order of their calls."""
    environment = folder_for_segments(tmp_path)
    file = open_file(environment, write_pairs(environment, _PAIRS))
    wrong: list[object] = []

    def read(turn: int) -> None:
        get = file.getter()
        for key, value in _PAIRS[turn::4]:
            if get(key) != value or file.get_many([key]) != [(key, value)]:
                wrong.append(key)
        if [pair for block in pairs_of(file.blocks(None, None, 3)) for pair in block] != _PAIRS:
            wrong.append("blocks")

    in_threads(read, 4)

    assert wrong == []


def in_threads(work: Callable[[int], None], count: int) -> None:
    """Run some work in several threads at once."""
    threads = [threading.Thread(target=work, args=(turn,)) for turn in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
