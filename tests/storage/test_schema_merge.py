"""The laws of writes that bring columns: rows and columns are one commit, or nothing."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from relstate.storage import Proposal, Store, arrow
from relstate.storage.errors import CheckViolationError, ConflictError, UniqueViolationError
from support.stores import contents

_ROWS = pa.table(
    {"k": pa.array([1, 2], pa.int32()), "n": pa.array([5, 1 << 40]), "tag": ["x", "y"]}
)


@pytest.fixture
def store(store: Store) -> Store:
    """The store with a table that has neither wide numbers nor tags."""
    store.create_table("t", "k INT, n INT", primary_key=["k"])
    store.write("t", [{"k": 1, "n": 1}])
    return store


def written(store: Store, rows: pa.Table = _ROWS) -> Callable[[], object]:
    """Write rows as a task does, and return what commits them."""
    fields = tuple(arrow.fields_of(rows.schema))
    target = store.jobs.merged_target(store.jobs.write_target("t"), fields)
    with target.open() as writer:
        for batch in rows.to_batches():
            writer.write(batch)
        segments = writer.finish()
    proposal = Proposal(
        operation="write",
        started=store.environment.now(),
        segments=tuple(segments),
        written_under=(target.definition,),
    )
    return lambda: store.jobs.commit_merging(proposal, target.definition, fields)


def test_rows_and_columns_are_one_commit(store: Store) -> None:
    """One epoch and one version of the schema, however many columns; before it, nothing."""
    before = store.epoch
    commit = written(store)
    assert store.epoch == before
    assert store.table("t").schema.version == 1
    commit()
    assert store.epoch == before + 1
    assert store.table("t").schema.version == 2
    assert contents(store, "t") == [(1, 5, "x"), (2, 1 << 40, "y")]
    assert [row["n"] for row in store.at(before).table("t").to_dicts()] == [1]
    changes = pa.Table.from_batches(store.changes("t", before + 1, before + 1))
    assert sorted(changes.column("tag").to_pylist(), key=str) == [None, "x", "y"]


def test_two_writers_of_the_same_columns_both_commit(store: Store) -> None:
    """The second finds the table as it needs it, whatever else is not of its rows."""
    first = written(store)
    second = written(store, _ROWS.slice(1))
    store.set_ttl("t", 3600)
    first()
    second()
    assert store.table("t").schema.version == 2
    assert contents(store, "t") == [(1, 5, "x"), (2, 1 << 40, "y")]


def test_rows_whose_columns_cannot_be_merged_any_more_are_not_committed(store: Store) -> None:
    """Others gave the table another column meanwhile, so the rows have another schema."""
    commit = written(store)
    store.add_columns("t", "place STRING")
    before = store.epoch
    with pytest.raises(ConflictError, match="write them again"):
        commit()
    assert (store.epoch, contents(store, "t")) == (before, [(1, 1, None)])


def test_constraints_hold_for_merged_rows(store: Store) -> None:
    """Also one that was added while they were written."""
    commit = written(store, _ROWS.set_column(0, "k", pa.array([1, 3], pa.int32())))
    store.add_constraint("t", "small", "k < 3")
    with pytest.raises(CheckViolationError, match="small"):
        commit()
    assert contents(store, "t") == [(1, 1)]


def test_indexes_follow_merged_rows(store: Store) -> None:
    """The rows are read under the schema that they bring; a unique index refuses the commit."""
    store.add_columns("t", "code STRING")
    store.create_index("t", "codes", ["code"], unique=True)
    store.write("t", [{"k": 1, "n": 1, "code": "a"}])
    rows = _ROWS.drop_columns(["n"]).append_column("code", pa.array(["b", "c"]))
    commit = written(store, rows)
    commit()
    assert [row.tag for row in store.table("t").get_by("codes", "c")] == ["y"]
    commit = written(
        store,
        rows.append_column("more", pa.array([1, 2]))
        .slice(0, 1)
        .set_column(0, "k", pa.array([7], pa.int32())),
    )
    before = store.epoch
    with pytest.raises(UniqueViolationError):
        commit()
    assert store.epoch == before
