"""The fold of the log: the state of a store at an epoch."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import pytest
from hypothesis import given

from relstate.storage.errors import (
    CorruptionError,
    EpochExpiredError,
    EpochNotFoundError,
    TableNotFoundError,
)
from relstate.storage.log.entry import Entry, Transaction
from relstate.storage.log.file_frame import canonical
from relstate.storage.log.sequenced_segment import SequencedSegment
from relstate.storage.log.state import StoreState, fold
from relstate.storage.schema.properties import TableProperties
from support.commits import record
from support.histories import FIRST, definition, following, histories


def after(state: StoreState, **changes: object) -> StoreState:
    """Return the state after one more entry with these changes."""
    return state.apply(following(state, **changes))


def with_tables(*names: str) -> StoreState:
    """Return a store whose tables have the ids 1, 2, ... and were created in epochs 2, 3, ..."""
    state = StoreState.first(FIRST)
    for name in names:
        state = after(state, created_tables=(definition(state, name),), data_change=False)
    return state


def names_of(segments: Sequence[SequencedSegment]) -> list[str]:
    """Return the names of segments in their order."""
    return [segment.name for segment in segments]


@given(histories())
def test_folding_at_once_is_folding_one_by_one(history: list[Entry]) -> None:
    """How entries are grouped does not matter."""
    first, *rest = history
    start = StoreState.first(first)

    assert fold(start, rest) == reduce(StoreState.apply, rest, start)


@given(histories())
def test_a_state_is_a_value(history: list[Entry]) -> None:
    """Folding an entry does not change the state before it."""
    first, *rest = history
    half = fold(StoreState.first(first), rest[: len(rest) // 2])
    again = fold(StoreState.first(first), rest[: len(rest) // 2])
    fold(half, rest[len(rest) // 2 :])

    assert half == again


@given(histories())
def test_segments_by_table_are_the_segments(history: list[Entry]) -> None:
    """The index by table has every segment for each table with visible rows, by sequence number."""
    state = fold(StoreState.first(history[0]), history[1:])

    expected: dict[int, list[SequencedSegment]] = {}
    for segment in sorted(
        state.segments.values(), key=lambda segment: (segment.epoch, segment.rank, segment.name)
    ):
        shown = [table for table in segment.record.tables if table.table_id in state.tables]
        shown = [
            table for table in shown if state.tables[table.table_id].base_epoch <= segment.epoch
        ]
        assert shown
        for table in shown:
            expected.setdefault(table.table_id, []).append(segment)
    by_table = {table: list(state.segments_of(table)[::-1]) for table in state.tables}
    assert {table: segments for table, segments in by_table.items() if segments} == expected


def test_folding_nothing_changes_nothing() -> None:
    """The fold of no entries is the same object."""
    state = with_tables("orders")

    assert fold(state, []) is state


def test_an_entry_must_follow() -> None:
    """Folding an entry out of order is a bug."""
    state = with_tables("orders")

    with pytest.raises(AssertionError, match="entry 4 does not follow epoch 2"):
        state.apply(replace(following(state), epoch=4))


# The catalog


def test_tables_are_found_whatever_their_case() -> None:
    """As in Spark; the spelling of the name is preserved."""
    state = with_tables("Orders")

    assert state.table("oRDERS").definition.name == "Orders"
    assert state.table_names() == ("Orders",)


def test_a_missing_table_names_those_there_are() -> None:
    """The error lists the existing names."""
    with pytest.raises(TableNotFoundError, match=r"no table 'order' at epoch 3; .*: items, orders"):
        with_tables("orders", "items").table("order")


def test_a_table_is_there_from_its_creation_to_its_drop() -> None:
    """Its name can be used again; older epochs have states of their own."""
    state = after(with_tables("orders"), dropped_tables=(1,))
    with pytest.raises(TableNotFoundError):
        state.table("orders")

    state = after(state, created_tables=(definition(state, "ORDERS"),))
    assert state.table("orders").definition.table_id == 2
    assert state.table_names() == ("ORDERS",)


def test_a_table_is_altered_in_place() -> None:
    """Its id, base and segments stay; its definition changes."""
    state = after(with_tables("orders"), added=(record("a", 1),))
    table = state.table("orders")
    altered = replace(table.definition, properties=TableProperties(ttl=60))
    state = after(state, altered_tables=(altered,))

    assert state.table("orders") == replace(table, definition=altered)
    assert names_of(state.segments_of(1)) == ["a"]


def test_a_table_id_is_never_used_again() -> None:
    """Not even that of the newest table after its drop."""
    state = after(with_tables("orders", "items"), dropped_tables=(2,))

    assert state.next_table_id == 3


def test_a_drop_forgets_the_tables_transactions() -> None:
    """The id is never used again, so no transaction can be a repetition."""
    state = with_tables("orders", "items")
    keys = tuple(Transaction("query", table_id, 0) for table_id in (1, 2))
    state = after(after(state, transactions=keys), dropped_tables=(1,))

    assert list(state.transactions) == [("query", 2)]


def test_the_last_transaction_of_a_writer_counts() -> None:
    """A later batch replaces an earlier one, writer by writer and table by table."""
    state = with_tables("orders")
    state = after(state, transactions=(Transaction("a", 1, 3, "r1"), Transaction("b", 1, 9)))
    state = after(state, transactions=(Transaction("a", 1, 5, "r2"),))

    assert state.transactions == {
        ("a", 1): Transaction("a", 1, 5, "r2"),
        ("b", 1): Transaction("b", 1, 9),
    }


# Epochs


def test_the_data_epoch_moves_with_rows_only() -> None:
    """Maintenance, other tables' rows and empty epochs are not changes of a table; a truncate
    is.
    """
    state = with_tables("orders", "items")
    steps: list[tuple[dict[str, Any], int]] = [
        ({"added": (record("a", 1),)}, 4),
        ({"added": (record("b", 2),)}, 4),
        ({"added": (record("c", 1),), "removed": ("a",), "data_change": False}, 4),
        ({}, 4),
        ({"based_tables": (1,)}, 8),
    ]

    for changes, expected in steps:
        state = after(state, **changes)
        assert state.table("orders").data_epoch == expected


def test_what_is_older_than_the_base_is_invisible() -> None:
    """After an overwrite its own segments and later ones are visible; segments without
    visible rows leave the state.
    """
    state = after(with_tables("orders", "items"), added=(record("old", 1), record("both", 1, 2)))
    state = after(state, added=(record("new", 1),), based_tables=(1,))
    state = after(state, added=(record("later", 1),))

    assert names_of(state.segments_of(1)) == ["later", "new"]
    assert names_of(state.segments_of(2)) == ["both"]
    assert set(state.segments) == {"both", "new", "later"}


def test_a_drop_lets_go_of_the_tables_segments() -> None:
    """Segments with rows of another table stay."""
    state = after(with_tables("orders", "items"), added=(record("one", 1), record("both", 1, 2)))
    state = after(state, dropped_tables=(1,))

    assert state.segments_of(1) == ()
    assert set(state.segments) == {"both"}


def test_an_upsert_after_a_truncate_is_all_there_is() -> None:
    """A truncate removes all rows; later upserts are visible."""
    state = after(with_tables("orders"), added=(record("old", 1),))
    state = after(state, based_tables=(1,))
    assert state.segments_of(1) == ()

    state = after(state, added=(record("new", 1),))
    assert names_of(state.segments_of(1)) == ["new"]


def test_segments_come_newest_first_by_epoch_and_rank() -> None:
    """So the first segment that has a key has its newest version."""
    state = after(with_tables("orders"), added=(record("a", 1), record("b", 1)))
    state = after(state, added=(record("c", 1), record("d", 1)))

    assert names_of(state.segments_of(1)) == ["d", "c", "b", "a"]
    assert [(segment.epoch, segment.rank) for segment in state.segments_of(1)] == [
        (4, 1), (4, 0), (3, 1), (3, 0),
    ]  # fmt: skip


def test_a_segment_of_many_tables_is_found_from_each() -> None:
    """And from no other."""
    state = after(with_tables("orders", "items", "empty"), added=(record("both", 1, 2),))

    assert names_of(state.segments_of(1)) == names_of(state.segments_of(2)) == ["both"]
    assert state.segments_of(3) == ()


def test_what_upkeep_merged_takes_the_place_of_its_newest_input() -> None:
    """So a commit made meanwhile is still newer."""
    state = after(with_tables("orders"), added=(record("a", 1),))
    state = after(state, added=(record("b", 1),))
    state = after(state, added=(record("c", 1),))
    merged = replace(record("merged", 1), sequence_number=(4, 0))
    state = after(state, added=(merged,), removed=("a", "b"), data_change=False)

    assert names_of(state.segments_of(1)) == ["c", "merged"]
    assert [(segment.epoch, segment.rank) for segment in state.segments_of(1)] == [(5, 0), (4, 0)]
    assert set(state.segments) == {"merged", "c"}


def test_what_upkeep_merged_does_not_outlive_a_truncate() -> None:
    """Its rows of a table are as old as the segments that it replaced."""
    state = after(with_tables("orders", "items"), added=(record("a", 1, 2),))
    state = after(state, based_tables=(1,))
    merged = replace(record("merged", 1, 2), sequence_number=(4, 0))
    state = after(state, added=(merged,), removed=("a",), data_change=False)

    assert state.segments_of(1) == ()
    assert names_of(state.segments_of(2)) == ["merged"]


def test_epochs_that_cannot_be_read_are_told() -> None:
    """A future epoch is not found; for an expired one the error names the oldest."""
    state = after(with_tables("orders"), oldest_epoch=2)

    state.check_epoch(2)
    state.check_epoch(3)
    for epoch in (4, 0, -1):
        with pytest.raises(EpochNotFoundError, match=f"no epoch {epoch}: the store is at epoch 3"):
            state.check_epoch(epoch)
    with pytest.raises(EpochExpiredError, match=r"epoch 1 is no longer kept: 2 is the oldest"):
        state.check_epoch(1)


# Segments with their sequence numbers


def test_a_segment_pickles() -> None:
    """Spark's tasks receive it."""
    segment = SequencedSegment(record("a", 1), 7, 2)

    assert pickle.loads(pickle.dumps(segment)) == segment
    assert repr(segment) == "SequencedSegment('a', epoch=7, rank=2)"


def test_segments_are_equal_by_record_and_sequence_number() -> None:
    """Whether the record was decoded from JSON or not."""
    record_a = record("a", 1)
    segment = SequencedSegment(record_a, 7, 2)
    decoded = SequencedSegment.from_json(canonical(record_a.to_json()), 7, 2, "a", 16)

    assert segment == decoded
    assert hash(segment) == hash(decoded)
    assert pickle.loads(pickle.dumps(decoded)) == segment
    assert segment != SequencedSegment(record_a, 7, 1)
    assert segment != SequencedSegment(record_a, 6, 2)
    assert segment != SequencedSegment(record("b", 1), 7, 2)
    assert segment != "a"


def test_statistics_of_another_number_of_shards_are_corruption() -> None:
    """In an entry at once, in a checkpoint when the record is read."""
    (statistics,) = record("a", 1).tables
    forged = replace(record("a", 1), tables=(replace(statistics, shard_bytes=(9,)),))
    with pytest.raises(CorruptionError, match="statistics of 1 shards, not of 16"):
        after(with_tables("t"), added=(forged,))
    segment = SequencedSegment.from_json(canonical(forged.to_json()), 7, 2, "a", 16)
    with pytest.raises(CorruptionError, match="statistics of 1 shards, not of 16"):
        _ = segment.record
