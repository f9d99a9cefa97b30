"""Executors over the tables of a store return what they do over tables in memory."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from relstate.connector.views.executor.executor import SIDE_COLUMN, StateTableSpec
from relstate.connector.views.operators import executors_of
from relstate.connector.views.plan.broadcast_join import (
    BroadcastJoin,
    Comparator,
    Comparison,
)
from relstate.connector.views.plan.frame import Frame
from relstate.connector.views.plan.join import Join, JoinKey, JoinKind
from relstate.connector.views.plan.materialize import Materialize
from relstate.connector.views.plan.node import Order
from relstate.connector.views.plan.topn import Ranking, TopN
from relstate.connector.views.plan.window import (
    OrderedCall,
    OrderedWindow,
    WindowFunction,
)
from relstate.storage import NewTable, Proposal, StateTable, Store, TableSchema, types
from support.bench import Bench
from support.changes import (
    Change,
    Row,
    chunk_of,
    epochs,
    net_changes,
    next_content,
    scan,
    shown,
    shuffled,
)
from support.stores import committed

LEFT = (
    types.Field("id", types.BigInt()),
    types.Field("a", types.String()),
    types.Field("v", types.Double()),
)
RIGHT = tuple(types.Field(f"r_{field.name}", field.type) for field in LEFT)
LEFTS, RIGHTS = scan(LEFT, ["id"]), scan(RIGHT, ["r_id"])
KEY = JoinKey("a", "r_a", types.Field("k", types.String()), is_null_safe=True)
SIDE = types.Field(SIDE_COLUMN, types.TinyInt())
JOIN_FIELDS = (SIDE, KEY.field, *LEFT, *RIGHT)
RANKED = TopN(LEFTS, ("a",), (Order("v", True, False),), 2, ranking=Ranking.RANK)
WINDOW = OrderedWindow(
    LEFTS,
    ("a",),
    (Order("v", True, False),),
    (
        OrderedCall(WindowFunction.RANK, None, types.Field("r", types.Int())),
        OrderedCall(WindowFunction.LAG, "id", types.Field("l", types.BigInt()), None, 2),
        OrderedCall(
            WindowFunction.SUM, "id", types.Field("s", types.BigInt()), Frame(False, None, 0)
        ),
    ),
)
TOP = TopN(LEFTS, ("a",), (Order("v", True, False),), 2, 1, types.Field("rn", types.Int()))


class StoredBench:
    """An operator's executors over states in memory and over tables of a store, side by side."""

    def __init__(self, store: Store, node: Any) -> None:
        self.store = store
        self.memory = Bench(node, *executors_of(node))
        self.specs = [kind.tables(node) for kind in self.memory.executors]
        tables = tuple(
            NewTable(_name(executor, position), _schema(spec))
            for executor, specs in enumerate(self.specs)
            for position, spec in enumerate(specs)
        )
        store.jobs.commit(
            Proposal(operation="create", started=store.environment.now(), created_tables=tables)
        )

    def run(self, chunk: pa.RecordBatch) -> tuple[list[str], list[str]]:
        """Return the rows that an epoch makes over memory, and over the store, and commit it."""
        writer = self.store.jobs.segment_writer()
        stored = [
            [
                StateTable.streaming(self.store.read_plan(_name(executor, position)).open(), writer)
                for position in range(len(specs))
            ]
            for executor, specs in enumerate(self.specs)
        ]
        made = self.memory.run(chunk), self.memory.passed(stored, chunk)
        self.memory.commit()
        segments = writer.finish()
        if segments:
            committed(self.store, segments)
        over_memory, over_store = (sorted(map(shown, rows.to_pylist())) for rows in made)
        return over_memory, over_store

    def contents(self) -> tuple[list[list[str]], list[list[str]]]:
        """Return the rows of all tables, in memory and in the store."""
        memory = [sorted(map(shown, state.rows)) for own in self.memory.states for state in own]
        stored = [
            sorted(
                shown(row)
                for row in self.store.table(_name(executor, position)).to_arrow().to_pylist()
            )
            for executor, specs in enumerate(self.specs)
            for position in range(len(specs))
        ]
        return memory, stored


def _name(executor: int, position: int) -> str:
    return f"state_{executor}_{position}"


def _schema(spec: StateTableSpec) -> TableSchema:
    key = [
        f"{order.name} {'desc' if order.descending else 'asc'} "
        f"nulls {'first' if order.nulls_first else 'last'}"
        for order in spec.primary_key
    ]
    return TableSchema.build(spec.fields, key, spec.distribution, nullable_key=True)


def row_of(chance: random.Random, key: Any) -> Row:
    """Return a row of the left table."""
    long = "x" * 600
    return {
        "id": key,
        "a": chance.choice([None, "", "b", long, long + "y"]),
        "v": chance.choice([None, 0.0, 1.5, -1.0]),
    }


def as_side(side: int, changes: Sequence[Change]) -> list[Change]:
    """Return changes of left rows as a join's chunk has them."""
    return [
        (op, {SIDE_COLUMN: side, "k": row["a"], **(row if side == 0 else _renamed(row))})
        for op, row in changes
    ]


def _renamed(row: Row) -> Row:
    return {f"r_{name}": value for name, value in row.items()}


@pytest.mark.parametrize("kind", list(JoinKind))
def test_joins_over_a_store(any_store: Store, kind: JoinKind) -> None:
    """Rows of a key, and degrees, are found again, also with keys longer than LMDB's limit."""
    bench = StoredBench(any_store, Join(LEFTS, RIGHTS, kind, (KEY,)))
    chance = random.Random(kind.value)
    contents: list[dict[Any, Row]] = [{}, {}]
    for _ in range(6):
        changes: list[Change] = []
        for side, old in enumerate(contents):
            contents[side] = dict(next_content(chance, old, range(12), row_of))
            changes += as_side(side, net_changes(old, contents[side]))
        over_memory, over_store = bench.run(chunk_of(JOIN_FIELDS, shuffled(chance, changes)))

        assert over_store == over_memory
    memory, stored = bench.contents()
    assert stored == memory


COMPARISONS = (
    Comparison("a", Comparator.AT_MOST, "r_a"),
    Comparison("v", Comparator.GREATER, "r_v"),
)


@pytest.mark.parametrize(
    "kind", [JoinKind.INNER, JoinKind.LEFT, JoinKind.FULL, JoinKind.SEMI, JoinKind.ANTI]
)
def test_broadcast_joins_over_a_store(any_store: Store, kind: JoinKind) -> None:
    """Rows in the ranges of changes are found again, also with keys longer than LMDB's limit."""
    presence = ("id", "r_id") if kind is JoinKind.FULL else None
    node = BroadcastJoin(LEFTS, RIGHTS, kind, COMPARISONS, presence=presence)
    bench = StoredBench(any_store, node)
    chance = random.Random(kind.value)
    contents: list[dict[Any, Row]] = [{}, {}]
    for _ in range(6):
        changes: list[Change] = []
        for side, old in enumerate(contents):
            contents[side] = dict(next_content(chance, old, range(12), row_of))
            changes += [
                (op, {SIDE_COLUMN: side, **(row if side == 0 else _renamed(row))})
                for op, row in net_changes(old, contents[side])
            ]
        chunk = chunk_of((SIDE, *LEFT, *RIGHT), shuffled(chance, changes))
        over_memory, over_store = bench.run(chunk)

        assert over_store == over_memory
    memory, stored = bench.contents()
    assert stored == memory


@pytest.mark.parametrize(
    "node", [TOP, RANKED, WINDOW, Materialize(LEFTS, (("x", "v"),), (Order("v", True),))]
)
def test_other_executors_over_a_store(any_store: Store, node: Any) -> None:
    """The first rows of a group are read in order; the view's table has the root's rows."""
    bench = StoredBench(any_store, node)
    for _, changes in epochs(random.Random(7), 10, range(20), row_of):
        over_memory, over_store = bench.run(chunk_of(LEFT, changes))

        assert over_store == over_memory
    memory, stored = bench.contents()
    assert stored == memory


def test_a_window_over_a_store_reads_around_changes(
    any_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few rows before and after each changed row, in partitions with many rows."""
    monkeypatch.setattr("relstate.connector.views.executor.window._LEAST_ROWS", 2)
    bench, chance = StoredBench(any_store, WINDOW), random.Random(3)
    rows: dict[Any, Row] = {}
    for size in (80, *[3] * 12):
        old, rows = rows, dict(rows)
        for key in chance.sample(range(90), size):
            if key in rows and chance.random() < 0.4:
                del rows[key]
            else:
                rows[key] = row_of(chance, key)
        over_memory, over_store = bench.run(chunk_of(LEFT, net_changes(old, rows)))

        assert over_store == over_memory
    memory, stored = bench.contents()
    assert stored == memory
