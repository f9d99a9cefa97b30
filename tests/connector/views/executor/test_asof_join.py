"""After every epoch the executor of an ASOF join has emitted each left row with its nearest."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from relstate.connector.views.executor import asof_join as asof_module
from relstate.connector.views.executor.asof_join import AsofJoinExecutor
from relstate.connector.views.executor.executor import SIDE_COLUMN
from relstate.connector.views.plan.asof_join import AsofJoin
from relstate.connector.views.plan.broadcast_join import Comparator, Comparison
from relstate.connector.views.plan.join import JoinKey, JoinKind
from relstate.storage import Op, errors, types
from support.bench import Bench
from support.changes import (
    Change,
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

LEFT = (
    types.Field("l_id", types.BigInt()),
    types.Field("l_k", types.Int()),
    types.Field("l_t", types.Int()),
    types.Field("l_v", types.String()),
)
RIGHT = (
    types.Field("r_id", types.String()),
    types.Field("r_k", types.Int()),
    types.Field("r_t", types.Int()),
    types.Field("r_w", types.Int()),
)
LEFT_IDS, RIGHT_IDS = range(9), [None, *"abcdefgh"]
COMPARATORS = [kind for kind in Comparator if kind is not Comparator.EQUAL]
KINDS = [JoinKind.INNER, JoinKind.LEFT]


def asof_of(
    comparator: Comparator, kind: JoinKind = JoinKind.LEFT, *, is_null_safe: bool = False
) -> AsofJoin:
    """Return a join by an integer, of rows with a time."""
    key = JoinKey("l_k", "r_k", types.Field("k", types.Int()), is_null_safe)
    comparison = Comparison("l_t", comparator, "r_t")
    return AsofJoin(scan(LEFT, ["l_id"]), scan(RIGHT, ["r_id"]), kind, (key,), comparison)


def asof_chunk(lefts: list[Change], rights: list[Change]) -> pa.RecordBatch:
    """Return the chunk of a join: the rows of both sides with their keys."""
    changes = [(op, {SIDE_COLUMN: 0, "k": row["l_k"], **row}) for op, row in lefts]
    changes += [(op, {SIDE_COLUMN: 1, "k": row["r_k"], **row}) for op, row in rights]
    side = types.Field(SIDE_COLUMN, types.TinyInt())
    return chunk_of([side, types.Field("k", types.Int()), *LEFT, *RIGHT], changes)


def matches(node: AsofJoin, left: Row, right: Row) -> bool:
    """Return whether a right row meets the conditions of a left one."""
    if left["l_k"] != right["r_k"] or (left["l_k"] is None and not node.keys[0].is_null_safe):
        return False
    if left["l_t"] is None or right["r_t"] is None:
        return False
    difference = left["l_t"] - right["r_t"]
    answers: dict[Comparator, bool] = {
        Comparator.LESS: difference < 0,
        Comparator.AT_MOST: difference <= 0,
        Comparator.GREATER: difference > 0,
        Comparator.AT_LEAST: difference >= 0,
    }
    return answers[node.comparison.comparator]


def model(node: AsofJoin, lefts: Rows, rights: Rows) -> list[Row]:
    """Return the rows of a join, by nested loops."""
    rows = []
    for left in lefts.values():
        # None is the first of the keys.
        near = sorted(
            (right for right in rights.values() if matches(node, left, right)),
            key=lambda right: (abs(left["l_t"] - right["r_t"]), right["r_id"] or ""),
        )
        if near or node.kind is JoinKind.LEFT:
            rows.append({**left, **(near[0] if near else dict.fromkeys(node.right.names))})
    return rows


def left_row(chance: random.Random, key: Any) -> Row:
    """Return a row of the left side."""
    time = chance.choice([None, *range(6)])
    return {"l_id": key, "l_k": chance.choice([None, 1, 1, 2]), "l_t": time, "l_v": "x" * (key % 3)}


def right_row(chance: random.Random, key: Any) -> Row:
    """Return a row of the right side."""
    time, value = chance.choice([None, *range(6)]), chance.choice([None, 1, 2])
    return {"r_id": key, "r_k": chance.choice([None, 1, 1, 2]), "r_t": time, "r_w": value}


@pytest.mark.parametrize("is_null_safe", [False, True])
@pytest.mark.parametrize(("comparator", "kind"), list(product(COMPARATORS, KINDS)))
def test_the_output_is_each_row_with_its_nearest(
    comparator: Comparator,
    kind: JoinKind,
    is_null_safe: bool,
    monkeypatch: pytest.MonkeyPatch,
    seeds: Seeds,
) -> None:
    """The applied chunks are the join of the inputs, and the states hold the rows that can match.

    Times tie, within a side and across; in one epoch rows of both sides come, go and change.
    """
    node = asof_of(comparator, kind, is_null_safe=is_null_safe)
    for seed in seeds(25):
        chance = random.Random(seed)
        monkeypatch.setattr(asof_module, "KEYS_AT_ONCE", 1 if seed % 2 else 1 << 14)
        bench, lefts, rights = Bench(node, AsofJoinExecutor), dict[Any, Row](), dict[Any, Row]()
        for _ in range(8):
            old = lefts, rights
            moved = chance.choice([(True, True), (True, False), (False, True)])
            if moved[0]:
                lefts = dict(next_content(chance, lefts, LEFT_IDS, left_row))
            if moved[1]:
                rights = dict(next_content(chance, rights, RIGHT_IDS, right_row))
            changes = net_changes(old[0], lefts), net_changes(old[1], rights)
            bench.step(asof_chunk(*(shuffled(chance, side) for side in changes)))

            expected = sorted(map(shown, model(node, lefts, rights)))
            assert bench.mirror.content() == expected, seed
            check_states(bench, lefts, rights)


def check_states(bench: Bench, lefts: Rows, rights: Rows) -> None:
    """Assert that the states hold the rows that can match."""
    key = bench.node.keys[0]
    for (key_name, time), rows, state in zip(
        (("l_k", "l_t"), ("r_k", "r_t")), (lefts, rights), bench.states[0], strict=True
    ):
        expected = [
            {"k": row[key_name], **row}
            for row in rows.values()
            if row[time] is not None and (key.is_null_safe or row[key_name] is not None)
        ]
        assert sorted(map(shown, state.rows)) == sorted(map(shown, expected))


@pytest.mark.parametrize("comparator", COMPARATORS)
def test_a_changed_row_costs_the_rows_near_it(comparator: Comparator) -> None:
    """Of 400 rows of a key on each side, a change reads those between it and the next."""
    bench = Bench(asof_of(comparator), AsofJoinExecutor)
    lefts = [(Op.INSERT, {"l_id": n, "l_k": 1, "l_t": 10 * n + 5, "l_v": "x"}) for n in range(400)]
    rights = [(Op.INSERT, right_of(n)) for n in range(400)]
    bench.step(asof_chunk(lefts, rights))
    left_state, right_state = bench.states[0]
    left_state.reads = right_state.reads = 0

    bench.step(asof_chunk([], [(Op.DELETE, right_of(200)), (Op.INSERT, right_of(200, 7))]))
    bench.step(asof_chunk([], [(Op.DELETE, right_of(30))]))
    bench.step(asof_chunk([(Op.DELETE, lefts[90][1])], []))

    assert left_state.reads == 2
    assert right_state.reads < 12


def right_of(number: int, value: int = 0) -> Row:
    """Return one of many right rows."""
    return {"r_id": f"{number:03}", "r_k": 1, "r_t": 10 * number, "r_w": value}


def test_changes_that_are_not_net_are_an_error() -> None:
    """A row that is inserted twice in one epoch has a key that does not identify it."""
    bench = Bench(asof_of(Comparator.LESS), AsofJoinExecutor)
    with pytest.raises(errors.ConsistencyError, match="the right side of asof_join"):
        bench.step(asof_chunk([], [(Op.INSERT, right_of(1)), (Op.INSERT, right_of(1))]))
