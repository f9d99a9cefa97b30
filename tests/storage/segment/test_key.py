"""Laws of full keys: table, vnode, primary key."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relstate.storage.codec.ragged import parts_of
from relstate.storage.segment.key import (
    LEAST_PREFIX_BYTES,
    KeyPrefix,
    successor,
    table_id_of,
    table_ids_at,
)

_MOST_ID = (1 << 32) - 1
_EDGES = st.sampled_from([0, 127, 128, 16_383, 16_384, _MOST_ID])
_TABLE_IDS = _EDGES | st.integers(0, 300) | st.integers(0, _MOST_ID)
_COUNTS = st.sampled_from([1, 256, 257, 32_768])


@pytest.mark.parametrize(
    ("table_id", "vnode_count", "vnode", "prefix"),
    [
        (1, 256, 222, "01 de"),
        (127, 256, 0, "7f 00"),
        (128, 256, 255, "80 80 ff"),
        (16_383, 256, 1, "bf ff 01"),
        (16_384, 256, 1, "c0 00 00 40 00 01"),
        (_MOST_ID, 256, 1, "c0 ff ff ff ff 01"),
        (1, 257, 222, "01 00 de"),
        (300, 32_768, 32_767, "81 2c 7f ff"),
    ],
)
def test_format(table_id: int, vnode_count: int, vnode: int, prefix: str) -> None:
    """These bytes are on disk and never change."""
    assert KeyPrefix(table_id, vnode_count).of(vnode).hex(" ") == prefix


@given(_TABLE_IDS, _COUNTS, st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=9)), max_size=8))
def test_a_full_key_is_its_parts_one_after_another(
    table_id: int, vnode_count: int, rows: list[tuple[float, bytes]]
) -> None:
    """A prefix of one size for all rows of the table, then the primary key; each can be read."""
    prefix = KeyPrefix(table_id, vnode_count)
    vnodes = [int(share * (vnode_count - 1)) for share, _ in rows]
    primary_keys = [key for _, key in rows]

    full_keys = prefix.compose(
        np.array(vnodes, np.uint16), pa.array(primary_keys, pa.large_binary())
    )

    keys = full_keys.to_pylist()
    assert keys == [prefix.of(vnode) + key for vnode, key in zip(vnodes, primary_keys, strict=True)]
    assert [key[prefix.size :] for key in keys] == primary_keys
    assert [prefix.vnode_of(key) for key in keys] == vnodes == prefix.vnodes_in(full_keys).tolist()
    assert [table_id_of(key) for key in keys] == [table_id] * len(keys)
    assert prefix.size >= LEAST_PREFIX_BYTES


@given(st.lists(st.tuples(_TABLE_IDS, st.integers(0, 256), st.binary(max_size=3)), min_size=1))
def test_full_keys_sort_by_table_then_vnode(rows: list[tuple[int, int, bytes]]) -> None:
    """Whatever the lengths of their prefixes; a vnode past the last one is above all of a table."""
    prefixes = [KeyPrefix(table_id, 256) for table_id, _, _ in rows]
    keys = [
        prefix.of(vnode) + (key if vnode < 256 else b"")
        for prefix, (_, vnode, key) in zip(prefixes, rows, strict=True)
    ]

    by_key = sorted(range(len(rows)), key=lambda row: keys[row])

    assert [rows[row][:2] for row in by_key] == sorted(row[:2] for row in rows)
    inside = [row for row in range(len(rows)) if rows[row][1] < 256]
    data, offsets = parts_of(pa.array(keys, pa.large_binary()))
    starts = offsets[:-1][inside]
    if inside:
        padded = np.append(data, np.zeros(8, np.uint8))
        assert table_ids_at(padded, starts).tolist() == [rows[row][0] for row in inside]


@given(st.binary(max_size=6), st.binary(max_size=6))
def test_the_successor_of_a_prefix_is_the_least_bytes_above_it(prefix: bytes, key: bytes) -> None:
    """Bytes with the prefix are below the successor; other bytes above the prefix are not."""
    above = successor(prefix)

    if above is None:
        assert not prefix.strip(b"\xff")
    elif key >= prefix:
        assert (key < above) == key.startswith(prefix)
