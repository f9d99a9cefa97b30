"""Laws of the mem table: the merge of one epoch's changes, per key."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relstate.storage.errors import ConsistencyError
from relstate.storage.table import memtable
from relstate.storage.table.memtable import MemTable, StrictMemTable, Transition

_DELETED = b"deleted"
_KEYS = [b"k1\0\0", b"k22\0\0", b"k333\0\0"]
_INSERT, _DELETE, _UPDATE = Transition(None, b"n"), Transition(b"o", None), Transition(b"o", b"n")


def strict() -> MemTable:
    """Return an empty strict mem table that names keys by their bytes."""
    return StrictMemTable(_DELETED, lambda key: key.decode("latin-1"))


def apply_arrays(table: MemTable, changes: list[tuple[bytes, Transition]]) -> None:
    """Apply changes, in their order and with repeated keys, as arrays of deletes and inserts."""
    rows = [
        (key, value, is_delete)
        for key, change in changes
        for value, is_delete in ((change.before, True), (change.after, False))
        if value is not None or (is_delete and change.after is None)
    ]
    table.apply(
        pa.array([key for key, _, _ in rows], pa.large_binary()),
        pa.array([value or b"" for _, value, _ in rows], pa.large_binary()),
        np.array([is_delete for _, _, is_delete in rows], bool),
    )


def content(table: MemTable) -> dict[bytes, Transition]:
    """Return the merged changes by key, in key order, joined from their parts."""
    changes: dict[bytes, Transition] = {}
    for part in table.changes().parts():
        before = part.values.take(part.before).to_pylist()
        after = part.values.take(part.after).to_pylist()
        assert part.entries()[1].to_pylist() == part.block().value_bytes().to_pylist() == after
        for key, *values in zip(part.keys.to_pylist(), before, after, strict=True):
            old, new = (None if value == _DELETED else value for value in values)
            changes[key] = Transition(old, new)
    return changes


# RisingWave's merge table, semantics of one key in one epoch: the merged change, or None where
# the second change is an error.
_MERGES = [
    (_INSERT, _INSERT, None),
    (_INSERT, Transition(b"n", None), "nothing"),
    (_INSERT, Transition(b"x", None), None),
    (_INSERT, Transition(b"n", b"m"), Transition(None, b"m")),
    (_INSERT, Transition(b"x", b"m"), None),
    (_DELETE, _INSERT, Transition(b"o", b"n")),
    (_DELETE, _DELETE, None),
    (_DELETE, _UPDATE, None),
    (_UPDATE, _INSERT, None),
    (_UPDATE, Transition(b"n", None), Transition(b"o", None)),
    (_UPDATE, Transition(b"x", None), None),
    (_UPDATE, Transition(b"n", b"m"), Transition(b"o", b"m")),
    (_UPDATE, Transition(b"x", b"m"), None),
]


@pytest.mark.parametrize(("first", "second", "merged"), _MERGES)
@pytest.mark.parametrize("way", ["single", "arrays", "mixed"])
def test_strict_follows_the_merge_table(
    first: Transition, second: Transition, merged: Transition | str | None, way: str
) -> None:
    """Every pair of changes merges as RisingWave's table says, one by one or in arrays."""
    table, key = strict(), _KEYS[0]

    def apply(change: Transition, single: bool) -> None:
        if single:
            table.apply_change(key, change)
        else:
            apply_arrays(table, [(key, change)])

    apply(first, single=way != "arrays")
    if merged is None:
        with pytest.raises(ConsistencyError, match="k1"):
            apply(second, single=way == "single")
        assert content(table) == {key: first}
    else:
        apply(second, single=way == "single")
        assert content(table) == ({} if merged == "nothing" else {key: merged})


_CHANGES = st.lists(
    st.tuples(
        st.sampled_from(_KEYS),
        st.sampled_from([None, b"", b"a", b"b"]),
        st.sampled_from([None, b"", b"a", b"b"]),
    ).map(lambda drawn: (drawn[0], Transition(drawn[1], drawn[2]))),
    max_size=12,
)


@given(st.lists(st.tuples(st.booleans(), _CHANGES), max_size=5))
def test_blind_keeps_the_last_change_of_each_key(
    steps: list[tuple[bool, list[tuple[bytes, Transition]]]],
) -> None:
    """Of single changes and arrays of them, the last one of a key is the result."""
    table, model = MemTable(_DELETED), dict[bytes, bytes | None]()
    for single, changes in steps:
        if single:
            for key, change in changes:
                table.apply_change(key, change)
        else:
            apply_arrays(table, changes)
        model |= {key: change.after for key, change in changes}

    assert {key: change.after for key, change in content(table).items()} == model
    for key in _KEYS:
        merged = table.get(key)
        assert (merged is not None) == (key in model)
        assert merged is None or merged.after == model[key]


@given(
    st.lists(
        st.tuples(
            st.booleans(),
            _CHANGES.map(
                lambda drawn: [
                    drawn_change
                    for drawn_change in drawn
                    if drawn_change[1] != Transition(None, None)
                ]
            ),
        ),
        max_size=5,
    )
)
def test_strict_arrays_and_single_changes_agree(
    steps: list[tuple[bool, list[tuple[bytes, Transition]]]],
) -> None:
    """A chunk is refused exactly if one of its changes would be, and otherwise gives the same."""
    table, model = strict(), dict[bytes, Transition]()
    for single, changes in steps:
        expected = dict(model)
        fits = True
        for key, change in changes:
            earlier = expected.get(key)
            if earlier is not None and earlier.after != change.before:
                fits = False
                break
            before = change.before if earlier is None else earlier.before
            expected[key] = Transition(before, change.after)
        if not fits:
            with pytest.raises(ConsistencyError):
                apply_arrays(table, changes)
            continue
        if single:
            for key, change in changes:
                table.apply_change(key, change)
        else:
            apply_arrays(table, changes)
        model = expected

    nothing = Transition(None, None)
    assert content(table) == {key: model[key] for key in sorted(model) if model[key] != nothing}


def test_overwritten_values_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory grows with the rows of an epoch, not with how often each of them was written."""
    monkeypatch.setattr(memtable, "_COMPACT_BYTES", 1 << 16)
    keys = pa.array([b"%04d" % n for n in range(100)], pa.large_binary())
    allocated = pa.total_allocated_bytes()
    for table in (MemTable(_DELETED), strict()):
        table.apply(keys, pa.array([b"0" * 1000] * 100, pa.large_binary()), np.zeros(100, bool))
        for n in range(1, 50):
            old, new = (pa.array([b"%d" % m * 1000] * 100, pa.large_binary()) for m in (n - 1, n))
            table.apply(keys, old, np.ones(100, bool))
            table.apply(keys, new, np.zeros(100, bool))
        assert pa.total_allocated_bytes() - allocated < 4_000_000
        expected = {key.as_py(): Transition(None, b"49" * 1000) for key in keys}
        assert content(table) == expected
        assert table.get(b"0007") == Transition(None, b"49" * 1000)
        del table


@pytest.mark.parametrize("size", [1, 3, 50])
def test_chunks_that_are_merged_later_keep_their_order(size: int) -> None:
    """Of many small chunks over the same keys the last change of each key remains."""
    table = MemTable(_DELETED)
    expected: dict[bytes, bytes | None] = {}
    for turn in range(40):
        keys = [b"%03d" % (turn * 7 % 20 + number) for number in range(size)]
        values = [b"%d" % turn] * size
        deleted = np.arange(size) % 3 == turn % 3
        table.apply(pa.array(keys, pa.large_binary()), pa.array(values, pa.large_binary()), deleted)
        for key, value, is_deleted in zip(keys, values, deleted.tolist(), strict=True):
            expected[key] = None if is_deleted else value

    assert {key: change.after for key, change in content(table).items()} == expected
    assert list(content(table)) == sorted(expected)


@pytest.mark.parametrize("is_single", [False, True])
def test_an_error_in_a_merge_loses_no_change(
    is_single: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit after it has all changes."""
    table = MemTable(_DELETED)
    for key in (b"a", b"b", b"c", b"d", b"e"):
        if is_single:
            table.apply_change(key, Transition(None, key))
        else:
            keys = pa.array([key], pa.large_binary())
            table.apply(keys, keys, np.zeros(1, np.bool_))

    def fail(keys: pa.Array) -> None:
        raise MemoryError

    monkeypatch.setattr(memtable, "sort_order", fail)
    with pytest.raises(MemoryError):
        table.changes()
    monkeypatch.undo()
    expected = {key: Transition(None, key) for key in (b"a", b"b", b"c", b"d", b"e")}
    assert content(table) == expected


def test_many_chunks_are_merged_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each merge handles all changes there are, so it must not come with every chunk."""
    merges = 0
    merge = MemTable._merge

    def counted(self: MemTable, *changes: Any) -> None:
        nonlocal merges
        merges += 1
        merge(self, *changes)

    monkeypatch.setattr(MemTable, "_merge", counted)
    table = MemTable(_DELETED)
    for number in range(1000):
        key = pa.array([b"%04d" % number], pa.large_binary())
        table.apply(key, key, np.zeros(1, np.bool_))

    assert len(table.changes()) == 1000
    assert merges <= 12
