"""The laws of the commit of a write, from the reports of its tasks, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

from relstate.connector.sink.write import (
    WriteJob,
    commit_batch,
    commit_microbatch,
    make_proposal,
    sorted_reports,
)
from relstate.connector.task_report import ReportMessage, TaskIdentity, TaskReport
from relstate.storage import Store
from relstate.storage.errors import LostMessageError, RepeatedWriteError, SessionError


@pytest.fixture
def job(store: Store) -> WriteJob:
    """An upsert into the table t, which has a key and one column."""
    store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
    return WriteJob(store.jobs.write_target("t"), None, False, None, None)


def written(
    job: WriteJob, *values: str, partition: int = 0, query: str | None = "q", run: str | None = "r"
) -> ReportMessage:
    """Return the message of a task that wrote these values, in order, under the key 1."""
    batch = pa.record_batch({"k": pa.array([1] * len(values), pa.int64()), "v": list(values)})
    identity = TaskIdentity(partition, query, run)
    return replace(job.run(iter([batch])), identity=identity).message()


def value(store: Store) -> str | None:
    """Return the value under the key 1."""
    row = store.table("t").get(1)
    return None if row is None else row["v"]


def test_a_microbatch_is_one_epoch_and_happens_once(store: Store, job: WriteJob) -> None:
    """A run that repeats a batch changes nothing, and neither does one with an older batch."""
    epoch = store.epoch
    commit_microbatch(job, [written(job, "a")], 0)
    commit_microbatch(job, [written(job, "b", run="s")], 0)

    assert (store.epoch, value(store)) == (epoch + 1, "a")


def test_numbers_of_batches_may_have_gaps(store: Store, job: WriteJob) -> None:
    """A batch is new if its number is above the last one, as after a state repartition."""
    epoch = store.epoch
    for number in (0, 1, 5):
        commit_microbatch(job, [written(job, f"batch {number}")], number)
    for number in (2, 4, 5):
        commit_microbatch(job, [written(job, "late", run="s")], number)
    commit_microbatch(job, [written(job, "batch 6")], 6)

    assert (store.epoch, value(store)) == (epoch + 4, "batch 6")


def test_one_run_cannot_write_a_batch_twice(store: Store, job: WriteJob) -> None:
    """The second write would be skipped as a repetition, and its rows lost, so it is an error."""
    commit_microbatch(job, [written(job, "a")], 3)

    with pytest.raises(RepeatedWriteError):
        commit_microbatch(job, [written(job, "b")], 3)
    assert value(store) == "a"


def test_queries_and_tables_have_numbers_of_their_own(store: Store, job: WriteJob) -> None:
    """The transaction key is the pair of query and table."""
    store.create_table("u", "k BIGINT, v STRING", primary_key=["k"])
    second = replace(job, target=store.jobs.write_target("u"))
    commit_microbatch(job, [written(job, "a")], 7)
    commit_microbatch(second, [written(second, "b")], 3)
    commit_microbatch(job, [written(job, "c", query="p")], 3)

    assert value(store) == "c"
    assert store.table("u").get(1) == (1, "b")


def test_an_application_stands_for_the_query(store: Store, job: WriteJob) -> None:
    """A query with a new checkpoint has a new id; under txnAppId it does not write again."""
    named = replace(job, application="app")
    commit_microbatch(named, [written(job, "a")], 1)
    commit_microbatch(named, [written(job, "b", query="other", run="s")], 1)

    assert value(store) == "a"


def test_a_batch_without_rows_commits_nothing(store: Store, job: WriteJob) -> None:
    """An epoch is a change; without rows there is none."""
    epoch = store.epoch
    commit_microbatch(job, [written(job), written(job, partition=1)], 0)
    commit_batch(replace(job, version=1), [written(job)])

    assert store.epoch == epoch


def test_the_last_by_partition_and_position_wins(store: Store, job: WriteJob) -> None:
    """The winner does not depend on the order in which the messages arrive."""
    second = written(job, "c", "d", partition=1)
    first = written(job, "a", "b")
    commit_batch(job, [second, first])

    assert value(store) == "d"


def test_an_overwrite_leaves_only_its_own(store: Store, job: WriteJob) -> None:
    """An overwrite without rows empties the table."""
    commit_batch(job, [written(job, "a")])
    commit_batch(replace(job, overwrite=True), [written(job)])

    assert store.table("t").count() == 0


def test_a_query_whose_run_is_not_known_is_refused(store: Store, job: WriteJob) -> None:
    """With another job group a repetition cannot be distinguished from a second write."""
    with pytest.raises(SessionError, match="job group"):
        commit_microbatch(job, [written(job, "a", run=None)], 0)
    commit_microbatch(replace(job, application="app"), [written(job, "b", run=None)], 0)
    assert value(store) == "b"


@pytest.mark.parametrize("lost", [[None], [None, None]])
def test_a_lost_message_fails_the_write(store: Store, job: WriteJob, lost: Sequence[None]) -> None:
    """Spark's continuous trigger passes no messages to the commit; rows must not be lost."""
    epoch = store.epoch

    with pytest.raises(LostMessageError, match=r"did not report .* continuous trigger"):
        commit_microbatch(job, [written(job, "a"), *lost], 0)
    with pytest.raises(LostMessageError):
        commit_batch(job, lost)
    with pytest.raises(LostMessageError):
        commit_batch(job, [])
    assert store.epoch == epoch


def test_two_messages_of_one_partition_fail_the_write(job: WriteJob) -> None:
    """One of them is of an attempt that does not count, and the driver cannot know which."""
    with pytest.raises(LostMessageError, match="one partition"):
        sorted_reports([written(job, "a"), written(job, "b")])


def test_a_version_without_an_application_needs_a_query(store: Store, job: WriteJob) -> None:
    """The tasks of a batch write, and of Spark Connect's foreachBatch, know of no query."""
    numbered = replace(job, version=3)

    with pytest.raises(SessionError, match="txnAppId"):
        commit_batch(numbered, [written(job, "a", query=None)])
    commit_batch(numbered, [written(job, "b")])
    commit_batch(numbered, [written(job, "c", run="s")])
    assert value(store) == "b"


def test_a_job_began_with_its_first_task(job: WriteJob) -> None:
    """The proposal starts with the first task: a job that began too long ago is refused."""
    report = TaskReport.from_json(written(job, "a").text)
    reports = [replace(report, started=started) for started in (30, 10, 20)]

    proposed = make_proposal(job, reports, None)

    assert proposed is not None
    assert proposed.started == 10
