"""What was seen lately is judged by both clocks: one of them may stand still, or be set."""

from __future__ import annotations

import os

import pytest

from relstate.storage.errors import UnknownOutcomeError
from relstate.storage.local_environment import LocalEnvironment
from relstate.storage.log.log import Log
from relstate.storage.log.moment import LONG_AGO, Moment
from relstate.storage.log.transaction import commit
from support.clock import ManualClock
from support.commits import UnsyncedDisk, advanced, new_store, truncation

DELAY = 600


class Delaying(LocalEnvironment):
    """A folder whose log entries stay for a while, as those of a bucket do."""

    removal_delay: float = DELAY
    listing_interval: float = DELAY

    def __init__(self, root: str, clock: ManualClock) -> None:
        super().__init__(root, UnsyncedDisk(clock), clock)
        self.reads: list[str] = []

    def put_if_absent(self, name: str, data: bytes, *rest: object) -> None:
        """Create a file, dated by the clock."""
        super().put_if_absent(name, data, *rest)  # type: ignore[arg-type]
        os.utime(self.location(name), ns=(self.now() * 1000, self.now() * 1000))

    def read(self, name: str) -> bytes:
        """Read a file, and remember its name."""
        self.reads.append(name)
        return super().read(name)


@pytest.fixture
def delaying(environment: LocalEnvironment, clock: ManualClock) -> Delaying:
    """An environment whose store's folder does not exist yet."""
    return Delaying(environment.root, clock)


def test_a_moment_is_recent_by_both_clocks(clock: ManualClock) -> None:
    """A suspended machine stops the one; its owner may set the other."""
    moment = Moment.of(clock)
    clock.advance(9)
    assert moment.is_within(10, Moment.of(clock))
    assert not LONG_AGO.is_within(10, Moment.of(clock))
    clock.suspend(1)
    assert not moment.is_within(10, Moment.of(clock))

    moment = Moment.of(clock)
    clock.set_back(1)
    assert not moment.is_within(10, Moment.of(clock))
    clock.advance(11)
    assert not moment.is_within(10, Moment.of(clock))


def test_a_suspended_reader_finds_the_newest_epoch(delaying: Delaying, clock: ManualClock) -> None:
    """Also if all entries after its own were removed while its machine slept."""
    _, state = new_store(delaying, "orders")
    reader = Log(delaying)
    reader.refresh(reader.load())
    writer, newest = Log(delaying), state
    for epoch in range(3, 132):
        clock.suspend(20)
        newest = advanced(writer, newest, epoch)
    assert not delaying.exists("_log/00000000000000000003.json")

    assert reader.refresh(state) == newest


def test_an_unclear_commit_forgets_what_was_seen_before_it(
    delaying: Delaying, clock: ManualClock
) -> None:
    """The next commit reads its own entry first, however lately that was there."""

    class Lost(Delaying):
        def put_if_absent(self, name: str, data: bytes, *rest: object) -> None:
            raise UnknownOutcomeError(name)

    log, state = new_store(delaying, "orders")
    unclear = Log(Lost(delaying.root, clock))
    state = unclear.refresh(unclear.load())
    unclear.confirm(state)
    reads = unclear.environment.reads  # type: ignore[attr-defined]
    reads.clear()
    assert unclear.confirm(state) is state
    assert reads == []

    with pytest.raises(UnknownOutcomeError):
        commit(unclear, state, truncation(log.environment))
    reads.clear()
    assert unclear.confirm(state) is state
    assert reads == [f"_log/{state.epoch:020d}.json"]
