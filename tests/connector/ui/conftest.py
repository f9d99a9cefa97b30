"""Stores for the tests of pages: one with views, whose plans are invented, and its page."""

from __future__ import annotations

import pyarrow as pa
import pytest

from relstate.storage import RefreshFigures, Store
from support.refreshes import refreshed
from support.views import new_view, progressed, refresh


@pytest.fixture
def viewed(store: Store) -> Store:
    """A table ``t`` with an index, a view ``v`` of it that was refreshed twice, and ``w`` of it."""
    store.create_table("t", "k BIGINT, n BIGINT, s STRING", primary_key=["k"])
    store.create_index("t", "by_n", ["n"])
    store.write("t", pa.table({"k": [1, 2], "n": [10, 20], "s": ["<b>one</b>", None]}))
    store.view_catalog.create(new_view(store, "v", "t"))
    store.view_catalog.create(new_view(store, "w", "v"))
    refresh(store, progressed(store, "v"))
    for number in (3, 4):
        store.write("t", pa.table({"k": [number], "n": [0], "s": ["x"]}))
        refreshed(store, "v", RefreshFigures(store.state.time, 1000 * number, 2_000, number, 5))
    return store
