"""Statements that change rows while others write: what was read is still so, or it runs again."""

from __future__ import annotations

from threading import Thread
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import relstate
from relstate.connector.sql import Database, dml_run
from relstate.storage import Store
from relstate.storage.errors import (
    ConflictError,
    DuplicateKeyError,
)
from relstate.storage.paths import SEGMENTS, parse_segment_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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


_ONE_AND_SEVEN = "(VALUES (1, 5), (7, 6)) s(id, n)"
_SET_N = "ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = s.n"


class _Rival:
    """Commits something between the read and the commit of a statement, a number of times."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, store: Store, times: int, change: Any
    ) -> None:
        self.tries = 0
        run = dml_run.task_reports

        def written(*args: Any, **options: Any) -> Any:
            reports = run(*args, **options)
            self.tries += 1
            if self.tries <= times:
                change(self.tries)
            return reports

        monkeypatch.setattr(dml_run, "task_reports", written)


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
        (f"MERGE INTO items t USING {_ONE_AND_SEVEN} {_SET_N}", (1, "z", 0), True),
        (f"MERGE INTO items t USING {_ONE_AND_SEVEN} {_SET_N}", (7, "z", 0), True),
        (f"MERGE INTO items t USING {_ONE_AND_SEVEN} {_SET_N}", (2, "z", 0), False),
        ("DELETE FROM items WHERE id IN (SELECT 3)", (3, "z", 0), True),
        ("DELETE FROM items WHERE id IN (SELECT 3)", (2, "z", 0), False),
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


def test_a_statement_over_rows_that_expire_runs_again_after_any_change(
    db: Database, items: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it read depends on the clock; so it does not ask what another writer has changed."""
    store.write(items, [{"id": 9, "name": "i", "n": 90}], ttls=pa.array([3600]))
    rows = [{"id": 2, "name": "z", "n": 0}]
    rival = _Rival(monkeypatch, store, 1, lambda _: store.write(items, rows))

    db.sql("UPDATE items SET n = n + 1 WHERE id = 1")

    assert rival.tries == 2


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
    """It fails with a ConflictError, nothing of it is committed, and no file of it is left."""

    def change(number: int) -> None:
        state = store.state_table(items)
        state.insert([1, "rival", number])
        state.commit()

    rival_writer = _Rival(monkeypatch, store, 99, change)
    with pytest.raises(ConflictError, match="changed rows that were read"):
        db.sql("UPDATE items SET name = 'mine' WHERE id = 1")

    assert rival_writer.tries == 6
    assert store.table(items).get(1)["name"] == "rival"  # type: ignore[index]
    added = {record.name for entry in store.history() for record in entry.added}
    assert {*map(parse_segment_file, store.environment.list(SEGMENTS))} <= added


def test_parts_that_were_read_are_read_again(
    db: Database, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An element is replaced in the array as a rival left it: nothing that was added is lost."""
    columns = "id BIGINT, l ARRAY<INT>"
    store.create_table("docs", columns, primary_key=["id"], encoding="document")
    store.write("docs", [{"id": 1, "l": [1, 2]}])

    def append(_: int) -> None:
        with store.document_writer("docs") as writer:
            writer.add(1, "l", [3])

    rival = _Rival(monkeypatch, store, 1, append)
    db.sql("UPDATE docs SET l[0] = 7 WHERE id = 1")

    assert rival.tries == 2
    assert store.table("docs").get(1)["l"] == [7, 2, 3]  # type: ignore[index]


def test_rows_that_a_statement_numbers_have_numbers_of_their_own(
    db: Database, items: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number above the greatest one is read again if others insert: this replaces IDENTITY."""
    rival = _Rival(
        monkeypatch,
        store,
        1,
        lambda _: store.write(items, [{"id": 4, "name": "rival", "n": 0}]),
    )
    db.sql(
        "INSERT INTO items (id, name) "
        "SELECT coalesce((SELECT max(id) FROM items), 0) + row_number() OVER (ORDER BY name), name "
        "FROM VALUES ('y'), ('x') AS new(name)"
    )
    assert rival.tries == 2
    names = {row["id"]: row["name"] for row in store.table(items).to_dicts(where="id > 3")}
    assert names == {4: "rival", 5: "x", 6: "y"}
