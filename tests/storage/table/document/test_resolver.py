"""Merges of document entries: however the sources are cut, a row is never."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from operator import itemgetter
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relstate.storage.codec.ragged import ascends
from relstate.storage.segment.block import Block
from relstate.storage.segment.key import Kind
from relstate.storage.table.document.resolver import row_starts
from relstate.storage.table.encoding import encoding_of
from relstate.storage.table.merge import merge
from relstate.storage.table.resolve import keep_visible
from support.documents import Documents, Written, stored
from support.examples import examples
from support.random_documents import COMMITS, TABLE

Rows = list[dict[str, Any]]


def cut(block: Block, places: list[int], *, descending: bool) -> Iterator[Block]:
    """Yield a block in pieces, cut at some places, from one end or the other."""
    bounds = sorted({0, len(block), *(place % (len(block) + 1) for place in places)})
    pieces = [block.slice(start, stop) for start, stop in pairwise(bounds)]
    yield from reversed(pieces) if descending else pieces


@pytest.mark.parametrize("descending", [False, True])
@settings(max_examples=examples(200))
@given(COMMITS, st.lists(st.lists(st.integers(0, 20), max_size=8), min_size=5, max_size=5))
def test_sources_may_be_cut_anywhere(
    descending: bool, commits: list[list[Written]], places: list[list[int]]
) -> None:
    """Within rows too: the rows are the same, in order, each once."""
    encoding = encoding_of(TABLE, 1)
    model = Documents(TABLE.schema)
    sources = []
    for commit, commit_places in zip(commits, places, strict=False):
        model.apply(commit)
        sources.append(cut(stored(TABLE, commit), commit_places, descending=descending))
    resolver = encoding.resolver(keep_visible(lambda: 0), lambda: 0)
    rows: Rows = []
    for window in merge(sources[::-1], resolver, descending=descending):
        entries = Block.joined(window.blocks)
        if window.order is not None:
            entries = entries.take(window.order)
        decoded = encoding.decode(entries, TABLE.schema.columns).to_pylist()
        rows += decoded[::-1] if descending else decoded
    expected = [{"k": key, **row} for key, row in model.seen(0).items()]

    assert rows == (expected[::-1] if descending else expected)


@settings(max_examples=examples(200))
@given(COMMITS, st.randoms(use_true_random=False))
def test_blocks_that_are_resolved_need_not_be_sorted(
    commits: list[list[Written]], chance: Random
) -> None:
    """What a lookup returned comes in the order of its files."""
    encoding = encoding_of(TABLE, 1)
    model = Documents(TABLE.schema)
    blocks = []
    for commit in commits:
        model.apply(commit)
        entries = stored(TABLE, commit)
        order = chance.sample(range(len(entries)), len(entries))
        blocks.append(entries.take(np.array(order, np.int64)))
    resolver = encoding.resolver(keep_visible(lambda: 0), lambda: 0)
    resolved = resolver.resolve(blocks[::-1])
    rows = encoding.decode(resolved, TABLE.schema.columns).to_pylist()
    one_per_row = encoding.resolve(blocks[::-1])

    assert sorted(rows, key=itemgetter("k")) == [
        {"k": key, **row} for key, row in model.seen(0).items()
    ]
    assert np.isin(resolved.key_bytes(), one_per_row.key_bytes()).all()
    assert ascends(one_per_row.key_bytes())


def test_the_first_entries_of_rows() -> None:
    """A segment may end before each of them, and nowhere else."""
    entries = stored(
        TABLE,
        [
            Written(0, (), Kind.PUT, {"a": 1}),
            Written(0, ("a",), Kind.PUT, 2),
            Written(1, ("a",), Kind.PUT, 2),
            Written(1, ("s",), Kind.PUT, "x"),
            Written(2, (), Kind.DELETE),
        ],
    )
    rows = entries.take(np.array([0, 4]))
    starts = row_starts(entries.key_bytes(), entries.value_bytes())

    assert starts is not None
    assert starts.tolist() == [True, False, True, False, True]
    assert row_starts(rows.key_bytes(), rows.value_bytes()) is None
