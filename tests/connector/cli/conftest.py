"""A store as the commands are tried on: a table that changed, and one that is gone."""

from __future__ import annotations

from decimal import Decimal

import pytest

from relstate.storage import Store
from support.stores import upsert


@pytest.fixture
def shop(store: Store, orders: str) -> Store:
    """Orders 1 to 3 in epoch 3, of which 2 is deleted in epoch 4; a table dropped in epoch 6."""
    rows = [(number, f"customer {number}", Decimal(number), None) for number in (1, 2, 3)]
    upsert(store, orders, rows)
    upsert(store, orders, [], deleted=[rows[1]])
    store.create_table("gone", "id INT", primary_key=["id"])
    store.drop_table("gone")
    return store
