"""The laws of statements that change parts of rows of document tables."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

from relstate.connector.sql import Database
from relstate.storage import Store
from relstate.storage.errors import (
    NullKeyError,
    OptionError,
    SchemaMismatchError,
    UnsupportedStatementError,
    ValueRangeError,
)
from relstate.storage.segment.registry import SegmentRegistry
from support.spark import only_row

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

COLUMNS = """id INT, part STRING, a INT, note STRING, props MAP<STRING, STRING>, tags ARRAY<STRING>,
    l ARRAY<INT>, address STRUCT<city: STRING, geo: STRUCT<x: DOUBLE, y: DOUBLE>>, at TIMESTAMP,
    deep MAP<STRING, STRUCT<a: INT, l: ARRAY<INT>>>, doc VARIANT"""
PROPS = pa.map_(pa.string(), pa.string())
KEY = "id = 1 AND part = 'p'"
FULL_ROW = {
    "id": 1,
    "part": "p",
    "a": 1,
    "note": "n",
    "props": {"k": "v"},
    "tags": ["t"],
    "l": [1, 2],
    "address": {"city": "Graz", "geo": {"x": 0.0, "y": 2.0}},
}


@pytest.fixture
def docs(store: Store) -> Iterator[str]:
    """The name of a document table with a set, and a table of rows beside it."""
    store.create_table(
        "docs", COLUMNS, primary_key=["id", "part"], encoding="document", sets=["tags"]
    )
    store.create_table("plain", "id INT, a INT, m MAP<STRING, INT>", primary_key=["id"])
    yield "docs"
    assert store.check().problems == ()


def row(store: Store, number: int = 1) -> dict[str, Any]:
    """Return a row of docs without its key and NULLs."""
    found = store.table("docs").get(number, "p")
    values = {} if found is None else found.as_dict()
    names = [name for name, value in values.items() if value is not None]
    return {name: values[name] for name in names if name not in ("id", "part")}


def changed(store: Store) -> int:
    """Return how many entries the newest commit added."""
    state = store.state
    added = (segment for segment in state.segments.values() if segment.epoch == state.epoch)
    return sum(table.rows for segment in added for table in segment.record.tables)


def opened_files(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list to which the name of each file is added when it is opened to be read."""
    opened: list[str] = []
    open_segment = SegmentRegistry.open

    def counted(self: SegmentRegistry, environment: Any, record: Any, *rest: Any) -> Any:
        opened.append(record.name)
        return open_segment(self, environment, record, *rest)

    monkeypatch.setattr(SegmentRegistry, "open", counted)
    return opened


@pytest.mark.parametrize(
    ("statement", "entries", "expected"),
    [
        ("UPDATE docs SET a = 2, note = upper('x')", 2, {"a": 2, "note": "X"}),
        ("UPDATE docs d SET d.props['read'] = 'true'", 1, {"props": {"k": "v", "read": "true"}}),
        ("UPDATE docs SET props.read = 'true'", 1, {"props": {"k": "v", "read": "true"}}),
        (
            "UPDATE docs SET address.city = 'Linz', address.geo.x = 1",
            2,
            {"address": {"city": "Linz", "geo": {"x": 1.0, "y": 2.0}}},
        ),
        ("UPDATE docs SET props = map('q', 'r')", 1, {"props": {"q": "r"}}),
        (
            "UPDATE docs SET props = map_concat(props, map('q', 'r'), map('s', 't'))",
            2,
            {"props": {"k": "v", "q": "r", "s": "t"}},
        ),
        ("UPDATE docs SET tags = array_union(tags, array('b', 'a'))", 2, {"tags": ["a", "b", "t"]}),
        ("UPDATE docs SET l = array_append(L, 3)", 1, {"l": [1, 2, 3]}),
        (
            "UPDATE docs SET props['part'] = 'x', props[concat('p', '2')] = 'y'",
            2,
            {"props": {"k": "v", "part": "x", "p2": "y"}},
        ),
        (
            "UPDATE docs SET deep['k'].l = array_append(DEEP[\"k\"].L, 3), deep['j'] = NULL",
            2,
            {"deep": {"k": {"a": None, "l": [3]}, "j": None}},
        ),
        ("UPDATE docs SET l = array_prepend(docs.l, 0)", 1, {"l": [0, 1, 2]}),
        ("UPDATE docs SET note = NULL", 1, {"note": None}),
        ("DELETE note, props['k'], address.geo.x FROM docs", 3, {"note": None, "props": None}),
        ("DELETE tags['t'] FROM docs d", 1, {"tags": None}),
        ("DELETE FROM docs d", 1, dict.fromkeys(["a", "note", "props"])),
        ("INSERT INTO docs (id, part, a) SELECT 1, 'p', 5", 1, {"a": 5, "note": None}),
        ("INSERT INTO docs (id, part, a) VALUES (1, 'p', 6) USING TTL 100", 1, {"a": 6}),
        ("UPDATE docs USING TTL 100 SET note = 'y', doc.a = 1", 2, {"a": 1, "note": "y"}),
    ],
)
def test_parts_change_without_reading(
    spark: SparkSession,
    db: Database,
    store: Store,
    docs: str,
    monkeypatch: pytest.MonkeyPatch,
    statement: str,
    entries: int,
    expected: dict[str, Any],
) -> None:
    """One row by its whole key: an entry for each part, no job, no file opened, no row counted."""
    store.write("docs", [FULL_ROW])
    opened = opened_files(monkeypatch)
    tracker = spark.sparkContext.statusTracker()
    spark.sparkContext.setJobGroup(statement, "statements that start no job")
    try:
        is_insert = statement.startswith("INSERT")
        frame = db.sql(statement if is_insert else f"{statement} WHERE {KEY}")
        # The rows of an INSERT are those of a query, which Spark runs.
        assert is_insert or list(tracker.getJobIdsForGroup(statement)) == []
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]

    assert opened == []
    (result,) = frame.collect()
    assert result.epoch == store.epoch
    assert result.num_affected_rows is None
    assert changed(store) == entries
    assert opened == []
    values = row(store)
    assert {name: values.get(name) for name in expected} == expected
    assert opened != []


def test_calls_read_nothing(store: Store, docs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows written with TTLs of their own, deleted or patched: no file of the table is opened."""
    store.write("docs", [FULL_ROW])
    opened = opened_files(monkeypatch)
    key = {"id": pa.array([1], pa.int32()), "part": ["p"]}
    store.write("docs", pa.record_batch({**key, "note": ["x"]}), ttls=pa.array([100], pa.int64()))
    store.patch("docs", pa.record_batch({**key, "props": pa.array([[("a", "b")]], PROPS)}))
    store.delete("docs", pa.record_batch(key))
    assert opened == []
    assert row(store) == {}
    assert opened != []


def test_a_delete_by_key_conflicts_with_nothing(db: Database, store: Store, docs: str) -> None:
    """It is one tombstone, also of a row that there is not; one that reads counts its rows."""
    db.sql("DELETE FROM docs WHERE id = 7 AND part = 'p'")
    assert (changed(store), store.table("docs").count()) == (1, 0)
    epoch = store.epoch
    db.sql("DELETE FROM docs WHERE id = NULL AND part = 'p'")
    assert store.epoch == epoch
    store.write("docs", [FULL_ROW, {**FULL_ROW, "id": 2}])
    (result,) = db.sql("DELETE FROM docs WHERE id = 2").collect()
    assert (result.num_deleted_rows, store.table("docs").count()) == (1, 1)
    (blind,) = db.sql(f"EXPLAIN DELETE FROM docs WHERE {KEY}").collect()
    assert blind[0] is None


def test_explain_says_what_is_read(db: Database, store: Store, docs: str) -> None:
    """Nothing of a row named by its whole key; else the columns of the condition and the values."""
    store.write("docs", [FULL_ROW])
    epoch = store.epoch
    update = f"UPDATE docs SET props['a'] = 'b', note = 'x' WHERE {KEY}"
    (blind,) = db.sql(f"EXPLAIN {update}").collect()
    reading, _ = db.sql("EXPLAIN DELETE note, props[part] FROM docs WHERE a = 1").collect()

    assert blind[0] is None
    assert (reading[0], sorted(reading.columns)) == ("docs", ["a", "id", "part"])
    assert store.epoch == epoch


def test_an_update_by_key_makes_the_row(db: Database, store: Store, docs: str) -> None:
    """Which goes with the last of its columns; a key that is NULL names no row."""
    db.sql(f"UPDATE docs SET at = TIMESTAMP '2026-01-01 12:00:00', a = 1 WHERE {KEY}")
    assert db.sql("SELECT a FROM docs WHERE at = TIMESTAMP '2026-01-01 12:00:00'").first() == (1,)
    db.sql(f"DELETE a, at FROM docs WHERE {KEY}")
    assert store.table("docs").count() == 0
    epoch = store.epoch
    db.sql("UPDATE docs SET a = 1 WHERE id = NULL AND part = 'p'")
    assert store.epoch == epoch


def test_both_hours_that_the_end_of_summer_time_repeats(
    db: Database, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the time zone of the process: as a value, within a value, and as the key."""
    columns = "at TIMESTAMP, a INT, stored TIMESTAMP, l ARRAY<TIMESTAMP>"
    store.create_table("times", columns, primary_key=["at"], encoding="document")
    hours = ["2026-10-25 00:30:00", "2026-10-25 01:30:00", "2026-10-25 02:30:00"]
    monkeypatch.setenv("TZ", "Europe/Vienna")
    time.tzset()
    try:
        for number, hour in enumerate(hours):
            at = f"TIMESTAMP '{hour}'"
            db.sql(f"UPDATE times SET a = {number}, stored = {at}, l = array({at}) WHERE at = {at}")
    finally:
        monkeypatch.undo()
        time.tzset()

    texts = db.sql("SELECT string(at), string(stored), string(l[0]) FROM times ORDER BY a")
    assert [tuple(row) for row in texts.collect()] == [(hour, hour, hour) for hour in hours]


def test_variants_change_by_the_keys_of_their_objects(
    spark: SparkSession, db: Database, store: Store, docs: str
) -> None:
    """By statements that read and others, and by patches of many rows; NULL removes."""
    db.sql(
        """INSERT INTO docs (id, part, a, doc) SELECT id, 'p', id, parse_json(text) FROM VALUES
        (1, '{"a": {"b": 1, "c": [1, {"x": 2}]}, "n": "t"}'), (2, '5') AS v(id, text)"""
    )
    db.sql(f"UPDATE docs SET doc.a.b = 2.5, doc['new'] = named_struct('x', int(NULL)) WHERE {KEY}")
    assert changed(store) == 2
    db.sql("UPDATE docs SET doc.id = concat('i', id), doc.old = doc WHERE a >= 2")
    db.sql(f"DELETE doc.n FROM docs WHERE {KEY}")

    def documents() -> dict[int, Any]:
        rows = db.sql("SELECT id, to_json(doc) FROM docs").collect()
        return {number: text and json.loads(text) for number, text in rows}

    first = {"a": {"b": 2.5, "c": [1, {"x": 2}]}, "new": {"x": None}}
    assert documents() == {1: first, 2: {"id": "i2", "old": 5}}
    (number,) = only_row(
        db.sql("SELECT variant_get(doc, '$.a.c[1].x', 'int') FROM docs WHERE id = 1")
    )
    assert number == 2
    patches = spark.sql(
        """SELECT id, 'p' AS part, parse_json(text) AS doc FROM VALUES
        (1, '{"a": {"b": null, "c": []}, "z": 1}'), (2, '{"old": null, "id": null}'),
        (3, '{"q": {}, "r": {"s": {"t": true}}}') AS v(id, text)"""
    )
    options = {"table": "docs", "patch": "true"}
    patches.write.format("relstate").mode("append").options(**options).save(store.path)
    expected = {1: first | {"a": {"c": []}, "z": 1}, 2: {}, 3: {"q": {}, "r": {"s": {"t": True}}}}
    for _ in range(2):
        assert documents() == expected
        store.compact("docs")


def test_a_stream_of_patches(
    db: Database, store: Store, docs: str, spark: SparkSession, tmp_path: Path
) -> None:
    """Every micro-batch changes the parts that its rows have, once, also after a restart."""
    db.sql("INSERT INTO docs (id, part, a, props) VALUES (1, 'p', 1, map('k', 'old'))")
    folder = tmp_path / "patches"
    folder.mkdir()
    lines = ('{"id": 1, "props": {"n": "x"}}', '{"id": 2, "props": {"m": "y"}}')
    for number, line in enumerate(lines):
        (folder / f"{number}.json").write_text(line)
        patches = spark.readStream.schema("id INT, props MAP<STRING, STRING>").json(str(folder))
        frame = patches.selectExpr("id", "'p' AS part", "props")
        query = (
            frame.writeStream.format("relstate")
            .options(table="docs", patch="true", checkpointLocation=str(tmp_path / "checkpoint"))
            .outputMode("append")
            .trigger(availableNow=True)
            .start(store.path)
        )
        query.awaitTermination()
    assert row(store) == {"a": 1, "props": {"k": "old", "n": "x"}}
    assert row(store, 2) == {"props": {"m": "y"}}


def test_keys_in_variants_are_text(db: Database, store: Store, docs: str) -> None:
    """Any other key would replace an array by an object; a key that is text may be computed."""
    db.sql(
        """INSERT INTO docs (id, part, a, doc)
        SELECT 1, 'p', 0, parse_json('{"l": [1, 2], "o": {"k1": 1}}')"""
    )
    epoch = store.epoch
    for statement in (
        "UPDATE docs SET doc.l[a] = 5 WHERE id = 1",
        f"UPDATE docs SET doc.l[1 - 1] = 5 WHERE {KEY}",
        f"UPDATE docs SET doc.l[-1] = 5 WHERE {KEY}",
        "DELETE doc.l[a] FROM docs WHERE id = 1",
    ):
        with pytest.raises(SchemaMismatchError, match="in a variant, whose keys are text"):
            db.sql(statement)
    assert store.epoch == epoch
    db.sql("UPDATE docs SET doc.o[concat('k', a + 1)] = 5, doc.o[string(a)] = 6 WHERE id = 1")
    db.sql(f"DELETE doc.l FROM docs WHERE {KEY}")
    (text,) = only_row(db.sql("SELECT to_json(doc) FROM docs"))
    assert json.loads(text) == {"o": {"0": 6, "k1": 5}}


def test_what_has_to_read_reads(db: Database, store: Store, docs: str) -> None:
    """Other conditions and old values; still only what changes is written."""
    db.sql("INSERT INTO docs (id, part, a, l) VALUES (1, 'p', 1, array(1)), (2, 'p', 2, array(2))")
    (result,) = db.sql(
        "UPDATE docs SET a = a + 1, props[concat(part, id)] = 'x', l = array_append(l, a) "
        "WHERE a < 10"
    ).collect()
    assert (result.num_updated_rows, changed(store)) == (2, 6)
    assert row(store) == {"a": 2, "l": [1, 1], "props": {"p1": "x"}}
    assert row(store, 2) == {"a": 3, "l": [2, 2], "props": {"p2": "x"}}
    db.sql("UPDATE docs SET l = array_remove(l, 2) WHERE id = 2 AND part = 'p'")
    db.sql("DELETE props FROM docs WHERE a = 3")
    assert row(store, 2) == {"a": 3, "l": []}
    db.sql("UPDATE docs SET id = 5 WHERE id = 2")
    assert row(store, 5) == {"a": 3, "l": []}


def test_an_element_of_an_array_is_replaced(db: Database, store: Store, docs: str) -> None:
    """The array is read, and written whole; an element that is not there is an error."""
    store.write("docs", [FULL_ROW])
    db.sql(f"UPDATE docs d SET l[a] = d.l[0] + 6, note = 'x' WHERE {KEY}")
    assert changed(store) == 2
    assert row(store)["l"] == [1, 7]
    epoch = store.epoch
    with pytest.raises(AnalysisException, match="DATATYPE_MISMATCH"):
        db.sql(f"UPDATE docs SET l[1.7] = 1 WHERE {KEY}")
    for index in ("2", "-1", "NULL", "4294967296"):
        with pytest.raises(Exception, match="l has no element"):
            db.sql(f"UPDATE docs SET l[{index}] = 1 WHERE {KEY}")
    assert store.epoch == epoch


def test_statements_with_a_time_to_live(db: Database, store: Store, docs: str) -> None:
    """Of a row, and of what an UPDATE sets."""
    db.sql("INSERT INTO docs (id, part, a) VALUES (1, 'p', 1) USING TTL 86400")
    db.sql(f"UPDATE docs USING TTL 3600 SET note = 'x', props['k'] = 'v' WHERE {KEY}")
    db.sql("UPDATE docs AS d USING TTL 60 SET l = array(a) WHERE a = 1")
    db.sql("INSERT INTO plain SELECT 1, 2, NULL USING TTL 60")
    table = store.table("docs")
    ttls = [table.ttl((1, "p"), path) for path in ["a", "note", ("props", "k"), "l"]]

    limits = [86_400, 3600, 3600, 60]
    pairs = zip(ttls, limits, strict=True)
    assert all(ttl is not None and limit - 60 < ttl <= limit for ttl, limit in pairs)
    assert 0 < (store.table("plain").ttl(1) or 0) <= 60


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        (f"UPDATE docs SET address.zip = 'x' WHERE {KEY}", SchemaMismatchError, "no field 'zip'"),
        (f"DELETE l[3] FROM docs WHERE {KEY}", SchemaMismatchError, "set the array"),
        (f"UPDATE docs SET l[0] = 'x', l[1] = 1 WHERE {KEY}", UnsupportedStatementError, "twice"),
        (f"UPDATE docs SET note.x = 1 WHERE {KEY}", SchemaMismatchError, "note is STRING"),
        (f"UPDATE docs SET zz = 1 WHERE {KEY}", SchemaMismatchError, "unknown column 'zz'"),
        (f"UPDATE docs SET a = map('x', 1) WHERE {KEY}", SchemaMismatchError, "docs: a"),
        (f"UPDATE docs SET props[NULL] = 'x' WHERE {KEY}", NullKeyError, "never NULL"),
        (f"UPDATE docs SET a = 1, A = 2 WHERE {KEY}", UnsupportedStatementError, "a is set twice"),
        ("UPDATE docs SET address.city='a', address.CITY='b'", UnsupportedStatementError, "twice"),
        (
            "UPDATE docs SET props['k'] = 'a', props[\"k\"] = 'b'",
            UnsupportedStatementError,
            "twice",
        ),
        ("DELETE note, Note FROM docs", UnsupportedStatementError, "note is removed twice"),
        (
            f"UPDATE docs SET props = map(), props['x'] = 'y' WHERE {KEY}",
            UnsupportedStatementError,
            "may be in props, which is set too",
        ),
        (
            f"UPDATE docs SET deep[note].a = 7, deep['k'] = NULL WHERE {KEY}",
            UnsupportedStatementError,
            "may be in",
        ),
        (f"UPDATE docs SET a = count(1) WHERE {KEY}", AnalysisException, "GROUP_BY"),
        (f"UPDATE docs SET a = explode(array(1, 2)) WHERE {KEY}", AnalysisException, "GENERATOR"),
        ("UPDATE docs SET a = explode(array(a, 2))", AnalysisException, "GENERATOR"),
        (f"UPDATE docs SET doc[0] = 1 WHERE {KEY}", SchemaMismatchError, "set the array"),
        (
            f"UPDATE docs SET doc.a.b = 1, doc.a = NULL WHERE {KEY}",
            UnsupportedStatementError,
            "may be in doc",
        ),
        (f"UPDATE docs SET tags['x'] = 1 WHERE {KEY}", SchemaMismatchError, "element of a set"),
        ("EXPLAIN UPDATE docs USING TTL 0 SET a = 1", ValueRangeError, "found 0"),
        ("UPDATE docs USING TTL 5 SET id = 5 WHERE id = 2", OptionError, "changes the key"),
        ("UPDATE docs SET id = 5, address.city = 'x'", UnsupportedStatementError, "the key"),
        (f"UPDATE docs USING TTL -5 SET a = 1 WHERE {KEY}", ValueRangeError, "found -5"),
        (f"UPDATE docs USING TTL 99999999999999 SET a = 1 WHERE {KEY}", ValueRangeError, "TTL"),
        ("UPDATE docs USING TTL x SET a = 1", UnsupportedStatementError, "whole number of seconds"),
        (f"UPDATE docs SET at = TIMESTAMP '0001-01-01' WHERE {KEY}", ValueRangeError, "years 1 to"),
        ("UPDATE plain USING TTL 5 SET a = 1", OptionError, "only columns of document tables"),
        ("UPDATE plain SET m['x'] = 1", UnsupportedStatementError, "set the whole column"),
        ("DELETE a FROM plain", OptionError, "encoding = 'document'"),
        ("ALTER TABLE docs SET TBLPROPERTIES ('sets' = 'l')", OptionError, "'sets' cannot be alt"),
        (f"DELETE id FROM docs WHERE {KEY}", SchemaMismatchError, "primary key"),
    ],
)
def test_what_does_not_fit_is_refused(
    db: Database, store: Store, docs: str, statement: str, error: type[Exception], message: str
) -> None:
    """Each by an error of its kind, and nothing is written."""
    epoch = store.epoch
    with pytest.raises(error, match=message):
        db.sql(statement)

    assert store.epoch == epoch
