"""Laws of reads by a range of the first key column, in all vnodes at once."""

from __future__ import annotations

import random
from typing import Any

import pytest

from relstate.storage import StateTable, Store, vnodes_in
from relstate.storage.errors import UsageError
from relstate.storage.schema.schema import KeyRange
from relstate.storage.segment import segment as segment_module
from relstate.storage.segment.page import LayoutError, Pages
from support.examples import Seeds
from support.stores import StoreMaker, batch_of, rows_of, upsert

Row = tuple[int, str, int | None]
_KEYS = ("", "a", "b", "a\0", "x" * 40, "y" * 600, "y" * 599)


def make_table(store: Store) -> None:
    """Create a table whose rows are in the order of moments in each vnode."""
    store.create_table(
        "t", "m BIGINT, k STRING, v BIGINT", primary_key=["m", "k"], distribution_key=["k"]
    )


def change(store: Store, rows: dict[tuple[int, str], Row], draw: random.Random) -> None:
    """Commit random changes."""
    keys = {(draw.randrange(-5, 40), draw.choice(_KEYS) + str(draw.randrange(9)))
            for _ in range(draw.choice([1, 30, 200]))}  # fmt: skip
    deleted = {key for key in [*rows, *keys] if draw.random() < 0.2}
    put = {key: (*key, draw.choice([None, 1])) for key in keys - deleted}
    upsert(store, "t", list(put.values()), [(*key, None) for key in deleted])
    rows |= put
    for key in deleted:
        rows.pop(key, None)


def by_vnode(store: Store, rows: list[Row]) -> dict[int, list[Row]]:
    """Return rows by their vnodes, in the order of the key."""
    batch = batch_of(store, "t", rows)
    encoding = store.read_plan("t").open().encoding
    vnodes = vnodes_in(encoding.encode_keys(batch.select(["m", "k"])))
    groups: dict[int, list[Row]] = {}
    for vnode, row in zip(vnodes.tolist(), rows, strict=True):
        groups.setdefault(vnode, []).append(row)
    return {vnode: sorted(groups[vnode]) for vnode in sorted(groups)}


def compare(store: Store, rows: dict[tuple[int, str], Row], draw: random.Random) -> None:
    """Read random ranges and compare them with the rows."""
    table = store.read_plan("t").open()
    for _ in range(6):
        start, stop = draw.randrange(-8, 42), draw.choice([None, *range(-8, 42, 5)])
        most = draw.choice([None, 1, 2, 7, 1000])
        inside = [r for r in rows.values() if r[0] >= start and (stop is None or r[0] < stop)]
        expected = [row for own in by_vnode(store, inside).values() for row in own[:most]]
        keys = KeyRange(start=(start,), stop=() if stop is None else (stop,))

        assert rows_of(table.read_range(keys, most=most)) == expected


@pytest.mark.parametrize("vnode_count", [1, 5, 256])
def test_a_range_gives_the_rows_of_a_dict(
    make_store: StoreMaker, vnode_count: int, seeds: Seeds
) -> None:
    """Over epochs of puts and deletes, compacted or not, with keys of any length."""
    for seed in seeds(6):
        draw = random.Random(seed)
        store = make_store(vnode_count=vnode_count)
        make_table(store)
        rows: dict[tuple[int, str], Row] = {}
        compare(store, rows, draw)
        for _ in range(6):
            change(store, rows, draw)
            if draw.random() < 0.25:
                store.compact("t")
            compare(store, rows, draw)


def test_a_file_of_another_layout_gives_the_same(
    make_store: StoreMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where pages cannot be read LMDB's cursor finds the same rows."""

    def fail(_buffer: Any) -> Pages:
        raise LayoutError("another layout")

    monkeypatch.setattr(segment_module, "Pages", fail)
    draw, store = random.Random(1), make_store(vnode_count=4)
    make_table(store)
    rows: dict[tuple[int, str], Row] = {}
    for _ in range(4):
        change(store, rows, draw)
        compare(store, rows, draw)


def test_a_state_table_reads_a_range_of_its_vnodes(make_store: StoreMaker) -> None:
    """Rows of other vnodes are not read, nor is anything while changes are in memory."""
    store = make_store(vnode_count=8)
    make_table(store)
    rows: list[Row] = [(moment, f"k{moment}", None) for moment in range(50)]
    upsert(store, "t", rows)
    groups = by_vnode(store, [row for row in rows if 10 <= row[0] < 30])
    writer = store.jobs.segment_writer()

    state = StateTable.streaming(store.read_plan("t").open(), writer, vnodes=[range(2, 5)])
    read = rows_of(state.read_range(10, 30))

    assert read == [row for vnode in range(2, 5) for row in groups.get(vnode, [])]
    buffered = store.state_table("t")
    buffered.insert((1, "new", None))
    with pytest.raises(UsageError, match="read_range"):
        buffered.read_range(0)
