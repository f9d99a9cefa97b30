"""The laws of CHECK constraints: no row makes one false, whoever writes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from relstate.storage import Proposal, Store
from relstate.storage.errors import (
    CheckViolationError,
    InternalTableError,
    RelstateError,
    SchemaError,
    SchemaMismatchError,
    UnsupportedExpressionError,
)
from relstate.storage.paths import entry_path
from support.faulty_environment import FaultyEnvironment
from support.places import in_folder
from support.races import Before
from support.stores import contents

COLUMNS = "id BIGINT, low INT, high INT, state STRING"


@pytest.fixture
def checked(store: Store) -> Store:
    """A store with a table that has two constraints, and one row."""
    store.create_table(
        "t",
        COLUMNS,
        primary_key=["id"],
        constraints={"ordered": "low <= high", "known": "state IN ('on', 'off')"},
    )
    store.write("t", [row(1)])
    return store


def row(number: int, **values: Any) -> dict[str, Any]:
    """Return a row that obeys the constraints, with some other values."""
    return {"id": number, "low": 1, "high": 2, "state": "on"} | values


def test_a_row_that_violates_a_constraint_is_not_written(checked: Store) -> None:
    """Nothing of the write is; the error has the row, the constraint and its condition."""
    epoch = checked.epoch
    with pytest.raises(
        CheckViolationError,
        match=r"the row with id = 3, low = 9, high = 2.* 'ordered', CHECK \(low <= high\)",
    ):
        checked.write("t", [row(2), row(3, low=9)])
    with pytest.raises(CheckViolationError, match="'known'"):
        checked.write("t", [row(2, state="On")], overwrite=True)

    assert checked.epoch == epoch
    assert checked.check().orphans == 0


def test_what_is_unknown_is_allowed(checked: Store) -> None:
    """As in SQL: a condition on NULL is not false. Deletes need no values."""
    checked.write("t", [row(2, low=None), {"id": 3}])
    checked.delete("t", [{"id": 1}])

    assert [key for key, *_ in contents(checked, "t")] == [2, 3]


def test_a_condition_may_be_computed(store: Store) -> None:
    """Also one that may overflow or divide by zero: a row for which it does violates it.

    What Spark would not compute does not fail, and the condition outlives the process.
    """
    store.create_table(
        "t",
        COLUMNS,
        primary_key=["id"],
        constraints={
            "coded": "length(state) = 2",
            "small": "low * high < 1000",
            "halved": "low = 0 OR high / low >= 1",
        },
    )
    store.write("t", [row(1), row(2, low=0), row(3, low=None), row(4, state=None)])
    with pytest.raises(CheckViolationError, match=r"CHECK \(length\(state\) = 2\); nothing"):
        store.write("t", [row(5, state="öff")])
    with Store.open(store.path) as again:
        for high, reason in (
            (1000, "< 1000\\); nothing"),
            (2**31 - 1, "overflows its type; nothing"),
        ):
            with pytest.raises(CheckViolationError, match=reason):
                again.write("t", [row(5), row(6, low=2, high=high)])
    with pytest.raises(CheckViolationError, match="violates the constraint 'tens'"):
        store.add_constraint("t", "tens", "high % 10 = 0")

    assert [key for key, *_ in contents(store, "t")] == [1, 2, 3, 4]


def test_every_writer_obeys(checked: Store) -> None:
    """State tables and indexed tables too, whose rows the commit itself writes."""
    checked.create_index("t", "by_state", ["state"])
    with pytest.raises(CheckViolationError):
        checked.write("t", [row(5, state="?")])
    table = checked.state_table("t")
    table.insert([6, 4, 3, "on"])
    with pytest.raises(CheckViolationError):
        table.commit()
    with checked.jobs.write_target("t").open() as writer, pytest.raises(CheckViolationError):
        writer.write(pa.RecordBatch.from_pylist([row(7, state="?")]))
    assert contents(checked, "t") == [(1, 1, 2, "on")]


def written_before(store: Store, rows: list[dict[str, Any]]) -> Proposal:
    """Return the proposal of a writer that began now."""
    target = store.jobs.write_target("t")
    with target.open() as writer:
        writer.write(pa.RecordBatch.from_pylist(rows))
        segments = writer.finish()
    return Proposal(
        operation="write",
        started=store.environment.now(),
        segments=segments,
        written_under=(target.definition,),
    )


def test_a_writer_that_began_before_a_constraint_obeys_it(checked: Store) -> None:
    """The commit checks its rows for what it did not know."""
    wrong, right = (written_before(checked, [row(n, low=n)]) for n in (0, 2))
    checked.add_constraint("t", "positive", "low > 0")

    with pytest.raises(CheckViolationError, match="'positive'"):
        checked.jobs.commit(wrong)
    checked.jobs.discard(wrong.segments)
    checked.jobs.commit(right)
    assert contents(checked, "t") == [(1, 1, 2, "on"), (2, 2, 2, "on")]


@in_folder
def test_a_constraint_is_not_added_to_rows_that_violate_it(checked: Store) -> None:
    """Also if such a row comes while it is added."""
    epoch = checked.epoch
    with pytest.raises(CheckViolationError, match="id = 1, high = 2"):
        checked.add_constraint("t", "high", "high > 2")
    assert checked.epoch == epoch

    race = Before(f"link {entry_path(epoch + 1)}", lambda: checked.write("t", [row(2, low=0)]))
    slow = Store.open(checked.path, environment=FaultyEnvironment(checked.path, before=race))
    with pytest.raises(CheckViolationError, match="id = 2, low = 0"):
        slow.add_constraint("t", "positive", "low > 0")
    assert race.happened
    assert len(checked.state.table("t").definition.constraints) == 2


def test_a_constraint_is_dropped(checked: Store) -> None:
    """After that its columns can be altered, and rows may violate it."""
    alterations: list[Callable[[], object]] = [
        lambda: checked.rename_column("t", "low", "least"),
        lambda: checked.drop_columns("t", "high"),
        lambda: checked.widen_column("t", "low", "BIGINT"),
    ]
    for alter in alterations:
        with pytest.raises(SchemaError, match="the constraint 'ordered', CHECK"):
            alter()
    checked.drop_constraint("t", "ORDERED")
    checked.drop_constraint("t", "ordered", if_exists=True)
    with pytest.raises(SchemaError, match="its constraints are: known"):
        checked.drop_constraint("t", "ordered")

    checked.rename_column("t", "low", "least")
    checked.write("t", [{"id": 2, "least": 9, "high": 1}])
    assert contents(checked, "t")[1] == (2, 9, 1, None)


def test_constraints_outlive_the_process(checked: Store) -> None:
    """They are in the log and in checkpoints; a table that is like another one has them too."""
    for number in range(40):
        checked.write("t", [row(number)])
    checked.create_table_like("copy", "t")

    with Store.open(checked.path) as again:
        for name in ("t", "copy"):
            with pytest.raises(CheckViolationError):
                again.write(name, [row(1, low=3)])


def test_parts_of_a_row_are_checked_one_by_one(store: Store) -> None:
    """So a condition of a partial table reads one column, besides the key."""
    columns = "id INT, low INT, high INT"
    store.create_table(
        "t", columns, primary_key=["id"], merge="partial", constraints={"c": "low < id"}
    )
    store.write("t", [{"id": 5, "low": 3}])
    store.write("t", [{"id": 5, "high": 1}])
    with pytest.raises(CheckViolationError):
        store.write("t", [{"id": 5, "low": 5}])
    with pytest.raises(SchemaError, match="one column besides the primary key"):
        store.add_constraint("t", "d", "low < high")

    assert contents(store, "t") == [(5, 3, 1)]


@pytest.mark.parametrize(
    ("name", "expression", "error"),
    [
        ("ordered", "low > 0", SchemaError),
        ("", "low > 0", SchemaError),
        ("c", "upper(state) = 'ON'", UnsupportedExpressionError),
        ("c", "lowest > 0", SchemaMismatchError),
    ],
)
def test_a_constraint_that_cannot_be_is_refused(
    checked: Store, name: str, expression: str, error: type[RelstateError]
) -> None:
    """By its name, its columns or its condition."""
    with pytest.raises(error):
        checked.add_constraint("t", name, expression)


def test_constraints_of_tables_without_a_key_hold(store: Store) -> None:
    """Documents, whose parts are written alone, have none; nor have internal tables."""
    store.create_table("log", "v INT", constraints={"c": "v > 0"})
    store.write("log", [{"v": 1}])
    with pytest.raises(CheckViolationError, match="the row with v = 0 violates"):
        store.write("log", [{"v": 1}, {"v": 0}])
    store.create_table("d", COLUMNS, primary_key=["id"], encoding="document")
    with pytest.raises(SchemaError, match="encoding = 'row'"):
        store.add_constraint("d", "c", "low > 0")
    store.create_table("r", COLUMNS, primary_key=["id"], constraints={"c": "low > 0"})
    with pytest.raises(SchemaError, match="has constraints, which document tables"):
        store.set_encoding("r", "document")
    store.create_index("log", "i", ["v"])
    with pytest.raises(InternalTableError):
        store.add_constraint(store.indexes("log")[0].internal_table, "c", "v > 0")
