"""Materialize writes the rows of the root to the view's table."""

from __future__ import annotations

import random
from typing import Any

import pytest

from relstate.connector.views.executor.materialize import MaterializeExecutor, ReplaceExecutor
from relstate.connector.views.plan.materialize import Materialize
from relstate.connector.views.plan.node import Order
from relstate.storage import Op, errors, types
from support.changes import Row, chunk_of, epochs, scan, shown
from support.examples import Seeds
from support.memory_state import MemoryState

FIELDS = (
    types.Field("id", types.Int()),
    types.Field("o", types.Double()),
    types.Field("v", types.String()),
)
NODE = Materialize(
    scan(FIELDS, ["id"]), (("Name", "v"), ("again", "v")), (Order("o", True, False),)
)


def row_of(chance: random.Random, key: Any) -> Row:
    """Return a row of the child."""
    return {"id": key, "o": chance.choice([None, 1.0, 2.0]), "v": chance.choice([None, "a", "b"])}


def stored(row: Row) -> Row:
    """Return a row of the child as the table stores it."""
    return {name: row[field] for name, field in NODE.stored}


def test_the_table_holds_the_rows_of_the_root(seeds: Seeds) -> None:
    """Columns have the view's names; further columns of the key follow, hidden."""
    (spec,) = MaterializeExecutor.tables(NODE)
    assert spec.role == "view"
    assert [field.name for field in spec.fields] == ["Name", "again", "_o", "_id"]
    assert spec.primary_key == (Order("_o", True, False), Order("_id"))
    for seed in seeds(50):
        state = MemoryState(spec)
        for rows, changes in epochs(random.Random(seed), 5, range(8), row_of):
            output = MaterializeExecutor(NODE, [state]).run(chunk_of(FIELDS, changes))
            state.commit()

            assert output.num_rows == 0
            assert output.schema.names == ["_op", *NODE.names]
            expected = sorted(shown(stored(row)) for row in rows.values())
            assert sorted(map(shown, state.rows)) == expected


def test_a_full_refresh_replaces_the_rows(seeds: Seeds) -> None:
    """By those that it is given, and writes none of which the table has an equal one."""
    (spec,) = MaterializeExecutor.tables(NODE)
    for seed in seeds(50):
        chance, state = random.Random(seed), MemoryState(spec)
        before: list[str] = []
        for _ in range(3):
            rows = {key: row_of(chance, key) for key in range(8) if chance.random() < 0.7}
            changes = [(Op.INSERT, row) for row in rows.values()]
            # A row that others take the place of in the same epoch.
            changes += [(Op.DELETE, row_of(chance, key)) for key in list(rows)[:2]]
            output = ReplaceExecutor(NODE, [state]).run(chunk_of(FIELDS, changes))
            expected = sorted(shown(stored(row)) for row in rows.values())
            written = [rows for _, rows in state.written if rows is not None]
            assert {shown(row) for (row,) in written}.isdisjoint(before)
            state.commit()
            assert output.num_rows == 0
            assert sorted(map(shown, state.rows)) == expected
            before = expected


def test_a_clustered_table_has_its_columns_first_in_the_key() -> None:
    """They are the distribution; the order, and the rest of the key, come after them."""
    node = Materialize(
        scan(FIELDS, ["id"]),
        (("V", "v"), ("o", "o")),
        (Order("o"), Order("v", True, False)),
        ("v",),
    )
    (spec,) = MaterializeExecutor.tables(node)
    assert spec.primary_key == (Order("V", True, False), Order("o"), Order("_id"))
    assert spec.distribution == ("V",)
    assert node.input_distribution == ("v",)
    assert node.explain_line == (
        "Materialize [v AS V, o] key [V DESC, o, _id] hidden [_id] cluster by [V]"
    )
    read = Materialize.from_json(node.to_json(), lambda _: node.child)
    assert read == node
    read.check()


def test_hidden_columns_have_names_of_their_own() -> None:
    """A hidden column is renamed if the SELECT has a column of its name."""
    fields = (types.Field("Id", types.Int()), *FIELDS[1:])
    node = Materialize(scan(fields, ["Id"]), (("_ID", "v"), ("_id_2", "o")))

    assert node.names == ("_ID", "_id_2", "_Id_3")
    assert (node.key, node.hidden) == (("_Id_3",), ("_Id_3",))


def test_two_rows_of_one_key_are_refused() -> None:
    """Rows that the root tells apart must have different keys in the table."""
    (spec,) = MaterializeExecutor.tables(NODE)
    row = {"id": 1, "o": 1.0, "v": "a"}
    chunk = chunk_of(FIELDS, [(Op.INSERT, row), (Op.INSERT, {**row, "v": "b"})])

    with pytest.raises(errors.ConsistencyError, match="_id = 1 is inserted twice"):
        MaterializeExecutor(NODE, [MemoryState(spec)]).run(chunk)
