"""Windows of a merge, cut into pieces that make batches of bounded size.

Promises: the pieces of a window hold each of its rows once; a piece's rows and bytes are within
its limits unless one row alone is larger.
Does not know: how rows are decoded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..codec.ragged import Positions
from ..segment.block import Block
from .resolve import Window


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one piece may hold: rows, and bytes of stored keys and values."""

    rows: int
    size: int


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows of some blocks.

    ``order`` puts the rows of all blocks, one block after another, in the right order; None
    where they are already.
    """

    blocks: tuple[Block, ...]
    order: Positions | None


def pieces(window: Window, limits: Limits) -> Iterator[Piece]:
    """Yield a window's rows block by block."""
    for block in window.blocks:
        for part in _cuts(_sizes(block), limits):
            yield Piece((block.slice(part.start, part.stop),), None)


def pieces_in_order(window: Window, limits: Limits, *, descending: bool) -> Iterator[Piece]:
    """Yield a window's rows in key order, ascending or descending."""
    sizes = np.concatenate([_sizes(block) for block in window.blocks])
    rows = np.arange(len(sizes)) if window.order is None else window.order
    if descending:
        rows = rows[::-1]
    bounds = np.cumsum([0, *map(len, window.blocks)])
    for part in _cuts(sizes[rows], limits):
        yield _piece(window, bounds, rows[part])


def _piece(window: Window, bounds: Positions, rows: Positions) -> Piece:
    if len(window.blocks) == 1:
        return Piece((window.blocks[0].take(rows),), None)
    owners = np.searchsorted(bounds, rows, side="right") - 1
    blocks, row_indices = [], []
    for index in np.unique(owners):
        mine = np.flatnonzero(owners == index)
        blocks.append(window.blocks[index].take(rows[mine] - bounds[index]))
        row_indices.append(mine)
    order = np.argsort(np.concatenate(row_indices), kind="stable") if len(blocks) > 1 else None
    return Piece(tuple(blocks), order)


def _sizes(block: Block) -> Positions:
    return block.value_lengths + block.key_lengths


def _cuts(sizes: Positions, limits: Limits) -> Iterator[slice]:
    """Yield slices of rows with these sizes, each within the limits."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        stop = int(np.searchsorted(ends, before + limits.size, side="right"))
        stop = min(max(stop, start + 1), start + limits.rows)
        yield slice(start, stop)
        start = stop
