"""The top n executor emits the windows of its groups, whatever changes."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cmp_to_key
from typing import Any

import pyarrow as pa
import pytest

from relstate.connector.views.executor.topn import TopNExecutor
from relstate.connector.views.plan.node import Order
from relstate.connector.views.plan.topn import Ranking, TopN
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
from support.examples import Seeds
from support.ordering import compared_values, sortable

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
    "with ties": TopN(
        scan(FIELDS, ["id"]), ("g",), (Order("o"),), 3, 0, RANK, ranking=Ranking.RANK
    ),
    "ties after an offset": TopN(
        scan(FIELDS, ["id"]), ("g",), (Order("p", True, False),), 2, 2, ranking=Ranking.RANK
    ),
    "ties counted once": TopN(
        scan(FIELDS, ["id"]),
        ("g",),
        (Order("o"), Order("p")),
        2,
        1,
        RANK,
        ranking=Ranking.DENSE_RANK,
    ),
    "ties of descending places": TopN(
        scan(FIELDS, ["id"]), ("g",), (Order("p", True),), 1, ranking=Ranking.DENSE_RANK
    ),
    "nothing": TopN(scan(FIELDS, ["id"]), ("g",), (Order("o"),), 0),
    "everything": TopN(scan(FIELDS, ["id"]), ("g",), (Order("o"),), 1_000, 0, RANK),
}


def row_of(chance: random.Random, key: Any) -> Row:
    """Return a row that ties with many others in the order."""
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
    windows = []
    for members in groups.values():
        members.sort(key=cmp_to_key(lambda left, right: compared(node, left, right)))
        for position, row in zip(ranks_of(node, members), members, strict=True):
            if node.offset <= position < node.offset + node.limit:
                rank = {} if node.rank is None else {node.rank.name: position + 1}
                windows.append({**row, **rank})
    return windows


def ranks_of(node: TopN, members: list[Row]) -> list[int]:
    """Return the ranks of the sorted rows of one group, from 0."""
    places = [str([sortable(row[order.name]) for order in node.order]) for row in members]
    match node.ranking:
        case Ranking.ROW_NUMBER:
            return list(range(len(members)))
        case Ranking.RANK:
            return [places.index(place) for place in places]
        case Ranking.DENSE_RANK:
            return [list(dict.fromkeys(places)).index(place) for place in places]


def compared(node: TopN, left: Row, right: Row) -> int:
    """Return the order of two rows of one group: -1, 0 or 1."""
    orders = (*node.order, *map(Order, node.child.key))
    results = (compared_values(order, left[order.name], right[order.name]) for order in orders)
    return next(filter(None, results), 0)


def only_growing(node: TopN) -> TopN:
    """Return the node over a table into which rows are only inserted."""
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
def test_the_output_is_the_windows(case: str, seeds: Seeds) -> None:
    """The applied chunks are the windows, and the state holds all rows.

    Rows tie, hold NULLs and NaNs, move between groups, and are deleted, so that others move up.
    """
    node = CASES[case]
    for seed in seeds(40):
        chance, bench = random.Random(seed), TopBench(node)
        for rows, changes in epochs(chance, 10, IDS, row_of):
            bench.step(chunk(changes))

            assert bench.mirror.content() == sorted(map(shown, model(node, rows)))
            stored = rows.values() if node.limit else ()
            assert sorted(map(shown, bench.state.rows)) == sorted(map(shown, stored))


@pytest.mark.parametrize("case", CASES)
def test_only_first_rows_are_stored_if_rows_are_only_inserted(case: str, seeds: Seeds) -> None:
    """The windows are the same, and the state holds no row after a window."""
    node = only_growing(CASES[case])
    until_end = replace(node, limit=node.offset + node.limit, offset=0, rank=None)
    for seed in seeds(25):
        chance = random.Random(seed)
        bench, rows = TopBench(node), dict[Any, Row]()
        for _ in range(6):
            old = rows
            new = [key for key in IDS if key not in old and chance.random() < 0.3]
            rows = {**old, **{key: row_of(chance, key) for key in new}}
            bench.step(chunk(shuffled(chance, net_changes(old, rows))))

            assert bench.mirror.content() == sorted(map(shown, model(node, rows)))
            stored = model(until_end, rows) if node.limit else []
            assert sorted(map(shown, bench.state.rows)) == sorted(map(shown, stored))


def test_one_group_for_all_rows_is_in_vnode_0() -> None:
    """A global top n has a constant group and no distribution."""
    fields = (types.Field("one", types.TinyInt()), *FIELDS)
    node = TopN(scan(fields, ["one", "id"]), ("one",), (Order("o"),), 1, is_global=True)

    (spec,) = TopNExecutor.tables(node)

    assert spec.distribution == ()
    assert [order.name for order in spec.primary_key] == ["one", "o", "id"]


def test_unchanged_rows_are_not_emitted() -> None:
    """A row with the same values and position is not emitted, even if it was written again."""
    bench = TopBench(CASES["rank"])
    rows = {i: {"id": i, "g": "x", "o": 0.0, "p": i, "v": [NAN]} for i in range(4)}
    bench.step(chunk(net_changes({}, rows)))

    assert bench.run(chunk([(Op.DELETE, rows[3]), (Op.INSERT, rows[3])])).num_rows == 0
    assert bench.run(chunk([(Op.DELETE, rows[0])])).num_rows == 0
    changed = bench.run(chunk([(Op.DELETE, rows[1]), (Op.INSERT, {**rows[1], "v": []})]))
    assert [row["id"] for row in changed.to_pylist()] == [1, 1]


def test_only_first_rows_are_read() -> None:
    """Of a large group only the window is read, and one more row per deleted row."""
    bench = TopBench(CASES["plain"])
    rows = {i: {"id": i, "g": "x", "o": float(i), "p": 0, "v": None} for i in range(200)}
    bench.step(chunk(net_changes({}, rows)))

    bench.run(chunk([(Op.DELETE, rows[1]), (Op.DELETE, rows[100])]))

    assert bench.state.reads == 3 + 2


def test_ties_are_read_to_their_end_and_no_further() -> None:
    """If more rows tie with the last one than were read first, more are read."""
    node = replace(CASES["with ties"], limit=2)
    bench = TopBench(node)
    rows = {i: {"id": i, "g": "x", "o": float(i // 50), "p": 0, "v": None} for i in range(300)}
    bench.step(chunk(net_changes({}, rows)))
    assert len(bench.mirror.rows) == 50

    changed = bench.run(chunk([(Op.DELETE, rows[0]), (Op.INSERT, {**rows[0], "o": 9.0})]))

    assert [row["id"] for row in changed.to_pylist()] == [0]
    assert bench.state.reads < 250


def test_the_order_of_changes_does_not_matter() -> None:
    """Two attempts over the same changes in another order return equal chunks."""
    bench, chance = TopBench(CASES["rank"]), random.Random(1)
    rows = {key: row_of(chance, key) for key in IDS}
    bench.step(chunk(net_changes({}, rows)))
    changes = net_changes(rows, {key: row_of(chance, key) for key in IDS})

    outputs = [repr(bench.run(chunk(shuffled(chance, changes))).to_pylist()) for _ in range(5)]

    assert len(set(outputs)) == 1


def test_floats_are_deleted_as_they_were_emitted() -> None:
    """A row of the order has the zero that it was written with, and is found by the other, too."""
    bench = TopBench(CASES["plain"])
    row = {"id": 1, "g": "x", "o": -0.0, "p": 0, "v": None}
    bench.step(chunk([(Op.INSERT, row)]))

    assert "-0.0" in repr(bench.mirror.rows)
    bench.step(chunk([(Op.DELETE, {**row, "o": 0.0})]))
    assert bench.mirror.rows == {}


def test_deleting_a_missing_first_row_is_refused() -> None:
    """If a group has more rows than are read, a deleted row that would be read must exist."""
    bench = TopBench(CASES["plain"])
    rows = {i: {"id": i, "g": "x", "o": float(i), "p": 0, "v": None} for i in range(9)}
    bench.step(chunk(net_changes({}, rows)))

    with pytest.raises(errors.ConsistencyError, match="id = 9 is deleted but does not exist"):
        bench.run(chunk([(Op.DELETE, {**rows[1], "id": 9})]))


def test_what_does_not_fit_is_refused() -> None:
    """Deleting a missing row, inserting an existing one, deleting where rows are only inserted."""
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
