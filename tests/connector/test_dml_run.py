"""The laws of INSERT, UPDATE, DELETE, MERGE and TRUNCATE, through Spark over real files."""

from __future__ import annotations

from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

import relstate
from relstate.connector.sql import Database, dml_run
from relstate.storage import Store
from relstate.storage.errors import (
    AppendOnlyError,
    ConflictError,
    DuplicateKeyError,
    NullValueError,
    SchemaMismatchError,
    TableNotFoundError,
    UnsupportedStatementError,
    ValueRangeError,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def items(db: Database) -> str:
    """The name of a table with the rows (1, a, 10), (2, b, 20) and (3, c, NULL)."""
    db.sql("CREATE TABLE items (id BIGINT, name STRING NOT NULL, n INT, PRIMARY KEY (id))")
    db.sql("INSERT INTO items VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', NULL)")
    return "items"


def touched(db: Database, statement: str) -> tuple[int, int, int]:
    """Run a statement, which must make one epoch; return (inserted, updated, deleted)."""
    before = db.store.epoch
    (row,) = db.sql(statement).collect()
    counts = (row.num_inserted_rows, row.num_updated_rows, row.num_deleted_rows)
    assert row.num_affected_rows == sum(counts)
    assert row.epoch == db.store.epoch == before + (1 if sum(counts) else 0)
    return counts


def rows_in(store: Store, table: str) -> list[tuple[Any, ...]]:
    """Return the rows of a table, sorted by their text."""
    return sorted(
        (tuple(row.values()) for row in store.table(table).to_arrow().to_pylist()), key=str
    )


def test_rows_are_inserted(db: Database, items: str, store: Store) -> None:
    """By position, by name, for some columns; an existing key gets the new row."""
    assert touched(db, "INSERT INTO items VALUES (4, 'd', 1 + 1)") == (1, 0, 0)
    assert touched(db, "INSERT INTO items (name, id) SELECT concat('x', id), id FROM items") == (
        0,
        4,
        0,
    )
    assert touched(db, "INSERT INTO items BY NAME SELECT 'y' AS name, 9L AS id") == (1, 0, 0)

    expected = [(1, "x1", None), (2, "x2", None), (3, "x3", None), (4, "x4", None), (9, "y", None)]
    assert rows_in(store, items) == expected


def test_an_insert_counts_keys(db: Database, items: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rows of one key count as one, an existing key as an update; unknown counts are NULL."""
    assert touched(db, "INSERT INTO items VALUES (7, 'x', 1), (7, 'y', 2)") == (1, 0, 0)
    assert touched(db, "INSERT INTO items VALUES (7, 'z', 1), (8, 'y', 2)") == (1, 1, 0)
    db.sql("DELETE FROM items WHERE id = 8")
    assert touched(db, "INSERT INTO items VALUES (8, 'z', 1)") == (1, 0, 0)
    db.sql("CREATE TABLE firsts (id INT PRIMARY KEY, n INT) TBLPROPERTIES ('merge' = 'ignore')")
    db.sql("INSERT INTO firsts VALUES (1, 1)")
    (row,) = db.sql("INSERT INTO firsts VALUES (1, 2)").collect()
    assert tuple(row)[1:] == (0, 0, 0, 0)
    db.sql("CREATE TABLE v (id INT PRIMARY KEY, n INT) TBLPROPERTIES ('version_column' = 'n')")
    (row,) = db.sql("INSERT INTO v VALUES (1, 1)").collect()
    assert tuple(row)[1:] == (None, None, None, 0)

    monkeypatch.setattr(dml_run, "_MOST_COUNTED", 1)
    (row,) = db.sql("INSERT INTO items VALUES (1, 'z', 1), (9, 'z', 1)").collect()
    assert tuple(row)[1:] == (None, None, None, 0)
    (row,) = db.sql("INSERT OVERWRITE items VALUES (1, 'z', 1)").collect()
    assert tuple(row)[1:] == (None, 1, 0, None)


def test_a_missing_default_is_null(db: Database, items: str, store: Store) -> None:
    """DEFAULT in VALUES, in SET and in MERGE is NULL; a NOT NULL column refuses it."""
    db.sql("INSERT INTO items VALUES (7, 'x', DEFAULT)")
    db.sql("UPDATE items SET n = DEFAULT WHERE id = 1")
    db.sql(
        "MERGE INTO items USING (SELECT 9L AS id) s ON items.id = s.id "
        "WHEN NOT MATCHED THEN INSERT (id, name, n) VALUES (s.id, 'y', DEFAULT)"
    )
    assert {row[2] for row in rows_in(store, items)} == {None, 20}
    with pytest.raises(NullValueError):
        db.sql("UPDATE items SET name = DEFAULT")


def test_a_merge_of_one_row_runs_few_tasks(spark: SparkSession, db: Database, items: str) -> None:
    """It runs few tasks under Spark's default of 200 shuffle partitions, too."""
    settings = {"spark.sql.shuffle.partitions": "200", "spark.sql.adaptive.enabled": "true"}
    before = {name: spark.conf.get(name) for name in settings}
    context, tracker = spark.sparkContext, spark.sparkContext.statusTracker()
    merge = (
        "MERGE INTO items t USING (SELECT 1L AS id, 'z' AS name, 5 AS n) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        context.setJobGroup("one row", "a merge")
        db.sql(merge)
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
        for name, value in before.items():
            spark.conf.set(name, str(value))

    jobs = [tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup("one row")]
    stages = [tracker.getStageInfo(number) for job in jobs if job for number in job.stageIds]
    assert sum(stage.numCompletedTasks for stage in stages if stage is not None) < 50


def test_an_insert_replaces_all_rows(db: Database, items: str, store: Store) -> None:
    """INSERT OVERWRITE may read the rows it replaces, and may have no rows."""
    assert touched(db, "INSERT OVERWRITE items SELECT id + 5, name, 0 FROM items WHERE id > 1") == (
        2,
        0,
        3,
    )
    assert rows_in(store, items) == [(7, "b", 0), (8, "c", 0)]

    db.sql("INSERT OVERWRITE TABLE items SELECT * FROM items WHERE false")
    assert rows_in(store, items) == []


def test_rows_are_updated(db: Database, items: str, store: Store) -> None:
    """Values and conditions may use the old row and other tables."""
    assert touched(db, "UPDATE items SET n = coalesce(n, 0) + 1, name = upper(name)") == (0, 3, 0)
    assert rows_in(store, items) == [(1, "A", 11), (2, "B", 21), (3, "C", 1)]

    update = """
        UPDATE items AS i SET i.n = (SELECT max(n) FROM items)
        WHERE i.id IN (SELECT o.id FROM items o WHERE o.n < 20) AND i.name <> 'C'
    """
    assert touched(db, update) == (0, 1, 0)
    assert rows_in(store, items) == [(1, "A", 21), (2, "B", 21), (3, "C", 1)]
    assert touched(db, "UPDATE items SET n = 0 WHERE id = 99") == (0, 0, 0)


def test_rows_are_deleted(db: Database, items: str, store: Store) -> None:
    """DELETE removes the rows for which the condition is true; without one, all rows."""
    assert touched(db, "DELETE FROM items WHERE n > 10") == (0, 0, 1)
    assert rows_in(store, items) == [(1, "a", 10), (3, "c", None)]
    assert touched(
        db, "DELETE FROM items x WHERE EXISTS (SELECT 1 FROM items y WHERE y.id > x.id)"
    ) == (0, 0, 1)
    assert touched(db, "DELETE FROM items") == (0, 0, 1)
    assert rows_in(store, items) == []


def test_a_table_is_truncated(db: Database, items: str, store: Store) -> None:
    """TRUNCATE does not count the rows."""
    (row,) = db.sql("TRUNCATE TABLE items").collect()

    assert tuple(row) == (store.epoch, None, None, None, None)
    assert rows_in(store, items) == []


_ODD_NAMES = ["x.y", "x`y", "`", "l`.`m", "a b", "null", "*", "new\nline"]


@pytest.mark.parametrize(
    ("keys", "values"), [(_ODD_NAMES[:4], _ODD_NAMES[4:]), (_ODD_NAMES[4:], _ODD_NAMES[:4])]
)
def test_columns_may_have_any_names(
    db: Database, store: Store, keys: list[str], values: list[str]
) -> None:
    """Quoted names are never confused with fields of a struct."""

    def each(names: list[str], template: str, separator: str = ", ") -> str:
        quoted = ("`" + name.replace("`", "``") + "`" for name in names)
        return separator.join(template.replace("@", name) for name in quoted)

    def rows(*pairs: tuple[int, int], between: str = "") -> str:
        """Return rows in which all key columns have one value, and all others another."""
        return ", ".join(
            f"({', '.join([str(key)] * 4)}, {between} {', '.join([str(value)] * 4)})"
            for key, value in pairs
        )

    key, value = each(keys, "@"), each(values, "@")
    db.sql(
        f"CREATE TABLE t ({each(keys, '@ INT')}, x STRUCT<y: INT>, {each(values, '@ INT')}, "
        f"PRIMARY KEY ({key}))"
    )
    db.sql(f"INSERT INTO t VALUES {rows((1, 10), (2, 20), (3, 30), between='struct(0),')}")
    db.sql(f"INSERT INTO t ({value}, {key}) VALUES {rows((40, 4))}")
    db.sql(f"INSERT INTO t BY NAME SELECT {each(keys, '5 AS @')}, {each(values, '50 AS @')}")
    db.sql(f"UPDATE t SET {each(values, '@ = t.@ + 1')} WHERE {each(keys, '@ = 1', ' AND ')}")
    db.sql(f"UPDATE t SET {each(keys, '@ = @ + 5')} WHERE {each(values, 't.@ = 20', ' AND ')}")
    db.sql(f"DELETE FROM t WHERE {each(values, '@ = 30', ' AND ')}")
    source = f"(SELECT * FROM VALUES {rows((4, 41), (6, 60), (8, 80))} AS v ({key}, {value}))"
    db.sql(
        f"MERGE INTO t USING {source} s ON {each(keys, 't.@ = s.@', ' AND ')} "
        f"WHEN MATCHED THEN UPDATE SET {each(values, '@ = s.@')} "
        f"WHEN NOT MATCHED AND {each(values, '@ < 70', ' AND ')} "
        f"THEN INSERT ({key}, {value}) VALUES ({key}, {value}) "
        f"WHEN NOT MATCHED THEN INSERT ({key}, {value}) VALUES ({each(keys, 's.@')}, 0, 0, 0, 0) "
        f"WHEN NOT MATCHED BY SOURCE AND {each(values, '@ = 50', ' AND ')} THEN DELETE"
    )

    stored = {(*set(row[:4]), *set(row[5:])) for row in rows_in(store, "t")}
    assert stored == {(1, 11), (4, 41), (6, 60), (7, 20), (8, 0)}
    assert store.table("t").get(1, 1, 1, 1)["x"] == {"y": 0}  # type: ignore[index]


def test_rows_move_to_other_keys(db: Database, items: str, store: Store) -> None:
    """Rows may exchange their keys, but none gets the key of a row that stays."""
    assert touched(db, "UPDATE items SET id = 3 - id WHERE id < 3") == (0, 2, 0)
    assert rows_in(store, items) == [(1, "b", 20), (2, "a", 10), (3, "c", None)]
    assert touched(db, "UPDATE items SET id = id + 1") == (0, 3, 0)
    assert rows_in(store, items) == [(2, "b", 20), (3, "a", 10), (4, "c", None)]

    before = store.epoch
    with pytest.raises(DuplicateKeyError, match=r"id = 3.*is the key of an existing row"):
        db.sql("UPDATE items SET id = 3 WHERE id = 2")
    with pytest.raises(DuplicateKeyError, match=r"id = 7.*the key of two rows"):
        db.sql("UPDATE items SET id = 7")
    assert store.epoch == before


def test_a_merge_updates_deletes_and_inserts(db: Database, items: str, store: Store) -> None:
    """The first clause that applies to a row counts; a row without a clause stays."""
    merge = """
        MERGE INTO items t USING (
            SELECT * FROM VALUES (1L, 'one', 0), (2L, 'gone', -1), (8L, 'new', 8), (9L, 'no', -1)
            AS s(id, name, n)) s
        ON t.id = s.id
        WHEN MATCHED AND s.n < 0 THEN DELETE
        WHEN MATCHED THEN UPDATE SET *
        WHEN NOT MATCHED AND s.n >= 0 THEN INSERT (id, name) VALUES (s.id, s.name)
        WHEN NOT MATCHED BY SOURCE AND t.n IS NULL THEN UPDATE SET n = t.id * 100
    """
    assert touched(db, merge) == (1, 2, 1)
    assert rows_in(store, items) == [(1, "one", 0), (3, "c", 300), (8, "new", None)]


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        ("WHEN MATCHED THEN DELETE", [(1, "a", 10), (3, "c", None)]),
        (
            "WHEN NOT MATCHED THEN INSERT *",
            [(1, "a", 10), (2, "b", 20), (3, "c", None), (5, "e", 5)],
        ),
        ("WHEN NOT MATCHED BY SOURCE THEN DELETE", [(2, "b", 20)]),
        (
            (
                "WHEN NOT MATCHED BY SOURCE AND id = 1 THEN UPDATE SET n = n + id "
                "WHEN NOT MATCHED AND n > 4 THEN INSERT (id, name) VALUES (id, concat(name, `n`))"
            ),
            [(1, "a", 11), (2, "b", 20), (3, "c", None), (5, "e5", None)],
        ),
        (
            "WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE THEN DELETE",
            [(2, "b", 20), (5, "e", 5)],
        ),
        (
            "WHEN MATCHED THEN UPDATE SET t.id = 4, n = s.n + t.n WHEN NOT MATCHED THEN INSERT *",
            [(1, "a", 10), (3, "c", None), (4, "b", 22), (5, "e", 5)],
        ),
    ],
)
def test_a_merge_may_have_any_clauses(
    db: Database, spark: SparkSession, items: str, store: Store, clauses: str, expected: list[Any]
) -> None:
    """All clauses of Spark's MERGE; the source may be a view of the session."""
    rows = spark.createDataFrame([(2, "z", 2), (5, "e", 5)], "id BIGINT, name STRING, n INT")
    rows.createOrReplaceTempView("merged")
    try:
        db.sql(f"MERGE INTO items t USING merged AS s ON t.id = s.id {clauses}")
    finally:
        spark.catalog.dropTempView("merged")

    assert rows_in(store, items) == expected


@pytest.mark.parametrize(
    ("source", "clauses", "trouble"),
    [
        ("(VALUES (2L), (2L)) s(k)", "WHEN MATCHED THEN DELETE", "changed twice"),
        ("(VALUES (2L), (2L)) s(k)", "WHEN MATCHED THEN UPDATE SET n = 1", "changed twice"),
        (
            "(VALUES (5L), (5L)) s(k)",
            "WHEN NOT MATCHED THEN INSERT (id, name) VALUES (k, 'x')",
            "two rows",
        ),
        (
            "(VALUES (5L)) s(k)",
            "WHEN NOT MATCHED THEN INSERT (id, name) VALUES (3, 'x')",
            "key of an existing row",
        ),
    ],
)
def test_a_merge_that_says_two_things_of_a_row_is_refused(
    db: Database, items: str, store: Store, source: str, clauses: str, trouble: str
) -> None:
    """Nothing decides which of two changes of one row counts."""
    before = store.epoch

    with pytest.raises(DuplicateKeyError, match=trouble):
        db.sql(f"MERGE INTO items t USING {source} ON t.id = s.k {clauses}")
    assert store.epoch == before


@pytest.mark.parametrize(
    ("statement", "error", "text"),
    [
        ("INSERT INTO nothing VALUES (1)", TableNotFoundError, "nothing"),
        ("INSERT INTO items VALUES (1, 'a')", SchemaMismatchError, "2 columns"),
        ("INSERT INTO items (id, nam) VALUES (1, 'a')", SchemaMismatchError, "nam"),
        ("INSERT INTO items (id, ID) VALUES (1, 1)", SchemaMismatchError, "named twice"),
        ("INSERT INTO items VALUES ('1', 'a', 1)", SchemaMismatchError, "cast it"),
        ("INSERT INTO items VALUES (7, NULL, 1)", NullValueError, "name"),
        ("INSERT INTO items (id) VALUES (7)", SchemaMismatchError, "name"),
        ("UPDATE items SET other = 1", SchemaMismatchError, "other"),
        ("UPDATE items SET n = 1, N = 2", UnsupportedStatementError, "twice"),
        ("UPDATE items SET n = 1, n = 2", UnsupportedStatementError, "twice"),
        ("UPDATE items SET n.x = 1", UnsupportedStatementError, "field"),
        ("UPDATE items SET name = NULL WHERE id = 1", NullValueError, "name"),
        ("DELETE FROM items id = 1", UnsupportedStatementError, "end of the statement"),
        ("MERGE INTO items USING items s ON true", UnsupportedStatementError, "WHEN"),
    ],
)
def test_what_cannot_be_changed_is_refused(
    db: Database, items: str, store: Store, statement: str, error: type[Exception], text: str
) -> None:
    """The error is relstate's own, and nothing has changed."""
    before = store.epoch

    with pytest.raises(error, match=text):
        db.sql(statement)
    assert store.epoch == before


def test_an_update_replaces_a_row_that_inserts_would_merge(db: Database, store: Store) -> None:
    """NULL that a statement sets is stored, also in a table that merges rows."""
    db.sql("CREATE TABLE p (id INT PRIMARY KEY, a INT, b INT) TBLPROPERTIES (merge = 'partial')")
    db.sql("CREATE TABLE i (id INT PRIMARY KEY, a INT, b INT) TBLPROPERTIES (merge = 'ignore')")
    for table in ("p", "i"):
        db.sql(f"INSERT INTO {table} VALUES (1, 1, 1), (2, 2, 2)")
        db.sql(f"INSERT INTO {table} VALUES (2, 3, NULL)")
        assert touched(db, f"UPDATE {table} SET a = NULL, b = 7 WHERE id = 1") == (0, 1, 0)

    assert rows_in(store, "p") == [(1, None, 7), (2, 3, 2)]
    assert rows_in(store, "i") == [(1, None, 7), (2, 2, 2)]


def test_a_version_stays_in_force(db: Database, store: Store) -> None:
    """A change without a version keeps the row's version, so older changes stay without effect."""
    db.sql(
        "CREATE TABLE v (id INT PRIMARY KEY, a STRING, at BIGINT) "
        "TBLPROPERTIES ('version_column' = 'at')"
    )
    db.sql("INSERT INTO v VALUES (1, 'a', 5), (2, 'b', 5), (3, 'c', 5)")
    assert touched(db, "UPDATE v SET a = 'x' WHERE id = 1") == (0, 1, 0)
    assert touched(db, "DELETE FROM v WHERE id = 2") == (0, 0, 1)
    assert touched(db, "UPDATE v SET at = 9 WHERE id = 3") == (0, 1, 0)
    db.sql("INSERT INTO v VALUES (1, 'old', 4), (2, 'old', 4), (3, 'old', 8)")

    assert rows_in(store, "v") == [(1, "x", 5), (3, "c", 9)]
    with pytest.raises(ValueRangeError, match="'at' from 9 to 2"):
        db.sql("UPDATE v SET at = 2 WHERE id = 3")
    with pytest.raises(UnsupportedStatementError, match="version column"):
        db.sql("UPDATE v SET id = 4 WHERE id = 3")


def test_an_append_only_table_takes_inserts(db: Database, store: Store) -> None:
    """Statements that would change its rows are refused."""
    db.sql("CREATE TABLE a (id INT PRIMARY KEY) TBLPROPERTIES ('append_only' = 'true')")
    db.sql("INSERT INTO a VALUES (1)")
    merge = (
        "MERGE INTO a USING (VALUES (2)) s(k) ON id = k "
        "WHEN NOT MATCHED THEN INSERT (id) VALUES (k)"
    )
    assert touched(db, merge) == (1, 0, 0)

    for statement in (
        "UPDATE a SET id = 2",
        "DELETE FROM a",
        f"{merge} WHEN MATCHED THEN DELETE",
        "TRUNCATE TABLE a",
        "INSERT OVERWRITE a VALUES (3)",
        "INSERT INTO a VALUES (3), (2)",
        "INSERT INTO a VALUES (3), (3)",
    ):
        with pytest.raises(AppendOnlyError, match="append-only"):
            db.sql(statement)
    assert rows_in(store, "a") == [(1,), (2,)]


def test_no_update_is_lost_between_threads(db: Database, items: str, store: Store) -> None:
    """Threads of one database take turns; each statement reads what the one before wrote."""
    threads = [Thread(target=_count, args=(db, 3)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert store.table(items).get(1)["n"] == 10 + 9  # type: ignore[index]


def test_no_update_is_lost_between_databases(
    spark: SparkSession, db: Database, items: str, store: Store
) -> None:
    """Two databases run again after a conflict, or fail with a ConflictError."""
    threads = [
        Thread(target=_count, args=(relstate.connect(spark, store.path), 3)) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert store.table(items).get(1)["n"] == 10 + 9  # type: ignore[index]


def _count(db: Database, times: int) -> None:
    done = 0
    while done < times:
        try:
            db.sql("UPDATE items SET n = n + 1 WHERE id = 1")
            done += 1
        except ConflictError:
            continue


class _Rival:
    """Commits something between the read and the commit of a statement, a number of times."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, store: Store, times: int, change: Any
    ) -> None:
        self.tries = 0
        run = dml_run.DmlRunner._reports

        def written(*args: Any) -> Any:
            reports = run(*args)
            self.tries += 1
            if self.tries <= times:
                change(self.tries)
            return reports

        monkeypatch.setattr(dml_run.DmlRunner, "_reports", written)


@pytest.mark.parametrize(
    ("statement", "rival", "meets"),
    [
        ("UPDATE items SET n = n + 1 WHERE id = 1", (1, "z", 0), True),
        ("UPDATE items SET n = n + 1 WHERE id = 1", (2, "z", 0), False),
        ("UPDATE items SET n = 5 WHERE n > 15", (2, "z", 0), True),
        ("UPDATE items SET n = 5 WHERE n > 15", (1, "z", 99), True),
        ("UPDATE items SET n = 5 WHERE n > 15", (1, "z", 0), False),
        ("DELETE FROM items WHERE abs(n) > 15", (3, "z", 0), True),
        ("INSERT INTO items SELECT id, name, n FROM items WHERE id = 2", (2, "z", 0), True),
        (
            "INSERT INTO items SELECT 2, name, n FROM items VERSION AS OF 3 WHERE id = 1",
            (1, "z", 0),
            False,
        ),
        ("INSERT INTO items VALUES (2, 'mine', 0)", (2, "z", 0), False),
    ],
)
def test_a_statement_runs_again_if_what_it_read_was_changed(
    db: Database,
    items: str,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    statement: str,
    rival: tuple[Any, ...],
    meets: bool,
) -> None:
    """It runs again if a row that it read, or would have read, has changed; not for other rows."""

    def change(_: int) -> None:
        state = store.state_table(items)
        state.insert(rival)
        state.commit()

    rival_writer = _Rival(monkeypatch, store, 1, change)
    db.sql(statement)

    assert rival_writer.tries == (2 if meets else 1)


def test_a_key_that_was_free_must_still_be(
    db: Database, items: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that another writer inserted with the key is found when the statement runs again."""

    def change(_: int) -> None:
        state = store.state_table(items)
        state.insert([7, "rival", 0])
        state.commit()

    _Rival(monkeypatch, store, 1, change)
    with pytest.raises(DuplicateKeyError, match="key of an existing row"):
        db.sql("UPDATE items SET id = 7 WHERE id = 1")


def test_a_statement_gives_up_after_five_more_times(
    db: Database, items: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails with a ConflictError, and nothing of it is committed."""

    def change(number: int) -> None:
        state = store.state_table(items)
        state.insert([1, "rival", number])
        state.commit()

    rival_writer = _Rival(monkeypatch, store, 99, change)
    with pytest.raises(ConflictError, match="changed what was read"):
        db.sql("UPDATE items SET name = 'mine' WHERE id = 1")

    assert rival_writer.tries == 6
    assert store.table(items).get(1)["name"] == "rival"  # type: ignore[index]
