"""A keyed recompute returns what its calls are over the rows of each key, whatever changed."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from relstate.connector.views.executor.changes import chunk_schema
from relstate.connector.views.executor.difference import DifferenceExecutor
from relstate.connector.views.executor.keyed_rows import KeyedRowsExecutor, row_fields
from relstate.connector.views.plan.recompute import (
    GroupCall,
    GroupRecompute,
    KeyedRecompute,
    WindowCall,
    WindowRecompute,
)
from relstate.storage import OP_COLUMN, Op, errors, types
from support.bench import Bench
from support.changes import Row, Rows, chunk_of, epochs, net_changes, scan, shown

FIELDS = (
    types.Field("id", types.Int()),
    types.Field("g", types.String()),
    types.Field("one", types.TinyInt()),
    types.Field("p", types.Double()),
    types.Field("is_counted", types.Boolean()),
    types.Field("v", types.Int()),
)
IDS = range(12)
LIST = GroupCall("COLLECT_LIST(v)", types.Field("l", types.Array(types.Int())))
COUNT = GroupCall(
    "COUNT(p)", types.Field("c", types.BigInt()), distinct=("p",), filter="is_counted"
)
POSITION = WindowCall("ROW_NUMBER()", types.Field("n", types.BigInt()))
NAN = float("nan")

GROUPS = {
    "groups": GroupRecompute(scan(FIELDS, ["id"]), ("g",), (LIST, COUNT)),
    "two group fields": GroupRecompute(scan(FIELDS, ["id"]), ("g", "p"), (COUNT, LIST)),
    "the key holds the group": GroupRecompute(scan(FIELDS, ["id", "g"]), ("g",), (LIST,)),
    "one group": GroupRecompute(scan(FIELDS, ["id"]), ("one",), (LIST, COUNT), is_global=True),
}
WINDOWS = {
    "windows": WindowRecompute(scan(FIELDS, ["id"]), ("g",), (POSITION,)),
    "one window": WindowRecompute(scan(FIELDS, ["id"]), ("one",), (POSITION,), is_global=True),
    "by the key": WindowRecompute(scan(FIELDS, ["p", "id"]), ("p", "id"), (POSITION,)),
}
CASES: dict[str, KeyedRecompute] = {**GROUPS, **WINDOWS}


def row_of(chance: random.Random, key: Any) -> Row:
    """Return a row with few values of everything but the key."""
    return {
        "id": key,
        "g": chance.choice(["x", "x", "y", None]),
        "one": 0,
        "p": chance.choice([None, NAN, 0.0, 1.5]),
        "is_counted": chance.choice([None, True, True, False]),
        "v": chance.choice([None, 1, 2]),
    }


def group_outputs(rows: list[Row]) -> Row:
    """Return the values of both calls over the rows of a group in their order."""
    counted = {repr(row["p"]) for row in rows if row["is_counted"] and row["p"] is not None}
    return {"l": [row["v"] for row in rows if row["v"] is not None], "c": len(counted)}


def model(node: KeyedRecompute, rows: Rows) -> list[Row]:
    """Return the output of a node over a table."""
    groups: dict[str, list[Row]] = {}
    if node.is_never_empty:
        groups[repr([0])] = []
    for key in sorted(rows):
        groups.setdefault(repr([rows[key][name] for name in node.group]), []).append(rows[key])
    if isinstance(node, WindowRecompute):
        return [{**row, "n": n} for members in groups.values() for n, row in enumerate(members, 1)]
    return [
        picked(node, {**(members[0] if members else {"one": 0}), **group_outputs(members)})
        for members in groups.values()
    ]


def picked(node: KeyedRecompute, row: Row) -> Row:
    """Return the fields of a node among those of a row."""
    return {name: row[name] for name in node.names}


class RecomputeBench(Bench):
    """Both executors, and between them Python in Spark's place."""

    def __init__(self, node: KeyedRecompute) -> None:
        super().__init__(node, KeyedRowsExecutor, DifferenceExecutor)
        ((self.rows,), (self.result,)) = self.states

    def between(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Return the output for the keys that changed."""
        assert chunk.schema.names == [OP_COLUMN, *(field.name for field in row_fields(self.node))]
        groups: dict[int, list[Row]] = {}
        for row in chunk.to_pylist():
            groups.setdefault(row["_group"], []).append(row)
        outputs = [row for rows in groups.values() for row in self._outputs(rows)]
        return pa.RecordBatch.from_pylist(outputs, chunk_schema(self.node.fields))

    def _outputs(self, rows: list[Row]) -> list[Row]:
        members = [row for row in rows if row["_row"] is not None]
        assert [row["id"] for row in members] == sorted(row["id"] for row in members)
        assert members == rows or (not members and len(rows) == 1)
        if isinstance(self.node, WindowRecompute):
            return [{**row, "n": number} for number, row in enumerate(rows, 1)]
        count = sum(row["_first_0"] for row in members) if self.node.distinct_sets else None
        counted = {repr(row["p"]) for row in members if row.get("_first_0")} - {"None"}
        assert count is None or count - len(counted) in (0, 1), "NULL is a value, too"
        values = [row["v"] for row in members if row["v"] is not None]
        first = {OP_COLUMN: rows[0][OP_COLUMN], **{name: rows[0][name] for name in self.node.group}}
        return [{**first, "l": values, "c": len(counted)}]


@pytest.mark.parametrize("case", CASES)
def test_what_it_returned_is_the_output(case: str) -> None:
    """After every epoch the chunks applied are the output, and the states the input and output."""
    node = CASES[case]
    for seed in range(30):
        chance, bench = random.Random(seed), RecomputeBench(node)
        for rows, changes in epochs(chance, 8, IDS, row_of):
            bench.step(chunk_of(FIELDS, changes))

            expected = sorted(map(shown, model(node, rows)))
            assert bench.mirror.content() == expected
            assert sorted(map(shown, bench.result.rows)) == expected
            assert sorted(map(shown, bench.rows.rows)) == sorted(map(shown, rows.values()))


@pytest.mark.parametrize("case", CASES)
def test_without_changes_nothing_is_read_or_written(case: str) -> None:
    """An idle epoch returns nothing, except for the first row of a global aggregate."""
    node = CASES[case]
    bench = RecomputeBench(node)
    empty = chunk_of(FIELDS, [])

    bench.step(empty)
    assert len(bench.mirror.rows) == int(node.is_never_empty)

    bench.step(chunk_of(FIELDS, net_changes({}, {1: row_of(random.Random(1), 1)})))
    reads = bench.rows.reads, bench.result.reads
    assert bench.run(empty).num_rows == 0
    assert not bench.rows.written
    assert not bench.result.written
    assert (bench.rows.reads, bench.result.reads) == reads


def test_only_the_rows_of_changed_keys_are_read() -> None:
    """A change costs the rows of its key before and after it."""
    bench = RecomputeBench(GROUPS["groups"])
    rows = {n: {**row_of(random.Random(n), n), "g": "x" if n < 2 else "y"} for n in range(50)}
    bench.step(chunk_of(FIELDS, net_changes({}, rows)))

    bench.step(chunk_of(FIELDS, net_changes(rows, {**rows, 0: {**rows[0], "v": 77}})))

    assert (bench.rows.reads, bench.result.reads) == (2, 1)


def test_equal_output_is_not_emitted() -> None:
    """A change of a row that the calls do not see changes nothing after it."""
    bench = RecomputeBench(GROUPS["groups"])
    row = {"id": 1, "g": "x", "one": 0, "p": None, "is_counted": True, "v": 5}
    bench.step(chunk_of(FIELDS, net_changes({}, {1: row})))

    changed = bench.run(chunk_of(FIELDS, net_changes({1: row}, {1: {**row, "is_counted": False}})))

    assert changed.num_rows == 0
    assert not bench.result.written


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ([(Op.INSERT, 1)], "id = 1 is inserted but already exists; the state"),
        ([(Op.DELETE, 2)], "id = 2 is deleted but does not exist; the state"),
        ([(Op.INSERT, 3), (Op.INSERT, 3)], "inserted twice"),
    ],
)
def test_changes_that_do_not_fit_the_state_are_an_error(changes: Any, problem: str) -> None:
    """A row that exists is not inserted, one that does not is not deleted."""
    bench = RecomputeBench(GROUPS["groups"])
    rows = {key: {**row_of(random.Random(key), key), "g": "x"} for key in range(4)}
    bench.step(chunk_of(FIELDS, net_changes({}, {1: rows[1]})))

    with pytest.raises(errors.ConsistencyError, match=problem):
        bench.run(chunk_of(FIELDS, [(op, rows[key]) for op, key in changes]))


def test_a_key_that_was_evaluated_in_parts_is_an_error() -> None:
    """Two results for one key are never written."""
    node = GROUPS["groups"]
    bench = RecomputeBench(node)
    schema = chunk_schema(node.fields)
    row = {OP_COLUMN: int(Op.INSERT), "g": "x", "l": [1], "c": 1}

    with pytest.raises(errors.ConsistencyError, match="in parts"):
        DifferenceExecutor(node, [bench.result]).run(pa.RecordBatch.from_pylist([row, row], schema))
