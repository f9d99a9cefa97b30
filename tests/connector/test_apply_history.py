"""The laws of `apply_changes` with the history of every key: SCD type 2."""

from __future__ import annotations

import pickle
import random
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession

from relstate.connector.failure import unwrap_errors
from relstate.connector.sql import Database
from relstate.connector.sql.batch_refresh import BatchRefresh
from relstate.storage import Store
from relstate.storage.errors import NullValueError, OptionError, SchemaMismatchError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Change = tuple[int, str | None, str | None, int, str]
State = tuple[int, str | None, str | None, int, int | None]

SCHEMA = "id INT, name STRING, city STRING, seq INT, op STRING"


def frame(spark: SparkSession, changes: list[Change]) -> DataFrame:
    """Return changes as a DataFrame."""
    return spark.createDataFrame(changes, SCHEMA).coalesce(1)


def apply(db: Database, target: str, source: DataFrame, **arguments: Any) -> Any:
    """Apply changes of `SCHEMA` to the history of a target."""
    return db.apply_changes(
        target,
        source,
        ["id"],
        "seq",
        apply_as_deletes="op = 'D'",
        except_column_list=["seq", "op"],
        stored_as_scd_type=2,
        **arguments,
    )


def states(store: Store, target: str) -> list[State]:
    """Return the history of a target in a fixed order."""
    names = ["id", "name", "city", "__START_AT", "__END_AT"]
    rows = store.table(target).to_dicts(names)
    return sorted((tuple(row[name] for name in names) for row in rows), key=str)


def model(changes: list[Change], tracked: tuple[int, ...]) -> list[State]:
    """Return the history that changes, applied in their order, have; ``tracked``: positions."""
    history: list[State] = []
    in_order = sorted(changes, key=lambda change: (change[0], change[3], change[4] == "D"))
    for _, group in groupby(in_order, key=lambda change: change[0]):
        current: State | None = None
        for key, name, city, sequence, op in group:
            row = (key, name, city)
            if op != "D" and current and all(current[i] == row[i] for i in tracked):
                current = (*row, current[3], None)
                continue
            if current and current[3] < sequence:
                history.append((*current[:4], sequence))
            current = None if op == "D" else (*row, sequence, None)
        if current:
            history.append(current)
    return sorted(history, key=str)


def some_changes(seed: int) -> list[Change]:
    """Return changes of three keys, each sequence of a key once, or with a delete beside it."""
    generator = random.Random(seed)
    changes: list[Change] = []
    for key in range(3):
        for sequence in generator.sample(range(20), 8):
            row = generator.choice("ab"), generator.choice(["x", "y", None])
            kinds = generator.choice([["U"], ["U"], ["U"], ["D"], ["U", "D"]])
            for op in kinds:
                values = row if op == "U" else (None, None)
                changes.append((key, *values, sequence, op))
    return changes


@pytest.mark.parametrize(("tracked", "positions"), [(None, (1, 2)), (["name"], (1,))])
def test_the_history_is_the_same_in_any_order(
    spark: SparkSession,
    db: Database,
    store: Store,
    tracked: list[str] | None,
    positions: tuple[int, ...],
) -> None:
    """Late, repeated and split over batches: the table is that of the changes in order."""
    for seed in range(3):
        changes = some_changes(seed)
        expected = model(changes, positions)
        generator = random.Random(seed)
        generator.shuffle(changes)
        cut = generator.randrange(1, len(changes))
        target = f"users{seed}"
        for part in (changes[:cut], changes[cut - 1 :]):
            apply(db, target, frame(spark, part), track_history_column_list=tracked)
        assert states(store, target) == expected, seed


def test_a_state_has_a_beginning_and_an_end(
    spark: SparkSession, db: Database, store: Store
) -> None:
    """What did not change begins no state; what a list leaves out is replaced in its state."""
    changes: list[Change] = [
        (1, "Ann", "Rome", 1, "I"),
        (1, "Ann", "Rome", 2, "U"),
        (1, "Ann", "Oslo", 3, "U"),
        (1, "Anna", "Oslo", 4, "U"),
        (1, None, None, 6, "D"),
        (1, "Ann", "Bonn", 8, "I"),
    ]
    apply(db, "users", frame(spark, changes))
    assert states(store, "users") == [
        (1, "Ann", "Bonn", 8, None),
        (1, "Ann", "Oslo", 3, 4),
        (1, "Ann", "Rome", 1, 3),
        (1, "Anna", "Oslo", 4, 6),
    ]
    apply(db, "names", frame(spark, changes), track_history_except_column_list=["CITY"])
    assert states(store, "names") == [
        (1, "Ann", "Bonn", 8, None),
        (1, "Ann", "Oslo", 1, 4),
        (1, "Anna", "Oslo", 4, 6),
    ]


def test_a_stream_is_applied_once(
    spark: SparkSession, db: Database, store: Store, tmp_path: Path
) -> None:
    """Over restarts, and after a micro-batch that is repeated; the view follows each of them."""
    changes = some_changes(7)
    checkpoint = tmp_path / "checkpoint"

    def run(part: list[Change], number: int) -> None:
        frame(spark, part).write.json(str(tmp_path / "events" / str(number)))
        source = spark.readStream.schema(SCHEMA).json(str(tmp_path / "events" / "*"))
        trigger = {"availableNow": True}
        query = apply(db, "users", source, checkpoint=str(checkpoint), trigger=trigger)
        query.awaitTermination()
        assert query.exception() is None

    run(changes[10:], 0)
    assert states(store, "users") == model(changes[10:], (1, 2))
    (checkpoint / "commits" / "0").unlink()
    (checkpoint / "commits" / ".0.crc").unlink()
    run(changes[:10], 1)
    assert states(store, "users") == model(changes, (1, 2))


def test_micro_batches_share_a_store_and_a_session(
    spark: SparkSession, db: Database, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are; also where the writer was pickled, as for Spark Connect."""
    opened: list[str] = []
    sessions: list[SparkSession] = []
    open_store, new_session = Store.open, SparkSession.newSession

    def counted_open(path: str, **arguments: Any) -> Store:
        opened.append(path)
        return open_store(path, **arguments)

    def counted_session(session: SparkSession) -> SparkSession:
        sessions.append(session)
        return new_session(session)

    apply(db, "users", frame(spark, [(1, "a", None, 0, "I")]))
    monkeypatch.setattr(Store, "open", counted_open)
    monkeypatch.setattr(SparkSession, "newSession", counted_session)
    for number in range(1, 4):
        rows = frame(spark, [(1, str(number), None, number, "U")])
        rows.coalesce(1).write.json(str(tmp_path / "events" / str(number)))
    source = (
        spark.readStream.schema(SCHEMA)
        .option("maxFilesPerTrigger", 1)
        .json(str(tmp_path / "events" / "*"))
    )
    query = apply(
        db, "users", source, checkpoint=str(tmp_path / "c"), trigger={"availableNow": True}
    )
    query.awaitTermination()

    assert sorted(row[3] for row in states(store, "users")) == [0, 1, 2, 3]
    assert (opened, sessions) == ([], [])

    refresh = pickle.loads(pickle.dumps(BatchRefresh(store.path, "users")))
    for number in range(4, 7):
        row = (1, str(number), None, number, "U")
        apply(db, "users", frame(spark, [row]))
        refresh(spark)
    assert len(opened) == 1
    assert len(sessions) <= 1


def test_a_batch_is_applied_once(spark: SparkSession, db: Database, store: Store) -> None:
    """The version names it among the batches of its application."""
    apply(db, "users", frame(spark, [(1, "a", None, 1, "I")]), txn_app_id="import", txn_version=3)
    apply(db, "users", frame(spark, [(1, "b", None, 2, "U")]), txn_app_id="import", txn_version=3)

    assert states(store, "users") == [(1, "a", None, 1, None)]


def test_arguments_that_do_not_fit_are_refused(
    spark: SparkSession, db: Database, store: Store
) -> None:
    """Before anything is created; a view is not taken for the history of other columns."""
    source = frame(spark, [(1, "a", "x", 1, "I")])
    db.sql("CREATE TABLE plain (id INT, name STRING, PRIMARY KEY (id))")
    epoch = store.epoch
    both = {"track_history_column_list": ["name"], "track_history_except_column_list": ["city"]}

    for target, arguments, error, text in (
        ("plain", {}, OptionError, "'plain' is a table"),
        ("users", both, OptionError, "but not both"),
        ("users", {"track_history_column_list": ["nam"]}, SchemaMismatchError, "'nam'"),
        ("users", {"apply_as_truncates": "op = 'T'"}, OptionError, "TRUNCATE TABLE"),
    ):
        with pytest.raises(error, match=text):
            apply(db, target, source, **arguments)
    for column, text in (
        ("name AS __END_AT", "'__END_AT'"),
        ("map(1, 2) AS m", "does not compare"),
    ):
        with pytest.raises(OptionError, match=text):
            apply(db, "users", source.selectExpr("id", column, "seq", "op"))
    assert store.epoch == epoch

    apply(db, "users", source)
    with pytest.raises(OptionError, match="DROP MATERIALIZED VIEW users"):
        apply(db, "users", source, track_history_column_list=["name"])
    with pytest.raises(NullValueError, match="sequence_by"), unwrap_errors():
        apply(db, "users", source.selectExpr("id", "name", "city", "NULL + seq AS seq", "op"))
