"""The laws of structs in statements that change rows: which field is stored in which.

What Spark 4.3 does was seen on a parquet table (INSERT) and a table of the second version of its
API (UPDATE, MERGE).
"""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from relstate.connector.sql import Database
from relstate.storage import Store
from relstate.storage.errors import NullValueError, SchemaMismatchError, ValueRangeError
from support.spark import configured, save, sorted_rows

_SWAPPED = "named_struct('city', 'Linz', 'name', 'Ann')"
_ANN = {"name": "Ann", "city": "Linz"}
_LINZ = {"name": "Linz", "city": "Ann"}
_SOURCE = f"(SELECT 1 AS id, {_SWAPPED} AS p UNION ALL SELECT 2, {_SWAPPED})"
_MERGE = f"MERGE INTO people USING {_SOURCE} s ON people.id = s.id"
_INSERT = (
    "WHEN NOT MATCHED THEN INSERT (id, p) VALUES "
    "(s.id, named_struct('CITY', s.p.city, 'NAME', s.p.name))"
)
_NO_ANSI = {"spark.sql.ansi.enabled": "false"}


@pytest.fixture
def people(db: Database) -> str:
    """Return the name of a table with one row, whose struct has a name and a city."""
    db.sql("CREATE TABLE people (id INT PRIMARY KEY, p STRUCT<name: STRING, city: STRING>)")
    db.sql("INSERT INTO people VALUES (1, named_struct('name', 'Bob', 'city', 'Bonn'))")
    return "people"


@pytest.mark.parametrize("settings", [{}, _NO_ANSI], ids=["ansi", "not ansi"])
@pytest.mark.parametrize(
    ("statement", "rows"),
    [
        (f"INSERT INTO people BY NAME SELECT {_SWAPPED} AS p, 1 AS id", [(1, _ANN)]),
        (f"INSERT OVERWRITE people BY NAME SELECT {_SWAPPED} AS p, 1 AS id", [(1, _ANN)]),
        (f"INSERT INTO people SELECT 1, {_SWAPPED}", [(1, _LINZ)]),
        (f"INSERT INTO people (p, id) SELECT {_SWAPPED} AS p, 1", [(1, _LINZ)]),
        ("INSERT INTO people VALUES (1, struct('Linz', 'Ann'))", [(1, _LINZ)]),
        (f"UPDATE people SET p = {_SWAPPED}", [(1, _ANN)]),
        (f"UPDATE people SET p = {_SWAPPED}, id = 7", [(7, _ANN)]),
        (f"UPDATE people SET p = s.p FROM {_SOURCE} s WHERE people.id = s.id", [(1, _ANN)]),
        (
            f"{_MERGE} WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
            [(1, _ANN), (2, _ANN)],
        ),
        (
            f"{_MERGE} WHEN MATCHED THEN UPDATE SET p = s.p {_INSERT}",
            [(1, _ANN), (2, _ANN)],
        ),
    ],
)
def test_fields_are_found_as_in_spark(
    spark: SparkSession,
    db: Database,
    people: str,
    store: Store,
    settings: dict[str, str],
    statement: str,
    rows: list[tuple[int, dict[str, str]]],
) -> None:
    """By name in INSERT … BY NAME, UPDATE and MERGE, by position in other INSERTs."""
    with configured(spark, settings):
        db.sql(statement)
    assert sorted_rows(store, people) == rows


@pytest.mark.parametrize("settings", [{}, _NO_ANSI], ids=["ansi", "not ansi"])
def test_fields_in_arrays_maps_and_structs_are_found_by_name(
    spark: SparkSession, db: Database, store: Store, settings: dict[str, str]
) -> None:
    """At any depth; a NULL stays one, and the parts are cast to the types of the table."""
    db.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, a ARRAY<ARRAY<STRUCT<x: BIGINT, y: STRING>>>, "
        "m MAP<STRUCT<x: BIGINT, y: STRING>, STRUCT<x: BIGINT, y: STRING>>, "
        "s STRUCT<inner: STRUCT<x: BIGINT, y: STRING>, n: INT>)"
    )
    item = "named_struct('y', 'why', 'X', {})"
    with configured(spark, settings):
        db.sql(
            f"INSERT INTO t BY NAME SELECT 1 AS id, array(array({item.format(1)}, NULL), NULL) "
            f"AS a, map({item.format(2)}, {item.format(3)}) AS m, "
            f"named_struct('n', 4, 'inner', {item.format(5)}) AS s"
        )
        db.sql("INSERT INTO t BY NAME SELECT 2 AS id, NULL AS a, NULL AS m")
    row = store.table("t").get(1)
    assert row is not None
    assert row.a == [[{"x": 1, "y": "why"}, None], None]
    assert row.m == [({"x": 2, "y": "why"}, {"x": 3, "y": "why"})]
    assert row.s == {"inner": {"x": 5, "y": "why"}, "n": 4}
    assert sorted_rows(store, "t")[1] == (2, None, None, None)


def test_updates_and_merges_find_fields_inside_by_name(db: Database, store: Store) -> None:
    """Where the driver computes the rows, where a row gets another key, and in a job of Spark."""
    struct = "STRUCT<x: BIGINT, y: STRING>"
    db.sql(f"CREATE TABLE t (id INT PRIMARY KEY, a ARRAY<{struct}>, m MAP<STRING, {struct}>)")
    db.sql("INSERT INTO t (id) VALUES (1), (2)")
    item, stored = "named_struct('y', 'why', 'X', 1)", {"x": 1, "y": "why"}
    db.sql(f"UPDATE t SET a = array({item}, NULL), m = map('k', {item})")
    db.sql(f"UPDATE t SET a = array({item}), id = id + 10 WHERE id = 1")
    merge = "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    source = f"SELECT 2 AS id, array({item}) AS a, map('z', {item}) AS m"
    db.sql(f"MERGE INTO t USING ({source} UNION ALL SELECT 3, NULL, map()) s {merge}")
    rows = f"SELECT id + 90 AS id, array({item}) AS a, map('z', {item}) AS m FROM range(2)"
    db.sql(f"MERGE INTO t USING ({rows}) s {merge}")
    assert {row[0]: row[1:] for row in sorted_rows(store, "t")} == {
        2: ([stored], [("z", stored)]),
        3: (None, []),
        11: ([stored], [("k", stored)]),
        90: ([stored], [("z", stored)]),
        91: ([stored], [("z", stored)]),
    }


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("UPDATE people SET p = named_struct('city', 'a', 'town', 'b')",
         "it lacks 'name' and the type does not have 'town'"),
        ("UPDATE people SET p = struct('Linz', 'Ann')", "write named_struct('name', …, 'city', …)"),
        ("UPDATE people SET p = named_struct('city', 'a')", "it lacks 'name'"),
        ("INSERT INTO people BY NAME SELECT 1 AS id, struct(1 AS city, 2 AS name, 3 AS NAME) AS p",
         "it repeats 'name', 'NAME'"),
        (f"{_MERGE} WHEN MATCHED THEN UPDATE SET p = struct(1 AS city, 2 AS name, 3 AS x)",
         "the type does not have 'x'"),
        ("INSERT INTO people SELECT 1, named_struct('city', 'a')", "cannot be stored"),
        ("INSERT INTO people SELECT 1, named_struct('city', 'a', 'name', 'b', 'x', 1)",
         "cannot be stored"),
    ],
)  # fmt: skip
def test_a_field_without_a_counterpart_is_refused(
    db: Database, people: str, store: Store, statement: str, reason: str
) -> None:
    """As Spark does; the message says how the value is written."""
    before = store.epoch
    with pytest.raises(SchemaMismatchError) as refusal:
        db.sql(statement)
    assert "'p'" in str(refusal.value)
    assert reason in str(refusal.value)
    assert store.epoch == before


def test_a_part_of_a_document_is_found_by_name(db: Database, store: Store) -> None:
    """Also where the row is not read."""
    db.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, m MAP<STRING, STRUCT<name: STRING, city: STRING>>, "
        "p STRUCT<name: STRING, city: STRING>) TBLPROPERTIES ('encoding' = 'document')"
    )
    db.sql(f"INSERT INTO t BY NAME SELECT 1 AS id, {_SWAPPED} AS p")
    db.sql(f"UPDATE t SET m['a'] = {_SWAPPED} WHERE id = 1")
    db.sql(f"UPDATE t SET m['b'] = {_SWAPPED}, p = {_SWAPPED} WHERE p.name = 'Ann'")
    assert sorted_rows(store, "t") == [(1, [("a", _ANN), ("b", _ANN)], _ANN)]


def test_a_dataframe_is_written_by_name(
    spark: SparkSession, db: Database, people: str, store: Store
) -> None:
    """By format("relstate") and by db.write; a field that the table lacks is refused."""
    frame = spark.sql(f"SELECT {_SWAPPED} AS p, 2 AS id")
    save(frame, store, people)
    db.write(frame.selectExpr("p", "3 AS id"), people)
    assert sorted_rows(store, people)[1:] == [(2, _ANN), (3, _ANN)]
    unknown = spark.sql("SELECT 4 AS id, named_struct('city', 'a', 'name', 'b', 'x', 1) AS p")
    with pytest.raises(SchemaMismatchError, match="unknown column 'x'"):
        db.write(unknown, people)


def test_a_field_that_is_not_null_takes_what_may_be_null(db: Database, store: Store) -> None:
    """An expression that Spark takes to be nullable; only a NULL is refused."""
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, p STRUCT<name: STRING NOT NULL, city: STRING>)")
    db.sql("INSERT INTO t VALUES (1, named_struct('name', 'Ann', 'city', 'Linz'))")
    db.sql("UPDATE t SET p = named_struct('city', p.city, 'name', upper(p.name))")
    assert sorted_rows(store, "t") == [(1, {"name": "ANN", "city": "Linz"})]
    for statement in (
        "UPDATE t SET p = named_struct('city', p.city, 'name', nullif(p.name, 'ANN'))",
        "UPDATE t SET p = named_struct('city', p.city, 'name', NULL), id = 2",
        "INSERT INTO t SELECT 3, named_struct('name', NULL, 'city', 'Linz')",
    ):
        with pytest.raises(NullValueError, match="'p' holds a NULL"):
            db.sql(statement)


def test_an_update_of_the_key_narrows_no_number(
    spark: SparkSession, db: Database, store: Store
) -> None:
    """Without ANSI mode, too, where Spark's cast would wrap it."""
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    db.sql("INSERT INTO t VALUES (1, 1)")
    with configured(spark, _NO_ANSI):
        with pytest.raises(ValueRangeError, match="5000000000"):
            db.sql("UPDATE t SET id = 2, n = 5000000000")
        db.sql("UPDATE t SET id = 2L, n = 5L")
    assert sorted_rows(store, "t") == [(2, 5)]


def test_a_column_of_nested_type_has_clauses(db: Database, store: Store) -> None:
    """DEFAULT, NOT NULL, GENERATED, COMMENT and CHECK after a type with commas in it."""
    db.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, is_less BOOLEAN DEFAULT 1 < 2, n INT, "
        "p STRUCT<name: STRING, city: STRING> DEFAULT NULL, "
        "m MAP<STRING, ARRAY<STRUCT<a: INT, b: INT>>> NOT NULL COMMENT 'a map', "
        "q STRUCT<name: STRING, city: STRING> GENERATED ALWAYS AS (p), "
        "r STRUCT<name: STRING, city: STRING> CHECK (n > 0))"
    )
    db.sql(f"INSERT INTO t (id, n, p, m) SELECT 1, 1, {_SWAPPED}, map()")
    db.sql(f"UPDATE t SET p = {_SWAPPED}, r = {_SWAPPED}")
    assert sorted_rows(store, "t") == [(1, True, 1, _ANN, [], _ANN, _ANN)]
