"""Laws of the merge in key order: streams that are sorted become one that is."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relstate.storage.codec.ragged import Bytes
from relstate.storage.table.keyorder import merge_in_key_order

# Of every stream its keys, and the sizes of its batches; no key is in two streams.
_KEYS = st.lists(st.integers(0, 500), unique=True, max_size=60)
_SIZES = st.lists(st.integers(0, 9), min_size=1, max_size=4).filter(any)


def key_bytes(batch: pa.RecordBatch) -> Bytes:
    """Return the key of every row: four digits."""
    return pa.array([b"%04d" % key for key in batch.column("key").to_pylist()], pa.large_binary())


def batches(keys: list[int], sizes: list[int]) -> Iterator[pa.RecordBatch]:
    """Yield rows with these keys in batches of these sizes, again and again."""
    start = 0
    for size in itertools.cycle(sizes):
        if start >= len(keys):
            return
        part = keys[start : start + size]
        yield pa.record_batch(
            {"key": pa.array(part, pa.int64()), "text": pa.array(map(str, part), pa.string())}
        )
        start += size


@given(_KEYS, st.integers(1, 5), _SIZES, st.booleans())
def test_rows_of_all_streams_come_in_key_order(
    keys: list[int], count: int, sizes: list[int], descending: bool
) -> None:
    """Every row once and whole, however streams are cut, empty batches among them."""
    streams = [
        batches(sorted(keys[turn::count], reverse=descending), sizes) for turn in range(count)
    ]

    merged = list(merge_in_key_order(streams, key_bytes, descending=descending))

    found = [row for batch in merged for row in batch.to_pylist()]
    assert [row["key"] for row in found] == sorted(keys, reverse=descending)
    assert all(row["text"] == str(row["key"]) for row in found)
    assert all(batch.num_rows for batch in merged)


def test_no_streams_have_no_rows() -> None:
    """Neither none, nor empty ones."""
    assert list(merge_in_key_order([], key_bytes, descending=False)) == []
    assert list(merge_in_key_order([iter(())], key_bytes, descending=True)) == []


@pytest.mark.parametrize("descending", [False, True])
def test_wide_rows_are_not_heaped_up(descending: bool) -> None:
    """What is read ahead is bounded in bytes, not only in rows, over all streams together."""
    read = 0

    def wide(stream: int) -> Iterator[pa.RecordBatch]:
        nonlocal read
        for turn in range(60):
            read += 1 << 20
            key = (60 - turn if descending else turn) * 64 + stream
            yield pa.record_batch({"key": [key], "text": [bytes(1 << 20)]})

    merged = merge_in_key_order(
        [wide(stream) for stream in range(64)], key_bytes, descending=descending
    )

    handed_out = 0
    for batch in itertools.islice(merged, 20):
        handed_out += batch.nbytes
        assert read - handed_out < 200 << 20
