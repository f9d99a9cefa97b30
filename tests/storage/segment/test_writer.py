"""Laws of writers: they write sorted segments of bounded size, or keep failing."""

from __future__ import annotations

import errno
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from relstate.storage import Kind, Store, TableWriter, WriteTarget
from relstate.storage.codec.ragged import Buffer
from relstate.storage.disk import Content, Disk
from relstate.storage.errors import (
    AppendOnlyError,
    NullKeyError,
    SchemaMismatchError,
    StorageFullError,
    UnknownOutcomeError,
)
from relstate.storage.local_environment import LocalEnvironment
from relstate.storage.paths import SEGMENTS, segment_path
from relstate.storage.segment import writer as writer_module
from relstate.storage.segment.datafile import data_file
from relstate.storage.segment.writer import SegmentWriter
from support.faulty_environment import FaultyEnvironment
from support.places import in_folder
from support.stores import batch_of, committed, contents, rows_of, upsert, written


@pytest.fixture
def filled(store: Store) -> Store:
    """A store with an empty table."""
    store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
    return store


def segments_of(store: Store) -> list[str]:
    """Return the files in the folder of segments."""
    return store.environment.list(SEGMENTS)


def test_rows_exist_when_they_are_committed(filled: Store) -> None:
    """Until then no reader sees the segment."""
    segments = written(filled, "t", [(2, "b"), (1, "a")])

    assert len(segments) == 1
    assert contents(filled, "t") == []
    assert filled.check().orphans == 1
    committed(filled, segments)
    assert contents(filled, "t") == [(1, "a"), (2, "b")]
    assert filled.check().orphans == 0


def test_the_last_row_of_a_key_wins(filled: Store) -> None:
    """Within a batch, from batch to batch, and from segment to segment of one commit."""
    writer = filled.jobs.write_target("t").open(filled.environment)
    writer.write(batch_of(filled, "t", [(1, "a"), (2, "a"), (1, "b")]))
    writer.write(batch_of(filled, "t", [(2, "b"), (3, "b")]))
    segments = writer.finish() + written(filled, "t", [(3, "c")])

    assert writer.rows == 5
    assert segments[0].tables[0].rows == 3
    committed(filled, segments)
    assert contents(filled, "t") == [(1, "b"), (2, "b"), (3, "c")]


def test_a_delete_hides_what_came_before_it_only(filled: Store) -> None:
    """In one batch and over many commits; of a deleted row only the key is used."""
    upsert(filled, "t", [(1, "old"), (2, "old")])
    writer = filled.jobs.write_target("t").open(filled.environment)
    rows = batch_of(filled, "t", [(1, None), (2, None), (2, "new"), (3, "new"), (3, None)])
    writer.write(rows, np.array([Kind.DELETE, Kind.DELETE, Kind.PUT, Kind.PUT, Kind.DELETE]))
    (segment,) = writer.finish()

    committed(filled, [segment])

    assert contents(filled, "t") == [(2, "new")]
    assert (segment.tables[0].rows, segment.tables[0].deletes) == (3, 2)


@in_folder
def test_statistics_say_what_a_segment_holds(filled: Store) -> None:
    """Rows, deletes, the range of keys and the bytes of every shard, for each table."""
    filled.create_table("u", "k BIGINT", primary_key=["k"])
    writer = filled.jobs.segment_writer()
    tables = [filled.jobs.write_target(name) for name in ("u", "t")]
    for target in tables:
        encoding = filled.read_plan(target.definition.name).open().encoding
        rows = [(key, "v") for key in range(50)]
        batch = batch_of(filled, "t", rows).select([0, 1] if encoding.name == "t" else [0])
        writer.add(*encoding.encode(batch))
    (segment,) = writer.finish()

    by_table = {table.table_id: table for table in segment.tables}
    assert list(by_table) == sorted(target.definition.table_id for target in tables)
    for table in segment.tables:
        assert (table.rows, table.deletes, len(table.shard_bytes)) == (50, 0, 3)
        assert table.first_key < table.last_key
        assert min(table.shard_bytes) > 0
        bounds = [b"\x01" + (key + 2**63).to_bytes(8, "big") for key in (0, 49)]
        assert [table.least_key, table.greatest_key] == bounds
    assert segment.size == len(filled.environment.read(f"{SEGMENTS}/{segment.name}.lmdb"))


@pytest.mark.parametrize(
    ("width", "is_one_batch"), [(20, True), (1000, True), (1400, False), (2100, True)]
)
def test_segments_are_cut(filled: Store, width: int, is_one_batch: bool) -> None:
    """At 64 MiB, with the rows in one batch or in many; together they have all rows."""
    rows = (72 << 20) // (width + 29)
    batch = pa.record_batch({"k": np.arange(rows), "v": pa.array(["x" * width] * rows)})
    writer = filled.jobs.write_target("t").open(filled.environment)
    step = rows if is_one_batch else 8192
    for start in range(0, rows, step):
        writer.write(batch.slice(start, step))

    segments = writer.finish()

    *full, last = segments
    assert [segment.name[-6:] for segment in segments] == ["000000", "000001", "000002"][
        : len(full) + 1
    ]
    assert full
    assert all(55 << 20 < segment.size <= 64 << 20 for segment in full)
    assert last.size <= 64 << 20
    assert sum(segment.tables[0].rows for segment in segments) == rows


def test_one_row_may_be_larger_than_a_segment(filled: Store) -> None:
    """It gets a segment of its own."""
    segments = written(filled, "t", [(1, "a"), (2, "x" * (60 << 20)), (3, "c")])

    committed(filled, segments)

    assert [segment.tables[0].rows for segment in segments] == [1, 1, 1]
    assert [key for key, _ in contents(filled, "t")] == [1, 2, 3]


def test_a_writer_without_rows_makes_no_file(filled: Store) -> None:
    """A task without rows leaves no file."""
    writer = filled.jobs.write_target("t").open(filled.environment)
    writer.write(batch_of(filled, "t", []))

    assert writer.finish() == ()
    assert segments_of(filled) == []


def test_an_error_in_a_writer_s_block_removes_its_segments(filled: Store) -> None:
    """Even if they were finished: the error kept their records from the commit."""

    def write_and_fail() -> None:
        with filled.jobs.write_target("t").open(filled.environment) as writer:
            writer.write(batch_of(filled, "t", [(1, "a")]))
            writer.finish()
            assert len(segments_of(filled)) == 1
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_and_fail()

    assert segments_of(filled) == []


def test_segments_that_may_be_committed_are_not_removed(filled: Store) -> None:
    """Not even if the commit is inside the block."""

    def write_and_fail() -> None:
        with filled.jobs.write_target("t").open(filled.environment) as writer:
            writer.write(batch_of(filled, "t", [(1, "a")]))
            writer.finish()
            raise UnknownOutcomeError("the answer was lost")

    with pytest.raises(UnknownOutcomeError):
        write_and_fail()

    assert len(segments_of(filled)) == 1


@in_folder
def test_a_writer_s_block_without_finish_leaves_no_segment(filled: Store) -> None:
    """What was not finished cannot be committed; what was finished stays."""
    encoding = filled.read_plan("t").open().encoding
    for finishes in (False, True):
        with filled.jobs.segment_writer() as writer:
            writer.add(*encoding.encode(batch_of(filled, "t", [(1, "a")])))
            writer.cut()
            assert len(segments_of(filled)) == 1
            if finishes:
                writer.finish()
        assert len(segments_of(filled)) == finishes


@pytest.mark.parametrize(
    ("batch", "error"),
    [
        (pa.record_batch({"k": pa.array([1, None]), "v": ["a", "b"]}), NullKeyError),
        (pa.record_batch({"k": [1], "w": ["a"]}), SchemaMismatchError),
        (pa.record_batch({"v": ["a"]}), SchemaMismatchError),
        (pa.record_batch({"k": ["1"], "v": ["a"]}), SchemaMismatchError),
    ],
)
def test_rows_that_do_not_fit_leave_no_trace(
    filled: Store, batch: pa.RecordBatch, error: type[Exception]
) -> None:
    """The batch is refused whole; the batches before it stay."""
    writer = filled.jobs.write_target("t").open(filled.environment)
    writer.write(batch_of(filled, "t", [(7, "before")]))
    with pytest.raises(error):
        writer.write(batch)

    committed(filled, writer.finish())

    assert contents(filled, "t") == [(7, "before")]


@in_folder
def test_a_writer_that_failed_stays_failed(filled: Store) -> None:
    """An error at any step of writing a segment is raised again, and leaves no file."""
    target: WriteTarget = filled.jobs.write_target("t")
    before = segments_of(filled)
    batch = batch_of(filled, "t", [(1, "a")])
    for step in itertools.count(1):
        environment = FaultyEnvironment(filled.path, error_at=step, errno=errno.ENOSPC)
        with target.open(environment) as writer:
            writer.write(batch)
            if not fails_to_finish(writer):
                break
            assert segments_of(filled) == before
            assert fails_to_finish(writer)
            writer.write(batch)
            assert fails_to_finish(writer)
        assert segments_of(filled) == before
    assert environment.touches[-1].startswith("sync segments/")
    assert step == len(environment.touches) + 1


@in_folder
def test_the_last_segment_alone_is_left_to_the_commit_to_make_durable(filled: Store) -> None:
    """`finish_unsynced` syncs all but the last segment, `finish` all of them."""
    for finish, unsynced in ((SegmentWriter.finish, 0), (SegmentWriter.finish_unsynced, 1)):
        environment = FaultyEnvironment(filled.path)
        writer = SegmentWriter(environment, 5, 2)
        for key in (b"\0" * 8, b"\0" * 7 + b"\1"):
            writer.add(pa.array([key], pa.large_binary()), pa.array([b"\0\0"], pa.large_binary()))
            writer.cut()
        segments = finish(writer)

        paths = [segment_path(record.name) for record in segments]
        synced = [touch for touch in environment.touches if touch.startswith("sync")]
        assert synced == [f"sync {path}" for path in paths[: 2 - unsynced]]


@in_folder
@pytest.mark.parametrize("parts", [0, 1, 2])
def test_a_disk_that_is_full_in_the_middle_of_a_file_has_no_half_of_it(
    filled: Store, parts: int
) -> None:
    """The error comes after some parts were written; with space again, new writers succeed."""

    class FillingDisk(Disk):
        def write(self, path: str, contents: Iterable[Content]) -> int:
            return super().write(path, until_full(contents))

    def until_full(contents: Iterable[Content]) -> Iterator[Content]:
        yield from itertools.islice(contents, parts)
        assert segments_of(filled)
        raise OSError(errno.ENOSPC, "no space left on device")

    rows = [(key, "v" * 1000) for key in range(5000)]
    writer = filled.jobs.write_target("t").open(LocalEnvironment(filled.path, FillingDisk()))
    writer.write(batch_of(filled, "t", rows))
    assert fails_to_finish(writer)
    assert segments_of(filled) == []
    assert fails_to_finish(writer)

    committed(filled, written(filled, "t", rows))
    assert contents(filled, "t") == rows


@pytest.mark.parametrize(
    "error", [MemoryError("no memory"), AssertionError("a bug"), KeyboardInterrupt()]
)
@pytest.mark.parametrize("parts", [0, 1])
def test_a_writer_that_lost_rows_stays_failed(
    filled: Store, monkeypatch: pytest.MonkeyPatch, error: BaseException, parts: int
) -> None:
    """Whatever error it was: no commit lacks the rows, and no half of a file remains."""

    def fail_after_parts(*arguments: Any) -> Iterator[Buffer]:
        yield from itertools.islice(data_file(*arguments), parts)
        raise error

    batch = batch_of(filled, "t", [(1, "a")])
    writer = filled.jobs.write_target("t").open(filled.environment)
    writer.write(batch)
    with monkeypatch.context() as patch:
        patch.setattr(writer_module, "data_file", fail_after_parts)
        with pytest.raises(type(error)):
            writer.finish()

    assert segments_of(filled) == []
    writer.write(batch)
    with pytest.raises(type(error)):
        writer.finish()
    assert segments_of(filled) == []


def test_a_file_of_another_writer_stays(filled: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two writers with one random number: the second fails, and the first has its rows."""
    monkeypatch.setattr(type(filled.environment), "random_id", lambda _: "0" * 32)
    first = written(filled, "t", [(1, "a")])

    with pytest.raises(FileExistsError):
        written(filled, "t", [(2, "b")])

    monkeypatch.undo()
    committed(filled, first)
    assert contents(filled, "t") == [(1, "a")]


def test_rows_that_were_lost_while_they_were_taken_are_not_forgotten(store: Store) -> None:
    """A repeated key in an append-only table is found when the rows are taken: none is written."""
    store.create_table("t", "k BIGINT, v STRING", primary_key=["k"], append_only=True)
    writer = store.jobs.write_target("t").open(store.environment)
    writer.write(batch_of(store, "t", [(1, "a"), (1, "b"), (2, "c")]))

    with pytest.raises(AppendOnlyError):
        writer.take_rows()

    with pytest.raises(AppendOnlyError):
        writer.finish()
    assert segments_of(store) == []


def fails_to_finish(writer: TableWriter) -> bool:
    """Whether a writer finds the disk full."""
    try:
        writer.finish()
    except StorageFullError:
        return True
    return False


def test_what_a_task_writes_elsewhere_is_read_here(filled: Store, tmp_path: Path) -> None:
    """A write target works in another process, which has the folder only."""
    target = filled.jobs.write_target("t")
    writer = WriteTarget(target.path, target.definition, target.vnode_count, target.shards).open()
    writer.write(batch_of(filled, "t", [(1, "a")]))

    committed(filled, writer.finish())

    assert rows_of(filled.table("t").scan()) == [(1, "a")]
