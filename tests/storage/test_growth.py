"""A process that lives long keeps no more for each epoch that it has seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from relstate.storage import Store
from support.clock import ManualClock
from support.commits import quick_environment
from support.growth import RETENTION, check_no_growth

# Slow by it: some 1,500 commits.
pytestmark = [pytest.mark.timeout(900), pytest.mark.long]


@pytest.fixture
def clock() -> ManualClock:
    """The clock of the store."""
    return ManualClock()


@pytest.fixture
def opened(tmp_path: Path, clock: ManualClock) -> Callable[[], Store]:
    """Opens the store, which has two tables, of which one has an index, once more."""
    path = str(tmp_path / "store")
    environment = quick_environment(path, clock)
    store = Store.create(
        path, vnode_count=16, shards=4, retention=RETENTION, environment=environment
    )
    store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
    store.create_table("u", "k BIGINT, v STRING", primary_key=["k"])
    store.create_index("u", "by_v", ["v"], unique=True)
    store.close()
    return lambda: Store.open(path, environment=quick_environment(path, clock))


@pytest.fixture
def writer(opened: Callable[[], Store], clock: ManualClock) -> Iterator[Writer]:
    """Writes to the store."""
    with opened() as store:
        yield Writer(store, clock)
        assert store.check().problems == ()


class Writer:
    """Commits a row once a second, now and then to another table."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.store, self._clock = store, clock
        self.written = 0

    def write(self) -> None:
        """Commit a row."""
        self.written += 1
        row = {"k": self.written % 50, "v": str(self.written)}
        self.store.write("u" if self.written % 10 == 0 else "t", [row])
        self._clock.advance(1)


def test_a_writer_does_not_grow(writer: Writer) -> None:
    """It commits, merges files, maintains an index and vacuums."""
    check_no_growth(writer.write, lambda: writer.store.epoch, writer.store.vacuum)


def test_a_reader_does_not_grow(writer: Writer, opened: Callable[[], Store]) -> None:
    """It gets and scans at the newest epoch and at earlier ones, by tables kept and asked for."""
    with opened() as reader:
        table = reader.table("t")

        def step() -> None:
            writer.write()
            expected = (writer.written - (writer.written % 10 == 0)) % 50
            assert table.get(expected) is not None
            if writer.written % 10 == 0:
                assert reader.table("u").count() > 0
                assert reader.at(reader.epoch - 5).table("t").count() > 0
                assert reader.read_plan("t").open().count() > 0

        check_no_growth(step, lambda: reader.epoch, writer.store.vacuum)


def test_a_reader_of_changes_does_not_grow(writer: Writer, opened: Callable[[], Store]) -> None:
    """It follows a table, epoch by epoch."""
    with opened() as reader:
        seen = reader.epoch

        def step() -> None:
            nonlocal seen
            writer.write()
            newest = reader.epoch
            changes = list(reader.changes("t", seen + 1, newest))
            assert bool(changes) == (writer.written % 10 != 0)
            seen = newest

        check_no_growth(step, lambda: reader.epoch, writer.store.vacuum)
