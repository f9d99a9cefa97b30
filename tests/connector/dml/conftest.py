"""Fixtures of the tests of statements that change rows."""

from __future__ import annotations

import pytest

from relstate.storage import Store
from support.stores import upsert


@pytest.fixture
def items(store: Store) -> str:
    """Return the name of a table with the rows (1, a, 10), (2, b, 20) and (3, c, NULL)."""
    store.create_table("items", "id BIGINT, name STRING NOT NULL, n INT", primary_key=["id"])
    upsert(store, "items", [(1, "a", 10), (2, "b", 20), (3, "c", None)])
    return "items"
