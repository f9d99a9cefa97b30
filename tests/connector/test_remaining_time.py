"""``ttl(path)`` in SQL: the seconds that are left of a part of a row, as `Table.ttl` gives them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from relstate.connector.sql import Database, query_reader
from relstate.storage import Store, Table, errors
from support.clock import ManualClock
from support.commits import quick_environment
from support.stores import stored_row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = """k INT, note STRING, props MAP<STRING, STRING>,
    address STRUCT<city: STRING, zip: STRING>, tags ARRAY<STRING>, n MAP<INT, INT>, doc VARIANT"""
PATHS: dict[str, tuple[Any, ...]] = {
    "k": ("k",),
    "note": ("note",),
    "t.props": ("props",),
    "props['x']": ("props", "x"),
    "props['X']": ("props", "X"),
    "t.address.city": ("address", "city"),
    "Address": ("address",),
    "tags['x']": ("tags", "x"),
    "n[-1]": ("n", -1),
    "doc.a": ("doc", "a"),
    "doc['a'].b": ("doc", "a", "b"),
}
QUERY = f"SELECT k, {', '.join(f'ttl({text})' for text in PATHS)} FROM t"


@pytest.fixture
def clock() -> ManualClock:
    """The clock of the store."""
    return ManualClock()


@pytest.fixture
def db(spark: SparkSession, tmp_path: Path, clock: ManualClock) -> Iterator[Database]:
    """A store with a document table, and a table of rows that live for a minute."""
    environment = quick_environment(tmp_path / "store", clock)
    with Store.create(environment.root, vnode_count=4, shards=1, environment=environment) as store:
        store.create_table("t", COLUMNS, primary_key=["k"], encoding="document", sets=["tags"])
        store.create_table("r", "k INT, v INT", primary_key=["k"], ttl=60)
        yield Database(spark, store)


def change(store: Store, chance: Random) -> None:
    """Commit changes of parts, each with a life of its own, and perhaps of a row."""
    with store.document_writer("t") as writer:
        for key in range(4):
            ttl, text = chance.choice([None, 5, 20, 90]), chance.choice("xX")
            match chance.randrange(6):
                case 0:
                    writer.set(key, {"note": text, ("address", "city"): text}, ttl=ttl)
                case 1:
                    writer.add(key, "props", {text: None, "z": "1"}, ttl=ttl)
                case 2:
                    writer.add(key, "tags", ["x", "y"], ttl=ttl)
                case 3:
                    writer.set(key, {("n", -1): 1, ("props", text): "v"}, ttl=ttl)
                case 4:
                    writer.patch(key, {"doc": {"a": {"b": 1}, "c": 2}}, ttl=ttl)
                case _:
                    writer.remove(key, chance.choice(["note", ("props", "z"), ("doc", "a", "b")]))
    if chance.random() < 0.3:
        store.write("t", pa.table({"k": [chance.randrange(4)], "note": ["w"]}), ttls=pa.array([30]))


def expected(table: Table) -> dict[int, list[float | None]]:
    """Return the seconds that are left of all paths, by the keys of the rows."""
    keys = table.to_arrow().column("k").to_pylist()
    return {key: [table.ttl(key, path) for path in PATHS.values()] for key in keys}


def answered(db: Database, query: str) -> dict[int, list[float | None]]:
    """Return the rows of a query without their keys, by these."""
    return {row[0]: list(row[1:]) for row in db.sql(query).collect()}


@pytest.mark.slow
def test_sql_answers_what_python_does(
    db: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the driver and in tasks, of all rows and of one, now and at earlier epochs."""
    chance, store = Random(5), db.store
    for step in range(6):
        change(store, chance)
        clock.advance(chance.choice([0, 4, 11]))
        if step == 3:
            store.compact()
        assert answered(db, QUERY) == expected(store.table("t"))
    one = expected(store.table("t"))[1]
    assert answered(db, f"{QUERY} WHERE k = 1") == {1: one}
    epoch = store.epoch - 2
    earlier = expected(store.at(epoch).table("t"))
    clock.advance(1000)
    assert answered(db, f"{QUERY} VERSION AS OF {epoch} t") == earlier
    assert answered(db, QUERY) == expected(store.table("t"))
    change(store, chance)
    monkeypatch.setattr(query_reader, "is_read_on_driver", lambda read: False)
    assert answered(db, QUERY) == expected(store.table("t"))
    assert answered(db, f"{QUERY} WHERE k > 1 AND k < 3").keys() <= {2}


def test_a_row_gives_its_time_for_each_column(db: Database, clock: ManualClock) -> None:
    """That is not NULL, where rows expire whole; the key has the row's."""
    db.store.write("r", pa.table({"k": [1, 2], "v": [5, None]}))
    clock.advance(20)
    rows = db.sql("SELECT k, ttl(k), ttl(v) FROM r ORDER BY k").collect()
    assert [tuple(row) for row in rows] == [(1, 40.0, 40.0), (2, 40.0, None)]
    assert rows[0].__fields__ == ["k", "ttl(k)", "ttl(v)"]


@pytest.mark.slow
def test_it_is_an_expression_like_others(db: Database) -> None:
    """In WHERE, ORDER BY, aggregates, joins, subqueries and statements that change rows."""
    store = db.store
    store.write("r", pa.table({"k": [1, 2], "v": [1, 2]}))
    with store.document_writer("t") as writer:
        writer.set(1, {"note": "a"}, ttl=100)
        writer.set(2, {"note": "b"}, ttl=50)
        writer.set(3, {"note": "c"})
    queries = {
        "SELECT k FROM t WHERE ttl(note) < 70": [(2,)],
        "SELECT k FROM t ORDER BY ttl(note) DESC LIMIT 1": [(1,)],
        "SELECT count(*), max(ttl(note)) FROM t": [(3, 100.0)],
        "SELECT count(*) FROM t WHERE ttl(note) IS NULL": [(1,)],
        "SELECT t.k, ttl(t.note) - ttl(r.v) FROM t JOIN r ON t.k = r.k AND ttl(v) < ttl(note)": [
            (1, 40.0)
        ],
        "SELECT * FROM (SELECT k, ttl(note) AS s FROM t) WHERE s = 50": [(2, 50.0)],
        "WITH c AS (SELECT ttl(note) AS s FROM t) SELECT sum(s) FROM c": [(150.0,)],
        "SELECT k FROM r WHERE EXISTS (SELECT 1 FROM t WHERE t.k = r.k AND ttl(note) > ttl(v))": [
            (1,)
        ],
    }
    for query, rows in queries.items():
        assert [tuple(row) for row in db.sql(query).collect()] == rows, query
    db.sql("UPDATE t USING TTL 500 SET note = 'd' WHERE ttl(note) < 70")
    table = store.table("t")
    assert [stored_row(table, key).note for key in (1, 2, 3)] == ["a", "d", "c"]
    db.sql("DELETE note FROM t WHERE ttl(note) BETWEEN 90 AND 110")
    assert table.get(1) is None
    assert [stored_row(table, key).note for key in (2, 3)] == ["d", "c"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT *, ttl(note) FROM t", "instead of"),
        ("SELECT ttl(s) FROM (SELECT note AS s FROM t)", "not a column of a table in FROM"),
        ("SELECT ttl(note || 'x') FROM t", "a column, or a part"),
        ("SELECT ttl(props[note]) FROM t", "a text in quotes or a whole number"),
        ("SELECT ttl('note') FROM t", "of a column"),
        ("SELECT ttl() FROM t", "of a column"),
        ("SELECT ttl(note, k) FROM t", "a column, or a part"),
        ("SELECT ttl(k) FROM t, r", "several tables"),
        ("SELECT ttl(nope) FROM t", "not a column of a table in FROM"),
        ("SELECT ttl(note) FROM t NATURAL JOIN r", "NATURAL"),
        ("FROM t |> SELECT ttl(note)", "plain SELECT"),
        ("CREATE MATERIALIZED VIEW w AS SELECT k, ttl(note) AS s FROM t", r"ttl\(\)"),
    ],
)
def test_what_it_cannot_be_of_is_refused(db: Database, query: str, message: str) -> None:
    """With what to write instead."""
    with pytest.raises(errors.UnsupportedStatementError, match=message):
        db.sql(query)


def test_paths_that_there_are_not_are_refused(db: Database) -> None:
    """As in Python."""
    with pytest.raises(errors.SchemaMismatchError, match="no field 'street'"):
        db.sql("SELECT ttl(address.street) FROM t")
    with pytest.raises(errors.OptionError, match="expires whole"):
        db.sql("SELECT ttl(v.x) FROM r")


def test_explain_names_the_calls(db: Database) -> None:
    """Among the columns that are read."""
    row = db.sql("EXPLAIN SELECT k, ttl(props['x']) FROM t WHERE k = 1").collect()[0]
    assert row.columns == ["k", "props", "ttl(props['x'])"]
