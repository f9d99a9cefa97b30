"""Statements that name rows by those of a source: however they are found, it is the same.

By a join, looked up by tasks, or looked up by the driver, which has Spark fold or compile the rest.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

import relstate
from relstate.connector.sql import Database, dml_run, lookup, planned_query
from relstate.storage import Store
from support.spark import interpreted, sorted_rows
from support.stores import upsert

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from support.examples import Seeds

_COLUMNS = "a INT, b STRING, n INT, code BIGINT, v STRING NOT NULL"


@contextmanager
def _joined(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the driver know no rows, so that small tables are joined."""
    with monkeypatch.context() as patch:
        patch.setattr(lookup, "known_rows", lambda _: None)
        patch.setattr(dml_run, "known_rows", lambda _: None)
        yield


@contextmanager
def _looked_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let tasks look rows up, and no table be so small that the driver reads it."""
    with _joined(monkeypatch), monkeypatch.context() as patch:
        patch.setattr(planned_query, "DRIVER_BYTES", -1)
        yield


@pytest.fixture
def tables(store: Store) -> Store:
    """A store with equal tables, which have indexes, and a source."""
    random_rows = random.Random(1)
    rows: list[Any] = [
        (a, b, random_rows.choice([None, 1, 2, 3, 4, 5]), a * 10 + len(b), f"{a} {b}")
        for a in range(8)
        for b in ("", "x", "yy")
    ]
    for name in ("joined", "by_tasks", "by_driver", "compiled"):
        store.create_table(name, _COLUMNS, primary_key=["a", "b desc"])
        upsert(store, name, rows[: len(rows) // 2])
        store.create_index(name, "by_n", ["n"])
        store.create_index(name, "by_code", ["code"], unique=True)
        upsert(store, name, rows[len(rows) // 2 :], [rows[0]])
    store.create_table("src", "i BIGINT, b STRING, n INT, code BIGINT, v STRING", primary_key=["i"])
    source: list[Any] = [
        (0, "", 1, 0, "new"),
        (1, "x", 9, 11, "u1"),
        (2, "yy", None, None, "u2"),
        (3, None, 2, 300, "u3"),
        (9, "x", 3, 91, "u9"),
        (1 << 40, "x", 3, 72, "far"),
    ]
    upsert(store, "src", source)
    return store


def _run(db: Database, store: Store, table: str, statement: str) -> tuple[Any, Any]:
    """Return what a statement says, or the class of its error, and the rows after it."""
    try:
        outcome: Any = db.sql(statement.replace("TABLE", table)).first()[1:]  # type: ignore[index]
    except Exception as error:
        outcome = type(error).__name__
    return outcome, sorted_rows(store, table)


def _compare(
    db: Database, store: Store, monkeypatch: pytest.MonkeyPatch, statement: str
) -> tuple[str | None, bool]:
    """Run a statement in every way; return (the index, whether tasks looked rows up)."""
    with _joined(monkeypatch):
        by_join = _run(db, store, "joined", statement)
    with _looked_up(monkeypatch):
        target = _explained(db, "by_tasks", statement)
        by_tasks = _run(db, store, "by_tasks", statement)
    by_driver = _run(db, store, "by_driver", statement)

    with monkeypatch.context() as patch:
        patch.setattr(lookup, "COMPILED_ROWS", -1)
        compiled = _run(db, store, "compiled", statement)

    assert by_tasks == by_join, statement
    assert by_driver == by_join, statement
    assert compiled == by_join, statement
    return target["index"], target.partitions is None


def _explained(db: Database, table: str, statement: str) -> Any:
    """Return what EXPLAIN of a statement says of the table that it changes."""
    explained = db.sql("EXPLAIN " + statement.replace("TABLE", table)).collect()
    (target,) = (row for row in explained if row.relation == table)
    return target


_KEY = "t.a = s.i AND t.b = s.b"
_BOTH = "WHEN MATCHED THEN UPDATE SET v = s.v, n = s.n WHEN NOT MATCHED AND s.b IS NOT NULL AND "
_BOTH += "s.i < 100 THEN INSERT (a, b, v) VALUES (s.i, s.b, s.v)"


@pytest.mark.parametrize(
    ("statement", "index", "is_looked_up"),
    [
        (f"MERGE INTO TABLE t USING src s ON {_KEY} {_BOTH}", None, True),
        (f"MERGE INTO TABLE t USING src s ON {_KEY} AND s.n < t.code {_BOTH}", None, True),
        (
            (
                "MERGE INTO TABLE USING (SELECT *, 1 / (i - 3) AS q FROM src WHERE i <> 3) s "
                "ON a = i AND s.b = TABLE.b AND q < 5 WHEN MATCHED THEN DELETE"
            ),
            None,
            True,
        ),
        (
            (
                "MERGE INTO TABLE t USING src s ON t.n = s.n WHEN MATCHED AND s.i = 3 THEN DELETE "
                "WHEN NOT MATCHED THEN INSERT (a, b, v) VALUES (50, s.v, 'none')"
            ),
            "by_n",
            True,
        ),
        (
            f"MERGE INTO TABLE t USING src s ON t.code = s.code AND t.v <> s.v {_BOTH}",
            "by_code",
            True,
        ),
        (f"MERGE INTO TABLE t USING src s ON t.n = s.n AND t.v <> s.v {_BOTH}", None, False),
        (f"MERGE INTO TABLE t USING src s ON t.a = s.i {_BOTH}", None, False),
        (
            f"MERGE INTO TABLE t USING src s ON {_KEY} WHEN NOT MATCHED BY SOURCE THEN DELETE",
            None,
            False,
        ),
        ("DELETE FROM TABLE WHERE n IN (SELECT n FROM src) AND a > 2", "by_n", True),
        ("DELETE FROM TABLE t WHERE (t.b, a) IN (SELECT b, i FROM src)", None, True),
        (
            (
                "DELETE FROM TABLE t WHERE EXISTS (SELECT 1 FROM src s JOIN src u ON s.i >= u.i "
                "WHERE s.i = t.a AND t.b = s.b AND u.n > 0)"
            ),
            None,
            True,
        ),
        ("DELETE FROM TABLE t WHERE n NOT IN (SELECT n FROM src WHERE n > 0)", None, False),
        (
            (
                "UPDATE TABLE t SET v = (SELECT max(s.v) FROM src s WHERE s.code = t.code), "
                "b = 'z' WHERE code IN (SELECT code FROM src) AND a < 7"
            ),
            "by_code",
            True,
        ),
    ],
)
def test_rows_are_looked_up_as_a_join_finds_them(
    db: Database,
    tables: Store,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    statement: str,
    index: str | None,
    is_looked_up: bool,
) -> None:
    """By the key or by an index, with NULLs and values that no row can have; EXPLAIN says so."""
    with interpreted(spark):
        assert _compare(db, tables, monkeypatch, statement) == (index, is_looked_up)


def test_two_rows_of_a_source_for_one_row_are_refused(
    db: Database, tables: Store, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever way the row is found."""
    statement = (
        "MERGE INTO TABLE t USING (SELECT * FROM src UNION ALL SELECT * FROM src WHERE i = 1) s "
        f"ON {_KEY} WHEN MATCHED THEN UPDATE SET v = s.v"
    )
    with interpreted(spark), _looked_up(monkeypatch):
        assert _run(db, tables, "by_tasks", statement)[0] == "DuplicateKeyError"
    with interpreted(spark):
        assert _run(db, tables, "by_driver", statement)[0] == "DuplicateKeyError"


def test_rows_without_a_key_are_looked_up_by_an_index(
    db: Database, store: Store, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal rows are different rows."""
    store.create_table("events", "page STRING NOT NULL, ms INT")
    store.create_index("events", "by_page", ["page"])
    upsert_rows = "INSERT INTO events VALUES ('a', 1), ('a', 1), ('b', 2), ('c', 3)"
    with interpreted(spark):
        db.sql(upsert_rows)
        with _looked_up(monkeypatch):
            db.sql(
                "MERGE INTO events e USING (VALUES ('a'), ('d')) s(page) ON e.page = s.page WHEN "
                "MATCHED THEN UPDATE SET ms = ms + 10 WHEN NOT MATCHED THEN INSERT (page) "
                "VALUES (s.page)"
            )
            db.sql("DELETE FROM events WHERE page IN (SELECT 'b')")
    rows = sorted(tuple(row.values()) for row in store.table("events").to_arrow().to_pylist())

    assert rows == [("a", 11), ("a", 11), ("c", 3), ("d", None)]


def test_random_merges_find_what_a_join_finds(
    spark: SparkSession,
    db: Database,
    tables: Store,
    monkeypatch: pytest.MonkeyPatch,
    seeds: Seeds,
) -> None:
    """Of random conditions, clauses and sources; errors are the same too."""
    with interpreted(spark):
        for seed in seeds(1):
            choose = random.Random(seed)
            for _ in range(2):
                _compare(db, tables, monkeypatch, _random_merge(choose))


def _random_merge(choose: random.Random) -> str:
    rows = [
        f"({_number(choose, 10)}, {choose.choice(['NULL', _TEXTS[0], *_TEXTS])}, "
        f"{_number(choose, 6)}, {_number(choose, 75)}, 's{number}')"
        for number in range(choose.randint(1, 6))
    ]
    kind = choose.choice(["BIGINT", "INT", "SMALLINT", "DECIMAL(5, 1)"])
    source = (
        f"(SELECT CAST(i AS {kind}) AS i, b, n, CAST(code AS {kind}) AS code, w "
        f"FROM VALUES {', '.join(rows)} AS r(i, b, n, code, w))"
    )
    condition = choose.choice(
        [_KEY, _KEY, "t.b = s.b AND s.i = a", "t.code = s.code", "n = s.n", "t.a = 3 AND t.b = s.b"]
    ).replace("n = s.n", "t.n = s.n")
    if choose.random() < 0.4:
        condition += choose.choice([" AND t.n > s.n", " AND s.n > 2", " AND t.v <> s.w", ""])
    clauses = [
        "WHEN MATCHED AND t.n = 2 THEN DELETE",
        "WHEN MATCHED AND s.n > 3 THEN UPDATE SET v = concat(t.v, w), n = s.n",
        "WHEN MATCHED THEN UPDATE SET code = t.code + 1000",
        (
            "WHEN NOT MATCHED AND s.b IS NOT NULL AND i IS NOT NULL THEN INSERT (a, b, n, v) "
            "VALUES (i + 20, s.b, s.n, w)"
        ),
    ]
    chosen = [clause for clause in clauses if choose.random() < 0.7] or clauses[-1:]
    return f"MERGE INTO TABLE t USING {source} s ON {condition} {' '.join(chosen)}"


_TEXTS = ["''", "'x'", "'yy'"]


def _number(choose: random.Random, stop: int) -> str:
    return "NULL" if choose.random() < 0.2 else str(choose.randrange(stop))


def test_a_large_source_is_computed_once(
    spark: SparkSession, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a source that gives other rows each time changes what it inserts, consistently."""
    store.create_table("t", "k BIGINT, v DOUBLE NOT NULL", primary_key=["k"])
    store.write("t", store.table("t").to_arrow().schema.empty_table())
    db = relstate.connect(spark, store.path)
    source = "(SELECT id, id + 0 * rand() AS r FROM range(50))"
    with _looked_up(monkeypatch):
        for _ in range(2):
            db.sql(
                f"MERGE INTO t USING {source} s ON t.k = s.id WHEN MATCHED THEN UPDATE SET v = -1 "
                "WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.id, s.r)"
            )

    assert set(store.table("t").to_arrow()["v"].to_pylist()) == {-1.0}
