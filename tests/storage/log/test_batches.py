"""Transactions: a batch of a writer is committed to a table once, however often it is repeated."""

from __future__ import annotations

from dataclasses import replace

from relstate.storage.errors import ConflictError, RepeatedWriteError
from relstate.storage.log.entry import Transaction
from relstate.storage.log.log import Log
from relstate.storage.log.proposal import Proposal
from relstate.storage.log.state import StoreState
from relstate.storage.log.transaction import CommitResult, commit
from support.commits import committed, refused, upsert


def transacted(log: Log, batch: int, run: str | None = "run", writer: str = "query") -> Proposal:
    """Propose an upsert of table 1 as a batch of a writer."""
    return upsert(log.environment, 1, transaction=Transaction(writer, 1, batch, run))


def test_a_batch_that_is_there_is_skipped(store: tuple[Log, StoreState]) -> None:
    """After a restart the same batch, or an older one, is repeated: it is not written twice."""
    log, state = store
    state = committed(log, state, transacted(log, 5))

    for batch in (5, 4, 0):
        assert commit(log, state, transacted(log, batch, "restarted")) == CommitResult(
            4, state, committed=False
        )
    assert Log(log.environment).load() == state


def test_batch_ids_may_have_gaps(store: tuple[Log, StoreState]) -> None:
    """Any later batch is new: empty ones in between were never committed."""
    log, state = store
    for batch in (0, 1, 7):
        state = committed(log, state, transacted(log, batch))

    assert state.transactions["query", 1].batch == 7


def test_writers_and_tables_count_apart(store: tuple[Log, StoreState]) -> None:
    """A batch of one writer in one table does not affect other writers and tables."""
    log, state = store
    state = committed(log, state, transacted(log, 5))
    state = committed(log, state, transacted(log, 5, writer="another"))
    other_table = upsert(log.environment, 2, transaction=Transaction("query", 2, 5, "run"))

    assert committed(log, state, other_table).epoch == 6


def test_a_second_write_by_one_run_and_batch_is_an_error(store: tuple[Log, StoreState]) -> None:
    """It cannot be a retry, and skipping it would lose rows."""
    log, state = store
    state = committed(log, state, transacted(log, 5))

    refused(
        log,
        state,
        transacted(log, 5),
        RepeatedWriteError,
        "a second write of table 'orders' by one run and batch",
    )


def test_an_older_batch_of_the_same_run_is_skipped(store: tuple[Log, StoreState]) -> None:
    """Only the last batch can be a second write: what is older is a replay."""
    log, state = store
    state = committed(log, committed(log, state, transacted(log, 5)), transacted(log, 6))

    assert not commit(log, state, transacted(log, 5)).committed


def test_without_runs_a_repetition_is_a_retry(store: tuple[Log, StoreState]) -> None:
    """A batch job that names itself but has no runs may be retried at will."""
    log, state = store
    state = committed(log, state, transacted(log, 5, None))

    assert not commit(log, state, transacted(log, 5, None)).committed


def test_a_retry_from_an_old_state_is_seen(store: tuple[Log, StoreState]) -> None:
    """The check is made against the newest state, not against the writer's."""
    log, state = store
    committed(log, state, transacted(log, 5))

    assert commit(log, state, transacted(log, 5, "restarted")).epoch == 4


def test_a_batch_that_is_in_some_tables_only_is_a_conflict(store: tuple[Log, StoreState]) -> None:
    """One batch is one commit: half of it can be neither skipped nor written again."""
    log, state = store
    state = committed(log, state, transacted(log, 5))
    both = upsert(log.environment, 1, 2)
    both = replace(
        both, transactions=tuple(Transaction("query", table, 5, "again") for table in (1, 2))
    )

    refused(log, state, both, ConflictError, "in table 'orders', but not in all tables")
