"""Laws of full keys: table, vnode, primary key."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from relstate.storage.segment.key import compose, prefix_of, successor, vnode_of

_TABLE_IDS, _VNODES = st.integers(0, (1 << 32) - 1), st.integers(0, 32_767)


@given(_TABLE_IDS, st.lists(st.tuples(_VNODES, st.binary(max_size=9)), max_size=8))
def test_a_full_key_is_its_parts_one_after_another(
    table_id: int, rows: list[tuple[int, bytes]]
) -> None:
    """Table in 4 bytes, vnode in 2, both big endian, then the primary key."""
    vnodes = np.array([vnode for vnode, _ in rows], np.uint16)
    primary_keys = pa.array([key for _, key in rows], pa.large_binary())

    keys = compose(table_id, vnodes, primary_keys).to_pylist()

    assert keys == [
        table_id.to_bytes(4, "big") + vnode.to_bytes(2, "big") + key for vnode, key in rows
    ]
    assert [vnode_of(key) for key in keys] == [vnode for vnode, _ in rows]


@given(_TABLE_IDS, _VNODES, st.binary(max_size=9))
def test_the_prefixes_of_a_vnode_and_of_the_next_enclose_its_keys(
    table_id: int, vnode: int, primary_key: bytes
) -> None:
    """A vnode's keys are between its prefix and that of the next vnode, also for the last one."""
    key = compose(
        table_id, np.array([vnode], np.uint16), pa.array([primary_key], pa.large_binary())
    )

    assert prefix_of(table_id, vnode) <= key[0].as_py() < prefix_of(table_id, vnode + 1)


@given(st.binary(max_size=6), st.binary(max_size=6))
def test_the_successor_of_a_prefix_is_the_least_bytes_above_it(prefix: bytes, key: bytes) -> None:
    """Bytes with the prefix are below the successor; other bytes above the prefix are not."""
    above = successor(prefix)

    if above is None:
        assert not prefix.strip(b"\xff")
    elif key >= prefix:
        assert (key < above) == key.startswith(prefix)
