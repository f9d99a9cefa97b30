"""Erasure with views: no file of a store has the rows, and every view equals its SELECT."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from relstate.storage import Store, errors
from support.commands import run
from support.remains import files_with

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from relstate.connector.sql import Database

_KEY = "key-Qm7vX2tLr9Zw4Ks8Bd1N"
_VALUE = "value-Hc5yT3gPj6Ua0Ve7Rf"
_VIEWS = {
    "by_city": "SELECT city, count(*) AS n, max(note) AS last, min(name) AS first "
    "FROM people GROUP BY city",
    "joined": "SELECT p.name, p.note, c.country FROM people p JOIN cities c ON p.city = c.city",
    "top": "SELECT name, note FROM people ORDER BY note DESC, name LIMIT 3",
    "ranked": "SELECT name, row_number() OVER (PARTITION BY city ORDER BY name) AS r FROM people",
    "again": "SELECT country, count(DISTINCT note) AS notes FROM joined GROUP BY country",
}


@pytest.fixture
def people(store: Store, db: Database) -> Store:
    """A store with an indexed table, a document table, and views of several kinds over them."""
    store.create_table("people", "name STRING, city STRING, note STRING", primary_key=["name"])
    store.create_index("people", "notes", ["note"], include=["city"])
    store.create_table("cities", "city STRING, country STRING", primary_key=["city"])
    store.write("cities", [{"city": "Linz", "country": "AT"}, {"city": "Graz", "country": "AT"}])
    store.create_table(
        "profiles",
        "name STRING, tags MAP<STRING, STRING>",
        primary_key=["name"],
        encoding="document",
    )
    _write(store, 0)
    for name, query in _VIEWS.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    db.sql(
        "CREATE MATERIALIZED VIEW tags AS SELECT name, t.value AS tag FROM profiles "
        "LATERAL VIEW explode(map_values(tags)) t AS value"
    )
    for number in (1, 2):
        _write(store, number)
        db.refresh()
    return store


def _write(store: Store, number: int) -> None:
    rows = [{"name": f"n{i}", "city": "Linz", "note": f"note {number}"} for i in range(5)]
    store.write("people", [*rows, {"name": _KEY, "city": "Graz", "note": f"{_VALUE} {number}"}])
    store.write("profiles", [{"name": _KEY, "tags": {"a": f"{_VALUE} {number}"}}])
    store.patch("profiles", [{"name": _KEY, "tags": {f"b{number}": _VALUE}}])
    store.write("profiles", [{"name": "n1", "tags": {"a": "x"}}])


def test_no_file_has_a_byte_of_the_rows(people: Store, db: Database, place: str) -> None:
    """Of tables, indexes, views, their state, feeds and the log; the views stay right."""
    assert files_with(people.path, _VALUE)

    reports = [db.erase(table, [{"name": _KEY}]) for table in ("people", "profiles")]

    assert files_with(people.path, _KEY) == files_with(people.path, _VALUE) == []
    assert {"people", "by_city", "again", "top"} <= set(reports[0].tables)
    assert all(report.files_removed for report in reports)
    for name, query in _VIEWS.items():
        expected = sorted(map(tuple, db.sql(query).collect()))
        assert sorted(map(tuple, db.sql(f"SELECT * FROM {name}").collect())) == expected
    assert [row.name for row in db.sql("SELECT name FROM top ORDER BY name").collect()] == [
        "n0",
        "n1",
        "n2",
    ]
    _write(people, 3)
    db.refresh()
    assert [report for report in db.check_views() if not report.ok] == []


def test_what_a_failing_view_has_said_goes(people: Store, db: Database) -> None:
    """A view that cannot be computed holds the rows: its error is raised until it is dropped."""
    db.sql(
        "CREATE MATERIALIZED VIEW ratio AS SELECT name, CAST(note AS INT) AS n FROM people "
        "WHERE name LIKE 'number%'"
    )
    people.write("people", [{"name": "number", "city": "Linz", "note": _VALUE}])
    with pytest.raises(errors.ViewFailedError):
        db.refresh()

    with pytest.raises(errors.ViewFailedError):
        db.erase("people", [{"name": _KEY}])
    assert files_with(people.path, _KEY)

    db.erase("people", [{"name": "number"}])
    db.erase("people")
    db.erase("profiles", [{"name": _KEY}])
    assert files_with(people.path, _KEY) == files_with(people.path, _VALUE) == []


def test_what_was_set_aside_goes(spark: SparkSession, people: Store, db: Database) -> None:
    """A row that a write, or a view, could not take is in a quarantine, with its key."""
    db.sql("ALTER TABLE people ADD CONSTRAINT long CHECK (length(city) < 9)")
    frame = spark.createDataFrame(
        [(_KEY, "Klagenfurt", _VALUE), ("n9", "Klagenfurt", "kept")],
        "name STRING, city STRING, note STRING",
    )
    options = {"table": "people", "badRows": "quarantine"}
    frame.write.format("relstate").options(**options).mode("append").save(people.path)
    db.sql(
        "CREATE MATERIALIZED VIEW ratio TBLPROPERTIES ('on_error' = 'quarantine') "
        "AS SELECT name, CAST(city AS INT) AS n FROM people WHERE city = 'Wien'"
    )
    people.write("people", [{"name": _KEY, "city": "Wien", "note": _VALUE}])
    db.refresh()
    assert [row.key for row in db.sql("SELECT key FROM ratio__quarantine").collect()] == [
        f'{{"name": "{_KEY}"}}'
    ]
    db.erase("profiles", [{"name": _KEY}])

    db.erase("people", [{"name": _KEY}])

    assert files_with(people.path, _KEY) == files_with(people.path, _VALUE) == []
    assert db.sql("SELECT count(*) FROM ratio__quarantine").first() == (0,)
    assert people.table("people__quarantine").count() == 1


def test_the_command_refreshes_views(people: Store, tmp_path: Path) -> None:
    """A dry run says what it would rewrite; what cannot be erased is an error of one line."""
    path = people.path
    would = run("erase", path, "people", "--key", f"name={_KEY}", "--dry-run", "--json").document
    assert would["files_removed"] == 0
    assert files_with(path, _KEY)

    done = run("erase", path, "people", "--key", f"name={_KEY}", "--json")
    more = run("erase", path, "profiles", "--key", f'{{"name": "{_KEY}"}}')

    assert (done.code, more.code) == (0, 0), done.errors + more.errors
    assert done.document["tables"] == would["tables"]
    assert would["files_rewritten"] > 0
    assert "backups" in " ".join(more.output.split())
    assert files_with(path, _KEY) == files_with(path, _VALUE) == []
    assert "SchemaMismatchError" in run("erase", path, "people", "--key", '{"city": "x"}').errors
    assert "ValueRangeError" in run("erase", path, "people", "--key", "{").errors
    assert "InternalTableError" in run("erase", path, "top", "--key", "x").errors
