"""A store for the tests of the commands: a table that changed, and one that was dropped."""

from __future__ import annotations

from decimal import Decimal

import pytest

from relstate.storage import Store
from support.stores import upsert


@pytest.fixture
def shop(store: Store, orders: str) -> Store:
    """A store: orders 1 to 3 at epoch 3, order 2 deleted at epoch 4, a table dropped at epoch 6."""
    rows = [(number, f"customer {number}", Decimal(number), None) for number in (1, 2, 3)]
    upsert(store, orders, rows)
    upsert(store, orders, [], deleted=[rows[1]])
    store.create_table("gone", "id INT", primary_key=["id"])
    store.drop_table("gone")
    return store
