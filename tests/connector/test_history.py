"""The laws of the history of a store, through the database."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from relstate.storage import Store
from relstate.storage.errors import EpochNotFoundError, OptionError, TableNotFoundError
from support.spark import customers
from support.stores import upsert

if TYPE_CHECKING:
    from relstate.connector.sql import Database


@pytest.fixture
def changed(store: Store, orders: str) -> str:
    """Orders with changes at the epochs 3 and 4, and a table that is dropped again."""
    upsert(store, orders, [(1, "ann", Decimal(1), None), (2, "bob", Decimal(1), None)])
    upsert(store, orders, [(2, "eve", Decimal(1), None)], [(1, "", None, None)])
    store.create_table("gone", "k INT", primary_key=["k"])
    store.drop_table("gone")
    return orders


def test_history_tells_of_every_commit(db: Database, store: Store, changed: str) -> None:
    """The newest commit is first; dropped tables have their names."""
    rows = db.history()

    assert rows.columns == [
        "version",
        "timestamp",
        "operation",
        "data_change",
        "tables",
        "segments_added",
        "segments_removed",
        "rows",
        "deletes",
        "violations",
    ]
    commits = [
        (row.version, row.operation, row.tables, row.rows, row.deletes) for row in rows.collect()
    ]
    assert commits == [
        (6, "drop table", ["gone"], 0, 0),
        (5, "create table", ["gone"], 0, 0),
        (4, "write", [changed], 2, 1),
        (3, "write", [changed], 2, 0),
        (2, "create table", [changed], 0, 0),
        (1, "create store", [], 0, 0),
    ]
    micros = rows.selectExpr("unix_micros(timestamp)").first()
    assert micros is not None
    assert micros[0] == store.state.time


def test_history_is_of_one_table_or_short(db: Database, changed: str) -> None:
    """A name in any case chooses a table, a limit the newest commits."""
    assert [row.version for row in db.history("ORDERS").collect()] == [4, 3, 2]
    assert [row.version for row in db.history("orders", 1).collect()] == [4]
    assert db.sql("DESCRIBE HISTORY orders").collect() == db.history("orders").collect()
    with pytest.raises(TableNotFoundError, match="there is no table 'gone'"):
        db.sql("DESC HISTORY gone")
    assert [row.version for row in db.history(limit=2).collect()] == [6, 5]


def test_a_table_is_read_as_of_a_time(db: Database, store: Store, changed: str) -> None:
    """The time is text or a datetime; a time without an epoch is refused."""
    time = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(
        microseconds=store.state_at(3).time
    )

    assert customers(db.table(changed, timestamp=time)) == {1: "ann", 2: "bob"}
    assert customers(db.table(changed, timestamp=time.isoformat())) == {1: "ann", 2: "bob"}
    with pytest.raises(EpochNotFoundError, match="before the first epoch"):
        db.table(changed, timestamp="2000-01-01")
    with pytest.raises(OptionError, match="both name an epoch"):
        db.table(changed, timestamp=time, version=3)
    with pytest.raises(OptionError, match="no time zone"):
        db.table(changed, timestamp=time.replace(tzinfo=None))
