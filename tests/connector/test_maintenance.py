"""The laws of compaction as a job of Spark's: as `Store.compact`, in parallel by shard."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from relstate.connector.sink import numbered_parts
from relstate.storage import Store, errors
from relstate.storage.paths import segment_path
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


@pytest.mark.parametrize("driver_bytes", [0, 1 << 40])
def test_each_shard_is_one_file_afterwards(
    grown: Store, db: Database, monkeypatch: pytest.MonkeyPatch, driver_bytes: int
) -> None:
    """A small table is one file; by Spark tasks and by the driver, the files are the same."""
    monkeypatch.setattr(numbered_parts, "_DRIVER_BYTES", driver_bytes)
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


def test_a_failed_part_leaves_the_table_as_it_was(
    grown: Store, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error of a task is relstate's own; nothing is committed, and a later call compacts."""
    monkeypatch.setattr(numbered_parts, "_DRIVER_BYTES", 0)
    (name,) = {segment.name for segment in grown.state.segments_of(2)[:1]}
    path = Path(grown.path, segment_path(name))
    content, epoch = path.read_bytes(), grown.epoch
    path.write_bytes(content[:-1])

    with pytest.raises(errors.CorruptionError, match=name):
        db.maintain()

    path.write_bytes(content)
    assert contents(grown, "small") == [(1, "new"), (2, "new")]
    assert grown.epoch == epoch + 1  # the other table's
    assert db.maintain("small").files_written == 1
