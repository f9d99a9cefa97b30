"""Changes of parts of single rows: what each does, what it costs, and random histories."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path as FilePath
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

from relstate.storage import Store
from relstate.storage.codec.variant_value import variant_of
from relstate.storage.documentwriter import DocumentWriter
from relstate.storage.errors import (
    CorruptionError,
    DataError,
    NullKeyError,
    NullValueError,
    OptionError,
    SchemaError,
    SchemaMismatchError,
    TableNotFoundError,
    ValueRangeError,
)
from relstate.storage.schema import ddl
from relstate.storage.schema.arrow import arrow_type
from relstate.storage.segment.registry import SegmentRegistry
from relstate.storage.table.document.variantshape import VariantShape
from support.clock import ManualClock
from support.commits import quick_environment
from support.document_tables import LAYOUTS, timed_store
from support.entries import seen_rows
from support.examples import examples
from support.random_parts import COLUMNS, SET, STEPS, Pair, Step


@pytest.fixture
def clock() -> ManualClock:
    """The clock of the store."""
    return ManualClock()


@pytest.fixture
def store(tmp_path: FilePath, clock: ManualClock) -> Iterator[Store]:
    """A store whose time is the clock's."""
    with timed_store(tmp_path, clock) as store:
        yield store


# What each change does

ADDRESSES = """id INT, note STRING, props MAP<STRING, STRING>, tags ARRAY<STRING>, l ARRAY<INT>,
    address STRUCT<city: STRING, geo: STRUCT<x: DOUBLE, y: DOUBLE>>,
    orders MAP<INT, STRUCT<n: INT, lines: MAP<STRING, INT>>>, doc VARIANT"""


@pytest.fixture
def writer(store: Store) -> DocumentWriter:
    """A writer of the table ``t``, with a set."""
    store.create_table("t", ADDRESSES, primary_key=["id"], encoding="document", sets=["tags"])
    return store.document_writer("t")


def row_of(store: Store, key: int = 1) -> dict[str, Any]:
    """Return a row of ``t`` without its key and NULLs, and check that compaction keeps it."""
    rows = {row.pop("id"): row for row in seen_rows(store, "t")}
    store.compact("t")
    assert {row.pop("id"): row for row in seen_rows(store, "t")} == rows
    return rows.get(key, {})


def test_paths_at_any_depth(store: Store, writer: DocumentWriter) -> None:
    """An entry of a map, a field of a struct, and either within the other."""
    writer.set(
        1,
        {
            ("props", "read"): "true",
            ("address", "CITY"): "Linz",
            ("address", "geo", "x"): 1.5,
            ("orders", 7, "lines", "a"): 1,
        },
    )
    writer.commit()
    writer.set(1, {("orders", 7, "n"): 2, ("props", "none"): None, ("address", "geo", "x"): None})
    writer.set(1, {("address", "geo", "y"): 2.5})
    writer.commit()

    assert row_of(store) == {
        "props": {"none": None, "read": "true"},
        "address": {"city": "Linz", "geo": {"x": None, "y": 2.5}},
        "orders": {7: {"n": 2, "lines": {"a": 1}}},
    }


def test_patches_merge_dicts(store: Store, writer: DocumentWriter) -> None:
    """None removes, dicts are merged into maps and structs, all else is replaced (RFC 7396)."""
    writer.patch(1, {"note": "x", "props": {"a": "1", "b": "2"}, "address": {"city": "Linz"}})
    writer.patch(1, {"orders": {7: {"n": 1, "lines": {"p": 1, "q": 2}}, 8: {"n": 3}}})
    writer.commit()
    writer.patch(1, {"note": None, "props": {"a": None, "c": "3"}, "address": {"geo": {"x": 1.0}}})
    writer.patch(1, {"orders": {7: {"lines": {"p": None, "r": 3}}, 8: None}, "l": [1, 2]})
    writer.commit()

    assert row_of(store) == {
        "props": {"b": "2", "c": "3"},
        "address": {"city": "Linz", "geo": {"x": 1.0, "y": None}},
        "orders": {7: {"n": 1, "lines": {"q": 2, "r": 3}}},
        "l": [1, 2],
    }


def test_a_collection_goes_with_the_last_of_its_parts(
    store: Store, writer: DocumentWriter, clock: ManualClock
) -> None:
    """Made by parts or written whole, compacted between or not; one that is written empty stays."""
    whole = {"props": {"a": "1"}, "tags": ["x"], "address": {"city": "Linz"}, "note": "n"}
    for is_compacted in (False, True):
        writer.remove(1, *whole, "orders")
        writer.patch(1, whole)
        writer.commit()
        writer.set(1, {"props": {"a": "1"}, "address": {"city": "Linz", "geo": None}})
        writer.set(1, {("orders", 7, "lines", "p"): 1}, ttl=10)
        writer.add(1, "l", [1], ttl=10)
        writer.commit()
        if is_compacted:
            store.compact("t")
        writer.remove(1, ("props", "a"), ("tags", "x"), ("address", "city"))
        writer.commit()
        clock.advance(10)
        assert row_of(store) == {"note": "n"}
    writer.set(1, {"props": {}, "tags": []})
    writer.commit()
    assert row_of(store) == {"note": "n", "props": [], "tags": []}
    writer.remove(1, ("props", "b"))
    writer.commit()
    assert row_of(store) == {"note": "n", "tags": []}


def test_a_set_has_each_element_once_in_order(store: Store, writer: DocumentWriter) -> None:
    """However it is written: with its row, replaced, added to, or by a patch of many rows."""
    elements = pa.array([["b", "a", "b"], []], pa.list_(pa.string()))
    store.write("t", pa.record_batch({"id": pa.array([1, 2], pa.int32()), "tags": elements}))
    assert [row["tags"] for row in seen_rows(store, "t")] == [["a", "b"], []]
    writer.add(1, "tags", {"c", "a"})
    writer.remove(1, ("tags", "b"))
    writer.add(3, "tags", ["z", "y", "z"])
    writer.commit()
    assert [row["tags"] for row in seen_rows(store, "t")] == [["a", "c"], [], ["y", "z"]]
    writer.set(1, {"tags": ["q", "q", "p"]})
    writer.commit()
    patch = {"id": pa.array([2], pa.int32()), "tags": pa.array([["n", "m", "n"]])}
    store.patch("t", pa.record_batch(patch))

    assert row_of(store)["tags"] == ["p", "q"]
    assert row_of(store, 2)["tags"] == ["m", "n"]


def test_arrays_grow_at_both_ends(store: Store, writer: DocumentWriter) -> None:
    """By several writers that do not see each other; each one's elements keep their order."""
    others = [store.document_writer("t") for _ in range(3)]
    expected = [0]
    writer.set(1, {"l": [0]})
    writer.commit()
    for number, other in enumerate(others, start=1):
        other.add(1, "l", [number, number + 10])
        other.prepend(1, "l", [-number - 10, -number])
        other.add(1, "l", [number + 20])
        other.prepend(1, "l", [-number - 20])
    for number, other in enumerate(others, start=1):
        other.commit()
        before = [-number - 20, -number - 10, -number]
        expected = [*before, *expected, number, number + 10, number + 20]
        assert row_of(store)["l"] == expected


def test_elements_that_expire_keep_their_place(
    store: Store, writer: DocumentWriter, clock: ManualClock
) -> None:
    """Also among elements that do not, and across compactions."""
    for number, ttl in enumerate([None, 10, None, 20, None]):
        writer.add(1, "l", [number], ttl=ttl)
        writer.prepend(1, "l", [-number - 1], ttl=ttl)
        writer.commit()
    assert row_of(store)["l"] == [-5, -4, -3, -2, -1, 0, 1, 2, 3, 4]
    clock.advance(10)
    assert row_of(store)["l"] == [-5, -4, -3, -1, 0, 2, 3, 4]
    assert store.table("t").ttl(1, "l") is None
    clock.advance(10)
    assert row_of(store)["l"] == [-5, -3, -1, 0, 2, 4]


def test_the_time_to_live_of_collections(
    store: Store, writer: DocumentWriter, clock: ManualClock
) -> None:
    """That of the last part; None for what stays, and for what is not there."""
    writer.add(1, "props", {"a": "1"}, ttl=10)
    writer.add(1, "props", {"b": "2"}, ttl=20)
    writer.add(1, "tags", ["x"], ttl=30)
    writer.patch(2, {"note": "x", "props": {"a": "1"}}, ttl=10)
    writer.set(2, {("props", "b"): "2"})
    writer.commit()
    table = store.table("t")

    for _ in range(2):
        ttls = {path: table.ttl(1, path) for path in ["props", ("props", "a"), ("tags", "x"), "l"]}
        assert ttls == {"props": 20, ("props", "a"): 10, ("tags", "x"): 30, "l": None}
        assert table.ttl(1) == 30
        assert (table.ttl(2), table.ttl(2, "note"), table.ttl(3)) == (None, 10, None)
        store.compact("t")
    clock.advance(10)
    assert (table.ttl(1, ("props", "a")), table.ttl(1, "props")) == (None, 10)
    with pytest.raises(SchemaMismatchError, match="has no separate part 'x'"):
        table.ttl(1, ("note", "x"))


def test_the_later_of_two_changes_counts(store: Store, writer: DocumentWriter) -> None:
    """Within a commit as between commits, also where one of them is above the other."""
    writer.set(1, {("props", "a"): "1"})
    writer.set(1, {"props": {"b": "2"}})
    writer.set(1, {("props", "c"): "3"})
    writer.patch(1, {"note": "x"})
    writer.remove(1, "note")
    writer.commit()

    assert row_of(store) == {"props": {"b": "2", "c": "3"}}


def test_nothing_is_read(
    store: Store, writer: DocumentWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No change opens a file of the table, and what it writes depends on what it changes alone."""
    entries = [(f"{number:06d}", "v") for number in range(10_000)]
    large = pa.array([entries], pa.map_(pa.string(), pa.string()))
    store.write("t", pa.record_batch({"id": pa.array([1], pa.int32()), "props": large}))
    opened: list[str] = []
    open_segment = SegmentRegistry.open

    def counted(self: SegmentRegistry, environment: Any, record: Any, *rest: Any) -> Any:
        opened.append(record.name)
        return open_segment(self, environment, record, *rest)

    monkeypatch.setattr(SegmentRegistry, "open", counted)
    writer.set(1, {("props", "a"): "1", "note": "x"}, ttl=5)
    writer.add(1, "tags", ["x"])
    writer.add(1, "l", [1])
    writer.prepend(1, "l", [0])
    writer.remove(1, "address", ("props", "000001"))
    writer.patch(1, {"address": {"geo": {"x": 1.0}}})
    writer.commit()
    store.patch("t", pa.record_batch({"id": pa.array([1], pa.int32()), "note": ["y"]}))
    added = [segment for segment in store.state.segments.values() if segment.epoch > 3]

    assert opened == []
    assert sum(sum(segment.record.tables[0].shard_bytes) for segment in added) < 600
    assert len(row_of(store)["props"]) == 10_000
    assert opened != []


# Bytes that are not variants

DAMAGED = {"value": b"\xff\xff", "metadata": b""}
BAD_KEY = {"value": b"\x02\x01\x00\x00\x01\x00", "metadata": b"\x01\x01\x00\x01\xff"}
HOLDERS: dict[str, Callable[[Any], Any]] = {
    "doc VARIANT": lambda variant: variant,
    "doc ARRAY<VARIANT>": lambda variant: [None, variant],
    "doc STRUCT<a: INT, b: VARIANT>": lambda variant: {"a": 1, "b": variant},
    "doc MAP<STRING, VARIANT>": lambda variant: [("a", variant)],
}


def variant_rows(column: str, ids: list[int], variants: list[Any]) -> pa.RecordBatch:
    """Return rows of ``id INT`` and a column, of one of `HOLDERS`, that holds variants."""
    (field,) = ddl.parse_columns(column)
    values = pa.array(list(map(HOLDERS[column], variants)), arrow_type(field.type))
    return pa.record_batch({"id": pa.array(ids, pa.int32()), field.name: values})


@pytest.mark.parametrize("damaged", [DAMAGED, BAD_KEY])
@pytest.mark.parametrize("column", HOLDERS)
def test_bytes_that_are_not_variants_are_refused(
    store: Store, column: str, damaged: dict[str, bytes]
) -> None:
    """In rows and patches, wherever in a column; nothing is written."""
    for layout in (True, False):
        table = f"t{layout:d}"
        store.create_table(
            table, f"id INT, {column}", primary_key=["id"], encoding="document", packed=layout
        )
        epoch = store.epoch
        rows = variant_rows(column, [1, 2], [variant_of({"a": 1}), damaged])
        for write in (store.write, store.patch):
            with pytest.raises(SchemaMismatchError, match="doc: the bytes of a value are not a"):
                write(table, rows)
        assert store.epoch == epoch
        store.write(table, rows.slice(0, 1))
        store.patch(table, rows.slice(0, 1))
        assert len(seen_rows(store, table)) == 1


@pytest.mark.parametrize("damaged", [DAMAGED, BAD_KEY])
def test_stored_bytes_that_are_not_variants(store: Store, damaged: dict[str, bytes]) -> None:
    """What is written below them replaces them; until then they stay as they are."""
    store.create_table("t", "id INT, doc VARIANT", primary_key=["id"])
    good = variant_of({"b": 2})
    store.write("t", variant_rows("doc VARIANT", [1, 2, 3, 4], [good, damaged, damaged, damaged]))
    store.set_encoding("t", "document")
    assert store.table("t").ttl(2, ("doc", "a")) is None
    with store.document_writer("t") as writer:
        writer.set(1, {("doc", "a"): 1})
        writer.set(2, {("doc", "a"): 1})
        writer.remove(3, ("doc", "a"))
    expected = [variant_of({"a": 1, "b": 2}), variant_of({"a": 1}), None, damaged]

    for is_compacted in (False, True):
        if is_compacted:
            store.compact("t")
        rows = sorted(store.table("t").to_arrow().to_pylist(), key=lambda row: row["id"])
        assert [row["doc"] for row in rows] == expected
        assert [row.doc for row in map(store.table("t").get, (1, 2, 3, 4)) if row] == expected


def test_parts_that_cannot_be_decoded_are_corruption(
    store: Store, writer: DocumentWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To reads and compactions: an error that names the table."""
    writer.set(1, {"doc": {"a": 1}})
    writer.commit()
    writer.set(1, {("doc", "b"): 1})
    writer.commit()

    def fail(*_: object) -> None:
        raise ValueError("bad bytes")

    monkeypatch.setattr(VariantShape, "explode_stored", fail)
    for read in (store.table("t").to_arrow, lambda: store.compact("t")):
        with pytest.raises(CorruptionError, match=r"table t: the parts .* \(bad bytes"):
            read()


@pytest.mark.parametrize("path", [("doc",), ("doc", "inner")])
def test_a_part_whose_variant_is_damaged_is_corruption(
    tmp_path: FilePath, path: tuple[str, ...]
) -> None:
    """To a lookup, a scan and a compaction alike, not bytes to one and NULL to others."""
    store = Store.create(str(tmp_path / "damaged"))
    store.create_table("t", "id INT, doc VARIANT", primary_key=["id"], encoding="document")
    with store.document_writer("t") as writer:
        writer.set(1, {path: {"a key to damage": 1}})
    assert store.table("t").get(1) is not None
    (file,) = (tmp_path / "damaged" / "segments").glob("*.lmdb")
    content = file.read_bytes()
    with file.open("r+b") as segment:
        segment.seek(content.index(b"a key to damage"))
        segment.write(b"\xff")

    for read in (
        lambda: store.table("t").get(1),
        store.table("t").to_arrow,
        lambda: store.compact("t"),
    ):
        with pytest.raises(CorruptionError, match="run check to find the file"):
            read()
    assert any(file.name in str(problem) for problem in store.check().problems)
    store.close()


# What is refused

REFUSED: list[tuple[Callable[[DocumentWriter], None], type[DataError], str]] = [
    (lambda w: w.set(1, {"zz": 1}), SchemaMismatchError, "unknown column 'zz'"),
    (lambda w: w.set(1, {"id": 1}), SchemaMismatchError, "'id' is in the primary key"),
    (lambda w: w.set(1, {"note": 5}), SchemaMismatchError, "note: 5 is not a value of string"),
    (lambda w: w.set(1, {("note", "x"): "y"}), SchemaMismatchError, "note is STRING"),
    (lambda w: w.set(1, {("address", "zz"): 1}), SchemaMismatchError, "address has no field 'zz'"),
    (lambda w: w.set(1, {("address", "geo", 1): 1.0}), SchemaMismatchError, "geo has no field 1"),
    (lambda w: w.set(1, {("l", 3): 1}), SchemaMismatchError, "set the array, or add to its ends"),
    (lambda w: w.set(1, {("props", None): "x"}), NullKeyError, "the key of an entry is never NULL"),
    (lambda w: w.set(1, {("props", 5): "x"}), SchemaMismatchError, "5"),
    (lambda w: w.set(1, {("orders", 1 << 40): None}), ValueRangeError, "does not fit"),
    (lambda w: w.set(1, {("props", "x" * 70_000): "y"}), ValueRangeError, "at most 65535 bytes"),
    (lambda w: w.set(1, {("tags", "x"): True}), SchemaMismatchError, "an element of a set"),
    (lambda w: w.set(1, {"doc": {1: 2}}), SchemaMismatchError, "doc: the key 1 .* is not text"),
    (lambda w: w.set(1, {"doc": 10**40}), ValueRangeError, "doc: .* up to 38 digits"),
    (lambda w: w.set(1, {"doc": DAMAGED}), SchemaMismatchError, "doc: .* is not a variant"),
    (lambda w: w.patch(1, {"doc": BAD_KEY}), SchemaMismatchError, "is not a variant"),
    (lambda w: w.set(1, {("doc", "\ud800"): 1}), ValueRangeError, "ud800"),
    (lambda w: w.set(1, {("doc", 0): 1}), SchemaMismatchError, "doc is VARIANT .* are text"),
    (lambda w: w.set(1, {("doc", *["a"] * 255): 1}), SchemaMismatchError, "at most 254"),
    (lambda w: w.patch(1, {"doc": {"a": {2: 3}}}), SchemaMismatchError, "are text"),
    (lambda w: w.add(1, "doc", ["x"]), SchemaMismatchError, "only maps, sets and arrays"),
    (lambda w: w.set(1, {(): 1}), SchemaMismatchError, "a path is a column's name"),
    (lambda w: w.add(1, "note", ["x"]), SchemaMismatchError, "only maps, sets and arrays"),
    (lambda w: w.add(1, "tags", "xy"), SchemaMismatchError, "tags is a set"),
    (lambda w: w.add(1, "tags", [None]), NullValueError, "an element of the set tags is None"),
    (lambda w: w.add(1, "l", None), NullValueError, "cannot add None"),
    (lambda w: w.prepend(1, "tags", ["x"]), SchemaMismatchError, "only an array has a beginning"),
    (lambda w: w.patch(1, {"props": {None: "x"}}), NullKeyError, "never NULL"),
    (lambda w: w.patch(1, {"address": {"zz": 1}}), SchemaMismatchError, "no field 'zz'"),
    (lambda w: w.patch(None, {"note": "x"}), NullKeyError, "holds no NULL"),
    (lambda w: w.patch("x", {"note": "x"}), SchemaMismatchError, "the key"),
    (lambda w: w.patch((1, 2), {"note": "x"}), SchemaMismatchError, "the key"),
    (lambda w: w.remove(1, ("address", "zz")), SchemaMismatchError, "no field 'zz'"),
    (lambda w: w.patch(1, {"note": "x"}, ttl=0), ValueRangeError, "found 0"),
    (lambda w: w.patch(1, {"note": "x"}, ttl=-5), ValueRangeError, "found -5"),
    (lambda w: w.add(1, "l", [1], ttl=1 << 70), ValueRangeError, "a TTL is in seconds"),
    (lambda w: w.set(1, {"note": "x"}, ttl=1.5), SchemaMismatchError, "whole number of seconds"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(
    ("change", "error", "message"), REFUSED, ids=[str(number) for number in range(len(REFUSED))]
)
def test_changes_that_do_not_fit(
    store: Store,
    writer: DocumentWriter,
    change: Callable[[DocumentWriter], None],
    error: type[DataError],
    message: str,
) -> None:
    """Each is an error of its kind, and nothing of it is kept."""
    epoch = store.epoch
    with pytest.raises(error, match=message):
        change(writer)

    assert writer.commit() is None
    assert store.epoch == epoch


def test_a_block_that_fails_writes_nothing(store: Store, writer: DocumentWriter) -> None:
    """Neither what was changed before the error."""
    epoch = store.epoch

    def change_twice() -> None:
        with writer:
            writer.set(1, {"note": "x"})
            writer.set(1, {"note": 5})

    with pytest.raises(SchemaMismatchError):
        change_twice()

    assert store.epoch == epoch


def test_tables_that_have_no_parts(store: Store) -> None:
    """A table of rows, and columns that cannot be sets."""
    store.create_table("rows", "k INT, a INT", primary_key=["k"])
    with pytest.raises(OptionError, match="encoding = 'document'"):
        store.document_writer("rows")
    with pytest.raises(OptionError, match="encoding = 'document'"):
        store.table("rows").ttl(1, ("a", "x"))
    sets = [
        ("k INT, a INT", ["a"], "a set is an ARRAY column"),
        ("k INT, a ARRAY<MAP<INT, INT>>", ["a"], "cannot be a set"),
        ("k INT, a ARRAY<INT>", ["a", "A"], "named twice"),
        ("k ARRAY<INT>, a INT", ["k"], "primary key"),
    ]
    for columns, names, message in sets:
        with pytest.raises(SchemaError, match=message):
            store.create_table("t", columns, primary_key=["k"], encoding="document", sets=names)
    with pytest.raises(SchemaError, match="sets need encoding"):
        store.create_table("t", "k INT, a ARRAY<INT>", primary_key=["k"], sets=["a"])


# The table may change while a writer lives


def test_a_writer_does_not_age(store: Store, writer: DocumentWriter, clock: ManualClock) -> None:
    """It is used for days, and with changes collected; each commit begins at the commit."""
    for number in range(3):
        clock.advance(30 * 3600)
        writer.set(1, {"note": str(number)})
        clock.advance(30 * 3600)
        assert writer.commit() == store.epoch
    assert row_of(store) == {"note": "2"}


def test_what_is_written_has_the_ttl_of_its_commit(
    store: Store, writer: DocumentWriter, clock: ManualClock
) -> None:
    """One that was set after the writer was made, and after changes were collected."""
    store.set_ttl("t", 60)
    writer.set(1, {"note": "x"})
    writer.commit()
    writer.set(2, {"note": "x"})
    store.set_ttl("t", 600)
    writer.commit()

    assert store.table("t").ttl(1, "note") == 60
    assert store.table("t").ttl(2, "note") == 600
    clock.advance(61)
    assert list(store.table("t").to_arrow().column("id").to_pylist()) == [2]


def test_a_column_that_was_dropped_is_refused(store: Store, writer: DocumentWriter) -> None:
    """When it is named, and at the commit of changes that were collected before."""
    writer.set(1, {"note": "x", ("props", "a"): "1"})
    store.drop_columns("t", "note")
    epoch = store.epoch
    with pytest.raises(SchemaMismatchError, match="'note' was dropped after its values"):
        writer.commit()
    assert store.epoch == epoch
    fresh = store.document_writer("t")
    with pytest.raises(SchemaMismatchError, match="note"):
        fresh.set(1, {"note": "x"})
    fresh.set(1, {("props", "a"): "1"})
    fresh.commit()
    store.drop_columns("t", "props")
    with pytest.raises(SchemaMismatchError, match="props"):
        fresh.set(1, {("props", "a"): "1"})


def test_columns_that_were_added_renamed_or_widened(store: Store, writer: DocumentWriter) -> None:
    """A writer knows added ones; a renamed one has what was collected, a widened one refuses it."""
    store.add_columns("t", "more STRING")
    writer.set(1, {"more": "x", "note": "y"})
    store.rename_column("t", "note", "remark")
    writer.commit()
    assert row_of(store) == {"more": "x", "remark": "y"}
    store.add_columns("t", "count INT")
    writer.set(1, {"count": 1})
    store.widen_column("t", "count", "BIGINT")
    with pytest.raises(SchemaMismatchError, match="'count' was given another type"):
        writer.commit()


def test_a_table_that_was_created_again_is_refused(store: Store, writer: DocumentWriter) -> None:
    """What was collected was for another one; afterwards the writer writes the new one."""
    writer.set(1, {"note": "x"})
    store.create_table(
        "t", ADDRESSES, primary_key=["id"], encoding="document", or_replace=True, sets=["tags"]
    )
    with pytest.raises(TableNotFoundError, match="created again"):
        writer.commit()
    store.drop_table("t")
    with pytest.raises(TableNotFoundError):
        writer.commit()


# Random histories


@LAYOUTS
@settings(max_examples=examples(100))
@given(STEPS)
def test_histories_are_those_of_a_nested_dict_with_clocks(
    tmp_path_factory: pytest.TempPathFactory, packed: bool, steps: list[Step | list[Step]]
) -> None:
    """After each step: changes of all kinds, with and without TTLs, rows, deletes, compactions."""
    clock = ManualClock()
    path = str(tmp_path_factory.mktemp("history") / "store")
    environment = quick_environment(path, clock)
    with Store.create(path, vnode_count=2, environment=environment) as store:
        store.create_table(
            "t", COLUMNS, primary_key=["k"], encoding="document", packed=packed, sets=[SET]
        )
        pair = Pair(store, clock)
        for step in [*steps, Step("compact"), Step("pass_time", value=15)]:
            pair.take(step)
            pair.check()
        assert store.check().problems == ()


def test_changes_and_paths_that_are_not_such_are_refused(
    store: Store, writer: DocumentWriter
) -> None:
    """With what they should be; a path or key of many steps is not repeated whole."""
    for change in (writer.patch, writer.set):
        with pytest.raises(SchemaMismatchError, match="a dict from columns or paths"):
            change(1, ["note"])  # type: ignore[arg-type]
    with pytest.raises(SchemaMismatchError, match="tuple of it and the steps below, not 5"):
        store.table("t").ttl(1, 5)  # type: ignore[arg-type]
    store.create_table("two", "a INT, b INT, v INT", primary_key=["a", "b"], encoding="document")
    with pytest.raises(SchemaMismatchError, match="not one value for each column: INT, INT"):
        store.document_writer("two").set(1, {"v": 1})
    with pytest.raises(SchemaMismatchError) as refusal:
        writer.set(1, {("doc", *"x" * 300): 1})
    assert len(str(refusal.value)) < 1000
    assert writer.commit() is None
