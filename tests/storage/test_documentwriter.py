"""Changes of parts of rows: the examples of the sources, at three levels, and random histories."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path as FilePath
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

from relstate.storage import Store
from relstate.storage.documentwriter import DocumentWriter
from relstate.storage.errors import (
    DataError,
    NullKeyError,
    NullValueError,
    OptionError,
    SchemaError,
    SchemaMismatchError,
    ValueRangeError,
)
from relstate.storage.segment.registry import SegmentRegistry
from support.clock import ManualClock
from support.commits import quick_environment
from support.entries import Stored, added_entries, all_entries
from support.examples import examples
from support.random_parts import COLUMNS, SET, STEPS, Pair, Step

DAY, HOUR = 86_400, 3600
LAYOUTS = pytest.mark.parametrize("packed", [True, False], ids=["packed", "unpacked"])


@pytest.fixture
def clock() -> ManualClock:
    """The clock of the store."""
    return ManualClock()


@pytest.fixture
def store(tmp_path: FilePath, clock: ManualClock) -> Iterator[Store]:
    """A store whose time is the clock's."""
    path = str(tmp_path / "store")
    environment = quick_environment(path, clock)
    with Store.create(path, vnode_count=3, shards=2, environment=environment) as store:
        yield store
        assert store.check().problems == ()


def plain(value: Any) -> Any:
    """Return a value as Arrow gives it with its maps as dicts."""
    match value:
        case dict():
            return {name: plain(inner) for name, inner in value.items()}
        case [(_, _), *_]:
            return {name: plain(inner) for name, inner in value}
        case list():
            return [plain(inner) for inner in value]
    return value


def seen(store: Store, name: str, epoch: int | None = None) -> list[dict[str, Any]]:
    """Return the rows of a table in the order of the key; what is NULL is left out."""
    table = (store if epoch is None else store.at(epoch)).table(name)
    return [
        {column: plain(value) for column, value in row.items() if value is not None}
        for row in table.to_arrow().to_pylist()
    ]


# The examples of the sources

MSGS = "user_id STRING, msg_id INT, msg STRING, msg_props MAP<STRING, STRING>"
KEY_10, KEY_20 = ("user1", 10), ("user1", 20)
FIRST = {"from": "a@b.com", "subject": "hello"}
SECOND = {"from": "c@d.com", "subject": "bar"}
ROW_10 = {"user_id": "user1", "msg_id": 10, "msg": "msg1", "msg_props": FIRST}
ROW_20 = {"user_id": "user1", "msg_id": 20, "msg": "msg2", "msg_props": SECOND}
READ_10 = {**ROW_10, "msg_props": FIRST | {"read_status": "true"}}
WITHOUT_10 = {name: value for name, value in ROW_10.items() if name != "msg_props"}
MSG, PROPS = ("msg",), ("msg_props",)
MSGS_PATHS = [MSG, PROPS, *((*PROPS, name) for name in ("from", "subject", "read_status"))]


def insert_msg(store: Store, row: dict[str, Any]) -> int:
    """Write a row of msgs and return the epoch."""
    schema = store.table("msgs").schema.arrow_schema
    values = {**row, "msg_props": list(row["msg_props"].items())}
    return store.write("msgs", pa.RecordBatch.from_pylist([values], schema=schema))


def entries_of_insert(key: tuple[Any, ...], packed: bool) -> list[Stored]:
    """Return the entries of a row of msgs that is written whole."""
    if packed:
        return [(key, (), "PUT", None)]
    return [
        (key, (), "OBJECT", None),
        (key, MSG, "PUT", None),
        (key, PROPS, "OBJECT", None),
        (key, (*PROPS, "from"), "PUT", None),
        (key, (*PROPS, "subject"), "PUT", None),
    ]


@LAYOUTS
def test_the_five_states_of_msgs(store: Store, packed: bool) -> None:
    """T1 to T5: the entries that each adds, what each shows, and the same after compaction."""
    store.create_table(
        "msgs", MSGS, primary_key=["user_id", "msg_id"], encoding="document", packed=packed
    )
    writer = store.document_writer("msgs")

    def add_to_props() -> int | None:
        writer.add(KEY_10, "msg_props", {"read_status": "true"})
        return writer.commit()

    def delete_props() -> int | None:
        writer.remove(KEY_10, "msg_props")
        return writer.commit()

    def delete_row() -> int:
        return store.delete("msgs", pa.record_batch({"user_id": ["user1"], "msg_id": [10]}))

    steps: list[tuple[Callable[[], int | None], list[Stored], list[dict[str, Any]]]] = [
        (lambda: insert_msg(store, ROW_10), entries_of_insert(KEY_10, packed), [ROW_10]),
        (add_to_props, [(KEY_10, (*PROPS, "read_status"), "PUT", None)], [READ_10]),
        (lambda: insert_msg(store, ROW_20), entries_of_insert(KEY_20, packed), [READ_10, ROW_20]),
        (delete_props, [(KEY_10, PROPS, "DELETE", None)], [WITHOUT_10, ROW_20]),
        (delete_row, [(KEY_10, (), "DELETE", None)], [ROW_20]),
    ]
    states = []
    for act, added, rows in steps:
        epoch = act()
        assert epoch is not None
        states.append((epoch, rows))
        assert added_entries(store, "msgs", MSGS_PATHS) == added
        assert seen(store, "msgs") == rows
    store.compact("msgs")

    assert all_entries(store, "msgs", MSGS_PATHS) == entries_of_insert(KEY_20, packed)
    for epoch, rows in [*states, (store.epoch, [ROW_20])]:
        assert seen(store, "msgs", epoch) == rows


def new_page_views(store: Store) -> None:
    """Create page_views with a page that was inserted for a day."""
    store.create_table(
        "page_views",
        "page_id STRING, views INT, category STRING",
        primary_key=["page_id"],
        encoding="document",
    )
    rows = pa.record_batch({"page_id": ["abc.com"], "views": pa.array([10], pa.int32())})
    store.write("page_views", rows, ttls=pa.array([DAY], pa.int64()))


PAGE: dict[str, Any] = {"page_id": "abc.com"}


@pytest.mark.parametrize("compacts", [False, True])
@pytest.mark.parametrize("ttl", [HOUR, None])
def test_page_views(store: Store, clock: ManualClock, ttl: int | None, compacts: bool) -> None:
    """The row lives a day, its category an hour; without a TTL that stays, and the row by it."""
    new_page_views(store)
    assert added_entries(store, "page_views", []) == [(("abc.com",), (), "PUT", DAY)]
    with store.document_writer("page_views") as writer:
        writer.set("abc.com", {"category": "news"}, ttl=ttl)
    category: Stored = (("abc.com",), ("category",), "PUT", ttl)
    table = store.table("page_views")
    assert added_entries(store, "page_views", [("category",)]) == [category]
    if compacts:
        store.compact("page_views")
        row: Stored = (("abc.com",), (), "PUT", DAY)
        assert all_entries(store, "page_views", [("category",)]) == [row, category]
    assert seen(store, "page_views") == [PAGE | {"views": 10, "category": "news"}]
    assert (table.ttl("abc.com", "views"), table.ttl("abc.com", "category")) == (DAY, ttl)
    assert table.ttl("abc.com") == (None if ttl is None else DAY)

    clock.advance(HOUR)
    category_later = {"category": "news"} if ttl is None else {}
    assert seen(store, "page_views") == [PAGE | {"views": 10} | category_later]
    assert table.ttl("abc.com", "views") == DAY - HOUR
    clock.advance(DAY - HOUR)
    assert seen(store, "page_views") == ([PAGE | category_later] if ttl is None else [])
    if compacts:
        store.compact("page_views")
        assert seen(store, "page_views") == ([PAGE | category_later] if ttl is None else [])


def test_the_nested_document(store: Store) -> None:
    """DocumentKey1 of the sources, written at once, and then changed at its depth by markers."""
    store.create_table(
        "documents",
        "id STRING, SubKey1 MAP<STRING, STRING>, SubKey4 STRING",
        primary_key=["id"],
        encoding="document",
        packed=False,
    )
    key = ("DocumentKey1",)
    below = [("SubKey1", name) for name in ("SubKey2", "SubKey3")]
    paths = [("SubKey1",), *below, ("SubKey4",)]
    batch = pa.RecordBatch.from_pylist(
        [
            {
                "id": "DocumentKey1",
                "SubKey1": [("SubKey2", "Value1"), ("SubKey3", "Value2")],
                "SubKey4": "Value3",
            }
        ],
        schema=store.table("documents").schema.arrow_schema,
    )
    first = store.write("documents", batch)
    assert added_entries(store, "documents", paths) == [
        (key, (), "OBJECT", None),
        (key, ("SubKey1",), "OBJECT", None),
        (key, below[0], "PUT", None),
        (key, below[1], "PUT", None),
        (key, ("SubKey4",), "PUT", None),
    ]
    with store.document_writer("documents") as writer:
        writer.remove("DocumentKey1", below[0])
    assert added_entries(store, "documents", paths) == [(key, below[0], "DELETE", None)]
    with store.document_writer("documents") as writer:
        writer.set("DocumentKey1", {"SubKey1": {"SubKey5": "Value4"}})
    assert added_entries(store, "documents", [*paths, ("SubKey1", "SubKey5")]) == [
        (key, ("SubKey1",), "OBJECT", None),
        (key, ("SubKey1", "SubKey5"), "PUT", None),
    ]
    document = {"id": "DocumentKey1", "SubKey4": "Value3"}
    states = {
        first: {"SubKey2": "Value1", "SubKey3": "Value2"},
        first + 1: {"SubKey3": "Value2"},
        first + 2: {"SubKey5": "Value4"},
    }
    for _ in range(2):
        for epoch, inner in states.items():
            assert seen(store, "documents", epoch) == [document | {"SubKey1": inner}]
        store.compact("documents")


# What each change does

ADDRESSES = """id INT, note STRING, props MAP<STRING, STRING>, tags ARRAY<STRING>, l ARRAY<INT>,
    address STRUCT<city: STRING, geo: STRUCT<x: DOUBLE, y: DOUBLE>>,
    orders MAP<INT, STRUCT<n: INT, lines: MAP<STRING, INT>>>"""


@pytest.fixture
def writer(store: Store) -> DocumentWriter:
    """A writer of the table ``t``, with a set."""
    store.create_table("t", ADDRESSES, primary_key=["id"], encoding="document", sets=["tags"])
    return store.document_writer("t")


def row_of(store: Store, key: int = 1) -> dict[str, Any]:
    """Return a row of ``t`` without its key and NULLs, and check that compaction keeps it."""
    rows = {row.pop("id"): row for row in seen(store, "t")}
    store.compact("t")
    assert {row.pop("id"): row for row in seen(store, "t")} == rows
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


def test_a_set_has_each_element_once_in_order(store: Store, writer: DocumentWriter) -> None:
    """However it is written: with its row, replaced, added to, or by a patch of many rows."""
    elements = pa.array([["b", "a", "b"], []], pa.list_(pa.string()))
    store.write("t", pa.record_batch({"id": pa.array([1, 2], pa.int32()), "tags": elements}))
    assert [row["tags"] for row in seen(store, "t")] == [["a", "b"], []]
    writer.add(1, "tags", {"c", "a"})
    writer.remove(1, ("tags", "b"))
    writer.add(3, "tags", ["z", "y", "z"])
    writer.commit()
    assert [row["tags"] for row in seen(store, "t")] == [["a", "c"], [], ["y", "z"]]
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
    with pytest.raises(SchemaMismatchError, match="nothing is at 'x' in it"):
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
    (lambda w: w.set(1, {(): 1}), SchemaMismatchError, "a path is a column's name"),
    (lambda w: w.add(1, "note", ["x"]), SchemaMismatchError, "only maps, sets and arrays"),
    (lambda w: w.add(1, "tags", "xy"), SchemaMismatchError, "tags is a set"),
    (lambda w: w.add(1, "tags", [None]), NullValueError, "an element of the set tags is None"),
    (lambda w: w.add(1, "l", None), NullValueError, "what is added is None"),
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
        store.table("rows").ttl(1, "a")
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
