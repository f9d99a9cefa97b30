"""The examples of the sources by SQL: what each statement adds to the files, and what it shows.

How the same states look when time passes: tests/storage/test_document_examples.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import Row

from relstate.connector.sql import Database
from relstate.storage import Store
from support.entries import Stored, added_entries, all_entries

DAY, HOUR = 86_400, 3600
OPTIMIZE = "OPTIMIZE"


@dataclass(frozen=True)
class Step:
    """A statement, the entries that it adds, and the rows afterwards, without NULLs.

    Of `OPTIMIZE`, ``added`` are all entries.
    """

    statement: str
    added: list[Stored]
    rows: list[dict[str, Any]]


@dataclass(frozen=True)
class Example:
    """The statements of an example, and the entries after compaction. ``paths``: of its parts."""

    columns: str
    properties: str
    paths: list[tuple[str, ...]]
    steps: list[Step]
    compacted: list[Stored]


def put(key: tuple[Any, ...], *path: str, ttl: int | None = None) -> Stored:
    """Return the entry of a value."""
    return (key, path, "PUT", ttl)


def delete(key: tuple[Any, ...], *path: str) -> Stored:
    """Return a tombstone."""
    return (key, path, "DELETE", None)


def msgs() -> Example:
    """Return the five states of msgs."""
    key_10, key_20 = ("user1", 10), ("user1", 20)
    where = "WHERE user_id = 'user1' AND msg_id = 10"
    props = {"from": "a@b.com", "subject": "hello"}
    row_10 = {"user_id": "user1", "msg_id": 10, "msg": "msg1"}
    row_20 = {"user_id": "user1", "msg_id": 20, "msg": "msg2"}
    row_20["msg_props"] = {"from": "c@d.com", "subject": "bar"}
    with_props = row_10 | {"msg_props": props}
    with_read = row_10 | {"msg_props": props | {"read_status": "true"}}
    return Example(
        "user_id STRING, msg_id INT, msg STRING, msg_props MAP<STRING, STRING>, "
        "PRIMARY KEY ((user_id), msg_id)",
        "",
        [("msg",), ("msg_props",), ("msg_props", "read_status")],
        [
            Step(
                "INSERT INTO msgs VALUES "
                "('user1', 10, 'msg1', map('from', 'a@b.com', 'subject', 'hello'))",
                [put(key_10)],
                [with_props],
            ),
            Step(
                "UPDATE msgs SET msg_props = map_concat(msg_props, map('read_status', 'true')) "
                + where,
                [put(key_10, "msg_props", "read_status")],
                [with_read],
            ),
            Step(
                "INSERT INTO msgs VALUES "
                "('user1', 20, 'msg2', map('from', 'c@d.com', 'subject', 'bar'))",
                [put(key_20)],
                [with_read, row_20],
            ),
            Step(OPTIMIZE, [put(key_10), put(key_20)], [with_read, row_20]),
            Step(
                f"DELETE msg_props FROM msgs {where}",
                [delete(key_10, "msg_props")],
                [row_10, row_20],
            ),
            Step(f"DELETE FROM msgs {where}", [delete(key_10)], [row_20]),
        ],
        [put(key_20)],
    )


def page_views(using: str, ttl: int | None) -> Example:
    """Return an example of page_views: a row for a day, and a category with a TTL or without."""
    key = ("abc.com",)
    page = {"page_id": "abc.com", "views": 10}
    return Example(
        "page_id STRING PRIMARY KEY, views INT, category STRING",
        "",
        [("category",)],
        [
            Step(
                "INSERT INTO page_views (page_id, views) VALUES ('abc.com', 10) USING TTL 86400",
                [put(key, ttl=DAY)],
                [page],
            ),
            Step(
                f"UPDATE page_views {using} SET category = 'news' WHERE page_id = 'abc.com'",
                [put(key, "category", ttl=ttl)],
                [page | {"category": "news"}],
            ),
        ],
        [put(key, ttl=DAY), put(key, "category", ttl=ttl)],
    )


def nested() -> Example:
    """Return the nested document, a cell for each part."""
    key = ("DocumentKey1",)
    document = {"id": "DocumentKey1", "SubKey4": "Value3"}
    below = {"SubKey2": "Value1", "SubKey3": "Value2"}
    where = "WHERE id = 'DocumentKey1'"
    compacted: list[Stored] = [
        (key, (), "OBJECT", None),
        (key, ("SubKey1",), "OBJECT", None),
        put(key, "SubKey1", "SubKey5"),
        put(key, "SubKey4"),
    ]
    return Example(
        "id STRING PRIMARY KEY, SubKey1 MAP<STRING, STRING>, SubKey4 STRING",
        ", 'packed' = 'false'",
        [("SubKey1",), *(("SubKey1", f"SubKey{number}") for number in (2, 3, 5)), ("SubKey4",)],
        [
            Step(
                "INSERT INTO nested VALUES "
                "('DocumentKey1', map('SubKey2', 'Value1', 'SubKey3', 'Value2'), 'Value3')",
                [
                    (key, (), "OBJECT", None),
                    (key, ("SubKey1",), "OBJECT", None),
                    put(key, "SubKey1", "SubKey2"),
                    put(key, "SubKey1", "SubKey3"),
                    put(key, "SubKey4"),
                ],
                [document | {"SubKey1": below}],
            ),
            Step(
                f"DELETE SubKey1['SubKey2'] FROM nested {where}",
                [delete(key, "SubKey1", "SubKey2")],
                [document | {"SubKey1": {"SubKey3": "Value2"}}],
            ),
            Step(
                f"UPDATE nested SET SubKey1 = map('SubKey5', 'Value4') {where}",
                [(key, ("SubKey1",), "OBJECT", None), put(key, "SubKey1", "SubKey5")],
                [document | {"SubKey1": {"SubKey5": "Value4"}}],
            ),
        ],
        compacted,
    )


def redis() -> Example:
    """Return the table of Redis. Its TTL is a longer one, because the clock of this test runs."""
    key_1, key_2, key_3 = ("key1",), ("key2",), ("key3",)
    value = {"key": "key1", "value": "value1"}

    def hash_of(**fields: str) -> dict[str, Any]:
        return {"key": "key2", "type": "hash", "fields": fields}

    def set_of(*members: str) -> dict[str, Any]:
        return {"key": "key3", "type": "set", "members": list(members)}

    last_hash = hash_of(subkey1="new_val1", subkey3="value3")
    type_2, type_3 = put(key_2, "type"), put(key_3, "type")
    fields = [put(key_2, "fields", f"subkey{number}") for number in (1, 2, 3)]
    members = [put(key_3, "members", f"value{number}") for number in (4, 5, 6)]
    second = [value, hash_of(subkey1="value1", subkey2="value2")]
    return Example(
        "key STRING PRIMARY KEY, type STRING, value STRING, fields MAP<STRING, STRING>, "
        "members ARRAY<STRING>",
        ", 'sets' = 'members'",
        [("type",), *(entry[1] for entry in [*fields, *members])],
        [
            Step(
                "INSERT INTO redis (key, value) VALUES ('key1', 'value1') USING TTL 3600",
                [put(key_1, ttl=HOUR)],
                [value],
            ),
            Step(
                "UPDATE redis SET type = 'hash', fields['subkey1'] = 'value1' WHERE key = 'key2'",
                [fields[0], type_2],
                [value, hash_of(subkey1="value1")],
            ),
            Step(
                "UPDATE redis SET fields['subkey2'] = 'value2' WHERE key = 'key2'",
                [fields[1]],
                second,
            ),
            Step(OPTIMIZE, [put(key_1, ttl=HOUR), put(key_2)], second),
            Step("DELETE FROM redis WHERE key = 'key2'", [delete(key_2)], [value]),
            Step(
                "UPDATE redis SET type = 'hash', fields = map_concat(fields, "
                "map('subkey1', 'new_val1', 'subkey3', 'value3')) WHERE key = 'key2'",
                [fields[0], fields[2], type_2],
                [value, last_hash],
            ),
            Step(
                "UPDATE redis SET type = 'set', "
                "members = array_union(members, array('value4', 'value5')) WHERE key = 'key3'",
                [members[0], members[1], type_3],
                [value, last_hash, set_of("value4", "value5")],
            ),
            Step(
                "UPDATE redis SET members = array_append(members, 'value6') WHERE key = 'key3'",
                [members[2]],
                [value, last_hash, set_of("value4", "value5", "value6")],
            ),
        ],
        [put(key_1, ttl=HOUR), put(key_2), put(key_3)],
    )


EXAMPLES = {
    "msgs": msgs(),
    "page_views": page_views("USING TTL 3600", HOUR),
    "page_views that stay": page_views("", None),
    "nested": nested(),
    "redis": redis(),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_the_sources(db: Database, store: Store, name: str) -> None:
    """Entries, rows at every epoch, and both after compaction."""
    example, table = EXAMPLES[name], name.split(maxsplit=1)[0]
    db.sql(
        f"CREATE TABLE {table} ({example.columns}) "
        f"TBLPROPERTIES ('encoding' = 'document'{example.properties})"
    )
    epochs = []
    for step in example.steps:
        if step.statement is OPTIMIZE:
            # Files are merged by themselves when there are more than a few.
            store.compact(table)
            entries = all_entries(store, table, example.paths)
        else:
            db.sql(step.statement)
            entries = added_entries(store, table, example.paths)
        epochs.append(store.epoch)
        assert in_minutes(entries) == step.added
    states = " UNION ALL ".join(f"SELECT {n}, * FROM {table} VERSION AS OF {n}" for n in epochs)
    expected = [
        (epoch, row) for epoch, step in zip(epochs, example.steps, strict=True) for row in step.rows
    ]
    assert shown(db.sql(states).collect()) == expected
    store.compact(table)

    assert in_minutes(all_entries(store, table, example.paths)) == example.compacted
    assert shown(db.sql(states).collect()) == expected


def in_minutes(entries: list[Stored]) -> list[Stored]:
    """Return entries with their seconds to live rounded to whole minutes: the clock runs."""
    return [
        (key, path, kind, None if ttl is None else round(ttl / 60) * 60)
        for key, path, kind, ttl in entries
    ]


def shown(rows: list[Row]) -> list[tuple[int, dict[str, Any]]]:
    """Return rows by their epochs and keys, without NULLs."""
    ordered = sorted(rows, key=lambda row: tuple(row)[: 3 if "msg_id" in row else 2])
    return [
        (row[0], {name: row[name] for name in row.__fields__[1:] if row[name] is not None})
        for row in ordered
    ]
