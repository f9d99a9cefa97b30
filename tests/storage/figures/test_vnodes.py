"""The laws of the sizes of vnodes."""

from __future__ import annotations

import pyarrow as pa

from relstate.storage import Store
from relstate.storage.figures import vnode_sizes


def test_visible_rows_are_counted_where_they_are(any_store: Store) -> None:
    """Each vnode has as many rows as a scan of it returns: no replaced and no deleted ones."""
    any_store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
    any_store.write("t", pa.table({"k": list(range(300)), "v": ["x"] * 300}))
    any_store.write("t", pa.table({"k": list(range(100)), "v": ["xyz"] * 100}))
    any_store.delete("t", pa.table({"k": list(range(50, 60))}))
    plan = any_store.read_plan("t")

    sizes = vnode_sizes(plan)

    assert sum(sizes.rows) == any_store.table("t").count() == 290
    for vnode, rows in enumerate(sizes.rows):
        batches = plan.read((range(vnode, vnode + 1),))
        assert rows == sum(batch.num_rows for batch in batches)
    pairs = zip(sizes.rows, sizes.stored_bytes, strict=True)
    assert all((rows > 0) == (size > 0) for rows, size in pairs)


def test_skew_is_the_fullest_vnode_over_the_average(store: Store) -> None:
    """One row alone is as many times the average as there are vnodes; no row has no skew."""
    store.create_table("t", "k BIGINT", primary_key=["k"])
    assert vnode_sizes(store.read_plan("t")).skew == 0
    store.write("t", pa.table({"k": [1]}))
    assert vnode_sizes(store.read_plan("t")).skew == 7
