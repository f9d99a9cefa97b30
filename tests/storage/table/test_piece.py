"""Laws of pieces: a window's rows, each once, in portions that fit."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from relstate.storage.segment.block import Block
from relstate.storage.table.piece import Limits, Piece, pieces, pieces_in_order
from relstate.storage.table.resolve import Window
from support.segments import Pair, pairs_of

_LIMITS = st.builds(Limits, rows=st.integers(1, 6), size=st.integers(1, 40))


@st.composite
def windows(draw: st.DrawFn) -> tuple[Window, list[Pair]]:
    """Draw a window of a few blocks and its rows in key order."""
    sizes = draw(st.dictionaries(st.integers(0, 99), st.integers(0, 20), max_size=25))
    pairs = [(b"%02d" % key, bytes(size)) for key, size in sorted(sizes.items())]
    count = draw(st.integers(1, 4))
    owner = st.integers(0, count - 1)
    drawn = draw(st.lists(owner, min_size=len(pairs), max_size=len(pairs)))
    owners = np.array(drawn, np.int64)
    blocks = [
        Block.of_pairs([pair for pair, owner in zip(pairs, owners, strict=True) if owner == block])
        for block in range(count)
    ]
    if count == 1:
        return Window(tuple(blocks), None), pairs
    # A row's place among all blocks, one after another.
    places = np.argsort(np.argsort(owners, kind="stable"))
    return Window(tuple(blocks), places), pairs


def rows_of(piece: Piece) -> list[Pair]:
    """Return a piece's rows in its order."""
    rows = [pair for block in pairs_of(piece.blocks) for pair in block]
    return rows if piece.order is None else [rows[place] for place in piece.order.tolist()]


def assert_within(found: Iterable[list[Pair]], limits: Limits) -> None:
    """Assert that pieces keep to their limits, but for rows that are larger by themselves."""
    for rows in found:
        assert 0 < len(rows) <= limits.rows
        assert sum(len(key) + len(value) for key, value in rows) <= limits.size or len(rows) == 1


@given(windows(), _LIMITS)
def test_pieces_hold_each_row_once(drawn: tuple[Window, list[Pair]], limits: Limits) -> None:
    """Block by block, within the limits."""
    window, pairs = drawn

    found = [rows_of(piece) for piece in pieces(window, limits)]

    assert sorted(pair for rows in found for pair in rows) == pairs
    assert_within(found, limits)


@given(windows(), _LIMITS, st.booleans())
def test_pieces_in_order_are_in_order(
    drawn: tuple[Window, list[Pair]], limits: Limits, descending: bool
) -> None:
    """Ascending or descending, over all blocks of the window, within the limits."""
    window, pairs = drawn

    found = [rows_of(piece) for piece in pieces_in_order(window, limits, descending=descending)]

    assert [pair for rows in found for pair in rows] == (pairs[::-1] if descending else pairs)
    assert_within(found, limits)
