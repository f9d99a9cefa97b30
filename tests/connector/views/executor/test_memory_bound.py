"""How many rows a task holds follows from the part of changes that it gets, not from the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from relstate.connector.views.executor.executor import SIDE_COLUMN
from relstate.connector.views.executor.keyed_rows import KeyedRowsExecutor
from relstate.connector.views.join_rows import side_fields
from relstate.connector.views.operators import executors_of
from relstate.connector.views.plan.aggregate import Aggregate, Call, Function
from relstate.connector.views.plan.frame import Frame
from relstate.connector.views.plan.join import Join, JoinKey, JoinKind
from relstate.connector.views.plan.node import Node, Order
from relstate.connector.views.plan.recompute import GroupCall, GroupRecompute
from relstate.connector.views.plan.topn import TopN
from relstate.connector.views.plan.window import OrderedCall, OrderedWindow, WindowFunction
from relstate.storage import Op, types
from support.bench import Bench
from support.changes import Row, chunk_of, scan

PART = 50
GROUP_ROWS = 10
FEW, MANY = 500, 1500
FIELDS = (
    types.Field("k", types.BigInt()),
    types.Field("g", types.BigInt()),
    types.Field("v", types.BigInt()),
)
OTHER = tuple(types.Field(f"r_{field.name}", field.type) for field in FIELDS)
CHILD = scan(FIELDS, ["k"])
SUM = types.Field("s", types.BigInt())
LIST = GroupCall("COLLECT_LIST(v)", types.Field("l", types.Array(types.BigInt())))
GROUP_KEY = (JoinKey("g", "r_g", types.Field("j", types.BigInt())),)
BY_KEY = (Order("k"),)
LAG = OrderedCall(WindowFunction.LAG, "v", types.Field("l", types.BigInt()), None, 1)
RUNNING = OrderedCall(WindowFunction.SUM, "v", SUM, Frame(False, None, 0))

# A node, and how many rows it may read, take in and return for each row of a part. A group has ten
# rows, of which a part changes two.
FAMILIES: dict[str, tuple[Node, int]] = {
    "aggregate": (Aggregate(CHILD, ("g",), (Call(Function.SUM, "v", SUM),)), 3),
    "extremes": (Aggregate(CHILD, ("g",), (Call(Function.MIN, "v", SUM),)), 2),
    "top n": (TopN(CHILD, ("g",), BY_KEY, 3), 3),
    "hash join": (Join(CHILD, scan(OTHER, ["r_k"]), JoinKind.INNER, GROUP_KEY), 10),
    "outer join": (Join(CHILD, scan(OTHER, ["r_k"]), JoinKind.LEFT, GROUP_KEY), 12),
    "window": (OrderedWindow(CHILD, ("g",), BY_KEY, (LAG, RUNNING)), 7),
    "keyed recompute": (GroupRecompute(CHILD, ("g",), (LIST,)), 11),
}


def chunk(node: Node, rows: Sequence[Row]) -> pa.RecordBatch:
    """Return the inserts of rows; of a join, in turns into its sides."""
    if not isinstance(node, Join):
        return chunk_of(FIELDS, [(Op.INSERT, row) for row in rows])
    changes = []
    for row in rows:
        side = row["k"] % 2
        names = OTHER if side else FIELDS
        values = {field.name: value for field, value in zip(names, row.values(), strict=True)}
        changes.append((Op.INSERT, {SIDE_COLUMN: side, "j": row["g"], **values}))
    return chunk_of(side_fields(node), changes)


def most_rows_held(node: Node, total: int, groups: int) -> int:
    """Return the most rows that a part of a backfill takes in, reads and returns."""
    executors = executors_of(node)
    if isinstance(node, GroupRecompute):
        executors = [KeyedRowsExecutor]  # what follows is Spark's, over what this one returns
    bench = Bench(node, *executors)
    most = 0
    for start in range(0, total, PART):
        rows: list[dict[str, Any]] = [
            {"k": k, "g": k // 2 % groups, "v": k} for k in range(start, start + PART)
        ]
        before = rows_read(bench)
        output = bench.run(chunk(node, rows))
        bench.commit()
        most = max(most, rows_read(bench) - before + PART + output.num_rows)
    return most


def rows_read(bench: Bench) -> int:
    """Return how many rows all states have returned."""
    return sum(state.reads for states in bench.states for state in states)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_part_holds_rows_in_proportion_to_its_changes(family: str) -> None:
    """Groups have the same size in both tables, one of which has three times as many."""
    node, rows_per_change = FAMILIES[family]

    few = most_rows_held(node, FEW, FEW // GROUP_ROWS)
    many = most_rows_held(node, MANY, MANY // GROUP_ROWS)

    assert many == few
    assert many <= rows_per_change * PART


def test_only_a_keyed_recompute_holds_whole_groups() -> None:
    """A group that grows with the table is read whole by each part that changes it."""
    recompute, _ = FAMILIES["keyed recompute"]
    aggregate, _ = FAMILIES["aggregate"]

    assert most_rows_held(recompute, MANY, 1) > MANY
    assert most_rows_held(aggregate, MANY, 1) <= PART + 4
