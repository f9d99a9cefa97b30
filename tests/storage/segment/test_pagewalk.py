"""The lookup of a key in a segment of which parts are read."""

from __future__ import annotations

import struct
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pytest

from relstate.storage.segment.datafile import data_file
from relstate.storage.segment.pagewalk import find


def content_of(entries: dict[bytes, bytes]) -> bytes:
    """Return a segment with some entries."""
    keys, values = zip(*sorted(entries.items()), strict=True) if entries else ((), ())
    key_array, value_array = (pa.array(column, pa.large_binary()) for column in (keys, values))
    parts = data_file(key_array, value_array, np.arange(len(entries)))
    return b"".join(bytes(part) for part in parts)


@pytest.mark.parametrize("count", [0, 1, 40, 5000, 30_000])
def test_every_key_is_found_by_few_reads(count: int) -> None:
    """Also with large values; keys between, before and after the entries are not found."""
    entries = {
        b"k%07d" % number: b"v%d" % number * (3000 if number % 9000 == 7 else 9)
        for number in range(count)
    }
    content = content_of(entries)
    reads: list[tuple[int, int]] = []

    def read(start: int, stop: int) -> bytes:
        reads.append((start, stop))
        return content[start:stop]

    for number in {*range(min(count, 50)), *range(0, count, 997), 7, 9007}:
        key = b"k%07d" % number
        reads.clear()
        assert find(read, key) == entries.get(key)
        assert len(reads) <= 5
        assert all(stop - start <= 8192 for start, stop in reads[:4])
        assert find(read, key + b"x") is None
    assert find(read, b"a") is find(read, b"z") is None


def test_damage_is_found_or_gives_other_bytes() -> None:
    """Nothing reads without an end, or outside of the file."""
    content = content_of({b"k%05d" % number: b"v" * 20 for number in range(3000)})
    random = np.random.default_rng(5)
    for _ in range(300):
        damaged = np.frombuffer(content, np.uint8).copy()
        damaged[random.integers(0, len(damaged), 2000)] ^= 255
        data = damaged.tobytes()
        with suppress(ValueError, IndexError, struct.error):
            find(lambda start, stop, data=data: data[start:stop], b"k01234")  # type: ignore[misc]
