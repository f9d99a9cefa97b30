"""The laws of `apply_changes`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as f

from relstate.connector.sql import Database
from relstate.storage import Store
from relstate.storage.errors import (
    NullKeyError,
    NullValueError,
    OptionError,
    SchemaMismatchError,
)
from support.spark import jobs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DELETES = "op = 'D'"


@pytest.fixture
def users(db: Database) -> str:
    """The name of a table of users whose version column is ``at``."""
    db.sql(
        "CREATE TABLE users (id INT, name STRING, city STRING, at BIGINT, PRIMARY KEY (id)) "
        "TBLPROPERTIES ('version_column' = 'at')"
    )
    return "users"


def changes(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    """Return changes, each (id, name, sequence, op), each in a partition of its own."""
    return spark.createDataFrame(list(rows), "id INT, name STRING, seq INT, op STRING").repartition(
        3
    )


def apply(db: Database, source: DataFrame, **arguments: Any) -> Any:
    """Apply changes as `changes` returns them."""
    defaults = {"column_list": ["id", "name"], "apply_as_deletes": DELETES, **arguments}
    return db.apply_changes("users", source, ["id"], "seq", **defaults)


def users_in(store: Store) -> dict[int, tuple[Any, ...]]:
    """Return name and sequence of every user."""
    rows = store.table("users").to_arrow().to_pylist()
    return {row["id"]: (row["name"], row["at"]) for row in rows}


def test_the_greatest_sequence_counts(
    spark: SparkSession, db: Database, store: Store, users: str
) -> None:
    """It wins in whatever order the changes of a key arrive, in one batch and over batches."""
    before = store.epoch
    first = [(1, "b", 2, "U"), (1, "a", 1, "I"), (2, "x", 5, "I"), (2, None, 9, "D")]
    apply(db, changes(spark, *first, (3, "c", 1, "I")))
    assert users_in(store) == {1: ("b", 2), 3: ("c", 1)}
    assert store.epoch == before + 1

    apply(db, changes(spark, (1, "late", 1, "U"), (2, "late", 8, "U"), (3, "d", 7, "U")))
    assert users_in(store) == {1: ("b", 2), 3: ("d", 7)}
    apply(db, changes(spark, (2, "back", 10, "I"), (3, None, 7, "D")))
    assert users_in(store) == {1: ("b", 2), 2: ("back", 10)}


def test_a_delete_is_not_undone_by_what_arrives_late(
    spark: SparkSession, db: Database, store: Store, users: str
) -> None:
    """The delete hides older changes even after the files were compacted."""
    apply(db, changes(spark, (1, "a", 1, "I"), (2, "b", 1, "I")))
    apply(db, changes(spark, (1, None, 5, "D")))
    store.compact()
    apply(db, changes(spark, (1, "late", 4, "U")))
    store.compact()

    assert users_in(store) == {2: ("b", 1)}


@pytest.mark.parametrize("batches", [1, 2])
@pytest.mark.parametrize("order", ["UD", "DU"])
def test_a_delete_wins_over_a_change_of_the_same_sequence(
    spark: SparkSession, db: Database, store: Store, users: str, order: str, batches: int
) -> None:
    """Whichever comes first, in one batch or in two."""
    rows = [(1, "b" if operation == "U" else None, 5, operation) for operation in order]
    apply(db, changes(spark, (1, "a", 1, "I"), (2, "a", 1, "I")))
    for number in range(batches):
        apply(db, changes(spark, *(rows[number:][:1] if batches == 2 else rows)))
        store.compact()

    assert users_in(store) == {2: ("a", 1)}
    apply(db, changes(spark, (1, "back", 6, "U")))
    assert users_in(store) == {1: ("back", 6), 2: ("a", 1)}


def test_one_row_of_a_key_is_written(
    spark: SparkSession, db: Database, store: Store, users: str
) -> None:
    """A batch writes one row per key, however many changes of the key it has."""
    apply(db, changes(spark, *((1, str(number), number, "U") for number in range(50))))

    (segment,) = store.state.segments.values()
    assert segment.record.rows(store.read_plan(users).definition.table_id) == 1
    assert users_in(store) == {1: ("49", 49)}


def test_columns_are_chosen(spark: SparkSession, db: Database, store: Store, users: str) -> None:
    """The lists name the columns that are stored or left out, as text or as Column."""
    source = changes(spark, (1, "a", 1, "I")).withColumn("city", f.lit("Rome"))
    db.apply_changes(
        target="users",
        source=source,
        keys=[f.col("id")],
        sequence_by=f.col("seq") * 10,
        apply_as_deletes=f.col("op") == "D",
        except_column_list=[f.col("op"), "seq"],
    )
    assert tuple(store.table("users").get(1)) == (1, "a", "Rome", 10)  # type: ignore[arg-type]
    db.apply_changes("users", source, ["id"], "seq + 10", column_list=["id", "city"])
    assert tuple(store.table("users").get(1)) == (1, None, "Rome", 11)  # type: ignore[arg-type]


_ODD_NAMES = ["x.y", "x`y", "`x`", "`", "l`.`m", "null"]


@pytest.mark.parametrize(
    ("keys", "values"), [(_ODD_NAMES[:3], _ODD_NAMES[3:]), (_ODD_NAMES[3:], _ODD_NAMES[:3])]
)
def test_columns_may_have_any_names(
    spark: SparkSession, db: Database, store: Store, keys: list[str], values: list[str]
) -> None:
    """Keys, values and versions may have any names, as text or as Column."""
    quoted_keys, quoted_values = (
        ["`" + name.replace("`", "``") + "`" for name in names] for names in (keys, values)
    )
    key, value, version = ", ".join(quoted_keys), ", ".join(quoted_values), "`v``.w`"
    types = [f"{name} INT" for name in quoted_keys] + [f"{name} STRING" for name in quoted_values]
    db.sql(
        f"CREATE TABLE t ({', '.join(types)}, {version} BIGINT, PRIMARY KEY ({key})) "
        "TBLPROPERTIES ('version_column' = 'v`.w')"
    )

    def events(*rows: tuple[int, str, int, str]) -> DataFrame:
        lines = (
            f"({n}, {n}, {n}, '{text}', '{text}', '{text}', {sequence}L, '{operation}')"
            for n, text, sequence, operation in rows
        )
        names = f"({key}, {value}, {version}, op)"
        return spark.sql(f"SELECT * FROM VALUES {', '.join(lines)} AS q {names}")

    source = events((1, "a", 2, "u"), (1, "old", 1, "u"), (2, "b", 1, "d"), (3, "c", 1, "u"))
    db.apply_changes("t", source, keys, version, "op = 'd'", except_column_list=["op"])
    later = events((3, "late", 0, "u"), (4, "d", 1, "u"))
    columns = [f.col(name) for name in (*quoted_values, version)]
    key_columns = [f.col(name) for name in quoted_keys]
    db.apply_changes("t", later, key_columns, f.col(version), column_list=columns)

    rows = (tuple(row.values()) for row in store.table("t").to_arrow().to_pylist())
    assert {(*set(row[:3]), *set(row[3:6]), row[6]) for row in rows} == {
        (1, "a", 2),
        (3, "c", 1),
        (4, "d", 1),
    }


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"stored_as_scd_type": 3}, OptionError, "pass 1 for the current rows, or 2"),
        ({"track_history_column_list": ["name"]}, OptionError, "pass 1 for the current rows, or 2"),
        ({"apply_as_truncates": "op = 'T'"}, OptionError, "TRUNCATE TABLE"),
        ({"except_column_list": ["op"]}, OptionError, "not both"),
        ({"column_list": ["id", "nothing"]}, SchemaMismatchError, "no column 'nothing'"),
        (
            {"column_list": ["id", "op"]},
            SchemaMismatchError,
            "columns that the table does not have: op",
        ),
        ({"checkpoint": None, "keys": ["name"]}, OptionError, "those of the table 'users' are id"),
        ({"checkpoint": "/tmp/x"}, OptionError, "the source is a batch"),
        ({"keys": "id"}, OptionError, r"keys is 'id': pass a list, \['id'\]"),
        ({"column_list": "id"}, OptionError, "column_list is 'id': pass a list"),
        ({"sequence_by": "sq"}, OptionError, "sequence_by is 'sq': .*`sq` cannot be resolved"),
        ({"sequence_by": None}, OptionError, "sequence_by is None: pass an expression"),
        ({"apply_as_deletes": "opp = 'D'"}, OptionError, "apply_as_deletes .*`opp` cannot be"),
        ({"apply_as_deletes": "op = "}, OptionError, "apply_as_deletes is 'op = ': .*end of input"),
        ({"apply_as_deletes": "op"}, OptionError, "is 'op', of type string: pass a condition"),
        (
            {"stored_as_scd_type": 2, "apply_as_deletes": "opp = 'D'"},
            OptionError,
            "apply_as_deletes is .*`opp`",
        ),
        (
            {"stored_as_scd_type": 2, "track_history_except_column_list": "name"},
            OptionError,
            "track_history_except_column_list is 'name': pass a list",
        ),
    ],
)
def test_arguments_that_do_not_fit_are_refused(
    spark: SparkSession,
    db: Database,
    users: str,
    arguments: dict[str, Any],
    error: type[Exception],
    text: str,
) -> None:
    """Nothing is written, and the error says what to do."""
    defaults = {"column_list": ["id", "name"], "keys": ["id"], "sequence_by": "seq", **arguments}

    with pytest.raises(error, match=text):
        db.apply_changes("users", changes(spark, (1, "a", 1, "I")), **defaults)


def test_a_change_feed_is_told_how_to_be_applied(
    spark: SparkSession, db: Database, users: str
) -> None:
    """Its preimages have the version of their postimages, so that either could remain."""
    feed = spark.sql("SELECT 1 AS id, 'a' AS name, 'insert' AS _change_type, 5 AS _commit_version")

    with pytest.raises(SchemaMismatchError, match="leave out its preimages"):
        db.apply_changes("users", feed, ["id"], "_commit_version")


def test_a_table_without_a_version_column_is_refused(spark: SparkSession, db: Database) -> None:
    """In such a table a late change cannot be distinguished from a new one."""
    db.sql("CREATE TABLE users (id INT PRIMARY KEY, name STRING)")

    with pytest.raises(OptionError, match="create it with a version_column"):
        apply(db, changes(spark, (1, "a", 1, "I")))


def test_a_change_needs_a_sequence_and_a_key(
    spark: SparkSession, db: Database, store: Store, users: str
) -> None:
    """A change without one is an error; it is not left out in silence."""
    with pytest.raises(NullValueError, match="sequence_by is NULL"):
        apply(db, changes(spark, (1, "a", None, "I")))
    with pytest.raises(NullKeyError):
        apply(db, changes(spark, (None, "a", 1, "I")))
    assert users_in(store) == {}


def test_a_batch_may_be_applied_once(
    spark: SparkSession, db: Database, store: Store, users: str
) -> None:
    """A job that runs again under its name and number changes nothing."""
    source = changes(spark, (1, "a", 1, "I"))
    apply(db, source, txn_app_id="job", txn_version=1)
    epoch = store.epoch
    apply(db, source, txn_app_id="job", txn_version=1)

    assert store.epoch == epoch


def test_a_stream_needs_a_checkpoint(spark: SparkSession, db: Database, users: str) -> None:
    """Without a checkpoint the query could not know what it has applied."""
    stream = spark.readStream.format("rate").load().selectExpr("CAST(value AS INT) AS id")

    with pytest.raises(OptionError, match="checkpoint"):
        db.apply_changes("users", stream, ["id"], "id")


@pytest.mark.parametrize(
    "rows",
    [
        "(1, 'a', 1L, 'I'), (2, 'b', 1L, 'I'), (1, 'c', 3L, 'U'), (1, 'late', 2L, 'U')",
        "(1, 'a', 2L, 'D'), (1, 'b', 2L, 'U'), (3, NULL, 5L, NULL), (3, 'x', 5L, 'D')",
        "(1, 'a', -1L, 'I'), (1, 'b', -5L, 'U'), (2, 'x', NULL, 'I')",
        "(NULL, 'a', 1L, 'I')",
    ],
)
def test_changes_that_the_driver_has_are_applied_without_a_job(
    spark: SparkSession, db: Database, store: Store, rows: str
) -> None:
    """With the same result, or the same error, as the tasks of a job."""
    source = spark.sql(f"SELECT * FROM VALUES {rows} t(id, name, seq, op)")
    outcomes = []
    for name, frame in (("users", source), ("others", source.repartition(3))):
        store.create_table(
            name, "id INT, name STRING, at INT", primary_key=["id"], version_column="at"
        )
        before: Any = jobs(spark)
        arguments = {"column_list": ["id", "name"], "apply_as_deletes": DELETES}
        try:
            db.apply_changes(name, frame, ["id"], "seq", **arguments)  # type: ignore[arg-type]
            error = None
        except (NullKeyError, NullValueError) as raised:
            error = type(raised)
        assert name != "users" or jobs(spark) == before
        outcomes.append((error, sorted(map(repr, store.table(name).to_arrow().to_pylist()))))

    assert outcomes[0] == outcomes[1]


def test_a_batch_of_the_driver_is_applied_once(
    spark: SparkSession, db: Database, store: Store, users: str
) -> None:
    """As the same batch is by a job, whichever comes first."""
    source = spark.sql("SELECT 1 AS id, 'a' AS name, 1L AS seq, 'I' AS op")
    for frame in (source, source.repartition(2), source):
        apply(db, frame, txn_app_id="feed", txn_version=4)
    apply(db, source.withColumn("seq", f.lit(9)), txn_app_id="feed", txn_version=5)

    assert users_in(store) == {1: ("a", 9)}


def test_a_stream_of_three_changes_runs_few_tasks(
    spark: SparkSession, db: Database, store: Store, users: str, tmp_path: Path
) -> None:
    """The shuffle fits the data, under Spark's 200 partitions."""
    (tmp_path / "in").mkdir()
    lines = ['{"id": 1, "name": "a", "seq": 1, "op": "I"}'] * 3
    (tmp_path / "in" / "one.json").write_text("\n".join(lines))
    source = spark.readStream.schema("id INT, name STRING, seq INT, op STRING")
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    adaptive = spark.conf.get("spark.sql.adaptive.enabled")
    spark.conf.set("spark.sql.shuffle.partitions", "200")
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    before = jobs(spark)
    try:
        query = apply(
            db,
            source.json(str(tmp_path / "in")),
            checkpoint=str(tmp_path / "checkpoint"),
            trigger={"availableNow": True},
            query_name="three",
        )
        query.awaitTermination()
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
        spark.conf.set("spark.sql.adaptive.enabled", str(adaptive))
    tracker = spark.sparkContext.statusTracker()
    ran = set(tracker.getJobIdsForGroup(str(query.runId))) - before
    stages = [tracker.getStageInfo(s) for job in ran for s in tracker.getJobInfo(job).stageIds]  # type: ignore[union-attr]

    assert users_in(store) == {1: ("a", 1)}
    assert 0 < sum(stage.numCompletedTasks for stage in stages if stage is not None) <= 8
