"""Fixtures of the connector's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import relstate
from relstate.storage import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from relstate.connector.sql import Database


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store in a folder of its own, checked after the test."""
    with relstate.create(str(tmp_path / "store")) as store:
        yield store
        assert store.check().problems == ()


@pytest.fixture
def db(spark: SparkSession, store: Store) -> Database:
    """The store as a database of the session."""
    return relstate.connect(spark, store.path)


@pytest.fixture
def orders(store: Store) -> str:
    """The name of an empty table of orders: a key, a NOT NULL column, and two more."""
    store.create_table(
        "orders",
        "id BIGINT, customer STRING NOT NULL, amount DECIMAL(12,2), note STRING",
        primary_key=["id"],
    )
    return "orders"
