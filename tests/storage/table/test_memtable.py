"""Laws of the mem table: the merge of one epoch's changes, per key."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relstate.storage.errors import ConsistencyError
from relstate.storage.table.memtable import (
    BlindRule,
    MemTable,
    StrictRule,
    Transition,
    Transitions,
)

_KEYS = [b"k1\0\0", b"k22\0\0", b"k333\0\0"]
_INSERT, _DELETE, _UPDATE = Transition(None, b"n"), Transition(b"o", None), Transition(b"o", b"n")


def strict() -> MemTable:
    """Return an empty strict mem table that names keys by their bytes."""
    return MemTable(StrictRule(lambda key: key.decode("latin-1")))


def arrays(changes: list[tuple[bytes, Transition]]) -> Transitions:
    """Return single changes, in their order and with repeated keys, as arrays."""
    return Transitions(
        pa.array([key for key, _ in changes], pa.large_binary()),
        pa.array([change.before or b"" for _, change in changes], pa.large_binary()),
        np.array([change.before is not None for _, change in changes], bool),
        pa.array([change.after or b"" for _, change in changes], pa.large_binary()),
        np.array([change.after is not None for _, change in changes], bool),
    )


def content(table: MemTable) -> dict[bytes, Transition]:
    """Return the merged changes by key, in key order."""
    changes = table.changes()
    return {key: changes.one(row) for row, key in enumerate(changes.keys.to_pylist())}


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
            table.apply_one(key, change)
        else:
            table.apply(arrays([(key, change)]))

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
    """However changes come, singly or in arrays, the last one of a key is its outcome."""
    table, model = MemTable(BlindRule()), dict[bytes, bytes | None]()
    for single, changes in steps:
        if single:
            for key, change in changes:
                table.apply_one(key, change)
        else:
            table.apply(arrays(changes))
        model |= {key: change.after for key, change in changes}

    assert {key: change.after for key, change in content(table).items()} == model
    for key in _KEYS:
        found = table.get(key)
        assert (found is not None) == (key in model)
        assert found is None or found.after == model[key]


@given(st.lists(st.tuples(st.booleans(), _CHANGES), max_size=5))
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
                table.apply(arrays(changes))
            continue
        if single:
            for key, change in changes:
                table.apply_one(key, change)
        else:
            table.apply(arrays(changes))
        model = expected

    nothing = Transition(None, None)
    assert content(table) == {key: model[key] for key in sorted(model) if model[key] != nothing}
