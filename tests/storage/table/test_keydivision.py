"""The division of a scan by primary keys: few rows that were written later are divided."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise, product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from relstate.storage import Kind, Proposal, SegmentRecord, Store
from relstate.storage.log.segment_record import KEY_BOUND_BYTES
from relstate.storage.segment.block import Block
from relstate.storage.table import keydivision, resolve
from relstate.storage.table.keydivision import KeyDivision
from relstate.storage.table.keyspan import KeySpan
from support.stores import written

PREFIXES = [b"\x07\x00", b"\x07\xfe"]
# None begins with another; two are cut, to the same bytes, of which one goes on with zeros only.
LONG = b"\x04" * KEY_BOUND_BYTES
KEYS = [
    *(bytes([1, number]) for number in range(6)),
    *(bytes([2, number, 0]) for number in range(6)),
    b"\x03",
    LONG + b"\x00\x00",
    LONG + b"\x01",
]
full_keys = st.tuples(st.sampled_from(PREFIXES), st.sampled_from(KEYS))
runs_of_any_keys = st.lists(st.sets(full_keys, min_size=1), min_size=2, max_size=6)


def loaded(cuts: Iterable[int]) -> list[set[tuple[bytes, bytes]]]:
    """Return the runs of a load in key order: all keys in both vnodes, cut at some of them."""
    bounds = [0, *sorted(cuts), len(KEYS)]
    return [set(product(PREFIXES, KEYS[start:stop])) for start, stop in pairwise(bounds)]


# A load of two files or more, and few rows that were written later.
runs_after_a_load = st.builds(
    lambda later, cuts: [*later, *loaded(cuts)],
    st.lists(st.sets(full_keys, min_size=1, max_size=3), min_size=1, max_size=2),
    st.sets(st.integers(1, len(KEYS) - 2), min_size=1),
)


def block_of(run: set[tuple[bytes, bytes]]) -> Block:
    """Return the entries of a run of keys, each with a vnode's prefix, in key order."""
    return Block.of_pairs([(prefix + key, b"") for prefix, key in sorted(run)])


def entries_of(block: Block) -> list[bytes]:
    """Return the keys of a block."""
    return [block.key(index) for index in range(len(block))]


def division_of(runs: Sequence[set[tuple[bytes, bytes]]]) -> KeyDivision:
    """Return the division of runs, the newest first."""
    keys = [sorted(key[:KEY_BOUND_BYTES] for _, key in run) for run in runs]
    full = [entries_of(block_of(run)) for run in runs]
    return KeyDivision.of(
        [KeySpan(ascending[0], ascending[-1]) for ascending in keys],
        [(entries[0], entries[-1]) for entries in full],
        [len(run) for run in runs],
    )


@example([{(PREFIXES[1], key) for key in (KEYS[0], KEYS[-1])}, *loaded([5, len(KEYS) - 2])])
@given(runs_of_any_keys | runs_after_a_load)
def test_the_entries_of_a_key_are_in_one_group(runs: list[set[tuple[bytes, bytes]]]) -> None:
    """Every run is in one group, or its entries are divided, none lost and in their order."""
    division = division_of(runs)

    numbers = [*division.shared, *(number for group in division.groups for number in group)]
    assert sorted(numbers) == list(range(len(runs)))
    group_of: dict[bytes, int] = {}
    for index, group in enumerate(division.groups):
        for number in group:
            assert all(
                group_of.setdefault(k, index) == index for k in entries_of(block_of(runs[number]))
            )
    for number in division.shared:
        block = block_of(runs[number])
        parts = [entries_of(part) for part in division.divided(block, len(PREFIXES[0]))]
        assert len(parts) == len(division.groups)
        assert sorted(key for part in parts for key in part) == entries_of(block)
        for index, part in enumerate(parts):
            assert part == sorted(part)
            assert all(group_of.setdefault(key, index) == index for key in part)


def test_few_rows_of_all_keys_are_divided() -> None:
    """Not so many that a merge takes as long, nor those whose division leaves as much to merge."""
    keys = [(PREFIXES[0], key) for key in KEYS]
    few = {keys[0], keys[-1]}

    apart = division_of([few, {*keys[:6]}, {*keys[6:12]}, {*keys[12:]}])
    assert (apart.groups, apart.shared) == ([[1], [2], [3]], [0])
    assert apart.bounds == [KEYS[6], KEYS[12]]
    lone = division_of([few, {*keys[:4]}, {keys[4]}, {*keys[6:12]}, {*keys[12:]}])
    assert (lone.groups, lone.shared) == ([[1], [2], [3], [4]], [0])
    many = division_of([{*keys[::2]}, {*keys[:6]}, {*keys[6:12]}, {*keys[12:]}])
    assert (many.groups, many.shared) == ([[0, 1, 2, 3]], ())
    one = division_of([{keys[0]}, {*keys[:6]}, {*keys[6:12]}, {*keys[12:]}])
    assert (one.groups, one.shared) == ([[0, 1], [2], [3]], ())


ROWS = 60_000


def commit(store: Store, segments: Sequence[SegmentRecord]) -> None:
    """Commit segments, which stay as they are."""
    proposal = Proposal(
        operation="write", started=store.environment.now(), segments=tuple(segments)
    )
    store.jobs.commit_uncompacted(proposal)


def load(store: Store, parts: int) -> None:
    """Write a table in key order, as tasks do: each a file of its own, all in one commit."""
    store.create_table("t", "k BIGINT, v BIGINT", primary_key=["k"])
    step = ROWS // parts
    starts = range(0, ROWS, step)
    files = [written(store, "t", [(k, k) for k in range(start, start + step)]) for start in starts]
    commit(store, [segment for segments in files for segment in segments])


def change(store: Store) -> dict[int, int]:
    """Change, delete and insert rows of keys of all files; return the rows that there are then."""
    rows = {key: key for key in range(ROWS)}
    updates, deletes = range(0, ROWS, 997), range(1, ROWS, 4999)
    for number in (1, 2):
        changed = {**dict.fromkeys(updates, -number), ROWS + number: -number}
        commit(store, written(store, "t", [*changed.items()]))
        rows.update(changed)
    writer = store.jobs.write_target("t").open()
    gone = pa.record_batch({"k": pa.array(deletes), "v": pa.nulls(len(deletes), pa.int64())})
    writer.write(gone, np.full(len(deletes), Kind.DELETE, np.uint8))
    commit(store, writer.finish())
    for key in deletes:
        del rows[key]
    return rows


@pytest.mark.parametrize("parts", [2, 6, 20])
def test_a_scan_after_upserts_merges_no_whole_files(
    store: Store, monkeypatch: pytest.MonkeyPatch, parts: int
) -> None:
    """However many files a load in key order has: what is merged is the rows that came later."""
    load(store, parts)
    expected = change(store)
    merged: list[int] = []
    whole = resolve._first_of_equal_keys

    def counted(blocks: Sequence[Block]) -> NDArray[np.int64]:
        merged.append(sum(map(len, blocks)))
        return whole(blocks)

    monkeypatch.setattr(resolve, "_first_of_equal_keys", counted)
    scanned = pa.Table.from_batches(store.table("t").scan())
    assert dict(zip(*(scanned[name].to_pylist() for name in "kv"), strict=True)) == expected
    assert scanned.num_rows == len(expected)
    assert sum(merged) < ROWS // 10

    merged.clear()
    monkeypatch.setattr(keydivision, "_MOST_SHARED_ROWS", 0)
    assert pa.Table.from_batches(store.table("t").scan()).sort_by("k") == scanned.sort_by("k")
    assert sum(merged) > ROWS // 2
