"""Rows that one process writes: which are accepted, and when a strict writer conflicts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from relstate.storage import Store
from relstate.storage import rows as rows_module
from relstate.storage.errors import (
    ConflictError,
    DataError,
    SchemaMismatchError,
    UsageError,
)
from relstate.storage.paths import entry_path
from support.faulty_environment import FaultyEnvironment
from support.places import in_folder
from support.races import Before
from support.stores import contents, upsert

ROWS = pa.table({"k": pa.array([1, 2], pa.int32()), "v": ["a", "b"]})


@pytest.fixture
def filled(store: Store) -> Store:
    """A store with an empty table."""
    store.create_table("t", "k INT, v STRING", primary_key=["k"])
    return store


def test_an_iterator_of_other_things_is_refused(filled: Store) -> None:
    """The error says what its elements are, and nothing is written."""
    with pytest.raises(UsageError, match=r"RecordBatches, or dicts .* not Table"):
        filled.write("t", iter([ROWS]))
    assert contents(filled, "t") == []


class Stream:
    """Rows of another library, known only by Arrow's stream interface."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return ROWS.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    "rows",
    [
        ROWS,
        ROWS.to_batches()[0],
        ROWS.to_reader(),
        iter(ROWS.to_batches(max_chunksize=1)),
        ROWS.to_pandas(),
        Stream(),
        [{"k": 1, "v": "a"}, {"V": "b", "K": 2}],
        ({"k": key, "v": value} for key, value in ((2, "b"), (1, "a"))),
        iter([{"k": 1, "v": "a"}, {"V": "b", "K": 2}]),
    ],
    ids=lambda rows: type(rows).__name__,
)
def test_whatever_gives_arrow_data_is_written(filled: Store, rows: Any) -> None:
    """Tables, batches, readers, DataFrames that know Arrow, lists and iterators of dicts."""
    filled.write("t", rows)

    assert contents(filled, "t") == [(1, "a"), (2, "b")]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ({"k": [1], "v": ["a"]}, r"not dict; of one row, write \[row\], and of columns, pyarrow"),
        ([1, 2], "a row is a dict from the names of columns to values, not 1"),
        ("k < 10", "not str"),
        (None, "not NoneType"),
    ],
)
def test_rows_that_are_not_arrow_data_are_refused(filled: Store, rows: Any, words: str) -> None:
    """The error says what is taken; nothing is committed."""
    epoch = filled.epoch

    for write in (filled.write, filled.delete):
        with pytest.raises(UsageError, match=words):
            write("t", rows)
    assert filled.epoch == epoch


def test_a_dict_has_the_columns_that_it_names(filled: Store) -> None:
    """Their values become values of the table's types; a row that was read can be written."""
    filled.create_table(
        "u", "k INT, n DECIMAL(10,2), d DATE, a ARRAY<SMALLINT>", primary_key=["k"], merge="partial"
    )
    day = date(2026, 11, 22)
    filled.write("u", [{"k": 1, "n": 5, "d": day, "a": [1, 2]}, {"k": 2, "n": Decimal("0.25")}])
    filled.write("u", [{"k": 1, "n": None}, {"k": 2, "d": day}])
    assert contents(filled, "u") == [
        (1, Decimal("5.00"), day, [1, 2]), (2, Decimal("0.25"), day, None),
    ]  # fmt: skip

    row = filled.table("u").get(2)
    assert row is not None
    filled.delete("u", [{"k": 2}])
    assert filled.table("u").count() == 1
    filled.write("u", [row])
    assert filled.table("u").get(2) == row
    epoch = filled.epoch
    assert filled.write("u", []) == epoch


def test_an_iterator_of_dicts_is_one_epoch(filled: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many are held at once; what is no dict among them is refused, and nothing written."""
    monkeypatch.setattr(rows_module, "_TOGETHER", 3)
    epoch = filled.write("t", ({"k": key, "v": str(key)} for key in range(10, 20)), overwrite=True)

    assert contents(filled, "t") == [(key, str(key)) for key in range(10, 20)]
    with pytest.raises(UsageError, match=r"a row is a dict .* not 5"):
        filled.write("t", iter([{"k": 1, "v": "a"}, 5]))
    with pytest.raises(UsageError, match="rows in an iterator are pyarrow RecordBatches, or dicts"):
        filled.write("t", iter([5]))
    assert filled.epoch == epoch


@pytest.mark.parametrize(
    ("row", "error", "words"),
    [
        ({"k": 1, "n": 2.555}, DataError, "the column 'n' cannot be DECIMAL"),
        ({"k": 1 << 40}, DataError, "the column 'k' cannot be INT"),
        ({"k": 1, "x": 3}, SchemaMismatchError, "x"),
        ({"n": 3}, SchemaMismatchError, "k"),
    ],
)
def test_a_dict_that_does_not_fit_is_refused(
    filled: Store, row: dict[str, Any], error: type[Exception], words: str
) -> None:
    """The error names the column; the rows before it are not committed either."""
    filled.create_table("u", "k INT, n DECIMAL(10,2)", primary_key=["k"])
    epoch = filled.epoch

    with pytest.raises(error, match=words):
        filled.write("u", [{"k": 7, "n": 1}, row])
    assert filled.epoch == epoch


def test_a_dataframe_that_arrow_cannot_hold_is_refused(filled: Store) -> None:
    """A column of mixed types has no Arrow type."""
    with pytest.raises(DataError, match="the rows of a DataFrame cannot be read"):
        filled.write("t", pd.DataFrame({"k": [1, "x"], "v": ["a", "b"]}))


def test_a_condition_is_not_a_set_of_keys(filled: Store) -> None:
    """The error suggests SQL."""
    with pytest.raises(UsageError, match="to delete by a condition, use SQL"):
        filled.delete("t", "k < 10")


@pytest.mark.parametrize("error", [RuntimeError, OSError])
def test_a_reader_that_fails_leaves_nothing(filled: Store, error: type[Exception]) -> None:
    """The error quotes that of the reader; there is no epoch and no file."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield from ROWS.to_batches()
        raise error("the source is gone")

    epoch, reader = filled.epoch, pa.RecordBatchReader.from_batches(ROWS.schema, batches())
    with pytest.raises(DataError, match=r"cannot be read: .*the source is gone"):
        filled.write("t", reader)

    assert filled.epoch == epoch
    assert contents(filled, "t") == []
    assert filled.check().problems == ()


@pytest.mark.parametrize("has_read", [True, False])
def test_a_strict_commit_after_a_vacuum_is_a_conflict(filled: Store, has_read: bool) -> None:
    """The changes since can no longer be compared: the writer has to read again."""
    upsert(filled, "t", [(5, "old")])
    table = filled.state_table("t", strict=True)
    if has_read:
        assert table.get_row(77) is None
    table.insert([77, "mine"])
    # The statistics of the file do not tell whether it has the key 77.
    upsert(filled, "t", [(5, "new"), (99, "new")])
    filled.compact()
    filled.vacuum(retention=0)

    with pytest.raises(ConflictError, match="vacuumed since; nothing was committed"):
        table.commit()
    assert filled.table("t").get(77) is None


@in_folder
def test_a_strict_commit_during_a_vacuum_is_a_conflict(filled: Store) -> None:
    """Files may disappear while the commit compares its reads with them."""

    def expire() -> None:
        filled.compact()
        filled.vacuum(retention=0)

    upsert(filled, "t", [(7, "old")])
    own, following = entry_path(filled.epoch), entry_path(filled.epoch + 2)
    # After the writer saw that nothing follows the newest commit, and before it compares.
    vacuum = Before(f"read {own}", expire, after=f"read {following}")
    slow = Store.open(filled.path, environment=FaultyEnvironment(filled.path, before=vacuum))
    table = slow.state_table("t", strict=True)
    table.update([7, "old"], [7, "mine"])
    upsert(filled, "t", [(7, "other")])

    with pytest.raises(ConflictError, match="or was vacuumed since; nothing was committed"):
        table.commit()
    assert vacuum.happened
    assert filled.table("t").get(7) == (7, "other")


@pytest.mark.parametrize(
    "make",
    [
        lambda names: pa.table({name: pa.array([], pa.int32()) for name in names}),
        lambda names: pa.record_batch({name: pa.array([], pa.int32()) for name in names}),
        lambda names: pd.DataFrame({name: [] for name in names}, dtype="int32"),
        lambda names: iter([pa.record_batch({name: pa.array([], pa.int32()) for name in names})]),
    ],
    ids=["table", "batch", "pandas", "iterator"],
)
def test_rows_that_are_none_have_the_columns_too(tmp_path: Path, make: Any) -> None:
    """An empty batch with wrong columns is refused as one with rows is; a right one is nothing."""
    with Store.create(str(tmp_path / "s")) as store:
        store.create_table("t", "id INT, n INT NOT NULL, x INT", primary_key=["id"])
        store.create_table("keyless", "id INT, x INT")
        store.create_table("d", "id INT, x INT", primary_key=["id"], encoding="document")
        epoch = store.epoch
        for table, names in (("t", ["id", "n", "y"]), ("t", ["id"]), ("keyless", ["y"])):
            with pytest.raises(SchemaMismatchError):
                store.write(table, make(names))
        with pytest.raises(SchemaMismatchError, match="unknown column 'y'"):
            store.write("t", make(["id", "n", "y"]), overwrite=True)
        with pytest.raises(SchemaMismatchError, match="'id' is missing"):
            store.delete("t", make(["n"]))
        with pytest.raises(SchemaMismatchError):
            store.patch("d", make(["id", "y"]))
        assert store.epoch == epoch
        store.write("t", make(["N", "id"]))
        store.delete("t", make(["id"]))
        store.write("keyless", make(["x"]))
        store.patch("d", make(["id", "x"]))
        assert store.table("t").count() == 0


def test_a_state_table_is_written_under_the_present_schema(tmp_path: Path) -> None:
    """After `clear` and after a commit its rows have the columns that were added since."""
    with Store.create(str(tmp_path / "s")) as store:
        store.create_table("t", "id INT, x INT", primary_key=["id"])
        state = store.state_table("t")
        state.insert((1, 1))
        store.add_columns("t", "y INT")
        state.commit()
        state.insert((2, 2, 2))
        state.commit()
        state.insert((3, 3, 3))
        store.drop_columns("t", "x")
        state.clear()
        state.insert((4, 4))
        assert state.get_row(4) == (4, 4)
        assert state.get_row(2) == (2, 2)
        state.commit()

        assert [tuple(row.values()) for row in store.table("t").to_dicts()] == [
            (1, None),
            (2, 2),
            (4, 4),
        ]
        assert store.check().ok


def test_a_state_table_is_refused_once_its_table_has_a_ttl(tmp_path: Path) -> None:
    """What could not be opened as a state table is not written by one that was opened before."""
    with Store.create(str(tmp_path / "s")) as store:
        store.create_table("t", "id INT, x INT", primary_key=["id"])
        state = store.state_table("t")
        store.set_ttl("t", 60)
        state.clear()
        with pytest.raises(UsageError, match="expire"):
            state.insert((1, 1))
