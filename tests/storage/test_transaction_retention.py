"""How long a store remembers the last batch of a writer."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from relstate.storage import Proposal, Store
from relstate.storage.errors import OptionError, SchemaError
from relstate.storage.log.entry import Transaction
from relstate.storage.log.history import EntryCache
from relstate.storage.log.log import Log
from support.clock import ManualClock
from support.commits import quick_environment

DAY = 24 * 3600


def written(store: Store, writer: str, batch: int) -> bool:
    """Write a row as a batch of a writer; return whether it was committed."""
    started = store.environment.now()
    target = store.jobs.write_target("t")
    with target.open(store.environment) as tasks:
        row = pa.record_batch({"k": pa.array([batch])})
        tasks.write(row)
        segments = tasks.finish()
    table_id = target.definition.table_id
    return store.jobs.commit(
        Proposal(
            operation="write",
            started=started,
            segments=segments,
            transactions=(Transaction(writer, table_id, batch),),
        )
    ).committed


def pass_days(store: Store, clock: ManualClock, days: int) -> None:
    """Let days pass, and commit over the next checkpoint."""
    clock.advance(days * DAY)
    for number in range(33):
        store.write("t", [{"k": -number}])


def writers(store: Store) -> set[str]:
    """Return the writers that a process knows which reads the files anew."""
    state = Log(quick_environment(store.path), EntryCache()).load()
    assert state.transactions == store.state.transactions
    return {writer for writer, _ in state.transactions}


@pytest.fixture
def clock() -> ManualClock:
    """A clock set by hand."""
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Store:
    """A store with an empty table."""
    store = Store.create("", environment=quick_environment(tmp_path / "s", clock))
    store.create_table("t", "k BIGINT", primary_key=["k"])
    return store


def test_a_writer_is_remembered_for_ever_by_default(store: Store, clock: ManualClock) -> None:
    """A stream that stood still for years repeats nothing."""
    assert written(store, "a", 7)
    for _ in range(3):
        pass_days(store, clock, 1000)
    assert not written(store, "a", 7)
    assert writers(store) == {"a"}


def test_a_writer_is_forgotten_after_the_retention(store: Store, clock: ManualClock) -> None:
    """At the next checkpoint, counted from its last batch, also over checkpoints before; one that
    writes is not.
    """
    store.set_transaction_retention("t", 10 * DAY)
    assert written(store, "a", 1)
    assert written(store, "b", 1)
    pass_days(store, clock, 6)
    assert written(store, "b", 2)
    assert not written(store, "a", 1)
    pass_days(store, clock, 3)
    assert writers(store) == {"a", "b"}
    pass_days(store, clock, 2)
    assert writers(store) == {"b"}

    assert not written(store, "b", 2)
    assert written(store, "b", 3)
    assert written(store, "a", 1)
    assert store.check().problems == ()


def test_a_retention_can_be_set_and_unset_later(store: Store, clock: ManualClock) -> None:
    """It holds for what was written before, and each table has its own."""
    store.create_table("u", "k BIGINT", primary_key=["k"], transaction_retention=DAY)
    for number in range(50):
        assert written(store, f"job {number}", 1)
    pass_days(store, clock, 30)
    assert len(writers(store)) == 50
    store.set_transaction_retention("t", 20 * DAY)
    pass_days(store, clock, 0)
    assert writers(store) == set()
    store.set_transaction_retention("t", None)
    assert written(store, "a", 1)
    pass_days(store, clock, 30)
    assert writers(store) == {"a"}


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "soon", True])
def test_a_retention_is_a_duration(store: Store, wrong: object) -> None:
    """Anything else is refused, and nothing is changed."""
    epoch = store.epoch
    with pytest.raises((SchemaError, OptionError), match="transaction_retention is "):
        store.set_transaction_retention("t", wrong)  # type: ignore[arg-type]
    assert store.epoch == epoch
