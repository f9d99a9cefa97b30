"""The fold of a key's versions: its result, and which versions may be folded first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relstate.storage.log.table_definition import TableDefinition
from relstate.storage.schema.ddl import parse_columns
from relstate.storage.schema.properties import Merge, TableProperties
from relstate.storage.schema.schema import TableSchema
from relstate.storage.segment.block import Block
from relstate.storage.segment.key import Kind
from relstate.storage.table.overlap import Overlap
from relstate.storage.table.resolve import Resolver, keep_all, keep_visible
from relstate.storage.table.rowencoding import RowEncoding

SCHEMA = TableSchema.build(parse_columns("k INT, v INT, a INT, b STRING"), ["k"])
MERGES: list[Merge] = ["overwrite", "ignore", "partial"]

# At most four blocks of these have a fourth of the entries of a block of 64.
FEW_ROWS = st.dictionaries(st.integers(0, 160), st.none() | st.integers(0, 9), max_size=4)


@dataclass(frozen=True)
class Change:
    """A row, or a delete, of one key, as it was written."""

    key: int
    is_delete: bool
    version: int | None
    a: int | None
    b: str | None


CHANGES = st.lists(
    st.builds(
        Change,
        st.integers(0, 3),
        st.booleans(),
        st.none() | st.integers(0, 3),
        st.none() | st.integers(0, 9),
        st.none() | st.sampled_from(["x", "y"]),
    ),
    min_size=1,
    max_size=20,
)


def encoding_of(merge: Merge, versioned: bool) -> RowEncoding:
    """Return the encoding of a table with a merge behaviour."""
    versions = (SCHEMA.column("v").id,) if versioned else ()
    properties = TableProperties(merge, versions)
    return RowEncoding(TableDefinition(1, "t", SCHEMA, 2, properties), 4)


def entries_of(encoding: RowEncoding, changes: list[Change]) -> Block:
    """Return changes as entries: by key, of a key the last first."""
    rows = pa.record_batch(
        {
            "k": pa.array([change.key for change in changes], pa.int32()),
            "v": pa.array([change.version for change in changes], pa.int32()),
            "a": pa.array([change.a for change in changes], pa.int32()),
            "b": pa.array([change.b for change in changes], pa.string()),
        }
    )
    kinds = [Kind.DELETE if change.is_delete else encoding.upsert for change in changes]
    keys, values = encoding.encode(rows, np.array(kinds, np.uint8))
    order = sorted(range(len(changes)), key=lambda at: (keys[at].as_py(), -at))
    return Block.over(keys, values).take(np.array(order))


def folded(encoding: RowEncoding, entries: Block) -> Block:
    """Return one entry per key."""
    keys = entries.key_bytes().to_pylist()
    firsts = [at for at, key in enumerate(keys) if not at or keys[at - 1] != key]
    assert encoding.fold is not None
    return encoding.fold(entries, np.array(firsts))


def seen(encoding: RowEncoding, entries: Block) -> dict[int, tuple[Any, ...]]:
    """Return the rows among entries of which no key has two, by key."""
    rows = {}
    for at in range(len(entries)):
        piece = entries.take(np.array([at]))
        (key,) = encoding.decode(piece, encoding.schema.key_columns).to_pylist()
        row = encoding.decode_row(list(key.values()), piece.value_bytes()[0].as_py())
        if row is not None:
            rows[key["k"]] = tuple(row)
    return rows


def expected(merge: Merge, versioned: bool, changes: list[Change]) -> dict[int, tuple[Any, ...]]:
    """Return the rows after the changes are applied to a dict, one after the other.

    Of a delete and a row of the same version the delete wins.
    """
    rows: dict[int, tuple[Any, ...]] = {}
    ranks: dict[int, tuple[int, bool]] = {}
    for change in changes:
        rank = (-1 if change.version is None else change.version, change.is_delete)
        if versioned and rank < ranks.get(change.key, rank):
            continue
        ranks[change.key] = rank
        row = (change.key, change.version, change.a, change.b)
        if change.is_delete:
            rows.pop(change.key, None)
        elif change.key not in rows or merge == "overwrite":
            rows[change.key] = row
        elif merge == "partial":
            pairs = zip(row, rows[change.key], strict=True)
            rows[change.key] = tuple(old if new is None else new for new, old in pairs)
    return rows


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("merge", MERGES)
@given(changes=CHANGES)
def test_the_fold_is_what_one_after_the_other_makes(
    merge: Merge, versioned: bool, changes: list[Change]
) -> None:
    """Deletes, late rows and NULLs included."""
    if merge == "overwrite" and not versioned:
        return  # a plain table: nothing is folded
    encoding = encoding_of(merge, versioned)

    assert seen(encoding, folded(encoding, entries_of(encoding, changes))) == expected(
        merge, versioned, changes
    )


@pytest.mark.parametrize(
    ("merge", "versioned"), [("overwrite", True), ("ignore", False), ("partial", False)]
)
@given(parts=st.lists(CHANGES, min_size=2, max_size=4))
def test_neighbours_may_be_folded_first(
    merge: Merge, versioned: bool, parts: list[list[Change]]
) -> None:
    """For any cut of the sequence, so that compaction may merge any neighbouring files."""
    encoding = encoding_of(merge, versioned)
    runs = [folded(encoding, entries_of(encoding, part)) for part in parts]
    # Of the keys of all parts, those of the last part first.
    pairs = [
        pair
        for run in reversed(runs)
        for pair in zip(run.key_bytes().to_pylist(), run.value_bytes().to_pylist(), strict=True)
    ]
    joined = Block.of_pairs(sorted(pairs, key=lambda pair: pair[0]))

    every = [change for part in parts for change in part]
    assert seen(encoding, folded(encoding, joined)) == expected(merge, versioned, every)


@pytest.mark.parametrize("merge", ["ignore", "partial"])
@given(first=CHANGES, second=CHANGES)
def test_the_earliest_may_be_folded_first(
    merge: Merge, first: list[Change], second: list[Change]
) -> None:
    """With a version column too, if there are no older versions."""
    encoding = encoding_of(merge, versioned=True)
    base = folded(encoding, entries_of(encoding, first))
    later = entries_of(encoding, second)
    pairs = [
        pair
        for run in (later, base)
        for pair in zip(run.key_bytes().to_pylist(), run.value_bytes().to_pylist(), strict=True)
    ]
    joined = Block.of_pairs(sorted(pairs, key=lambda pair: pair[0]))

    assert seen(encoding, folded(encoding, joined)) == expected(merge, True, first + second)


def test_entries_without_merging_are_returned_as_they_are() -> None:
    """Where no key has two entries, the result is the entries."""
    encoding = encoding_of("partial", versioned=False)
    entries = entries_of(encoding, [Change(1, False, None, 1, None), Change(2, True, 3, 4, "x")])

    assert folded(encoding, entries) is entries


def block_of(encoding: RowEncoding, rows: dict[int, int | None]) -> Block:
    """Return the entries of some keys in order: their values of ``a``, or None for a delete."""
    changes = [Change(key, a is None, 1, a, None) for key, a in rows.items()]
    return entries_of(encoding, changes)


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("merge", MERGES)
@given(
    newer=st.lists(FEW_ROWS, max_size=2),
    large=st.integers(64, 80),
    older=st.lists(FEW_ROWS, max_size=2),
    in_order=st.booleans(),
)
def test_a_large_block_and_a_few_entries_give_the_rows_of_a_whole_merge(
    merge: Merge,
    versioned: bool,
    newer: list[dict[int, int | None]],
    large: int,
    older: list[dict[int, int | None]],
    in_order: bool,
) -> None:
    """Whether these are newer or older than it, and whether an order is asked for or not."""
    encoding = encoding_of(merge, versioned)
    whole: dict[int, int | None] = dict.fromkeys(range(0, 2 * large, 2), 100)
    parts = [*newer, whole, *older]
    blocks = [block_of(encoding, part) for part in parts if part]
    resolver = encoding.resolver(keep_visible(lambda: 0), lambda: 0)
    window = resolver.window(blocks, in_order=in_order)
    result = Block.joined(window.blocks)
    rows = seen(encoding, result)
    changes = [
        Change(key, a is None, 1, a, None) for part in parts[::-1] for key, a in part.items()
    ]

    assert len(blocks) == 1 or Overlap.of(blocks) is not None
    assert rows == expected(merge, versioned, changes)
    assert len(rows) == len(result)
    if in_order:
        keys = result if window.order is None else result.take(window.order)
        assert keys.key_bytes().to_pylist() == sorted(result.key_bytes().to_pylist())


@pytest.mark.parametrize("merge", MERGES)
def test_blocks_that_are_resolved_need_not_be_sorted(merge: Merge) -> None:
    """The rows of a write come in its order, beside stored ones, few or many."""
    encoding = encoding_of(merge, versioned=False)
    old = block_of(encoding, {7: 1, 70: 2})
    new = block_of(encoding, dict.fromkeys(range(100), 5)).take(np.arange(100)[::-1])
    resolver = Resolver(keep_all, encoding.fold)
    changes = [Change(7, False, 1, 1, None), Change(70, False, 1, 2, None)]
    changes += [Change(key, False, 1, 5, None) for key in range(100)]

    assert seen(encoding, resolver.resolve([new, old])) == expected(merge, False, changes)
