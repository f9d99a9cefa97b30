"""The laws of tables and views that are read together at one epoch of the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from relstate.connector.sql.consistent_epochs import consistent_epochs
from relstate.storage import Store, errors
from support.views import new_view, progressed, refresh, view_rows

if TYPE_CHECKING:
    from relstate.connector.sql import Database


@pytest.fixture
def viewed(store: Store) -> Store:
    """Tables t and u; view v over t, w over u, and x over v; all of them up to date."""
    for name in ("t", "u"):
        store.create_table(name, "k BIGINT, n BIGINT", primary_key=["k"])
        put(store, name, 1)
    for name, read in {"v": "t", "w": "u", "x": "v"}.items():
        store.view_catalog.create(new_view(store, name, read))
        refresh(store, progressed(store, name), segments=view_rows(store, name, 1))
    return store


def put(store: Store, table: str, key: int) -> int:
    """Write a row of a table, and return the epoch."""
    return store.write(table, pa.table({"k": [key], "n": [key]}))


def epochs(store: Store, *names: str) -> dict[str, int]:
    """Return the epochs at which tables and views are read together."""
    state = store.state
    ids = [state.table(name).definition.table_id for name in names]
    by_id = consistent_epochs(store, state, ids)
    return {state.name_of(table_id): epoch for table_id, epoch in by_id.items()}


def moved(store: Store, name: str, key: int) -> int:
    """Refresh a view with a new row, and return the epoch that it reflects."""
    reflected = store.epoch
    refresh(store, progressed(store, name), segments=view_rows(store, name, key))
    return reflected


def test_tables_are_read_as_the_views_reflect_them(viewed: Store) -> None:
    """A table is read at the epoch that the view reflects; without a view, at the latest."""
    assert epochs(viewed, "t", "u") == {}
    reflected = viewed.view("x").progress.reflects

    put(viewed, "t", 2)

    assert epochs(viewed, "t", "x") == {"t": reflected, "x": viewed.epoch}
    assert epochs(viewed, "v", "w", "x", "u") == {
        "u": reflected, "v": viewed.epoch, "w": viewed.epoch, "x": viewed.epoch,
    }  # fmt: skip


def test_a_view_whose_tables_are_as_they_were_reflects_later_epochs_too(viewed: Store) -> None:
    """It matters whether the inputs have changed, not when the view was refreshed."""
    put(viewed, "t", 2)
    reflected = moved(viewed, "v", 2)

    assert epochs(viewed, "t", "v", "w") == {
        "t": reflected, "v": viewed.epoch, "w": viewed.epoch,
    }  # fmt: skip
    moved(viewed, "x", 2)
    assert epochs(viewed, "x", "w", "v").keys() == {"x", "w", "v"}


def test_views_of_two_epochs_are_refused(viewed: Store) -> None:
    """The error names the view that is behind, even if only its input view is."""
    put(viewed, "t", 2)
    put(viewed, "u", 2)
    reflected = moved(viewed, "w", 2)

    with pytest.raises(
        errors.EpochNotFoundError, match=rf"'v' is not up to date .*{reflected}\. Re"
    ):
        epochs(viewed, "v", "w")
    with pytest.raises(errors.EpochNotFoundError, match=r"'x' is not up .* because 'v', wh"):
        epochs(viewed, "w", "x")
    moved(viewed, "v", 2)
    with pytest.raises(errors.EpochNotFoundError, match="'x' is not up to date"):
        epochs(viewed, "v", "x")


def test_a_view_that_went_further_does_not_tell_what_it_was(viewed: Store) -> None:
    """A view that reflects a later epoch is not read for an earlier one."""
    put(viewed, "t", 2)
    put(viewed, "u", 2)
    moved(viewed, "w", 2)
    put(viewed, "t", 3)
    refresh(viewed, progressed(viewed, "v"))

    with pytest.raises(errors.EpochNotFoundError, match="'x' is not up to date"):
        epochs(viewed, "w", "x")


def test_a_view_reflects_its_epoch_though_one_that_it_reads_went_on(viewed: Store) -> None:
    """A view that the query does not read does not make it fail."""
    reflected = viewed.view("x").progress.reflects
    put(viewed, "t", 2)
    moved(viewed, "v", 2)

    assert epochs(viewed, "x", "t") == {"x": viewed.epoch, "t": reflected}


def test_a_query_is_consistent_where_it_is_asked_for(db: Database) -> None:
    """By default every table is read at the latest epoch."""
    db.sql("CREATE TABLE t (k BIGINT, PRIMARY KEY (k))")
    db.sql("INSERT INTO t VALUES (1), (2)")
    db.sql("CREATE MATERIALIZED VIEW counts AS SELECT count(*) AS c FROM t")
    db.sql("INSERT INTO t VALUES (3)")
    query = "SELECT k, c FROM t CROSS JOIN counts ORDER BY k"

    assert db.sql(query, consistent=True).collect() == [(1, 2), (2, 2)]
    assert db.sql(query).collect() == [(1, 2), (2, 2), (3, 2)]
