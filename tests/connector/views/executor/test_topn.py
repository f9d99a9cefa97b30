"""The top n executor gives the windows of its groups, whatever changed."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cmp_to_key
from typing import Any

import pyarrow as pa
import pytest

from relstate.connector.views.executor.topn import TopNExecutor
from relstate.connector.views.plan.node import Order
from relstate.connector.views.plan.topn import TopN
from relstate.storage import Op, errors, types
from support.bench import Bench
from support.changes import (
    Change,
    Row,
    Rows,
    chunk_of,
    epochs,
    net_changes,
    scan,
    shown,
    shuffled,
)

FIELDS = (
    types.Field("id", types.Int()),
    types.Field("g", types.String()),
    types.Field("o", types.Double()),
    types.Field("p", types.Int()),
    types.Field("v", types.Array(types.Double())),
)
IDS = range(12)
RANK = types.Field("rn", types.Int())
NAN = float("nan")

CASES = {
    "plain": TopN(scan(FIELDS, ["id"]), ("g",), (Order("o"),), 3),
    "descending, nulls last": TopN(
        scan(FIELDS, ["id"]), ("g",), (Order("o", True, False), Order("p", True, True)), 2
    ),
    "ascending, nulls last": TopN(
        scan(FIELDS, ["id"]), ("g",), (Order("p", False, False), Order("o", True)), 2, 1
    ),
    "offset and rank": TopN(scan(FIELDS, ["id"]), ("g",), (Order("p"),), 2, 2, RANK),
    "rank": TopN(scan(FIELDS, ["id"]), ("g",), (Order("p", True),), 3, 0, RANK),
    "order by what is known": TopN(
        scan(FIELDS, ["id"]), ("g",), (Order("g"), Order("p"), Order("p", True), Order("id")), 2
    ),
    "the key holds the group": TopN(scan(FIELDS, ["g", "id"]), ("g",), (Order("o"),), 1),
    "two group fields": TopN(scan(FIELDS, ["id"]), ("g", "p"), (Order("o"),), 1, 1),
    "nothing": TopN(scan(FIELDS, ["id"]), ("g",), (Order("o"),), 0),
    "everything": TopN(scan(FIELDS, ["id"]), ("g",), (Order("o"),), 1_000, 0, RANK),
}


def row_of(chance: random.Random, key: Any) -> Row:
    """Return a row with many equals in what orders it."""
    return {
        "id": key,
        "g": chance.choice(["x", "x", "y", None]),
        "o": chance.choice([None, NAN, 0.0, 1.5, -2.0]),
        "p": chance.choice([None, 1, 2, 3]),
        "v": chance.choice([None, [], [NAN], [1.0, None], [-0.0]]),
    }


def model(node: TopN, rows: Rows) -> list[Row]:
    """Return the windows of all groups."""
    groups: dict[str, list[Row]] = {}
    for row in rows.values():
        groups.setdefault(repr([row[name] for name in node.group]), []).append(row)
    found = []
    for members in groups.values():
        members.sort(key=cmp_to_key(lambda left, right: compared(node, left, right)))
        for place, row in enumerate(members):
            if node.offset <= place < node.offset + node.limit:
                rank = {} if node.rank is None else {node.rank.name: place + 1}
                found.append({**row, **rank})
    return found


def compared(node: TopN, left: Row, right: Row) -> int:
    """Return the order of two rows of one group: -1, 0 or 1."""
    for order in (*node.order, *map(Order, node.child.key)):
        mine, other = (sortable(row[order.name]) for row in (left, right))
        if (mine is None) != (other is None):
            return -1 if (mine is None) == order.nulls_first else 1
        if mine is not None and mine != other:
            return -1 if (mine < other) != order.descending else 1
    return 0


def sortable(value: Any) -> Any:
    """Return a value as Python sorts it like Spark: NaN is the greatest number."""
    if isinstance(value, float):
        return (1, 0.0) if value != value else (0, value)
    return value


def only_growing(node: TopN) -> TopN:
    """Return the node over a table to which rows are only added."""
    return replace(node, child=scan(FIELDS, node.child.key, grows_only=True))


class TopBench(Bench):
    """A top n over a state in memory."""

    def __init__(self, node: TopN) -> None:
        super().__init__(node, TopNExecutor)
        ((self.state,),) = self.states


def chunk(changes: list[Change]) -> pa.RecordBatch:
    """Return changes of the child's rows as a chunk."""
    return chunk_of(FIELDS, changes)


@pytest.mark.parametrize("case", CASES)
def test_what_it_gave_is_the_windows(case: str) -> None:
    """After every epoch the chunks applied are the windows, and the state all rows.

    Rows tie, hold NULLs and NaNs, move between groups, and go, so that others move up.
    """
    node = CASES[case]
    for seed in range(40):
        chance, bench = random.Random(seed), TopBench(node)
        for rows, changes in epochs(chance, 10, IDS, row_of):
            bench.step(chunk(changes))

            assert bench.mirror.content() == sorted(map(shown, model(node, rows)))
            stored = rows.values() if node.limit else ()
            assert sorted(map(shown, bench.state.rows)) == sorted(map(shown, stored))


@pytest.mark.parametrize("case", CASES)
def test_over_rows_that_only_come_it_keeps_the_first(case: str) -> None:
    """The windows are the same, and the state holds no row behind one."""
    node = only_growing(CASES[case])
    until_end = replace(node, limit=node.offset + node.limit, offset=0, rank=None)
    for seed in range(25):
        chance = random.Random(seed)
        bench, rows = TopBench(node), dict[Any, Row]()
        for _ in range(6):
            old = rows
            new = [key for key in IDS if key not in old and chance.random() < 0.3]
            rows = {**old, **{key: row_of(chance, key) for key in new}}
            bench.step(chunk(shuffled(chance, net_changes(old, rows))))

            assert bench.mirror.content() == sorted(map(shown, model(node, rows)))
            kept = model(until_end, rows) if node.limit else []
            assert sorted(map(shown, bench.state.rows)) == sorted(map(shown, kept))


def test_one_group_for_all_lies_in_vnode_0() -> None:
    """A global top n has a constant group, and no distribution."""
    fields = (types.Field("one", types.TinyInt()), *FIELDS)
    node = TopN(scan(fields, ["one", "id"]), ("one",), (Order("o"),), 1, is_global=True)

    (spec,) = TopNExecutor.tables(node)

    assert spec.distribution == ()
    assert [order.name for order in spec.primary_key] == ["one", "o", "id"]


def test_what_stays_is_silent() -> None:
    """A row whose values and place stay is not told of, nor one that was written anew as it was."""
    bench = TopBench(CASES["rank"])
    rows = {i: {"id": i, "g": "x", "o": 0.0, "p": i, "v": [NAN]} for i in range(4)}
    bench.step(chunk(net_changes({}, rows)))

    assert bench.run(chunk([(Op.DELETE, rows[3]), (Op.INSERT, rows[3])])).num_rows == 0
    assert bench.run(chunk([(Op.DELETE, rows[0])])).num_rows == 0
    changed = bench.run(chunk([(Op.DELETE, rows[1]), (Op.INSERT, {**rows[1], "v": []})]))
    assert [row["id"] for row in changed.to_pylist()] == [1, 1]


def test_it_reads_heads_only() -> None:
    """Of a large group no more is read than the window and one row for each that goes."""
    bench = TopBench(CASES["plain"])
    rows = {i: {"id": i, "g": "x", "o": float(i), "p": 0, "v": None} for i in range(200)}
    bench.step(chunk(net_changes({}, rows)))

    bench.run(chunk([(Op.DELETE, rows[1]), (Op.DELETE, rows[100])]))

    assert bench.state.reads == 3 + 2


def test_the_order_of_changes_says_nothing() -> None:
    """Two attempts whose rows come in other orders give the same chunk."""
    bench, chance = TopBench(CASES["rank"]), random.Random(1)
    rows = {key: row_of(chance, key) for key in IDS}
    bench.step(chunk(net_changes({}, rows)))
    changes = net_changes(rows, {key: row_of(chance, key) for key in IDS})

    given = [repr(bench.run(chunk(shuffled(chance, changes))).to_pylist()) for _ in range(5)]

    assert len(set(given)) == 1


def test_floats_go_as_they_came() -> None:
    """-0 comes back from the state as 0, so it is given as 0 in the first place."""
    bench = TopBench(CASES["plain"])
    row = {"id": 1, "g": "x", "o": -0.0, "p": 0, "v": None}
    bench.step(chunk([(Op.INSERT, row)]))

    assert "-0.0" not in repr(bench.mirror.rows)
    bench.step(chunk([(Op.DELETE, row)]))
    assert bench.mirror.rows == {}


def test_a_row_that_is_missing_within_a_head_is_told_of() -> None:
    """Where a group goes on behind its head, a delete before the head's end must find its row."""
    bench = TopBench(CASES["plain"])
    rows = {i: {"id": i, "g": "x", "o": float(i), "p": 0, "v": None} for i in range(9)}
    bench.step(chunk(net_changes({}, rows)))

    with pytest.raises(errors.ConsistencyError, match="id = 9 is deleted but does not exist"):
        bench.run(chunk([(Op.DELETE, {**rows[1], "id": 9})]))


def test_what_does_not_fit_is_refused() -> None:
    """A delete of no row, an insert over one, and a delete where rows only come."""
    row = {"id": 1, "g": "x", "o": 0.0, "p": 0, "v": None}
    bench, growing = TopBench(CASES["plain"]), TopBench(only_growing(CASES["plain"]))
    with pytest.raises(errors.ConsistencyError, match="id = 1 is deleted but does not exist"):
        bench.run(chunk([(Op.DELETE, row)]))
    bench.step(chunk([(Op.INSERT, row)]))
    growing.step(chunk([(Op.INSERT, row)]))

    with pytest.raises(errors.ConsistencyError, match="id = 1 is inserted but exists"):
        bench.run(chunk([(Op.INSERT, row)]))
    with pytest.raises(errors.ConsistencyError, match="id = 1 is deleted but does not exist"):
        growing.run(chunk([(Op.DELETE, row)]))
    with pytest.raises(errors.ConsistencyError, match="id = 2 is inserted twice"):
        bench.run(chunk([(Op.INSERT, {**row, "id": 2}), (Op.INSERT, {**row, "id": 2})]))
