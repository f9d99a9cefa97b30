"""How a range of epochs becomes a plan, and which ranges are refused."""

from __future__ import annotations

import pickle

import pytest

from relstate.storage import Proposal, Store
from relstate.storage.errors import (
    EpochExpiredError,
    EpochNotFoundError,
    OptionError,
    SchemaError,
    SchemaMismatchError,
    TableNotFoundError,
)
from support.feeds import Change, changes_of, read_feed
from support.stores import committed, upsert, written


@pytest.fixture
def table(store: Store) -> Store:
    """A table ``t`` with changes at the epochs 3 and 5, another's at 4."""
    store.create_table("t", "k INT, v STRING", primary_key=["k"])
    upsert(store, "t", [(1, "a"), (2, "a")])
    store.create_table("other", "k INT", primary_key=["k"])
    upsert(store, "t", [(1, "b")])
    return store


def expire(store: Store, oldest: int) -> None:
    """Make the epochs before ``oldest`` unreadable."""
    started = store.environment.now()
    store.jobs.commit(
        Proposal(operation="vacuum", started=started, data_change=False, oldest_epoch=oldest)
    )


def test_a_plan_travels(table: Store) -> None:
    """A pickled plan reads the same rows, whatever is committed meanwhile."""
    plan = table.jobs.feed_plan("T", 3)
    expected = changes_of(plan.read())
    copy = pickle.loads(pickle.dumps(plan))
    upsert(table, "t", [(1, "c"), (9, "c")])
    table.compact()

    assert changes_of(copy.read()) == expected
    assert [step.epoch for step in copy.steps] == [3, 5]
    assert (copy.first_epoch, copy.last_epoch) == (3, 5)
    assert copy.arrow_schema().names[-3:] == [
        "_change_type",
        "_commit_version",
        "_commit_timestamp",
    ]


def test_cost_follows_the_changes(table: Store) -> None:
    """A read examines what the commits added, and all rows only where all were removed."""
    upsert(table, "t", [(key, "many") for key in range(1000)])
    whole = table.read_plan("t").stored_bytes
    upsert(table, "t", [(1, "c")])

    assert table.jobs.feed_plan("t", table.epoch).stored_bytes < whole / 100
    assert table.jobs.feed_plan("other", 2).stored_bytes == 0
    table.truncate("t")
    assert table.jobs.feed_plan("t", table.epoch).stored_bytes >= whole


def test_upkeep_is_no_change(table: Store) -> None:
    """A feed does not contain a compaction, which does not hide the commits before it either."""
    before = read_feed(table, "t", 3)
    report = table.compact("t")
    assert table.epoch > 5, report

    assert read_feed(table, "t", 3) == before
    assert table.jobs.feed_plan("t", 6).steps == ()
    upsert(table, "t", [(2, "c")], [(1, "")])
    assert [change.type for change in read_feed(table, "t", 6)] == [
        "delete",
        "update_preimage",
        "update_postimage",
    ]


def test_a_range_may_be_empty(table: Store) -> None:
    """Right after the latest epoch, or anywhere before it."""
    assert read_feed(table, "t", 6) == []
    assert read_feed(table, "t", 5, 4) == []
    assert table.jobs.feed_plan("t", 6).steps == ()


@pytest.mark.parametrize(
    ("first", "last", "kind", "error"),
    [
        (7, None, EpochNotFoundError, "no changes of epoch 7: the store is at epoch 5"),
        (0, None, EpochNotFoundError, "no changes of epoch 0"),
        (4, 6, EpochNotFoundError, "there is no epoch 6"),
        (5, 3, OptionError, "cannot end at epoch 3 when it begins at 5"),
    ],
)
def test_a_range_that_is_none_is_refused(
    table: Store, first: int, last: int | None, kind: type[Exception], error: str
) -> None:
    """The error names the epoch of the store."""
    with pytest.raises(kind, match=error):
        table.jobs.feed_plan("t", first, last)


def test_a_range_that_is_no_longer_kept_names_the_oldest_epoch(table: Store) -> None:
    """The rows as they were before the range must still be there."""
    expire(table, 4)

    with pytest.raises(EpochExpiredError, match=r"epoch 4 is the oldest .* changes begin at 5"):
        table.jobs.feed_plan("t", 4)
    assert read_feed(table, "t", 5) == [
        Change("update_preimage", 5, (1, "a")),
        Change("update_postimage", 5, (1, "b")),
    ]


def test_a_feed_may_begin_before_its_table(table: Store) -> None:
    """There are no changes before the table is created."""
    assert [change.epoch for change in read_feed(table, "t", 1)] == [3, 3, 5, 5]


def test_a_table_created_anew_is_another(table: Store) -> None:
    """A range over both is refused, one over either is not."""
    table.drop_table("t")
    table.create_table("t", "k INT, w INT", primary_key=["k"])
    upsert(table, "t", [(1, 1)])

    for first in (1, 3, 5, 6):
        with pytest.raises(TableNotFoundError, match="created again at epoch 7"):
            table.jobs.feed_plan("t", first)
    assert read_feed(table, "t", 7) == [Change("insert", 8, (1, 1))]
    assert len(read_feed(table, "t", 3, 5)) == 4
    with pytest.raises(TableNotFoundError, match="no table 't' at epoch 6"):
        table.jobs.feed_plan("t", 3, 6)


def test_one_commit_may_change_several_tables(table: Store) -> None:
    """A feed is of its own table's rows only."""
    segments = [*written(table, "t", [(7, "x")]), *written(table, "other", [(7,)])]
    epoch = committed(table, segments)

    assert read_feed(table, "t", epoch) == [Change("insert", epoch, (7, "x"))]
    assert read_feed(table, "other", epoch) == [Change("insert", epoch, (7,))]


def test_data_epochs_are_those_that_changed_the_table(table: Store) -> None:
    """Maintenance and commits of other tables are not among them."""
    table.compact()
    table.truncate("t")
    table_id = table.state.table("t").definition.table_id

    assert list(table.jobs.data_epochs(table_id, 1)) == [3, 5, 7]
    assert list(table.jobs.data_epochs(table_id, 3, 6)) == [5]
    assert list(table.jobs.data_epochs(table_id, 7)) == []
    assert list(table.jobs.data_epochs(table_id, 0, 0)) == []
    assert list(table.jobs.feed_epochs(table_id, 0, 0)) == []


def test_a_read_of_no_vnodes_yields_nothing(table: Store) -> None:
    """It is not one of all, of a feed and of a table."""
    plan = table.jobs.feed_plan("t", 3)
    assert changes_of(plan.read())
    assert list(plan.read([])) == []
    assert list(table.read_plan("t").read((), table.environment)) == []


def test_what_has_no_feed_is_refused(table: Store) -> None:
    """Unknown columns and modes, and tables with a column name that the feed adds."""
    with pytest.raises(SchemaMismatchError, match="'x' is not a column of the change feed"):
        table.jobs.feed_plan("t", 3, columns=["k", "x"])
    with pytest.raises(SchemaMismatchError, match="named twice"):
        table.jobs.feed_plan("t", 3, columns=["k", "K"])
    with pytest.raises(OptionError, match="must be one of dropCarryovers, netChanges"):
        table.jobs.feed_plan("t", 3, deduplication="none")
    with pytest.raises(
        SchemaError, match="cannot be named '_Change_Type', because the change feed"
    ):
        table.create_table("u", "k INT, _Change_Type STRING", primary_key=["k"])


def test_a_snapshot_is_all_rows_as_inserts(table: Store) -> None:
    """At the epoch, with its time; the changes follow after it."""
    snapshot = pickle.loads(pickle.dumps(table.jobs.feed_snapshot("t", 4)))

    changes = sorted(changes_of(snapshot.read()), key=lambda change: change.row)
    assert changes == [Change("insert", 4, (1, "a")), Change("insert", 4, (2, "a"))]
    parts = [changes_of(snapshot.read(part)) for part in snapshot.partitions(3)]
    assert sum(map(len, parts)) == 2
    (batch, *_) = table.jobs.feed_snapshot("t", 5, columns=["_commit_timestamp"]).read()
    assert batch.schema.names == ["_commit_timestamp"]
    assert batch.column(0)[0].value == table.state_at(5).time
