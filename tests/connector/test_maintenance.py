"""The laws of compaction as a job of Spark's: as `Store.compact`, in parallel by shard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from relstate.connector.sink.compaction import CompactionWriter
from relstate.connector.task_report import TaskReport
from relstate.storage import Store, errors
from support.stores import contents, upsert

if TYPE_CHECKING:
    from relstate.connector.sql import Database

_ROWS = [(key, "x" * 400) for key in range(12_000)]


@pytest.fixture
def grown(store: Store) -> Store:
    """A store with a table of several large files, and a table of two small ones."""
    for name in ("large", "small"):
        store.create_table(name, "k BIGINT, v STRING", primary_key=["k"])
    upsert(store, "large", [(key, "old") for key in range(9_000)])
    upsert(store, "large", _ROWS[:8_000])
    upsert(store, "large", _ROWS[7_000:], deleted=[(12_345, None)])
    upsert(store, "small", [(1, "old")])
    upsert(store, "small", [(1, "new"), (2, "new")])
    return store


def test_each_shard_is_one_file_afterwards(grown: Store, db: Database) -> None:
    """Tables that share no files are one epoch together; a small table is one file."""
    epoch = grown.epoch

    report = db.maintain()

    large, small = (grown.state.segments_of(table_id) for table_id in (1, 2))
    assert grown.epoch == report.epoch == epoch + 2
    assert (report.files_read, report.files_written) == (5, 17)
    assert [
        sum(size > 0 for size in segment.record.tables[0].shard_bytes) for segment in large
    ] == [1] * 16
    assert len(small) == 1
    assert report.bytes_written == sum(segment.record.size for segment in (*large, *small))
    assert contents(grown, "large") == _ROWS
    assert contents(grown, "small") == [(1, "new"), (2, "new")]


def test_nothing_to_do_is_no_commit(grown: Store, db: Database) -> None:
    """A table that was compacted alone is not compacted again."""
    assert db.maintain("small").files_read == 2
    epoch = grown.epoch

    report = db.maintain("small")

    assert (grown.epoch, report.epoch, report.files_read) == (epoch, epoch, 0)
    with pytest.raises(errors.TableNotFoundError):
        db.maintain("missing")


def test_parts_are_committed_together_or_not_at_all(grown: Store) -> None:
    """A task without a report, a part that no task ran, and an input that is gone are errors."""
    job = grown.jobs.compaction_job("large")
    assert job is not None
    writer = CompactionWriter(job)
    first, others = (0,), tuple(range(1, job.parts))
    done = TaskReport(job.started, job.run(first), parts=first).message()
    rest = TaskReport(job.started, job.run(others), parts=others).message()
    epoch = grown.epoch

    with pytest.raises(errors.LostMessageError, match="1 of 2 tasks"):
        writer.commit([done, None])
    with pytest.raises(errors.ConflictError, match="were compacted"):
        writer.commit([done])
    assert grown.epoch == epoch
    writer.commit([rest, done])
    assert contents(grown, "large") == _ROWS
    with pytest.raises(errors.ConflictError):
        writer.commit([rest, done])
