"""Commits: what is checked before them, and their entries."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from relstate.storage.errors import (
    ClockError,
    ConflictError,
    CorruptionError,
    OptionError,
    SegmentMissingError,
    StaleJobError,
    TableExistsError,
    TableNotFoundError,
)
from relstate.storage.log.entry import Transaction
from relstate.storage.log.log import Log
from relstate.storage.log.proposal import NewTable, Proposal
from relstate.storage.log.state import StoreState
from relstate.storage.log.transaction import CommitResult, commit
from relstate.storage.paths import segment_path
from support.clock import ManualClock
from support.commits import (
    SCHEMA,
    committed,
    creation,
    entries_on_disk,
    new_store,
    published,
    quick_environment,
    refused,
    truncation,
    upsert,
)
from support.faulty_environment import FaultyEnvironment

DAY = 24 * 3600


def test_a_commit_is_the_next_epoch(store: tuple[Log, StoreState]) -> None:
    """The result has the epoch and its state, which a new process loads as well."""
    log, state = store
    outcome = commit(log, state, upsert(log.environment))

    assert outcome.committed
    assert outcome.epoch == outcome.state.epoch == 4
    assert outcome.state == Log(log.environment).load() == log.refresh(state)


def test_one_commit_covers_many_tables(store: tuple[Log, StoreState]) -> None:
    """Segments, bases, creations, drops and transactions of one commit have one epoch."""
    log, state = store
    environment = log.environment
    state = committed(log, state, creation(environment, "old"))
    segments = (published(environment, 1, 2), published(environment, 2))
    proposal = Proposal(
        operation="everything",
        started=environment.now(),
        segments=segments,
        created_tables=(NewTable("new", SCHEMA), NewTable("OLD", SCHEMA)),
        dropped_tables=(3,),
        based_tables=(1,),
        transactions=(Transaction("w", 1, 7, "r"), Transaction("w", 2, 7, "r")),
    )
    state = committed(log, state, proposal)

    assert state.table_names() == ("OLD", "items", "new", "orders")
    assert [segment.record for segment in state.segments_of(2)] == [segments[1], segments[0]]
    assert [(segment.epoch, segment.rank) for segment in state.segments_of(2)] == [(5, 1), (5, 0)]
    assert [segment.record for segment in state.segments_of(1)] == [segments[0]]
    assert state.table("new").definition.table_id == 4
    assert state.table("old").definition.created_epoch == 5
    assert set(state.transactions) == {("w", 1), ("w", 2)}


def test_an_entry_says_when_and_what(store: tuple[Log, StoreState], clock: ManualClock) -> None:
    """It has the operation and the start of the job that were proposed, and the time of the
    commit.
    """
    log, state = store
    started = log.environment.now()
    clock.advance(90)
    committed(log, state, Proposal(operation="merge", started=started, based_tables=(1,)))

    (entry,) = entries_on_disk(log.environment, 4, 4)
    assert (entry.operation, entry.started, entry.time) == ("merge", started, clock.now())
    assert entry.data_change
    assert entry.parent == state.commit_id


def test_nothing_to_commit_commits_nothing(tmp_path: Path) -> None:
    """A micro-batch without rows is skipped; the store is not touched."""
    log, state = new_store(quick_environment(tmp_path / "store"), "orders")
    watched = FaultyEnvironment(log.environment.location(""))
    proposal = Proposal(
        operation="write", started=0, transactions=(Transaction("query", 1, 5, "run"),)
    )

    assert commit(Log(watched), state, proposal) == CommitResult(2, state, committed=False)
    assert watched.touches == []


def test_an_overwrite_without_rows_is_a_commit(store: tuple[Log, StoreState]) -> None:
    """It removes all rows."""
    log, state = store
    state = committed(log, state, upsert(log.environment))

    assert committed(log, state, truncation(log.environment)).segments_of(1) == ()


# The catalog


def test_a_dropped_table_is_not_written(store: tuple[Log, StoreState]) -> None:
    """Segments, truncations, drops, transactions: all refused, with the table's name."""
    log, old = store
    environment = log.environment
    prepared = upsert(environment, 1)
    drop = Proposal(operation="drop table", started=environment.now(), dropped_tables=(1,))
    state = committed(log, old, drop)
    half = replace(
        upsert(environment, 2),
        transactions=(Transaction("query", 1, 1), Transaction("query", 2, 1)),
    )

    for proposal in (prepared, truncation(environment), drop, half):
        refused(log, old, proposal, TableNotFoundError, "'orders' was dropped meanwhile")
    assert log.refresh(old) == state


def test_a_table_that_never_was_is_not_written(store: tuple[Log, StoreState]) -> None:
    """An id must be allocated before any key carries it."""
    log, state = store

    refused(log, state, upsert(log.environment, 9), TableNotFoundError, "never was .* id 9")


def test_a_name_is_given_once(store: tuple[Log, StoreState]) -> None:
    """Whatever its case, and also within one commit."""
    log, state = store
    twice = replace(
        creation(log.environment, "x"),
        created_tables=(NewTable("twin", SCHEMA), NewTable("Twin", SCHEMA)),
    )

    refused(log, state, creation(log.environment, "ORDERS"), TableExistsError, "'ORDERS' already")
    refused(log, state, twice, TableExistsError, "'Twin' already")


def test_creators_of_different_tables_get_different_ids(store: tuple[Log, StoreState]) -> None:
    """The id is that of the state the commit follows, not of the one the creator had seen."""
    log, old = store
    committed(log, old, creation(log.environment, "one"))
    state = committed(log, old, creation(log.environment, "two"))

    assert state.table("one").definition.table_id == 3
    assert state.table("two").definition.table_id == 4


# Segments


def test_a_missing_segment_is_refused(store: tuple[Log, StoreState]) -> None:
    """Its path is in the error."""
    log, state = store
    proposal = upsert(log.environment)
    name = segment_path(proposal.segments[0].name)
    log.environment.remove(name)

    refused(log, state, proposal, SegmentMissingError, name)


def test_a_segment_of_another_size_is_refused(store: tuple[Log, StoreState]) -> None:
    """A file that was truncated after it was written is not committed."""
    log, state = store
    proposal = upsert(log.environment)
    path = Path(log.environment.local_path(segment_path(proposal.segments[0].name)))
    path.write_bytes(path.read_bytes()[:-1])

    refused(log, state, proposal, CorruptionError, r"bytes, but \d+ were written")


def test_a_segment_is_committed_once(store: tuple[Log, StoreState]) -> None:
    """The same work without a transaction cannot be mistaken for new work."""
    log, state = store
    proposal = upsert(log.environment)
    state = committed(log, state, proposal)

    refused(log, state, proposal, ConflictError, "is part of epoch 4 already")


def test_upkeep_conflicts_only_if_an_input_is_gone(store: tuple[Log, StoreState]) -> None:
    """Other writes do not matter; another compaction of the same segments does."""
    log, state = store
    environment = log.environment
    state = committed(log, state, upsert(environment))
    (segment,) = state.segments.values()
    upkeep = Proposal(
        operation="compact",
        started=environment.now(),
        data_change=False,
        segments=(replace(published(environment, 1), sequence_number=(state.epoch, 0)),),
        removed=(segment,),
    )
    later = committed(log, state, upsert(environment))
    compacted = committed(log, state, upkeep)

    assert segment.name not in compacted.segments
    assert compacted.table("orders").data_epoch == later.epoch
    again = replace(upkeep, segments=(published(environment, 1),))
    refused(log, state, again, ConflictError, f"segment {segment.name} was replaced meanwhile")


def test_more_segments_than_ranks_are_refused(
    store: tuple[Log, StoreState], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rank beyond its 24 bits would change the order of versions."""
    log, state = store
    monkeypatch.setattr("relstate.storage.log.transaction.MAX_SEGMENTS", 1)
    proposal = replace(
        upsert(log.environment),
        segments=(published(log.environment, 1), published(log.environment, 1)),
    )

    refused(log, state, proposal, OptionError, "2 segments, but a commit takes at most 1")


@pytest.mark.parametrize("syncs_segments", [False, True])
def test_the_segments_are_durable_before_the_entry(tmp_path: Path, syncs_segments: bool) -> None:
    """Their folder, their content if the proposal says so, and the temporary entry: then the link.

    The folder of the log is synced last.
    """
    new_store(quick_environment(tmp_path / "store"), "orders")
    watched = FaultyEnvironment(tmp_path / "store")
    log = Log(watched)
    state = log.load()
    proposal = replace(upsert(watched), syncs_segments=syncs_segments)
    before = len(watched.touches)
    committed(log, state, proposal)

    order = [touch for touch in watched.touches[before:] if touch.startswith(("sync", "link"))]
    entry, *segments = order[:-2]
    assert entry.startswith("sync _log/00000000000000000003.json.")
    content = [f"sync {segment_path(proposal.segments[0].name)}"] if syncs_segments else []
    assert segments == [*content, "sync segments"]
    assert order[-2:] == ["link _log/00000000000000000003.json", "sync _log"]


# Time


def test_time_never_goes_backwards(store: tuple[Log, StoreState], clock: ManualClock) -> None:
    """If the clock is a little behind, the commit has the time of the last one."""
    log, state = store
    clock.set_back(59)
    state = committed(log, state, truncation(log.environment))

    times = [entry.time for entry in entries_on_disk(log.environment, 1, 4)]
    assert times == sorted(times)
    assert state.time == times[-2] == clock.now() + 59_000_000


def test_a_clock_far_behind_refuses(store: tuple[Log, StoreState], clock: ManualClock) -> None:
    """More than a minute: epochs could not be found by their time any more."""
    log, state = store
    clock.set_back(61)

    refused(log, state, truncation(log.environment), ClockError, "is 61 s behind .* epoch 3")
    clock.advance(2)
    assert committed(log, state, truncation(log.environment)).epoch == 4


def test_a_job_that_began_too_long_ago_is_refused(
    store: tuple[Log, StoreState], clock: ManualClock
) -> None:
    """Its files may have been vacuumed as orphans; a day is allowed."""
    log, state = store
    proposal = upsert(log.environment)
    clock.advance(DAY)
    state = committed(log, state, proposal)
    stale = upsert(log.environment)
    clock.advance(DAY + 1)

    refused(log, state, stale, StaleJobError, "more than 24 hours ago")


def test_the_age_of_a_job_is_told_by_the_last_commit_too(
    store: tuple[Log, StoreState], clock: ManualClock
) -> None:
    """If the clock is a little behind, the time of the last commit counts."""
    log, state = store
    proposal = upsert(log.environment)
    clock.advance(DAY + 1)
    state = committed(log, state, truncation(log.environment))
    clock.set_back(2)

    refused(log, state, proposal, StaleJobError, "more than 24 hours ago")


# The end of what can be read


def test_upkeep_says_what_can_no_longer_be_read(store: tuple[Log, StoreState]) -> None:
    """A commit that only moves the oldest readable epoch is a commit."""
    log, state = store
    upkeep = Proposal(
        operation="expire", started=log.environment.now(), data_change=False, oldest_epoch=3
    )

    assert committed(log, state, upkeep).oldest_epoch == 3
    assert Log(log.environment).load().oldest_epoch == 3
