"""Laws of the index of a file's keys: it finds what a search in the pages finds."""

from __future__ import annotations

import gc
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from relstate.storage.errors import CorruptionError
from relstate.storage.paths import segment_path
from relstate.storage.segment import keyindex
from relstate.storage.segment.keyindex import KeyIndex, LookupIndex
from relstate.storage.segment.lookup_memory import LookupMemory, filter_memory, index_memory
from relstate.storage.segment.page import Pages
from relstate.storage.segment.search import find_keys
from relstate.storage.segment.segment import SegmentFile
from support.examples import examples
from support.segments import folder_for_segments, open_file, write_pairs


def _pages(path: Path, keys: list[bytes]) -> Pages:
    environment = folder_for_segments(path)
    record = write_pairs(environment, [(key, b"value of " + key) for key in keys])
    return Pages(environment.map(segment_path(record.name)))


def _key(draw: random.Random, width: int, prefix: bytes) -> bytes:
    """Return a key of which few bytes vary, at the beginning, in the middle and at the end."""
    content = bytearray(prefix.ljust(width, b"\x80"))
    for place in {2 % width, width // 2, width - 2, width - 1}:
        content[place] = draw.randrange(256)
    return bytes(content)


@pytest.mark.parametrize("width", [8, 9, 11, 16, 18, 31, 32])
@pytest.mark.parametrize("seed", range(examples(4)))
def test_an_index_finds_what_a_search_in_the_pages_finds(
    tmp_path: Path, width: int, seed: int
) -> None:
    """Keys that are there, others, and others that differ only where the file's keys do not.

    Many of them, and few: less than a 64th of the file's.
    """
    draw = random.Random(f"{width} {seed}")
    keys = sorted({_key(draw, width, b"\x01") for _ in range(draw.choice([1, 30, 2000]))})
    pages = _pages(tmp_path, keys)
    index = KeyIndex.of(pages)
    assert index is not None
    drawn = {_key(draw, width, b"\x01") for _ in range(200)}
    drawn |= {_key(draw, width, b"\x02") for _ in range(20)}
    drawn |= {b"\x02" + key[1:] for key in keys[:20]}
    asked = pa.array(sorted(drawn.union(draw.sample(keys, min(100, len(keys))))), pa.large_binary())
    rows = np.sort(np.array(draw.sample(range(len(asked)), len(asked) // 2), np.int64))

    ends = [keys[0], keys[-1], b"\0" * width, b"\xff" * width]
    cases = [(asked, rows), (asked, rows[::9]), (pa.array(ends, pa.large_binary()), np.arange(4))]

    for searched, some_rows in cases:
        indices, nodes = index.find(searched, some_rows)
        expected, entries = find_keys(pages, searched.take(pa.array(some_rows)))

        assert indices.tolist() == expected.tolist()
        assert (pages.entries(nodes).key_starts == entries.key_starts).all()


@pytest.mark.parametrize(
    "keys",
    [
        [],
        [b"\x01short"],
        [b"\x01of-a-length", b"\x01of-another-length"],
        [b"\x01" + b"x" * 32],
        [bytes([byte]) * 12 for byte in (1, 2)],
    ],
    ids=["none", "short", "several lengths", "long", "too many bytes differ"],
)
def test_other_files_have_no_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: list[bytes]
) -> None:
    """They take no memory, and no second attempt."""
    memory = LookupMemory(1000)
    monkeypatch.setattr(keyindex, "index_memory", memory)
    pages = _pages(tmp_path, keys)
    lookup_index = LookupIndex()

    assert lookup_index.for_lookups(pages, 1000) is None
    monkeypatch.setattr(keyindex, "KeyIndex", None)
    assert lookup_index.for_lookups(pages, 1000) is None
    assert memory.reserve(1000)


def test_an_index_leaves_the_memory_of_filters(tmp_path: Path) -> None:
    """Otherwise a process that looked many keys up would have none for its later writes."""
    indexes, filters = index_memory._free, filter_memory._free
    index = KeyIndex.of(_pages(tmp_path, [bytes([byte]) * 8 for byte in range(1, 101)]))

    assert index is not None
    assert index_memory._free < indexes
    assert filter_memory._free == filters


@pytest.mark.parametrize("width", [8, 11, 16, 30])
def test_eight_bytes_of_a_key_may_differ(tmp_path: Path, width: int) -> None:
    """In whatever words they are, each counts once."""
    draw = random.Random(width)
    keys = sorted(draw.randbytes(8).rjust(width, b"\x01") for _ in range(300))
    index = KeyIndex.of(_pages(tmp_path, keys))

    assert index is not None
    indices, _ = index.find(pa.array(keys, pa.large_binary()), np.arange(300))
    assert len(indices) == 300


def test_an_index_is_made_after_many_lookups(tmp_path: Path) -> None:
    """Of as large a part of the file's keys as pays; then it is there for few, too."""
    pages = _pages(tmp_path, [b"\x01%010d" % number for number in range(3000)])
    part = 3000 // keyindex._ENTRIES_PER_LOOKUP
    lookup_index = LookupIndex()

    assert lookup_index.for_lookups(pages, part // 2) is None
    assert lookup_index.index is None
    index = lookup_index.for_lookups(pages, part // 2 + 2)
    assert index is not None
    assert lookup_index.for_lookups(pages, 1) is index
    assert lookup_index.index is index


def test_the_indexes_of_a_process_share_a_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an index takes is free again when nobody has it."""
    memory = LookupMemory(1500 * 12)
    monkeypatch.setattr(keyindex, "index_memory", memory)
    pages = _pages(tmp_path, [b"\x01%010d" % number for number in range(1000)])
    index = KeyIndex.of(pages)

    assert index is not None
    assert KeyIndex.of(pages) is None
    del index
    gc.collect()
    assert KeyIndex.of(pages) is not None


def _file(path: Path, count: int) -> SegmentFile:
    environment = folder_for_segments(path)
    pairs = [(b"\x01%010d" % number, b"%d" % number) for number in range(count)]
    return open_file(environment, write_pairs(environment, pairs))


def test_a_file_finds_the_same_with_and_without_its_index(tmp_path: Path) -> None:
    """The keys at some rows, ascending or not."""
    file = _file(tmp_path, 500)
    asked = pa.array([b"\x01%010d" % (3 * number) for number in range(300)], pa.large_binary())
    rows = np.array([5, 0, 299, 166, 167, 4], np.int64)
    before = file.find_keys(asked, rows)
    assert not file.has_index_for(1)
    assert file.has_index_for(500)
    after = file.find_keys(asked, rows)
    shorter = pa.array([b"\x01%09d" % 7], pa.large_binary())

    assert len(file.find_keys(shorter, np.arange(1))[0]) == 0
    assert before[0].tolist() == after[0].tolist() == [0, 1, 3, 5]
    values = [matches[1].value_bytes().to_pylist() for matches in (before, after)]
    assert values[0] == values[1] == [b"15", b"0", b"498", b"12"]


def test_keys_in_no_order_are_damage(tmp_path: Path) -> None:
    """The error names the file."""
    environment = folder_for_segments(tmp_path)
    keys = [b"\x01%010d" % number for number in range(100)]
    record = write_pairs(environment, [(key, b"value") for key in keys])
    path = Path(environment.local_path(segment_path(record.name)))
    path.write_bytes(path.read_bytes().replace(keys[50], keys[7]))
    file = open_file(environment, record)

    with pytest.raises(CorruptionError, match=record.name):
        file.has_index_for(100)
    assert file.is_damaged
