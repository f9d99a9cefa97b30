"""The filters after the pages of a segment are read as written, and nothing beyond the file."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

import lmdb
import numpy as np
import pyarrow as pa
import pytest
import xxhash

from relstate.storage.errors import CorruptionError
from relstate.storage.paths import segment_path
from relstate.storage.segment import writer
from relstate.storage.segment.filterblock import filter_block, read_filters
from relstate.storage.segment.keyfilter import KeyFilter, KeyMarks, key_hashes
from relstate.storage.segment.page import tree_of
from relstate.storage.segment.segment import DescriptorShare, SegmentFile
from support.segments import folder_for_segments, full_key, open_file, write_pairs


def _marks(keys: list[bytes]) -> KeyMarks:
    return KeyMarks.of(key_hashes(pa.array(keys, pa.large_binary())))


def _file(path: Path, counts: Mapping[int, int]) -> tuple[SegmentFile, dict[int, list[bytes]]]:
    """Return a file with numbers of keys of some tables, and the keys by table id."""
    keys = {
        table_id: [full_key(b"%06d" % number, table_id=table_id) for number in range(count)]
        for table_id, count in counts.items()
    }
    environment = folder_for_segments(path)
    pairs = [(key, b"value") for table_keys in keys.values() for key in table_keys]
    return open_file(environment, write_pairs(environment, pairs)), keys


def test_each_table_with_many_keys_has_a_filter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one file with several tables; a table with few keys has none."""
    monkeypatch.setattr(writer, "LEAST_FILTERED_KEYS", 100)
    file, keys = _file(tmp_path, {1: 300, 2: 99, 3: 100, 20_000: 500})

    assert list(file.key_filters) == [1, 3, 20_000]
    for table_id, key_filter in file.key_filters.items():
        assert key_filter.may_hold(_marks(keys[table_id])).all()
    assert file.key_filters[1].may_hold(_marks(keys[20_000])).mean() < 0.1


def test_a_file_of_few_keys_has_the_bytes_of_its_pages_only(tmp_path: Path) -> None:
    """A small commit takes no more room than its pages."""
    file, _ = _file(tmp_path, {1: writer.LEAST_FILTERED_KEYS - 1})

    assert not file.key_filters
    assert tree_of(file.contents).end == len(file.contents)


def test_lmdb_reads_a_file_with_filters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are after its last page, and are nothing to it."""
    monkeypatch.setattr(writer, "LEAST_FILTERED_KEYS", 1)
    file, keys = _file(tmp_path, {1: 3000})
    database = lmdb.open(file.path, subdir=False, readonly=True, lock=False)
    with database, database.begin() as transaction:
        assert [key for key, _ in transaction.cursor()] == keys[1]


def test_another_file_has_no_filters(tmp_path: Path) -> None:
    """What follows the pages of a file without the magic number is not read."""
    file, _ = _file(tmp_path, {1: 10})
    contents = np.concatenate([file.contents, np.arange(100, dtype=np.uint8)])

    assert not SegmentFile("path", contents, DescriptorShare(0)).key_filters
    assert read_filters(contents, len(contents)) == {}


@pytest.mark.parametrize("cut", [1, 8, 16, 100])
def test_filters_that_are_not_within_the_file_are_damage(
    cut: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a truncated file, or of numbers that are too large; the error names the file."""
    monkeypatch.setattr(writer, "LEAST_FILTERED_KEYS", 1)
    file, _ = _file(tmp_path, {1: 100, 2: 100})
    start = tree_of(file.contents).end
    damaged = [file.contents[:-cut]]
    for place in (8, 20):
        damaged.append(file.contents.copy())
        damaged[-1][start + place : start + place + 4] = 0xFF

    for contents in damaged:
        with pytest.raises(CorruptionError, match=r"the file's path: a page is damaged: .*filter"):
            assert SegmentFile("the file's path", contents, DescriptorShare(0)).key_filters


def test_equal_filters_have_equal_bytes() -> None:
    """And those that are read are those that were written."""
    filters = {
        number: KeyFilter.of(key_hashes(pa.array([b"%d" % number] * number, pa.large_binary())))
        for number in (1, 7, 300)
    }
    contents = np.concatenate(filter_block(filters))

    read = read_filters(contents, 0)
    assert {number: key_filter.words.tolist() for number, key_filter in read.items()} == {
        number: key_filter.words.tolist() for number, key_filter in filters.items()
    }
    assert np.concatenate(filter_block(read)).tobytes() == contents.tobytes()
    assert filter_block({}) == []


def test_superseded_rows_do_not_change_the_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A filter has each key once, in whatever order and however often they were added."""
    monkeypatch.setattr(writer, "LEAST_FILTERED_KEYS", 1)
    environment = folder_for_segments(tmp_path)
    keys = [full_key(b"%03d" % number) for number in range(200)]
    written = pa.array([*keys[::-1], *keys[:50]], pa.large_binary())
    values = pa.array([b"value"] * len(written), pa.large_binary())
    order = np.arange(199, -1, -1)
    name = "0" * 32 + "-000001"
    record = writer.write_segment(environment, name, (written, values), order, ())
    plain = write_pairs(environment, [(key, b"value") for key in keys])

    assert environment.read(segment_path(name)) == environment.read(segment_path(plain.name))
    assert record.hash == plain.hash


def test_the_bytes_are_those_of_the_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As docs/format.md says them, step by step."""
    monkeypatch.setattr(writer, "LEAST_FILTERED_KEYS", 1)
    file, keys = _file(tmp_path, {1: 700, 3: 5})
    expected = b"RLTSFLTR" + struct.pack("<II", 2, 0)
    words_of_tables = []
    for table_id, count in ((1, 104), (3, 1)):
        words = [0] * count
        for key in keys[table_id]:
            digest = xxhash.xxh64_intdigest(key, 0)
            for shift in (0, 6, 12, 18):
                words[(digest >> 32) * count >> 32] |= 1 << (digest >> shift & 63)
        expected += struct.pack("<II", table_id, count)
        words_of_tables += words
    expected += struct.pack(f"<{len(words_of_tables)}Q", *words_of_tables)

    assert file.contents[tree_of(file.contents).end :].tobytes() == expected
