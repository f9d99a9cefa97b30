"""The golden stores that need no Spark: how each is written, and what is in it.

`make golden` writes them (golden.py); tests read them. A change of what is in one is a change of
the format.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from relstate.storage import (
    NewProgress,
    NewTable,
    NewView,
    Proposal,
    SegmentRecord,
    Store,
    Table,
    TableSchema,
    ViewInput,
    WriteTarget,
    types,
)
from relstate.storage.environment import Environment
from relstate.storage.epochs import Epochs
from relstate.storage.location import Location
from relstate.storage.log.entry import Settings
from relstate.storage.log.folding import Division
from relstate.storage.log.history import EntryCache
from relstate.storage.log.log import Log
from relstate.storage.log.manifest_files import ManifestCache
from relstate.storage.log.store_creation import create_store
from relstate.storage.objects.client import ObjectClient
from relstate.vnode import VnodeMapping
from support.clock import ManualClock
from support.commits import quick_environment

_UTC = dt.UTC

COLUMNS = """
    name STRING, number INT, flag BOOLEAN, tiny TINYINT, small SMALLINT, big BIGINT, single FLOAT,
    double DOUBLE, short_decimal DECIMAL(9,2), long_decimal DECIMAL(38,10), text STRING,
    bytes BINARY, day DATE, moment TIMESTAMP, local_moment TIMESTAMP_NTZ,
    span INTERVAL DAY TO SECOND, list ARRAY<INT>, nested ARRAY<ARRAY<STRING>>,
    mapping MAP<STRING, BIGINT>, record STRUCT<a: INT, b: STRING, c: ARRAY<DOUBLE>>
"""
KEY = ("name desc", "number")

FULL: dict[str, Any] = {
    "name": "full",
    "number": 1,
    "flag": True,
    "tiny": -128,
    "small": 32767,
    "big": -(2**63),
    "single": 1.5,
    "double": -0.1,
    "short_decimal": Decimal("-1234567.89"),
    "long_decimal": Decimal("1234567890123456789012345678.0123456789"),
    "text": "zwölf\0Boxkämpfer",
    "bytes": b"\0\xff\0",
    "day": dt.date(1969, 12, 31),
    "moment": dt.datetime(2026, 2, 28, 23, 59, 59, 999999, _UTC),
    "local_moment": dt.datetime(1900, 1, 1, 0, 0, 0, 1),
    "span": dt.timedelta(days=-3, microseconds=7),
    "list": [1, None, 3],
    "nested": [["a", None], None, []],
    "mapping": [("one", 1), ("none", None)],
    "record": {"a": None, "b": "b", "c": [0.5]},
}
EMPTY: dict[str, Any] = dict.fromkeys(FULL) | {"name": "", "number": -1}
LATER: dict[str, Any] = dict.fromkeys(FULL) | {"name": "full", "number": 2, "text": "second"}
GONE: dict[str, Any] = dict.fromkeys(FULL) | {"name": "gone", "number": 0}

_MERGED = pa.schema({"k": pa.string(), "version": pa.int64(), "x": pa.int64(), "y": pa.int64()})

MERGED = [("a", 9, 1, 9)]
FIRST_WINS = [("a", 1)]
ALTERED = [(1, 1, None), (2, 2, 0.5), (3, 2**40, 1.5), (4, 4, 2.5)]
"""What the tables of these names hold."""

VIEW = [(None, 1), ("b", 2)]
"""What the view shows; its rows have a hidden column, and keys that may be NULL."""

QUERY = "SELECT b, count(*) AS number FROM altered GROUP BY b"
PLAN = {"kind": "aggregate", "group": ["b"], "fields": [None, 1, 0.5]}
BACKFILL = {"place": 1}

LONG_KEYS = ["k" * 490, "k" * 600 + "a", "k" * 600 + "b", "k" * 600 + "\0", "z"]
"""Keys around and beyond LMDB's limit, some of which share an entry."""


def _created(path: Path, vnode_count: int, shards: int) -> Store:
    """Create a store whose commits were all at noon of 2026-01-01, so before those of any test."""
    environment = quick_environment(path, ManualClock())
    return Store.create(str(path), vnode_count=vnode_count, shards=shards, environment=environment)


def rows_of(table: Table, *rows: dict[str, Any]) -> pa.RecordBatch:
    """Return rows as a batch of a table."""
    return pa.RecordBatch.from_pylist(list(rows), schema=table.schema.arrow_schema)


def write_rows(path: Path) -> None:
    """Write tables of rows: folded log, several versions of a row, deletes, groups of long keys."""
    with _created(path, 5, 2) as store:
        table = store.create_table("every_type", COLUMNS, primary_key=KEY)
        state = store.state_table("every_type")
        for rows, is_deleted in (
            ((FULL, GONE), False),
            ((GONE,), True),
            ((EMPTY, LATER), False),
        ):
            batch = rows_of(table, *rows)
            state.write(batch, np.full(len(rows), is_deleted))
            state.commit()
        store.create_table("long_keys", "k STRING, v INT", primary_key=["k"])
        state = store.state_table("long_keys")
        for value, key in enumerate(LONG_KEYS):
            state.insert([key, value])
        state.commit()
        write_merged(store)
        write_altered(store)
        write_expiring(store)
        write_view(store)
        store.compact()
        while store.epoch < 70:
            store.create_table("passing", "k INT", primary_key=["k"])
            store.drop_table("passing")
        store.write(
            "merged", pa.table({"k": ["a"], "version": [9], "x": [None], "y": [9]}, _MERGED)
        )


def write_merged(store: Store) -> None:
    """Write rows that are merged, one of them late, and a delete that stays in force."""
    columns = "k STRING, version BIGINT, x BIGINT, y BIGINT"
    store.create_table(
        "merged", columns, primary_key=["k"], merge="partial", version_column="version"
    )
    store.create_table("first_wins", "k STRING, x BIGINT", primary_key=["k"], merge="ignore")
    for version, x, y in ((1, 1, None), (3, None, 3), (2, 2, 2)):
        row = pa.table({"k": ["a"], "version": [version], "x": [x], "y": [y]}, _MERGED)
        store.write("merged", row)
    store.write("merged", pa.table({"k": ["b"], "version": [1], "x": [1], "y": [1]}, _MERGED))
    store.delete("merged", pa.table({"k": ["b"], "version": [5]}))
    for x in (1, 2):
        store.write("first_wins", pa.table({"k": ["a"], "x": [x]}))


def write_altered(store: Store) -> None:
    """Write rows under four schemas of one table."""
    store.create_table("altered", "k INT, a TINYINT, b STRING", primary_key=["k"])
    store.write("altered", pa.table({"k": [1], "a": [1], "b": ["one"]}))
    store.add_columns("altered", "c DOUBLE")
    store.write("altered", pa.table({"k": [2], "a": [2], "b": ["two"], "c": [0.5]}))
    store.widen_column("altered", "a", "BIGINT")
    store.rename_column("altered", "c", "d")
    store.write("altered", pa.table({"k": [3], "a": [2**40], "b": ["three"], "d": [1.5]}))
    store.drop_columns("altered", "b")
    store.write("altered", pa.table({"k": [4], "a": [4], "d": [2.5]}))


def write_expiring(store: Store) -> None:
    """Write a row that expired soon, one that expires in a century, and one that never does."""
    store.create_table("expiring", "k INT", primary_key=["k"])
    store.write("expiring", pa.table({"k": [1, 2, 3]}), ttls=pa.array([1, 100 * 365 * 86400, None]))


def write_view(store: Store) -> None:
    """Write a view that has begun to read: its rows, its state, all of it in vnode 0, and how far.

    It was created with units of even shares, and is kept by three.
    """
    fields = [
        types.Field("b", types.String()),
        types.Field("number", types.BigInt()),
        types.Field("_k", types.Int()),
    ]
    rows = TableSchema.build(fields, ["b desc", "_k"], ["_k"], nullable_key=True, hidden=["_k"])
    state = TableSchema.build(fields[:2], ["b"], (), nullable_key=True)
    definition = store.read_plan("altered").definition
    view = NewView(
        NewTable("view", rows),
        (NewTable("__internal_view_1", state),),
        QUERY,
        (ViewInput(definition.table_id, (1,)),),
        VnodeMapping.balanced(5, 2),
        {"spark.sql.session.timeZone": "UTC"},
        PLAN,
    )
    store.view_catalog.create(view, [definition])
    store.view_catalog.set_properties("view", 3, {})
    batch = pa.RecordBatch.from_pylist(
        [{"b": b, "number": number, "_k": None} for b, number in VIEW], rows.arrow_schema
    )
    segments: list[SegmentRecord] = []
    for name, part in (("view", batch), ("__internal_view_1", batch.select([0, 1]))):
        kept = store.read_plan(name).definition
        writer = WriteTarget(store.path, kept, 5, store.settings.shards).open(store.environment)
        writer.write(part)
        segments += writer.finish()
    epoch = store.epoch
    progress = NewProgress(store.view("view"), epoch, ((definition.table_id, epoch),), BACKFILL)
    store.jobs.commit(
        Proposal(
            operation="refresh",
            started=store.environment.now(),
            segments=tuple(segments),
            progress=(progress,),
        )
    )


DOCUMENT_COLUMNS = """
    k INT, note STRING, props MAP<STRING, INT>, tags ARRAY<STRING>, list ARRAY<INT>,
    address STRUCT<city: STRING, geo: STRUCT<x: DOUBLE, y: DOUBLE>>, doc VARIANT
"""
_NOTHING: dict[str, Any] = dict.fromkeys(["note", "props", "tags", "list", "address", "doc"])
DOCUMENTS: dict[int, dict[str, Any]] = {
    1: {
        "note": "whole",
        "props": {"a": 1, "c": 3},
        "tags": ["x", "y"],
        "list": [0, 1, 2, 3],
        "address": {"city": "Linz", "geo": {"x": 1.0, "y": None}},
        "doc": {"empty": {}, "n": [1, None], "user": {"name": "Ann"}},
    },
    2: {**_NOTHING, "props": {"only": None}},
    3: {**_NOTHING, "doc": {"a": {"b": {}}}},
    5: {**_NOTHING, "note": "for a century"},
}
"""What the document tables hold: rows that were written whole or by parts, compacted or not."""


def write_documents(path: Path) -> None:
    """Write two tables of the same rows, one of them not packed, with parts of every kind."""
    with _created(path, 3, 1) as store:
        for name, packed in (("packed", True), ("unpacked", False)):
            table = store.create_table(
                name,
                DOCUMENT_COLUMNS,
                primary_key=["k"],
                encoding="document",
                packed=packed,
                sets=["tags"],
            )
            row = {"k": 1, **_NOTHING, "note": "whole", "props": [("a", 1), ("b", 2)]}
            row |= {"tags": ["y"], "list": [1, 2]}
            store.write(name, rows_of(table, row, {**row, "k": 4}))
            store.compact(name)
            with store.document_writer(name) as writer:
                writer.remove(1, ("props", "b"))
                writer.set(1, {("props", "c"): 3, ("address", "city"): "Linz"})
                writer.patch(1, {"address": {"geo": {"x": 1.0}}, "doc": {"n": [1, None]}})
                writer.patch(1, {"doc": {"empty": {}, "user": {"name": "Ann", "age": None}}})
                writer.add(1, "tags", ["x", "y"])
                writer.add(1, "list", [3])
                writer.prepend(1, "list", [0])
                writer.set(2, {("props", "only"): None})
                writer.patch(3, {"doc": {"a": {"b": {"c": None}}}})
                writer.set(5, {"note": "for a century"}, ttl=100 * 365 * 86400)
                writer.set(5, {("props", "soon"): 1}, ttl=1)
            store.delete(name, pa.table({"k": pa.array([4], pa.int32())}))


FILTERED_ROWS = 4200


def write_filtered(path: Path) -> None:
    """Write a file with a filter of its keys, and a second one, newer, of some of them."""
    with _created(path, 3, 1) as store:
        store.create_table("filtered", "k INT, v BOOLEAN", primary_key=["k"])
        keys = pa.array(range(FILTERED_ROWS), pa.int32())
        store.write("filtered", pa.table({"k": keys, "v": [True] * FILTERED_ROWS}))
        store.write("filtered", pa.table({"k": keys[:3], "v": [False] * 3}))


CATALOG = [
    (1, "Ann", Decimal("10.00"), "ann@a.at", 2),
    (3, "nobody", None, None, 6),
    (4, "Bob", Decimal("0.25"), "bob@b.at", 8),
]
"""What the table `orders` holds, whose definition has all that a definition can have."""
KEYLESS = [(1,), (1,), (2,)]
VIOLATIONS = {"small": 1, "named": 1}


def fill_catalog(store: Store) -> None:
    """Create tables with indexes, constraints, expectations, defaults, and one without a key."""
    store.create_table(
        "orders",
        "id BIGINT, customer STRING, amount DECIMAL(12,2), mail STRING, twice BIGINT",
        primary_key=["id"],
        defaults={"customer": "'nobody'"},
        generated={"twice": "id * 2"},
        constraints={"positive": "amount > 0"},
        expectations={"small": ("amount < 5", "count"), "named": ("mail <> ''", "drop")},
        user_properties={"comment": "of the shop", "owner": "Eve"},
        transaction_retention="3650 days",
    )
    rows = [
        {"id": 1, "customer": "Ann", "amount": Decimal("10.00"), "mail": "ann@a.at"},
        {"id": 2, "customer": "Ann", "amount": Decimal("3.00"), "mail": ""},
        {"id": 4, "customer": "Bob", "amount": Decimal("0.25"), "mail": "bob@b.at"},
        {"id": 5, "customer": "Bob", "amount": Decimal("1.25"), "mail": "b@b.at"},
    ]
    store.write("orders", rows)
    store.create_index("orders", "by_customer", ["customer"], include=["amount"])
    store.create_index("orders", "by_mail", ["mail"], unique=True)
    store.write("orders", [{"id": 3}])
    store.delete("orders", pa.table({"id": [5]}))
    store.create_table("events", "v INT")
    store.write("events", [{"v": 1}, {"v": 1}])
    store.write("events", [{"v": 2}])


def write_catalog(path: Path) -> None:
    """Write a store with all that the definition of a table can have."""
    with _created(path, 4, 2) as store:
        fill_catalog(store)


MANIFEST_ROWS = {key: f"v{key % 50 + 50 * (key < 40)}" for key in range(100)}
"""What the table `t` of the store with manifests holds."""
_FINE = Division(most=0, size=4)


def opened_finely(environment: Environment, *, create: bool = False) -> Store:
    """Return a store whose checkpoints name manifests, however few segments there are."""
    log = Log(environment, EntryCache(), ManifestCache(), _FINE)
    settings = Settings("5e" * 16, vnode_count=8, shards=4, retention=86_400)
    return Store(Epochs(log, create_store(log, settings) if create else log.load()))


def write_manifests(path: Path) -> None:
    """Write a store whose checkpoints name manifests, which several of them share."""
    with opened_finely(quick_environment(path, ManualClock()), create=True) as store:
        store.create_table("t", "k INT, v STRING", primary_key=["k"])
        for start in range(0, 100, 5):
            keys = range(start, start + 5)
            store.write("t", [{"k": key, "v": f"v{key % 50}"} for key in keys])
        for key in range(40):
            store.write("t", [{"k": key, "v": f"v{key % 50 + 50}"}])
        while store.epoch < 100:
            store.create_table("passing", "k INT", primary_key=["k"])
            store.drop_table("passing")


def write_objects(path: Path) -> None:
    """Write a store in a bucket; its objects are then the files of a folder."""
    location = bucket_of(path)
    with Store.create(location, vnode_count=4, shards=2) as store:
        fill_catalog(store)
        # Some that are packed in blocks.
        store.create_table("texts", "k INT, v STRING", primary_key=["k"])
        store.write("texts", [{"k": key, "v": f"{key}" * 200} for key in range(20)])
    client, root = ObjectClient(location), location.parts()[2]
    for folder in ("_log", "_archive", "segments"):
        (path / folder).mkdir(parents=True)
        for name in client.list(f"{root}/{folder}"):
            (path / folder / name).write_bytes(client.get(f"{root}/{folder}/{name}"))


def bucket_of(path: Path) -> Location:
    """Return a place in a bucket in memory that no store of another path has."""
    return Location(f"memory://golden{path}", {"cache_folder": f"{path}.cache"})


def put_objects(path: Path) -> Location:
    """Put the files of a folder into a bucket, as they are; return its location."""
    location = bucket_of(path)
    client, root = ObjectClient(location), location.parts()[2]
    for file in sorted(path.rglob("*")):
        if file.is_file():
            client.put_new(f"{root}/{file.relative_to(path)}", file.read_bytes())
    return location


WRITERS: dict[str, Callable[[Path], None]] = {
    "rows": write_rows,
    "documents": write_documents,
    "filtered": write_filtered,
    "catalog": write_catalog,
    "manifests": write_manifests,
    "objects": write_objects,
}
"""The names of the stores, and what writes each into a folder that does not exist."""
