"""Document tables of a store: rows that change in parts, read and followed as any rows are."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from relstate.storage import Store
from relstate.storage.errors import SegmentMissingError, StorageFullError
from relstate.storage.feed.source import EntrySource
from relstate.storage.local_environment import LocalEnvironment
from relstate.storage.log.sequenced_segment import sequence_segments
from relstate.storage.schema.schema import TableSchema
from relstate.storage.segment.key import Kind
from relstate.storage.segment.registry import registry
from relstate.storage.table.document.merging import ColumnMerge
from relstate.storage.table.document.rowfold import RowFold
from relstate.storage.table.encoding import encoding_of
from relstate.storage.table.header import Headers
from support.clock import ManualClock
from support.commits import UnsyncedDisk
from support.document_tables import LAYOUTS, batch_of, got, new_table, seen, without_key
from support.documents import Documents, Written, patch_entries
from support.examples import Seeds
from support.faulty_environment import FaultyEnvironment, trials
from support.stores import StoreMaker

# Random histories


def random_value(name: str, chance: random.Random, *, is_patch: bool) -> Any:
    """Return a value of a column; in a patch parts may be NULL."""

    def number() -> int | None:
        return None if is_patch and chance.random() < 0.3 else chance.randrange(3)

    def text() -> str | None:
        return None if is_patch and chance.random() < 0.3 else chance.choice("pq")

    names = sorted(chance.sample("xyz", chance.randrange(3)))
    match name:
        case "a":
            return chance.randrange(9)
        case "s":
            return chance.choice("pqr")
        case "m":
            return [(key, number()) for key in names]
        case "l":
            return [chance.randrange(3) for _ in names]
        case "st":
            return {"x": number(), "y": text()}
    return [
        (key, {"x": number(), "y": [(inner, text()) for inner in names]})
        if chance.random() < 0.7 or not is_patch
        else (key, None)
        for key in names
    ]


def random_row(key: int, names: list[str], chance: random.Random, *, is_patch: bool) -> Any:
    """Return a row, or a patch of some columns."""
    values = {
        name: None if chance.random() < 0.2 else random_value(name, chance, is_patch=is_patch)
        for name in names
    }
    return {"k": key} | values


def change(store: Store, model: Documents, chance: random.Random) -> None:
    """Write, patch or delete some rows of a store and of the model."""
    names = ["a", "s", "m", "l", "st", "d"]
    keys = [chance.randrange(6) for _ in range(chance.randrange(1, 5))]
    action = chance.random()
    if action < 0.25:
        rows = [random_row(key, names, chance, is_patch=False) for key in keys]
        store.write("t", batch_of(store, rows))
        model.apply(Written(row["k"], (), Kind.PUT, row) for row in rows)
    elif action < 0.4:
        store.delete("t", batch_of(store, [{"k": key} for key in keys]))
        model.apply(Written(key, (), Kind.DELETE) for key in keys)
    else:
        patched = chance.sample(names, chance.randrange(1, 4))
        rows = [random_row(key, patched, chance, is_patch=True) for key in keys]
        store.patch("t", batch_of(store, rows))
        for row in rows:
            key = row["k"]
            model.apply(patch_entries(model.schema, key, {name: row[name] for name in patched}))


@LAYOUTS
def test_histories_of_documents(make_store: StoreMaker, packed: bool, seeds: Seeds) -> None:
    """Every read at every epoch is what a nested dict holds, compactions in between or not."""
    for seed in seeds(6):
        chance = random.Random(seed)
        store = make_store(vnode_count=5, shards=2)
        new_table(store, packed)
        model = Documents(store.table("t").schema)
        past = {}
        for _ in range(chance.randrange(5, 14)):
            change(store, model, chance)
            past[store.epoch] = model.seen(0)
            if chance.random() < 0.2:
                store.compact("t")
            check_reads(store, past[max(past)], chance)
        for epoch, rows in past.items():
            assert seen(store, epoch) == rows
        assert store.check().problems == ()


def check_reads(store: Store, rows: dict[int, dict[str, Any]], chance: random.Random) -> None:
    """Assert that all ways to read give the same rows."""
    table = store.table("t")
    assert seen(store) == rows
    assert table.count() == len(rows)
    for key in range(6):
        assert got(store, key) == rows.get(key)
    keys = pa.record_batch({"k": pa.array(range(6), pa.int32())})
    assert table.get_rows(keys, ["k", "a"]).to_pylist() == [
        {"k": key, "a": row["a"]} for key, row in sorted(rows.items())
    ]
    value = chance.randrange(9)
    matches = [batch.to_pylist() for batch in table.scan(["k"], where=f"a < {value} AND k < 4")]
    assert sorted(row["k"] for batch in matches for row in batch) == [
        key for key, row in rows.items() if key < 4 and row["a"] is not None and row["a"] < value
    ]


@LAYOUTS
def test_the_feed_of_a_document_table(make_store: StoreMaker, packed: bool, seeds: Seeds) -> None:
    """Its changes, applied to the rows at the first epoch, give the rows at the last."""
    for seed in seeds(4):
        chance = random.Random(seed)
        store = make_store(vnode_count=5, shards=2)
        new_table(store, packed)
        model = Documents(store.table("t").schema)
        first = store.epoch
        past = {first: seen(store)}
        for _ in range(chance.randrange(4, 9)):
            change(store, model, chance)
            past[store.epoch] = seen(store)
            if chance.random() < 0.2:
                store.compact("t")
        for start in past:
            rows = dict(past[start])
            for batch in store.changes("t", start + 1):
                apply_changes(model.schema, rows, batch.to_pylist())
            assert rows == past[max(past)]


def apply_changes(
    schema: TableSchema, rows: dict[int, dict[str, Any]], changes: list[dict[str, Any]]
) -> None:
    """Apply rows of a feed to rows, each of which it must fit."""
    for change_row in changes:
        key = change_row["k"]
        columns = {name: value for name, value in change_row.items() if not name.startswith("_")}
        row = without_key(schema, columns)
        if change_row["_change_type"] in ("insert", "update_postimage"):
            assert change_row["_change_type"] != "insert" or key not in rows
            rows[key] = row
        else:
            assert rows.pop(key) == row


def test_the_feed_deletes_a_row_with_the_last_of_its_columns(store: Store) -> None:
    """Of a row that only patches wrote, from whichever epoch on."""
    new_table(store, columns="k INT, a INT, b INT")
    for columns in ({"a": 1}, {"b": 2}, {"a": None}, {"b": None}):
        store.patch("t", batch_of(store, [{"k": 1, **columns}]))
    last = store.epoch
    for first in range(last - 3, last + 1):
        changes = [row for batch in store.changes("t", first) for row in batch.to_pylist()]
        assert changes[-1] == changes[-1] | {"_change_type": "delete", "a": None, "b": 2}
        assert changes[-1]["_commit_version"] == last


# What a patch costs


def test_a_patch_reads_no_file_and_writes_what_changes(make_store: StoreMaker) -> None:
    """Whatever the size of the row: entries of some bytes for a map of 10,000 entries."""
    store = make_store(vnode_count=1)
    new_table(store)
    large = [(f"{number:06d}", number) for number in range(10_000)]
    nothing = dict.fromkeys(("a", "s", "l", "st", "d"))
    store.write("t", batch_of(store, [{"k": 1, "m": large, **nothing}]))
    store.patch("t", batch_of(store, [{"k": 1, "m": [("new", 1)]}]))
    (record,) = (
        segment.record for segment in store.state.segments.values() if segment.epoch == store.epoch
    )

    assert record.tables[0].rows == 1
    assert sum(record.tables[0].shard_bytes) < 60
    assert (got(store, 1) or {})["m"] == sorted([*large, ("new", 1)])


def test_a_patch_reads_nothing_and_reads_open_the_files(tmp_path: Path) -> None:
    """Of a table that is not cached: no segment and no byte of the map."""
    path = str(tmp_path / "store")
    with Store.create(path, vnode_count=1) as store:
        new_table(store, columns="k INT, m MAP<STRING, INT>")
        store.write("t", batch_of(store, [{"k": 1, "m": [("a", 1)]}]))
        patch = batch_of(store, [{"k": 1, "m": [("b", 2)]}])
    for segment in (tmp_path / "store" / "segments").iterdir():
        segment.unlink()
    with Store.open(path) as store:
        store.patch("t", patch)
        with pytest.raises(SegmentMissingError):
            store.table("t").get(1)


def test_compaction_folds_the_parts_of_a_single_file(store: Store) -> None:
    """Though the file hides no row of another; a second time there is nothing to do."""
    new_table(store, columns="k INT, a INT, m MAP<STRING, INT>")
    store.patch("t", batch_of(store, [{"k": 1, "a": 1, "m": [("x", 1)]}]))
    assert store.compact("t").files_read == 1
    (segment,) = store.state.segments.values()
    assert (segment.record.tables[0].rows, segment.record.tables[0].parts) == (1, 0)
    assert seen(store) == {1: {"a": 1, "m": [("x", 1)]}}
    assert store.compact("t").files_read == 0


def test_a_compacted_table_is_scanned_like_a_table_of_rows(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No entry is asked whether it is a part, as the statistics of the files count none."""
    new_table(store, columns="k INT, a INT, m MAP<STRING, INT>")
    store.write("t", batch_of(store, [{"k": key, "a": 1, "m": None} for key in range(9)]))
    store.patch("t", batch_of(store, [{"k": 1, "m": [("x", 1)]}]))
    rows = seen(store)
    asked: list[bool] = []

    def is_divided(self: RowFold, headers: Headers) -> Any:
        asked.append(True)
        return headers.is_divided

    monkeypatch.setattr(RowFold, "is_divided", is_divided)
    assert seen(store) == rows
    assert asked
    store.compact("t")
    asked.clear()
    assert seen(store) == rows
    assert not asked


def test_columns_that_are_not_asked_for_are_not_read(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In rows that have parts too, unless a row is there only by its columns."""
    new_table(store, columns="k INT, a INT, b INT, m MAP<STRING, INT>")
    rows = [{"k": key, "a": key, "b": 7, "m": [("p", key)]} for key in range(9)]
    store.write("t", batch_of(store, rows))
    store.patch("t", batch_of(store, [{"k": 1, "m": [("x", 1)]}, {"k": 2, "m": [("x", 1)]}]))
    read: list[str] = []
    merged = ColumnMerge.merged

    def recorded(self: ColumnMerge, *arguments: Any) -> Any:
        read.append(self.column.name)
        return merged(self, *arguments)

    monkeypatch.setattr(ColumnMerge, "merged", recorded)
    assert sorted(store.table("t").to_arrow(columns=["a"])["a"].to_pylist()) == list(range(9))
    assert set(read) == {"a"}
    assert store.table("t").to_arrow(columns=["k"], where="a = 1 AND b = 7")["k"].to_pylist() == [1]
    store.patch("t", batch_of(store, [{"k": 10, "b": 1}]))
    assert sorted(store.table("t").to_arrow(columns=["k"])["k"].to_pylist()) == [*range(9), 10]


# Crashes

NEW: list[dict[str, Any]] = [
    {"k": 1, "a": 5, "m": [("p", None), ("q", 2)]},
    {"k": 4, "a": 4, "m": None},
]


def write_parts(store: Store) -> None:
    """Change parts of two rows by a writer."""
    with store.document_writer("t") as writer:
        writer.patch(1, {"m": {"p": None, "q": 2}})
        writer.set(1, {"a": 5})
        writer.set(4, {"a": 4})


def remove_parts(store: Store) -> None:
    """Remove an entry of a map, a column, and with it a row."""
    with store.document_writer("t") as writer:
        writer.remove(1, ("m", "p"))
        writer.remove(3, "a")


CHANGED: dict[int, dict[str, Any] | None] = {1: {"a": 5, "m": [("q", 2)]}, 4: {"a": 4, "m": None}}
CRASHES: dict[str, tuple[Callable[[Store], Any], dict[int, dict[str, Any] | None]]] = {
    "patch": (lambda store: store.patch("t", batch_of(store, NEW)), {**CHANGED}),
    "write parts": (write_parts, {**CHANGED}),
    "remove parts": (remove_parts, {1: {"a": 1, "m": None}, 3: None}),
    "compact": (lambda store: store.compact("t"), {}),
    "set encoding": (lambda store: store.set_encoding("t", "row"), {}),
}


@pytest.mark.parametrize("change_name", CRASHES)
def test_a_crash_at_any_step_leaves_the_old_or_the_new(tmp_path: Path, change_name: str) -> None:
    """A change is there whole or not at all; no row changes with its files or the encoding."""
    prepared = tmp_path / "prepared"
    columns = "k INT, a INT, m MAP<STRING, INT>"
    with Store.create(str(prepared), vnode_count=3, shards=2) as store:
        new_table(store, columns=columns)
        store.write("t", batch_of(store, [{"k": key, "a": key, "m": [("p", 1)]} for key in (1, 2)]))
        store.patch("t", batch_of(store, [{"k": 2, "a": None}, {"k": 3, "a": 3}]))
        old = seen(store)
    change, changed_rows = CRASHES[change_name]
    merged = sorted((old | changed_rows).items())
    new = {key: row for key, row in merged if row is not None}
    states, encodings = [], []
    for environment in trials(prepared, tmp_path / "tried", "crash_at"):
        with environment.crashing():
            change(Store.open(environment.root, environment=environment))
        environment.power_cut()
        registry.close(environment.root)
        with Store.open(environment.root) as store:
            assert store.check().problems == ()
            states.append(seen(store))
            encodings.append(store.state.table("t").definition.properties.encoding)
            assert states[-1] in (old, new)
    assert (states[0], encodings[0]) == (old, "document")
    assert states[-1] == new
    assert encodings[-1] == ("row" if change_name == "set encoding" else "document")


def test_a_full_disk_refuses_changes_of_parts(tmp_path: Path) -> None:
    """Wherever it is full, all of a change is refused; the next one succeeds."""
    path = str(tmp_path / "store")
    with Store.create(path, vnode_count=3, shards=2) as store:
        new_table(store, columns="k INT, a INT, m MAP<STRING, INT>")
        store.write("t", batch_of(store, [{"k": 1, "a": 1, "m": [("p", 1)]}]))
        old = seen(store)
    for step in ("write segments/*", "sync segments/*", "write _log/*"):
        for change, _ in (CRASHES["patch"], CRASHES["write parts"], CRASHES["remove parts"]):
            full = FaultyEnvironment(path, error_at=step, errno=errno.ENOSPC)
            with Store.open(path, environment=full) as store:
                with pytest.raises(StorageFullError, match="no space left"):
                    change(store)
                assert full.struck
                assert seen(store) == old
                assert store.check().problems == ()
    with Store.open(path) as store:
        write_parts(store)
        assert seen(store) == CHANGED


# Against a table of rows


def test_a_compacted_table_has_the_entries_of_a_table_of_rows(store: Store) -> None:
    """Byte for byte, whatever parts were written before: patches, additions, removals."""
    columns = "k INT, a INT, s STRING, m MAP<STRING, INT>, l ARRAY<INT>, v VARIANT"
    new_table(store, columns=columns)
    store.create_table("rows", columns, primary_key=["k"])
    keys = [{"k": key, "a": key, "m": [("p", key)], "l": [key]} for key in range(50)]
    store.write("t", batch_of(store, keys))
    with store.document_writer("t") as writer:
        for key in range(0, 60, 3):
            writer.patch(key, {"s": f"s{key}", "m": {"q": 1, "p": None}, "v": {"a": {}, "b": 1}})
            writer.add(key, "l", [7])
        writer.remove(4, "a", "m", "l")
        writer.remove(5, ("m", "p"))
    store.delete("t", pa.record_batch({"k": pa.array([7], pa.int32())}))
    rows = store.table("t").to_arrow()
    # A row that was never inserted says so in its header: it goes with the last of its columns.
    is_inserted = pc.less(rows["k"], 50)
    store.delete("t", rows.filter(pc.invert(is_inserted)).select(["k"]))
    store.write("rows", rows.filter(is_inserted))
    store.compact("t")
    store.compact("rows")

    assert len(bytes_of(store, "t")) == 49
    assert bytes_of(store, "t") == bytes_of(store, "rows")


def bytes_of(store: Store, name: str) -> list[tuple[bytes, bytes]]:
    """Return the entries of a table, without the id of the table."""
    table = store.state.table(name).definition
    encoding = encoding_of(table, store.settings.vnode_count)
    records = [segment.record for segment in store.state.segments.values()]
    source = EntrySource(store.environment, table.table_id, "open")
    bounds = encoding.vnode_bounds(range(store.settings.vnode_count))
    blocks = source.read(sequence_segments(records, store.epoch, table.table_id), bounds)
    return [
        (key[len(encoding.prefix.id_bytes) :], value)
        for block in blocks
        for key, value in zip(
            block.key_bytes().to_pylist(), block.value_bytes().to_pylist(), strict=True
        )
    ]


def test_keys_of_ten_megabytes_and_with_nuls(store: Store) -> None:
    """Rows, parts and deletes are told apart by keys that begin alike; by scans and lookups."""
    store.create_table(
        "long", "k BINARY, a INT, m MAP<STRING, INT>", primary_key=["k"], encoding="document"
    )
    start = b"\0k" * 300
    keys = [b"", b"\0", b"\0\0", b"\0\1", b"\xff\0", start, start + b"\0", b"\0k" * 5_000_000]
    rows = pa.record_batch({"k": pa.array(keys, pa.binary()), "a": pa.array(range(8), pa.int32())})
    store.write("long", rows)
    with store.document_writer("long") as writer:
        for number, key in enumerate(keys):
            writer.set(key, {("m", "x\0"): number})
        writer.remove(keys[6], "a", ("m", "x\0"))
    store.delete("long", pa.record_batch({"k": pa.array([b"\0"], pa.binary())}))
    expected = {
        key: {"a": None, "m": None} if number == 6 else {"a": number, "m": {"x\0": number}}
        for number, key in enumerate(keys)
        if number != 1
    }
    for _ in range(2):
        table = store.table("long")
        scanned = {
            row["k"]: {"a": row["a"], "m": row["m"] and dict(row["m"])} for row in table.to_dicts()
        }
        # No message has keys of ten megabytes.
        is_as_expected = scanned == expected
        assert is_as_expected
        for key in keys:
            found = table.get(key)
            assert (None if found is None else {"a": found.a, "m": found.m}) == expected.get(key)
        store.compact("long")
    assert store.check().problems == ()


def test_a_compaction_ends_no_file_within_a_row(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of one compaction have one version: none of them could hide a part in another."""
    new_table(store, packed=False, columns="k INT, m MAP<STRING, INT>")
    entries = [(f"{number:03d}", number) for number in range(100)]
    for keys in (range(30), range(20, 40)):
        store.write("t", batch_of(store, [{"k": key, "m": entries} for key in keys]))
    monkeypatch.setattr("relstate.storage.segment.writer.SEGMENT_BYTES", 1 << 12)
    store.compact("t")
    encoding = encoding_of(store.state.tables[1].definition, store.state.settings.vnode_count)
    records = [segment.record.tables[0] for segment in store.state.segments.values()]

    assert len(records) > 20
    for key in range(40):
        first = encoding.encode_key([key])
        files = [
            record
            for record in records
            if record.first_key < first + b"\xff" and first <= record.last_key
        ]
        assert len(files) == 1
        assert got(store, key) == {"m": entries}


# Lives


def test_parts_expire_alone(tmp_path: Path) -> None:
    """A column, an entry of a map; what was written without a life stays."""
    clock = ManualClock(1_000_000_000_000_000)
    environment = LocalEnvironment(str(tmp_path / "store"), UnsyncedDisk(), clock)
    store = Store.create(str(tmp_path / "store"), environment=environment)
    new_table(store, columns="k INT, a INT, s STRING, m MAP<STRING, INT>")
    store.write("t", batch_of(store, [{"k": 1, "a": 1, "s": "x", "m": [("p", 1)]}]))
    hour = pa.array([3600], pa.int64())
    store.patch("t", batch_of(store, [{"k": 1, "a": 2, "m": [("q", 2)]}]), ttls=hour)
    store.patch("t", batch_of(store, [{"k": 2, "a": 2}]), ttls=hour)
    now = {1: {"a": 2, "s": "x", "m": [("p", 1), ("q", 2)]}, 2: {"a": 2, "s": None, "m": None}}
    assert seen(store) == now
    store.compact("t")
    assert seen(store) == now
    clock.advance(3601)
    later = {1: {"a": None, "s": "x", "m": [("p", 1)]}}
    assert seen(store) == later
    assert store.table("t").get(2) is None
    assert store.table("t").get(1) is not None
    store.compact("t")
    assert seen(store) == later
    assert store.check().problems == ()
    store.close()


def test_a_patch_of_dicts_keeps_the_fields_that_it_does_not_name(make_store: StoreMaker) -> None:
    """As of JSON merge patches: a field left out stays, None removes, {} changes nothing."""
    store = make_store()
    columns = "id BIGINT, s STRUCT<a: INT, b: STRING, c: STRUCT<x: INT, y: INT>>"
    table = store.create_table("t", columns, primary_key=["id"], encoding="document")
    whole = {"a": 1, "b": "x", "c": {"x": 1, "y": 2}}
    store.write("t", [{"id": 1, "s": whole}, {"id": 2, "s": whole}])
    store.patch("t", [{"id": 1, "s": {"c": {"x": 5}}}, {"id": 2, "s": {"b": None}}])
    store.patch("t", ({"id": key, "s": {}} for key in (1, 2)))
    rows = [row["s"] for row in table.to_dicts()]
    assert rows == [
        {"a": 1, "b": "x", "c": {"x": 5, "y": 2}},
        {"a": 1, "b": None, "c": {"x": 1, "y": 2}},
    ]
    store.patch("t", [{"id": 1, "s": {"c": None}}, {"id": 2, "s": None}])
    assert [row["s"] for row in table.to_dicts()] == [{"a": 1, "b": "x", "c": None}, None]
