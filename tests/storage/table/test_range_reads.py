"""Laws of reads by ranges of the first key column, in some vnodes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from relstate.storage import StateTable, StorageTable
from relstate.storage.errors import UsageError
from relstate.storage.table import run, storagetable
from relstate.storage.table.scan import Limits
from support.examples import examples
from support.prefixed import Prefixed, Rows, Values, without_pages
from support.stores import StoreMaker, committed, rows_of, upsert

Range = tuple[Any, Any]

NUMBERS = Prefixed(
    "numbers",
    "a BIGINT, k INT, v STRING",
    ("a", "k"),
    ("k",),
    (lambda draw: draw.choice([None, *range(-3, 30)]), lambda draw: draw.randrange(200)),
)
TEXTS = Prefixed(
    "texts",
    "a STRING, k INT, v STRING",
    ("a", "k"),
    ("k",),
    (
        lambda draw: (
            draw.choice("abc") * draw.choice([0, 1, 2, 495, 500, 506, 520])
            + draw.choice(["", "\0", "x"])
        ),
        lambda draw: draw.randrange(200),
    ),
)


def _ranges(rows: Rows, draw: random.Random) -> list[Range]:
    """Return random ranges, ascending and disjoint; None is no bound."""
    values = sorted({key[0] for key in rows if key[0] is not None})
    chosen = sorted(draw.sample(values, min(len(values), draw.choice([0, 2, 4, 8])) // 2 * 2))
    ranges: list[Range] = list(zip(chosen[::2], chosen[1::2], strict=True))
    if ranges and draw.random() < 0.3:
        ranges[0] = (None, ranges[0][1])
    if ranges and draw.random() < 0.3:
        ranges[-1] = (ranges[-1][0], None)
    return ranges or [(None, None)] * draw.choice([0, 1])


def _is_inside(value: Any, ranges: Sequence[Range]) -> bool:
    return any(
        (low is None or (value is not None and value >= low))
        and (high is None or value is None or value <= high)
        for low, high in ranges
    )


def _compare(reader: StorageTable, table: Prefixed, rows: Rows, draw: random.Random) -> None:
    ranges = _ranges(rows, draw)
    key_type = table.schema.arrow_schema.field("a").type
    lows, highs = (pa.array([pair[end] for pair in ranges], key_type) for end in range(2))
    count = reader.encoding.vnode_count
    cut = draw.randrange(count + 1)
    groups = draw.choice([None, [range(cut)], [range(cut, count)]])
    most = draw.choice([None, 1, 2, 7, 1000])
    batches = list(reader.range_scan(lows, highs, vnodes=groups, most=most))
    read = [row for batch in batches for row in rows_of(batch)]
    vnodes = reader.encoding.vnodes(table.batch(list(rows), 2)).tolist() if rows else []
    owned = {
        key: vnode
        for key, vnode in zip(rows, vnodes, strict=True)
        if groups is None or any(vnode in group for group in groups)
    }
    by_range: dict[tuple[int, Range], list[Values]] = {}
    for key in sorted(owned, key=lambda key: (key[0] is not None, key)):
        for pair in ranges:
            if _is_inside(key[0], [pair]):
                by_range.setdefault((owned[key], pair), []).append(key)

    assert len(read) == len({row[:2] for row in read})
    assert all(row[:2] in owned and rows[row[:2]] == row for row in read)
    expected = {key for keys in by_range.values() for key in keys[:most]}
    assert expected <= {row[:2] for row in read}


@pytest.mark.parametrize("seed", range(examples(6)))
@pytest.mark.parametrize("vnode_count", [1, 5])
@pytest.mark.parametrize("table", [NUMBERS, TEXTS], ids=lambda table: table.name)
def test_ranges_give_the_rows_of_a_dict(
    make_store: StoreMaker, table: Prefixed, vnode_count: int, seed: int
) -> None:
    """Over epochs of puts and deletes every visible row of the ranges comes once, others may.

    So do the first rows of each range in each vnode, if only these are asked for.
    """
    draw = random.Random(f"{table.name} {vnode_count} {seed}")
    store = make_store(vnode_count=vnode_count)
    table.create(store)
    rows: Rows = {}
    _compare(store.read_plan(table.name).open(), table, rows, draw)
    for _ in range(6):
        table.change(store, rows, draw)
        if draw.random() < 0.25:
            store.compact(table.name)
        for _ in range(3):
            _compare(store.read_plan(table.name).open(), table, rows, draw)


def test_a_file_of_another_layout_gives_the_same(
    make_store: StoreMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where pages cannot be read LMDB's cursor finds the same rows."""
    without_pages(monkeypatch)
    draw = random.Random(1)
    store = make_store(vnode_count=2)
    NUMBERS.create(store)
    rows: Rows = {}
    for _ in range(4):
        NUMBERS.change(store, rows, draw)
        _compare(store.read_plan("numbers").open(), NUMBERS, rows, draw)


@pytest.mark.parametrize("most_ranges_per_leaf", [0, 4])
def test_ranges_in_more_vnodes_than_there_are_rows(
    make_store: StoreMaker, monkeypatch: pytest.MonkeyPatch, most_ranges_per_leaf: int
) -> None:
    """Rows are the same whether each range is searched or each key is compared with the ranges."""
    monkeypatch.setattr(run, "_MOST_RANGES_PER_LEAF", most_ranges_per_leaf)
    store = make_store(vnode_count=32_768)
    for table in (NUMBERS, TEXTS):
        draw = random.Random(table.name)
        table.create(store)
        rows: Rows = {}
        for _ in range(3):
            table.change(store, rows, draw)
            _compare(store.read_plan(table.name).open(), table, rows, draw)
    inside = store.table("numbers").to_arrow(where="a BETWEEN 3 AND 9 OR a >= 20")
    numbers = store.table("numbers").to_arrow().to_pylist()
    assert inside.to_pylist() == [
        row for row in numbers if row["a"] is not None and (3 <= row["a"] <= 9 or row["a"] >= 20)
    ]
    assert inside.num_rows


def test_only_the_rows_of_a_narrow_range_are_read(make_store: StoreMaker) -> None:
    """Of a large table no row outside of the ranges is read, in batches of bounded size."""
    store = make_store(vnode_count=4)
    NUMBERS.create(store)
    count = 20_000
    numbers = pa.array(range(count), pa.int64())
    rows = pa.record_batch({"a": numbers, "k": numbers.cast(pa.int32())})
    writer = store.jobs.write_target("numbers").open(store.environment)
    writer.write(rows)
    committed(store, writer.finish())
    reader = store.read_plan("numbers").open()
    lows, highs = pa.array([5, 9000], pa.int64()), pa.array([7, None], pa.int64())

    (narrow,) = reader.range_scan(lows[:1], highs[:1], ["k"])
    wide = list(reader.range_scan(lows, highs, ["a"]))

    assert sorted(narrow["k"].to_pylist()) == [5, 6, 7]
    assert sum(batch.num_rows for batch in wide) == 3 + count - 9000
    (first,) = reader.range_scan(lows[1:], highs[1:], ["a"], most=2)
    assert first.num_rows == 2 * 4
    assert 9000 in first["a"].to_pylist()


def test_batches_of_large_rows_are_bounded(
    make_store: StoreMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch holds so many stored bytes, or one row: Arrow's 32-bit offsets end at 2 GiB."""
    monkeypatch.setattr(storagetable, "_BATCH_OF_RANGES", Limits(rows=1000, size=1 << 20))
    store = make_store(vnode_count=2)
    NUMBERS.create(store)
    upsert(store, "numbers", [(number, 0, "x" * 300_000) for number in range(20)])
    bounds = pa.array([0], pa.int64()), pa.array([11], pa.int64())

    batches = list(store.read_plan("numbers").open().range_scan(*bounds, ["a", "v"]))
    assert max(batch.num_rows for batch in batches) == 3
    assert {*range(12)} <= {number for batch in batches for number in batch["a"].to_pylist()}


def test_a_state_table_reads_ranges_of_its_vnodes(make_store: StoreMaker) -> None:
    """Rows of other vnodes are not read, nor is anything while changes are in memory."""
    store = make_store(vnode_count=8)
    NUMBERS.create(store)
    rows: list[Values] = [(number, number, None) for number in range(50)]
    upsert(store, "numbers", rows)
    table = store.read_plan("numbers").open()
    vnodes = table.encoding.vnodes(NUMBERS.batch([row[:2] for row in rows], 2)).tolist()
    bounds = pa.array([10], pa.int64()), pa.array([29], pa.int64())
    state = StateTable.streaming(table, store.jobs.segment_writer(), vnodes=[range(2, 5)])

    owned = {row for row, vnode in zip(rows, vnodes, strict=True) if vnode in range(2, 5)}
    read = {row for batch in state.range_scan(*bounds) for row in rows_of(batch)}
    assert {row for row in owned if 10 <= row[0] <= 29} <= read <= owned
    everywhere = state.range_scan(*bounds, everywhere=True)
    assert {*rows[10:30]} <= {row for batch in everywhere for row in rows_of(batch)}
    buffered = store.state_table("numbers")
    buffered.insert((1, 1, "new"))
    with pytest.raises(UsageError, match="range_scan"):
        buffered.range_scan(*bounds)
