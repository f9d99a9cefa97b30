"""The check: it finds and names every broken invariant, and continues."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from relstate.storage import Kind, SegmentRecord, Store
from relstate.storage.codec.path import LIVENESS, number_component
from relstate.storage.errors import CorruptionError, OptionError
from relstate.storage.log.append import append
from relstate.storage.log.checkpoint import decode_checkpoint, encode_checkpoint
from relstate.storage.log.entry import Entry
from relstate.storage.log.log import Log
from relstate.storage.log.segment_record import KEY_BOUND_BYTES, TableStatistics
from relstate.storage.log.view import ViewProgress
from relstate.storage.paths import LOG, SEGMENTS, SIGNAL, checkpoint_path, entry_path
from relstate.storage.segment import writer
from relstate.storage.segment.filterblock import filter_block
from relstate.storage.segment.key import HEADER, PART, KeyPrefix
from relstate.storage.segment.keyfilter import KeyFilter
from relstate.storage.table.header import FIXED, is_delete
from support.segments import Pair, write_pairs
from support.stores import committed, unsynced, upsert, written
from support.views import new_view, progressed, refresh


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with a table of two segments, which each test damages."""
    path = str(tmp_path / "store")
    store = Store.create(path, vnode_count=5, shards=2, environment=unsynced(path))
    store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
    upsert(store, "t", [(1, "a"), (2, "b")])
    upsert(store, "t", [(3, "c")], deleted=[(1, None)])
    return store


def entry_of(store: Store, key: int, value: str | None) -> Pair:
    """Return what is stored for a row, or for a delete."""
    encoding = store.read_plan("t").open().encoding
    put = encoding.encode_delete() if value is None else encoding.encode_row([key, value])
    return encoding.encode_key((key,)), put


def commit_pairs(
    store: Store,
    pairs: Sequence[Pair],
    *,
    rows: int | None = None,
    name: str = "made-by-hand",
    table_id: int = 1,
) -> SegmentRecord:
    """Commit what `written_pairs` writes."""
    record = written_pairs(store, pairs, rows=rows, name=name, table_id=table_id)
    committed(store, [record])
    return record


def written_pairs(
    store: Store,
    pairs: Sequence[Pair],
    *,
    rows: int | None = None,
    name: str = "made-by-hand",
    table_id: int = 1,
) -> SegmentRecord:
    """Write a segment of these pairs, with right statistics but for the number of rows."""
    record = write_pairs(store.environment, pairs, name=name)
    size = sum(len(key) + len(value) for key, value in pairs)
    prefix = KeyPrefix(table_id, 5)
    primary_keys = [key[prefix.size :][:KEY_BOUND_BYTES] for key, _ in pairs]
    statistics = TableStatistics(
        table_id,
        len(pairs) if rows is None else rows,
        sum(is_delete(value) for _, value in pairs),
        pairs[0][0],
        pairs[-1][0],
        (0, size) if prefix.vnode_of(pairs[0][0]) >= 3 else (size, 0),
        min(primary_keys),
        max(primary_keys),
        parts=sum(is_part(value) for _, value in pairs),
    )
    return replace(record, tables=(statistics,))


def is_part(value: bytes) -> bool:
    """Return whether a value is that of a part of a row."""
    return value[:1] >= bytes([HEADER]) and value[0] & PART > 0


def test_a_whole_store_has_no_problems(store: Store) -> None:
    """The report counts what it examined."""
    report = store.check()

    assert report.ok
    assert report.problems == ()
    assert (report.epoch, report.segments, report.entries, report.orphans) == (4, 2, 4, 0)


def test_pairs_made_by_hand_can_be_right(store: Store) -> None:
    """So the tests below find only what they damage."""
    commit_pairs(store, [entry_of(store, 7, "seven")])

    assert store.check().problems == ()
    assert store.table("t").get(7) == (7, "seven")


def problem_of(store: Store, record: SegmentRecord) -> str:
    """Return the one problem of a store, which must name a segment."""
    report = store.check()
    assert not report.ok
    (problem,) = report.problems
    assert f"{SEGMENTS}/{record.name}.lmdb" in problem
    return problem


def test_wrong_statistics_are_found(store: Store) -> None:
    """A segment must match its statistics in the log."""
    record = commit_pairs(store, [entry_of(store, 7, "seven")], rows=2)

    assert "statistics" in problem_of(store, record)


def test_a_row_in_another_vnode_is_found(store: Store) -> None:
    """No lookup would find it."""
    key, value = entry_of(store, 7, "seven")
    vnode = (key[1] + 1) % 2
    record = commit_pairs(store, [(key[:1] + bytes([vnode]) + key[2:], value)])

    assert "another vnode" in problem_of(store, record)
    assert "k=7" in problem_of(store, record)


def test_a_null_in_a_key_is_found(store: Store) -> None:
    """No writer writes it, and no lookup finds it."""
    key, value = entry_of(store, 7, "seven")
    record = commit_pairs(store, [(key[:2] + b"\0", value)])

    assert "'k' is NULL" in problem_of(store, record)


def test_a_null_in_a_value_is_found(store: Store) -> None:
    """Where the column is NOT NULL."""
    store.create_table("u", "k BIGINT, v STRING NOT NULL", primary_key=["k"])
    encoding = store.read_plan("u").open().encoding
    null = store.read_plan("t").open().encoding.encode_row([7, None])
    record = commit_pairs(store, [(encoding.encode_key((7,)), null)], table_id=2)

    assert "'v' is NULL" in problem_of(store, record)


def test_a_checkpoint_of_another_past_is_found(store: Store) -> None:
    """Each must be the fold of the entries before it, even if it is not used any more."""
    while store.epoch < 70:
        committed(store, [], based_tables=(1,))
    path = checkpoint_path(32)
    state = decode_checkpoint(store.environment.read(path), 32, path)
    Path(store.path, path).write_bytes(encode_checkpoint(replace(state, time=state.time + 1)))

    (problem,) = store.check().problems

    assert path in problem
    assert "does not replay" in problem


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (FIXED.pack(HEADER | 7, 1), "a kind that the table has not"),
        (FIXED.pack(HEADER | Kind.PUT, 1), "does not decode"),
        (FIXED.pack(HEADER | Kind.PUT, 1) + b"\0\xff\0\0\0", "does not decode"),
        (FIXED.pack(HEADER | Kind.PUT, 1) + b"\0\1\0\0\0\xff", "does not decode"),
    ],
)
def test_a_value_that_is_no_row_is_found(store: Store, value: bytes, problem: str) -> None:
    """An unknown kind, too few bytes, ends beyond the end, text that is no UTF-8."""
    key, _ = entry_of(store, 7, "seven")
    record = commit_pairs(store, [(key, value)])

    assert problem in problem_of(store, record)


def part_of(store: Store, path: bytes, depth: int, kind: Kind = Kind.DELETE) -> Pair:
    """Return what is stored for a part of the row 7 of the document table ``d``."""
    encoding = store.read_plan("d").open().encoding
    key = encoding.encode_key((7,)) + path
    header = FIXED.pack(HEADER | PART | kind, 1) + len(path).to_bytes(2, "little") + bytes([depth])
    return key, header + (b"" if kind is Kind.DELETE else b"\0\1\0\0\0")


NOTE, PROPS, ADDRESS, DOC = (number_component(number) for number in (2, 3, 4, 5))
READ = b"\1read\0\0"


@pytest.fixture
def documents(store: Store) -> Store:
    """The store with a document table."""
    columns = """k BIGINT, a INT, props MAP<STRING, INT>, address STRUCT<x: INT>, doc VARIANT"""
    store.create_table("d", columns, primary_key=["k"], encoding="document")
    return store


def test_parts_made_by_hand_can_be_right(documents: Store) -> None:
    """Of a column, of a map, of a struct, of a variant, so the tests below find their damage."""
    parts = [(NOTE, 1), (PROPS + READ, 2), (ADDRESS + number_component(1), 2)]
    pairs = [part_of(documents, path, depth, Kind.PUT) for path, depth in parts]
    pairs.append(part_of(documents, DOC + READ, 2))
    commit_pairs(documents, pairs, table_id=2)

    assert documents.check().problems == ()
    row = documents.table("d").get(7)
    assert row is not None
    assert row.as_dict() == {"k": 7, "a": 1, "props": {"read": 1}, "address": {"x": 1}, "doc": None}


@pytest.mark.parametrize(
    ("path", "depth", "problem"),
    [
        (number_component(9), 1, "the column 9, which the table never had"),
        (b"\0\2", 1, "no number where a column"),
        (NOTE + READ, 2, "'a' has parts, and its type has none"),
        (PROPS + number_component(1), 2, "does not decode"),
        (PROPS + READ + READ, 3, "int32 has parts"),
        (ADDRESS + number_component(2), 2, "a field that"),
        (DOC + LIVENESS + READ, 3, "below the liveness"),
        (DOC + b"\3x", 2, "does not decode"),
    ],
)
def test_a_part_at_no_path_of_the_table_is_found(
    documents: Store, path: bytes, depth: int, problem: str
) -> None:
    """Of a column that there never was, or where values of the column's type have no parts."""
    record = commit_pairs(documents, [part_of(documents, path, depth, Kind.PUT)], table_id=2)

    assert problem in problem_of(documents, record)


@pytest.mark.parametrize(
    ("path", "depth", "kind", "end"),
    [
        # A bit of the body that means nothing: of a plain value, and of an entry of a map.
        (NOTE, 1, Kind.PUT, b"\x02\1\0\0\0"),
        (PROPS + READ, 2, Kind.PUT, b"\x02\1\0\0\0"),
        # Bytes after what removes a part, and after an empty value.
        (NOTE, 1, Kind.DELETE, b"\0"),
        (ADDRESS, 1, Kind.OBJECT, b"\0"),
    ],
)
def test_a_part_that_no_writer_writes_is_found(
    documents: Store, path: bytes, depth: int, kind: Kind, end: bytes
) -> None:
    """It reads right, and is not as it is written."""
    key, value = part_of(documents, path, depth, Kind.DELETE)
    header = bytes([value[0] & ~Kind.DELETE | kind]) + value[1:]
    record = commit_pairs(documents, [(key, header + end)], table_id=2)

    problem = problem_of(documents, record)
    assert "k=7" in problem
    assert "not as this row is written" in problem


def test_a_part_in_another_vnode_is_found(documents: Store) -> None:
    """No lookup of its row would find it."""
    key, value = part_of(documents, NOTE, 1, Kind.PUT)
    vnode = (key[1] + 1) % 2
    pairs = [(key[:1] + bytes([vnode]) + key[2:], value)]
    record = commit_pairs(documents, pairs, table_id=2)

    assert "another vnode" in problem_of(documents, record)


def test_a_filter_that_leaves_out_a_key_is_found(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lookup would not find the row; a compaction writes another filter."""
    monkeypatch.setattr(writer, "LEAST_FILTERED_KEYS", 1)
    commit_pairs(store, [entry_of(store, 4, "d")], name="whole")
    assert store.check().ok
    words = KeyFilter(np.zeros(1, np.uint64))
    with monkeypatch.context() as patch:
        patch.setattr(writer, "filter_block", lambda _: filter_block({1: words}))
        commit_pairs(store, [entry_of(store, 9, "x")], name="damaged")

    key = entry_of(store, 9, "x")[0].hex()
    (problem,) = store.check().problems
    assert problem.startswith(f"{store.path}/{SEGMENTS}/damaged.lmdb: its filter leaves out 1 of 1")
    assert f"keys of table 1, the first is {key}" in problem

    store.compact("t")
    assert store.table("t").get(9) == (9, "x")


def test_an_empty_segment_is_found(store: Store) -> None:
    """No writer makes one."""
    record = write_pairs(store.environment, [], name="empty")
    committed(store, [record])

    assert "empty" in problem_of(store, record)


def test_a_key_with_bytes_after_its_columns_is_found(store: Store) -> None:
    """A lookup would never find the row."""
    key, value = entry_of(store, 7, "seven")
    record = commit_pairs(store, [(key + bytes(8), value)])

    assert "longer or shorter than its columns" in problem_of(store, record)


def test_every_problem_is_found_at_once(store: Store) -> None:
    """A damaged segment does not hide another one, nor damage to the log theirs."""
    first = commit_pairs(store, [entry_of(store, 7, "seven")], rows=2, name="first")
    second = commit_pairs(store, [entry_of(store, 8, "eight")], name="second")
    Path(store.path, SEGMENTS, "second.lmdb").write_bytes(b"short")
    missing = store.state.segments_of(1)[-1].name
    Path(store.path, SEGMENTS, f"{missing}.lmdb").unlink()
    entry = Path(store.path, LOG, f"{3:020}.json")
    entry.write_bytes(entry.read_bytes().replace(b'"rows":2', b'"rows":3'))

    problems = store.check().problems

    assert len(problems) == 4
    for name in (first.name, second.name, missing, entry.name):
        assert sum(name in problem for problem in problems) == 1


def test_parts_read_each_file_once(store: Store) -> None:
    """What is damaged is found by the one part that has it; the log is read by each."""
    for key in range(20, 40):
        store.write("t", [{"k": key, "v": "more"}])
    whole = store.check()
    damaged = store.state.segments_of(1)[-1].name
    reports = [store.check(part=part, parts=5) for part in range(1, 6)]

    assert sum(report.segments for report in reports) == whole.segments > 5
    assert sum(report.entries for report in reports) == whole.entries
    assert {report.epoch for report in reports} == {whole.epoch}
    Path(store.path, SEGMENTS, f"{damaged}.lmdb").write_bytes(b"short")
    found = [store.check(part=part, parts=5).problems for part in range(1, 6)]
    assert sorted(map(len, found)) == [0, 0, 0, 0, 1]


@pytest.mark.parametrize(("part", "parts"), [(0, 1), (2, 1), (1, 0), (-1, -1)])
def test_a_part_that_does_not_exist_is_refused(store: Store, part: int, parts: int) -> None:
    """Nothing would be read, and no problem found."""
    with pytest.raises(OptionError, match="does not exist: give a part from 1 on"):
        store.check(part=part, parts=parts)


def test_orphans_are_counted_and_no_problem(store: Store) -> None:
    """Segments that no commit names are counted; other files are ignored."""
    written(store, "t", [(9, "nine")])
    Path(store.path, SEGMENTS, "notes.txt").write_text("hello")

    report = store.check()

    assert report.ok
    assert report.orphans == 1
    assert store.table("t").get(9) is None


@pytest.mark.parametrize("epochs", [40, 110], ids=["a checkpoint", "folded"])
def test_no_changed_byte_of_the_log_escapes(tmp_path: Path, epochs: int) -> None:
    """Whichever file of the log is damaged, opening or checking reports it by name.

    But the signal, whose content says nothing.
    """
    path = str(tmp_path / "long")
    with Store.create(path, vnode_count=2, environment=unsynced(path)) as store:
        store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
        table_id = store.state.table("t").definition.table_id
        while store.epoch < epochs:
            committed(store, [], based_tables=(table_id,))
    files = [file for folder in (LOG, "_archive") for file in Path(path, folder).iterdir()]
    assert len(files) > 32
    for file in files:
        contents = file.read_bytes()
        damaged = bytearray(contents)
        damaged[len(damaged) // 2] ^= 4
        file.write_bytes(damaged)
        assert (file.name in printed(path)) == (file != Path(path, SIGNAL))
        file.write_bytes(contents)
    assert printed(path) == ""


def printed(path: str) -> str:
    """Return the problems that opening and checking a store report."""
    try:
        with Store.open(path, environment=unsynced(path)) as store:
            return " ".join(store.check().problems)
    except CorruptionError as error:
        return str(error)


@pytest.mark.parametrize(
    ("wrong", "problems"),
    [
        ({"dropped_tables": (1,)}, ["view 2: there is no table with the id 1, which it names"]),
        ({"dropped_tables": (3,)}, ["view 2: there is no table with the id 3, which it names"]),
        (
            {"dropped_tables": (2,)},
            [
                f"table __internal_v_{at}: it holds state, but no view or index keeps it"
                for at in (1, 2)
            ],
        ),
        (
            {"progress": (ViewProgress(2, 7, ((1, 99),)),)},
            ["view 2: it reflects epoch 99, but 7 is the newest"],
        ),
        (
            {"progress": (ViewProgress(2, 8, ((1, 1),)),)},
            ["view 2: it reflects epoch 8, but 7 is the newest"],
        ),
        (
            {"progress": (ViewProgress(2, 1, ((3, 1),)),)},
            ["view 2: its progress is not that of its inputs"],
        ),
    ],
)
def test_a_view_that_is_not_whole_is_found(
    store: Store, wrong: dict[str, Any], problems: list[str]
) -> None:
    """States that no commit leads to: missing tables, state without a view, progress in the
    future.
    """
    store.view_catalog.create(new_view(store, "v", "t"))
    refresh(store, progressed(store, "v"))
    assert store.check().ok
    state = store.state
    entry = Entry(
        commit_id="bad",
        parent=state.commit_id,
        epoch=state.epoch + 1,
        time=state.time,
        started=state.time,
        operation="bad",
        data_change=False,
        **wrong,
    )
    assert append(Log(store.environment), entry)

    assert list(store.check().problems) == problems


def test_a_lost_end_of_the_log_is_found_by_who_knows_the_epoch(store: Store) -> None:
    """Nothing in the files shows that there was a later entry."""
    expected = store.epoch
    path = entry_path(expected)
    store.environment.remove(path)
    store.close()

    with Store.open(store.path) as shortened:
        assert shortened.check().ok
        (problem,) = shortened.check(expect_epoch=expected).problems
        assert path in problem
        assert "the end of the log is missing" in problem


@pytest.mark.parametrize("folder", ["_archive", "segments"])
def test_a_missing_folder_is_a_problem(store: Store, folder: str) -> None:
    """The check reports it and does not raise."""
    shutil.rmtree(Path(store.path, folder))

    assert folder in " ".join(store.check().problems)


def test_a_log_that_cannot_be_read_is_a_problem(store: Store) -> None:
    """Even the newest state: it was lost under an open store."""
    Path(store.path, entry_path(store.epoch)).unlink()

    (problem,) = store.check().problems
    assert "is missing" in problem


def test_rows_of_a_table_that_no_readable_epoch_has_are_no_problem(store: Store) -> None:
    """A file of two indexes outlives the one that was dropped, and the epochs that had it."""
    store.create_table("pairs", "k BIGINT, x STRING, y STRING", primary_key=["k"])
    store.create_index("pairs", "by_x", ["x"])
    store.create_index("pairs", "by_y", ["y"])
    upsert(store, "pairs", [(1, "a", "b")])
    (segment,) = store.state.segments_of(store.state.table("pairs").definition.indexes[0].table_id)
    store.drop_index("pairs", "by_x")
    store.vacuum(0)

    assert len(segment.table_ids) == 2
    assert segment.name in store.state.segments
    assert store.check().problems == ()


def test_rows_of_a_table_that_never_was_are_found(store: Store) -> None:
    """Its id is beyond those that the store has given."""
    key, value = entry_of(store, 7, "x")
    pairs = [(KeyPrefix(99, 5).id_bytes + key[1:], value)]
    record = written_pairs(store, pairs, table_id=99)
    last = store.state
    entry = Entry(
        commit_id="a" * 32,
        parent=last.commit_id,
        epoch=last.epoch + 1,
        time=last.time,
        started=last.time,
        operation="write",
        added=(record,),
    )
    assert append(Log(store.environment), entry)

    assert problem_of(store, record).endswith("it holds rows of a table 99, which there never was")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        # A version of 65,538 bytes whose length wrapped to 2.
        ("910100 0200" + "0178" + "78" * 65_535 + "0000", "a row does not decode"),
        # Of 65,536 + 5 bytes, of which the first five are a version: what follows is a body.
        ("910100 0500" + "0178780000" + "78" * 65_536, "a row does not decode"),
        ("910100 0500" + "0178780000" + "00 02000000 7878 61" + "61", ""),
        ("910100 0500" + "0178780000" + "10 02000000 7878 61", "not as this row is written"),
        ("910100 0500" + "0178780000" + "01 02000000 7878 61", "a row does not decode"),
        ("910100 0500" + "0278780000" + "00 02000000 7878 61", "a row does not decode"),
        ("920100 0500" + "0178780000", ""),
        ("920100 0500" + "0178780000" + "00", "not as this row is written"),
    ],
)
def test_a_value_that_no_writer_writes_is_found(tmp_path: Path, value: str, problem: str) -> None:
    """A value must be the one that its row, read, is written as."""
    path = str(tmp_path / "store")
    with Store.create(path, vnode_count=5, shards=2, environment=unsynced(path)) as store:
        columns = "k BIGINT, v STRING, x STRING"
        store.create_table("t", columns, primary_key=["k"], version_column="v")
        key = store.read_plan("t").open().encoding.encode_key((7,))
        commit_pairs(store, [(key, bytes.fromhex(value))])

        assert problem in " ".join(store.check().problems)
        assert store.check().ok == (not problem)


def test_a_bit_that_means_nothing_is_found(store: Store) -> None:
    """A row that reads right, but is not as it is written, was not written by relstate."""
    key, value = entry_of(store, 7, "seven")
    record = commit_pairs(store, [(key, bytes([value[0] | 0x40]) + value[1:])])

    problem = problem_of(store, record)
    assert "k=7" in problem
    assert "40736576656e, should be 00736576656e" in problem
