"""What merges of files leave of documents: readers find the same rows in it, now and later."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relstate.storage.log.table_definition import TableDefinition
from relstate.storage.schema.properties import TableProperties
from relstate.storage.segment.block import Block
from relstate.storage.segment.key import Kind
from relstate.storage.table.encoding import encoding_of
from relstate.storage.table.header import Headers
from relstate.storage.table.resolve import keep_all
from relstate.storage.table.rowencoding import RowEncoding
from support.documents import Documents, Written, stored
from support.examples import examples
from support.random_documents import COMMITS, TABLE, rows_of

UNPACKED = replace(TABLE, properties=TableProperties(encoding="document", packed=False))


def merged(
    definition: TableDefinition, commits: list[Block], time: int, *, is_bottom: bool
) -> Block:
    """Return what remains of some commits, the oldest first, in key order."""
    blocks = [block for block in reversed(commits) if len(block)]
    if not blocks:
        return Block.of_pairs([])
    encoding = encoding_of(definition, 1)

    def must_remain(block: Block) -> np.ndarray:
        headers = Headers(block)
        remains: np.ndarray = (headers.kinds != Kind.DELETE) & (headers.expiries > time)
        return remains

    keep = must_remain if is_bottom else keep_all
    window = encoding.remains_resolver(keep, is_bottom, time).window(blocks)
    remaining = Block.joined(window.blocks)
    return remaining if window.order is None else remaining.take(window.order)


def without_empty(value: Any) -> Any:
    """Return a value with NULL for collections and structs that hold nothing.

    A map or struct that parts have made goes with the last of them, but is empty if it was folded
    into its row before: docs/documents.md says so.
    """
    if isinstance(value, dict):
        parts = {name: without_empty(part) for name, part in value.items()}
        return parts if any(part is not None for part in parts.values()) else None
    if isinstance(value, list):
        return [without_empty(part) for part in value] or None
    return tuple(map(without_empty, value)) if isinstance(value, tuple) else value


@pytest.mark.parametrize("definition", [TABLE, UNPACKED], ids=["packed", "unpacked"])
@settings(max_examples=examples(300))
@given(COMMITS, st.integers(0, 4), st.integers(0, 4), st.sampled_from([0, 10, 15]), st.data())
def test_neighbouring_commits_may_be_merged(
    definition: TableDefinition,
    commits: list[list[Written]],
    start: int,
    count: int,
    time: int,
    data: st.DataObject,
) -> None:
    """Any of them, at any time, between others that are not: no reader sees other rows."""
    blocks = [stored(definition, commit) for commit in commits]
    start = min(start, len(blocks))
    older, inputs, newer = (
        blocks[:start],
        blocks[start : start + count + 1],
        blocks[start + count + 1 :],
    )
    is_bottom = not any(map(len, older))
    remaining = merged(definition, inputs, time, is_bottom=is_bottom)
    later = time + data.draw(st.sampled_from([0, 5, 10, 20]))
    model = Documents(definition.schema)
    for commit in commits:
        model.apply(commit)

    keys = remaining.key_bytes().to_pylist()
    headers = Headers(remaining)
    assert keys == sorted(set(keys))
    is_delete = headers.kinds == Kind.DELETE
    assert not (is_bottom and (is_delete & ~headers.is_part).any())
    seen = rows_of(definition, [*older, remaining, *newer], later)
    expected = model.seen(later)
    assert seen.keys() == expected.keys()
    assert without_empty(seen) == without_empty(expected)


@settings(max_examples=examples(200))
@given(COMMITS)
def test_what_is_compacted_whole_is_a_table_of_rows(commits: list[list[Written]]) -> None:
    """Without expiries, byte for byte, but for a flag of the rows that were never inserted."""
    lasting = [[replace(entry, expiry=Written.expiry) for entry in commit] for commit in commits]
    rows = [
        replace(entry, kind=Kind.PUT, value={})
        for entry in {entry.key: entry for commit in lasting for entry in commit}.values()
    ]
    inserted = [replace(row, path=()) for row in rows]
    blocks = [stored(TABLE, commit) for commit in [inserted, *lasting]]
    remaining = merged(TABLE, blocks, 0, is_bottom=True)
    patched = merged(TABLE, blocks[1:], 0, is_bottom=True)
    encoding = RowEncoding(TABLE, 1)
    again = encoding.encode(encoding.decode(remaining, TABLE.schema.columns))

    assert not Headers(remaining).is_part.any()
    assert not Headers(patched).is_part.any()
    assert remaining.key_bytes().equals(again[0])
    deleted = {entry.key for commit in lasting for entry in commit if not entry.path}
    if not deleted:
        assert remaining.value_bytes().equals(again[1])


@settings(max_examples=examples(100))
@given(COMMITS, st.booleans())
def test_a_second_merge_changes_nothing(commits: list[list[Written]], is_bottom: bool) -> None:
    """What remains, remains."""
    once = merged(TABLE, [stored(TABLE, commit) for commit in commits], 0, is_bottom=is_bottom)
    twice = merged(TABLE, [once], 0, is_bottom=is_bottom)

    assert twice.key_bytes().equals(once.key_bytes())
    assert twice.value_bytes().equals(once.value_bytes())
