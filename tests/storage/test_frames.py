"""Rows from and for polars and DuckDB, as Arrow data; threads that share one store."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import duckdb
import polars
import pytest

from relstate.storage import Store
from relstate.storage.errors import SchemaMismatchError
from support.stores import contents

ROWS = [(1, "one", 0.5), (2, None, None), (3, "three", -1.0)]
_VALUES = (
    "(VALUES (1::BIGINT, 'one', 0.5::DOUBLE), (2, NULL, NULL), (3, 'three', -1.0)) t (k, a, b)"
)


@pytest.fixture
def filled(store: Store) -> Store:
    """A store with an empty table t and a table s of `ROWS`."""
    for name in ("s", "t"):
        store.create_table(name, "k BIGINT, a STRING, b DOUBLE", primary_key=["k"])
    store.write("s", [{"k": k, "a": a, "b": b} for k, a, b in ROWS])
    return store


def test_a_frame_of_polars_is_written_and_read(filled: Store) -> None:
    """Strings, which polars has as views, too; a column that the table has not is refused."""
    frame = polars.DataFrame(ROWS, schema=["k", "a", "b"], orient="row")
    filled.write("t", frame)

    assert contents(filled, "t") == ROWS
    assert filled.table("t").to_polars().sort("k").equals(frame)
    assert filled.table("t").to_polars(["a"], where="k = 3").rows() == [("three",)]
    assert polars.DataFrame(filled.table("t").scan(ordered=True)).rows() == ROWS
    with pytest.raises(SchemaMismatchError, match="'c'"):
        filled.write("t", frame.with_columns(c=1))


def test_polars_reads_numbers_without_a_copy(filled: Store) -> None:
    """Its column of numbers is the memory of the batch."""
    rows = filled.table("s").to_arrow().combine_chunks()
    frame = polars.from_arrow(rows)
    assert isinstance(frame, polars.DataFrame)

    shared = rows["k"].chunk(0).buffers()[1].address
    assert frame["k"].to_arrow().buffers()[1].address == shared


def test_a_result_of_duckdb_is_written(filled: Store) -> None:
    """Its relation and its table of Arrow data alike."""
    with duckdb.connect() as connection:
        filled.write("t", connection.sql(f"FROM {_VALUES}"))
        assert contents(filled, "t") == ROWS
        filled.write("t", connection.sql(f"SELECT k + 10 AS k, a, b FROM {_VALUES}").arrow())

    assert contents(filled, "t") == [*ROWS, *((k + 10, a, b) for k, a, b in ROWS)]


def test_duckdb_queries_a_scan(filled: Store) -> None:
    """It takes the reader of a scan as a relation, and joins it with its own."""
    scanned = filled.table("s").scan(["k", "b"], where="k > 1")
    with duckdb.connect() as connection:
        connection.register("scanned", scanned)
        joined = connection.sql(
            f"SELECT k, a, s.b FROM scanned s JOIN {_VALUES} USING (k) ORDER BY k"
        )
        assert joined.fetchall() == ROWS[1:]


def test_ten_threads_share_a_store(filled: Store) -> None:
    """Each reads what it wrote, and no write of another is lost."""
    threads, writes = 10, 5

    def write_and_read(thread: int) -> list[int]:
        epochs = []
        for number in range(writes):
            key = thread * writes + number
            epochs.append(filled.write("t", [{"k": key, "a": f"of {thread}", "b": None}]))
            assert filled.table("t").get(key) == (key, f"of {thread}", None)
            assert filled.table("s").get(1) == ROWS[0]
        return epochs

    with ThreadPoolExecutor(threads) as pool:
        epochs = [epoch for done in pool.map(write_and_read, range(threads)) for epoch in done]

    assert contents(filled, "t") == [
        (k, f"of {k // writes}", None) for k in range(threads * writes)
    ]
    assert len(set(epochs)) == threads * writes
