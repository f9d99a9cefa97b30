"""Tables that are to be created: what they cannot be is refused."""

from __future__ import annotations

from typing import Any

import pytest

from relstate.storage import Store
from relstate.storage.errors import (
    RelstateError,
    SchemaError,
    TableNameError,
    TableNotFoundError,
    UnsupportedTypeError,
)


@pytest.mark.parametrize(
    "name", ["", "a b", "1a", "a-b", "../t", "a/b", "t\0", "ü", "a" * 129, "__internal_x", "t\n"]
)
def test_impossible_names_are_refused(store: Store, name: str) -> None:
    """No table and no file is made."""
    with pytest.raises(TableNameError):
        store.create_table(name, "k INT", primary_key=["k"])
    with pytest.raises(TableNotFoundError):
        store.table(name)
    assert store.epoch == 1


@pytest.mark.parametrize(
    ("columns", "primary_key", "distribution_key", "error"),
    [
        ("k INT", [], None, SchemaError),
        ("k INT", ["x"], None, SchemaError),
        ("k INT", ["k", "k desc"], None, SchemaError),
        ("k INT, K INT", ["k"], None, SchemaError),
        ("k INT, v INT", ["k"], ["v"], SchemaError),
        ("k MAP<INT, INT>", ["k"], None, SchemaError),
        ("k VARIANT", ["k"], None, SchemaError),
        ("k INT, v NONSENSE", ["k"], None, RelstateError),
        ("k INT, v INTERVAL", ["k"], None, UnsupportedTypeError),
        ("", ["k"], None, SchemaError),
        ("k INT", "k", None, SchemaError),
    ],
)
def test_impossible_tables_are_refused(
    store: Store, columns: str, primary_key: Any, distribution_key: Any, error: type[Exception]
) -> None:
    """No epoch is committed."""
    with pytest.raises(error):
        store.create_table("t", columns, primary_key=primary_key, distribution_key=distribution_key)
    assert (store.tables(), store.epoch) == ((), 1)
