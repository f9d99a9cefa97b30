"""Whether two entries are the same row."""

from __future__ import annotations

import math
from typing import Any

import pytest

from relstate.storage import Store
from relstate.storage.feed.key_history import same_rows
from relstate.storage.segment.block import Block
from relstate.storage.table.rowencoding import RowEncoding
from support.stores import batch_of

Rows = list[tuple[Any, ...]]


def block_of(store: Store, rows: Rows) -> Block:
    """Return rows as the table encodes them now."""
    return Block.over(*encoding_of(store).encode(batch_of(store, "t", rows)))


def encoding_of(store: Store) -> RowEncoding:
    """Return the table's encoding now."""
    encoding = store.read_plan("t").open().encoding
    assert isinstance(encoding, RowEncoding)
    return encoding


@pytest.fixture
def table(store: Store) -> Store:
    """A store with a table of a key, a double and a text."""
    store.create_table("t", "k INT, d DOUBLE, v STRING", primary_key=["k"])
    return store


def test_rows_are_compared_bit_by_bit(table: Store) -> None:
    """NaN is NaN, NULL is NULL, zero is not minus zero, an empty text is not NULL."""
    left: Rows = [(1, math.nan, "a"), (2, 0.0, "a"), (3, None, ""), (4, 1.0, "a"), (5, 1.0, None)]
    right = [left[0], (2, -0.0, "a"), (3, None, None), (4, 1.0, "b"), left[4]]

    are_same = same_rows(encoding_of(table), block_of(table, left), block_of(table, right))

    assert are_same.tolist() == [True, False, False, False, True]


def test_rows_under_different_schemas_are_compared_under_the_present(table: Store) -> None:
    """An added column is NULL, a dropped column is ignored."""
    old: Rows = [(1, 1.0, "a"), (2, 2.0, "a"), (3, 3.0, "a")]
    first = block_of(table, old)
    table.add_columns("t", "n INT")
    second = block_of(
        table, [(*row, number) for row, number in zip(old, (None, 7, None), strict=True)]
    )
    assert same_rows(encoding_of(table), first, second).tolist() == [True, False, True]

    table.drop_columns("t", "v")
    third = block_of(table, [(1, 1.0, None), (2, 2.0, 7), (3, 9.0, None)])
    encoding = encoding_of(table)
    assert same_rows(encoding, second, third).tolist() == [True, True, False]
    assert same_rows(encoding, first, third).tolist() == [True, False, False]
    second = block_of(table, [(1, 1.0, None), (2, 2.0, 7), (3, 3.0, None)])
    assert same_rows(encoding, first, second).tolist() == [True, False, True]


def test_rows_that_are_all_key_are_the_same(store: Store) -> None:
    """Their values are empty."""
    store.create_table("t", "k INT", primary_key=["k"])
    block = block_of(store, [(1,), (2,)])

    assert same_rows(encoding_of(store), block, block).all()
