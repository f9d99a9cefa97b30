"""After every epoch the units of a broadcast join have emitted the join of both inputs."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from relstate.connector.views.executor import matching as matching_module
from relstate.connector.views.executor.executor import (
    LEFT_ROW,
    PAIR,
    PART_COLUMN,
    RIGHT_ROW,
    SIDE_COLUMN,
)
from relstate.connector.views.executor.matching import Comparisons
from relstate.connector.views.operators import executors_of
from relstate.connector.views.plan.broadcast_join import BroadcastJoin, Comparator, Comparison
from relstate.connector.views.plan.join import JoinKind
from relstate.storage import Op, arrow, errors, types
from support.changes import (
    Change,
    Mirror,
    Row,
    Rows,
    chunk_of,
    net_changes,
    next_content,
    scan,
    shown,
    shuffled,
)
from support.examples import Seeds
from support.memory_state import MemoryState, UnitState, owners

LEFT = (
    types.Field("l_id", types.BigInt()),
    types.Field("l_v", types.Double()),
    types.Field("l_n", types.Int()),
    types.Field("l_s", types.String()),
)
RIGHT = (
    types.Field("r_id", types.String()),
    types.Field("r_lo", types.Double()),
    types.Field("r_hi", types.Double()),
    types.Field("r_n", types.Int()),
)
LEFT_IDS, RIGHT_IDS = range(7), [None, "a", "b", "c", "d"]
KINDS = [kind for kind in JoinKind if kind is not JoinKind.RIGHT]
COMPARISONS: dict[str, tuple[Comparison, ...]] = {
    "cross": (),
    "less": (Comparison("l_v", Comparator.LESS, "r_hi"),),
    "between": (
        Comparison("l_v", Comparator.AT_LEAST, "r_lo"),
        Comparison("l_v", Comparator.AT_MOST, "r_hi"),
    ),
    "crossed": (
        Comparison("l_v", Comparator.GREATER, "r_lo"),
        Comparison("l_n", Comparator.AT_MOST, "r_n"),
    ),
    "equal": (Comparison("l_n", Comparator.EQUAL, "r_n"),),
}
BELOW = Comparison("l_v", Comparator.AT_LEAST, "r_lo")
ABOVE = Comparison("l_n", Comparator.AT_MOST, "r_n")
TESTS: dict[Comparator, Callable[[Any, Any], bool]] = {
    Comparator.LESS: lambda a, b: order(a) < order(b),
    Comparator.AT_MOST: lambda a, b: order(a) <= order(b),
    Comparator.GREATER: lambda a, b: order(a) > order(b),
    Comparator.AT_LEAST: lambda a, b: order(a) >= order(b),
    Comparator.EQUAL: lambda a, b: order(a) == order(b),
}


def order(value: Any) -> tuple[bool, Any]:
    """Return what a value is compared by: NaN is above all numbers."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return is_nan, 0.0 if is_nan else value


def join_of(
    kind: JoinKind, comparisons: str, *, is_conditional: bool = False, has_one_row: bool = False
) -> BroadcastJoin:
    """Return a join; what only its comparisons read is hidden."""
    left, right = scan(LEFT, ["l_id"]), scan(RIGHT, ["r_id"])
    node = BroadcastJoin(
        left,
        right,
        kind,
        COMPARISONS[comparisons],
        "length(l_s) <> r_n" if is_conditional else None,
        ("l_id", "r_id") if kind is JoinKind.FULL else None,
        has_one_row,
    )
    compared = {name for comparison in node.comparisons for name in comparison.sides}
    return replace(node, hidden=tuple(sorted(compared - {"l_v", "r_n"})))


class Units:
    """The executors of a join in several units, and what somebody holds who follows them."""

    def __init__(self, node: BroadcastJoin, units: int) -> None:
        self.node = node
        self.units = units
        self.executors = executors_of(node)
        self.states = [[MemoryState(spec) for spec in kind.tables(node)] for kind in self.executors]
        self.mirror = Mirror(node.key)

    def step(self, lefts: Sequence[Change], rights: Sequence[Change]) -> pa.RecordBatch:
        """Run an epoch in all units and commit it; return what they emit."""
        first, *rest = self.executors
        chunks = [
            first(self.node, self._states(0, unit)).run(self._received(unit, lefts, rights))
            for unit in range(self.units)
        ]
        output = pa.concat_batches(chunks)
        if rest:
            output = self._with_degrees(self._matching(output))
        self.mirror.apply(output)
        for state in (state for states in self.states for state in states):
            state.commit()
        return output

    def _states(self, executor: int, unit: int) -> list[Any]:
        return [UnitState(state, unit, self.units) for state in self.states[executor]]

    def _received(
        self, unit: int, lefts: Sequence[Change], rights: Sequence[Change]
    ) -> pa.RecordBatch:
        """Return what a unit gets: all changes; of the left side its own beside one row."""
        node = self.node
        changes = [(op, {SIDE_COLUMN: 0, **row}) for op, row in lefts]
        if node.has_one_row and changes:
            keys = pa.RecordBatch.from_pylist([{"l_id": row["l_id"]} for _, row in changes])
            own = owners(keys, self.units) == unit
            changes = [change for change, is_own in zip(changes, own, strict=True) if is_own]
        changes += [(op, {SIDE_COLUMN: 1, **row}) for op, row in rights]
        side = types.Field(SIDE_COLUMN, types.TinyInt())
        return chunk_of([side, *node.left.fields, *node.right.fields], changes)

    def _matching(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Return the candidates without the pairs that the condition refuses, as Spark does."""
        if self.node.condition is None:
            return chunk
        rows = chunk.to_pylist()
        passes = [row[PART_COLUMN] in (LEFT_ROW, RIGHT_ROW) or condition(row) for row in rows]
        return chunk.filter(pa.array(passes, pa.bool_()))

    def _with_degrees(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        _, degree = self.executors
        parts = np.asarray(chunk.column(PART_COLUMN))
        by_left = owners(chunk.select(["l_id"]), self.units)
        unit_of = by_left
        if self.node.kind is JoinKind.FULL:
            by_right = owners(chunk.select(["r_id"]), self.units)
            unit_of = np.where(np.isin(parts, [PAIR, LEFT_ROW]), by_left, by_right)
        chunks = []
        for unit in range(self.units):
            received = chunk.filter(pa.array(unit_of == unit))
            chunks.append(degree(self.node, self._states(1, unit)).run(received))
        return pa.concat_batches(chunks)


def condition(row: Row) -> bool:
    """Return whether the condition is true for a pair; NULL is not true."""
    return None not in (row["l_s"], row["r_n"]) and len(row["l_s"]) != row["r_n"]


def matches(node: BroadcastJoin, left: Row, right: Row) -> bool:
    """Return whether two rows match."""
    for comparison in node.comparisons:
        values = left[comparison.left], right[comparison.right]
        if None in values or not TESTS[comparison.comparator](*values):
            return False
    return node.condition is None or condition({**left, **right})


def model(node: BroadcastJoin, lefts: Rows, rights: Rows) -> list[Row]:
    """Return the rows of a join, by nested loops."""
    pairs = [(x, y) for x, y in product(lefts.values(), rights.values()) if matches(node, x, y)]
    unmatched_left = [x for x in lefts.values() if not any(pair[0] is x for pair in pairs)]
    unmatched_right = [y for y in rights.values() if not any(pair[1] is y for pair in pairs)]
    if node.kind is JoinKind.SEMI:
        rows = [x for x in lefts.values() if not any(x is u for u in unmatched_left)]
    elif node.kind is JoinKind.ANTI:
        rows = unmatched_left
    else:
        rows = [{**x, **y} for x, y in pairs]
    if node.kind in (JoinKind.LEFT, JoinKind.FULL):
        rows += unmatched_left
    if node.kind is JoinKind.FULL:
        rows += unmatched_right
    return [{name: row.get(name) for name in node.names} for row in rows]


def left_row(chance: random.Random, key: Any) -> Row:
    """Return a row of the left side."""
    value = chance.choice([None, 0.0, 0.5, 1.5, 2.0, math.nan, math.inf])
    text = chance.choice([None, "x", "xy", "xyz"])
    return {"l_id": key, "l_v": value, "l_n": chance.choice([None, 1, 2, 3]), "l_s": text}


def right_row(chance: random.Random, key: Any) -> Row:
    """Return a row of the right side."""
    low, high = (chance.choice([None, -0.0, 0.0, 1.5, 2.0, math.nan]) for _ in range(2))
    return {"r_id": key, "r_lo": low, "r_hi": high, "r_n": chance.choice([None, 1, 2, 2])}


CASES = [(kind, name, False) for kind in KINDS for name in COMPARISONS]
CASES += [(kind, name, True) for kind in KINDS[1:] for name in ("cross", "between")]


@pytest.mark.parametrize("has_one_row", [False, True])
@pytest.mark.parametrize(("kind", "comparisons", "is_conditional"), CASES)
def test_the_output_is_the_join(
    kind: JoinKind,
    comparisons: str,
    is_conditional: bool,
    has_one_row: bool,
    monkeypatch: pytest.MonkeyPatch,
    seeds: Seeds,
) -> None:
    """The applied chunks are the join of the inputs, in one unit and in several.

    In one epoch rows of both sides are inserted, deleted and changed; units change in between.
    """
    if has_one_row and kind is JoinKind.FULL:
        return
    node = join_of(kind, comparisons, is_conditional=is_conditional, has_one_row=has_one_row)
    for seed in seeds(4):
        chance = random.Random(seed)
        if seed % 2:
            monkeypatch.setattr(matching_module, "PAIRS_AT_ONCE", 3)
            monkeypatch.setattr(matching_module, "_BLOCK_ROWS", 2)
        units = Units(node, chance.choice([1, 3]))
        lefts: Rows = {}
        rights: Rows = {}
        for _ in range(7):
            old = lefts, rights
            lefts, rights = follow(chance, lefts, rights, has_one_row=has_one_row)
            units.units = chance.choice([units.units, 1, 2, 3])
            changes = net_changes(old[0], lefts), net_changes(old[1], rights)
            units.step(*(shuffled(chance, side) for side in changes))

            assert units.mirror.content() == sorted(map(shown, model(node, lefts, rights))), seed
            check_states(units, lefts, rights)


def follow(
    chance: random.Random, lefts: Rows, rights: Rows, *, has_one_row: bool = False
) -> tuple[Rows, Rows]:
    """Return the next content of both sides; sometimes only one of them changes."""
    right_ids = RIGHT_IDS[1:2] if has_one_row else RIGHT_IDS
    moved = chance.choice([(True, True), (True, True), (True, False), (False, True)])
    if moved[0]:
        lefts = next_content(
            chance, lefts, LEFT_IDS, lambda c, key: changed(c, lefts, key, left_row)
        )
    if moved[1]:
        rights = next_content(
            chance, rights, right_ids, lambda c, key: changed(c, rights, key, right_row)
        )
    return lefts, rights


def changed(
    chance: random.Random, rows: Rows, key: Any, row_of: Callable[[random.Random, Any], Row]
) -> Row:
    """Return a new row; sometimes the old one with another value in one column."""
    row = row_of(chance, key)
    if key in rows and chance.random() < 0.6:
        column = chance.choice(list(row)[1:])
        return {**rows[key], column: row[column]}
    return row


def check_states(units: Units, lefts: Rows, rights: Rows) -> None:
    """Assert that the states hold the rows that can match, and the degrees above 0."""
    node = units.node
    for side, (rows, state) in enumerate(zip((lefts, rights), units.states[0], strict=True)):
        compared = [comparison.sides[side] for comparison in node.comparisons]
        expected = [row for row in rows.values() if all(row[name] is not None for name in compared)]
        assert len(state.rows) == len(expected)
    if node.kind is JoinKind.INNER:
        return
    opposite = {0: rights, 1: lefts}
    for side, state in enumerate(units.states[1]):
        rows = (lefts, rights)[side]
        degrees = [
            sum(
                matches(node, *((row, o) if side == 0 else (o, row)))
                for o in opposite[side].values()
            )
            for row in rows.values()
        ]
        assert sorted(row["degree"] for row in state.rows) == sorted(filter(None, degrees))


def test_a_moved_row_costs_the_rows_that_it_gains_and_loses() -> None:
    """A greatest value that grows is read from the old to the new one, and nothing else comes."""
    node = replace(
        join_of(JoinKind.INNER, "less", has_one_row=True),
        comparisons=(Comparison("l_v", Comparator.GREATER, "r_hi"),),
        hidden=("l_v", "r_hi"),
    )
    units = Units(node, 1)
    lefts = {i: {"l_id": i, "l_v": float(i), "l_n": 1, "l_s": "x"} for i in range(100)}
    right = {"r_id": "a", "r_lo": 0.0, "r_hi": 50.5, "r_n": 1}
    units.step(net_changes({}, lefts), net_changes({}, {"a": right}))
    before = units.states[0][0].reads

    output = units.step([], net_changes({"a": right}, {"a": {**right, "r_hi": 53.5}}))

    assert sorted(output.column("l_id").to_pylist()) == [51, 52, 53]
    assert set(output.column("_op").to_pylist()) == {int(Op.DELETE)}
    assert units.states[0][0].reads - before == 3


def test_only_rows_in_the_range_of_a_change_are_read() -> None:
    """A changed interval reads the rows between its bounds."""
    node = replace(join_of(JoinKind.LEFT, "between"), hidden=())
    units = Units(node, 1)
    lefts = {i: {"l_id": i, "l_v": float(i), "l_n": 1, "l_s": "x"} for i in range(100)}
    units.step(net_changes({}, lefts), [])
    right = {"r_id": "a", "r_lo": 7.0, "r_hi": 9.0, "r_n": 1}

    units.step([], [(Op.INSERT, right)])

    assert units.states[0][0].reads == 3


def test_intervals_that_end_before_a_value_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that lies in few of many intervals is not compared with all that begin before it."""
    node = join_of(JoinKind.INNER, "between")
    comparisons = Comparisons(replace(node, comparisons=(BELOW, ABOVE)))
    ids = range(20_000)
    lefts = [{"l_id": i, "l_v": i + 0.5, "l_n": i + 1, "l_s": "x"} for i in ids if i % 100 == 0]
    rights = [{"r_id": str(i), "r_lo": float(i), "r_hi": i + 1.0, "r_n": i + 1} for i in ids]
    sides = [
        comparisons.encode(pa.RecordBatch.from_pylist(rows, arrow.arrow_schema(fields)), number)
        for number, (rows, fields) in enumerate(((lefts, LEFT), (rights, RIGHT)))
    ]
    tested: list[int] = []

    def count(values: Any, others: Any) -> Any:
        tested.append(len(values))
        return np.greater_equal(values, others)

    monkeypatch.setitem(matching_module._TESTS, Comparator.AT_LEAST, count)

    pairs = list(comparisons.pairs(*sides))

    assert sum(len(left_rows) for left_rows, _ in pairs) == len(lefts)
    assert sum(tested) < 100_000 < len(lefts) * len(rights) // 4


def test_matches_of_a_semi_join_are_counted_before_the_shuffle() -> None:
    """A row that meets a thousand rows is one candidate."""
    node = join_of(JoinKind.SEMI, "cross")
    executor, _ = executors_of(node)
    units = Units(node, 1)
    rights = {str(i): {"r_id": str(i), "r_lo": 0.0, "r_hi": 1.0, "r_n": i} for i in range(1000)}
    units.step([], net_changes({}, rights))
    left = {"l_id": 1, "l_v": 1.0, "l_n": 1, "l_s": "x", SIDE_COLUMN: 0}
    fields = [types.Field(SIDE_COLUMN, types.TinyInt()), *LEFT, *RIGHT]

    output = executor(node, units.states[0]).run(chunk_of(fields, [(Op.INSERT, left)]))

    matched = output.filter(pa.array(np.asarray(output.column(PART_COLUMN)) != LEFT_ROW))
    assert sum(matched.column("_matches").to_pylist()) == 1000
    assert matched.num_rows < 1000


@pytest.mark.parametrize("op", [Op.INSERT, Op.DELETE])
def test_a_chunk_that_is_not_net_is_refused(op: Op) -> None:
    """Two inserts, or two deletes, of one key mean that the input's key is wrong."""
    units = Units(join_of(JoinKind.INNER, "cross"), 1)
    row = {"l_id": 1, "l_v": 0.0, "l_n": 1, "l_s": None}

    with pytest.raises(errors.ConsistencyError, match=r"l_id = 1 is (inserted|deleted) twice"):
        units.step([(op, row), (op, {**row, "l_s": "x"})], [])
