"""ALTER TABLE … RECOVER QUARANTINE: mended rows go to their table and leave the quarantine."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from relstate.connector.sink.write import WriteJob
from relstate.connector.sql.recovery import Recovery, recover_quarantine
from relstate.storage import Store
from relstate.storage.errors import (
    ConflictError,
    TableNotFoundError,
    UnsupportedExpressionError,
    UnsupportedStatementError,
)
from support.spark import save, sorted_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from relstate.connector.sql import Database

Q = "t__quarantine"


@pytest.fixture
def table(store: Store) -> Store:
    """A store with a table with rules."""
    store.create_table(
        "t",
        "k INT, v INT, d DECIMAL(6,2), at TIMESTAMP, tags ARRAY<STRING>",
        primary_key=["k"],
        constraints={"positive": "v > 0"},
    )
    store.jobs.quarantine_target("t")
    return store


def _set_aside(store: Store, *rows: dict[str, Any] | str, **options: Any) -> None:
    """Put rows into the quarantine, as a write with some options does."""
    count = store.table(Q).count()
    store.write(
        Q,
        [
            {
                "id": f"w/0/0/{count + number:05}",
                "row_json": row if isinstance(row, str) else json.dumps(row),
                "rule": "?",
                "reason": "?",
                "write_options": json.dumps(options) if options else None,
                "written_at": datetime(2026, 1, 1, tzinfo=UTC),
            }
            for number, row in enumerate(rows)
        ],
    )


def _rules(store: Store) -> list[tuple[str, str]]:
    rows = store.table(Q).to_dicts()
    return [(row["rule"], row["reason"]) for row in rows]


def test_the_rows_that_fit_go_and_the_others_stay(table: Store) -> None:
    """In one epoch; the reasons of those that stay are those of now. Again, nothing happens."""
    _set_aside(table, {"k": 1, "v": 1}, {"k": 2, "v": -2}, {"k": None, "v": 3}, "[1]", "{")
    epoch = table.epoch

    assert recover_quarantine(table, "T") == Recovery(epoch + 1, 1, 4)
    assert sorted_rows(table, "t") == [(1, 1, None, None, None)]
    assert [rule for rule, _ in _rules(table)] == ["positive", "k", "row_json", "row_json"]
    assert _rules(table)[2][1] == "row_json is not a JSON object: it is [1]"
    assert recover_quarantine(table, "t") == Recovery(epoch + 1, 0, 4)
    table.drop_constraint("t", "positive")
    assert recover_quarantine(table, "t", "rule = 'positive'") == Recovery(epoch + 3, 1, 0)
    assert len(_rules(table)) == 3
    assert next(table.history()).operation == "recover quarantine"


def test_values_are_read_back_as_they_were(spark: SparkSession, table: Store) -> None:
    """Whatever the type, a row that was set aside for another reason comes back whole."""
    frame = spark.sql(
        "SELECT 1 AS k, -1L AS v, 12.50BD AS d, timestamp'2026-03-01 10:00:00.5Z' AS at, "
        "array('a', NULL) AS tags"
    )
    save(frame, table, "t", badRows="quarantine")
    table.drop_constraint("t", "positive")
    recover_quarantine(table, "t")
    save(frame.withColumn("k", frame.k + 1), table, "t")

    first, second = table.table("t").to_dicts()
    assert second == first | {"k": 2}
    assert table.table(Q).count() == 0


def test_the_last_row_of_a_key_wins(table: Store) -> None:
    """Rows are written in the order in which they were set aside."""
    _set_aside(table, *({"k": 1, "v": number} for number in range(1, 30)))
    recover_quarantine(table, "t")
    assert sorted_rows(table, "t") == [(1, 29, None, None, None)]


def test_an_older_version_does_not_win(store: Store) -> None:
    """In a table with a version column, rows of the quarantine merge as any others."""
    store.create_table("t", "k INT, v INT, n INT", primary_key=["k"], version_column="n")
    store.jobs.quarantine_target("t")
    store.write("t", [{"k": 1, "v": 5, "n": 5}])
    _set_aside(store, {"k": 1, "v": 4, "n": 4}, {"k": 2, "v": 4, "n": 4}, {"k": 3, "v": 1})

    assert recover_quarantine(store, "t").recovered == 2
    assert sorted_rows(store, "t") == [(1, 5, 5), (2, 4, 4)]
    ((rule, reason),) = _rules(store)
    assert rule == "row_json"
    assert "version column 'n' is missing" in reason


def test_changes_keep_their_operation_and_life(table: Store) -> None:
    """Deletes delete, unknown operations stay, and the TTL counts from now."""
    table.write("t", [{"k": 1, "v": 1}, {"k": 2, "v": 2}])
    _set_aside(
        table,
        {"k": 1, "v": None, "OP": "d", "life": None},
        {"k": 2, "v": 3, "OP": "what", "life": 60},
        {"k": 3, "v": 3, "OP": "c", "life": 60},
        {"k": 4, "v": 3, "OP": "c", "life": 0},
        opColumn="OP",
        ttlColumn="life",
    )
    assert recover_quarantine(table, "t").recovered == 2
    assert sorted_rows(table, "t") == [(2, 2, None, None, None), (3, 3, None, None, None)]
    assert 0 < (table.table("t").ttl(3) or 0) <= 60
    assert [rule for rule, _ in _rules(table)] == ["OP", "ttl"]


def test_a_column_that_is_gone_keeps_its_rows(table: Store) -> None:
    """Nothing of a row is lost in silence; a new name is mended in the JSON."""
    _set_aside(table, {"k": 1, "v": 1}, {"k": 2})
    table.drop_constraint("t", "positive")
    table.rename_column("t", "v", "w")

    assert recover_quarantine(table, "t").recovered == 1
    ((_, reason),) = _rules(table)
    assert reason == "the table has no column 'v' any more: change row_json, or add the column"


def test_rows_without_a_key_come_back_once(store: Store) -> None:
    """Each row that was set aside is one row of a table without a primary key."""
    store.create_table("t", "v INT")
    store.jobs.quarantine_target("t")
    _set_aside(store, {"v": 1}, {"v": 1})
    recover_quarantine(store, "t")
    recover_quarantine(store, "t")
    assert sorted_rows(store, "t") == [(1,), (1,)]


def test_two_that_recover_one_row_write_it_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that others take or mend meanwhile is read again."""
    store.create_table("t", "v INT")
    store.jobs.quarantine_target("t")
    _set_aside(store, {"v": 1}, {"v": 2})
    original, attempts = WriteJob.write_fitting, []

    def late(*arguments: Any) -> Any:
        attempts.append(1)
        if len(attempts) == 1:
            with Store.open(store.path) as other:
                recover_quarantine(other, "t", "row_json LIKE '%2%'")
        return original(*arguments)

    monkeypatch.setattr(WriteJob, "write_fitting", late)
    assert recover_quarantine(store, "t").recovered == 1
    assert sorted_rows(store, "t") == [(1,), (2,)]


def test_a_quarantine_that_changes_all_the_time_is_a_conflict(
    table: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After some attempts the statement says so, and nothing was written."""
    _set_aside(table, {"k": 1, "v": 1})
    original = WriteJob.write_fitting

    def late(*arguments: Any) -> Any:
        table.write(Q, table.table(Q).to_dicts())
        return original(*arguments)

    monkeypatch.setattr(WriteJob, "write_fitting", late)
    with pytest.raises(ConflictError):
        recover_quarantine(table, "t")
    assert table.table("t").count() == 0


def test_the_statement(db: Database, table: Store) -> None:
    """It returns the epoch and what became of the rows; without a quarantine it does nothing."""
    _set_aside(table, {"k": 1, "v": -1}, {"k": 2, "v": -1})
    db.sql(f"UPDATE {Q} SET row_json = replace(row_json, '-1', '1') WHERE id LIKE '%1'")
    rows = db.sql("ALTER TABLE t RECOVER QUARANTINE WHERE id LIKE 'w/%'").collect()
    assert [tuple(row) for row in rows] == [(table.epoch, 1, 1)]
    assert sorted_rows(table, "t") == [(2, 1, None, None, None)]

    table.drop_table(Q)
    assert db.sql("ALTER TABLE t RECOVER QUARANTINE").collect()[0].recovered == 0
    with pytest.raises(TableNotFoundError):
        db.sql("ALTER TABLE u RECOVER QUARANTINE")
    with pytest.raises(UnsupportedStatementError):
        db.sql("ALTER TABLE t RECOVER QUARANTINE id = 1")
    table.jobs.quarantine_target("t")
    with pytest.raises(UnsupportedExpressionError):
        db.sql("ALTER TABLE t RECOVER QUARANTINE WHERE rand() < 1")


@pytest.mark.parametrize("seed", range(3))
def test_every_row_is_somewhere(table: Store, seed: int) -> None:
    """Through rounds of mending, each row is in the table or in the quarantine, never in both."""
    source = random.Random(seed)
    rows = [{"k": key, "v": source.choice([1, -1, 2**31])} for key in range(200)]
    _set_aside(table, *rows)
    good = {row["k"] for row in rows if row["v"] == 1}
    for _ in range(4):
        recover_quarantine(table, "t")
        assert {row[0] for row in sorted_rows(table, "t")} == good
        left = table.table(Q).to_dicts()
        assert {json.loads(row["row_json"])["k"] for row in left} == set(range(200)) - good
        for row in source.sample(left, len(left) // 2):
            key = json.loads(row["row_json"])["k"]
            table.write(Q, [row | {"row_json": json.dumps({"k": key, "v": 1})}])
            good.add(key)
