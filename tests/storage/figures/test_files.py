"""The laws of the figures of files."""

from __future__ import annotations

import pyarrow as pa
import pytest

from relstate.storage import Store
from relstate.storage.figures import disk_use, forecast_compaction, shard_files


@pytest.fixture
def written(store: Store) -> Store:
    """A table that was written eight times, over the same keys."""
    store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
    for number in range(8):
        store.write("t", pa.table({"k": list(range(50)), "v": [str(number)] * 50}))
    return store


def test_all_files_of_the_folder_are_counted_once(written: Store) -> None:
    """Live files have the sizes that the log says; all others are what compaction replaced."""
    written.compact()
    use = disk_use(written.environment, written.state)

    segments = written.state.segments.values()
    assert use.live_files == len(segments)
    assert use.live_bytes == sum(segment.record.size for segment in segments)
    assert use.live_files + use.other_files == len(written.environment.list("segments"))
    assert use.other_bytes > 0


def test_what_vacuum_removes_is_among_the_other_files(written: Store) -> None:
    """After a vacuum without retention there are live files only."""
    written.compact()
    removed = written.vacuum(0)
    use = disk_use(written.environment, written.state)

    assert removed.files > 0
    assert (use.other_files, use.other_bytes) == (0, 0)


def test_the_forecast_is_what_compaction_does(written: Store) -> None:
    """Files read, their bytes and files written are those of the report; then nothing is due."""
    forecast = forecast_compaction(written.state)
    report = written.compact()

    assert forecast.files_read == report.files_read > 1
    assert forecast.bytes_read == report.bytes_read
    assert forecast.files_written == report.files_written
    assert forecast_compaction(written.state).merges == 0


def test_shards_divide_what_is_stored(written: Store) -> None:
    """The shards' bytes add up to the table's; a file counts in each shard where it has rows."""
    written.create_table("other", "k BIGINT", primary_key=["k"])
    written.write("other", pa.table({"k": [1]}))
    state = written.state
    table_id = state.table("t").definition.table_id

    own, everything = shard_files(state, table_id), shard_files(state)

    assert sum(shard.stored_bytes for shard in own) == written.read_plan("t").stored_bytes
    assert sum(shard.stored_bytes for shard in everything) == (
        written.read_plan("t").stored_bytes + written.read_plan("other").stored_bytes
    )
    assert [shard.shard for shard in own] == list(range(3))
    assert (own[0].first_vnode, own[-1].last_vnode) == (0, 6)
    assert max(shard.files for shard in own) <= len(state.segments_of(table_id))
