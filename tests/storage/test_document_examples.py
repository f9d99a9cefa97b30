"""The examples of the sources: what each step adds to the files, what it shows, and compaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path as FilePath
from typing import Any

import pyarrow as pa
import pytest

from relstate.storage import Store
from support.clock import ManualClock
from support.document_tables import LAYOUTS, timed_store
from support.entries import Stored, added_entries, all_entries, seen_rows

DAY, HOUR = 86_400, 3600


@pytest.fixture
def clock() -> ManualClock:
    """The clock of the store."""
    return ManualClock()


@pytest.fixture
def store(tmp_path: FilePath, clock: ManualClock) -> Iterator[Store]:
    """A store whose time is the clock's."""
    with timed_store(tmp_path, clock) as store:
        yield store


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
        assert seen_rows(store, "msgs") == rows
    store.compact("msgs")

    assert all_entries(store, "msgs", MSGS_PATHS) == entries_of_insert(KEY_20, packed)
    for epoch, rows in [*states, (store.epoch, [ROW_20])]:
        assert seen_rows(store, "msgs", epoch) == rows


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
    assert seen_rows(store, "page_views") == [PAGE | {"views": 10, "category": "news"}]
    assert (table.ttl("abc.com", "views"), table.ttl("abc.com", "category")) == (DAY, ttl)
    assert table.ttl("abc.com") == (None if ttl is None else DAY)

    clock.advance(HOUR)
    category_later = {"category": "news"} if ttl is None else {}
    assert seen_rows(store, "page_views") == [PAGE | {"views": 10} | category_later]
    assert table.ttl("abc.com", "views") == DAY - HOUR
    clock.advance(DAY - HOUR)
    assert seen_rows(store, "page_views") == ([PAGE | category_later] if ttl is None else [])
    if compacts:
        store.compact("page_views")
        assert seen_rows(store, "page_views") == ([PAGE | category_later] if ttl is None else [])


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
            assert seen_rows(store, "documents", epoch) == [document | {"SubKey1": inner}]
        store.compact("documents")


KEY1, KEY2, KEY3 = ("key1",), ("key2",), ("key3",)
VALUE_1 = {"key": "key1", "value": "value1"}
REDIS_PATHS = [
    ("type",),
    *(("fields", f"subkey{number}") for number in (1, 2, 3)),
    *(("members", f"value{number}") for number in (4, 5, 6)),
]


def put(key: tuple[str], *path: str) -> Stored:
    """Return the entry of a value that stays."""
    return (key, path, "PUT", None)


def test_the_redis_table(store: Store, clock: ManualClock) -> None:
    """T1 to T7: a hash that was deleted and made again shows nothing older; a value expires."""
    store.create_table(
        "redis",
        """key STRING, type STRING, value STRING, fields MAP<STRING, STRING>,
        members ARRAY<STRING>""",
        primary_key=["key"],
        encoding="document",
        sets=["members"],
    )

    def set_value() -> int | None:
        row = pa.record_batch({"key": ["key1"], "value": ["value1"]})
        return store.write("redis", row, ttls=pa.array([15], pa.int64()))

    def set_fields(**fields: str) -> int | None:
        writer = store.document_writer("redis")
        writer.patch("key2", {"type": "hash", "fields": fields})
        return writer.commit()

    def add_members(*members: str) -> int | None:
        writer = store.document_writer("redis")
        writer.set("key3", {"type": "set"})
        writer.add("key3", "members", members)
        return writer.commit()

    def delete_key2() -> int | None:
        return store.delete("redis", pa.record_batch({"key": ["key2"]}))

    def hash_of(**fields: str) -> dict[str, Any]:
        return {"key": "key2", "type": "hash", "fields": fields}

    def set_of(*members: str) -> dict[str, Any]:
        return {"key": "key3", "type": "set", "members": list(members)}

    first = hash_of(subkey1="value1")
    second = hash_of(subkey1="value1", subkey2="value2")
    fifth = hash_of(subkey1="new_val1", subkey3="value3")
    type_2, type_3 = put(KEY2, "type"), put(KEY3, "type")
    subkeys = [put(KEY2, "fields", f"subkey{number}") for number in (1, 2, 3)]
    members = [put(KEY3, "members", f"value{number}") for number in (4, 5, 6)]
    steps: list[tuple[Callable[[], int | None], list[Stored], list[dict[str, Any]]]] = [
        (set_value, [(KEY1, (), "PUT", 15)], [VALUE_1]),
        (lambda: set_fields(subkey1="value1"), [subkeys[0], type_2], [VALUE_1, first]),
        (lambda: set_fields(subkey2="value2"), [subkeys[1], type_2], [VALUE_1, second]),
        (delete_key2, [(KEY2, (), "DELETE", None)], [VALUE_1]),
        (
            lambda: set_fields(subkey1="new_val1", subkey3="value3"),
            [subkeys[0], subkeys[2], type_2],
            [VALUE_1, fifth],
        ),
        (
            lambda: add_members("value4", "value5"),
            [members[0], members[1], type_3],
            [VALUE_1, fifth, set_of("value4", "value5")],
        ),
        (
            lambda: add_members("value6"),
            [members[2], type_3],
            [VALUE_1, fifth, set_of("value4", "value5", "value6")],
        ),
    ]
    states = []
    for act, added, rows in steps:
        if act is delete_key2:
            # Files are merged by themselves when there are more than a few.
            store.compact("redis")
        epoch = act()
        assert epoch is not None
        states.append((epoch, rows))
        assert added_entries(store, "redis", REDIS_PATHS) == added
        assert in_key_order(store, epoch) == rows
    store.compact("redis")

    assert all_entries(store, "redis", REDIS_PATHS) == [
        (KEY1, (), "PUT", 15),
        put(KEY2),
        put(KEY3),
    ]
    for epoch, rows in states:
        assert in_key_order(store, epoch) == rows
    clock.advance(15)
    assert in_key_order(store) == states[-1][1][1:]


def in_key_order(store: Store, epoch: int | None = None) -> list[dict[str, Any]]:
    """Return the rows of redis by their keys, which are in several vnodes."""
    return sorted(seen_rows(store, "redis", epoch), key=lambda row: row["key"])
