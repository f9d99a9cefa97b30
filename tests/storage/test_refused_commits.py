"""What a commit that was refused leaves behind: nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from relstate.storage import Proposal, Store
from relstate.storage.errors import (
    ClockError,
    ConflictError,
    RelstateError,
    StaleJobError,
    TableNotFoundError,
    UnknownOutcomeError,
)
from relstate.storage.log import append
from relstate.storage.schema.properties import EncodingName
from support.clock import ManualClock
from support.commits import quick_environment

ROWS = [{"k": 2, "v": "b"}]


def segments(path: Path) -> set[str]:
    """Return the files of segments."""
    return set(os.listdir(path / "segments"))


def state_table(store: Store) -> object:
    """Write a row through a state table."""
    table = store.state_table("t")
    table.insert([3, "c"])
    return table.commit()


def document(store: Store) -> object:
    """Change a document."""
    writer = store.document_writer("d")
    writer.set(1, {"v": "c"})
    return writer.commit()


WRITES: dict[str, Callable[[Store], object]] = {
    "write": lambda store: store.write("t", ROWS),
    "stream": lambda store: store.write("t", iter([pa.RecordBatch.from_pylist(
        ROWS, schema=pa.schema({"k": pa.int32(), "v": pa.string()}))])),
    "overwrite": lambda store: store.write("t", ROWS, overwrite=True),
    "indexed": lambda store: store.write("i", ROWS),
    "delete": lambda store: store.delete("t", [{"k": 1}]),
    "patch": lambda store: store.patch("d", ROWS),
    "document_writer": document,
    "state_table": state_table,
}  # fmt: skip


@pytest.fixture
def clock() -> ManualClock:
    """A clock set by hand."""
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Store:
    """A store with tables of all kinds."""
    store = Store.create("", environment=quick_environment(tmp_path / "s", clock))
    encodings: dict[str, EncodingName] = {"t": "row", "i": "row", "d": "document"}
    for table, encoding in encodings.items():
        store.create_table(table, "k INT, v STRING", primary_key=["k"], encoding=encoding)
    store.create_index("i", "by_v", ["v"])
    store.write("t", [{"k": 1, "v": "a"}])
    return store


@pytest.mark.parametrize("name", WRITES)
def test_a_write_that_is_refused_leaves_no_file(
    tmp_path: Path, store: Store, clock: ManualClock, name: str
) -> None:
    """By a clock that is behind, five times; then it is written."""
    before, epoch = segments(tmp_path / "s"), store.epoch
    clock.set_back(3600)
    for _ in range(5):
        with pytest.raises(ClockError):
            WRITES[name](store)
    assert segments(tmp_path / "s") == before
    clock.advance(3600)
    WRITES[name](store)
    assert store.epoch == epoch + 1
    assert store.check().problems == ()


@pytest.mark.parametrize("error", [ConflictError, StaleJobError, TableNotFoundError])
def test_a_job_that_is_refused_leaves_no_file(
    tmp_path: Path, store: Store, error: type[RelstateError]
) -> None:
    """Whatever the reason, if it says that nothing was committed."""
    target = store.jobs.write_target("t")
    with target.open(store.environment) as writer:
        writer.write(pa.RecordBatch.from_pylist(ROWS, schema=store.table("t").schema.arrow_schema))
        written = writer.finish()
    before = segments(tmp_path / "s")
    with pytest.raises(error), store.jobs.discarding(written):
        raise error("refused")
    assert segments(tmp_path / "s") == before - {f"{written[0].name}.lmdb"}


def test_a_file_that_a_commit_may_name_stays(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an unknown outcome, and if it is committed a second time."""
    target = store.jobs.write_target("t")
    with target.open(store.environment) as writer:
        writer.write(pa.RecordBatch.from_pylist(ROWS, schema=store.table("t").schema.arrow_schema))
        written = writer.finish()
    started = store.environment.now()
    proposal = Proposal(operation="write", started=started, segments=written)
    store.jobs.commit(proposal)
    with pytest.raises(ConflictError, match="is part of epoch"), store.jobs.discarding(written):
        store.jobs.commit(proposal)
    assert store.check().problems == ()

    before = segments(tmp_path / "s")

    def fail(*_: object) -> bool:
        raise UnknownOutcomeError("perhaps")

    monkeypatch.setattr(append, "_is_alive", fail)
    with pytest.raises(UnknownOutcomeError):
        store.write("t", [{"k": 9, "v": "x"}])
    monkeypatch.undo()
    assert len(segments(tmp_path / "s")) == len(before) + 1
    assert store.table("t").get(9) == (9, "x")
