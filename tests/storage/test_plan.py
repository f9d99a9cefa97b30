"""Laws of plans and targets: all that a task needs to read or write a table."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pyarrow as pa
import pytest

from relstate.storage import ReadPlan, Store, WriteTarget
from relstate.storage.errors import EpochNotFoundError, SchemaError, TableNotFoundError
from support.places import in_folder
from support.stores import batch_of, committed, contents, rows_of, upsert


@pytest.fixture
def filled(any_store: Store) -> Store:
    """A store with a table of two epochs."""
    any_store.create_table("t", "k BIGINT, v STRING, w INT", primary_key=["k"])
    upsert(any_store, "t", [(key, "old", key) for key in range(60)])
    upsert(any_store, "t", [(key, "new", -key) for key in range(0, 60, 3)])
    return any_store


def read(plan: ReadPlan, count: int) -> list[tuple[object, ...]]:
    """Return what so many tasks read together."""
    return [row for vnodes in plan.partitions(count) for row in rows_of(plan.read(vnodes))]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 50, 1000])
def test_tasks_read_every_row_once(filled: Store, count: int) -> None:
    """However many tasks there are; at most one for each vnode."""
    plan = filled.read_plan("t")
    parts = plan.partitions(count)
    vnodes = [vnode for part in parts for group in part for vnode in group]

    assert len(parts) == min(count, filled.settings.vnode_count)
    assert sorted(vnodes) == list(range(filled.settings.vnode_count))
    assert sorted(read(plan, count)) == contents(filled, "t")


def test_a_plan_is_pinned(filled: Store) -> None:
    """It keeps its epoch, segments and columns, whatever is committed meanwhile."""
    before = contents(filled, "t")
    plan = filled.read_plan("t", columns=["W", "k"])
    filled.truncate("t")
    filled.drop_table("t")

    assert sorted(read(plan, 2)) == sorted((w, k) for k, _, w in before)
    assert plan.arrow_schema().names == ["w", "k"]
    assert plan.columns == ("w", "k")


def test_a_plan_of_an_older_epoch(filled: Store) -> None:
    """It reads the rows of that epoch."""
    plan = filled.read_plan("t", epoch=3)

    assert sorted(read(plan, 3)) == [(key, "old", key) for key in range(60)]
    assert plan.epoch == 3
    assert plan.arrow_schema().equals(filled.table("t").schema.arrow_schema)
    assert 0 < plan.stored_bytes < filled.read_plan("t").stored_bytes


def test_what_cannot_be_planned_is_refused(filled: Store) -> None:
    """The error is raised before a task begins."""
    with pytest.raises(SchemaError, match="'x'"):
        filled.read_plan("t", columns=["k", "x"])
    with pytest.raises(TableNotFoundError, match="'x'"):
        filled.read_plan("x")
    with pytest.raises(TableNotFoundError, match="'t' at epoch 1"):
        filled.read_plan("t", epoch=1)
    with pytest.raises(EpochNotFoundError, match="99"):
        filled.read_plan("t", epoch=99)
    with pytest.raises(TableNotFoundError, match="'x'"):
        filled.jobs.write_target("x")


_TASK = """
import pickle, sys
import numpy as np
plan, target, new = pickle.load(sys.stdin.buffer)
batches = [batch for vnodes in plan.partitions(2) for batch in plan.read(vnodes)]
rows = [row for batch in batches for row in batch.to_pylist()]
writer = target.open()
writer.write(new)
sys.stdout.buffer.write(pickle.dumps((rows, writer.finish())))
"""


@in_folder
def test_plans_and_targets_travel(store: Store) -> None:
    """Another process reads by a pickled plan and writes by a pickled target."""
    store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
    upsert(store, "t", [(1, "a"), (2, "b")])
    sent: tuple[ReadPlan, WriteTarget, object] = (
        store.read_plan("t"),
        store.jobs.write_target("t"),
        batch_of(store, "t", [(2, "c"), (3, "c")]),
    )
    done = subprocess.run(
        [sys.executable, "-c", _TASK], input=pickle.dumps(sent), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    rows, segments = pickle.loads(done.stdout)

    assert sorted(row["k"] for row in rows) == [1, 2]
    committed(store, segments)
    assert contents(store, "t") == [(1, "a"), (2, "c"), (3, "c")]


def test_an_empty_table_is_planned_too(any_store: Store) -> None:
    """It has partitions without rows, and no bytes."""
    any_store.create_table("e", "k INT", primary_key=["k"])
    plan = any_store.read_plan("e")

    assert read(plan, 4) == []
    assert plan.stored_bytes == 0


def test_a_range_examines_its_part_of_the_files(store: Store) -> None:
    """Of a filtered plan only the pages with keys in its ranges count; all without a range."""
    store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
    for start in (0, 1):
        keys = range(start, 200_000, 2)
        store.write("t", pa.table({"k": pa.array(keys), "v": ["a text of some bytes"] * len(keys)}))
    plan = store.read_plan("t")
    shares = {
        where: plan.filtered(where).examined_bytes() / plan.stored_bytes
        for where in ("k < 100000", "k < 2000", "k = 5", "k < 0", "v = 'a'")
    }

    assert plan.examined_bytes() == plan.stored_bytes
    assert 0.4 < shares["k < 100000"] < 0.9
    assert shares["k < 2000"] < 0.4
    assert 0 < shares["k = 5"] < 1e-4
    assert shares["k < 0"] == 0
    assert shares["v = 'a'"] == 1
