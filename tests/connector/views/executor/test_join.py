"""After every epoch the executors of a join have emitted the join of both inputs."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from relstate.connector.views.executor import join as join_module
from relstate.connector.views.executor.degree import DegreeExecutor
from relstate.connector.views.executor.executor import PAIR, PART_COLUMN, SIDE_COLUMN
from relstate.connector.views.executor.join import JoinExecutor
from relstate.connector.views.operators import executors_of
from relstate.connector.views.plan.join import Join, JoinKey, JoinKind
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
from support.memory_state import MemoryState

LEFT = (
    types.Field("l_id", types.BigInt()),
    types.Field("l_a", types.Int()),
    types.Field("l_b", types.Double()),
    types.Field("l_v", types.String()),
)
RIGHT = (
    types.Field("r_id", types.String()),
    types.Field("r_a", types.Int()),
    types.Field("r_b", types.Double()),
    types.Field("r_w", types.Int()),
)
LEFT_IDS, RIGHT_IDS = range(6), [None, "a", "b", "c", "d"]
KINDS = [*JoinKind]
CASES = [(kind, False) for kind in KINDS]
CASES += [(kind, True) for kind in KINDS if kind is not JoinKind.INNER]


def join_of(kind: JoinKind, *, is_null_safe: bool = False, is_conditional: bool = False) -> Join:
    """Return a join by an integer and a float."""
    keys = (
        JoinKey("l_a", "r_a", types.Field("k", types.Int()), is_null_safe),
        JoinKey("l_b", "r_b", types.Field("f", types.Double())),
    )
    condition = "length(l_v) <> r_w" if is_conditional else None
    return Join(scan(LEFT, ["l_id"]), scan(RIGHT, ["r_id"]), kind, keys, condition)


class JoinBench(Bench):
    """The executors of a join; between them it evaluates the condition, as Spark does."""

    def __init__(self, node: Join) -> None:
        super().__init__(node, *executors_of(node))

    def between(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Return the candidates without the pairs that the condition refuses."""
        if self.node.condition is None:
            return chunk
        passes = [row[PART_COLUMN] != PAIR or condition(row) for row in chunk.to_pylist()]
        return chunk.filter(pa.array(passes, pa.bool_()))


def join_chunk(node: Join, lefts: list[Change], rights: list[Change]) -> pa.RecordBatch:
    """Return the chunk of a join: the rows of both sides with their keys."""
    changes = [(op, with_keys(node, row, 0)) for op, row in lefts]
    changes += [(op, with_keys(node, row, 1)) for op, row in rights]
    side = types.Field(SIDE_COLUMN, types.TinyInt())
    keys = [key.field for key in node.keys]
    return chunk_of([side, *keys, *node.left.fields, *node.right.fields], changes)


def with_keys(node: Join, row: Row, side: int) -> Row:
    """Return a row of a side as it is in the join's chunks."""
    return {SIDE_COLUMN: side, **keys_of(node, row, side), **row}


def keys_of(node: Join, row: Row, side: int) -> Row:
    """Return the key fields of a row."""
    return {key.field.name: row[(key.left, key.right)[side]] for key in node.keys}


def condition(row: Row) -> bool:
    """Return whether the condition is true for a pair; NULL is not true."""
    return None not in (row["l_v"], row["r_w"]) and len(row["l_v"]) != row["r_w"]


def matches(node: Join, left: Row, right: Row) -> bool:
    """Return whether two rows match."""
    for key in node.keys:
        left_value, right_value = left[key.left], right[key.right]
        if left_value != right_value or (left_value is None and not key.is_null_safe):
            return False
    return node.condition is None or condition({**left, **right})


def model(node: Join, lefts: Rows, rights: Rows) -> list[Row]:
    """Return the rows of a join, by nested loops."""
    no_left, no_right = (dict.fromkeys(side.names) for side in node.children)
    pairs = [(x, y) for x, y in product(lefts.values(), rights.values()) if matches(node, x, y)]
    unmatched_left = [x for x in lefts.values() if not any(pair[0] is x for pair in pairs)]
    unmatched_right = [y for y in rights.values() if not any(pair[1] is y for pair in pairs)]
    if node.kind is JoinKind.SEMI:
        return [{**keys_of(node, x, 0), **x} for x in lefts.values() if x not in unmatched_left]
    if node.kind is JoinKind.ANTI:
        return [{**keys_of(node, x, 0), **x} for x in unmatched_left]
    rows = [{**keys_of(node, x, 0), **x, **y} for x, y in pairs]
    if node.kind.keeps_left:
        rows += [{**keys_of(node, x, 0), **x, **no_right} for x in unmatched_left]
    if node.kind.keeps_right:
        rows += [{**keys_of(node, y, 1), **no_left, **y} for y in unmatched_right]
    return rows


def left_row(chance: random.Random, key: Any) -> Row:
    """Return a row of the left side."""
    a, b = chance.choice([None, 1, 1, 2]), chance.choice([0.0, 0.0, 0.0, 1.5, None])
    return {"l_id": key, "l_a": a, "l_b": b, "l_v": chance.choice([None, "x", "xy", "xyz"])}


def right_row(chance: random.Random, key: Any) -> Row:
    """Return a row of the right side."""
    a, b = chance.choice([None, 1, 1, 2]), chance.choice([0.0, 0.0, 0.0, 1.5, None])
    return {"r_id": key, "r_a": a, "r_b": b, "r_w": chance.choice([None, 1, 2, 3])}


@pytest.mark.parametrize("is_null_safe", [False, True])
@pytest.mark.parametrize(("kind", "is_conditional"), CASES)
def test_the_output_is_the_join(
    kind: JoinKind,
    is_null_safe: bool,
    is_conditional: bool,
    monkeypatch: pytest.MonkeyPatch,
    seeds: Seeds,
) -> None:
    """The applied chunks are the join of the inputs, and the states hold the inputs.

    In one epoch rows of both sides are inserted, deleted and changed, also in their keys.
    """
    node = join_of(kind, is_null_safe=is_null_safe, is_conditional=is_conditional)
    for seed in seeds(25):
        chance = random.Random(seed)
        if seed % 2:
            monkeypatch.setattr(join_module, "KEYS_AT_ONCE", 2)
            monkeypatch.setattr(join_module, "PAIRS_AT_ONCE", 3)
        bench = JoinBench(node)
        lefts: Rows = {}
        rights: Rows = {}
        for _ in range(7):
            old = lefts, rights
            lefts, rights = follow(chance, lefts, rights)
            changes = net_changes(old[0], lefts), net_changes(old[1], rights)
            bench.step(join_chunk(node, *(shuffled(chance, side) for side in changes)))

            assert bench.mirror.content() == sorted(map(shown, model(node, lefts, rights)))
            check_states(bench, lefts, rights)


def follow(chance: random.Random, lefts: Rows, rights: Rows) -> tuple[Rows, Rows]:
    """Return the next content of both sides; sometimes only one of them changes."""
    moved = chance.choice([(True, True), (True, True), (True, False), (False, True)])
    if moved[0]:
        lefts = next_content(chance, lefts, LEFT_IDS, left_row)
    if moved[1]:
        rights = next_content(chance, rights, RIGHT_IDS, right_row)
    return lefts, rights


def check_states(bench: JoinBench, lefts: Rows, rights: Rows) -> None:
    """Assert that the states hold the rows that can match, and the degrees above 0."""
    node = bench.node
    for side, (rows, state) in enumerate(zip((lefts, rights), bench.states[0], strict=True)):
        keyed = [{**keys_of(node, row, side), **row} for row in rows.values()]
        expected = [row for row in keyed if can_match(node, row)]
        assert sorted(map(shown, state.rows)) == sorted(map(shown, expected))
    kept_sides = [
        side for side, is_kept in ((0, node.kind.keeps_left), (1, node.kind.keeps_right)) if is_kept
    ]
    degree_states = bench.states[1] if kept_sides else ()
    for side, state in zip(kept_sides, degree_states, strict=True):
        assert sorted(map(shown, state.rows)) == sorted(degrees(node, side, lefts, rights))


def can_match(node: Join, row: Row) -> bool:
    """Return whether no NULL in its keys keeps a row from matching."""
    return all(key.is_null_safe or row[key.field.name] is not None for key in node.keys)


def degrees(node: Join, side: int, lefts: Rows, rights: Rows) -> list[str]:
    """Return the degrees above 0 of a side's rows, as its state holds them."""
    rows, opposite = ((lefts, rights), (rights, lefts))[side]
    result = []
    for row in rows.values():
        pairs = [(row, match) if side == 0 else (match, row) for match in opposite.values()]
        degree = sum(matches(node, *pair) for pair in pairs)
        (key,) = node.children[side].key
        if degree:
            result.append(shown({**keys_of(node, row, side), key: row[key], "degree": degree}))
    return result


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_changes_does_not_matter(kind: JoinKind, seeds: Seeds) -> None:
    """Attempts over the same changes in other orders return equal rows and write equal state."""
    node = join_of(kind, is_null_safe=True)
    for seed in seeds(20):
        chance = random.Random(seed)
        attempts = JoinBench(node), JoinBench(node)
        lefts, rights = follow(chance, {}, {})
        for attempt in attempts:
            attempt.step(join_chunk(node, net_changes({}, lefts), net_changes({}, rights)))
        more = follow(chance, lefts, rights)
        changes = net_changes(lefts, more[0]), net_changes(rights, more[1])
        results = []
        for attempt in attempts:
            output = attempt.run(join_chunk(node, *(shuffled(chance, side) for side in changes)))
            attempt.commit()
            states = [state.rows for own in attempt.states for state in own]
            results.append((sorted(map(shown, output.to_pylist())), states))

        assert results[0] == results[1]


def test_equal_floats_are_one_value() -> None:
    """-0 and 0 match; the key's field holds that of the left row, all fields as they were."""
    node = join_of(JoinKind.LEFT)
    left = {"l_id": 1, "l_a": 1, "l_b": -0.0, "l_v": None}
    right = {"r_id": "a", "r_a": 1, "r_b": 0.0, "r_w": None}

    output = JoinBench(node).run(join_chunk(node, [(Op.INSERT, left)], [(Op.INSERT, right)]))

    assert output.column("f").to_pylist() == [0.0]
    assert str(output.column("f")[0].as_py()) == "-0.0"
    assert str(output.column("l_b")[0].as_py()) == "-0.0"


def test_only_matches_of_changes_are_read() -> None:
    """An epoch reads as many rows as its pairs need, none with other keys."""
    node = join_of(JoinKind.INNER)
    bench = JoinBench(node)
    lefts = {i: {"l_id": i, "l_a": i, "l_b": 0.0, "l_v": None} for i in range(100)}
    rights = {str(i): {"r_id": str(i), "r_a": i, "r_b": 0.0, "r_w": i} for i in range(100)}
    bench.step(join_chunk(node, net_changes({}, lefts), net_changes({}, rights)))

    bench.run(join_chunk(node, [(Op.DELETE, lefts[7])], []))

    assert [state.reads for state in bench.states[0]] == [0, 1]


def test_pairs_come_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many matches a row has, no chunk of `batches` has more pairs than allowed."""
    monkeypatch.setattr(join_module, "PAIRS_AT_ONCE", 7)
    node = join_of(JoinKind.INNER)
    bench = JoinBench(node)
    lefts = {i: {"l_id": i, "l_a": 1, "l_b": 0.0, "l_v": None} for i in range(10)}
    rights = {str(i): {"r_id": str(i), "r_a": 1, "r_b": 0.0, "r_w": i} for i in range(10)}
    chunk = join_chunk(node, net_changes({}, lefts), net_changes({}, rights))

    batches = list(JoinExecutor(node, bench.states[0]).batches(chunk))

    assert [batch.num_rows for batch in batches] == [7] * 14 + [2]
    assert len({shown(row) for batch in batches for row in batch.to_pylist()}) == 100


@pytest.mark.parametrize("kind", KINDS)
def test_no_changes_give_no_rows(kind: JoinKind) -> None:
    """For an empty chunk the output is empty and has the columns of the node."""
    node = join_of(kind)

    output = JoinBench(node).run(join_chunk(node, [], []))

    assert output.num_rows == 0
    assert output.schema.names == ["_op", *node.names]


@pytest.mark.parametrize("op", [Op.INSERT, Op.DELETE])
def test_a_chunk_that_is_not_net_is_refused(op: Op) -> None:
    """Two inserts, or two deletes, of one key mean that the input's key is wrong."""
    node = join_of(JoinKind.INNER)
    row = {"l_id": 1, "l_a": 1, "l_b": 0.0, "l_v": None}
    chunk = join_chunk(node, [(op, row), (op, {**row, "l_v": "x"})], [])

    with pytest.raises(errors.ConsistencyError, match=r"l_id = 1 is (inserted|deleted) twice"):
        JoinBench(node).run(chunk)


def degree_chunk(node: Join, rows: list[tuple[Op, int, Row]]) -> pa.RecordBatch:
    """Return candidates: op, part and the fields that are not NULL."""
    part = types.Field(PART_COLUMN, types.TinyInt())
    fields = [part, *(key.field for key in node.keys), *node.left.fields, *node.right.fields]
    return chunk_of(fields, [(op, {PART_COLUMN: number, **row}) for op, number, row in rows])


def test_degrees_that_do_not_add_up_are_refused() -> None:
    """A row cannot lose more matches than it had, nor be deleted and have one."""
    node = join_of(JoinKind.LEFT)
    states = [MemoryState(spec) for spec in DegreeExecutor.tables(node)]
    row = {"k": 1, "f": 0.0, "l_id": 1, "l_a": 1, "l_b": 0.0}
    pair = {**row, "r_id": "a", "r_a": 1, "r_b": 0.0}
    run: Callable[[pa.RecordBatch], pa.RecordBatch] = DegreeExecutor(node, states).run
    run(degree_chunk(node, [(Op.INSERT, 1, row), (Op.INSERT, PAIR, pair)]))
    states[0].commit()

    with pytest.raises(errors.ConsistencyError, match="l_id = 1 is deleted and has 1 matches"):
        run(degree_chunk(node, [(Op.DELETE, 1, row)]))
    with pytest.raises(errors.ConsistencyError, match="l_id = 1 exists and has -1 matches"):
        run(degree_chunk(node, [(Op.DELETE, PAIR, pair), (Op.DELETE, PAIR, {**pair, "r_id": "b"})]))


def test_a_key_may_be_named_as_the_degree_is() -> None:
    """The degree's column is renamed if a key column has its name, whatever the case."""
    left = (types.Field("Degree", types.Int()), types.Field("v", types.Int()))
    key = JoinKey("v", "r_a", types.Field("k", types.Int()))
    node = Join(scan(left, ["Degree"]), scan(RIGHT, ["r_id"]), JoinKind.LEFT, (key,))

    (spec,) = DegreeExecutor.tables(node)

    assert [field.name for field in spec.fields] == ["k", "Degree", "degree_2"]


def test_a_row_with_many_matches() -> None:
    """One inserted dimension row is paired once with each of its hundred thousand facts."""
    node = join_of(JoinKind.INNER)
    bench = JoinBench(node)
    count = 100_000
    lefts = pa.RecordBatch.from_pydict(
        {
            "k": np.ones(count, np.int32),
            "f": np.zeros(count),
            "l_id": np.arange(count),
            "l_a": np.ones(count, np.int32),
            "l_b": np.zeros(count),
            "l_v": pa.nulls(count, pa.string()),
        }
    )
    bench.states[0][0].write(lefts)
    bench.commit()
    right = {"r_id": "a", "r_a": 1, "r_b": 0.0, "r_w": None}

    output = bench.run(join_chunk(node, [], [(Op.INSERT, right)]))

    assert np.array_equal(np.sort(np.asarray(output.column("l_id"))), np.arange(count))
