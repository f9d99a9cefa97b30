"""The laws of INSERT, UPDATE, DELETE, MERGE and TRUNCATE, through Spark over real files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, ArithmeticException, PySparkException

from relstate.connector.sql import Database, dml_run
from relstate.storage import Store
from relstate.storage.errors import (
    AppendOnlyError,
    DuplicateKeyError,
    NullValueError,
    SchemaMismatchError,
    TableNotFoundError,
    UnsupportedStatementError,
    ValueRangeError,
)
from support.spark import count_changes, sorted_rows

if TYPE_CHECKING:
    pass


def test_rows_are_inserted(db: Database, items: str, store: Store) -> None:
    """By position, by name, for some columns; an existing key gets the new row."""
    assert count_changes(db, "INSERT INTO items VALUES (4, 'd', 1 + 1)") == (1, 0, 0)
    insert = "INSERT INTO items (name, id) SELECT concat('x', id), id FROM items"
    assert count_changes(db, insert) == (0, 4, 0)
    assert count_changes(db, "INSERT INTO items BY NAME SELECT 'y' AS name, 9L AS id") == (1, 0, 0)

    expected = [(1, "x1", None), (2, "x2", None), (3, "x3", None), (4, "x4", None), (9, "y", None)]
    assert sorted_rows(store, items) == expected


def test_an_insert_counts_keys(db: Database, items: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rows of one key count as one, an existing key as an update; unknown counts are NULL."""
    assert count_changes(db, "INSERT INTO items VALUES (7, 'x', 1), (7, 'y', 2)") == (1, 0, 0)
    assert count_changes(db, "INSERT INTO items VALUES (7, 'z', 1), (8, 'y', 2)") == (1, 1, 0)
    db.sql("DELETE FROM items WHERE id = 8")
    assert count_changes(db, "INSERT INTO items VALUES (8, 'z', 1)") == (1, 0, 0)
    db.sql("CREATE TABLE firsts (id INT PRIMARY KEY, n INT) TBLPROPERTIES ('merge' = 'ignore')")
    db.sql("INSERT INTO firsts VALUES (1, 1)")
    (row,) = db.sql("INSERT INTO firsts VALUES (1, 2)").collect()
    assert tuple(row)[1:] == (0, 0, 0, 0)
    db.sql("CREATE TABLE v (id INT PRIMARY KEY, n INT) TBLPROPERTIES ('version_column' = 'n')")
    (row,) = db.sql("INSERT INTO v VALUES (1, 1)").collect()
    assert tuple(row)[1:] == (None, None, None, 0)

    monkeypatch.setattr(dml_run, "MOST_COUNTED", 1)
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
    assert {row[2] for row in sorted_rows(store, items)} == {None, 20}
    with pytest.raises(NullValueError):
        db.sql("UPDATE items SET name = DEFAULT")


def test_an_insert_replaces_all_rows(db: Database, items: str, store: Store) -> None:
    """INSERT OVERWRITE may read the rows it replaces, and may have no rows."""
    overwrite = "INSERT OVERWRITE items SELECT id + 5, name, 0 FROM items WHERE id > 1"
    assert count_changes(db, overwrite) == (2, 0, 3)
    assert sorted_rows(store, items) == [(7, "b", 0), (8, "c", 0)]

    db.sql("INSERT OVERWRITE TABLE items SELECT * FROM items WHERE false")
    assert sorted_rows(store, items) == []


def test_rows_are_updated(db: Database, items: str, store: Store) -> None:
    """Values and conditions may use the old row and other tables."""
    update = "UPDATE items SET n = coalesce(n, 0) + 1, name = upper(name)"
    assert count_changes(db, update) == (0, 3, 0)
    assert sorted_rows(store, items) == [(1, "A", 11), (2, "B", 21), (3, "C", 1)]

    update = """
        UPDATE items AS i SET i.n = (SELECT max(n) FROM items)
        WHERE i.id IN (SELECT o.id FROM items o WHERE o.n < 20) AND i.name <> 'C'
    """
    assert count_changes(db, update) == (0, 1, 0)
    assert sorted_rows(store, items) == [(1, "A", 21), (2, "B", 21), (3, "C", 1)]
    assert count_changes(db, "UPDATE items SET n = 0 WHERE id = 99") == (0, 0, 0)


def test_rows_are_deleted(db: Database, items: str, store: Store) -> None:
    """DELETE removes the rows for which the condition is true; without one, all rows."""
    assert count_changes(db, "DELETE FROM items WHERE n > 10") == (0, 0, 1)
    assert sorted_rows(store, items) == [(1, "a", 10), (3, "c", None)]
    delete = "DELETE FROM items x WHERE EXISTS (SELECT 1 FROM items y WHERE y.id > x.id)"
    assert count_changes(db, delete) == (0, 0, 1)
    assert count_changes(db, "DELETE FROM items") == (0, 0, 1)
    assert sorted_rows(store, items) == []


def test_a_table_is_truncated(db: Database, items: str, store: Store) -> None:
    """TRUNCATE does not count the rows."""
    (row,) = db.sql("TRUNCATE TABLE items").collect()

    assert tuple(row) == (store.epoch, None, None, None, None)
    assert sorted_rows(store, items) == []


_ODD_NAMES = ["x.y", "x`y", "`", "l`.`m", "a b", "null", "*", "new\nline"]


@pytest.mark.parametrize(
    ("keys", "values"), [(_ODD_NAMES[:4], _ODD_NAMES[4:]), (_ODD_NAMES[4:], _ODD_NAMES[:4])]
)
def test_columns_may_have_any_names(
    db: Database, store: Store, keys: list[str], values: list[str]
) -> None:
    """Quoted names are never confused with fields of a struct."""

    def joined(names: list[str], template: str, separator: str = ", ") -> str:
        quoted = ("`" + name.replace("`", "``") + "`" for name in names)
        return separator.join(template.replace("@", name) for name in quoted)

    def rows(*pairs: tuple[int, int], between: str = "") -> str:
        """Return rows in which all key columns have one value, and all others another."""
        return ", ".join(
            f"({', '.join([str(key)] * 4)}, {between} {', '.join([str(value)] * 4)})"
            for key, value in pairs
        )

    key, value = joined(keys, "@"), joined(values, "@")
    db.sql(
        f"CREATE TABLE t ({joined(keys, '@ INT')}, x STRUCT<y: INT>, {joined(values, '@ INT')}, "
        f"PRIMARY KEY ({key}))"
    )
    db.sql(f"INSERT INTO t VALUES {rows((1, 10), (2, 20), (3, 30), between='struct(0),')}")
    db.sql(f"INSERT INTO t ({value}, {key}) VALUES {rows((40, 4))}")
    db.sql(f"INSERT INTO t BY NAME SELECT {joined(keys, '5 AS @')}, {joined(values, '50 AS @')}")
    db.sql(f"UPDATE t SET {joined(values, '@ = t.@ + 1')} WHERE {joined(keys, '@ = 1', ' AND ')}")
    db.sql(f"UPDATE t SET {joined(keys, '@ = @ + 5')} WHERE {joined(values, 't.@ = 20', ' AND ')}")
    db.sql(f"DELETE FROM t WHERE {joined(values, '@ = 30', ' AND ')}")
    source = f"(SELECT * FROM VALUES {rows((4, 41), (6, 60), (8, 80))} AS v ({key}, {value}))"
    db.sql(
        f"MERGE INTO t USING {source} s ON {joined(keys, 't.@ = s.@', ' AND ')} "
        f"WHEN MATCHED THEN UPDATE SET {joined(values, '@ = s.@')} "
        f"WHEN NOT MATCHED AND {joined(values, '@ < 70', ' AND ')} "
        f"THEN INSERT ({key}, {value}) VALUES ({key}, {value}) "
        f"WHEN NOT MATCHED THEN INSERT ({key}, {value}) VALUES ({joined(keys, 's.@')}, 0, 0, 0, 0) "
        f"WHEN NOT MATCHED BY SOURCE AND {joined(values, '@ = 50', ' AND ')} THEN DELETE"
    )

    stored = {(*set(row[:4]), *set(row[5:])) for row in sorted_rows(store, "t")}
    assert stored == {(1, 11), (4, 41), (6, 60), (7, 20), (8, 0)}
    assert store.table("t").get(1, 1, 1, 1)["x"] == {"y": 0}  # type: ignore[index]


def test_rows_move_to_other_keys(db: Database, items: str, store: Store) -> None:
    """Rows may exchange their keys, but none gets the key of a row that stays."""
    assert count_changes(db, "UPDATE items SET id = 3 - id WHERE id < 3") == (0, 2, 0)
    assert sorted_rows(store, items) == [(1, "b", 20), (2, "a", 10), (3, "c", None)]
    assert count_changes(db, "UPDATE items SET id = id + 1") == (0, 3, 0)
    assert sorted_rows(store, items) == [(2, "b", 20), (3, "a", 10), (4, "c", None)]

    before = store.epoch
    with pytest.raises(DuplicateKeyError, match=r"id = 3.*is the key of an existing row"):
        db.sql("UPDATE items SET id = 3 WHERE id = 2")
    with pytest.raises(DuplicateKeyError, match=r"id = 7.*the key of two rows"):
        db.sql("UPDATE items SET id = 7")
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
        assert count_changes(db, f"UPDATE {table} SET a = NULL, b = 7 WHERE id = 1") == (0, 1, 0)

    assert sorted_rows(store, "p") == [(1, None, 7), (2, 3, 2)]
    assert sorted_rows(store, "i") == [(1, None, 7), (2, 2, 2)]


def test_a_version_stays_in_force(db: Database, store: Store) -> None:
    """A change without a version keeps the row's version, so older changes stay without effect."""
    db.sql(
        "CREATE TABLE v (id INT PRIMARY KEY, a STRING, at BIGINT) "
        "TBLPROPERTIES ('version_column' = 'at')"
    )
    db.sql("INSERT INTO v VALUES (1, 'a', 5), (2, 'b', 5), (3, 'c', 5)")
    assert count_changes(db, "UPDATE v SET a = 'x' WHERE id = 1") == (0, 1, 0)
    assert count_changes(db, "DELETE FROM v WHERE id = 2") == (0, 0, 1)
    assert count_changes(db, "UPDATE v SET at = 9 WHERE id = 3") == (0, 1, 0)
    db.sql("INSERT INTO v VALUES (1, 'old', 4), (2, 'old', 4), (3, 'old', 8)")

    assert sorted_rows(store, "v") == [(1, "x", 5), (3, "c", 9)]
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
    assert count_changes(db, merge) == (1, 0, 0)

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
    assert sorted_rows(store, "a") == [(1,), (2,)]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE items SET n = 1 WHERE n = (SELECT 1 / (max(n) - max(n)) FROM items)",
        "DELETE FROM items WHERE n = (SELECT 1 / (max(n) - max(n)) FROM items)",
        "DELETE FROM items WHERE id IN (SELECT 1 / (n - n) FROM items)",
        "UPDATE items SET n = n / (n - n)",
        "INSERT INTO items SELECT id, name, 1 / (n - n) FROM items",
        "CREATE TABLE t AS SELECT id, 1 / (n - n) AS x FROM items",
    ],
)
def test_what_fails_in_a_statement_is_raised_as_itself(
    db: Database, items: str, statement: str
) -> None:
    """Also in a subquery: in its class, with its sentence, without the query and the stack."""
    with pytest.raises(ArithmeticException) as failure:
        db.sql(statement)
    text = str(failure.value)
    assert text.startswith("[DIVIDE_BY_ZERO] Division by zero")
    assert "\n" not in text


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE items SET n = 1 WHERE n > (SELECT n FROM items)",
        "DELETE FROM items WHERE n > (SELECT n FROM items)",
        "INSERT INTO items SELECT id, name, (SELECT n FROM items) FROM items",
    ],
)
def test_what_pyspark_does_not_know_is_raised_by_its_condition(
    db: Database, items: str, statement: str
) -> None:
    """PySpark has no class for a subquery of two rows: the sentence comes without stacks."""
    with pytest.raises(PySparkException, match="More than one row returned") as failure:
        db.sql(statement)
    assert failure.value.getCondition() == "SCALAR_SUBQUERY_TOO_MANY_ROWS"
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize(
    ("statement", "quoted"),
    [
        ("UPDATE items SET n = 1 WHERE n ==== 2", "cannot read 'n ==== 2'"),
        ("DELETE FROM items WHERE n ==== 2", "cannot read 'n ==== 2'"),
        ("MERGE INTO items t USING items s ON t.id = s.id WHEN MATCHED AND 1 1 THEN DELETE",
         "cannot read '1 1'"),
        ("UPDATE items SET n = cuont(n)", "did you mean count"),
        ("DELETE FROM items WHERE n = array(1)", "DATATYPE_MISMATCH"),
        ("INSERT INTO items SELECT id, name, n + array(1) FROM items", "DATATYPE_MISMATCH"),
    ],
)  # fmt: skip
def test_an_error_of_a_statement_quotes_what_the_user_wrote(
    db: Database, items: str, statement: str, quoted: str
) -> None:
    """Neither the query by which Spark computes the changes, nor places in it."""
    with pytest.raises((UnsupportedStatementError, AnalysisException)) as refusal:
        db.sql(statement)
    text = str(refusal.value)
    assert quoted in text
    assert "__relstate" not in text
    assert "line 1 pos" not in text
