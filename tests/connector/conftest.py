"""Fixtures of the connector's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import relstate
from relstate.storage import Store
from support.places import path_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from relstate.connector.sql import Database


@pytest.fixture
def store(tmp_path: Path, place: str) -> Iterator[Store]:
    """An empty store in a place of its own, checked after the test."""
    with relstate.create(path_in(place, tmp_path)) as store:
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
