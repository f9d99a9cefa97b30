"""The laws of the sizes of tables."""

from __future__ import annotations

import pyarrow as pa

from relstate.storage import Store
from relstate.storage.figures import table_sizes
from support.views import new_view


def test_every_table_has_a_size_and_a_kind(store: Store) -> None:
    """Tables, views, their state and indexes are told apart; internal ones name their owner."""
    store.create_table("t", "k BIGINT, n BIGINT", primary_key=["k"])
    store.create_index("t", "by_n", ["n"])
    store.view_catalog.create(new_view(store, "v", "t"))

    kinds = {size.name: (size.kind, size.owner) for size in table_sizes(store.state)}

    assert kinds == {
        "t": ("table", None),
        "__internal_index_1_by_n": ("index", "t"),
        "v": ("view", None),
        "__internal_v_1": ("state", "v"),
        "__internal_v_2": ("state", "v"),
    }
    assert [size.is_internal for size in table_sizes(store.state)] == [
        True,
        True,
        True,
        False,
        False,
    ]


def test_a_size_is_what_a_read_plan_says(store: Store) -> None:
    """Bytes, entries and files are those that a read of the table opens, after a truncation too."""
    store.create_table("t", "k BIGINT, n BIGINT", primary_key=["k"])
    store.create_table("u", "k BIGINT", primary_key=["k"])
    for first in range(4):
        store.write("t", pa.table({"k": [first, first + 1], "n": [1, 1]}))
    store.write("u", pa.table({"k": [1, 2, 3]}))
    store.delete("u", pa.table({"k": [3]}))
    for _ in range(2):
        for size in table_sizes(store.state):
            plan = store.read_plan(size.name)
            assert size.stored_bytes == plan.stored_bytes
            assert size.entries == plan.stored_rows
            assert size.files == len(plan.segments)
            assert size.data_epoch == store.state.table(size.name).data_epoch
        assert {size.name: size.rows for size in table_sizes(store.state)}["u"] == 2
        store.truncate("t")
    assert {size.name: size.rows for size in table_sizes(store.state)}["t"] == 0
